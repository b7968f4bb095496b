//! Action profiles: members and groups.

use super::call::{Answer, Call, Failure, code_of, table_error as code};
use super::value::{Value, types};
use belljar_p4::control::{ControlError, ErrorKind, Group, Member};

/// Executes a method on action profiles; `None` for other methods.
pub fn call(call: &mut Call<'_>) -> Option<Answer> {
    let operation = call.method.strip_prefix("bm_mt_act_prof_")?;
    let profile = call.text(2).and_then(|name| {
        call.switch.program().profile(name).map_err(|_| Failure::Code(code::INVALID_ACTION_PROFILE_NAME))
    });
    let profile = match profile {
        Ok(profile) => profile,
        Err(failure) => return Some(Err(failure)),
    };
    Some(match operation {
        "add_member" => call.add_member(profile),
        "modify_member" => call.modify_member(profile),
        "delete_member" => call.delete_member(profile),
        "create_group" => call.create_group(profile),
        "delete_group" => call.delete_group(profile),
        "add_member_to_group" => call.change_group(profile, true),
        "remove_member_from_group" => call.change_group(profile, false),
        "get_members" => call.members(profile).map(|members| {
            let members = members.iter().map(|member| call.member_value(member));
            Some(Value::list(types::STRUCT, members))
        }),
        "get_member" => call.member(profile).map(|member| Some(call.member_value(&member))),
        "get_groups" => call
            .groups(profile)
            .map(|groups| Some(Value::list(types::STRUCT, groups.iter().map(group_value)))),
        "get_group" => call.group(profile, 3).map(|group| Some(group_value(&group))),
        _ => return None,
    })
}

/// Maps an error about members and groups to a code; `unknown` and `used` are the codes for missing and
/// referenced objects.
fn refuse<T>(result: Result<T, ControlError>, unknown: i32, used: i32) -> Result<T, Failure> {
    let codes = [
        (ErrorKind::NotFound, unknown),
        (ErrorKind::FailedPrecondition, used),
        (ErrorKind::ResourceExhausted, code::TABLE_FULL),
        (ErrorKind::InvalidArgument, code::BAD_ACTION_DATA),
    ];
    code_of(result, &codes, code::ERROR)
}

impl Call<'_> {
    /// Index of the action that an argument of the call names.
    fn action_of_member(&self, profile: u32, name: i16) -> Result<u32, Failure> {
        let action = self.program().action_of_profile(profile, self.text(name)?);
        action.map_err(|_| Failure::Code(code::INVALID_ACTION_NAME))
    }
    fn add_member(&mut self, profile: u32) -> Answer {
        let (action, data) = (self.action_of_member(profile, 3)?, self.byte_strings(4)?);
        let id = refuse(self.switch.free_member(profile), code::ERROR, code::ERROR)?;
        refuse(self.switch.add_member(profile, id, action, &data), code::ERROR, code::ERROR)?;
        Ok(Some(Value::I32(id as i32)))
    }
    fn modify_member(&mut self, profile: u32) -> Answer {
        let (member, action) = (self.index(3, code::INVALID_MBR_HANDLE)?, self.action_of_member(profile, 4)?);
        let data = self.byte_strings(5)?;
        let modified = self.switch.modify_member(profile, member, action, &data);
        refuse(modified, code::INVALID_MBR_HANDLE, code::ERROR).map(|()| None)
    }
    fn delete_member(&mut self, profile: u32) -> Answer {
        let member = self.index(3, code::INVALID_MBR_HANDLE)?;
        let deleted = self.switch.delete_member(profile, member);
        refuse(deleted, code::INVALID_MBR_HANDLE, code::MBR_STILL_USED).map(|()| None)
    }
    fn create_group(&mut self, profile: u32) -> Answer {
        let id = refuse(self.switch.free_group(profile), code::ERROR, code::ERROR)?;
        refuse(self.switch.add_group(profile, id, 0), code::ERROR, code::ERROR)?;
        Ok(Some(Value::I32(id as i32)))
    }
    fn delete_group(&mut self, profile: u32) -> Answer {
        let group = self.index(3, code::INVALID_GRP_HANDLE)?;
        let deleted = self.switch.delete_group(profile, group);
        refuse(deleted, code::INVALID_GRP_HANDLE, code::GRP_STILL_USED).map(|()| None)
    }
    fn change_group(&mut self, profile: u32, adds: bool) -> Answer {
        let member = self.index(3, code::INVALID_MBR_HANDLE)?;
        if !self.members(profile)?.iter().any(|one| one.id == member) {
            return Err(Failure::Code(code::INVALID_MBR_HANDLE));
        }
        let Group { id, mut members, .. } = self.group(profile, 4)?;
        match (adds, members.iter().position(|(one, _)| *one == member)) {
            (true, None) => members.push((member, 1)),
            (true, Some(_)) => return Err(Failure::Code(code::MBR_ALREADY_IN_GRP)),
            (false, Some(at)) => {
                members.remove(at);
            }
            (false, None) => return Err(Failure::Code(code::MBR_NOT_IN_GRP)),
        }
        refuse(self.switch.set_group(profile, id, &members), code::ERROR, code::ERROR).map(|()| None)
    }

    fn members(&self, profile: u32) -> Result<Vec<Member>, Failure> {
        refuse(self.switch.members(profile), code::ERROR, code::ERROR)
    }
    fn member(&self, profile: u32) -> Result<Member, Failure> {
        let id = self.index(3, code::INVALID_MBR_HANDLE)?;
        let found = self.members(profile)?.into_iter().find(|member| member.id == id);
        found.ok_or(Failure::Code(code::INVALID_MBR_HANDLE))
    }
    fn groups(&self, profile: u32) -> Result<Vec<Group>, Failure> {
        refuse(self.switch.groups(profile), code::ERROR, code::ERROR)
    }
    fn group(&self, profile: u32, number: i16) -> Result<Group, Failure> {
        let id = self.index(number, code::INVALID_GRP_HANDLE)?;
        let found = self.groups(profile)?.into_iter().find(|group| group.id == id);
        found.ok_or(Failure::Code(code::INVALID_GRP_HANDLE))
    }
    /// Encodes a `BmMtActProfMember`.
    fn member_value(&self, member: &Member) -> Value {
        let (name, data) = self.action_data(member.action, &member.arguments);
        Value::of([(1, Value::I32(member.id as i32)), (2, name), (3, data)])
    }
}

/// Encodes a `BmMtActProfGroup`.
fn group_value(group: &Group) -> Value {
    let members = group.members.iter().map(|(member, _)| Value::I32(*member as i32));
    Value::of([(1, Value::I32(group.id as i32)), (2, Value::list(types::I32, members))])
}
