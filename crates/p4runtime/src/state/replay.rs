//! Updates that reproduce the state, for the replacement of a program.

use super::{Forwarding, found, update};
use crate::pipeline::Pipeline;
use crate::proto::entity::Entity as Kind;
use crate::proto::{
    ActionProfileGroup, ActionProfileMember, CounterEntry, DigestEntry, MeterEntry,
    PacketReplicationEngineEntry, RegisterEntry, TableEntry, Update, UpdateType, ValueSetEntry,
    packet_replication_engine_entry::Type,
};
use crate::refusal::Refusal;

impl<P: Pipeline> Forwarding<'_, P> {
    /// Updates in dependency order. Constant entries of the program's source are omitted: the new program has
    /// its own.
    pub fn replay(&self) -> Result<Vec<Update>, Refusal> {
        let mut updates = Vec::new();
        for (kind, request) in requests() {
            let mut all = Vec::new();
            self.read(&found(request), &mut all)?;
            updates.extend(
                all.into_iter()
                    .filter_map(|entity| entity.entity)
                    .filter(is_written)
                    .map(|entity| update(kind, entity)),
            );
        }
        let defaults = self.state.defaults.values().cloned();
        updates.extend(defaults.map(|entry| update(UpdateType::Modify, Kind::TableEntry(Box::new(entry)))));
        Ok(updates)
    }
}

/// True if the entity was written by a controller.
fn is_written(entity: &Kind) -> bool {
    match entity {
        Kind::TableEntry(entry) => !entry.is_const,
        Kind::MeterEntry(meter) => meter.config.is_some(),
        Kind::CounterEntry(counter) => {
            counter.data.is_some_and(|data| data.byte_count != 0 || data.packet_count != 0)
        }
        Kind::ValueSetEntry(set) => !set.members.is_empty(),
        _ => true,
    }
}

/// Read requests for all entities in dependency order, each with the update type that reproduces the
/// entities.
fn requests() -> [(UpdateType, Kind); 10] {
    let replication =
        |kind| Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) });
    let entries = TableEntry {
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..TableEntry::default()
    };
    [
        (UpdateType::Insert, Kind::ActionProfileMember(ActionProfileMember::default())),
        (UpdateType::Insert, Kind::ActionProfileGroup(ActionProfileGroup::default())),
        (UpdateType::Insert, Kind::TableEntry(Box::new(entries))),
        (UpdateType::Insert, replication(Type::MulticastGroupEntry(Default::default()))),
        (UpdateType::Insert, replication(Type::CloneSessionEntry(Default::default()))),
        (UpdateType::Modify, Kind::ValueSetEntry(ValueSetEntry::default())),
        (UpdateType::Modify, Kind::MeterEntry(MeterEntry::default())),
        (UpdateType::Modify, Kind::CounterEntry(CounterEntry::default())),
        (UpdateType::Modify, Kind::RegisterEntry(RegisterEntry::default())),
        (UpdateType::Insert, Kind::DigestEntry(DigestEntry::default())),
    ]
}
