//! Signals as images and pods write them.

/// A signal by name or number, as images and pods write it.
pub(crate) fn signal(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse::<i32>() {
        return (1..=64).contains(&number).then_some(number);
    }
    let name = text.strip_prefix("SIG").unwrap_or(text);
    if let Some(offset) = name.strip_prefix("RTMIN+").and_then(|offset| offset.parse::<i32>().ok()) {
        return (0..=30).contains(&offset).then_some(34 + offset);
    }
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM",
        "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF",
        "WINCH", "IO", "PWR", "SYS",
    ];
    NAMES.iter().position(|known| *known == name).and_then(|at| i32::try_from(at + 1).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals() {
        let check = |text: &str, expected: Option<i32>| assert_eq!(signal(text), expected, "{text}");
        check("SIGTERM", Some(15));
        check("QUIT", Some(3));
        check("9", Some(9));
        check("SIGRTMIN+3", Some(37));
        check("", None);
        check("SIGNOPE", None);
        check("0", None);
    }
}
