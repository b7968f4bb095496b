//! Members of action profiles.

use super::{Forwarding, Member, actions, found, update};
use crate::grpc::Code;
use crate::pipeline::{Call, Pipeline};
use crate::proto::entity::Entity as Kind;
use crate::proto::{Action, ActionProfileMember, Entity, Update, UpdateType};
use crate::refusal::Refusal;
use belljar_p4info::Profile;
use std::sync::Arc;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_member(
        &mut self,
        kind: UpdateType,
        member: &ActionProfileMember,
    ) -> Result<Vec<Update>, Refusal> {
        let objects = Arc::clone(&self.state.objects);
        let profile = objects.profile(member.action_profile_id)?;
        if member.member_id == 0 {
            return Err(Refusal::invalid("a member's id is not 0"));
        }
        let key = (member.action_profile_id, member.member_id);
        let whole = |action| {
            Kind::ActionProfileMember(ActionProfileMember {
                action_profile_id: key.0,
                member_id: key.1,
                action: Some(action),
            })
        };
        if kind == UpdateType::Insert {
            if self.state.members.contains_key(&key) {
                return Err(Refusal::exists(format!(
                    "action profile '{}' has a member {}",
                    profile.name, key.1
                )));
            }
            let (action, call) = self.member_action(profile, member.action.as_ref())?;
            let count = self.state.members.range((key.0, 0)..=(key.0, u32::MAX)).count();
            if !profile.has_selector && profile.size > 0 && count as i64 >= profile.size {
                return Err(Refusal::new(
                    Code::ResourceExhausted,
                    format!("action profile '{}' is full: it has {count} members", profile.name),
                ));
            }
            let handle = self.pipeline.add_member(&profile.name, &call)?;
            self.state.members.insert(key, Member { action: action.clone(), handle, users: 0 });
            return Ok(vec![update(UpdateType::Delete, whole(action))]);
        }
        let old = self.member(profile, key.0, key.1)?.clone();
        if kind == UpdateType::Modify {
            let (action, call) = self.member_action(profile, member.action.as_ref())?;
            self.pipeline.modify_member(&profile.name, old.handle, &call)?;
            self.state.members.insert(key, Member { action, ..old.clone() });
            return Ok(vec![update(UpdateType::Modify, whole(old.action))]);
        }
        if old.users > 0 {
            let message = format!(
                "member {} of '{}' is in use by {} entries or groups",
                key.1, profile.name, old.users
            );
            return Err(Refusal::new(Code::FailedPrecondition, message));
        }
        self.pipeline.delete_member(&profile.name, old.handle)?;
        self.state.members.remove(&key);
        Ok(vec![update(UpdateType::Insert, whole(old.action))])
    }

    /// Member by its id.
    pub(super) fn member(&self, profile: &Profile, profile_id: u32, id: u32) -> Result<&Member, Refusal> {
        let member = self.state.members.get(&(profile_id, id));
        member.ok_or_else(|| {
            Refusal::not_found(format!("action profile '{}' has no member {id}", profile.name))
        })
    }

    /// Validates the action of a member.
    pub(super) fn member_action(
        &self,
        profile: &Profile,
        action: Option<&Action>,
    ) -> Result<(Action, Call), Refusal> {
        let action = action.ok_or_else(|| Refusal::invalid("the member has no action"))?;
        if !profile.actions.contains(&action.action_id) {
            return Err(Refusal::invalid(format!(
                "no table of action profile '{}' has action {:#010x}",
                profile.name, action.action_id
            )));
        }
        actions::canonical(&self.state.objects, action)
    }

    pub(super) fn read_members(
        &self,
        request: &ActionProfileMember,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        if request.action_profile_id != 0 {
            let profile = self.state.objects.profile(request.action_profile_id)?;
            if request.member_id != 0 {
                self.member(profile, request.action_profile_id, request.member_id)?;
            }
        }
        let selected = self.state.members.iter().filter(|((profile, member), _)| {
            [0, *profile].contains(&request.action_profile_id) && [0, *member].contains(&request.member_id)
        });
        all.extend(selected.map(|((profile, member), stored)| {
            found(Kind::ActionProfileMember(ActionProfileMember {
                action_profile_id: *profile,
                member_id: *member,
                action: Some(stored.action.clone()),
            }))
        }));
        Ok(())
    }
}
