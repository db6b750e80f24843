//! History ages out: pages of a list and watches go on only for so long, as clients of Kubernetes expect.

use std::sync::Arc;
use std::time::Duration;

use store::Store;

/// Forgets, once an interval, what was history one interval ago; so a revision stays readable for one to two
/// intervals. The store bounds its history by size besides.
pub async fn follow(store: Arc<dyn Store>, interval: Duration) {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut through = None;
    loop {
        ticks.tick().await;
        if let Some(through) = through {
            store.compact(through);
        }
        through = Some(store.snapshot().revision());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::{Key, Keyspace, Mem, Op, Revision, Txn};

    fn write(store: &Mem) -> Revision {
        let key = Key::new("core/configmaps", "a/b");
        let put = Op::Put {
            key,
            value: "{}".into(),
            annex: bytes::Bytes::new(),
            stamp_at: None,
            keyspace: Keyspace::Durable,
        };
        store.submit(Txn { preconditions: Vec::new(), ops: vec![put] }, Box::new(|_| {}));
        store.snapshot().revision()
    }

    #[tokio::test(start_paused = true)]
    async fn a_revision_stays_for_one_interval_and_goes_within_two() {
        let interval = Duration::from_secs(300);
        let store = Arc::new(Mem::default());
        let first = write(&store);
        write(&store);
        tokio::spawn(follow(store.clone(), interval));
        tokio::time::sleep(interval - Duration::from_secs(1)).await;
        assert!(store.snapshot_at(first).is_ok());
        write(&store);
        tokio::time::sleep(interval).await;
        assert!(store.snapshot_at(first).is_err(), "the first revision is forgotten");
    }
}
