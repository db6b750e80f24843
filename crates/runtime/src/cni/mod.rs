//! The pod network as a CNI plugin, for runtimes that are not embedded: the same bridge, range and interfaces.
//!
//! The runtime starts the program for every sandbox that comes or goes, by the name of the plugin; what to do is in
//! its environment and on its standard input. It needs no server: a sandbox can go while none runs.

mod install;
mod ledger;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use contract::Cidr;
use rustix::thread::LinkNameSpaceType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use install::{Installed, install, other_network};
use ledger::Ledger;

use crate::net::{self, NetworkConfig};
use crate::record::NetRecord;

/// The plugin's name, and that of the one that every runtime expects beside it.
const PLUGIN: &str = "setpoint-cni";
const LOOPBACK: &str = "loopback";
/// The version of the specification that the configuration is written in, and all that are understood.
const VERSION: &str = "1.0.0";
const VERSIONS: [&str; 4] = ["0.3.0", "0.3.1", "0.4.0", VERSION];
/// A configuration is a few lines; an earlier plugin's result may be in it.
const INPUT_BYTES_MAX: u64 = 1 << 20;

/// Codes of errors by the specification.
const INCOMPATIBLE: u32 = 1;
const ENVIRONMENT: u32 = 4;
const INPUT: u32 = 7;
const TRY_AGAIN: u32 = 11;
const OWN: u32 = 100;

/// What the runtime is told on standard error's place: a code and words.
#[derive(Debug)]
struct Failure {
    code: u32,
    message: String,
}

fn failed(doing: &str) -> impl Fn(io::Error) -> Failure {
    let doing = doing.to_owned();
    move |error| Failure { code: OWN, message: format!("{doing}: {error}") }
}

/// The part of the configuration that is ours.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Conf {
    cni_version: String,
    name: String,
    r#type: String,
    bridge: String,
    pod_cidr: String,
    mtu: u32,
    /// Where addresses in use are remembered.
    state_dir: PathBuf,
}

/// What the environment says.
#[derive(Debug, Default)]
struct Call {
    command: String,
    container: String,
    netns: Option<PathBuf>,
    interface: String,
}

/// Whether the program was started as a plugin.
pub fn is_called(program: Option<&OsStr>) -> bool {
    let name = program.map(Path::new).and_then(Path::file_name);
    name.is_some_and(|name| name == PLUGIN || name == LOOPBACK) && std::env::var_os("CNI_COMMAND").is_some()
}

/// Does what the runtime asks for.
pub fn main() -> ExitCode {
    let mut conf = Conf { cni_version: VERSION.to_owned(), ..Conf::default() };
    let done = read_conf(&mut conf).and_then(|()| perform(&conf, &Call::of_environment()?));
    let (text, code) = match done {
        Ok(answer) => (answer, ExitCode::SUCCESS),
        Err(failure) => {
            let error = json!({"cniVersion": conf.cni_version, "code": failure.code, "msg": failure.message});
            (error, ExitCode::FAILURE)
        }
    };
    // A runtime that does not listen any more needs no answer.
    if !text.is_null() {
        let _ = writeln!(io::stdout(), "{text}");
    }
    code
}

fn read_conf(conf: &mut Conf) -> Result<(), Failure> {
    let mut text = Vec::new();
    io::stdin().take(INPUT_BYTES_MAX).read_to_end(&mut text).map_err(failed("read the configuration"))?;
    *conf = serde_json::from_slice(&text)
        .map_err(|error| Failure { code: INPUT, message: format!("the configuration: {error}") })?;
    Ok(())
}

impl Call {
    fn of_environment() -> Result<Call, Failure> {
        let text = |name: &str| std::env::var(name).unwrap_or_default();
        let call = Call {
            command: text("CNI_COMMAND"),
            container: text("CNI_CONTAINERID"),
            netns: std::env::var_os("CNI_NETNS").filter(|path| !path.is_empty()).map(PathBuf::from),
            interface: text("CNI_IFNAME"),
        };
        call.check().map(|()| call)
    }

    /// Names become parts of paths and names of interfaces.
    fn check(&self) -> Result<(), Failure> {
        let is_word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
        let is_named = !self.container.is_empty() && is_word(&self.container) && !self.container.starts_with('.');
        let is_interface = (1..=15).contains(&self.interface.len()) && is_word(&self.interface);
        if self.command != "VERSION" && !(is_named && is_interface) {
            let message = "CNI_CONTAINERID and CNI_IFNAME have to be names".to_owned();
            return Err(Failure { code: ENVIRONMENT, message });
        }
        Ok(())
    }

    fn netns(&self) -> Result<&Path, Failure> {
        let missing = || Failure { code: ENVIRONMENT, message: "CNI_NETNS is missing".to_owned() };
        self.netns.as_deref().ok_or_else(missing)
    }

    /// The host's end of the pair; names of interfaces hold 15 bytes.
    fn host_interface(&self) -> String {
        contract::host_interface(&self.container)
    }
}

fn perform(conf: &Conf, call: &Call) -> Result<Value, Failure> {
    if call.command == "VERSION" {
        return Ok(json!({"cniVersion": VERSION, "supportedVersions": VERSIONS}));
    }
    if !VERSIONS.contains(&conf.cni_version.as_str()) {
        let message = format!("version {:?} is none of {}", conf.cni_version, VERSIONS.join(", "));
        return Err(Failure { code: INCOMPATIBLE, message });
    }
    match (conf.r#type.as_str(), call.command.as_str()) {
        (LOOPBACK, "ADD") => add_loopback(conf, call),
        (LOOPBACK, _) => Ok(Value::Null),
        (_, "ADD") => add(conf, call),
        (_, "DEL") => delete(conf, call),
        (_, "CHECK") => check(conf, call),
        (_, other) => Err(Failure { code: ENVIRONMENT, message: format!("CNI_COMMAND {other:?} is not known") }),
    }
}

/// Moves this thread, the only one, into a network namespace.
fn enter(netns: &File) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(netns.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn add_loopback(conf: &Conf, call: &Call) -> Result<Value, Failure> {
    let netns = call.netns()?;
    let file = File::open(netns).map_err(failed("open the network namespace"))?;
    enter(&file).and_then(|()| net::loopback_up()).map_err(failed("set the loopback interface up"))?;
    Ok(json!({
        "cniVersion": conf.cni_version,
        "interfaces": [{"name": "lo", "mac": "00:00:00:00:00:00", "sandbox": netns}],
        "ips": [address(conf, Ipv4Addr::LOCALHOST, 8, None)],
    }))
}

/// Before 1.0.0 addresses named their family.
fn address(conf: &Conf, address: Ipv4Addr, prefix: u8, gateway: Option<Ipv4Addr>) -> Value {
    let mut ip = json!({"address": format!("{address}/{prefix}"), "interface": 0});
    if let Some(gateway) = gateway {
        ip["gateway"] = json!(gateway);
        ip["interface"] = json!(1);
    }
    if conf.cni_version != VERSION {
        ip["version"] = json!("4");
    }
    ip
}

fn add(conf: &Conf, call: &Call) -> Result<Value, Failure> {
    let netns = call.netns()?;
    let range: Cidr = conf.pod_cidr.parse().map_err(|message| Failure { code: INPUT, message })?;
    let network = NetworkConfig { bridge: conf.bridge.clone(), pod_cidr: Some(range), mtu: conf.mtu, forward: true };
    let file = File::open(netns).map_err(failed("open the network namespace"))?;
    net::ensure_bridge(&network, range).map_err(failed(&format!("set up bridge {}", network.bridge)))?;
    // Held until the interface stands: an address without one is free again.
    let ledger = Ledger::open(&conf.state_dir).map_err(failed("open the list of addresses"))?;
    let host_interface = call.host_interface();
    let found = ledger.take(range, &host_interface).map_err(failed("take an address"))?;
    let Some(own) = found else {
        return Err(Failure { code: TRY_AGAIN, message: format!("no free address in {range}") });
    };
    let record = NetRecord {
        bridge: network.bridge,
        address: own,
        prefix: range.prefix,
        gateway: range.gateway(),
        mtu: network.mtu,
    };
    let connected = net::connect(&record, &host_interface, file.as_fd(), |configure| {
        enter(&file)?;
        configure()
    });
    if let Err(error) = connected {
        // The interface goes with the namespace, if it came to be.
        let _ = ledger.give_back(&host_interface);
        return Err(failed("connect the sandbox")(error));
    }
    Ok(json!({
        "cniVersion": conf.cni_version,
        "interfaces": [{"name": host_interface}, {"name": call.interface, "sandbox": netns}],
        "ips": [address(conf, own, range.prefix, Some(range.gateway()))],
        "routes": [{"dst": "0.0.0.0/0", "gw": range.gateway()}],
    }))
}

fn delete(conf: &Conf, call: &Call) -> Result<Value, Failure> {
    let host_interface = call.host_interface();
    net::delete(&host_interface).map_err(failed("delete the interface"))?;
    let ledger = Ledger::open(&conf.state_dir).map_err(failed("open the list of addresses"))?;
    ledger.give_back(&host_interface).map_err(failed("give the address back"))?;
    Ok(Value::Null)
}

fn check(conf: &Conf, call: &Call) -> Result<Value, Failure> {
    let host_interface = call.host_interface();
    let ledger = Ledger::open(&conf.state_dir).map_err(failed("open the list of addresses"))?;
    let is_known = ledger.holds(&host_interface).map_err(failed("look for the address"))?;
    if is_known && ledger::has_interface(&host_interface) {
        return Ok(Value::Null);
    }
    Err(Failure { code: OWN, message: format!("{host_interface} is not connected") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        let check = |command: &str, container: &str, interface: &str, expected: bool| {
            let call = Call {
                command: command.to_owned(),
                container: container.to_owned(),
                interface: interface.to_owned(),
                ..Call::default()
            };
            assert_eq!(call.check().is_ok(), expected, "{call:?}");
        };
        check("ADD", "0123456789abcdef", "eth0", true);
        check("VERSION", "", "", true);
        check("ADD", "", "eth0", false);
        check("ADD", "../x", "eth0", false);
        check("DEL", "a", "eth0/../x", false);
        check("ADD", "a", "an-interface-too-long", false);
    }

    #[test]
    fn versions_and_commands() {
        let ask = |command: &str, version: &str| {
            let conf = Conf { cni_version: version.to_owned(), ..Conf::default() };
            let call = Call { command: command.to_owned(), ..Call::default() };
            perform(&conf, &call).map_err(|failure| failure.code)
        };
        assert_eq!(ask("VERSION", "").expect("versions")["supportedVersions"][3], "1.0.0");
        assert_eq!(ask("ADD", "0.1.0"), Err(INCOMPATIBLE));
        assert_eq!(ask("GUESS", "1.0.0"), Err(ENVIRONMENT));
    }
}
