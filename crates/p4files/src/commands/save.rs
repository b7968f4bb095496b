//! State of a switch as the commands that restore it.
//!
//! As in BMv2's dump of its state, this is what controllers configure: action profiles, tables with their
//! default actions, timeouts and direct meters, and meters. Counters, registers and replication are left
//! out. Handles are those that the commands allot, in the order of the old ones.

use super::Result;
use belljar_base::Map;
use belljar_p4::control::{ActionSpec, Entry, KeyInfo, KeyMatch, MatchKind, MeterRates, ObjectKind};
use belljar_p4::{Program, Switch, SwitchConfig, hex};
use std::fmt::Write;
use std::sync::Arc;

/// Commands that give a switch that has just loaded the same program the state of this one.
///
/// # Errors
/// Returns the object that no command can restore.
pub fn save(switch: &Switch) -> Result<String> {
    let program = switch.program().clone();
    let fresh = Switch::new(program.clone(), SwitchConfig::default());
    let mut writer =
        Writer { switch, fresh, program, members: Map::new(), groups: Map::new(), out: String::new() };
    for profile in 0..writer.program.count(ObjectKind::Profile) {
        writer.profile(profile)?;
    }
    for table in 0..writer.program.table_names().count() as u32 {
        writer.table(table)?;
    }
    for meter in 0..writer.program.count(ObjectKind::Meter) {
        writer.meter(meter)?;
    }
    Ok(writer.out)
}

struct Writer<'a> {
    switch: &'a Switch,
    /// Switch that has just loaded the program.
    fresh: Switch,
    program: Arc<Program>,
    /// New identifiers of members and groups, by profile and old identifier.
    members: Map<(u32, u32), u32>,
    groups: Map<(u32, u32), u32>,
    out: String,
}

impl Writer<'_> {
    fn profile(&mut self, profile: u32) -> Result<()> {
        let name = self.program.object_name(ObjectKind::Profile, profile).to_owned();
        for (new, member) in self.switch.members(profile)?.into_iter().enumerate() {
            self.members.insert((profile, member.id), new as u32);
            let action = self.action(member.action, &member.arguments);
            let _ = writeln!(self.out, "act_prof_create_member {name} {action}");
        }
        for (new, group) in self.switch.groups(profile)?.into_iter().enumerate() {
            self.groups.insert((profile, group.id), new as u32);
            let _ = writeln!(self.out, "act_prof_create_group {name}");
            for share in self.switch.shares(profile, group.id)? {
                if share.weight != 1 || share.watch_port.is_some() {
                    let group = group.id;
                    return Err(format!("group {group} of '{name}' has weights or watched ports"));
                }
                let member = self.members.get(&(profile, share.member)).copied().unwrap_or(share.member);
                let _ = writeln!(self.out, "act_prof_add_member_to_group {name} {member} {new}");
            }
        }
        Ok(())
    }

    fn table(&mut self, table: u32) -> Result<()> {
        let (info, name) = (self.program.table_info(table), self.program.table_name(table).to_owned());
        let default = self.switch.default_of(table)?;
        if default != self.fresh.default_of(table)? {
            let _ = match &default {
                None => writeln!(self.out, "table_reset_default {name}"),
                Some(ActionSpec::Direct { action, arguments }) => {
                    let action = self.action(*action, arguments);
                    writeln!(self.out, "table_set_default {name} {action}")
                }
                Some(member @ ActionSpec::Member(_)) => {
                    let id = self.reference(info.profile, member);
                    writeln!(self.out, "table_indirect_set_default {name} {id}")
                }
                Some(group) => {
                    let id = self.reference(info.profile, group);
                    writeln!(self.out, "table_indirect_set_default_with_group {name} {id}")
                }
            };
        }
        if info.constant {
            return Ok(());
        }
        if self.fresh.entry_count(table)? > 0 {
            let _ = writeln!(self.out, "table_clear {name}");
        }
        let meter = (0..self.program.count(ObjectKind::Meter))
            .find(|meter| self.program.table_of_meter(*meter) == Some(table));
        for (new, handle) in self.switch.entries(table)?.into_iter().enumerate() {
            let entry = self.switch.entry(table, handle)?;
            let key = info.key.iter().zip(&entry.key).map(|(field, value)| match_text(field, value));
            let key = key.map(|text| text + " ").collect::<String>();
            let priority = if info.priorities { format!(" {}", entry.priority) } else { String::new() };
            let _ = match &entry {
                Entry { action: ActionSpec::Direct { action, arguments }, .. } => {
                    let text = self.action(*action, arguments);
                    let (action, data) = text.split_once(' ').unwrap_or((text.as_str(), ""));
                    writeln!(self.out, "table_add {name} {action} {key}=> {data}{priority}")
                }
                Entry { action, .. } => {
                    let group = if matches!(action, ActionSpec::Group(_)) { "_with_group" } else { "" };
                    let id = self.reference(info.profile, action);
                    writeln!(self.out, "table_indirect_add{group} {name} {key}=> {id}{priority}")
                }
            };
            if let Some(timeout) = entry.idle_timeout {
                let _ = writeln!(self.out, "table_set_timeout {name} {new} {}", timeout.as_millis());
            }
            if let (Some(meter), Some(rates)) = (meter, self.switch.entry_meter(table, handle).ok().flatten())
            {
                let _ = writeln!(self.out, "{}", self.rates(meter, new as u64, rates));
            }
        }
        Ok(())
    }

    fn meter(&mut self, meter: u32) -> Result<()> {
        if self.program.table_of_meter(meter).is_some() {
            return Ok(());
        }
        for index in 0..self.program.meter_size(meter) {
            if let Some(rates) = self.switch.meter(meter, index)? {
                let _ = writeln!(self.out, "{}", self.rates(meter, index, rates));
            }
        }
        Ok(())
    }

    fn rates(&self, meter: u32, index: u64, rates: MeterRates) -> String {
        let one = |rate: u64, burst: u64| format!("{}:{burst}", rate as f64 / 1e6);
        let (committed, peak) =
            (one(rates.committed, rates.committed_burst), one(rates.peak, rates.peak_burst));
        let name = self.program.object_name(ObjectKind::Meter, meter);
        format!("meter_set_rates {name} {index} {committed} {peak}")
    }

    /// An action with its arguments.
    fn action(&self, action: u32, arguments: &[Vec<u8>]) -> String {
        let arguments = arguments.iter().map(|argument| format!(" {}", hex(argument)));
        self.program.action_info(action).name + &arguments.collect::<String>()
    }

    /// New identifier of a member or group.
    fn reference(&self, profile: Option<u32>, action: &ActionSpec) -> u32 {
        let (map, old) = match action {
            ActionSpec::Group(id) => (&self.groups, *id),
            ActionSpec::Member(id) => (&self.members, *id),
            ActionSpec::Direct { .. } => return 0,
        };
        profile.and_then(|profile| map.get(&(profile, old)).copied()).unwrap_or(old)
    }
}

/// Match value of a key field as `simple_switch_CLI` reads it.
fn match_text(field: &KeyInfo, value: &KeyMatch) -> String {
    match (field.kind, value) {
        (MatchKind::Valid, KeyMatch::Exact(value)) => value.iter().any(|byte| *byte != 0).to_string(),
        (MatchKind::Lpm, KeyMatch::Any) => "0/0".into(),
        (MatchKind::Range, KeyMatch::Any) => {
            let bytes = field.width.div_ceil(8) as usize;
            let mut last = vec![0xff; bytes];
            if let Some(first) = last.first_mut() {
                *first >>= (8 - field.width % 8) % 8;
            }
            format!("0->{}", hex(&last))
        }
        (_, KeyMatch::Any) => "0&&&0".into(),
        (_, KeyMatch::Exact(value)) => hex(value),
        (_, KeyMatch::Lpm { value, prefix }) => format!("{}/{prefix}", hex(value)),
        (_, KeyMatch::Ternary { value, mask }) => format!("{}&&&{}", hex(value), hex(mask)),
        (_, KeyMatch::Range { low, high }) => format!("{}->{}", hex(low), hex(high)),
    }
}
