//! The v1model switch as a [`Pipeline`].

use crate::Refusal;
use crate::bytestring;
use crate::grpc::Code;
use crate::pipeline::{Call, Copy, Count, Entry, Gathering, Handle, Key, Pipeline, Rates, Share, Target};
use belljar_base::SimDuration;
use belljar_p4::control::{self, ActionSpec, ControlError, ErrorKind, KeyMatch, MatchKind};
use belljar_p4::switch::{CloneSession, DigestConfig, Replica};
use belljar_p4::{Program, Switch};
use belljar_p4info::Object;

impl From<ControlError> for Refusal {
    fn from(error: ControlError) -> Self {
        let code = match error.kind {
            ErrorKind::NotFound => Code::NotFound,
            ErrorKind::AlreadyExists => Code::AlreadyExists,
            ErrorKind::InvalidArgument => Code::InvalidArgument,
            ErrorKind::OutOfRange => Code::OutOfRange,
            ErrorKind::ResourceExhausted => Code::ResourceExhausted,
            ErrorKind::PermissionDenied => Code::PermissionDenied,
            ErrorKind::FailedPrecondition => Code::FailedPrecondition,
        };
        Self::new(code, error.message)
    }
}

/// Converts the matches of a key to the switch's form.
fn matches(switch: &Switch, table: u32, keys: &[Key]) -> Vec<KeyMatch> {
    let optional = keys.iter().any(|key| matches!(key, Key::Optional(Some(_))));
    let widths = if optional { switch.program().table_info(table).key } else { Vec::new() };
    let one = |(at, key): (usize, &Key)| match key {
        Key::Exact(value) => KeyMatch::Exact(value.clone()),
        Key::Lpm { length: 0, .. } | Key::Optional(None) => KeyMatch::Any,
        Key::Lpm { value, length } => KeyMatch::Lpm { value: value.clone(), prefix: *length },
        Key::Ternary { mask, .. } if bytestring::bits(mask) == 0 => KeyMatch::Any,
        Key::Ternary { value, mask } => KeyMatch::Ternary { value: value.clone(), mask: mask.clone() },
        Key::Range { low, high } => KeyMatch::Range { low: low.clone(), high: high.clone() },
        Key::Optional(Some(value)) => {
            let width = widths.get(at).map_or(1, |field| field.width);
            KeyMatch::Ternary { value: value.clone(), mask: bytestring::maximum(width) }
        }
    };
    keys.iter().enumerate().map(one).collect()
}

fn action(program: &Program, table: u32, target: &Target) -> Result<ActionSpec, Refusal> {
    Ok(match target {
        Target::Action(call) => ActionSpec::Direct {
            action: program.action_of(table, &call.action)?,
            arguments: call.arguments.clone(),
        },
        Target::Member(member) => ActionSpec::Member(*member as u32),
        Target::Group(group) => ActionSpec::Group(*group as u32),
    })
}

fn target(program: &Program, action: ActionSpec) -> Target {
    match action {
        ActionSpec::Direct { action, arguments } => {
            Target::Action(Call { action: program.action_info(action).name, arguments })
        }
        ActionSpec::Member(member) => Target::Member(member.into()),
        ActionSpec::Group(group) => Target::Group(group.into()),
    }
}

/// Sets the members of a group; the switch leaves out those whose watch ports have no carrier.
fn set_shares(switch: &mut Switch, profile: u32, group: u32, shares: &[Share]) -> Result<(), Refusal> {
    let shares = shares.iter().map(|share| control::Share {
        member: share.member as u32,
        weight: share.weight,
        watch_port: share.watch_port,
    });
    Ok(switch.set_watching_group(profile, group, shares.collect())?)
}

fn replicas(copies: &[Copy]) -> Result<Vec<Replica>, Refusal> {
    let one = |copy: &Copy| {
        let port = u16::try_from(copy.port).ok().filter(|port| *port < 511);
        let port =
            port.ok_or_else(|| Refusal::invalid(format!("port {} is not between 0 and 510", copy.port)))?;
        let instance = u16::try_from(copy.instance);
        let instance =
            instance.map_err(|_| Refusal::invalid(format!("instance {} is above 65535", copy.instance)))?;
        Ok(Replica { port, instance })
    };
    copies.iter().map(one).collect()
}

fn copies(replicas: &[Replica]) -> Vec<Copy> {
    replicas
        .iter()
        .map(|replica| Copy { port: replica.port.into(), instance: replica.instance.into() })
        .collect()
}

fn short(what: &str, id: u32) -> Result<u16, Refusal> {
    u16::try_from(id).map_err(|_| Refusal::invalid(format!("{what} {id} is above 65535")))
}

/// Converts between P4Runtime's priorities, where the greatest wins, and the switch's, where the smallest
/// wins.
fn reversed(priority: i32) -> i32 {
    i32::MAX - priority
}

fn matched(kind: MatchKind, width: u32, key: KeyMatch) -> Key {
    match (key, kind) {
        (KeyMatch::Exact(value), _) => Key::Exact(value),
        (KeyMatch::Lpm { value, prefix }, _) => Key::Lpm { value, length: prefix },
        (KeyMatch::Ternary { value, .. }, MatchKind::Optional) => Key::Optional(Some(value)),
        (KeyMatch::Ternary { value, mask }, _) => Key::Ternary { value, mask },
        (KeyMatch::Range { low, high }, _) => Key::Range { low, high },
        (KeyMatch::Any, MatchKind::Lpm) => Key::Lpm { value: vec![0], length: 0 },
        (KeyMatch::Any, MatchKind::Range) => Key::Range { low: vec![0], high: bytestring::maximum(width) },
        (KeyMatch::Any, MatchKind::Optional) => Key::Optional(None),
        (KeyMatch::Any, _) => Key::Ternary { value: vec![0], mask: vec![0] },
    }
}

impl Pipeline for Switch {
    fn has(&self, object: Object<'_>) -> bool {
        object.is_in(self.program())
    }

    fn entries(&self, table: &str) -> Vec<Entry> {
        let Ok(number) = self.program().table(table) else { return Vec::new() };
        let info = self.program().table_info(number);
        let handles = self.entries(number).unwrap_or_default();
        let count = handles.len() as i32;
        let one = |handle: u32| {
            let entry = self.entry(number, handle).ok()?;
            let keys =
                info.key.iter().zip(entry.key).map(|(field, key)| matched(field.kind, field.width, key));
            let priority = match (info.priorities, info.constant) {
                (false, _) => 0,
                // The first of N constant entries has priority N.
                (true, true) if (1..=count).contains(&entry.priority) => count + 1 - entry.priority,
                _ => reversed(entry.priority),
            };
            let target = target(self.program(), entry.action);
            Some(Entry {
                handle: handle.into(),
                keys: keys.collect(),
                priority,
                target,
                is_const: info.constant,
            })
        };
        handles.into_iter().filter_map(one).collect()
    }

    fn insert(
        &mut self,
        table: &str,
        keys: &[Key],
        priority: i32,
        target: &Target,
    ) -> Result<Handle, Refusal> {
        let number = self.program().table(table)?;
        let priority = if priority == 0 { 0 } else { reversed(priority) };
        let action = action(self.program(), number, target)?;
        let entry = control::Entry { key: matches(self, number, keys), priority, action, idle_timeout: None };
        Ok(self.add_entry(number, &entry)?.into())
    }

    fn modify(&mut self, table: &str, handle: Handle, target: &Target) -> Result<(), Refusal> {
        let number = self.program().table(table)?;
        let action = action(self.program(), number, target)?;
        Ok(self.modify_entry(number, handle as u32, &action)?)
    }

    fn delete(&mut self, table: &str, handle: Handle) -> Result<(), Refusal> {
        let number = self.program().table(table)?;
        Ok(self.delete_entry(number, handle as u32)?)
    }

    fn default_action(&self, table: &str) -> Option<Call> {
        let action = self.default_of(self.program().table(table).ok()?).ok()??;
        match target(self.program(), action) {
            Target::Action(call) => Some(call),
            _ => None,
        }
    }

    fn set_default_action(&mut self, table: &str, call: Option<&Call>) -> Result<(), Refusal> {
        let number = self.program().table(table)?;
        match call {
            Some(call) => {
                let action = action(self.program(), number, &Target::Action(call.clone()))?;
                Ok(self.set_default(number, &action)?)
            }
            None => Ok(self.reset_default(number)?),
        }
    }

    fn set_idle_timeout(&mut self, table: &str, handle: Handle, timeout: u64) -> Result<(), Refusal> {
        let number = self.program().table(table)?;
        let timeout = (timeout > 0).then(|| SimDuration::from_nanos(timeout));
        Ok(self.set_idle_timeout(number, handle as u32, timeout)?)
    }

    fn idle_time(&self, table: &str, handle: Handle) -> Result<u64, Refusal> {
        Ok(self.idle_for(self.program().table(table)?, handle as u32)?.as_nanos())
    }

    fn add_member(&mut self, profile: &str, call: &Call) -> Result<Handle, Refusal> {
        let profile = self.program().profile(profile)?;
        let id = self.free_member(profile)?;
        let action = self.program().action_of_profile(profile, &call.action)?;
        self.add_member(profile, id, action, &call.arguments)?;
        Ok(id.into())
    }

    fn modify_member(&mut self, profile: &str, member: Handle, call: &Call) -> Result<(), Refusal> {
        let profile = self.program().profile(profile)?;
        let action = self.program().action_of_profile(profile, &call.action)?;
        Ok(self.modify_member(profile, member as u32, action, &call.arguments)?)
    }

    fn delete_member(&mut self, profile: &str, member: Handle) -> Result<(), Refusal> {
        let profile = self.program().profile(profile)?;
        Ok(self.delete_member(profile, member as u32)?)
    }

    fn add_group(&mut self, profile: &str, shares: &[Share]) -> Result<Handle, Refusal> {
        let profile = self.program().profile(profile)?;
        let id = self.free_group(profile)?;
        self.add_group(profile, id, 0)?;
        if let Err(refusal) = set_shares(self, profile, id, shares) {
            self.delete_group(profile, id)?;
            return Err(refusal);
        }
        Ok(id.into())
    }

    fn modify_group(&mut self, profile: &str, group: Handle, shares: &[Share]) -> Result<(), Refusal> {
        let profile = self.program().profile(profile)?;
        set_shares(self, profile, group as u32, shares)
    }

    fn delete_group(&mut self, profile: &str, group: Handle) -> Result<(), Refusal> {
        let profile = self.program().profile(profile)?;
        self.delete_group(profile, group as u32)?;
        Ok(())
    }

    fn members(&self, profile: &str) -> Vec<(Handle, Call)> {
        let Ok(profile) = self.program().profile(profile) else { return Vec::new() };
        let members = self.members(profile).unwrap_or_default().into_iter();
        members
            .map(|member| {
                let action = self.program().action_info(member.action).name;
                (member.id.into(), Call { action, arguments: member.arguments })
            })
            .collect()
    }

    fn groups(&self, profile: &str) -> Vec<(Handle, Vec<Share>)> {
        let Ok(profile) = self.program().profile(profile) else { return Vec::new() };
        let share = |share: control::Share| Share {
            member: share.member.into(),
            weight: share.weight,
            watch_port: share.watch_port,
        };
        let groups = self.groups(profile).unwrap_or_default().into_iter();
        groups
            .map(|group| {
                let shares = self.shares(profile, group.id).unwrap_or_default();
                (group.id.into(), shares.into_iter().map(share).collect())
            })
            .collect()
    }

    fn counter(&self, counter: &str, index: usize) -> Result<Count, Refusal> {
        let data = self.counter(self.program().counter(counter)?, index as u64)?;
        Ok(Count { bytes: data.bytes, packets: data.packets })
    }

    fn set_counter(&mut self, counter: &str, index: usize, count: Count) -> Result<(), Refusal> {
        let counter = self.program().counter(counter)?;
        let data = control::CounterData { packets: count.packets, bytes: count.bytes };
        Ok(self.set_counter(counter, index as u64, data)?)
    }

    fn entry_counter(&self, table: &str, handle: Handle) -> Result<Count, Refusal> {
        let data = self.entry_counter(self.program().table(table)?, handle as u32)?;
        Ok(Count { bytes: data.bytes, packets: data.packets })
    }

    fn set_entry_counter(&mut self, table: &str, handle: Handle, count: Count) -> Result<(), Refusal> {
        let number = self.program().table(table)?;
        let data = control::CounterData { packets: count.packets, bytes: count.bytes };
        Ok(self.set_entry_counter(number, handle as u32, data)?)
    }

    fn meter(&self, meter: &str, index: usize) -> Result<Option<Rates>, Refusal> {
        Ok(self.meter(self.program().meter(meter)?, index as u64)?.map(from_meter))
    }

    fn set_meter(&mut self, meter: &str, index: usize, rates: Option<Rates>) -> Result<(), Refusal> {
        let meter = self.program().meter(meter)?;
        Ok(self.set_meter(meter, index as u64, rates.map(to_meter))?)
    }

    fn entry_meter(&self, table: &str, handle: Handle) -> Result<Option<Rates>, Refusal> {
        Ok(self.entry_meter(self.program().table(table)?, handle as u32)?.map(from_meter))
    }

    fn set_entry_meter(&mut self, table: &str, handle: Handle, rates: Option<Rates>) -> Result<(), Refusal> {
        let number = self.program().table(table)?;
        Ok(self.set_entry_meter(number, handle as u32, rates.map(to_meter))?)
    }

    fn register(&self, register: &str, index: usize) -> Result<Vec<u8>, Refusal> {
        Ok(self.register(self.program().register(register)?, index as u64)?)
    }

    fn set_register(&mut self, register: &str, index: usize, value: &[u8]) -> Result<(), Refusal> {
        let register = self.program().register(register)?;
        Ok(self.set_register(register, index as u64, value)?)
    }

    fn set_multicast_group(&mut self, group: u32, copies: Option<&[Copy]>) -> Result<(), Refusal> {
        let group = short("multicast group", group)?;
        let Some(copies) = copies else { return Ok(self.delete_multicast_group(group)?) };
        let replicas = replicas(copies)?;
        if self.multicast_copies(group).is_none() {
            self.create_multicast_group(group)?;
        }
        Ok(self.set_multicast_group(group, &replicas)?)
    }

    fn set_clone_session(&mut self, session: u32, copies: Option<(&[Copy], u32)>) -> Result<(), Refusal> {
        let session = short("clone session", session)?;
        let Some((copies, length)) = copies else { return Ok(self.delete_clone_session(session)?) };
        let length = Some(length).filter(|length| *length > 0);
        let destination = CloneSession { replicas: replicas(copies)?, group: None, length };
        Ok(self.set_clone_session(session, destination)?)
    }

    fn multicast_groups(&self) -> Vec<(u32, Vec<Copy>)> {
        let groups = self.multicast_groups().into_iter();
        groups.map(|group| (group.into(), copies(self.multicast_copies(group).unwrap_or_default()))).collect()
    }

    fn clone_sessions(&self) -> Vec<(u32, Vec<Copy>, u32)> {
        let sessions = self.clone_sessions().into_iter();
        sessions
            .filter_map(|id| {
                let session = self.clone_session(id)?;
                Some((id.into(), copies(&session.replicas), session.length.unwrap_or(0)))
            })
            .collect()
    }

    fn set_digest(&mut self, digest: &str, gathering: Gathering) -> Result<(), Refusal> {
        let digest = self.program().digest(digest)?;
        let config = DigestConfig {
            max_list_size: gathering.size,
            max_timeout: SimDuration::from_nanos(gathering.wait),
            ack_timeout: SimDuration::from_nanos(gathering.silence),
        };
        Ok(self.set_digest(digest, config)?)
    }

    fn acknowledge_digest(&mut self, digest: &str, list: u64) -> Result<(), Refusal> {
        let digest = self.program().digest(digest)?;
        Ok(self.acknowledge_digest(digest, list)?)
    }

    fn set_value_set(
        &mut self,
        value_set: &str,
        members: &[Vec<Key>],
        widths: &[u32],
    ) -> Result<(), Refusal> {
        let set = self.program().value_set(value_set)?;
        let values = members.iter().map(|member| joined(member, widths)).collect::<Result<Vec<_>, _>>()?;
        self.clear_value_set(set)?;
        for value in values {
            self.add_value(set, &value)?;
        }
        Ok(())
    }
}

/// Concatenates the fields of a value-set member to one number.
fn joined(member: &[Key], widths: &[u32]) -> Result<Vec<u8>, Refusal> {
    let mut bits = Vec::new();
    for (key, width) in member.iter().zip(widths) {
        let Key::Exact(value) = key else {
            return Err(Refusal::unimplemented("members of value sets are matched exactly in this switch"));
        };
        let value = bytestring::padded(value, *width);
        let unused = 8 * value.len() - *width as usize;
        bits.extend((unused..8 * value.len()).map(|bit| value[bit / 8] & 0x80 >> (bit % 8) != 0));
    }
    let unused = (8 - bits.len() % 8) % 8;
    let mut joined = vec![0; (unused + bits.len()) / 8];
    for (at, bit) in bits.into_iter().enumerate().map(|(at, bit)| (at + unused, bit)) {
        joined[at / 8] |= u8::from(bit) << (7 - at % 8);
    }
    Ok(joined)
}

fn from_meter(rates: control::MeterRates) -> Rates {
    Rates {
        committed: rates.committed,
        committed_burst: rates.committed_burst,
        peak: rates.peak,
        peak_burst: rates.peak_burst,
    }
}

fn to_meter(rates: Rates) -> control::MeterRates {
    control::MeterRates {
        committed: rates.committed,
        committed_burst: rates.committed_burst,
        peak: rates.peak,
        peak_burst: rates.peak_burst,
    }
}
