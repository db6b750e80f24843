//! Which devices a group may use: rules, and on version 2 the eBPF program that applies them.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use crate::sys;

/// Allows some devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceRule {
    /// `c`, `b`, or `a` for both.
    pub(crate) kind: char,
    /// Any when absent.
    pub(crate) major: Option<u32>,
    pub(crate) minor: Option<u32>,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) mknod: bool,
}

impl DeviceRule {
    /// Everything: for privileged containers.
    pub(crate) const ALL: DeviceRule =
        DeviceRule { kind: 'a', major: None, minor: None, read: true, write: true, mknod: true };

    /// Full use of one character device, or of all minors of one major.
    pub(crate) const fn character(major: u32, minor: Option<u32>) -> DeviceRule {
        DeviceRule { kind: 'c', major: Some(major), minor, read: true, write: true, mknod: true }
    }

    /// What every container may use: null, zero, full, random, urandom, tty, console, ptmx and terminals; and making
    /// nodes, though not opening them.
    pub(crate) fn defaults() -> Vec<DeviceRule> {
        let node = |kind| DeviceRule { kind, major: None, minor: None, read: false, write: false, mknod: true };
        let mut rules = vec![node('c'), node('b')];
        let pairs = [(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)];
        rules.extend(pairs.map(|(major, minor)| DeviceRule::character(major, Some(minor))));
        rules.push(DeviceRule::character(136, None));
        rules
    }

    fn access(self) -> u32 {
        u32::from(self.mknod) | u32::from(self.read) << 1 | u32::from(self.write) << 2
    }
}

/// The form of `devices.allow`.
impl fmt::Display for DeviceRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<u32>| value.map_or("*".to_owned(), |value| value.to_string());
        write!(f, "{} {}:{} ", self.kind, number(self.major), number(self.minor))?;
        for (letter, set) in [('r', self.read), ('w', self.write), ('m', self.mknod)] {
            if set {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// One instruction: code, destination and source registers, jump distance, constant.
fn instruction(code: u8, destination: u8, source: u8, jump: i16, constant: u32) -> u64 {
    u64::from(code)
        | u64::from(destination) << 8
        | u64::from(source) << 12
        | u64::from(jump.cast_unsigned()) << 16
        | u64::from(constant) << 32
}

const LOAD_WORD: u8 = 0x61;
const MOVE: u8 = 0xbc;
const MOVE_CONSTANT: u8 = 0xb4;
const AND_CONSTANT: u8 = 0x54;
const SHIFT_RIGHT_CONSTANT: u8 = 0x74;
const JUMP_UNEQUAL_CONSTANT: u8 = 0x56;
const JUMP_UNEQUAL: u8 = 0x5e;
const EXIT: u8 = 0x95;

/// Registers: 2 the kind, 3 the access asked for, 4 the major number, 5 the minor number.
fn program(rules: &[DeviceRule]) -> Vec<u64> {
    let mut code = vec![
        instruction(LOAD_WORD, 2, 1, 0, 0),
        instruction(MOVE, 3, 2, 0, 0),
        instruction(AND_CONSTANT, 2, 0, 0, 0xffff),
        instruction(SHIFT_RIGHT_CONSTANT, 3, 0, 0, 16),
        instruction(LOAD_WORD, 4, 1, 4, 0),
        instruction(LOAD_WORD, 5, 1, 8, 0),
    ];
    for rule in rules {
        code.extend(block(*rule));
    }
    code.extend([instruction(MOVE_CONSTANT, 0, 0, 0, 0), instruction(EXIT, 0, 0, 0, 0)]);
    code
}

/// Tests of one rule, each of which jumps behind the block when it does not hold; then "allowed".
fn block(rule: DeviceRule) -> Vec<u64> {
    let mut tests: Vec<Vec<(u8, u8, u8, u32)>> = Vec::new();
    match rule.kind {
        'b' => tests.push(vec![(JUMP_UNEQUAL_CONSTANT, 2, 0, 1)]),
        'c' => tests.push(vec![(JUMP_UNEQUAL_CONSTANT, 2, 0, 2)]),
        _ => {}
    }
    if rule.access() != 7 {
        // What is asked for, cut to what is allowed, must be what is asked for.
        tests.push(vec![(MOVE, 1, 3, 0), (AND_CONSTANT, 1, 0, rule.access()), (JUMP_UNEQUAL, 1, 3, 0)]);
    }
    tests.extend(rule.major.map(|major| vec![(JUMP_UNEQUAL_CONSTANT, 4, 0, major)]));
    tests.extend(rule.minor.map(|minor| vec![(JUMP_UNEQUAL_CONSTANT, 5, 0, minor)]));
    let steps: Vec<_> = tests.into_iter().flatten().collect();
    let end = steps.len() + 2;
    let mut code: Vec<u64> = Vec::with_capacity(end);
    for (at, (opcode, destination, source, constant)) in steps.into_iter().enumerate() {
        let jumps = matches!(opcode, JUMP_UNEQUAL | JUMP_UNEQUAL_CONSTANT);
        let distance = if jumps { i16::try_from(end - at - 1).unwrap_or(0) } else { 0 };
        code.push(instruction(opcode, destination, source, distance, constant));
    }
    code.extend([instruction(MOVE_CONSTANT, 0, 0, 0, 1), instruction(EXIT, 0, 0, 0, 0)]);
    code
}

/// Attaches the program for `rules` to the group at `dir`.
pub(super) fn attach(dir: &Path, rules: &[DeviceRule]) -> io::Result<()> {
    if rules.contains(&DeviceRule::ALL) {
        return Ok(());
    }
    sys::attach_device_program(File::open(dir)?.as_fd(), &program(rules))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_written_as_the_kernel_reads_them() {
        let texts: Vec<String> = DeviceRule::defaults().iter().map(DeviceRule::to_string).collect();
        assert_eq!(texts[0], "c *:* m");
        assert_eq!(texts[2], "c 1:3 rwm");
        assert_eq!(texts.last().map(String::as_str), Some("c 136:* rwm"));
        assert_eq!(DeviceRule::ALL.to_string(), "a *:* rwm");
    }

    /// The kernel's verifier accepts the program, where there is a version 2 hierarchy to attach it to.
    #[test]
    fn the_program_loads() {
        let root = Path::new("/sys/fs/cgroup/unified");
        if !rustix::process::geteuid().is_root() || !root.join("cgroup.procs").exists() {
            println!("skipped: needs root and a cgroup2 mount at {}", root.display());
            return;
        }
        let dir = root.join(format!("setpoint-filter-{}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        let result = attach(&dir, &DeviceRule::defaults());
        std::fs::remove_dir(&dir).unwrap();
        result.unwrap();
    }
}
