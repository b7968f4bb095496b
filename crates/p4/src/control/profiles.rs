use super::{ControlError, Group, Member, Result, Share};
use crate::Switch;
use crate::profile::ProfileState;

impl Switch {
    fn profile(&self, profile: u32) -> Result<&ProfileState> {
        let state = self.state.profiles.get(profile as usize);
        state.ok_or_else(|| {
            ControlError::not_found(format!("the program has no action profile number {profile}"))
        })
    }
    fn profile_mut(&mut self, profile: u32) -> Result<&mut ProfileState> {
        let state = self.state.profiles.get_mut(profile as usize);
        state.ok_or_else(|| {
            ControlError::not_found(format!("the program has no action profile number {profile}"))
        })
    }
    fn member_arguments(&self, profile: u32, action: u32, arguments: &[Vec<u8>]) -> Result<Vec<u8>> {
        self.profile(profile)?;
        let described = &self.program.profiles[profile as usize];
        let mut tables = described.tables.iter().map(|table| &self.program.tables[*table as usize]);
        if !tables.any(|table| table.actions.iter().any(|one| one.action == action)) {
            let name = self.program.actions.get(action as usize).map_or("?", |action| action.name.as_str());
            let message = format!("action '{name}' is not one of action profile '{}'", described.name);
            return Err(ControlError::invalid(message));
        }
        self.program.pack_arguments(action, arguments)
    }

    /// Adds a member to an action profile.
    pub fn add_member(&mut self, profile: u32, id: u32, action: u32, arguments: &[Vec<u8>]) -> Result<()> {
        let packed = self.member_arguments(profile, action, arguments)?;
        self.profile_mut(profile)?.add_member(id, action, packed)
    }
    /// Replaces the action of a member.
    pub fn modify_member(&mut self, profile: u32, id: u32, action: u32, arguments: &[Vec<u8>]) -> Result<()> {
        let packed = self.member_arguments(profile, action, arguments)?;
        self.profile_mut(profile)?.modify_member(id, action, packed)
    }
    /// Removes a member that no entry and no group references.
    pub fn delete_member(&mut self, profile: u32, id: u32) -> Result<()> {
        self.profile_mut(profile)?.delete_member(id)
    }
    /// Members of an action profile, ordered by identifier.
    pub fn members(&self, profile: u32) -> Result<Vec<Member>> {
        let all = self.profile(profile)?.members();
        Ok(all
            .map(|member| {
                let action = &self.program.actions[member.action as usize];
                Member { id: member.id, action: member.action, arguments: action.unpack(&member.arguments) }
            })
            .collect())
    }
    /// Lowest unused member identifier.
    pub fn free_member(&self, profile: u32) -> Result<u32> {
        Ok(self.profile(profile)?.free_id(false))
    }

    /// Adds an empty group; `max_size` 0 sets no limit.
    pub fn add_group(&mut self, profile: u32, id: u32, max_size: u32) -> Result<()> {
        self.profile_mut(profile)?.add_group(id, max_size)
    }
    /// Replaces the members of a group and their weights.
    pub fn set_group(&mut self, profile: u32, id: u32, members: &[(u32, u32)]) -> Result<()> {
        self.profile_mut(profile)?.set_group(id, members)
    }
    /// Sets the members of a group; those whose watch ports have no carrier are left out.
    pub fn set_watching_group(&mut self, profile: u32, id: u32, shares: Vec<Share>) -> Result<()> {
        let down = self.ports_down();
        self.profile_mut(profile)?.set_watching_group(id, shares, &down)
    }
    /// Members of a group, including those that are left out at present.
    pub fn shares(&self, profile: u32, id: u32) -> Result<Vec<Share>> {
        self.profile(profile)?.shares(id)
    }
    /// Removes a group that no entry references.
    pub fn delete_group(&mut self, profile: u32, id: u32) -> Result<()> {
        self.profile_mut(profile)?.delete_group(id)
    }
    /// Groups of an action profile, ordered by identifier.
    pub fn groups(&self, profile: u32) -> Result<Vec<Group>> {
        let all = self.profile(profile)?.groups();
        let members =
            |group: &crate::profile::Group| group.members.iter().map(|(id, weight)| (*id, *weight)).collect();
        Ok(all
            .map(|group| Group { id: group.id, max_size: group.max_size, members: members(group) })
            .collect())
    }
    /// Lowest unused group identifier.
    pub fn free_group(&self, profile: u32) -> Result<u32> {
        Ok(self.profile(profile)?.free_id(true))
    }
}
