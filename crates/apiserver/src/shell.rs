//! Carries out what the machine decides: reads at a revision, commits, tries again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use api::{Answer, Attempt, Request, Verb, World};
use meta::ApiError;
use store::{Committed, Precondition, Snapshot, Txn, TxnError};
use tokio::sync::oneshot;

use crate::app::App;

/// Attempts of one request when others write the same object. Each waits for the other's write to become visible,
/// so running out of them means heavy contention, which the client should know about.
const ATTEMPTS_MAX: usize = 16;
/// Transactions of one deletecollection: with 500 objects each, 10 million objects.
const BATCHES_MAX: usize = 20_000;
/// How long to wait for the write that stood in the way to become visible.
const VISIBLE_WAIT: Duration = Duration::from_millis(200);

/// Answers an authorised request.
pub async fn run(app: &App, request: &Request) -> Result<Answer, ApiError> {
    if request.verb == Verb::DeleteCollection {
        return run_batches(app, request).await;
    }
    match attempt_until_done(app, request).await? {
        Done::Answer(answer) => Ok(answer),
        Done::Committed(answer) => Ok(answer),
    }
}

async fn run_batches(app: &App, request: &Request) -> Result<Answer, ApiError> {
    for _ in 0..BATCHES_MAX {
        match attempt_until_done(app, request).await? {
            Done::Answer(answer) => return Ok(answer),
            Done::Committed(_) => {}
        }
    }
    Err(ApiError::internal("the collection grew faster than it could be deleted"))
}

enum Done {
    Answer(Answer),
    Committed(Answer),
}

async fn attempt_until_done(app: &App, request: &Request) -> Result<Done, ApiError> {
    let mut conflict = ApiError::internal("no attempt was made");
    // Values that are chosen among those that others have taken hold only while nobody takes one. With a crowd that chooses at
    // a time, all but one of each round would have chosen in vain.
    let _turn = if api::is_choosing(request) { Some(app.choosing.lock().await) } else { None };
    for _ in 0..ATTEMPTS_MAX {
        let seen = app.hub.subscribe_any();
        let snapshot = snapshot_for(app, request)?;
        let commit = match attempt(app, request, &snapshot)? {
            Attempt::Answer(answer) => return Ok(Done::Answer(answer)),
            Attempt::Commit(commit) => *commit,
        };
        match submit(app, commit.txn).await? {
            Ok(committed) => {
                app.fights.fetch_add(commit.fights as u64, Ordering::Relaxed);
                return Ok(Done::Committed((commit.then)(&committed)));
            }
            Err(error) if commit.retry => {
                conflict = match error {
                    TxnError::Failed(Precondition::UnchangedSince { .. }) => busy(),
                    _ => commit.conflict,
                };
                wait_for_visibility(seen, &snapshot).await;
            }
            Err(_) => return Err(commit.conflict),
        }
    }
    Err(conflict)
}

fn busy() -> ApiError {
    ApiError::too_many_requests("others keep taking what the server chose for this object", 1)
}

fn attempt(app: &App, request: &Request, snapshot: &Snapshot) -> Result<Attempt, ApiError> {
    let catalog = app.catalog();
    let world =
        World { snapshot, catalog: &catalog, now: app.clock.now(), authorizer: &app.authorizer, ids: &*app.ids };
    app.machine.attempt(world, request)
}

/// The state that the request reads: the newest, or the exact one that a list asks for.
fn snapshot_for(app: &App, request: &Request) -> Result<Snapshot, ApiError> {
    match api::exact_revision(request)? {
        Some(revision) => match app.store.snapshot_at(revision) {
            Ok(snapshot) => Ok(snapshot),
            Err(store::ReadError::Compacted { .. }) => Err(api::expired(request)),
            // The machine words this one.
            Err(store::ReadError::Future { .. }) => Ok(app.store.snapshot()),
        },
        None => Ok(app.store.snapshot()),
    }
}

/// Somebody else's write stood in the way and may not be visible yet (it is being synced).
async fn wait_for_visibility(mut seen: tokio::sync::watch::Receiver<store::Revision>, snapshot: &Snapshot) {
    let moved = seen.wait_for(|revision| *revision > snapshot.revision());
    // A time-out is as good: the next attempt looks for itself.
    let _ = tokio::time::timeout(VISIBLE_WAIT, moved).await;
}

/// Commits. The outer error is the server's, the inner one says which precondition failed.
pub async fn submit(app: &App, txn: Txn) -> Result<Result<Committed, TxnError>, ApiError> {
    let (done, outcome) = oneshot::channel();
    app.store.submit(
        txn,
        Box::new(move |result| {
            // Nobody waits any more when the client has gone; the write stands all the same.
            let _ = done.send(result);
        }),
    );
    match outcome.await {
        Ok(Ok(committed)) => Ok(Ok(committed)),
        Ok(Err(error @ TxnError::Failed(_))) => Ok(Err(error)),
        Ok(Err(TxnError::Overloaded)) => Err(ApiError::too_many_requests("too many writes wait for the disk", 1)),
        Ok(Err(error)) => Err(refused(&error)),
        Err(_) => Err(ApiError::internal("the store stopped")),
    }
}

fn refused(error: &TxnError) -> ApiError {
    match error {
        TxnError::Stopped(_) => ApiError::new(503, meta::Reason::ServiceUnavailable, "the store takes no more writes"),
        _ => ApiError::too_large("etcdserver: request is too large"),
    }
}
