//! The state that controllers write, kept as they wrote it beside the switch's own: what is read is what was written.
//!
//! [`State`] is that of one program. A request works on it and on the switch's [`Pipeline`] together, as [`Forwarding`];
//! [`Forwarding::update`] and [`Forwarding::read`] are the two things that can be done with it. An update gives the updates
//! that undo it.

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

/// The key of an entry within its table: its matches in canonical form, and its priority.
pub type EntryKey = (Vec<FieldMatch>, i32);

/// An entry of a table.
#[derive(Clone, Debug)]
struct Stored {
    /// As it is read, without direct resources.
    entry: TableEntry,
    handle: Handle,
    /// The group and members that the switch needs for a one-shot action set.
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
    /// Entries and groups that refer to it.
    users: usize,
}

#[derive(Clone, Debug)]
struct Group {
    entry: ActionProfileGroup,
    handle: Handle,
    /// Entries that refer to it.
    users: usize,
}

/// The entities that controllers have written to one program.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The program's objects.
    pub objects: Arc<Objects>,
    tables: Map<u32, Map<EntryKey, Stored>>,
    handles: Map<(u32, Handle), EntryKey>,
    /// Default entries that are not the program's own.
    defaults: Map<u32, TableEntry>,
    members: Map<(u32, u32), Member>,
    groups: Map<(u32, u32), Group>,
    multicast_groups: Map<u32, MulticastGroupEntry>,
    clone_sessions: Map<u32, CloneSessionEntry>,
    value_sets: Map<u32, Vec<ValueSetMember>>,
    /// Digests that are told of, with their settings.
    pub digests: Map<u32, DigestConfig>,
}

/// The state and the switch's program while a request is carried out.
pub struct Forwarding<'a, P> {
    /// The entities written.
    pub state: &'a mut State,
    /// The switch's program.
    pub pipeline: &'a mut P,
}

impl<P: Pipeline> Forwarding<'_, P> {
    /// Carries out one update, and gives those that undo it, in order.
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

    /// Adds what a request asks for to `found`.
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

/// Refuses what cannot be inserted or deleted.
fn only_modify(kind: UpdateType, what: &str) -> Result<(), Refusal> {
    if kind == UpdateType::Modify {
        Ok(())
    } else {
        Err(Refusal::invalid(format!("{what} can only be modified")))
    }
}

/// The indices of an array that an update or a request means: one, or all.
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
