//! Whether a transaction is one at all: limits and shape, before any state is looked at.

use std::collections::BTreeSet;

use crate::{Key, Limits, Op, Precondition, Txn, TxnError};

/// Checks a transaction against the limits; returns its size in bytes.
pub(crate) fn shape(txn: &Txn, limits: &Limits) -> Result<usize, TxnError> {
    if txn.ops.len() > limits.txn_ops_max || txn.preconditions.len() > limits.txn_ops_max {
        return invalid(format!("more than {} operations or preconditions", limits.txn_ops_max));
    }
    let mut bytes = 0usize;
    for op in &txn.ops {
        bytes = bytes.saturating_add(self::op(op, limits)?);
    }
    for precondition in &txn.preconditions {
        key(named(precondition), limits)?;
    }
    if bytes > limits.txn_bytes_max {
        return invalid(format!("{bytes} bytes are more than {} for one transaction", limits.txn_bytes_max));
    }
    unique(&txn.ops)?;
    Ok(bytes)
}

fn invalid<T>(text: String) -> Result<T, TxnError> {
    Err(TxnError::Invalid(text))
}

fn named(precondition: &Precondition) -> &Key {
    match precondition {
        Precondition::Absent(key) | Precondition::ModifiedAt(key, _) => key,
        Precondition::UnchangedSince { prefix, .. } => prefix,
    }
}

fn of(op: &Op) -> &Key {
    match op {
        Op::Put { key, .. } | Op::Delete { key, .. } => key,
    }
}

fn op(op: &Op, limits: &Limits) -> Result<usize, TxnError> {
    let key = key(of(op), limits)?;
    let value = match op {
        Op::Put { value, annex, stamp_at, .. } => value_of(value, annex.len(), *stamp_at, limits)?,
        Op::Delete { last: Some((value, stamp_at)), .. } => value_of(value, 0, *stamp_at, limits)?,
        Op::Delete { last: None, .. } => 0,
    };
    Ok(key.saturating_add(value))
}

fn key(key: &Key, limits: &Limits) -> Result<usize, TxnError> {
    let bytes = key.collection.len().saturating_add(key.item.len());
    if bytes > limits.key_bytes_max {
        return invalid(format!("{bytes} bytes are more than {} for a key", limits.key_bytes_max));
    }
    Ok(bytes)
}

fn value_of(value: &[u8], annex: usize, stamp_at: Option<u32>, limits: &Limits) -> Result<usize, TxnError> {
    let bytes = value.len().saturating_add(annex);
    if bytes > limits.value_bytes_max {
        return invalid(format!("{bytes} bytes are more than {} for a value", limits.value_bytes_max));
    }
    match stamp_at {
        Some(at) if at as usize > value.len() => invalid(format!("no place {at} in {} bytes", value.len())),
        _ => Ok(bytes),
    }
}

fn unique(ops: &[Op]) -> Result<(), TxnError> {
    // The common transaction has one operation and needs no set.
    if ops.len() < 2 {
        return Ok(());
    }
    let mut seen = BTreeSet::new();
    match ops.iter().map(of).find(|key| !seen.insert(*key)) {
        Some(key) => invalid(format!("{key} occurs twice in one transaction")),
        None => Ok(()),
    }
}
