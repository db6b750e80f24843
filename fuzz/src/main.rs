//! One program for all targets, so that one build serves them: `SETPOINT_FUZZ_TARGET` names the one to drive.
//! `SETPOINT_FUZZ_SEEDS` names a directory that the target's seeds are written into before the run.

#![no_main]

use std::path::Path;
use std::sync::LazyLock;

use fuzz_targets::Target;
use libfuzzer_sys::fuzz_target;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("SETPOINT_FUZZ_TARGET").unwrap_or_default();
    fuzz_targets::target(&name).unwrap_or_else(|| panic!("SETPOINT_FUZZ_TARGET names no target: {name:?}"))
});

fn begin() {
    // libFuzzer's hook ends the process at any panic, but those inside the interpreter of expressions are caught by
    // design. A panic that is not caught still ends the process.
    drop(std::panic::take_hook());
    if let Some(directory) = std::env::var_os("SETPOINT_FUZZ_SEEDS") {
        let directory = Path::new(&directory);
        for (at, seed) in (TARGET.seeds)().iter().enumerate() {
            std::fs::write(directory.join(format!("seed-{at}")), seed).expect("a seed can be written");
        }
    }
}

fuzz_target!(init: begin(), |data: &[u8]| (TARGET.run)(data));
