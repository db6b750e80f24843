//! Pulls an image and prints where its layers are: `cargo run -p oci --example pull -- REFERENCE DIRECTORY`. For
//! checks against registries of others. Needs root.

use std::error::Error;

use oci::{Hosts, Images, Keyring, PullOptions, Reference, Registries, StoreOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let reference = Reference::parse(&arguments.next().ok_or("which image?")?)?;
    let directory = arguments.next().ok_or("into which directory?")?;
    let keyring = match arguments.next() {
        Some(file) => Keyring::from_docker_config(&std::fs::read(file)?)?,
        None => Keyring::default(),
    };
    let images = Images::open(directory.as_ref(), StoreOptions::default())?;
    let options = PullOptions { keyring, ..PullOptions::new(Registries::new(Hosts::default())) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let image = runtime.block_on(images.pull(&reference, &options)).map_err(|error| error.message())?;
    println!("{} {}", image.repo_digest(), image.id);
    image.layers.iter().for_each(|layer| println!("{}", layer.display()));
    Ok(())
}
