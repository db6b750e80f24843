//! Figures of unpacking and pulling: `cargo run --release -p oci --example figures`. Needs root, and loopback only.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use clock::{Clock as _, SystemClock};
use oci::{Digest, Hosts, Images, ImportOptions, PullOptions, Reference, Registries, StoreOptions};

/// Of the image: two layers of half this.
const MEGABYTES: usize = 100;
const FILES: usize = 2_000;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let clock = SystemClock::new();
    let root = std::env::temp_dir().join(format!("setpoint-figures-{}", std::process::id()));
    let layout = root.join("layout");
    let manifest = make_layout(&layout)?;
    // What was used up to here is not to count.
    std::fs::write("/proc/self/clear_refs", "5")?;
    let before = peak_kilobytes();
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let served = Arc::new(layout.clone());
    let _server = std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (layout, manifest) = (Arc::clone(&served), manifest.clone());
            std::thread::spawn(move || answer(stream, &layout, &manifest).map_err(|error| eprintln!("{error}")));
        }
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let images = Images::open(&root.join("pulled"), StoreOptions::default())?;
    let start = clock.monotonic();
    let reference = Reference::parse(&format!("{address}/big:v1"))?;
    let image = runtime.block_on(images.pull(&reference, &PullOptions::new(Registries::new(Hosts::default()))))?;
    let seconds = (clock.monotonic() - start).as_secs_f64();
    println!("pulled {:.0} MB from loopback and unpacked {MEGABYTES} MB in {seconds:.2} s", image.size as f64 / 1e6);
    println!("memory: {} KiB before, {} KiB at most while pulling", before, peak_kilobytes());
    let images = Images::open(&root.join("imported"), StoreOptions::default())?;
    let start = clock.monotonic();
    images.import(&layout, &ImportOptions { name: Some(reference), ..ImportOptions::default() })?;
    let seconds = (clock.monotonic() - start).as_secs_f64();
    println!("imported in {seconds:.2} s: {:.0} MB/s unpacked, {FILES} files", MEGABYTES as f64 / seconds);
    Ok(std::fs::remove_dir_all(&root)?)
}

/// The most memory that the process ever had.
fn peak_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

/// Writes an image as an OCI layout. The digest of its manifest.
fn make_layout(layout: &Path) -> Outcome<String> {
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs)?;
    let keep = |bytes: &[u8]| -> Outcome<serde_json::Value> {
        let digest = Digest::of(bytes);
        std::fs::write(blobs.join(digest.hex()), bytes)?;
        Ok(serde_json::json!({"digest": digest, "size": bytes.len()}))
    };
    let (mut layers, mut diff_ids) = (Vec::new(), Vec::new());
    for part in 0..2u64 {
        let mut archive = tar::Builder::new(Vec::new());
        let mut seed = part + 1;
        for n in 0..FILES / 2 {
            let bytes = noise(&mut seed, MEGABYTES * 1_000_000 / FILES);
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            archive.append_data(&mut header, format!("usr/{part}/{}/{n}", n % 20), bytes.as_slice())?;
        }
        let plain = archive.into_inner()?;
        diff_ids.push(Digest::of(&plain));
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&plain)?;
        layers.push(keep(&packed.finish()?)?);
    }
    let config = serde_json::json!({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": diff_ids}});
    let config = keep(config.to_string().as_bytes())?;
    let manifest = serde_json::json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string();
    let entry = keep(manifest.as_bytes())?;
    let index = serde_json::json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    std::fs::write(layout.join("index.json"), index)?;
    Ok(Digest::of(manifest.as_bytes()).to_string())
}

/// Bytes that pack to about half, as those of programs do.
fn noise(seed: &mut u64, count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count + 8);
    while bytes.len() < count {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bytes.extend_from_slice(&(*seed >> 32).to_le_bytes());
    }
    bytes.truncate(count);
    bytes
}

/// Serves the layout's blobs as a registry would.
fn answer(mut stream: TcpStream, layout: &Path, manifest: &str) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 && stream.read(&mut byte)? == 1 {
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default();
    let last = path.rsplit('/').next().unwrap_or_default();
    let digest = Digest::parse(if path.contains("/manifests/") { manifest } else { last });
    let name = digest.map(|digest| digest.hex().to_owned()).unwrap_or_default();
    let mut file = std::fs::File::open(layout.join("blobs/sha256").join(name))?;
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", file.metadata()?.len())?;
    std::io::copy(&mut file, &mut stream).map(drop)
}
