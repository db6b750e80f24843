//! Names of interfaces that more than one side has to know.

/// The machine's end of the pair of interfaces that joins a sandbox to the pod network. What it receives, the pod has
/// sent.
pub fn host_interface(sandbox: &str) -> String {
    format!("sp{}", sandbox.get(..12).unwrap_or(sandbox))
}
