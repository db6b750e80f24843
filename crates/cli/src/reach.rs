//! How commands reach a server: by the kubeconfig that kubectl uses too.

use std::path::PathBuf;
use std::sync::Arc;

use client::{Access, Https, read_kubeconfig};
use clock::SystemClock;
use kinds::Catalog;
use meta::ObjectExt;
use planner::Reference;

use crate::api::{Api, Refused};
use crate::report::CommandError;

/// Which server, as whom.
#[derive(Debug, clap::Args)]
pub struct ReachArgs {
    /// The kubeconfig [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one].
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
}

impl ReachArgs {
    /// A client of that server.
    pub(crate) fn open(&self) -> Result<Api, CommandError> {
        Ok(self.open_with_access()?.0)
    }

    /// The same, and what the kubeconfig says.
    pub(crate) fn open_with_access(&self) -> Result<(Api, Access), CommandError> {
        let path = crate::args::kubeconfig(self.kubeconfig.as_ref());
        let path =
            path.ok_or_else(|| std::io::Error::other("no kubeconfig is named, and there is no home directory"))?;
        let access = read_kubeconfig(&path, self.context.as_deref()).map_err(|error| CommandError {
            source: Box::new(error),
            hint: Some("start a server with 'setpoint up' or name its kubeconfig with --kubeconfig".to_owned()),
        })?;
        let api = Api::new(Https::open(&access, Arc::new(SystemClock::new()))?);
        Ok((api, access))
    }
}

/// What a person typed for an object: `deployment/web` or `deploy web`.
#[derive(Debug, clap::Args)]
pub struct ObjectArgs {
    /// KIND/NAME, as kubectl takes it.
    pub object: String,
    /// Its namespace.
    #[arg(short = 'n', long, default_value = "default")]
    pub namespace: String,
    #[command(flatten)]
    pub reach: ReachArgs,
    /// How to print.
    #[arg(short = 'o', long, value_enum, default_value_t = Form::Text)]
    pub output: Form,
}

/// How answers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// For people.
    Text,
    /// The documented form of docs/plan.md.
    Json,
}

/// The object that `KIND/NAME` means.
pub(crate) async fn find(api: &Api, typed: &str, namespace: &str) -> Result<Reference, CommandError> {
    let bad = || std::io::Error::other(format!("{typed:?} is not KIND/NAME"));
    let (kind, name) =
        typed.split_once('/').filter(|(kind, name)| !kind.is_empty() && !name.is_empty()).ok_or_else(bad)?;
    let kind = kind.to_lowercase();
    if let Some(known) = Catalog::built_in().find(&kind) {
        return Ok(Reference {
            api_version: known.group_version().to_string(),
            kind: known.kind.to_string(),
            namespace: if known.is_namespaced() { namespace.to_owned() } else { String::new() },
            name: name.to_owned(),
        });
    }
    let unknown = || Refused {
        reason: "NotFound".to_owned(),
        message: format!("the server does not have a resource type {kind:?}"),
    };
    let list = api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions").await?;
    let is_it = |definition: &&serde_json::Value| {
        let names = definition.at(&["spec", "names"]).cloned().unwrap_or_default();
        let short = names.items(&["shortNames"]).iter().any(|short| short.as_str() == Some(&*kind));
        short || names.text(&["singular"]) == kind || names.text(&["plural"]) == kind || definition.name() == kind
    };
    let found = list.items(&["items"]).iter().find(is_it).ok_or_else(unknown)?;
    let versions = found.items(&["spec", "versions"]).iter();
    let version = versions.filter(|version| version.flag(&["served"])).find(|version| version.flag(&["storage"]));
    Ok(Reference {
        api_version: format!("{}/{}", found.text(&["spec", "group"]), version.map_or("v1", |v| v.text(&["name"]))),
        kind: found.text(&["spec", "names", "kind"]).to_owned(),
        namespace: if found.text(&["spec", "scope"]) == "Namespaced" { namespace.to_owned() } else { String::new() },
        name: name.to_owned(),
    })
}
