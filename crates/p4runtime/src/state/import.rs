//! Import of state that was set up by other means than P4Runtime: by the program's source, by files, or by
//! other interfaces.

use super::{Forwarding, Group, Member, State, Stored, actions, matches};
use crate::bytestring;
use crate::pipeline::{Copy, Entry, Handle, Pipeline, Target};
use crate::proto::entity::Entity as Kind;
use crate::proto::{
    ActionProfileGroup, CloneSessionEntry, GroupMember, MulticastGroupEntry, PortKind, Replica, TableAction,
    TableEntry, UpdateType, WatchKind, table_action,
};
use crate::refusal::Refusal;
use belljar_base::{Map, Set};
use belljar_p4info::{Objects, Profile, Table};
use std::sync::Arc;

impl State {
    /// State of a program without entries.
    pub fn new(objects: Objects) -> Self {
        Self { objects: Arc::new(objects), ..Self::default() }
    }
}

impl<P: Pipeline> Forwarding<'_, P> {
    /// Imports the objects of the switch that the state lacks. Members and groups keep the switch's numbers
    /// as ids, unless controllers use those ids.
    pub fn import(&mut self) {
        let objects = Arc::clone(&self.state.objects);
        for (id, profile) in &objects.profiles {
            self.import_members(&objects, *id, profile);
        }
        for table in objects.tables.values() {
            for entry in self.pipeline.entries(&table.name) {
                self.import_entry(&objects, table, entry);
            }
        }
        for (id, copies) in self.pipeline.multicast_groups() {
            self.state.multicast_groups.entry(id).or_insert_with(|| MulticastGroupEntry {
                multicast_group_id: id,
                replicas: replicas(&copies),
                metadata: Vec::new(),
            });
        }
        for (id, copies, length) in self.pipeline.clone_sessions() {
            // P4Runtime has no clone session 0.
            if id != 0 {
                self.state.clone_sessions.entry(id).or_insert_with(|| CloneSessionEntry {
                    session_id: id,
                    replicas: replicas(&copies),
                    class_of_service: 0,
                    packet_length_bytes: length as i32,
                });
            }
        }
    }

    /// Imports members and groups that were created neither by controllers nor by their one-shot action sets.
    fn import_members(&mut self, objects: &Objects, id: u32, profile: &Profile) {
        let one_shots =
            self.state.tables.values().flat_map(Map::values).filter_map(|stored| stored.one_shot.as_ref());
        let (mut members, mut groups) = (Set::new(), Set::new());
        for one_shot in one_shots {
            members.extend(one_shot.members.iter().copied());
            groups.insert(one_shot.group);
        }
        members.extend(self.known_members(id).keys());
        groups.extend(self.known_groups(id).keys());
        for (handle, call) in self.pipeline.members(&profile.name) {
            let key = (id, handle as u32);
            if let Some(action) = actions::from_call(objects, &call)
                && !members.contains(&handle)
            {
                self.state.members.entry(key).or_insert(Member { action, handle, users: 0 });
            }
        }
        let known = self.known_members(id);
        for (handle, shares) in self.pipeline.groups(&profile.name) {
            let key = (id, handle as u32);
            if groups.contains(&handle) || self.state.groups.contains_key(&key) {
                continue;
            }
            let members = shares.iter().filter_map(|share| {
                let watch_kind =
                    share.watch_port.map(|port| WatchKind::WatchPort(bytestring::from_u32(port)));
                Some(GroupMember {
                    member_id: *known.get(&share.member)?,
                    weight: share.weight as i32,
                    watch_kind,
                })
            });
            let entry = ActionProfileGroup {
                action_profile_id: id,
                group_id: key.1,
                members: members.collect(),
                max_size: 0,
            };
            self.count_members(&entry, 1);
            self.state.groups.insert(key, Group { entry, handle, users: 0 });
        }
    }

    fn known_members(&self, profile: u32) -> Map<Handle, u32> {
        let of_profile = self.state.members.iter().filter(|((of, _), _)| *of == profile);
        of_profile.map(|((_, id), member)| (member.handle, *id)).collect()
    }

    fn known_groups(&self, profile: u32) -> Map<Handle, u32> {
        let of_profile = self.state.groups.iter().filter(|((of, _), _)| *of == profile);
        of_profile.map(|((_, id), group)| (group.handle, *id)).collect()
    }

    /// Deletes the non-constant entries from the program's source, so that they can be written again.
    pub fn clear_tables(&mut self, ids: impl Iterator<Item = u32>) -> Result<(), Refusal> {
        for id in ids {
            let entries = self.state.tables.get(&id).into_iter().flat_map(Map::values);
            let entries: Vec<TableEntry> =
                entries.map(|stored| stored.entry.clone()).filter(|entry| !entry.is_const).collect();
            for entry in entries {
                self.update(&super::update(UpdateType::Delete, Kind::TableEntry(Box::new(entry))))?;
            }
        }
        Ok(())
    }

    fn import_entry(&mut self, objects: &Objects, table: &Table, entry: Entry) {
        if self.state.handles.contains_key(&(table.id, entry.handle)) {
            return;
        }
        let profile = table.profile.unwrap_or(0);
        let kind = match &entry.target {
            Target::Action(call) => actions::from_call(objects, call).map(table_action::Type::Action),
            Target::Member(handle) => self
                .known_members(profile)
                .get(handle)
                .map(|id| table_action::Type::ActionProfileMemberId(*id)),
            Target::Group(handle) => {
                self.known_groups(profile).get(handle).map(|id| table_action::Type::ActionProfileGroupId(*id))
            }
        };
        let Some(kind) = kind else { return };
        let action = TableAction { r#type: Some(kind) };
        self.count_users(table, &action, 1);
        let matches = matches::from_keys(&table.fields, &entry.keys);
        let key = (matches.clone(), entry.priority);
        let stored = TableEntry {
            table_id: table.id,
            r#match: matches,
            action: Some(action),
            priority: entry.priority,
            is_const: entry.is_const || table.is_const,
            ..TableEntry::default()
        };
        self.state.handles.insert((table.id, entry.handle), key.clone());
        let stored = Stored { entry: stored, handle: entry.handle, one_shot: None };
        self.state.tables.entry(table.id).or_default().insert(key, stored);
    }
}

fn replicas(copies: &[Copy]) -> Vec<Replica> {
    let one = |copy: &Copy| Replica {
        port_kind: Some(PortKind::Port(bytestring::from_u32(copy.port))),
        instance: copy.instance,
        ..Replica::default()
    };
    copies.iter().map(one).collect()
}
