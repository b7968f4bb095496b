//! Entries of a table.

mod entry;
mod hash_index;
mod lpm;
#[cfg(test)]
mod tests;
mod tuples;

use crate::bits::{self, PADDING};
use crate::control::{ActionSpec, ControlError, CounterData, Entry, ErrorKind, KeyMatch, Result};
use crate::meter::Meter;
use crate::profile::{self, ProfileState};
use crate::program::{Lookup, Program, Table};
use belljar_base::{Map, SimDuration, SimTime};
use belljar_p4json::LoadError;
use entry::Canonical;
use hash_index::HashIndex;
use lpm::Trie;
use tuples::Tuples;

/// Action of an entry, resolved to indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Index into the table's actions.
    Action(u32),
    Member(u32),
    Group(u32),
}

#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub outcome: Outcome,
    pub priority: i32,
    pub timeout: Option<SimDuration>,
    pub last_hit: SimTime,
    /// Number of hits.
    pub hits: u64,
    /// True if the control plane has been notified that the entry is idle.
    pub told: bool,
    sequence: u64,
    canonical: Option<Canonical>,
}

/// Per-switch state of a table.
#[derive(Clone, Debug)]
pub(crate) struct TableState {
    pub slots: Vec<Slot>,
    free: Vec<u32>,
    /// Words per key.
    words: usize,
    /// Keys of the entries in words, for exact lookups.
    keys: Vec<u64>,
    /// Arguments of the entries.
    arguments: Vec<u8>,
    stride: usize,
    by_key: Map<Vec<u8>, u32>,
    index: Index,
    next_sequence: u64,
    pub counters: Vec<CounterData>,
    pub meters: Vec<Meter>,
    pub default: Option<Outcome>,
    pub default_arguments: Vec<u8>,
    /// Number of entries with an idle timeout.
    pub timed: usize,
    /// Lookups that matched an entry.
    pub hits: u64,
    /// Lookups that matched none.
    pub misses: u64,
    scratch: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Index {
    /// A table without a key.
    None,
    Exact(HashIndex),
    Lpm(Trie),
    Ternary(Tuples),
}

/// Validates the constant entries of a program.
pub(crate) fn check_initial(program: &Program, table: u32) -> std::result::Result<(), LoadError> {
    let mut profiles = profile::states(program);
    let described = &program.tables[table as usize];
    let mut state = TableState::empty(described);
    for initial in &described.entries {
        let added = state.add(program, table, &initial.entry, &mut profiles, SimTime::ZERO);
        added.map_err(|error| {
            LoadError::new(initial.place.clone(), error.message, "write the file again with the compiler")
        })?;
    }
    Ok(())
}

impl TableState {
    pub fn new(program: &Program, table: u32, profiles: &mut [ProfileState]) -> TableState {
        let described = &program.tables[table as usize];
        let mut state = TableState::empty(described);
        for initial in &described.entries {
            // Validated by `check_initial` when the program was lowered.
            let _ = state.add(program, table, &initial.entry, profiles, SimTime::ZERO);
        }
        state
    }

    fn empty(table: &Table) -> TableState {
        let index = match (table.key.is_empty(), table.lookup) {
            (true, _) => Index::None,
            (_, Lookup::Exact) => Index::Exact(HashIndex::default()),
            (_, Lookup::Lpm) => Index::Lpm(Trie::default()),
            (_, Lookup::Ternary) => Index::Ternary(Tuples::default()),
        };
        let words = table.key_bits.div_ceil(64) as usize;
        let mut state = TableState {
            slots: Vec::new(),
            free: Vec::new(),
            words,
            keys: Vec::new(),
            arguments: vec![0; PADDING],
            stride: table.argument_bytes as usize,
            by_key: Map::new(),
            index,
            next_sequence: 0,
            counters: Vec::new(),
            meters: Vec::new(),
            default: None,
            default_arguments: Vec::new(),
            timed: 0,
            hits: 0,
            misses: 0,
            scratch: vec![0; words],
        };
        state.reset_default(table);
        state
    }

    pub fn reset_default(&mut self, table: &Table) {
        self.default = None;
        self.default_arguments.clear();
        if let Some((action, arguments)) = &table.default {
            self.default =
                table.actions.iter().position(|one| one.action == *action).map(|n| Outcome::Action(n as u32));
            self.default_arguments.clone_from(arguments);
        }
    }

    /// Size of a key buffer in bytes, with padding.
    pub fn key_bytes(&self) -> usize {
        self.words * 8 + PADDING
    }
    /// Approximate memory in bytes.
    pub fn memory(&self) -> usize {
        let canonical = |slot: &Slot| slot.canonical.as_ref().map_or(0, Canonical::memory);
        let index = match &self.index {
            Index::None => 0,
            Index::Exact(index) => index.memory(),
            Index::Lpm(trie) => trie.memory(),
            Index::Ternary(tuples) => tuples.memory(),
        };
        let names = self.by_key.keys().next().map_or(0, |name| (name.len() + 48) * self.by_key.len());
        size_of_val(&self.slots[..])
            + self.slots.iter().map(canonical).sum::<usize>()
            + size_of_val(&self.keys[..])
            + self.arguments.len()
            + size_of_val(&self.counters[..])
            + size_of_val(&self.meters[..])
            + index
            + names
    }
    /// Number of entries.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Best matching entry of a key.
    #[inline]
    pub fn find(&mut self, table: &Table, key: &[u8]) -> Option<u32> {
        match &self.index {
            Index::None => None,
            Index::Exact(index) => {
                let words = words(&mut self.scratch, key);
                index.find(hash_index::hash(words), |entry| {
                    let at = entry as usize * words.len();
                    self.keys[at..at + words.len()] == *words
                })
            }
            Index::Lpm(trie) => {
                // Exact fields precede the prefix field; the key is zero after its end.
                let end = self.words as u32 * 64;
                if end == 64 {
                    let word = bits::get(key, 0, 64) as u64;
                    return trie.find(|at| if at < 64 { (word << at >> 58) as u32 } else { 0 });
                }
                trie.find(
                    |at| if at + 6 <= end { bits::get(key, at, 6) as u32 } else { past_end(key, at, end) },
                )
            }
            Index::Ternary(tuples) => {
                let count = self.words;
                self.scratch.resize(count * 2, 0);
                let (key_words, masked) = self.scratch.split_at_mut(count);
                let key_words = words(key_words, key);
                tuples.find(key_words, masked, |entry| {
                    let slot = &self.slots[entry as usize];
                    slot.canonical.as_ref().is_some_and(|canonical| canonical.in_ranges(table, key))
                })
            }
        }
    }

    /// Arguments of an entry, without padding.
    #[inline]
    pub fn arguments(&self, entry: u32) -> &[u8] {
        let at = entry as usize * self.stride;
        &self.arguments[at..at + self.stride]
    }

    /// Slot of an existing entry.
    pub fn slot(&self, table: &Table, entry: u32) -> Result<&Slot> {
        let slot = self.slots.get(entry as usize).filter(|slot| slot.canonical.is_some());
        slot.ok_or_else(|| {
            ControlError::not_found(format!("table '{}' has no entry with the handle {entry}", table.name))
        })
    }
    /// Handles of all entries in ascending order.
    pub fn handles(&self) -> impl Iterator<Item = u32> + '_ {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| slot.canonical.is_some());
        used.map(|(n, _)| n as u32)
    }

    pub fn add(
        &mut self,
        program: &Program,
        table: u32,
        entry: &Entry,
        profiles: &mut [ProfileState],
        now: SimTime,
    ) -> Result<u32> {
        let described = &program.tables[table as usize];
        if described.key.is_empty() {
            return Err(ControlError::invalid(format!(
                "table '{}' has no key and so no entries; set its default action",
                described.name
            )));
        }
        let canonical = Canonical::new(described, entry)?;
        let name = canonical.name(described, entry.priority);
        if self.by_key.contains_key(&name) {
            return Err(ControlError::new(
                ErrorKind::AlreadyExists,
                format!(
                    "table '{}' has an entry with the same key{}",
                    described.name,
                    match described.lookup {
                        Lookup::Ternary => " and priority",
                        _ => "",
                    }
                ),
            ));
        }
        if self.len() as u64 >= described.max_size {
            return Err(ControlError::new(
                ErrorKind::ResourceExhausted,
                format!("table '{}' is full with {} entries", described.name, described.max_size),
            ));
        }
        let (outcome, arguments) = resolve(program, table, &entry.action, profiles)?;
        let handle = self.free.pop().unwrap_or(self.slots.len() as u32);
        let slot = Slot {
            outcome,
            priority: entry.priority,
            timeout: entry.idle_timeout.filter(|timeout| !timeout.is_zero()),
            last_hit: now,
            hits: 0,
            told: false,
            sequence: self.next_sequence,
            canonical: Some(canonical),
        };
        self.next_sequence += 1;
        profile::hold(described, profiles, outcome, true);
        self.timed += usize::from(slot.timeout.is_some());
        if handle as usize == self.slots.len() {
            self.slots.push(slot);
            self.keys.resize(self.slots.len() * self.words, 0);
            self.arguments.resize(self.slots.len() * self.stride + PADDING, 0);
            self.counters.push(CounterData::default());
            if described.meters.is_some() {
                self.meters.push(Meter::default());
            }
        } else {
            self.slots[handle as usize] = slot;
            self.counters[handle as usize] = CounterData::default();
            if let Some(meter) = self.meters.get_mut(handle as usize) {
                *meter = Meter::default();
            }
        }
        self.set_arguments(handle, &arguments);
        self.by_key.insert(name, handle);
        self.link(described, handle, true);
        Ok(handle)
    }

    fn set_arguments(&mut self, entry: u32, arguments: &[u8]) {
        let at = entry as usize * self.stride;
        self.arguments[at..at + self.stride].fill(0);
        self.arguments[at..at + arguments.len()].copy_from_slice(arguments);
    }

    fn link(&mut self, table: &Table, entry: u32, add: bool) {
        let slot = &self.slots[entry as usize];
        let Some(canonical) = &slot.canonical else { return };
        match &mut self.index {
            Index::None => {}
            Index::Exact(index) => {
                let words = words(&mut self.scratch, &canonical.value);
                let hash = hash_index::hash(words);
                if add {
                    self.keys[entry as usize * words.len()..][..words.len()].copy_from_slice(words);
                    index.insert(hash, entry);
                } else {
                    index.remove(hash, entry);
                }
            }
            Index::Lpm(trie) => {
                let (prefix, value, end) =
                    (canonical.prefix, canonical.value.clone(), self.words as u32 * 64);
                let chunk = |at: u32| {
                    if at + 6 <= end { bits::get(&value, at, 6) as u32 } else { past_end(&value, at, end) }
                };
                if add {
                    trie.insert(prefix, chunk, entry);
                } else {
                    trie.remove(prefix, chunk);
                }
            }
            Index::Ternary(tuples) => {
                let rank = (slot.priority, slot.sequence);
                for piece in canonical.pieces(table, self.words) {
                    if add {
                        tuples.insert(&piece, rank, entry);
                    } else {
                        tuples.remove(&piece, rank);
                    }
                }
            }
        }
    }

    pub fn modify(
        &mut self,
        program: &Program,
        table: u32,
        entry: u32,
        action: &ActionSpec,
        profiles: &mut [ProfileState],
    ) -> Result<()> {
        let described = &program.tables[table as usize];
        self.slot(described, entry)?;
        let (outcome, arguments) = resolve(program, table, action, profiles)?;
        profile::hold(described, profiles, outcome, true);
        profile::hold(described, profiles, self.slots[entry as usize].outcome, false);
        self.slots[entry as usize].outcome = outcome;
        self.set_arguments(entry, &arguments);
        Ok(())
    }

    pub fn delete(&mut self, table: &Table, entry: u32, profiles: &mut [ProfileState]) -> Result<()> {
        self.slot(table, entry)?;
        self.link(table, entry, false);
        let slot = &mut self.slots[entry as usize];
        profile::hold(table, profiles, slot.outcome, false);
        self.timed -= usize::from(slot.timeout.is_some());
        slot.timeout = None;
        if let Some(canonical) = slot.canonical.take() {
            self.by_key.remove(&canonical.name(table, slot.priority));
        }
        self.free.push(entry);
        Ok(())
    }

    /// Handle of the entry with this key and, where it is significant, this priority.
    pub fn handle_of(&self, table: &Table, entry: &Entry) -> Result<u32> {
        let name = Canonical::new(table, entry)?.name(table, entry.priority);
        let found = self.by_key.get(&name).copied();
        found.ok_or_else(|| {
            ControlError::not_found(format!("table '{}' has no entry with this key", table.name))
        })
    }

    /// Match values of an entry's key.
    pub fn key_of(&self, table: &Table, entry: u32) -> Vec<KeyMatch> {
        let canonical = self.slots[entry as usize].canonical.as_ref();
        canonical.map_or_else(Vec::new, |canonical| canonical.matches(table))
    }

    pub fn set_default(
        &mut self,
        program: &Program,
        table: u32,
        action: &ActionSpec,
        profiles: &mut [ProfileState],
    ) -> Result<()> {
        let described = &program.tables[table as usize];
        let (outcome, arguments) = resolve(program, table, action, profiles)?;
        profile::hold(described, profiles, outcome, true);
        if let Some(before) = self.default {
            profile::hold(described, profiles, before, false);
        }
        self.default = Some(outcome);
        self.default_arguments = arguments;
        Ok(())
    }
}

fn past_end(key: &[u8], at: u32, end: u32) -> u32 {
    if at >= end { 0 } else { (bits::get(key, at, end - at) as u32) << (6 - (end - at)) }
}

/// Words of a key buffer.
#[inline]
fn words<'a>(out: &'a mut [u64], key: &[u8]) -> &'a [u64] {
    for (word, bytes) in out.iter_mut().zip(key.chunks_exact(8)) {
        *word = u64::from_be_bytes(bytes.try_into().expect("8 bytes"));
    }
    out
}

/// Resolves an action with its packed arguments; an error if the table does not allow it.
fn resolve(
    program: &Program,
    table: u32,
    action: &ActionSpec,
    profiles: &[ProfileState],
) -> Result<(Outcome, Vec<u8>)> {
    let described = &program.tables[table as usize];
    let profile = described.profile.map(|profile| &profiles[profile as usize]);
    match (action, profile) {
        (ActionSpec::Direct { action, arguments }, None) => {
            let position = described.actions.iter().position(|one| one.action == *action);
            let position = position.ok_or_else(|| {
                let name = program.actions.get(*action as usize).map_or("?", |action| action.name.as_str());
                ControlError::invalid(format!("action '{name}' is not one of table '{}'", described.name))
            })?;
            let packed = program.pack_arguments(*action, arguments)?;
            Ok((Outcome::Action(position as u32), packed))
        }
        (ActionSpec::Direct { .. }, Some(_)) => Err(ControlError::invalid(format!(
            "table '{}' takes its actions from an action profile; name a member or group",
            described.name
        ))),
        (_, None) => Err(ControlError::invalid(format!(
            "table '{}' has no action profile; name an action",
            described.name
        ))),
        (ActionSpec::Member(id), Some(profile)) => Ok((Outcome::Member(profile.member(*id)?), Vec::new())),
        (ActionSpec::Group(id), Some(profile)) => Ok((Outcome::Group(profile.group(*id)?), Vec::new())),
    }
}
