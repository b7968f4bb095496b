//! Action profiles: members shared by tables, and groups from which a hash selects one.

use crate::bits::PADDING;
use crate::control::{ControlError, ErrorKind, Result};
use crate::hash::Hasher;
use crate::program::{Program, Table};
use crate::table::Outcome;
use belljar_base::Map;

#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub id: u32,
    /// Action index.
    pub action: u32,
    pub arguments: Vec<u8>,
    /// Number of entries and groups that reference the member.
    users: u32,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    pub id: u32,
    pub max_size: u32,
    /// Member identifiers and weights.
    pub members: Map<u32, u32>,
    /// Member slots, each repeated by its weight, ordered by identifier.
    choices: Vec<u32>,
    users: u32,
}

/// Per-switch state of an action profile.
#[derive(Clone, Debug)]
pub(crate) struct ProfileState {
    name: String,
    members: Vec<Option<Member>>,
    groups: Vec<Option<Group>>,
    by_id: Map<u32, u32>,
    groups_by_id: Map<u32, u32>,
    max_size: u64,
    pub hasher: Option<Hasher>,
}

/// Initial state of a program's profiles.
pub(crate) fn states(program: &Program) -> Vec<ProfileState> {
    let state = |profile: &crate::program::Profile| ProfileState {
        name: profile.name.clone(),
        members: Vec::new(),
        groups: Vec::new(),
        by_id: Map::new(),
        groups_by_id: Map::new(),
        max_size: profile.max_size,
        hasher: profile.selector.as_ref().map(|selector| Hasher::new(selector.algorithm)),
    };
    program.profiles.iter().map(state).collect()
}

/// Increments or decrements the reference count of the member or group that an entry uses.
pub(crate) fn hold(table: &Table, profiles: &mut [ProfileState], outcome: Outcome, add: bool) {
    let Some(profile) = table.profile else { return };
    let profile = &mut profiles[profile as usize];
    let users = match outcome {
        Outcome::Action(_) => None,
        Outcome::Member(place) => profile.members[place as usize].as_mut().map(|member| &mut member.users),
        Outcome::Group(place) => profile.groups[place as usize].as_mut().map(|group| &mut group.users),
    };
    if let Some(users) = users {
        *users = if add { *users + 1 } else { users.saturating_sub(1) };
    }
}

fn free_place<T>(places: &mut Vec<Option<T>>, value: T) -> u32 {
    let place = places.iter().position(Option::is_none).unwrap_or(places.len());
    if place == places.len() {
        places.push(None);
    }
    places[place] = Some(value);
    place as u32
}

impl ProfileState {
    pub fn member(&self, id: u32) -> Result<u32> {
        let place = self.by_id.get(&id).copied();
        place.ok_or_else(|| {
            ControlError::not_found(format!("action profile '{}' has no member {id}", self.name))
        })
    }
    pub fn group(&self, id: u32) -> Result<u32> {
        let place = self.groups_by_id.get(&id).copied();
        place.ok_or_else(|| {
            ControlError::not_found(format!("action profile '{}' has no group {id}", self.name))
        })
    }
    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.by_id.values().filter_map(|place| self.members[*place as usize].as_ref())
    }
    pub fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups_by_id.values().filter_map(|place| self.groups[*place as usize].as_ref())
    }
    pub fn member_at(&self, place: u32) -> Option<&Member> {
        self.members.get(place as usize)?.as_ref()
    }
    pub fn group_at(&self, place: u32) -> Option<&Group> {
        self.groups.get(place as usize)?.as_ref()
    }
    /// Member that a hash selects from a group; `None` if the group is empty.
    pub fn choose(&self, group: u32, hash: u64) -> Option<&Member> {
        let group = self.group_at(group)?;
        let count = group.choices.len() as u64;
        if count == 0 {
            return None;
        }
        self.member_at(group.choices[(hash % count) as usize])
    }
    /// Lowest unused identifier of a member or, with `groups`, of a group.
    pub fn free_id(&self, groups: bool) -> u32 {
        let taken = if groups { &self.groups_by_id } else { &self.by_id };
        (0..).find(|id| !taken.contains_key(id)).unwrap_or(u32::MAX)
    }

    pub fn add_member(&mut self, id: u32, action: u32, arguments: Vec<u8>) -> Result<()> {
        if self.by_id.contains_key(&id) {
            let message = format!("action profile '{}' has a member {id}", self.name);
            return Err(ControlError::new(ErrorKind::AlreadyExists, message));
        }
        if self.by_id.len() as u64 >= self.max_size {
            let message = format!("action profile '{}' is full with {} members", self.name, self.max_size);
            return Err(ControlError::new(ErrorKind::ResourceExhausted, message));
        }
        let place = free_place(&mut self.members, Member { id, action, arguments, users: 0 });
        self.by_id.insert(id, place);
        Ok(())
    }
    pub fn modify_member(&mut self, id: u32, action: u32, arguments: Vec<u8>) -> Result<()> {
        let place = self.member(id)?;
        if let Some(member) = &mut self.members[place as usize] {
            (member.action, member.arguments) = (action, arguments);
        }
        Ok(())
    }
    pub fn delete_member(&mut self, id: u32) -> Result<()> {
        let place = self.member(id)?;
        if self.members[place as usize].as_ref().is_some_and(|member| member.users > 0) {
            let message =
                format!("member {id} of action profile '{}' is in use by an entry or group", self.name);
            return Err(ControlError::new(ErrorKind::FailedPrecondition, message));
        }
        self.members[place as usize] = None;
        self.by_id.remove(&id);
        Ok(())
    }

    fn selects(&self) -> Result<()> {
        if self.hasher.is_none() {
            return Err(ControlError::invalid(format!(
                "action profile '{}' has no selector and so no groups",
                self.name
            )));
        }
        Ok(())
    }
    pub fn add_group(&mut self, id: u32, max_size: u32) -> Result<()> {
        self.selects()?;
        if self.groups_by_id.contains_key(&id) {
            let message = format!("action profile '{}' has a group {id}", self.name);
            return Err(ControlError::new(ErrorKind::AlreadyExists, message));
        }
        let place = free_place(&mut self.groups, Group { id, max_size, ..Group::default() });
        self.groups_by_id.insert(id, place);
        Ok(())
    }
    /// Replaces the members of a group and their weights.
    pub fn set_group(&mut self, id: u32, members: &[(u32, u32)]) -> Result<()> {
        let place = self.group(id)?;
        let mut new: Map<u32, u32> = Map::new();
        for (member, weight) in members {
            self.member(*member)?;
            if *weight == 0 || *weight > 65_536 {
                return Err(ControlError::invalid(format!(
                    "member {member} of group {id} has the weight {weight}"
                )));
            }
            if new.insert(*member, *weight).is_some() {
                return Err(ControlError::invalid(format!("member {member} is in group {id} twice")));
            }
        }
        let max = self.groups[place as usize].as_ref().map_or(0, |group| group.max_size);
        let total: u64 = new.values().map(|weight| u64::from(*weight)).sum();
        if max > 0 && total > u64::from(max) || total > 1 << 20 {
            let message = format!("group {id} of action profile '{}' would have {total} members", self.name);
            return Err(ControlError::new(ErrorKind::ResourceExhausted, message));
        }
        let mut choices = Vec::new();
        for (member, weight) in &new {
            let member = self.member(*member)?;
            choices.extend(std::iter::repeat_n(member, *weight as usize));
        }
        let Some(group) = &mut self.groups[place as usize] else { return Ok(()) };
        let old = std::mem::replace(&mut group.members, new.clone());
        group.choices = choices;
        for (members, add) in [(new, true), (old, false)] {
            for member in members.into_keys() {
                let place = self.member(member)?;
                if let Some(member) = &mut self.members[place as usize] {
                    member.users = if add { member.users + 1 } else { member.users.saturating_sub(1) };
                }
            }
        }
        Ok(())
    }
    pub fn delete_group(&mut self, id: u32) -> Result<()> {
        let place = self.group(id)?;
        if self.groups[place as usize].as_ref().is_some_and(|group| group.users > 0) {
            let message = format!("group {id} of action profile '{}' is in use by an entry", self.name);
            return Err(ControlError::new(ErrorKind::FailedPrecondition, message));
        }
        self.set_group(id, &[])?;
        self.groups[place as usize] = None;
        self.groups_by_id.remove(&id);
        Ok(())
    }
    /// Copies the arguments of a member to `out` with the padding that actions require.
    pub fn padded(arguments: &[u8], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(arguments);
        out.resize(arguments.len() + PADDING, 0);
    }
}
