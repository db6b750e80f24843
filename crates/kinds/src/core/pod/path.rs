//! Paths inside volumes and on nodes.

use crate::check::{At, Faults};

/// The path does not climb.
pub(crate) fn no_backsteps(at: &At, faults: &mut Faults) {
    if at.text().split('/').any(|part| part == "..") {
        faults.push(at.invalid_as(at.text(), "must not contain '..'"));
    }
}

/// The path is relative and does not climb.
pub(crate) fn descending(at: &At, faults: &mut Faults) {
    if at.text().starts_with('/') {
        faults.push(at.invalid("must be a relative path"));
    }
    no_backsteps(at, faults);
}

/// Such a path that also leaves alone the names which projected volumes use for themselves.
pub(crate) fn unreserved(at: &At, faults: &mut Faults) {
    descending(at, faults);
    if at.text().starts_with("..") && !at.text().starts_with("../") {
        faults.push(at.invalid("must not start with '..'"));
    }
}
