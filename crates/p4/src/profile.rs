//! Action profiles: members shared by tables, and groups from which a hash selects one.

use crate::bits::PADDING;
use crate::control::{ControlError, ErrorKind, Result, Share};
use crate::hash::Hasher;
use crate::program::{Program, Table};
use crate::table::Outcome;
use belljar_base::{Map, Set};

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
    /// All members of a group that watches ports, those included that are left out now; else empty.
    shares: Vec<Share>,
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
        group.shares = Vec::new();
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
    /// Gives a group its members, without those whose watch ports are `down`.
    pub fn set_watching_group(&mut self, id: u32, shares: Vec<Share>, down: &Set<u32>) -> Result<()> {
        let live = shares.iter().filter(|share| share.watch_port.is_none_or(|port| !down.contains(&port)));
        let members: Vec<_> = live.map(|share| (share.member, share.weight)).collect();
        self.set_group(id, &members)?;
        let place = self.group(id)?;
        if let Some(group) = &mut self.groups[place as usize]
            && shares.iter().any(|share| share.watch_port.is_some())
        {
            group.shares = shares;
        }
        Ok(())
    }
    /// Changes the groups that watch ports, of which these are `down` now.
    pub fn set_ports_down(&mut self, down: &Set<u32>) {
        let watching = self.groups().filter(|group| !group.shares.is_empty());
        let watching: Vec<_> = watching.map(|group| (group.id, group.shares.clone())).collect();
        for (id, shares) in watching {
            // The group has taken the same members before, so it takes some of them.
            let _ = self.set_watching_group(id, shares, down);
        }
    }
    /// Members of a group, those included that are left out now.
    pub fn shares(&self, id: u32) -> Result<Vec<Share>> {
        let Some(group) = self.group_at(self.group(id)?) else { return Ok(Vec::new()) };
        if !group.shares.is_empty() {
            return Ok(group.shares.clone());
        }
        let share =
            |(member, weight): (&u32, &u32)| Share { member: *member, weight: *weight, watch_port: None };
        Ok(group.members.iter().map(share).collect())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Algorithm;

    #[test]
    fn members_are_left_out_while_their_watch_ports_are_down() {
        let mut profile = ProfileState {
            name: "paths".to_owned(),
            members: Vec::new(),
            groups: Vec::new(),
            by_id: Map::new(),
            groups_by_id: Map::new(),
            max_size: 8,
            hasher: Some(Hasher::new(Algorithm::Identity)),
        };
        for member in 0..3 {
            profile.add_member(member, 0, Vec::new()).unwrap();
        }
        profile.add_group(5, 0).unwrap();
        let share = |member, watch_port| Share { member, weight: 1, watch_port };
        let shares = vec![share(0, Some(1)), share(1, Some(2)), share(2, None)];
        let down = |ports: &[u32]| ports.iter().copied().collect::<Set<u32>>();
        let live = |profile: &ProfileState| {
            profile.groups().flat_map(|group| group.members.keys().copied()).collect::<Vec<_>>()
        };
        profile.set_watching_group(5, shares.clone(), &down(&[2])).unwrap();
        assert_eq!((live(&profile), profile.shares(5).unwrap()), (vec![0, 2], shares.clone()));
        profile.set_ports_down(&down(&[1]));
        assert_eq!((live(&profile), profile.shares(5).unwrap()), (vec![1, 2], shares));
        // Members that are set without watch ports stay whatever ports do.
        profile.set_group(5, &[(0, 2)]).unwrap();
        profile.set_ports_down(&down(&[1, 2]));
        assert_eq!(
            (live(&profile), profile.shares(5).unwrap()),
            (vec![0], vec![Share { weight: 2, ..share(0, None) }])
        );
    }
}
