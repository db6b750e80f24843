//! How much of everything an image may be.

use std::time::Duration;

/// Limits that one image, or the work on it, is held to.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Of all layers, unpacked. 64 GiB: the largest images in use (machine learning) are near 30.
    pub unpacked_bytes_max: u64,
    /// Of one blob as downloaded. 32 GiB, by the same measure.
    pub blob_bytes_max: u64,
    /// Of one image's config. Real ones have some KiB.
    pub config_bytes_max: u64,
    /// Of one layer. The largest in use have about 400,000 files.
    pub entries_max: u64,
    /// How many bytes may come of one compressed byte, once `expansion_free_bytes` are exceeded. Text packs to a
    /// tenth, deflate cannot do more than 1:1032; zeros in layers are what hostile archives are made of.
    pub expansion_max: u64,
    /// What may come of however few bytes: small layers of zeros do exist.
    pub expansion_free_bytes: u64,
    /// How long a connection may stay without a byte.
    pub stall_timeout: Duration,
    /// How long connecting and the TLS handshake may take.
    pub connect_timeout: Duration,
    /// How often a request is tried.
    pub attempts_max: u32,
    /// The pause before the second try; it doubles with every further one.
    pub retry_pause: Duration,
    /// The longest pause between tries, also where the registry asks for more.
    pub retry_pause_max: Duration,
    /// Layers of one image downloaded at a time: what containerd and Docker do.
    pub parallel_downloads_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            unpacked_bytes_max: 64 << 30,
            blob_bytes_max: 32 << 30,
            config_bytes_max: 8 << 20,
            entries_max: 2_000_000,
            expansion_max: 200,
            expansion_free_bytes: 1 << 30,
            stall_timeout: Duration::from_secs(60),
            connect_timeout: Duration::from_secs(30),
            attempts_max: 5,
            retry_pause: Duration::from_millis(500),
            retry_pause_max: Duration::from_secs(30),
            parallel_downloads_max: 3,
        }
    }
}
