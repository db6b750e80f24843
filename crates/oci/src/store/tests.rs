//! The store: what is added is whole, what is removed is gone, whatever instant the process dies at.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clock::ManualClock;
use stdx::Time;

use super::*;
use crate::fixture::{self, Built, Layer};
use crate::{Digest, ImageError, ImportOptions, Platform, Reference};

type Files = Vec<(String, Vec<u8>)>;

const NAME: &str = "registry.example/small:v1";

struct Bench {
    root: tempfile::TempDir,
    clock: Arc<ManualClock>,
}

impl Bench {
    fn new() -> Bench {
        Bench { root: tempfile::tempdir().unwrap(), clock: Arc::new(ManualClock::at(Time::from_secs(1_000_000))) }
    }

    fn open(&self) -> Images {
        let options = StoreOptions {
            clock: Arc::clone(&self.clock) as Arc<dyn clock::Clock>,
            platform: Platform::new("linux", "amd64", ""),
            ..StoreOptions::default()
        };
        Images::open(&self.root.path().join("store"), options).unwrap()
    }

    fn layout(&self, built: &Built, name: &str) -> std::path::PathBuf {
        let path = self.root.path().join(Digest::of(name.as_bytes()).hex());
        fixture::write_files(&path, &fixture::layout(built, name));
        path
    }
}

fn names(images: &Images) -> Vec<String> {
    images.list().unwrap().into_iter().map(|image| image.name).collect()
}

fn count(root: &Path, directory: &str) -> usize {
    std::fs::read_dir(root.join("store").join(directory)).unwrap().count()
}

#[test]
fn an_import_is_an_image() {
    let (bench, built) = (Bench::new(), fixture::small());
    let images = bench.open();
    let found = images.import(&bench.layout(&built, NAME), &ImportOptions::default()).unwrap();
    assert_eq!(found.len(), 1);
    let image = images.get("registry.example/small:v1").unwrap().unwrap();
    assert_eq!(image, found[0]);
    assert_eq!((&image.id, &image.digest), (&built.config, &built.manifest));
    assert_eq!(image.repo_digest(), format!("registry.example/small@{}", built.manifest));
    assert_eq!(image.config.cmd, ["/run"]);
    assert_eq!(std::fs::read_to_string(image.layers[0].join("bin/run")).unwrap(), "run");
    assert_eq!(std::fs::read_to_string(image.layers[1].join("new")).unwrap(), "new");
    // Whichever way it is asked for.
    for name in [built.config.to_string(), image.repo_digest()] {
        assert_eq!(images.get(&name).unwrap().as_ref(), Some(&image), "{name}");
    }
    assert_eq!(images.get(&format!("registry.example/other@{}", built.manifest)).unwrap(), None);
    assert!(matches!(images.get("No:Name"), Err(ImageError::InvalidName { .. })));
    // A second process sees the same, and a start removes nothing.
    assert_eq!(bench.open().list().unwrap(), [image]);
}

#[test]
fn archives_of_all_forms_give_the_same_layers() {
    let built = fixture::small();
    let files = fixture::layout(&built, NAME);
    let oci = fixture::tar_files(&files);
    let top = Layer::new().file("saved", "saved").done();
    let config = serde_json::json!({"os": "linux", "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(&top), Digest::of(&top)]}});
    let manifest = serde_json::json!([{"Config": "c.json", "RepoTags": ["saved:v1", "saved:v2"],
        "Layers": ["l/layer.tar", "m/layer.tar"]}]);
    let mut saved = tar::Builder::new(fixture::tar_files(&[]));
    saved.get_mut().clear();
    for (name, bytes) in [("l/layer.tar", top), ("c.json", config.to_string().into_bytes())] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        saved.append_data(&mut header, name, bytes.as_slice()).unwrap();
    }
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    saved.append_link(&mut link, "m/layer.tar", "../l/layer.tar").unwrap();
    let text = manifest.to_string().into_bytes();
    let mut header = tar::Header::new_gnu();
    header.set_size(text.len() as u64);
    saved.append_data(&mut header, "manifest.json", text.as_slice()).unwrap();
    let saved = saved.into_inner().unwrap();

    let check = |bytes: Vec<u8>, expected: &[&str]| {
        let bench = Bench::new();
        let path = bench.root.path().join("archive");
        std::fs::write(&path, bytes).unwrap();
        let images = bench.open();
        images.import(&path, &ImportOptions::default()).unwrap();
        assert_eq!(names(&images), expected);
        assert_eq!(count(bench.root.path(), "tmp"), 0);
    };
    check(fixture::gzip(&oci), &[NAME]);
    check(fixture::zstd(&oci), &[NAME]);
    check(oci, &[NAME]);
    check(saved, &["docker.io/library/saved:v1", "docker.io/library/saved:v2"]);
}

#[test]
fn what_is_wrong_with_an_archive_is_told() {
    let check = |change: &dyn Fn(&mut Files), reason: &str| {
        let bench = Bench::new();
        let mut files = fixture::layout(&fixture::small(), NAME);
        change(&mut files);
        let path = bench.root.path().join("archive");
        std::fs::write(&path, fixture::tar_files(&files)).unwrap();
        let images = bench.open();
        let error = images.import(&path, &ImportOptions::default()).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert!(names(&images).is_empty());
        images.sweep(&InUse::default()).unwrap();
        let left = ["blobs/sha256", "layers", "tmp"].map(|directory| count(bench.root.path(), directory));
        assert_eq!(left, [0, 0, 0]);
    };
    check(&|files| files.retain(|(name, _)| name != "index.json"), "neither an OCI layout");
    check(
        &|files| files.retain(|(name, bytes)| !name.contains("blobs") || bytes.starts_with(b"{")),
        "the archive has no",
    );
    check(&|files| files.iter_mut().for_each(|(_, bytes)| bytes.extend(b" ")), "unexpected digest");
    check(&|files| files[0].1.truncate(9), "digest");
    check(&|files| files.last_mut().unwrap().1 = b"{\"schemaVersion\":2,\"manifests\":[]}".to_vec(), "lists no image");
}

#[test]
fn names_come_and_go_but_layers_in_use_stay() {
    let (bench, built) = (Bench::new(), fixture::small());
    let images = bench.open();
    images.import(&bench.layout(&built, NAME), &ImportOptions::default()).unwrap();
    images.tag(NAME, &Reference::parse("other").unwrap()).unwrap();
    assert_eq!(names(&images), ["docker.io/library/other:latest", NAME]);
    let layers = images.get(NAME).unwrap().unwrap().layers;
    assert!(images.remove(NAME).unwrap() && !images.remove(NAME).unwrap());
    images.sweep(&InUse::default()).unwrap();
    assert_eq!(count(bench.root.path(), "layers"), 2);
    assert!(images.remove(built.config.as_str()).unwrap());
    let in_use = InUse { layers: layers.iter().cloned().collect(), ..InUse::default() };
    images.sweep(&in_use).unwrap();
    assert_eq!((count(bench.root.path(), "layers"), count(bench.root.path(), "blobs/sha256")), (2, 0));
    assert!(images.sweep(&InUse::default()).unwrap().freed_bytes > 0);
    assert_eq!(count(bench.root.path(), "layers"), 0);
}

#[test]
fn garbage_goes_by_age_and_use() {
    let bench = Bench::new();
    let images = bench.open();
    let one = |text: &str| {
        let layer = Layer::new().file("f", text).done();
        fixture::image(&[(layer.clone(), layer)])
    };
    for name in ["old", "used", "pinned"] {
        let options = ImportOptions { pinned: name == "pinned", ..ImportOptions::default() };
        images.import(&bench.layout(&one(name), name), &options).unwrap();
    }
    bench.clock.advance(Duration::from_secs(100));
    images.import(&bench.layout(&one("young"), "young"), &ImportOptions::default()).unwrap();
    bench.clock.advance(Duration::from_secs(60));
    let used = images.get("used").unwrap().unwrap();
    let in_use = InUse { images: [used.id].into(), ..InUse::default() };
    let short = |name: &str| format!("docker.io/library/{name}:latest");
    // As full as can be: all that may go goes.
    let full = GcPolicy { high_percent: 0, low_percent: 0, ..GcPolicy::default() };
    let report = images.gc(&in_use, &full).unwrap();
    assert_eq!(report.removed, [short("old")]);
    assert!(report.missing_bytes > 0 && report.freed_bytes > 0);
    assert_eq!(names(&images), ["pinned", "used", "young"].map(short));
    // Not full: only what was long unused.
    bench.clock.advance(Duration::from_secs(200));
    let idle = GcPolicy { high_percent: 100, unused_max: Some(Duration::from_secs(230)), ..GcPolicy::default() };
    assert_eq!(images.gc(&InUse::default(), &idle).unwrap().removed, [short("young")]);
    bench.clock.advance(Duration::from_secs(31));
    assert_eq!(images.gc(&InUse::default(), &idle).unwrap().removed, [short("used")]);
    assert_eq!(names(&images), [short("pinned")]);
}

#[test]
fn nothing_is_collected_under_another_process() {
    let bench = Bench::new();
    let (images, other) = (bench.open(), bench.open());
    let work = Work::begin(&other.inner).unwrap();
    assert!(matches!(images.sweep(&InUse::default()), Err(ImageError::Busy(_))));
    assert!(matches!(images.sweep(&InUse::default()), Err(ImageError::Busy(_))));
    // A start beside it leaves its temporary files alone.
    let tmp = other.inner.layout.tmp();
    std::fs::write(&tmp, "on its way").unwrap();
    let _third = bench.open();
    assert!(tmp.exists());
    drop(work);
    assert!(images.sweep(&InUse::default()).is_ok());
    let _fourth = bench.open();
    assert!(!tmp.exists());
}

#[test]
fn what_a_work_pinned_is_not_collected() {
    let bench = Bench::new();
    let images = bench.open();
    let layout = &images.inner.layout;
    let digest = Digest::of(b"x");
    let work = Work::begin(&images.inner).unwrap();
    work.pin(&digest);
    layout.write_file(&layout.blob(&digest), b"x").unwrap();
    images.sweep(&InUse::default()).unwrap();
    assert!(layout.blob(&digest).exists());
    drop(work);
    images.sweep(&InUse::default()).unwrap();
    assert!(!layout.blob(&digest).exists());
}

/// Runs `work` on stores that die after 0, 1, 2... steps; after each death, what the next start finds is checked, and
/// doing the work again must succeed.
fn die_everywhere(prepare: impl Fn(&Bench), work: impl Fn(&Bench, &Images) -> Result<(), ImageError>) -> u64 {
    for steps in 0.. {
        let bench = Bench::new();
        prepare(&bench);
        let dying = bench.open();
        dying.inner.layout.steps_left.store(steps, Ordering::SeqCst);
        let outcome = work(&bench, &dying);
        drop(dying);
        let images = bench.open();
        assert_eq!(count(bench.root.path(), "tmp"), 0);
        for image in images.list().unwrap() {
            assert_eq!(std::fs::read_to_string(image.layers[0].join("bin/run")).unwrap(), "run");
            assert_eq!(std::fs::read_to_string(image.layers[1].join("new")).unwrap(), "new");
        }
        work(&bench, &images).unwrap();
        if outcome.is_ok() {
            return steps;
        }
    }
    0
}

#[test]
fn dying_anywhere_leaves_nothing_half_done() {
    let import = |bench: &Bench, images: &Images| {
        let path = bench.root.path().join("in");
        fixture::write_files(&path, &fixture::layout(&fixture::small(), NAME));
        images.import(&path, &ImportOptions::default())?;
        assert_eq!(names(images), [NAME]);
        Ok(())
    };
    let steps = die_everywhere(|_| {}, import);
    assert!(steps > 20, "{steps}");
    let clear = |_: &Bench, images: &Images| {
        images.remove(NAME)?;
        images.sweep(&InUse::default())?;
        assert!(names(images).is_empty());
        Ok(())
    };
    let steps = die_everywhere(|bench| import(bench, &bench.open()).unwrap(), clear);
    assert!(steps > 15, "{steps}");
}

#[test]
fn an_export_is_imported_as_the_same_image() {
    let (bench, built) = (Bench::new(), fixture::small());
    let images = bench.open();
    let image = images.import(&bench.layout(&built, NAME), &ImportOptions::default()).unwrap().remove(0);
    let mut archive = Vec::new();
    images.export(NAME, &mut archive).unwrap();
    let mut again = Vec::new();
    images.export(image.id.as_str(), &mut again).unwrap();
    assert!(archive == again);
    let other = Bench::new();
    let path = other.root.path().join("archive.tar");
    std::fs::write(&path, archive).unwrap();
    let found = other.open().import(&path, &ImportOptions::default()).unwrap().remove(0);
    assert_eq!((found.name, found.id, found.digest), (image.name, image.id, image.digest));
    assert!(matches!(images.export("gone", &mut Vec::new()), Err(ImageError::NotFound(_))));
}

#[test]
fn a_directory_is_imported_once() {
    let bench = Bench::new();
    let directory = bench.root.path().join("archives");
    std::fs::create_dir(&directory).unwrap();
    let images = bench.open();
    let import = || {
        let done = images.import_directory(&directory);
        done.into_iter()
            .map(|(path, result)| (path.file_name().unwrap().to_owned(), result.is_ok()))
            .collect::<Vec<_>>()
    };
    assert!(import().is_empty());
    let archive = fixture::tar_files(&fixture::layout(&fixture::small(), NAME));
    std::fs::write(directory.join("a.tar.gz"), fixture::gzip(&archive)).unwrap();
    std::fs::write(directory.join("b.tar"), "garbage").unwrap();
    std::fs::write(directory.join("notes.txt"), "not an archive").unwrap();
    assert_eq!(import(), [("a.tar.gz".into(), true), ("b.tar".into(), false)]);
    assert!(images.get(NAME).unwrap().unwrap().pinned);
    // Removed by somebody, it stays removed, also under another name; what failed is tried again.
    images.remove(NAME).unwrap();
    std::fs::copy(directory.join("a.tar.gz"), directory.join("c.tar.gz")).unwrap();
    assert_eq!(import(), [("b.tar".into(), false)]);
}
