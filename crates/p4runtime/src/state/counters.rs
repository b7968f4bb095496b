//! Counters.

use super::{Forwarding, found, indices, only_modify, tables, update};
use crate::pipeline::{Count, Pipeline};
use crate::proto::entity::Entity as Kind;
use crate::proto::{
    CounterData, CounterEntry, DirectCounterEntry, Entity, Index, TableEntry, Update, UpdateType,
};
use crate::refusal::Refusal;
use belljar_p4info::{Missing, Table};
use std::sync::Arc;

impl From<Count> for CounterData {
    fn from(count: Count) -> Self {
        Self { byte_count: count.bytes as i64, packet_count: count.packets as i64 }
    }
}

impl TryFrom<CounterData> for Count {
    type Error = Refusal;

    fn try_from(data: CounterData) -> Result<Self, Refusal> {
        match (u64::try_from(data.byte_count), u64::try_from(data.packet_count)) {
            (Ok(bytes), Ok(packets)) => Ok(Self { bytes, packets }),
            _ => Err(Refusal::invalid("a count is negative")),
        }
    }
}

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_counter(
        &mut self,
        kind: UpdateType,
        entry: &CounterEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a counter")?;
        let objects = Arc::clone(&self.state.objects);
        let counter = objects
            .counters
            .get(&entry.counter_id)
            .ok_or(Missing { kind: "counter", id: entry.counter_id })?;
        let indices = indices(entry.index, counter.size)?;
        let Some(data) = entry.data else { return Ok(Vec::new()) };
        let count = data.try_into()?;
        let mut undo = Vec::with_capacity(indices.len());
        for index in indices {
            let old = self.pipeline.counter(&counter.name, index)?.into();
            self.pipeline.set_counter(&counter.name, index, count)?;
            let entry = CounterEntry {
                counter_id: entry.counter_id,
                index: Some(Index { index: index as i64 }),
                data: Some(old),
            };
            undo.push(update(UpdateType::Modify, Kind::CounterEntry(entry)));
        }
        Ok(undo)
    }

    pub(super) fn read_counters(&self, request: &CounterEntry, all: &mut Vec<Entity>) -> Result<(), Refusal> {
        if request.counter_id != 0 && !self.state.objects.counters.contains_key(&request.counter_id) {
            return Err(Missing { kind: "counter", id: request.counter_id }.into());
        }
        for (id, counter) in
            self.state.objects.counters.iter().filter(|(id, _)| [0, **id].contains(&request.counter_id))
        {
            let index = request.index.filter(|_| request.counter_id != 0);
            for index in indices(index, counter.size)? {
                let data = Some(self.pipeline.counter(&counter.name, index)?.into());
                all.push(found(Kind::CounterEntry(CounterEntry {
                    counter_id: *id,
                    index: Some(Index { index: index as i64 }),
                    data,
                })));
            }
        }
        Ok(())
    }

    pub(super) fn write_direct_counter(
        &mut self,
        kind: UpdateType,
        entry: &DirectCounterEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a direct counter")?;
        let objects = Arc::clone(&self.state.objects);
        let key = required(entry.table_entry.as_ref())?;
        let table = with_counter(objects.table(key.table_id)?)?;
        let stored = self.stored(table, &tables::key(table, key)?.0)?;
        let handle = stored.handle;
        let Some(data) = entry.data else { return Ok(Vec::new()) };
        let old = self.pipeline.entry_counter(&table.name, handle)?.into();
        self.pipeline.set_entry_counter(&table.name, handle, data.try_into()?)?;
        let undo = DirectCounterEntry { table_entry: entry.table_entry.clone(), data: Some(old) };
        Ok(vec![update(UpdateType::Modify, Kind::DirectCounterEntry(Box::new(undo)))])
    }

    pub(super) fn read_direct_counters(
        &self,
        request: &DirectCounterEntry,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        let key = required(request.table_entry.as_ref())?;
        for table in self.tables_with(key.table_id, with_counter)? {
            let selected = self.select(table, key)?;
            if selected.is_empty() && !key.r#match.is_empty() {
                return Err(Refusal::not_found(format!("table '{}' has no entry with this key", table.name)));
            }
            for stored in selected {
                let data = Some(self.pipeline.entry_counter(&table.name, stored.handle)?.into());
                let table_entry = Some(key_of(&stored.entry));
                all.push(found(Kind::DirectCounterEntry(Box::new(DirectCounterEntry { table_entry, data }))));
            }
        }
        Ok(())
    }

    /// Table with an id, which must have the resource; for id 0, all tables with the resource.
    pub(super) fn tables_with(
        &self,
        id: u32,
        with: fn(&Table) -> Result<&Table, Refusal>,
    ) -> Result<Vec<&Table>, Refusal> {
        match id {
            0 => Ok(self.state.objects.tables.values().filter(|table| with(table).is_ok()).collect()),
            _ => Ok(vec![with(self.state.objects.table(id)?)?]),
        }
    }
}

/// Table entry that identifies a direct resource.
pub fn required(entry: Option<&TableEntry>) -> Result<&TableEntry, Refusal> {
    let entry = entry.ok_or_else(|| Refusal::invalid("the table entry of a direct resource is missing"))?;
    if entry.is_default_action {
        return Err(Refusal::unimplemented(
            "default entries have no direct counters and meters in this switch",
        ));
    }
    Ok(entry)
}

/// Key fields of an entry.
pub fn key_of(entry: &TableEntry) -> TableEntry {
    TableEntry {
        table_id: entry.table_id,
        r#match: entry.r#match.clone(),
        priority: entry.priority,
        ..TableEntry::default()
    }
}

fn with_counter(table: &Table) -> Result<&Table, Refusal> {
    if table.has_counter {
        Ok(table)
    } else {
        Err(Refusal::invalid(format!("table '{}' has no direct counter", table.name)))
    }
}
