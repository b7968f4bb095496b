//! Reading entries of tables.

use super::{EntryKey, Forwarding, Stored, found, tables};
use crate::pipeline::Pipeline;
use crate::proto::entity::Entity as Kind;
use crate::proto::{Entity, IdleTimeout, TableAction, TableEntry, table_action};
use crate::refusal::Refusal;
use belljar_p4info::Table;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn read_table_entries(
        &self,
        request: &TableEntry,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        if request.table_id == 0 {
            for table in self.state.objects.tables.values() {
                self.read_table(table, request, all)?;
            }
            return Ok(());
        }
        let table = self.state.objects.table(request.table_id)?;
        if request.time_since_last_hit.is_some() && (!table.has_idle_timeout || request.is_default_action) {
            return Err(Refusal::invalid(format!("table '{}' has no idle timeout", table.name)));
        }
        if request.meter_counter_data.is_some() {
            return Err(Refusal::unimplemented("meters do not count their colours"));
        }
        self.read_table(table, request, all)
    }

    fn read_table(&self, table: &Table, request: &TableEntry, all: &mut Vec<Entity>) -> Result<(), Refusal> {
        if request.is_default_action {
            let entry = self.default_entry(table);
            if passes(&entry, request) {
                all.push(found(Kind::TableEntry(Box::new(entry))));
            }
            return Ok(());
        }
        for stored in self.select(table, request)? {
            if passes(&stored.entry, request) {
                all.push(found(Kind::TableEntry(Box::new(self.filled(table, stored, request)?))));
            }
        }
        Ok(())
    }

    /// Entries that a key selects: one, or all if it has no matches.
    pub(super) fn select<'s>(&'s self, table: &Table, key: &TableEntry) -> Result<Vec<&'s Stored>, Refusal> {
        let Some(entries) = self.state.tables.get(&table.id) else { return Ok(Vec::new()) };
        if key.r#match.is_empty() {
            let priority = |stored: &&Stored| key.priority == 0 || stored.entry.priority == key.priority;
            return Ok(entries.values().filter(priority).collect());
        }
        let matches = super::matches::canonical(&table.fields, &key.r#match)?.0;
        if key.priority == 0 {
            // Equal matches may occur with several priorities.
            let from: EntryKey = (matches.clone(), i32::MIN);
            let to: EntryKey = (matches, i32::MAX);
            return Ok(entries.range(from..=to).map(|(_, stored)| stored).collect());
        }
        Ok(entries.get(&tables::key(table, key)?.0).into_iter().collect())
    }

    /// Entry with the direct resources that a request selects.
    fn filled(&self, table: &Table, stored: &Stored, request: &TableEntry) -> Result<TableEntry, Refusal> {
        let mut entry = stored.entry.clone();
        if request.counter_data.is_some() && table.has_counter {
            entry.counter_data = Some(self.pipeline.entry_counter(&table.name, stored.handle)?.into());
        }
        if request.meter_config.is_some() && table.has_meter {
            entry.meter_config = self.pipeline.entry_meter(&table.name, stored.handle)?.map(Into::into);
        }
        if request.time_since_last_hit.is_some() && table.has_idle_timeout {
            let elapsed = self.pipeline.idle_time(&table.name, stored.handle)?;
            entry.time_since_last_hit = Some(IdleTimeout { elapsed_ns: elapsed as i64 });
        }
        Ok(entry)
    }

    /// Entry of a switch handle, for idle-timeout notifications.
    pub fn idle_entry(&self, table: &str, handle: u64) -> Option<TableEntry> {
        let table = self.state.objects.tables.values().find(|known| known.name == table)?;
        let key = self.state.handles.get(&(table.id, handle))?;
        let stored = self.state.tables.get(&table.id)?.get(key)?;
        Some(TableEntry { action: None, ..stored.entry.clone() })
    }
}

/// True if the entry satisfies the filters in a request's other fields.
fn passes(entry: &TableEntry, request: &TableEntry) -> bool {
    let action_id =
        |action: &Option<TableAction>| match action.as_ref().and_then(|action| action.r#type.as_ref()) {
            Some(table_action::Type::Action(action)) => Some(action.action_id),
            _ => None,
        };
    (request.action.is_none() || action_id(&request.action) == action_id(&entry.action))
        && (request.controller_metadata == 0 || request.controller_metadata == entry.controller_metadata)
        && (request.metadata.is_empty() || request.metadata == entry.metadata)
}
