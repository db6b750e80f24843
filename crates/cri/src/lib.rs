//! Any container runtime that speaks CRI v1 (containerd, CRI-O), behind the contract that the embedded one fulfils.
//!
//! [`CriRuntime`] is the contract's `ContainerRuntime`, [`CriImages`] what there is of images. Nothing that matters is
//! kept here: what runs is found again by its labels, so that either side may be started again at any time.

mod answer;
mod cache;
mod channel;
mod health;
mod images;
mod labels;
mod logs;
mod network;
mod request;
mod runtime;
mod stream;
mod subpath;
mod watch;
mod wire;

pub use images::{CriImage, CriImages};
pub use network::PodNetwork;
pub use runtime::{Config, CriRuntime, RuntimeInfo};
