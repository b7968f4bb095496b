//! Groups of action selectors, and one-shot action sets, which are anonymous groups.

use super::{Forwarding, Group, OneShot, actions, found, update};
use crate::bytestring;
use crate::grpc::Code;
use crate::pipeline::{Pipeline, Share};
use crate::proto::entity::Entity as Kind;
use crate::proto::{
    ActionProfileAction, ActionProfileActionSet, ActionProfileGroup, Entity, Update, UpdateType, WatchKind,
};
use crate::refusal::Refusal;
use belljar_base::Set;
use belljar_p4info::{Objects, Profile, Table};
use std::sync::Arc;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_group(
        &mut self,
        kind: UpdateType,
        group: &ActionProfileGroup,
    ) -> Result<Vec<Update>, Refusal> {
        let objects = Arc::clone(&self.state.objects);
        let profile = objects.profile(group.action_profile_id)?;
        if !profile.has_selector {
            return Err(Refusal::invalid(format!(
                "action profile '{}' has no selector, so it has no groups",
                profile.name
            )));
        }
        if group.group_id == 0 {
            return Err(Refusal::invalid("a group's id is not 0"));
        }
        let key = (group.action_profile_id, group.group_id);
        if kind == UpdateType::Insert {
            if self.state.groups.contains_key(&key) {
                return Err(Refusal::exists(format!(
                    "action profile '{}' has a group {}",
                    profile.name, key.1
                )));
            }
            let shares = self.shares(profile, group)?;
            let handle = self.pipeline.add_group(&profile.name, &shares)?;
            self.count_members(group, 1);
            self.state.groups.insert(key, Group { entry: group.clone(), handle, users: 0 });
            return Ok(vec![update(UpdateType::Delete, Kind::ActionProfileGroup(group.clone()))]);
        }
        let old = self.group(profile, key.0, key.1)?.clone();
        if kind == UpdateType::Modify {
            if group.max_size != old.entry.max_size {
                return Err(Refusal::invalid("'max_size' cannot be changed"));
            }
            let shares = self.shares(profile, group)?;
            self.pipeline.modify_group(&profile.name, old.handle, &shares)?;
            self.count_members(group, 1);
            self.count_members(&old.entry, -1);
            self.state.groups.insert(key, Group { entry: group.clone(), ..old });
            return Ok(vec![update(UpdateType::Modify, Kind::ActionProfileGroup(old.entry))]);
        }
        if old.users > 0 {
            let message = format!("group {} of '{}' is in use by {} entries", key.1, profile.name, old.users);
            return Err(Refusal::new(Code::FailedPrecondition, message));
        }
        self.pipeline.delete_group(&profile.name, old.handle)?;
        self.count_members(&old.entry, -1);
        self.state.groups.remove(&key);
        Ok(vec![update(UpdateType::Insert, Kind::ActionProfileGroup(old.entry))])
    }

    /// Group by its id.
    pub(super) fn group(&self, profile: &Profile, profile_id: u32, id: u32) -> Result<&Group, Refusal> {
        let group = self.state.groups.get(&(profile_id, id));
        group
            .ok_or_else(|| Refusal::not_found(format!("action profile '{}' has no group {id}", profile.name)))
    }

    /// Validates the members of a group.
    fn shares(&self, profile: &Profile, group: &ActionProfileGroup) -> Result<Vec<Share>, Refusal> {
        let limit = match (profile.max_group_size, group.max_size) {
            (_, ..0) => return Err(Refusal::invalid("'max_size' is negative")),
            (most @ 1.., size) if size > most => {
                return Err(Refusal::invalid(format!(
                    "'max_size' is {size}; the selector's groups have at most {most}"
                )));
            }
            (most, 0) => most,
            (_, size) => size,
        };
        let mut ids = Set::new();
        let mut shares = Vec::with_capacity(group.members.len());
        for member in &group.members {
            if !ids.insert(member.member_id) {
                return Err(Refusal::invalid(format!(
                    "member {} occurs twice; its weight says how often it counts",
                    member.member_id
                )));
            }
            let stored = self.member(profile, group.action_profile_id, member.member_id)?;
            let weight = weight(profile, member.weight)?;
            shares.push(Share {
                member: stored.handle,
                weight,
                watch_port: watch_port(member.watch_kind.as_ref())?,
            });
        }
        check_size(profile, &shares, limit, Code::ResourceExhausted)?;
        Ok(shares)
    }

    pub(super) fn count_members(&mut self, group: &ActionProfileGroup, change: isize) {
        for member in &group.members {
            if let Some(member) = self.state.members.get_mut(&(group.action_profile_id, member.member_id)) {
                member.users = member.users.saturating_add_signed(change);
            }
        }
    }

    pub(super) fn read_groups(
        &self,
        request: &ActionProfileGroup,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        if request.action_profile_id != 0 {
            let profile = self.state.objects.profile(request.action_profile_id)?;
            if request.group_id != 0 {
                self.group(profile, request.action_profile_id, request.group_id)?;
            }
        }
        let selected = self.state.groups.iter().filter(|((profile, group), _)| {
            [0, *profile].contains(&request.action_profile_id) && [0, *group].contains(&request.group_id)
        });
        all.extend(selected.map(|(_, stored)| found(Kind::ActionProfileGroup(stored.entry.clone()))));
        Ok(())
    }

    /// Creates the members and the group of a one-shot action set; returns the set in canonical form.
    pub(super) fn add_one_shot(
        &mut self,
        objects: &Objects,
        table: &Table,
        profile: &Profile,
        set: &ActionProfileActionSet,
    ) -> Result<(ActionProfileActionSet, OneShot), Refusal> {
        if set.action_selection_mode != 0 || set.size_semantics != 0 || set.group_action.is_some() {
            return Err(Refusal::unimplemented(
                "a selector's mode, the semantics of sizes and group actions cannot be set by entry",
            ));
        }
        let mut checked = Vec::with_capacity(set.action_profile_actions.len());
        let mut kept = Vec::with_capacity(set.action_profile_actions.len());
        for one in &set.action_profile_actions {
            let action =
                one.action.as_ref().ok_or_else(|| Refusal::invalid("an action of the set is missing"))?;
            actions::allowed(table, action, actions::Place::Entry)?;
            let (action, call) = actions::canonical(objects, action)?;
            let watch_port = watch_port(one.watch_kind.as_ref())?;
            checked.push((call, Share { member: 0, weight: weight(profile, one.weight)?, watch_port }));
            kept.push(ActionProfileAction { action: Some(action), ..one.clone() });
        }
        let shares: Vec<Share> = checked.iter().map(|(_, share)| share.clone()).collect();
        check_size(profile, &shares, profile.max_group_size, Code::InvalidArgument)?;
        let mut one_shot = OneShot { group: 0, members: Vec::new() };
        let mut shares = Vec::with_capacity(checked.len());
        for (call, share) in checked {
            match self.pipeline.add_member(&profile.name, &call) {
                Ok(member) => {
                    one_shot.members.push(member);
                    shares.push(Share { member, ..share });
                }
                Err(refusal) => {
                    self.delete_members(profile, &one_shot);
                    return Err(refusal);
                }
            }
        }
        match self.pipeline.add_group(&profile.name, &shares) {
            Ok(group) => one_shot.group = group,
            Err(refusal) => {
                self.delete_members(profile, &one_shot);
                return Err(refusal);
            }
        }
        Ok((ActionProfileActionSet { action_profile_actions: kept, ..set.clone() }, one_shot))
    }

    /// Deletes the members and the group of a one-shot action set.
    pub(super) fn release(&mut self, table: &Table, one_shot: Option<&OneShot>) {
        let objects = Arc::clone(&self.state.objects);
        let profile = table.profile.and_then(|id| objects.profiles.get(&id));
        if let (Some(profile), Some(one_shot)) = (profile, one_shot) {
            // No other object can reference them, so the deletion cannot fail.
            let _ = self.pipeline.delete_group(&profile.name, one_shot.group);
            self.delete_members(profile, one_shot);
        }
    }

    fn delete_members(&mut self, profile: &Profile, one_shot: &OneShot) {
        for member in &one_shot.members {
            let _ = self.pipeline.delete_member(&profile.name, *member);
        }
    }
}

fn weight(profile: &Profile, weight: i32) -> Result<u32, Refusal> {
    match (profile.weights_disallowed, weight) {
        (true, 0) => Ok(1),
        (true, _) => Err(Refusal::invalid(format!("action profile '{}' allows no weights", profile.name))),
        (false, 1..) => match profile.max_member_weight {
            Some(most @ 1..) if weight > most => {
                Err(Refusal::invalid(format!("weight {weight} is more than {most}, the most of a member")))
            }
            _ => Ok(weight as u32),
        },
        (false, _) => Err(Refusal::invalid("a weight must be at least 1")),
    }
}

/// Checks the size of a group against `limit` (0 for none), by the size semantics of the profile.
fn check_size(profile: &Profile, shares: &[Share], limit: i32, code: Code) -> Result<(), Refusal> {
    let size: u64 = match profile.max_member_weight {
        Some(_) => shares.len() as u64,
        None => shares.iter().map(|share| u64::from(share.weight)).sum(),
    };
    match u64::try_from(limit) {
        Ok(limit @ 1..) if size > limit => {
            Err(Refusal::new(code, format!("the group's size is {size}; it can be {limit}")))
        }
        _ => Ok(()),
    }
}

fn watch_port(kind: Option<&WatchKind>) -> Result<Option<u32>, Refusal> {
    match kind {
        None | Some(WatchKind::Watch(0)) => Ok(None),
        Some(WatchKind::Watch(port)) => {
            u32::try_from(*port).map(Some).map_err(|_| Refusal::invalid("the watch port is negative"))
        }
        Some(WatchKind::WatchPort(port)) if port.is_empty() => Ok(None),
        Some(WatchKind::WatchPort(port)) => {
            bytestring::u32(port).map(Some).map_err(|refusal| refusal.at("the watch port"))
        }
    }
}
