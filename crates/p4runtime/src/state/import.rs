//! The state of a program that controllers have not written anything to yet.

use super::{Forwarding, State, Stored, actions, matches};
use crate::objects::{Objects, Table};
use crate::pipeline::{Entry, Pipeline, Target};
use crate::proto::entity::Entity as Kind;
use crate::proto::{TableAction, TableEntry, UpdateType, table_action};
use crate::refusal::Refusal;
use std::sync::Arc;

impl State {
    /// The state of a program of these objects, without entries.
    pub fn new(objects: Objects) -> Self {
        Self { objects: Arc::new(objects), ..Self::default() }
    }
}

impl<P: Pipeline> Forwarding<'_, P> {
    /// Takes over the entries that the program has in its tables and the state does not know: those in its source, or added
    /// over another interface. Entries of indirect tables are those whose members controllers know.
    pub fn import(&mut self) {
        let objects = Arc::clone(&self.state.objects);
        for table in objects.tables.values() {
            for entry in self.pipeline.entries(&table.name) {
                self.import_entry(&objects, table, entry);
            }
        }
    }

    /// Deletes the entries that the program's source gives tables, but for constant ones, so that they can be written anew.
    pub fn clear_tables(&mut self, ids: impl Iterator<Item = u32>) -> Result<(), Refusal> {
        for id in ids {
            let entries = self.state.tables.get(&id).into_iter().flat_map(|entries| entries.values());
            let entries: Vec<TableEntry> =
                entries.map(|stored| stored.entry.clone()).filter(|entry| !entry.is_const).collect();
            for entry in entries {
                self.update(&super::update(UpdateType::Delete, Kind::TableEntry(Box::new(entry))))?;
            }
        }
        Ok(())
    }

    fn import_entry(&mut self, objects: &Objects, table: &Table, entry: Entry) {
        let Target::Action(call) = &entry.target else { return };
        let Some(action) = actions::from_call(objects, call) else { return };
        if self.state.handles.contains_key(&(table.id, entry.handle)) {
            return;
        }
        let matches = matches::from_keys(&table.fields, &entry.keys);
        let key = (matches.clone(), entry.priority);
        let stored = TableEntry {
            table_id: table.id,
            r#match: matches,
            action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
            priority: entry.priority,
            is_const: entry.is_const || table.is_const,
            ..TableEntry::default()
        };
        self.state.handles.insert((table.id, entry.handle), key.clone());
        self.state
            .tables
            .entry(table.id)
            .or_default()
            .insert(key, Stored { entry: stored, handle: entry.handle, one_shot: None });
    }
}
