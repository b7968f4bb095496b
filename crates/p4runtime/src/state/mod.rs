//! Entities written by controllers, stored in addition to the switch's own state, so that reads return
//! exactly what was written.
//!
//! [`State`] belongs to one program. A request operates on it and on the switch's [`Pipeline`] together, as
//! [`Forwarding`], by [`Forwarding::update`] or [`Forwarding::read`]. An update returns the updates that
//! revert it.

mod actions;
mod batch;
mod counters;
mod defaults;
mod groups;
mod import;
mod matches;
mod members;
mod meters;
mod registers;
mod replay;
mod replication;
mod settings;
mod table_read;
mod tables;

use crate::pipeline::{Handle, Pipeline};
use crate::proto::{
    self, ActionProfileGroup, CloneSessionEntry, DigestConfig, Entity, FieldMatch, MulticastGroupEntry,
    TableEntry, Update, UpdateType, ValueSetMember,
};
use crate::refusal::Refusal;
use belljar_base::Map;
use belljar_p4info::Objects;
use proto::entity::Entity as Kind;
use std::sync::Arc;

/// Key of an entry in its table: matches in canonical form, and priority.
pub type EntryKey = (Vec<FieldMatch>, i32);

/// Stored table entry.
#[derive(Clone, Debug)]
struct Stored {
    /// The entry as returned by `Read`, without direct resources.
    entry: TableEntry,
    handle: Handle,
    /// Group and members of a one-shot action set on the switch.
    one_shot: Option<OneShot>,
}

#[derive(Clone, Debug)]
struct OneShot {
    group: Handle,
    members: Vec<Handle>,
}

#[derive(Clone, Debug)]
struct Member {
    action: proto::Action,
    handle: Handle,
    /// Number of entries and groups that reference the member.
    users: usize,
}

#[derive(Clone, Debug)]
struct Group {
    entry: ActionProfileGroup,
    handle: Handle,
    /// Number of entries that reference the group.
    users: usize,
}

/// Entities that controllers have written to one program.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Objects of the program.
    pub objects: Arc<Objects>,
    tables: Map<u32, Map<EntryKey, Stored>>,
    handles: Map<(u32, Handle), EntryKey>,
    /// Default entries that differ from the program's.
    defaults: Map<u32, TableEntry>,
    members: Map<(u32, u32), Member>,
    groups: Map<(u32, u32), Group>,
    multicast_groups: Map<u32, MulticastGroupEntry>,
    clone_sessions: Map<u32, CloneSessionEntry>,
    value_sets: Map<u32, Vec<ValueSetMember>>,
    /// Enabled digests with their configurations.
    pub digests: Map<u32, DigestConfig>,
}

/// State and switch program during a request.
pub struct Forwarding<'a, P> {
    /// State written by controllers.
    pub state: &'a mut State,
    /// Program on the switch.
    pub pipeline: &'a mut P,
}

impl<P: Pipeline> Forwarding<'_, P> {
    /// Executes an update; returns the updates that revert it, in order.
    pub fn update(&mut self, update: &Update) -> Result<Vec<Update>, Refusal> {
        let kind = update.r#type();
        if kind == UpdateType::Unspecified {
            return Err(Refusal::invalid("the update has no type"));
        }
        match entity(update.entity.as_ref())? {
            Kind::ExternEntry(_) => {
                Err(Refusal::unimplemented("this switch has no externs of other architectures"))
            }
            Kind::TableEntry(entry) => self.write_table_entry(kind, entry),
            Kind::ActionProfileMember(member) => self.write_member(kind, member),
            Kind::ActionProfileGroup(group) => self.write_group(kind, group),
            Kind::MeterEntry(meter) => self.write_meter(kind, meter),
            Kind::DirectMeterEntry(meter) => self.write_direct_meter(kind, meter),
            Kind::CounterEntry(counter) => self.write_counter(kind, counter),
            Kind::DirectCounterEntry(counter) => self.write_direct_counter(kind, counter),
            Kind::PacketReplicationEngineEntry(entry) => self.write_replication(kind, entry),
            Kind::ValueSetEntry(entry) => self.write_value_set(kind, entry),
            Kind::RegisterEntry(register) => self.write_register(kind, register),
            Kind::DigestEntry(digest) => self.write_digest(kind, digest),
        }
    }

    /// Appends the entities that a request selects to `found`.
    pub fn read(&self, request: &Entity, found: &mut Vec<Entity>) -> Result<(), Refusal> {
        match entity(Some(request))? {
            Kind::ExternEntry(_) => Ok(()),
            Kind::TableEntry(entry) => self.read_table_entries(entry, found),
            Kind::ActionProfileMember(member) => self.read_members(member, found),
            Kind::ActionProfileGroup(group) => self.read_groups(group, found),
            Kind::MeterEntry(meter) => self.read_meters(meter, found),
            Kind::DirectMeterEntry(meter) => self.read_direct_meters(meter, found),
            Kind::CounterEntry(counter) => self.read_counters(counter, found),
            Kind::DirectCounterEntry(counter) => self.read_direct_counters(counter, found),
            Kind::PacketReplicationEngineEntry(entry) => self.read_replication(entry, found),
            Kind::ValueSetEntry(entry) => self.read_value_sets(entry, found),
            Kind::RegisterEntry(register) => self.read_registers(register, found),
            Kind::DigestEntry(digest) => self.read_digests(digest, found),
        }
    }
}

fn entity(entity: Option<&Entity>) -> Result<&Kind, Refusal> {
    entity.and_then(|entity| entity.entity.as_ref()).ok_or_else(|| Refusal::invalid("the entity is not set"))
}

fn update(kind: UpdateType, entity: Kind) -> Update {
    Update { r#type: kind as i32, entity: Some(Entity { entity: Some(entity) }) }
}

fn found(entity: Kind) -> Entity {
    Entity { entity: Some(entity) }
}

/// Rejects the insertion and deletion of an object that only supports modification.
fn only_modify(kind: UpdateType, what: &str) -> Result<(), Refusal> {
    if kind == UpdateType::Modify {
        Ok(())
    } else {
        Err(Refusal::invalid(format!("{what} can only be modified")))
    }
}

/// Array indices that an update or request selects: one, or all.
fn indices(index: Option<proto::Index>, size: i64) -> Result<std::ops::Range<usize>, Refusal> {
    match index.map(|index| index.index) {
        None => Ok(0..usize::try_from(size).unwrap_or(0)),
        Some(index) if index < 0 => Err(Refusal::invalid(format!("index {index} is negative"))),
        Some(index) if index >= size => {
            Err(Refusal::out_of_range(format!("index {index} is beyond the size, {size}")))
        }
        Some(index) => {
            let index = index as usize;
            Ok(index..index + 1)
        }
    }
}
