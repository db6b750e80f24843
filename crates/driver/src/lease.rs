//! Who of several processes acts: a Lease that one of them holds, as every Kubernetes component does it.
//!
//! The decision is pure and knows nothing of wall clocks: a record is as old as the time since it was last seen to
//! change. The holder stops acting at the renew deadline, before anybody else may begin.

use std::sync::Arc;
use std::time::Duration;

use brain::{Call, Refused, Resource, call, path_of};
use client::Transport;
use clock::{Clock, Ids};
use meta::{ObjectExt, Time};
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::perform::Hands;
use crate::source::Source;

const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases");
/// How long others wait for a holder that is silent (upstream's defaults, all three).
const LEASE_SECONDS: u64 = 15;
/// A holder that could not renew for so long gives up.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// How often the holder renews and the others look.
const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Which Lease, and as whom.
pub struct Candidate {
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// Who this process is; unique.
    pub identity: String,
}

/// What is known of the Lease.
#[derive(Clone, Debug, Default, PartialEq)]
struct Seen {
    /// The Lease as last read; null when there is none.
    lease: Value,
    /// Since when (monotonic) its record is the same.
    since: Duration,
}

impl Seen {
    fn update(&mut self, lease: Value, now: Duration) {
        if lease.get("spec") != self.lease.get("spec") {
            self.since = now;
        }
        self.lease = lease;
    }
}

/// What a candidate does next.
#[derive(Clone, Debug, PartialEq)]
enum Bid {
    /// Somebody else holds it.
    Wait,
    /// Makes the Lease.
    Create(Value),
    /// Takes or renews it, if it is still as it was seen.
    Update(Value),
}

fn bid(candidate: &Candidate, seen: &Seen, monotonic: Duration, now: Time) -> Bid {
    let (lease, stamp) = (&seen.lease, now.to_rfc3339_micros());
    let holder = lease.text(&["spec", "holderIdentity"]);
    let is_mine = holder == candidate.identity;
    let seconds = lease.int(&["spec", "leaseDurationSeconds"]).and_then(|s| u64::try_from(s).ok());
    let expires = seen.since.saturating_add(Duration::from_secs(seconds.unwrap_or(LEASE_SECONDS)));
    if !lease.is_null() && !is_mine && !holder.is_empty() && monotonic < expires {
        return Bid::Wait;
    }
    let transitions = lease.int(&["spec", "leaseTransitions"]).unwrap_or(0);
    let mut spec = json!({
        "holderIdentity": candidate.identity, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": stamp,
        "acquireTime": stamp, "leaseTransitions": 0,
    });
    if lease.is_null() {
        return Bid::Create(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": candidate.name, "namespace": candidate.namespace}, "spec": spec,
        }));
    }
    match is_mine {
        true => {
            spec.put(&["acquireTime"], lease.text(&["spec", "acquireTime"]));
            spec.put(&["leaseTransitions"], transitions);
        }
        false => spec.put(&["leaseTransitions"], transitions.saturating_add(1)),
    }
    let mut lease = lease.clone();
    lease.put(&["spec"], spec);
    Bid::Update(lease)
}

/// The Lease as it is given back: nobody has to wait for a process that ended in order.
fn released(lease: &Value, now: Time) -> Value {
    let (mut lease, stamp) = (lease.clone(), now.to_rfc3339_micros());
    let transitions = lease.int(&["spec", "leaseTransitions"]).unwrap_or(0);
    let spec = json!({
        "holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp, "acquireTime": stamp,
        "leaseTransitions": transitions,
    });
    lease.put(&["spec"], spec);
    lease
}

/// Takes part in the election of one Lease.
pub struct Election {
    candidate: Candidate,
    hands: Hands,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    seen: Seen,
}

impl Election {
    /// Takes part through `transport`.
    pub fn new(
        candidate: Candidate,
        transport: Arc<dyn Transport>,
        source: Source,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
    ) -> Election {
        Election {
            candidate,
            hands: Hands::new(transport, source, "setpoint-election"),
            clock,
            ids,
            seen: Seen::default(),
        }
    }

    /// Waits until the Lease is this process's.
    pub async fn win(&mut self) {
        let mut told = String::new();
        while !self.round().await {
            let holder = self.seen.lease.text(&["spec", "holderIdentity"]).to_owned();
            if holder != told {
                tracing::info!(%holder, "another process acts");
                told = holder;
            }
            self.rest().await;
        }
        tracing::info!(identity = %self.candidate.identity, lease = %self.candidate.name, "this process acts");
    }

    /// Renews until that has failed for too long, or somebody else holds the Lease.
    pub async fn hold(&mut self) {
        let mut renewed = self.clock.monotonic();
        loop {
            self.rest().await;
            let left = RENEW_DEADLINE.saturating_sub(self.clock.monotonic().saturating_sub(renewed));
            let asked = self.clock.monotonic();
            match tokio::time::timeout(left, self.round()).await {
                Ok(true) => renewed = asked,
                Ok(false) if self.is_anothers() => break,
                Ok(false) if self.clock.monotonic().saturating_sub(renewed) < RENEW_DEADLINE => {}
                _ => break,
            }
        }
        tracing::error!(lease = %self.candidate.name, "the lease is lost; this process stops acting");
    }

    /// Gives the Lease back.
    pub async fn release(&self) {
        if self.seen.lease.text(&["spec", "holderIdentity"]) != self.candidate.identity {
            return;
        }
        let lease = released(&self.seen.lease, self.clock.now());
        let request = self.request("PUT", &self.candidate.name, &lease);
        if let Err(refused) = self.hands.call(request).await {
            tracing::warn!(message = %refused.message, "the lease could not be given back");
        }
    }

    fn is_anothers(&self) -> bool {
        let holder = self.seen.lease.text(&["spec", "holderIdentity"]);
        !holder.is_empty() && holder != self.candidate.identity
    }

    async fn rest(&self) {
        // Candidates that began together do not stay so: up to a fifth longer (upstream's jitter factor).
        let spread = RETRY_PERIOD.mul_f64((self.ids.number() % 1_024) as f64 / 5_120.0);
        tokio::time::sleep(RETRY_PERIOD + spread).await;
    }

    /// One look and, where due, one write; whether the Lease is this process's now.
    async fn round(&mut self) -> bool {
        let read = self.hands.call(self.request("GET", &self.candidate.name, &Value::Null)).await;
        let lease = match read {
            Ok(lease) => lease,
            Err(refused) if refused.reason == "NotFound" => Value::Null,
            Err(refused) => return lost(&refused),
        };
        self.seen.update(lease, self.clock.monotonic());
        let request = match bid(&self.candidate, &self.seen, self.clock.monotonic(), self.clock.now()) {
            Bid::Wait => return false,
            Bid::Create(lease) => self.request("POST", "", &lease),
            Bid::Update(lease) => self.request("PUT", &self.candidate.name, &lease),
        };
        match self.hands.call(request).await {
            Ok(lease) => {
                self.seen.update(lease, self.clock.monotonic());
                true
            }
            Err(refused) => lost(&refused),
        }
    }

    fn request(&self, method: &'static str, name: &str, body: &Value) -> Call {
        call(method, path_of(&LEASES, &self.candidate.namespace, name, ""), "application/json", body)
    }
}

fn lost(refused: &Refused) -> bool {
    tracing::debug!(code = refused.code, message = %refused.message, "the lease could not be read or written");
    false
}

/// Runs `act` whenever the Lease is this process's. It is told to end, through the receiver, when the Lease is lost
/// or `stop` turns true; after the latter the Lease is given back.
pub async fn run<F: Future<Output = ()>>(
    mut election: Election,
    mut stop: watch::Receiver<bool>,
    mut act: impl FnMut(watch::Receiver<bool>) -> F,
) {
    loop {
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return,
            () = election.win() => {}
        }
        let ending = watch::Sender::new(false);
        let mut acting = std::pin::pin!(act(ending.subscribe()));
        let ended = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => Ended::Stopped,
            () = election.hold() => Ended::Lost,
            () = &mut acting => Ended::Done,
        };
        ending.send_replace(true);
        if ended != Ended::Done {
            acting.await;
        }
        if ended != Ended::Lost {
            election.release().await;
            return;
        }
    }
}

/// Why a term ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ended {
    Stopped,
    Lost,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Candidate {
        Candidate { namespace: "kube-system".to_owned(), name: "setpoint".to_owned(), identity: "me".to_owned() }
    }

    fn lease(holder: &str, transitions: i64) -> Value {
        json!({
            "metadata": {"name": "setpoint", "resourceVersion": "7"},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "acquireTime": "then", "renewTime": "lately",
                "leaseTransitions": transitions,
            },
        })
    }

    /// The bid as holder, acquireTime and leaseTransitions; empty: wait.
    fn check(lease: Value, seen_secs: u64, now_secs: u64, expected: &str) {
        let seen = Seen { lease, since: Duration::from_secs(seen_secs) };
        let told = match bid(&me(), &seen, Duration::from_secs(now_secs), Time::EPOCH) {
            Bid::Wait => String::new(),
            Bid::Create(lease) | Bid::Update(lease) => {
                let spec = &lease["spec"];
                format!("{} {} {}", spec["holderIdentity"], spec["acquireTime"], spec["leaseTransitions"])
            }
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn only_what_nobody_holds_is_taken() {
        const NOW: &str = r#""1970-01-01T00:00:00.000000Z""#;
        check(Value::Null, 0, 0, &format!(r#""me" {NOW} 0"#));
        check(lease("other", 3), 10, 24, "");
        check(lease("other", 3), 10, 25, &format!(r#""me" {NOW} 4"#));
        check(lease("", 3), 10, 10, &format!(r#""me" {NOW} 4"#));
        check(lease("me", 3), 10, 10, r#""me" "then" 3"#);
        check(lease("me", 3), 10, 900, r#""me" "then" 3"#);
    }

    #[test]
    fn a_record_is_as_old_as_its_last_change() {
        let mut seen = Seen::default();
        seen.update(lease("other", 1), Duration::from_secs(5));
        seen.update(lease("other", 1), Duration::from_secs(9));
        assert_eq!(seen.since, Duration::from_secs(5));
        seen.update(lease("other", 2), Duration::from_secs(12));
        assert_eq!(seen.since, Duration::from_secs(12));
    }

    #[test]
    fn what_is_given_back_is_free_at_once() {
        let free = released(&lease("me", 3), Time::EPOCH);
        assert_eq!(free["metadata"]["resourceVersion"], "7", "guarded");
        check(free, 10, 10, r#""me" "1970-01-01T00:00:00.000000Z" 4"#);
    }
}
