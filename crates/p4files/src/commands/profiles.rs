use super::{Call, Result, arguments, number};

impl Call<'_> {
    pub(super) fn profile_command(&mut self) -> Result<String> {
        let words = self.take(1, usize::MAX)?;
        let program = self.switch.program().clone();
        let profile = program.profile(words[0])?;
        match self.name {
            "act_prof_create_member" => {
                let words = self.take(2, usize::MAX)?;
                let action = program.action_of_profile(profile, words[1])?;
                let id = self.switch.free_member(profile)?;
                self.switch.add_member(profile, id, action, &arguments(&words[2..])?)?;
                return Ok(format!("member {id} was created in {}\n", words[0]));
            }
            "act_prof_modify_member" => {
                let words = self.take(3, usize::MAX)?;
                let action = program.action_of_profile(profile, words[1])?;
                self.switch.modify_member(profile, number(words[2])?, action, &arguments(&words[3..])?)?;
            }
            "act_prof_delete_member" => self.switch.delete_member(profile, number(self.take(2, 2)?[1])?)?,
            "act_prof_create_group" => {
                self.take(1, 1)?;
                let id = self.switch.free_group(profile)?;
                self.switch.add_group(profile, id, 0)?;
                return Ok(format!("group {id} was created in {}\n", words[0]));
            }
            "act_prof_delete_group" => self.switch.delete_group(profile, number(self.take(2, 2)?[1])?)?,
            add_or_remove => {
                let words = self.take(3, 3)?;
                let (member, group): (u32, u32) = (number(words[1])?, number(words[2])?);
                let groups = self.switch.groups(profile)?;
                let found = groups.into_iter().find(|one| one.id == group);
                let mut members = found
                    .ok_or_else(|| format!("action profile '{}' has no group {group}", words[0]))?
                    .members;
                let at = members.iter().position(|(id, _)| *id == member);
                match (add_or_remove == "act_prof_add_member_to_group", at) {
                    (true, None) => members.push((member, 1)),
                    (true, Some(_)) => return Err(format!("member {member} is in group {group}")),
                    (false, Some(at)) => {
                        members.remove(at);
                    }
                    (false, None) => return Err(format!("member {member} is not in group {group}")),
                }
                self.switch.set_group(profile, group, &members)?;
            }
        }
        Ok(String::new())
    }
}
