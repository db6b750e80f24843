//! Room, balance, and images that are there already.

use crate::ask::Ask;
use crate::cache::Cache;
use crate::images::Images;
use crate::node_info::NodeInfo;
use crate::statics::Liking;
use crate::topology::NodeIx;

use super::SCORE_MAX;

/// Images smaller than this do not matter (bytes).
const IMAGE_BYTES_MIN: i64 = 23 * 1024 * 1024;
/// Bytes per container from which on more do not matter.
const IMAGE_BYTES_MAX: i64 = 1000 * 1024 * 1024;

/// Adds the scores for room, balance and images (each of weight 1).
pub fn add_scores(cache: &Cache, ask: &Ask, nodes: &[(NodeIx, Liking)], totals: &mut [i64]) {
    let images = cache.images.known(&ask.wants.images);
    let is_best_effort = ask.wants.requests.cpu_milli == 0 && ask.wants.requests.memory == 0;
    for ((at, _), total) in nodes.iter().zip(totals) {
        let Some(node) = cache.node(*at) else { continue };
        *total += room(ask, node);
        if !is_best_effort {
            *total += balance(ask, node);
        }
        if !images.is_empty() {
            *total += locality(&cache.images, &images, ask.wants.images.len(), *at, cache.node_count());
        }
    }
}

/// How much would be left: the mean of cpu and memory.
fn room(ask: &Ask, node: &NodeInfo) -> i64 {
    let all = [node.allocatable.cpu_milli, node.allocatable.memory];
    let (mut sum, mut count) = (0, 0);
    for (at, all) in all.into_iter().enumerate().filter(|(_, all)| *all > 0) {
        let used = node.scored[at].saturating_add(ask.wants.scored[at]);
        let left = i128::from(all) - i128::from(used);
        // Fits: at most a hundred.
        sum += if left > 0 { (left * i128::from(SCORE_MAX) / i128::from(all)) as i64 } else { 0 };
        count += 1;
    }
    if count == 0 { 0 } else { sum / count }
}

/// How evenly cpu and memory would be used: a node full of one is of no use for the other.
fn balance(ask: &Ask, node: &NodeInfo) -> i64 {
    let share =
        |all: i64, used: i64, want: i64| (all > 0).then(|| (used.saturating_add(want) as f64 / all as f64).min(1.0));
    let (all, used, want) = (&node.allocatable, &node.used, &ask.wants.requests);
    let cpu = share(all.cpu_milli, used.cpu_milli, want.cpu_milli);
    let memory = share(all.memory, used.memory, want.memory);
    let deviation = match (cpu, memory) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    };
    ((1.0 - deviation) * SCORE_MAX as f64) as i64
}

/// How much need not be fetched; what is on few nodes counts less, so that they are not flooded.
fn locality(images: &Images, wanted: &[u32], containers: usize, at: NodeIx, nodes: usize) -> i64 {
    let bytes = |image: &u32| {
        let (bytes, on) = images.on_node(at, *image)?;
        Some((bytes as f64 * f64::from(on) / nodes.max(1) as f64) as i64)
    };
    let sum: i64 = wanted.iter().filter_map(bytes).sum();
    let most = IMAGE_BYTES_MAX.saturating_mul(containers.max(1) as i64);
    SCORE_MAX * (sum.clamp(IMAGE_BYTES_MIN, most) - IMAGE_BYTES_MIN) / (most - IMAGE_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ask, cpu, node, object};
    use serde_json::json;

    #[test]
    fn room_and_balance() {
        let mut info = NodeInfo::new(object("core/nodes", &node("n1", "a")), 1);
        // 100m of 4 and 200 Mi of 8 Gi are guessed.
        assert_eq!(room(&ask("p", json!({})), &info), (97 + 97) / 2);
        info.add(&ask("there", cpu(2000)));
        assert_eq!(room(&ask("p", cpu(1000)), &info), (25 + 95) / 2);
        assert_eq!(balance(&ask("p", cpu(1000)), &info), 62);
    }

    #[test]
    fn images_count_by_how_common_they_are() {
        let image =
            |name: &str, bytes: i64| brain::facts::ContainerImage { names: [name.into()].into(), size_bytes: bytes };
        let mut images = Images::default();
        images.place(0, Some(&[image("web:latest", IMAGE_BYTES_MAX)]));
        images.place(1, Some(&[]));
        let wanted = images.known(&["web:latest".into(), "other:latest".into()]);
        assert_eq!(locality(&images, &wanted, 1, 0, 1), 100);
        assert_eq!(locality(&images, &wanted, 1, 1, 1), 0);
        assert!(locality(&images, &wanted, 1, 0, 2) < 50);
        images.place(0, None);
        assert!(images.known(&["web:latest".into()]).is_empty());
    }
}
