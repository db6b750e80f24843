//! `setpoint token`: the words by which machines join.

use std::time::Duration;

use admit::bootstrap_token::{self as tokens, BootstrapToken};
use clap::Subcommand;
use clock::{Clock, Ids, SystemClock, SystemIds};
use http::Method;
use meta::ObjectExt;
use serde_json::Value;

use crate::api::{Api, Refused};
use crate::reach::ReachArgs;
use crate::report::{CommandError, Ended};

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const API_ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints/kubernetes";

/// Options of `token`.
#[derive(Debug, clap::Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a token and print it.
    Create {
        /// How long it is valid: 90s, 30m, 24h, 7d; 0 for ever.
        #[arg(long, default_value = "24h", value_parser = span)]
        ttl: Duration,
        /// What it is for.
        #[arg(long, default_value = "")]
        description: String,
        /// Print the whole command for the machine that is to join.
        #[arg(long)]
        print_join_command: bool,
        #[command(flatten)]
        reach: ReachArgs,
    },
    /// List the tokens, without their secrets.
    List {
        #[command(flatten)]
        reach: ReachArgs,
    },
    /// Make tokens invalid.
    Delete {
        /// Their first six characters, or the whole of them.
        #[arg(required = true)]
        tokens: Vec<String>,
        #[command(flatten)]
        reach: ReachArgs,
    },
}

impl What {
    fn reach(&self) -> &ReachArgs {
        match self {
            What::Create { reach, .. } | What::List { reach } | What::Delete { reach, .. } => reach,
        }
    }
}

/// Runs the command.
pub async fn run(args: &TokenArgs) -> Result<Ended, CommandError> {
    let (api, access) = args.what.reach().open_with_access()?;
    match &args.what {
        What::Create { ttl, description, print_join_command, .. } => {
            let mut random = [0; 22];
            SystemIds.fill(&mut random);
            let token = BootstrapToken::from_random(&random);
            let expires = (!ttl.is_zero()).then(|| SystemClock::new().now().after(*ttl));
            api.call(Method::POST, SECRETS, "application/json", &token.object(description, expires)).await?;
            let authority = access.authorities.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
            let pin = pki::public_key_hash(&authority).ok_or_else(|| CommandError {
                source: Box::new(std::io::Error::other("the kubeconfig names no certificate-authority")),
                hint: Some("use the kubeconfig that the server wrote".to_owned()),
            })?;
            let words = format!("{}.{}@{pin}", token.id, token.secret);
            match print_join_command {
                true => println!("setpoint agent --join {} --token {words}", server(&api, &access).await),
                false => println!("{words}"),
            }
        }
        What::List { .. } => list(&api).await?,
        What::Delete { tokens: given, .. } => {
            for token in given {
                let id = token.split(['.', '@']).next().unwrap_or_default();
                let path = format!("{SECRETS}/{}", tokens::secret_name(id));
                api.call(Method::DELETE, &path, "application/json", &Value::Null).await?;
                println!("token {id:?} deleted");
            }
        }
    }
    Ok(Ended::Well)
}

/// Where other machines reach the server: as the kubeconfig says, or, where that is this machine alone, as the cluster
/// itself is told.
async fn server(api: &Api, access: &client::Access) -> String {
    let host = access.server.host().unwrap_or("").trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    let told: Result<Value, Refused> = if is_here { api.get(API_ENDPOINTS).await } else { Ok(Value::Null) };
    let subset = told.ok().and_then(|endpoints| endpoints.items(&["subsets"]).first().cloned()).unwrap_or_default();
    let address = subset.items(&["addresses"]).first().map(|address| address.text(&["ip"]).to_owned());
    let port = subset.items(&["ports"]).first().and_then(|port| port.int(&["port"]));
    match (address, port) {
        (Some(address), Some(port)) => format!("https://{address}:{port}"),
        _ => access.server.to_string().trim_end_matches('/').to_owned(),
    }
}

async fn list(api: &Api) -> Result<(), CommandError> {
    let selector = format!("fieldSelector=type%3D{}", tokens::SECRET_TYPE.replace('/', "%2F"));
    let found = api.get(&format!("{SECRETS}?{selector}")).await?;
    let now = SystemClock::new().now();
    println!("{:<8} {:<10} {:<22} DESCRIPTION", "ID", "TTL", "EXPIRES");
    for secret in found.items(&["items"]) {
        let (left, until) = match tokens::expiration(secret) {
            Ok(None) => ("<forever>".to_owned(), "<never>".to_owned()),
            Ok(Some(at)) if at <= now => ("<expired>".to_owned(), at.to_rfc3339()),
            Ok(Some(at)) => (shown(at.since(now)), at.to_rfc3339()),
            Err(_) => ("<invalid>".to_owned(), "<invalid>".to_owned()),
        };
        let (id, description) = (tokens::field(secret, "token-id"), tokens::field(secret, "description"));
        println!("{id:<8} {left:<10} {until:<22} {description}");
    }
    Ok(())
}

/// The two largest units.
fn shown(left: Duration) -> String {
    let seconds = left.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// The longest time that a token may be valid: ten years.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// `24h`, `30m`, `90s`, `7d`, `0`.
fn span(text: &str) -> Result<Duration, String> {
    let refuse = || format!("{text:?} is not a time such as 90s, 30m, 24h, 7d or 0");
    let (number, unit) = match text.char_indices().last() {
        Some((at, unit)) if unit.is_ascii_alphabetic() => (&text[..at], unit),
        Some(_) => (text, 's'),
        None => return Err(refuse()),
    };
    let number: u64 = number.parse().map_err(|_| refuse())?;
    let seconds = match unit {
        's' => Some(number),
        'm' => number.checked_mul(60),
        'h' => number.checked_mul(3_600),
        'd' => number.checked_mul(86_400),
        _ => None,
    };
    seconds.filter(|seconds| *seconds <= SECONDS_MAX).map(Duration::from_secs).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
        for (text, expected, as_shown) in [
            ("24h", Some(86_400), "1d0h"),
            ("90s", Some(90), "1m"),
            ("90", Some(90), "1m"),
            ("7d", Some(604_800), "7d0h"),
            ("5h", Some(18_000), "5h0m"),
            ("0", Some(0), "0s"),
            ("h", None, ""),
            ("", None, ""),
            ("1y", None, ""),
            ("99999999999d", None, ""),
            ("5\u{e9}", None, ""),
        ] {
            let read = span(text).ok();
            assert_eq!(read.map(|span| span.as_secs()), expected, "{text}");
            assert_eq!(read.map(shown).unwrap_or_default(), as_shown);
        }
    }
}
