//! Runs a command.

use std::path::Path;

use clap::CommandFactory as _;
use server::{AgentConfig, Config, ControllersConfig, JoinToken, NodeRole, Selection};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{AgentArgs, Args, BackupArgs, Command, ControllersArgs, DataDir, LogFormat, RestoreArgs, ServerArgs};
use crate::report::{CommandError, Ended};
use crate::reports::RolloutCommand;
use crate::{planning, reports};

/// The Kubernetes release whose API is spoken, with this program's own version as build metadata.
pub const GIT_VERSION: &str = concat!("v1.37.0+setpoint-", env!("CARGO_PKG_VERSION"));

/// Runs the command asked for.
pub fn run(args: Args) -> Result<Ended, CommandError> {
    match args.command {
        Command::Up(args) => crate::up::up(&args)?,
        Command::Server(args) => serve(&args)?,
        Command::Agent(args) => agent(&args)?,
        Command::Token(args) => return ask(crate::token::run(&args)),
        Command::Controllers(args) => control(args)?,
        Command::Plan(args) => return ask(planning::plan(&args)),
        Command::Apply(args) => return ask(planning::apply(&args)),
        Command::Drift(args) => return ask(reports::drift(&args)),
        Command::Blame(args) => return ask(reports::blame(&args)),
        Command::History(args) => return ask(reports::history(&args)),
        Command::Undo(args) => return ask(crate::undo::undo(&args)),
        Command::Fights(args) => return ask(reports::fights(&args)),
        Command::Why(args) => return ask(reports::why(&args)),
        Command::Wait(args) | Command::Rollout(RolloutCommand::Status(args)) => return ask(reports::wait(&args)),
        Command::Backup(args) => backup(&args)?,
        Command::Restore(args) => restore(&args)?,
        Command::Fsck(data) => fsck(&data)?,
        Command::Image(args) => crate::image::run(&args)?,
        Command::Version => println!("setpoint {} (Kubernetes API {GIT_VERSION})", env!("CARGO_PKG_VERSION")),
        Command::Completion { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "setpoint", &mut std::io::stdout());
        }
    }
    Ok(Ended::Well)
}

/// Runs a command that asks a server.
fn ask(command: impl Future<Output = Result<Ended, CommandError>>) -> Result<Ended, CommandError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

fn serve(args: &ServerArgs) -> Result<(), CommandError> {
    start_logging(args.log_format, "info");
    let config = config_of(args)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let shown = config.kubeconfig.clone();
    runtime.block_on(async move {
        let stop = told_to_stop()?;
        let started = move |started: server::Started| {
            let address = started.address;
            tracing::info!(%address, kubeconfig = %shown.as_deref().unwrap_or(Path::new("")).display(), "the API is served");
        };
        server::run(config, started, stop).await.map_err(CommandError::from)
    })
}

fn agent(args: &AgentArgs) -> Result<(), CommandError> {
    start_logging(args.log_format, "info");
    let token = args.token.as_deref().map(|token| JoinToken::parse(token, args.ca_cert_hash.as_deref())).transpose();
    let config = AgentConfig {
        server: args.join.clone(),
        token: token.map_err(std::io::Error::other)?,
        data_dir: args.data.path(),
        role: args.node_args.role(node_name(&args.node_name))?,
        listen: args.listen,
        address: args.node_ip,
        version: GIT_VERSION.to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let stop = told_to_stop()?;
        server::run_agent(config, stop).await.map_err(CommandError::from)
    })
}

fn control(args: ControllersArgs) -> Result<(), CommandError> {
    start_logging(args.log_format, "info");
    let config = ControllersConfig {
        kubeconfig: args.kubeconfig,
        context: args.context,
        leader_elect: args.leader_elect,
        impersonate: args.impersonate,
        controllers: Selection::new(args.controllers),
        scheduler: args.scheduler,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async move {
        let stop = told_to_stop()?;
        server::run_controllers(config, stop).await.map_err(CommandError::from)
    })
}

/// Resolves on SIGTERM or SIGINT.
fn told_to_stop() -> std::io::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        tracing::info!("stopping");
    })
}

/// What the options of a server say.
pub(crate) fn config_of(args: &ServerArgs) -> Result<Config, CommandError> {
    Ok(Config {
        data_dir: args.data.path(),
        listen: args.listen,
        names: args.tls_san.clone(),
        cluster_cidr: args.cluster_cidr.clone(),
        kubeconfig: crate::args::kubeconfig(args.kubeconfig.as_ref()),
        controllers: !args.no_controllers,
        simulated_nodes: usize::try_from(args.simulated_nodes)?,
        node: args.node.as_ref().map(|name| node_role(args, name)).transpose()?,
        compaction_interval: std::time::Duration::from_secs(args.compaction_interval),
        connections_max: server::CONNECTIONS_MAX,
        git_version: GIT_VERSION.to_owned(),
    })
}

/// The node on this machine, called `name` or, if that is empty, as the machine is.
pub(crate) fn node_role(args: &ServerArgs, name: &str) -> Result<NodeRole, CommandError> {
    args.node_args.role(node_name(name))
}

/// The name of this machine's node: as given, or the machine's own.
pub(crate) fn node_name(given: &str) -> String {
    let own = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = if given.is_empty() { own() } else { given.to_owned() };
    let name = name.trim().to_lowercase();
    if name.is_empty() || name == "(none)" { "localhost".to_owned() } else { name }
}

pub(crate) fn start_logging(format: LogFormat, usual: &str) {
    let filter = EnvFilter::try_from_env("SETPOINT_LOG").unwrap_or_else(|_| EnvFilter::new(usual));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_target(false).init(),
        LogFormat::Json => builder.json().init(),
    }
}

fn backup(args: &BackupArgs) -> Result<(), CommandError> {
    let file = std::path::absolute(&args.file)?;
    let data_dir = args.data.path();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (items, revision) = match runtime.block_on(server::ask_backup(&data_dir, &file)) {
        Some(answer) => answer.map_err(std::io::Error::other)?,
        // No server runs on it: the store can be opened here.
        None => {
            let disk = store_disk::Disk::open(&data_dir.join("store"), store_disk::Options::default())?;
            let info = disk.backup(&file)?;
            disk.close().map_err(|error| std::io::Error::other(format!("{error:?}")))?;
            (info.items, info.revision.0)
        }
    };
    println!("{items} objects at revision {revision} in {}", file.display());
    Ok(())
}

fn restore(args: &RestoreArgs) -> Result<(), CommandError> {
    let directory = args.data.path().join("store");
    std::fs::create_dir_all(&directory)?;
    let info = store_disk::restore(&args.file, &directory, &store_disk::Options::default())?;
    println!("{} objects as of revision {} restored into {}", info.items, info.revision, directory.display());
    Ok(())
}

fn fsck(data: &DataDir) -> Result<(), CommandError> {
    let report = store_disk::fsck(&data.path().join("store"))?;
    println!(
        "revision {}, {} objects, {} bytes; {} segments, {} frames, {} transactions",
        report.revision, report.items, report.bytes, report.segments, report.frames, report.transactions
    );
    if report.torn_tail.is_some() {
        println!("an unacknowledged write at the end of the log will be dropped by the next start");
    }
    for name in &report.leftovers {
        println!("{name} is left over and will be removed by the next start");
    }
    match report.damage {
        None => Ok(()),
        Some(damage) => Err(damage.into()),
    }
}
