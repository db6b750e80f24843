//! What machine an image is for.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Operating system, architecture and its variant, in Go's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Platform {
    /// `linux`.
    pub os: String,
    /// `amd64`, `arm64`.
    pub architecture: String,
    /// `v8`; empty for what the architecture means without one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub variant: String,
}

impl Platform {
    /// From its three names, brought to one spelling.
    pub fn new(os: &str, architecture: &str, variant: &str) -> Platform {
        let (architecture, variant) = match (architecture, variant) {
            ("x86_64" | "x86-64" | "amd64", "v1") => ("amd64", ""),
            ("x86_64" | "x86-64", variant) => ("amd64", variant),
            ("i386", _) => ("386", ""),
            ("aarch64" | "arm64", "8" | "v8") => ("arm64", ""),
            ("aarch64", variant) => ("arm64", variant),
            ("armhf", _) => ("arm", "v7"),
            ("armel", _) => ("arm", "v6"),
            ("arm", "" | "7") => ("arm", "v7"),
            ("arm", "5") => ("arm", "v5"),
            ("arm", "6") => ("arm", "v6"),
            ("arm", "8") => ("arm", "v8"),
            other => other,
        };
        Platform { os: os.to_owned(), architecture: architecture.to_owned(), variant: variant.to_owned() }
    }

    /// The machine that this program was built for.
    pub fn host() -> Platform {
        let architecture = match std::env::consts::ARCH {
            "powerpc64" => "ppc64le",
            "x86" => "386",
            other => other,
        };
        Platform::new("linux", architecture, "")
    }

    /// How well an image for `other` suits this machine: the lower, the better; none if it does not run.
    fn distance(&self, other: &Platform) -> Option<usize> {
        let other = Platform::new(&other.os, &other.architecture, &other.variant);
        if self.os != other.os {
            return None;
        }
        self.runnable().iter().position(|(a, v)| *a == other.architecture && *v == other.variant)
    }

    /// What this machine runs, best first.
    fn runnable(&self) -> Vec<(&str, &str)> {
        let variants: &[&str] = match (self.architecture.as_str(), self.variant.as_str()) {
            ("arm", "v8") => &["v8", "v7", "v6", "v5"],
            ("arm", "v7") => &["v7", "v6", "v5"],
            ("arm", "v6") => &["v6", "v5"],
            ("amd64", "v4") => &["v4", "v3", "v2", ""],
            ("amd64", "v3") => &["v3", "v2", ""],
            ("amd64", "v2") => &["v2", ""],
            (_, "") => &[""],
            (architecture, variant) => return vec![(architecture, variant), (architecture, "")],
        };
        variants.iter().map(|variant| (self.architecture.as_str(), *variant)).collect()
    }

    /// The index of what suits best, the first of equals; what does not tell its platform is taken to suit.
    pub(crate) fn choose(&self, offers: &[Option<Platform>]) -> Option<usize> {
        let rank = |offer: &Option<Platform>| match offer {
            Some(platform) => self.distance(platform),
            // After everything that says it suits.
            None => Some(usize::MAX),
        };
        let ranked = offers.iter().enumerate().filter_map(|(index, offer)| Some((rank(offer)?, index)));
        ranked.min().map(|(_, index)| index)
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        if self.variant.is_empty() { Ok(()) } else { write!(f, "/{}", self.variant) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn platform(text: &str) -> Platform {
        let mut parts = text.split('/');
        let mut next = || parts.next().unwrap_or("");
        Platform::new(next(), next(), next())
    }

    #[test]
    fn the_best_suited_is_chosen() {
        let check = |own: &str, offers: &[&str], expected: Option<usize>| {
            let offers: Vec<_> = offers.iter().map(|o| (!o.is_empty()).then(|| platform(o))).collect();
            assert_eq!(platform(own).choose(&offers), expected, "{own} {offers:?}");
        };
        check("linux/amd64", &["linux/arm64", "linux/amd64"], Some(1));
        check("linux/amd64", &["linux/amd64/v3", "linux/x86_64"], Some(1));
        check("linux/amd64", &["linux/arm64", "windows/amd64", "unknown/unknown"], None);
        check("linux/arm64", &["linux/arm64/v8"], Some(0));
        check("linux/arm/v7", &["linux/arm/v5", "linux/arm/v6", "linux/arm64"], Some(1));
        check("linux/arm/v6", &["linux/arm/v7"], None);
        check("linux/amd64", &["", "linux/amd64"], Some(1));
        check("linux/amd64", &["linux/arm64", ""], Some(1));
        check("linux/amd64", &[], None);
    }
}
