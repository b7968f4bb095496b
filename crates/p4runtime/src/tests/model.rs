//! Model switch that stores what is written and moves no packets.

use crate::Refusal;
use crate::pipeline::{
    Call, Copy, Count, Device, Entry, Gathering, Handle, Key, Pipeline, Rates, Share, Target,
};
use belljar_base::{Map, Set};
use belljar_p4info::Object;

/// Maximum number of entries per table.
const TABLE_SIZE: usize = 1_000;

#[derive(Clone, Debug, Default)]
pub struct Model {
    /// Configuration from which the program was loaded.
    pub config: Vec<u8>,
    pub last_handle: Handle,
    pub entries: Map<(String, Handle), Entry>,
    pub defaults: Map<String, Call>,
    pub timeouts: Map<(String, Handle), u64>,
    pub members: Map<(String, Handle), Call>,
    pub groups: Map<(String, Handle), Vec<Share>>,
    pub counters: Map<(String, u64), Count>,
    pub meters: Map<(String, u64), Rates>,
    pub registers: Map<(String, usize), Vec<u8>>,
    pub multicast_groups: Map<u32, Vec<Copy>>,
    pub clone_sessions: Map<u32, (Vec<Copy>, u32)>,
    pub value_sets: Map<String, Vec<Vec<Key>>>,
    pub digests: Map<String, Gathering>,
    pub acknowledged: Vec<(String, u64)>,
}

impl Model {
    fn handle(&mut self) -> Handle {
        self.last_handle += 1;
        self.last_handle
    }
}

fn set<K: Ord, V>(map: &mut Map<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    };
}

fn absent() -> Refusal {
    Refusal::not_found("the model has no such thing")
}

impl Pipeline for Model {
    fn has(&self, object: Object<'_>) -> bool {
        !object.to_string().contains("unknown")
    }

    fn entries(&self, table: &str) -> Vec<Entry> {
        self.entries.iter().filter(|((of, _), _)| of == table).map(|(_, entry)| entry.clone()).collect()
    }

    fn insert(
        &mut self,
        table: &str,
        keys: &[Key],
        priority: i32,
        target: &Target,
    ) -> Result<Handle, Refusal> {
        if self.entries(table).len() >= TABLE_SIZE {
            return Err(Refusal::new(crate::grpc::Code::ResourceExhausted, "the table is full"));
        }
        let handle = self.handle();
        let entry = Entry { handle, keys: keys.to_vec(), priority, target: target.clone(), is_const: false };
        self.entries.insert((table.to_string(), handle), entry);
        Ok(handle)
    }

    fn modify(&mut self, table: &str, handle: Handle, target: &Target) -> Result<(), Refusal> {
        self.entries.get_mut(&(table.to_string(), handle)).ok_or_else(absent)?.target = target.clone();
        Ok(())
    }

    fn delete(&mut self, table: &str, handle: Handle) -> Result<(), Refusal> {
        self.counters.remove(&(table.to_string(), handle));
        self.meters.remove(&(table.to_string(), handle));
        self.entries.remove(&(table.to_string(), handle)).map(|_| ()).ok_or_else(absent)
    }

    fn default_action(&self, table: &str) -> Option<Call> {
        let none = || Call { action: "NoAction".to_string(), arguments: Vec::new() };
        Some(self.defaults.get(table).cloned().unwrap_or_else(none))
    }

    fn set_default_action(&mut self, table: &str, call: Option<&Call>) -> Result<(), Refusal> {
        set(&mut self.defaults, table.to_string(), call.cloned());
        Ok(())
    }

    fn set_idle_timeout(&mut self, table: &str, handle: Handle, timeout: u64) -> Result<(), Refusal> {
        self.timeouts.insert((table.to_string(), handle), timeout);
        Ok(())
    }

    fn idle_time(&self, _: &str, _: Handle) -> Result<u64, Refusal> {
        Ok(500)
    }

    fn add_member(&mut self, profile: &str, call: &Call) -> Result<Handle, Refusal> {
        let handle = self.handle();
        self.members.insert((profile.to_string(), handle), call.clone());
        Ok(handle)
    }

    fn modify_member(&mut self, profile: &str, member: Handle, call: &Call) -> Result<(), Refusal> {
        *self.members.get_mut(&(profile.to_string(), member)).ok_or_else(absent)? = call.clone();
        Ok(())
    }

    fn delete_member(&mut self, profile: &str, member: Handle) -> Result<(), Refusal> {
        let used: Set<_> = self.groups.values().flatten().map(|share| share.member).collect();
        assert!(!used.contains(&member), "a member in use is deleted");
        self.members.remove(&(profile.to_string(), member)).map(|_| ()).ok_or_else(absent)
    }

    fn add_group(&mut self, profile: &str, shares: &[Share]) -> Result<Handle, Refusal> {
        if shares.iter().any(|share| share.watch_port == Some(511)) {
            return Err(Refusal::invalid("there is no such port"));
        }
        let handle = self.handle();
        self.groups.insert((profile.to_string(), handle), shares.to_vec());
        Ok(handle)
    }

    fn modify_group(&mut self, profile: &str, group: Handle, shares: &[Share]) -> Result<(), Refusal> {
        *self.groups.get_mut(&(profile.to_string(), group)).ok_or_else(absent)? = shares.to_vec();
        Ok(())
    }

    fn delete_group(&mut self, profile: &str, group: Handle) -> Result<(), Refusal> {
        self.groups.remove(&(profile.to_string(), group)).map(|_| ()).ok_or_else(absent)
    }

    fn members(&self, profile: &str) -> Vec<(Handle, Call)> {
        let of_profile = self.members.iter().filter(|((of, _), _)| of == profile);
        of_profile.map(|((_, handle), call)| (*handle, call.clone())).collect()
    }

    fn groups(&self, profile: &str) -> Vec<(Handle, Vec<Share>)> {
        let of_profile = self.groups.iter().filter(|((of, _), _)| of == profile);
        of_profile.map(|((_, handle), shares)| (*handle, shares.clone())).collect()
    }

    fn counter(&self, counter: &str, index: usize) -> Result<Count, Refusal> {
        Ok(self.counters.get(&(counter.to_string(), index as u64)).copied().unwrap_or_default())
    }

    fn set_counter(&mut self, counter: &str, index: usize, count: Count) -> Result<(), Refusal> {
        self.counters.insert((counter.to_string(), index as u64), count);
        Ok(())
    }

    fn entry_counter(&self, table: &str, handle: Handle) -> Result<Count, Refusal> {
        self.counter(table, handle as usize)
    }

    fn set_entry_counter(&mut self, table: &str, handle: Handle, count: Count) -> Result<(), Refusal> {
        self.set_counter(table, handle as usize, count)
    }

    fn meter(&self, meter: &str, index: usize) -> Result<Option<Rates>, Refusal> {
        Ok(self.meters.get(&(meter.to_string(), index as u64)).copied())
    }

    fn set_meter(&mut self, meter: &str, index: usize, rates: Option<Rates>) -> Result<(), Refusal> {
        set(&mut self.meters, (meter.to_string(), index as u64), rates);
        Ok(())
    }

    fn entry_meter(&self, table: &str, handle: Handle) -> Result<Option<Rates>, Refusal> {
        self.meter(table, handle as usize)
    }

    fn set_entry_meter(&mut self, table: &str, handle: Handle, rates: Option<Rates>) -> Result<(), Refusal> {
        self.set_meter(table, handle as usize, rates)
    }

    fn register(&self, register: &str, index: usize) -> Result<Vec<u8>, Refusal> {
        Ok(self.registers.get(&(register.to_string(), index)).cloned().unwrap_or_else(|| vec![0, 0]))
    }

    fn set_register(&mut self, register: &str, index: usize, value: &[u8]) -> Result<(), Refusal> {
        self.registers.insert((register.to_string(), index), value.to_vec());
        Ok(())
    }

    fn set_multicast_group(&mut self, group: u32, copies: Option<&[Copy]>) -> Result<(), Refusal> {
        set(&mut self.multicast_groups, group, copies.map(<[Copy]>::to_vec));
        Ok(())
    }

    fn set_clone_session(&mut self, session: u32, copies: Option<(&[Copy], u32)>) -> Result<(), Refusal> {
        set(&mut self.clone_sessions, session, copies.map(|(copies, length)| (copies.to_vec(), length)));
        Ok(())
    }

    fn multicast_groups(&self) -> Vec<(u32, Vec<Copy>)> {
        self.multicast_groups.iter().map(|(group, copies)| (*group, copies.clone())).collect()
    }

    fn clone_sessions(&self) -> Vec<(u32, Vec<Copy>, u32)> {
        let one =
            |(session, (copies, length)): (&u32, &(Vec<Copy>, u32))| (*session, copies.clone(), *length);
        self.clone_sessions.iter().map(one).collect()
    }

    fn set_digest(&mut self, digest: &str, gathering: Gathering) -> Result<(), Refusal> {
        self.digests.insert(digest.to_string(), gathering);
        Ok(())
    }

    fn acknowledge_digest(&mut self, digest: &str, list: u64) -> Result<(), Refusal> {
        self.acknowledged.push((digest.to_string(), list));
        Ok(())
    }

    fn set_value_set(&mut self, value_set: &str, members: &[Vec<Key>], _: &[u32]) -> Result<(), Refusal> {
        self.value_sets.insert(value_set.to_string(), members.to_vec());
        Ok(())
    }
}

#[derive(Default)]
pub struct ModelDevice {
    pub pipeline: Option<Model>,
    pub packets: Vec<Vec<u8>>,
}

impl Device for ModelDevice {
    type Pipeline = Model;

    fn load(&self, config: &[u8]) -> Result<Model, Refusal> {
        if !config.starts_with(b"{") {
            return Err(Refusal::invalid("the device configuration is not JSON"));
        }
        let mut model = Model { config: config.to_vec(), ..Model::default() };
        // Entries of the program's source.
        let drop = Target::Action(Call { action: "c.drop".to_string(), arguments: Vec::new() });
        for (table, is_const) in [("c.constant", true), ("c.initial", false)] {
            let handle = model.insert(table, &[Key::Exact(vec![0, 7])], 0, &drop)?;
            model.entries.get_mut(&(table.to_string(), handle)).ok_or_else(absent)?.is_const = is_const;
        }
        Ok(model)
    }

    fn pipeline(&mut self) -> Option<&mut Model> {
        self.pipeline.as_mut()
    }

    fn install(&mut self, pipeline: Model) {
        self.pipeline = Some(pipeline);
    }

    fn packet_out(&mut self, frame: Vec<u8>) -> Result<(), Refusal> {
        self.packets.push(frame);
        Ok(())
    }
}
