//! Observations: the versions that committed transactions read, and whether each transaction is known to have committed.

use super::parse::{Action, Kind, Transactions};
use crate::Outcome;
use belljar_base::Map;

/// Read of a version that another transaction wrote: the first read of a key, without what its own transaction had appended before.
pub(super) struct ExternalRead<'a> {
    pub transaction: u32,
    pub key: u32,
    pub version: &'a [u32],
    /// True if the transaction writes the key, too.
    pub is_overwritten: bool,
}

/// Read that its own transaction contradicts.
pub(super) struct Contradiction<'a> {
    pub transaction: u32,
    pub key: u32,
    pub read: &'a [u32],
    /// Elements that the read had to have, or to end with if the rest is not known.
    pub expected: Vec<u32>,
}

/// Everything that committed transactions read.
#[derive(Default)]
pub(super) struct Observed<'a> {
    pub external: Vec<ExternalRead<'a>>,
    pub contradictions: Vec<Contradiction<'a>>,
    /// All reads of each key, with their transactions.
    pub reads: Vec<Vec<(u32, &'a [u32])>>,
    /// Transactions that have committed: `ok`, or of unknown outcome with a write that was read.
    pub committed: Vec<bool>,
}

/// Knowledge of a key within a transaction.
#[derive(Default)]
struct Local<'a> {
    /// Version as it was read or written last.
    base: Option<&'a [u32]>,
    /// Elements that the transaction has written after it.
    own: Vec<u32>,
}

/// Collects the observations.
pub(super) fn observe<'a>(transactions: &'a Transactions<'_>) -> Observed<'a> {
    let mut observed = Observed { reads: vec![Vec::new(); transactions.keys.len()], ..Observed::default() };
    observed.committed = transactions.all.iter().map(|one| one.outcome == Outcome::Ok).collect();
    for (index, transaction) in transactions.all.iter().enumerate() {
        let index = index as u32;
        let mut locals: Map<u32, Local<'a>> = Map::new();
        for micro in &transaction.micros {
            let local = locals.entry(micro.key).or_default();
            match &micro.action {
                Action::Write(element) => {
                    if transactions.kind == Kind::Register {
                        *local = Local { base: Some(&[]), own: Vec::new() };
                    }
                    local.own.push(*element);
                }
                Action::Read(None) => {}
                Action::Read(Some(read)) => {
                    observed.reads[micro.key as usize].push((index, read));
                    observed.note(transactions, index, micro.key, local, read);
                }
            }
        }
    }
    observed.commit(transactions);
    observed
}

impl<'a> Observed<'a> {
    /// Notes a read of a committed transaction.
    fn note(
        &mut self,
        transactions: &Transactions<'_>,
        transaction: u32,
        key: u32,
        local: &mut Local<'a>,
        read: &'a [u32],
    ) {
        let as_expected = match local.base {
            Some(base) => {
                read.len() == base.len() + local.own.len()
                    && read.starts_with(base)
                    && read.ends_with(&local.own)
            }
            None => read.ends_with(&local.own),
        };
        if as_expected && local.base.is_none() {
            let micros = &transactions.all[transaction as usize].micros;
            let is_write = |action: &Action| matches!(action, Action::Write(_));
            let is_overwritten = micros.iter().any(|micro| micro.key == key && is_write(&micro.action));
            let version = &read[..read.len() - local.own.len()];
            self.external.push(ExternalRead { transaction, key, version, is_overwritten });
        }
        if !as_expected {
            let mut expected = local.base.unwrap_or_default().to_vec();
            expected.extend(&local.own);
            self.contradictions.push(Contradiction { transaction, key, read, expected });
        }
        local.base = Some(read);
        local.own.clear();
    }

    /// Marks transactions of unknown outcome as committed if one of their writes was read by another.
    fn commit(&mut self, transactions: &Transactions<'_>) {
        for (key, reads) in self.reads.iter().enumerate() {
            let mut seen = vec![false; transactions.keys[key].writers.len()];
            for &(_, read) in reads {
                for &element in read {
                    if !std::mem::replace(&mut seen[element as usize], true)
                        && let Some(writer) = transactions.keys[key].writers[element as usize]
                        && transactions.all[writer.transaction as usize].outcome == Outcome::Info
                    {
                        self.committed[writer.transaction as usize] = true;
                    }
                }
            }
        }
    }
}
