use super::{ActionSpec, ControlError, CounterData, Entry, ErrorKind, MeterRates, Result};
use crate::Switch;
use crate::program::{Program, Table};
use crate::table::Outcome;
use belljar_base::SimDuration;

fn constant(table: &Table) -> ControlError {
    let message = format!("the entries of table '{}' are constant", table.name);
    ControlError::new(ErrorKind::PermissionDenied, message)
}

fn table(program: &Program, number: u32) -> Result<&Table> {
    let table = program.tables.get(number as usize);
    table.ok_or_else(|| ControlError::not_found(format!("the program has no table number {number}")))
}

impl Switch {
    /// Adds an entry; returns its handle.
    pub fn add_entry(&mut self, number: u32, entry: &Entry) -> Result<u32> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        if described.constant {
            return Err(constant(described));
        }
        let state = &mut self.state;
        let handle =
            state.tables[number as usize].add(&program, number, entry, &mut state.profiles, self.now)?;
        if entry.idle_timeout.is_some() {
            self.start_sweeping();
        }
        Ok(handle)
    }
    /// Replaces the action of an entry.
    pub fn modify_entry(&mut self, number: u32, handle: u32, action: &ActionSpec) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        if described.constant {
            return Err(constant(described));
        }
        let state = &mut self.state;
        state.tables[number as usize].modify(&program, number, handle, action, &mut state.profiles)
    }
    /// Removes an entry.
    pub fn delete_entry(&mut self, number: u32, handle: u32) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        if described.constant {
            return Err(constant(described));
        }
        let state = &mut self.state;
        state.tables[number as usize].delete(described, handle, &mut state.profiles)
    }
    /// Removes all entries.
    pub fn clear_table(&mut self, number: u32) -> Result<()> {
        for handle in self.entries(number)? {
            self.delete_entry(number, handle)?;
        }
        Ok(())
    }
    /// Handle of the entry with this key and, where entries have one, priority.
    pub fn find_entry(&self, number: u32, entry: &Entry) -> Result<u32> {
        let described = table(&self.program, number)?;
        self.state.tables[number as usize].handle_of(described, entry)
    }
    /// Handles of a table's entries, in ascending order.
    pub fn entries(&self, number: u32) -> Result<Vec<u32>> {
        table(&self.program, number)?;
        Ok(self.state.tables[number as usize].handles().collect())
    }
    /// Number of a table's entries.
    pub fn entry_count(&self, number: u32) -> Result<usize> {
        table(&self.program, number)?;
        Ok(self.state.tables[number as usize].len())
    }
    /// Returns an entry as it was added.
    pub fn entry(&self, number: u32, handle: u32) -> Result<Entry> {
        let described = table(&self.program, number)?;
        let state = &self.state.tables[number as usize];
        let slot = state.slot(described, handle)?;
        Ok(Entry {
            key: state.key_of(described, handle),
            priority: slot.priority,
            action: self.action_spec(described, slot.outcome, state.arguments(handle)),
            idle_timeout: slot.timeout,
        })
    }
    fn action_spec(&self, table: &Table, outcome: Outcome, arguments: &[u8]) -> ActionSpec {
        let profile = table.profile.map(|profile| &self.state.profiles[profile as usize]);
        match outcome {
            Outcome::Action(position) => {
                let action = table.actions[position as usize].action;
                ActionSpec::Direct {
                    action,
                    arguments: self.program.actions[action as usize].unpack(arguments),
                }
            }
            Outcome::Member(place) => ActionSpec::Member(
                profile.and_then(|profile| profile.member_at(place)).map_or(0, |member| member.id),
            ),
            Outcome::Group(place) => ActionSpec::Group(
                profile.and_then(|profile| profile.group_at(place)).map_or(0, |group| group.id),
            ),
        }
    }
    /// Sets an entry's idle timeout; `None` disables it.
    pub fn set_idle_timeout(&mut self, number: u32, handle: u32, timeout: Option<SimDuration>) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        let state = &mut self.state.tables[number as usize];
        state.slot(described, handle)?;
        if !described.timeouts {
            let message =
                format!("table '{}' has no idle timeouts; give it support_timeout = true", described.name);
            return Err(ControlError::invalid(message));
        }
        let slot = &mut state.slots[handle as usize];
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        state.timed = state.timed + usize::from(timeout.is_some()) - usize::from(slot.timeout.is_some());
        (slot.timeout, slot.last_hit, slot.told) = (timeout, self.now, false);
        self.start_sweeping();
        Ok(())
    }
    /// Time since the last hit of an entry, or since it was added.
    pub fn idle_for(&self, number: u32, handle: u32) -> Result<SimDuration> {
        let described = table(&self.program, number)?;
        let slot = self.state.tables[number as usize].slot(described, handle)?;
        Ok(self.now.since(slot.last_hit))
    }

    /// Sets the default action.
    pub fn set_default(&mut self, number: u32, action: &ActionSpec) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        let denied = |message: String| Err(ControlError::new(ErrorKind::PermissionDenied, message));
        if described.default_entry_const {
            return denied(format!("the default action of table '{}' is constant", described.name));
        }
        if described.default_action_const
            && let (Some((fixed, _)), ActionSpec::Direct { action, .. }) = (&described.default, action)
            && fixed != action
        {
            return denied(format!(
                "the default action of table '{}' is constant, only its arguments change",
                described.name
            ));
        }
        let state = &mut self.state;
        state.tables[number as usize].set_default(&program, number, action, &mut state.profiles)
    }
    /// Restores the default action of the program.
    pub fn reset_default(&mut self, number: u32) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        let state = &mut self.state;
        if let Some(before) = state.tables[number as usize].default {
            crate::profile::hold(described, &mut state.profiles, before, false);
        }
        state.tables[number as usize].reset_default(described);
        Ok(())
    }
    /// Default action, if any.
    pub fn default_of(&self, number: u32) -> Result<Option<ActionSpec>> {
        let described = table(&self.program, number)?;
        let state = &self.state.tables[number as usize];
        Ok(state.default.map(|outcome| self.action_spec(described, outcome, &state.default_arguments)))
    }

    fn direct<'a>(&self, what: &str, described: &'a Table, has: bool, handle: u32) -> Result<&'a Table> {
        if !has {
            return Err(ControlError::invalid(format!("table '{}' has no direct {what}", described.name)));
        }
        let number = self.program.tables.iter().position(|table| table.name == described.name).unwrap_or(0);
        self.state.tables[number].slot(described, handle)?;
        Ok(described)
    }
    /// Direct counter of an entry.
    pub fn entry_counter(&self, number: u32, handle: u32) -> Result<CounterData> {
        let described = table(&self.program, number)?;
        self.direct("counters", described, described.counters.is_some(), handle)?;
        Ok(self.state.tables[number as usize].counters[handle as usize])
    }
    /// Sets the direct counter of an entry.
    pub fn set_entry_counter(&mut self, number: u32, handle: u32, data: CounterData) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        self.direct("counters", described, described.counters.is_some(), handle)?;
        self.state.tables[number as usize].counters[handle as usize] = data;
        Ok(())
    }
    /// Rates of an entry's direct meter; `None` if unset.
    pub fn entry_meter(&self, number: u32, handle: u32) -> Result<Option<MeterRates>> {
        let described = table(&self.program, number)?;
        self.direct("meters", described, described.meters.is_some(), handle)?;
        Ok(self.state.tables[number as usize].meters[handle as usize].rates)
    }
    /// Sets the rates of an entry's direct meter; without rates, all packets are green.
    pub fn set_entry_meter(&mut self, number: u32, handle: u32, rates: Option<MeterRates>) -> Result<()> {
        let program = self.program.clone();
        let described = table(&program, number)?;
        self.direct("meters", described, described.meters.is_some(), handle)?;
        super::arrays::check_rates(rates)?;
        let now = self.now;
        self.state.tables[number as usize].meters[handle as usize].set(rates, now);
        Ok(())
    }
}
