//! `setpoint image`: the container images in a node's data directory, whether the node runs or not.

use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use oci::{Image, ImageError, Images, ImportOptions, Keyring, PullOptions, Reference, Registries, StoreOptions};

use crate::args::DataDir;
use crate::report::CommandError;

/// Options of `image`.
#[derive(Debug, clap::Args)]
pub struct ImageArgs {
    #[command(subcommand)]
    command: ImageCommand,
}

/// What to do with images.
#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// List the images.
    Ls(DataDir),
    /// Import an archive of `docker save` or an OCI layout (a tar, packed or not, or a directory).
    Import {
        /// The archive or directory.
        file: PathBuf,
        /// Name of the image, instead of those that the archive gives.
        #[arg(long, value_parser = reference)]
        name: Option<Reference>,
        /// Never remove the images to free space.
        #[arg(long)]
        pin: bool,
        #[command(flatten)]
        data: DataDir,
    },
    /// Write an image to a tar that `image import` and `docker load` read.
    Export {
        /// The image, by name or ID.
        image: String,
        /// The file to write; it must not exist.
        file: PathBuf,
        #[command(flatten)]
        data: DataDir,
    },
    /// Pull an image from its registry.
    Pull {
        /// The image.
        #[arg(value_parser = reference)]
        image: Reference,
        /// File of credentials in the form of Docker's config.json.
        #[arg(long, value_name = "FILE")]
        auth_file: Option<PathBuf>,
        /// Address to ask before the registry.
        #[arg(long, value_name = "URL")]
        mirror: Vec<String>,
        /// Speak plain HTTP with this host (loopback addresses need no mention).
        #[arg(long, value_name = "HOST[:PORT]")]
        plain_http: Vec<String>,
        /// File of certificate authorities to trust besides the system's.
        #[arg(long, value_name = "FILE")]
        ca_file: Option<PathBuf>,
        /// File that describes the node's registries [default: registries.yaml in the data directory, where there is one].
        #[arg(long, value_name = "FILE")]
        registries: Option<PathBuf>,
        #[command(flatten)]
        data: DataDir,
    },
    /// Remove images by name or ID. Layers that running containers use stay until those end.
    Rm {
        /// The images.
        #[arg(required = true)]
        images: Vec<String>,
        #[command(flatten)]
        data: DataDir,
    },
}

fn reference(text: &str) -> Result<Reference, ImageError> {
    Reference::parse(text)
}

fn open(data: &DataDir) -> Result<Images, ImageError> {
    Images::open(&data.path().join(oci::STORE_DIRECTORY), StoreOptions::default())
}

/// Runs the command asked for.
pub fn run(args: &ImageArgs) -> Result<(), CommandError> {
    match &args.command {
        ImageCommand::Ls(data) => list(&open(data)?.list()?),
        ImageCommand::Import { file, name, pin, data } => {
            let options = ImportOptions { name: name.clone(), pinned: *pin };
            list(&open(data)?.import(file, &options)?)
        }
        ImageCommand::Export { image, file, data } => export(&open(data)?, image, file),
        ImageCommand::Pull { image, data, .. } => pull(&open(data)?, image, &args.command),
        ImageCommand::Rm { images, data } => {
            let store = open(data)?;
            images.iter().try_for_each(|image| match store.remove(image)? {
                true => Ok(()),
                false => Err(ImageError::NotFound(image.clone()).into()),
            })
        }
    }
}

fn export(images: &Images, image: &str, file: &PathBuf) -> Result<(), CommandError> {
    let mut out = std::io::BufWriter::new(File::create_new(file)?);
    let done = images.export(image, &mut out);
    if done.is_err() {
        // Half an archive is none; the failure to tell is the first.
        let _ = std::fs::remove_file(file);
    }
    done?;
    out.flush()?;
    Ok(out.get_ref().sync_all()?)
}

fn pull(images: &Images, image: &Reference, command: &ImageCommand) -> Result<(), CommandError> {
    let ImageCommand::Pull { auth_file, mirror, plain_http, ca_file, registries, data, .. } = command else {
        return Ok(());
    };
    let mut hosts = server::registries(registries.as_deref(), &data.path()).map_err(std::io::Error::other)?;
    hosts.plain_http.extend(plain_http.iter().cloned());
    if !mirror.is_empty() {
        hosts.mirrors.insert(image.registry().to_owned(), mirror.iter().cloned().map(Into::into).collect());
    }
    if let Some(file) = ca_file {
        hosts.authorities_pem = std::fs::read(file)?;
    }
    let keyring = match auth_file {
        Some(file) => Keyring::from_docker_config(&std::fs::read(file)?)?,
        None => Keyring::default(),
    };
    let options = PullOptions { keyring, ..PullOptions::new(Registries::new(hosts)) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pulled = runtime.block_on(images.pull(image, &options))?;
    list(&[pulled])
}

fn list(images: &[Image]) -> Result<(), CommandError> {
    let width = images.iter().map(|image| image.name.len()).chain([5]).max().unwrap_or(5);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{:width$}  {:19}  {:>9}  PINNED", "IMAGE", "ID", "SIZE")?;
    for image in images {
        let pinned = if image.pinned { "yes" } else { "" };
        let id: String = image.id.as_str().chars().take(19).collect();
        let line = format!("{:width$}  {id:19}  {:>9}  {pinned}", image.name, size(image.size));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        (value, unit) = (value / 1000.0, unit + 1);
    }
    let digits = if unit == 0 || value >= 100.0 { 0 } else { 1 };
    format!("{value:.digits$} {}", units.get(unit).unwrap_or(&""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        let check = |bytes: u64, expected: &str| assert_eq!(size(bytes), expected);
        check(0, "0 B");
        check(999, "999 B");
        check(1_500, "1.5 kB");
        check(123_456_789, "123 MB");
        check(u64::MAX, "18446744 TB");
    }
}
