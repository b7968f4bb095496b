//! Actions of filters, tc-actions(8): their table in a namespace, their execution, and their listing
//! (`net/sched/act_api.c`).

use crate::actions::{Kind, Outcome};
use crate::attributes::{Attributes, Out, words};
use crate::buffer::Buffer;
use crate::error::{TcError, error, invalid};
use crate::node::{Context, QueueCounters, Statistics, Traffic};
use belljar_base::{Map, Seed, SimTime};
use belljar_linux_abi::Errno;

/// `TC_ACT_*`.
pub(crate) mod verdict {
    pub(crate) const UNSPEC: i32 = -1;
    pub(crate) const OK: i32 = 0;
    pub(crate) const RECLASSIFY: i32 = 1;
    pub(crate) const SHOT: i32 = 2;
    pub(crate) const PIPE: i32 = 3;
    pub(crate) const STOLEN: i32 = 4;
    pub(crate) const QUEUED: i32 = 5;
    pub(crate) const REPEAT: i32 = 6;
    pub(crate) const TRAP: i32 = 8;
    /// `TC_ACT_JUMP`, with the number of actions to skip.
    pub(crate) const JUMP: i32 = 1 << 28;
    /// `TC_ACT_GOTO_CHAIN`, with the chain.
    pub(crate) const GOTO_CHAIN: i32 = 2 << 28;
    /// Mask of the operand of the last two.
    pub(crate) const OPERAND: i32 = (1 << 28) - 1;
}

/// `TCA_ACT_MAX_PRIO`: maximum number of actions of a filter.
const MAX_ACTIONS: usize = 32;
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATS: u16 = 4;
const COOKIE: u16 = 6;
const IN_HW_COUNT: u16 = 10;
const USED_HW_STATS: u16 = 9;
/// Jiffies in a second of `struct tcf_t`, `USER_HZ`.
const USER_HZ: u64 = 100;

/// Key of an action: its kind and index.
pub(crate) type ActionKey = (&'static str, u32);

/// Action in the table.
#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) kind: Kind,
    pub(crate) traffic: Traffic,
    pub(crate) queue: QueueCounters,
    references: u32,
    bindings: u32,
    cookie: Option<Vec<u8>>,
    /// True if the action was made for itself, not by a filter.
    alone: bool,
    installed: SimTime,
    used: SimTime,
    first: Option<SimTime>,
}

impl Action {
    /// Appends `struct tcf_t`.
    fn times(&self, now: SimTime) -> Vec<u8> {
        // Zero means never.
        let ticks = |since: SimTime| (now.since(since).as_nanos() / (1_000_000_000 / USER_HZ)).max(1);
        let all = [ticks(self.installed), ticks(self.used), 0, self.first.map_or(0, ticks)];
        all.iter().flat_map(|time| time.to_ne_bytes()).collect()
    }
}

/// Actions of a namespace.
#[derive(Debug)]
pub(crate) struct Actions {
    table: Map<ActionKey, Action>,
    seed: Seed,
    made: u64,
}

/// Request for the actions of a filter: the attributes, and the change of one that exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActionRequest<'a> {
    pub(crate) attributes: Attributes<'a>,
    /// True if an action of the index given may be changed.
    pub(crate) replace: bool,
    /// True if a filter binds the action.
    pub(crate) bind: bool,
}

impl Actions {
    pub(crate) fn new(seed: Seed) -> Actions {
        Actions { table: Map::new(), seed, made: 0 }
    }
    /// Makes, finds or changes an action (`tcf_action_init_1`).
    fn make(
        &mut self,
        request: ActionRequest<'_>,
        now: SimTime,
        devices: &dyn Fn(u32) -> Option<usize>,
    ) -> Result<ActionKey, TcError> {
        let kind = request.attributes.text(KIND).ok_or(invalid("TC action kind must be specified"))?;
        let options = request.attributes.nested(OPTIONS);
        self.make_kind(kind, options, request, now, devices)
    }
    /// Makes, finds or changes an action of a kind.
    pub(crate) fn make_kind(
        &mut self,
        kind: &[u8],
        options: Option<Attributes<'_>>,
        request: ActionRequest<'_>,
        now: SimTime,
        devices: &dyn Fn(u32) -> Option<usize>,
    ) -> Result<ActionKey, TcError> {
        let name = Kind::name(kind).ok_or(error(Errno::ENOENT, "Failed to load TC action module"))?;
        let index = options.map_or(0, |options| Kind::index(name, options));
        let free = || (1..).find(|index| !self.table.contains_key(&(name, *index))).unwrap_or(1);
        let key = (name, if index == 0 { free() } else { index });
        let exists = self.table.contains_key(&key);
        if exists && request.bind {
            // A filter may name an action that exists.
            let action = self.table.get_mut(&key).ok_or(Errno::ENOENT)?;
            action.references += 1;
            action.bindings += 1;
            return Ok(key);
        }
        if exists && !request.replace {
            return Err(Errno::EEXIST.into());
        }
        self.made += 1;
        let stream = self.seed.stream(&["tc-action", &self.made.to_string()]);
        let former = self.table.get(&key).map(|action| &action.kind);
        let made = Kind::new(name, options, former, now, devices, stream)?;
        let cookie = request.attributes.get(COOKIE).map(<[u8]>::to_vec);
        match self.table.get_mut(&key) {
            Some(action) => {
                action.kind = made;
                action.cookie = cookie.or(action.cookie.take());
            }
            None => {
                let action = Action {
                    kind: made,
                    traffic: Traffic::default(),
                    queue: QueueCounters::default(),
                    references: 1,
                    bindings: u32::from(request.bind),
                    cookie,
                    alone: !request.bind,
                    installed: now,
                    used: now,
                    first: None,
                };
                self.table.insert(key, action);
            }
        }
        Ok(key)
    }
    /// Makes the actions of a list of attributes (`tcf_action_init`). On an error none remains.
    pub(crate) fn make_all(
        &mut self,
        list: Attributes<'_>,
        (replace, bind): (bool, bool),
        now: SimTime,
        devices: &dyn Fn(u32) -> Option<usize>,
    ) -> Result<Vec<ActionKey>, TcError> {
        let mut made = Vec::new();
        for number in 1..=MAX_ACTIONS as u16 {
            let Some(attributes) = list.nested(number) else { break };
            let request = ActionRequest { attributes, replace, bind };
            match self.make(request, now, devices) {
                Ok(key) => made.push(key),
                Err(error) => {
                    self.release(&made, bind);
                    return Err(error);
                }
            }
        }
        Ok(made)
    }
    /// Releases actions, which a filter was bound to if `bound`.
    pub(crate) fn release(&mut self, keys: &[ActionKey], bound: bool) {
        for key in keys {
            let Some(action) = self.table.get_mut(key) else { continue };
            action.references -= 1;
            action.bindings -= u32::from(bound && action.bindings > 0);
            if action.references == 0 {
                self.table.remove(key);
            }
        }
    }
    /// Deletes an action by request. Fails with `EPERM` if a filter is bound to it.
    pub(crate) fn delete(&mut self, kind: &[u8], index: u32) -> Result<(), TcError> {
        let name = Kind::name(kind).ok_or(error(Errno::ENOENT, "Specified TC action kind not found"))?;
        let not_found = error(Errno::ENOENT, "TC action with specified index not found");
        let action = self.table.get_mut(&(name, index)).ok_or(not_found)?;
        if action.bindings > 0 {
            return Err(error(Errno::EPERM, "Failed to delete TC action"));
        }
        self.release(&[(name, index)], false);
        Ok(())
    }
    /// Deletes the actions of a kind up to the first that a filter is bound to; returns their number, and true if they
    /// were all. Fails with `EPERM` if it is the first one.
    pub(crate) fn flush(&mut self, kind: &[u8]) -> Result<(u32, bool), TcError> {
        let name = Kind::name(kind).ok_or(error(Errno::EINVAL, "Cannot flush unknown TC action"))?;
        let keys: Vec<ActionKey> = self.of_kind(name).collect();
        let mut count = 0;
        for key in keys {
            if self.table.get(&key).is_some_and(|action| action.bindings > 0) {
                return if count > 0 { Ok((count, false)) } else { Err(Errno::EPERM.into()) };
            }
            self.table.remove(&key);
            count += 1;
        }
        Ok((count, true))
    }
    /// Actions of a kind in the order of their indices.
    pub(crate) fn of_kind(&self, name: &'static str) -> impl Iterator<Item = ActionKey> {
        self.table.keys().filter(move |key| key.0 == name).copied()
    }
    pub(crate) fn has(&self, key: &ActionKey) -> bool {
        self.table.contains_key(key)
    }
    /// Appends the description of an action; one that is listed for itself has more attributes than one of a filter.
    pub(crate) fn dump(&self, key: &ActionKey, alone: bool, now: SimTime, out: &mut Out) {
        let Some(action) = self.table.get(key) else { return };
        out.text(KIND, key.0);
        let Action { traffic, queue, .. } = *action;
        Statistics { traffic, queue, own: None }.write(out, (STATS, None, None));
        if let Some(cookie) = &action.cookie {
            out.put(COOKIE, cookie);
        }
        if action.alone || alone {
            out.put(USED_HW_STATS, &words([0, 7]));
        }
        if alone {
            out.u32(IN_HW_COUNT, 0);
        }
        out.nest(OPTIONS, |out| self.dump_options(key, now, out));
    }
    /// Appends the options of an action.
    pub(crate) fn dump_options(&self, key: &ActionKey, now: SimTime, out: &mut Out) {
        if let Some(action) = self.table.get(key) {
            let counts = (key.1, action.references, action.bindings);
            action.kind.dump(counts, &action.times(now), out);
        }
    }
    /// Executes actions on a packet until one decides (`tcf_action_exec`).
    pub(crate) fn execute(keys: &[ActionKey], buffer: &mut Buffer, context: &mut Context<'_>) -> i32 {
        if std::mem::take(&mut buffer.skips_actions) {
            return verdict::OK;
        }
        let (mut at, mut result, mut jumps) = (0, verdict::OK, 0);
        while let Some(key) = keys.get(at) {
            let (now, interface) = (context.now, context.interface);
            let Some(action) = context.actions.table.get_mut(key) else { break };
            action.used = now;
            action.first.get_or_insert(now);
            action.traffic.count(buffer);
            let outcome = action.kind.execute(buffer, now, interface);
            let Outcome { verdict: decided, redirected, overlimit } = outcome;
            action.queue.drops += u32::from(decided == verdict::SHOT);
            action.queue.overlimits += u32::from(overlimit);
            context.redirected.extend(redirected);
            result = decided;
            jumps += 1;
            at = match decided {
                verdict::REPEAT if jumps < MAX_ACTIONS => continue,
                jump if jump & !verdict::OPERAND == verdict::JUMP => {
                    let skipped = (jump & verdict::OPERAND) as usize;
                    if skipped >= keys.len() || jumps >= MAX_ACTIONS {
                        return verdict::OK;
                    }
                    result = verdict::PIPE;
                    at + 1 + skipped
                }
                verdict::PIPE => at + 1,
                _ => break,
            };
        }
        result
    }
}
