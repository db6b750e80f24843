//! Which standard a namespace asks for, by its labels.

use std::fmt;

use meta::FieldError;
use meta::labels::Labels;
use serde_json::{Map, Value};

/// How strict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Anything goes.
    #[default]
    Privileged,
    /// No known way out of the container.
    Baseline,
    /// Hardened.
    Restricted,
}

impl Level {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text {
            "privileged" => Ok(Self::Privileged),
            "baseline" => Ok(Self::Baseline),
            "restricted" => Ok(Self::Restricted),
            _ => Err("must be one of privileged, baseline, restricted"),
        }
    }
}

/// Of which release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The newest.
    #[default]
    Latest,
    /// `v1.N`.
    Minor(u32),
}

impl Version {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let wrong = "must be \"latest\" or \"v1.x\"";
        if text == "latest" {
            return Ok(Self::Latest);
        }
        let digits = text.strip_prefix("v1.").ok_or(wrong)?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        if !plain {
            return Err(wrong);
        }
        digits.parse().map(Self::Minor).map_err(|_| wrong)
    }

    /// The number to compare with.
    pub(super) fn minor(self) -> u32 {
        match self {
            Self::Latest => u32::MAX,
            Self::Minor(minor) => minor,
        }
    }
}

/// A standard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelVersion {
    /// How strict.
    pub level: Level,
    /// Of which release.
    pub version: Version,
}

impl fmt::Display for LevelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

/// What is enforced, what is warned of and what is noted in the audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Pods that do not fit are refused.
    pub enforce: LevelVersion,
    /// Objects that do not fit are noted.
    pub audit: LevelVersion,
    /// Their makers are warned.
    pub warn: LevelVersion,
}

const PREFIX: &str = "pod-security.kubernetes.io/";

impl Policy {
    /// Reads a namespace's labels. What is malformed is strict for enforcing and lenient otherwise, and reported.
    pub fn of_labels(labels: Option<&Map<String, Value>>) -> (Self, Vec<FieldError>) {
        let mut reader = Reader { labels, errors: Vec::new() };
        let enforce_level = reader.level("enforce");
        let mut policy = Self {
            enforce: reader.mode("enforce", Level::Restricted),
            audit: reader.mode("audit", Level::Privileged),
            warn: reader.mode("warn", Level::Privileged),
        };
        let silent = reader.get("warn").is_none();
        if let (true, Some(Ok(level))) = (silent, enforce_level)
            && level > policy.warn.level
        {
            policy.warn.level = level;
            if reader.get("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, reader.errors)
    }

    /// Whether nothing is asked for.
    pub fn is_privileged(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|standard| standard.level == Level::Privileged)
    }
}

struct Reader<'l> {
    labels: Option<&'l Map<String, Value>>,
    errors: Vec<FieldError>,
}

impl Reader<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.labels.and_then(|labels| Labels::get(labels, &format!("{PREFIX}{key}")))
    }

    fn level(&self, mode: &str) -> Option<Result<Level, &'static str>> {
        self.get(mode).map(Level::parse)
    }

    fn mode(&mut self, mode: &str, fallback: Level) -> LevelVersion {
        let level = match self.level(mode) {
            None => Level::default(),
            Some(Ok(level)) => level,
            Some(Err(why)) => {
                self.report(mode, why);
                fallback
            }
        };
        let key = format!("{mode}-version");
        let version = match self.get(&key).map(Version::parse) {
            None => Version::default(),
            Some(Ok(version)) => version,
            Some(Err(why)) => {
                self.report(&key, why);
                Version::default()
            }
        };
        LevelVersion { level, version }
    }

    fn report(&mut self, key: &str, why: &str) {
        let value = self.get(key).unwrap_or("").to_owned();
        self.errors.push(FieldError::invalid(format!("metadata.labels[{PREFIX}{key}]"), value, why));
    }
}
