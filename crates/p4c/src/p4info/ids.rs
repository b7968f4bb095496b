//! Ids and aliases of objects.
//!
//! An id consists of the kind in the top byte and a 24-bit hash of the name (Jenkins' one-at-a-time). Names
//! are processed in order; on a collision the next free id is taken.

use super::number;
use crate::ast::Annotation;
use crate::source::{Diagnostic, Span};
use belljar_base::{Map, Set};

/// Kinds of object, by the top byte of their ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Action = 0x01,
    Table = 0x02,
    ValueSet = 0x03,
    ControllerHeader = 0x04,
    ActionProfile = 0x11,
    Counter = 0x12,
    DirectCounter = 0x13,
    Meter = 0x14,
    DirectMeter = 0x15,
    Register = 0x16,
    Digest = 0x17,
}

/// Names and their ids.
#[derive(Default)]
pub struct Ids {
    /// Id by kind and name; 0 until assigned, unless `@id` sets it.
    ids: Map<Kind, Map<String, u32>>,
    /// First `@id` that no object can have.
    pub refused: Option<Diagnostic>,
}

impl Ids {
    /// Adds a name, with the id of its `@id` annotation if any.
    pub fn add(&mut self, kind: Kind, name: &str, given: Option<(u32, Span)>) {
        let prefix = (kind as u32) << 24;
        let names = self.ids.entry(kind).or_default();
        let Some((id, span)) = given else {
            names.entry(name.to_string()).or_insert(0);
            return;
        };
        let full = (id & 0x00ff_ffff) | prefix;
        let problem = if id >> 24 != 0 && id >> 24 != kind as u32 {
            Some(format!(
                "the prefix of this @id is {:#04x}, not {:#04x} as of such objects",
                id >> 24,
                kind as u32
            ))
        } else {
            let taken = names.iter().find(|(other, id)| **id == full && *other != name);
            taken.map(|(other, _)| format!("'{other}' has this @id too"))
        };
        if let Some(problem) = problem {
            self.refused.get_or_insert(Diagnostic::error(span, problem));
        }
        names.entry(name.to_string()).or_insert(full);
    }

    /// Assigns ids to all names without one.
    pub fn assign(&mut self) {
        for (kind, names) in &mut self.ids {
            let mut taken = names.values().copied().filter(|id| *id != 0).collect::<Set<_>>();
            for (name, id) in names.iter_mut().filter(|(_, id)| **id == 0) {
                let mut hash = hash(name);
                let mut candidate = identifier(*kind, hash);
                while !taken.insert(candidate) {
                    hash = hash.wrapping_add(1);
                    candidate = identifier(*kind, hash);
                }
                *id = candidate;
            }
        }
    }

    /// The id of a name; 0 if unknown.
    pub fn id(&self, kind: Kind, name: &str) -> u32 {
        self.ids.get(&kind).and_then(|names| names.get(name)).copied().unwrap_or(0)
    }

    /// Shortest suffix of a name that is unique among the names of all kinds.
    pub fn alias(&self, name: &str) -> String {
        let mut suffix = String::new();
        for part in name.rsplit('.') {
            suffix = if suffix.is_empty() { part.to_string() } else { format!("{part}.{suffix}") };
            let ending = format!(".{suffix}");
            let mut names = self.ids.values().flat_map(|names| names.keys());
            let shared = names.any(|other| other != name && (*other == suffix || other.ends_with(&ending)));
            if !shared {
                return suffix;
            }
        }
        name.to_string()
    }
}

/// Field ids of a list: from `@id`, otherwise the smallest unused number.
pub(super) fn field_ids<'a>(list: impl Iterator<Item = &'a [Annotation]>) -> Vec<u32> {
    let given = list.map(|annotations| number(annotations, "id")).collect::<Vec<_>>();
    let taken = given.iter().flatten().copied().collect::<Set<_>>();
    let mut next = 1;
    let assign = |id: Option<u32>| {
        id.unwrap_or_else(|| {
            while taken.contains(&next) {
                next += 1;
            }
            next += 1;
            next - 1
        })
    };
    given.into_iter().map(assign).collect()
}

fn identifier(kind: Kind, hash: u32) -> u32 {
    ((kind as u32) << 24) | (hash & 0x00ff_ffff)
}

/// Jenkins' one-at-a-time hash.
fn hash(name: &str) -> u32 {
    let mut hash = 0u32;
    for byte in name.bytes() {
        hash = hash.wrapping_add(u32::from(byte));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}
