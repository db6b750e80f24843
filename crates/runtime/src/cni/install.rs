//! Makes a runtime use the plugin: its configuration, and this program under the plugins' names.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use contract::Cidr;
use serde_json::json;

use super::{LOOPBACK, PLUGIN, VERSION};
use crate::net::{self, NetworkConfig};

/// The configuration's file: runtimes take the first by name.
const FILE: &str = "10-setpoint.conflist";
/// What runtimes read.
const EXTENSIONS: [&str; 3] = ["conf", "conflist", "json"];

/// Whose network pods get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Installed {
    /// Ours.
    Own,
    /// The one that this file configures: who put it there wants it.
    Other(PathBuf),
}

/// Writes the configuration for `network` with the range `pod_cidr` into `conf_dir` and links `program` into `bin_dir`;
/// what was written for an earlier range goes. Another's configuration is left alone, and then so is everything.
pub fn install(
    network: &NetworkConfig,
    pod_cidr: Cidr,
    state_dir: &Path,
    (conf_dir, bin_dir): (&Path, &Path),
    program: &Path,
) -> io::Result<Installed> {
    fs::create_dir_all(conf_dir)?;
    if let Some(other) = other_network(conf_dir)? {
        return Ok(Installed::Other(other));
    }
    net::remove_leftovers(&network.bridge, pod_cidr)?;
    fs::create_dir_all(bin_dir)?;
    link(&bin_dir.join(PLUGIN), program, true)?;
    // The usual plugin serves as well, where it is.
    link(&bin_dir.join(LOOPBACK), program, false)?;
    let conf = json!({
        "cniVersion": VERSION, "name": "setpoint", "plugins": [{
            "type": PLUGIN, "bridge": network.bridge, "podCidr": pod_cidr.to_string(), "mtu": network.mtu,
            "stateDir": state_dir,
        }],
    });
    // Runtimes watch the directory: the file appears whole.
    let (whole, file) = (conf_dir.join(".setpoint.tmp"), conf_dir.join(FILE));
    fs::write(&whole, format!("{conf:#}\n"))?;
    fs::rename(&whole, &file)?;
    Ok(Installed::Own)
}

/// The file in a runtime's directory by which pods get another network than ours.
pub fn other_network(conf_dir: &Path) -> io::Result<Option<PathBuf>> {
    let mut found = Vec::new();
    let entries = match fs::read_dir(conf_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let is_read = path.extension().and_then(|end| end.to_str()).is_some_and(|end| EXTENSIONS.contains(&end));
        if is_read && path.file_name().is_some_and(|name| name != FILE) {
            found.push(path);
        }
    }
    Ok(found.into_iter().min())
}

/// A link to the program. A real file of that name is somebody else's; a link that leads nowhere is nobody's.
fn link(path: &Path, program: &Path, is_ours: bool) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_symlink() || (!is_ours && path.exists()) => return Ok(()),
        Ok(_) | Err(_) => {}
    }
    let whole = path.with_extension("tmp");
    match fs::remove_file(&whole) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::os::unix::fs::symlink(program, &whole)?;
    fs::rename(&whole, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_ours_unless_there_is_another() {
        let directory = tempfile::tempdir().expect("a directory");
        let (conf, bin) = (directory.path().join("net.d"), directory.path().join("bin"));
        let network = NetworkConfig { bridge: "b0".to_owned(), pod_cidr: None, mtu: 1500, forward: true };
        let program = Path::new("/proc/self/exe");
        assert_eq!(other_network(&conf).expect("looked"), None);
        let put = |range: &str| {
            let range = range.parse().expect("a range");
            install(&network, range, Path::new("/state"), (&conf, &bin), program).expect("installed")
        };
        assert_eq!((put("10.9.0.0/24"), put("10.1.0.0/24")), (Installed::Own, Installed::Own));
        let text = fs::read_to_string(conf.join(FILE)).expect("a file");
        assert!(text.contains("\"podCidr\": \"10.1.0.0/24\""), "{text}");
        assert_eq!(fs::read_link(bin.join(PLUGIN)).expect("a link"), program);
        assert_eq!(fs::read_link(bin.join(LOOPBACK)).expect("a link"), program);
        fs::write(conf.join("20-other.conf"), "{}").expect("written");
        fs::write(conf.join("00-note.txt"), "").expect("written");
        assert_eq!(put("10.2.0.0/24"), Installed::Other(conf.join("20-other.conf")));
    }
}
