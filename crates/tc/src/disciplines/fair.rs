//! `sfq`: stochastic fairness queueing (`net/sched/sch_sfq.c`, tc-sfq(8)): flows by hash, in deficit round robin. A
//! packet that finds no room displaces the last one of the longest flow.

use super::prio::dispose;
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::{Buffer, scale};
use crate::error::{TcError, error};
use crate::filters::Classified;
use crate::node::{Context, Discipline, MAJOR, MINOR, Own, Setup, Verdict};
use belljar_base::{Map, SimTime, Stream};
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

/// Defaults: `SFQ_DEFAULT_FLOWS`, `SFQ_DEFAULT_HASH_DIVISOR` and `SFQ_MAX_DEPTH`.
const FLOWS: u32 = 128;
const DIVISOR: u32 = 1_024;
const DEPTH: u32 = 127;
/// Length of `struct tc_sfq_qopt` and `struct tc_sfq_qopt_v1` in bytes.
const QOPT: usize = 20;
const QOPT_V1: usize = 72;

/// Flow.
#[derive(Debug, Default)]
struct Slot {
    packets: VecDeque<Buffer>,
    allotment: i64,
}

/// Flows by hash.
#[derive(Debug)]
pub(super) struct Sfq {
    quantum: u32,
    /// Seconds after which the hash is changed, 0 for never.
    perturb: u32,
    limit: u32,
    divisor: u32,
    flows: u32,
    depth: u32,
    slots: Map<u32, Slot>,
    round: VecDeque<u32>,
    packets: u32,
    key: u64,
    changes_at: Option<SimTime>,
    stream: Stream,
}

impl Sfq {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Sfq, TcError> {
        let mut stream = setup.seed.stream(&["sfq"]);
        let mut sfq = Sfq {
            quantum: setup.device.mtu + setup.device.header,
            perturb: 0,
            limit: DEPTH,
            divisor: DIVISOR,
            flows: FLOWS,
            depth: DEPTH,
            slots: Map::new(),
            round: VecDeque::new(),
            packets: 0,
            key: stream.next_u64(),
            changes_at: None,
            stream,
        };
        if options.is_some() {
            sfq.change(options, setup)?;
        }
        Ok(sfq)
    }
    fn slot(&self, buffer: &mut Buffer, own: &mut Own, context: &mut Context<'_>) -> Result<u32, Classified> {
        let minor = buffer.priority & MINOR;
        if buffer.priority & MAJOR == own.handle && (1..=self.divisor).contains(&minor) {
            return Ok(minor - 1);
        }
        if own.filters.is_empty() {
            return Ok(scale(buffer.flow_hash(self.key), self.divisor));
        }
        match own.filters.classify(buffer, context) {
            Classified::Class(class) if (1..=self.divisor).contains(&(class & MINOR)) => {
                Ok((class & MINOR) - 1)
            }
            Classified::Class(_) | Classified::Unmatched => Err(Classified::Shot),
            disposition => Err(disposition),
        }
    }
    /// Drops the last packet of the longest flow; returns the flow (`sfq_drop`).
    fn drop_longest(&mut self, context: &mut Context<'_>) -> Option<u32> {
        let longest =
            self.slots.iter().max_by_key(|(number, slot)| (slot.packets.len(), std::cmp::Reverse(**number)));
        let number = *longest?.0;
        let packet = self.slots.get_mut(&number)?.packets.pop_back()?;
        self.packets -= 1;
        context.drop(packet);
        Some(number)
    }
}

impl Discipline for Sfq {
    fn kind(&self) -> &'static str {
        "sfq"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        if self.changes_at.is_some_and(|at| at <= context.now) {
            // Queued packets keep their flows; later ones get new ones.
            self.key = self.stream.next_u64();
            let period = belljar_base::SimDuration::from_secs(u64::from(self.perturb));
            self.changes_at = Some(context.now + period);
        }
        let number = match self.slot(&mut buffer, own, context) {
            Ok(number) => number,
            Err(disposition) => return dispose(buffer, disposition, context),
        };
        let is_new = !self.slots.contains_key(&number);
        let full = is_new && self.slots.len() >= self.flows as usize;
        let deep = self.slots.get(&number).is_some_and(|slot| slot.packets.len() >= self.depth as usize);
        if full || deep {
            context.drop(buffer);
            return Verdict::Dropped;
        }
        let slot = self.slots.entry(number).or_default();
        if is_new {
            slot.allotment = i64::from(self.quantum);
            self.round.push_back(number);
        }
        slot.packets.push_back(buffer);
        self.packets += 1;
        if self.packets <= self.limit {
            return Verdict::Queued;
        }
        match self.drop_longest(context) == Some(number) {
            true => Verdict::Congested,
            false => Verdict::Queued,
        }
    }
    fn dequeue(&mut self, _: &mut Own, _: &mut Context<'_>) -> Option<Buffer> {
        loop {
            let number = *self.round.front()?;
            let Some(slot) = self.slots.get_mut(&number) else {
                self.round.pop_front();
                continue;
            };
            if slot.packets.is_empty() {
                self.slots.remove(&number);
                self.round.pop_front();
                continue;
            }
            if slot.allotment <= 0 {
                slot.allotment += i64::from(self.quantum);
                self.round.rotate_left(1);
                continue;
            }
            let packet = slot.packets.pop_front()?;
            slot.allotment -= i64::from(packet.len);
            self.packets -= 1;
            if slot.packets.is_empty() {
                self.slots.remove(&number);
                self.round.pop_front();
            }
            return Some(packet);
        }
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let bytes = options.filter(|options| options.0.len() >= QOPT).ok_or(Errno::EINVAL)?.0;
        let [quantum, perturb, limit, divisor, flows] = [0, 4, 8, 12, 16].map(|at| word(bytes, at));
        if divisor != 0 && (!divisor.is_power_of_two() || divisor > 65_536)
            || quantum as i32 <= 0 && quantum != 0
        {
            return Err(Errno::EINVAL.into());
        }
        if bytes.len() >= QOPT_V1 {
            // Average thresholds make it a RED of each flow.
            if word(bytes, 32) != 0 || word(bytes, 24) != 0 {
                return Err(error(Errno::EOPNOTSUPP, "sfq with red or headdrop is not supported"));
            }
            if word(bytes, 20) != 0 {
                self.depth = word(bytes, 20).min(DEPTH);
            }
        }
        if quantum != 0 {
            self.quantum = quantum;
        }
        self.perturb = perturb;
        let period = belljar_base::SimDuration::from_secs(u64::from(perturb));
        self.changes_at = (perturb != 0).then(|| setup.now + period);
        if flows != 0 {
            self.flows = flows.min(65_535);
        }
        if divisor != 0 {
            self.divisor = divisor;
            self.flows = self.flows.min(divisor);
        }
        if limit != 0 {
            self.limit = limit.min(self.depth * self.flows);
            self.flows = self.flows.min(self.limit);
        }
        while self.packets > self.limit {
            let Some((_, slot)) = self.slots.iter_mut().max_by_key(|(_, slot)| slot.packets.len()) else {
                break;
            };
            setup.purged.extend(slot.packets.pop_back());
            self.packets -= 1;
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        let mut all = words([self.quantum, self.perturb, self.limit, self.divisor, self.flows, self.depth]);
        all.resize(QOPT_V1, 0);
        out.put(2, &all);
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        for slot in std::mem::take(&mut self.slots).into_values() {
            out.extend(slot.packets);
        }
        self.round.clear();
        self.packets = 0;
    }
    fn classful(&self) -> Option<&dyn crate::node::Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn crate::node::Classful> {
        Some(self)
    }
}

impl crate::node::Classful for Sfq {
    fn classes(&self) -> Vec<u16> {
        self.slots.keys().map(|number| (number + 1) as u16).collect()
    }
    fn has(&self, _: u16) -> bool {
        false
    }
    fn child(&self, _: u16) -> Option<&crate::node::Node> {
        None
    }
    fn children(&self) -> Vec<&crate::node::Node> {
        Vec::new()
    }
    fn children_mut(&mut self) -> Vec<&mut crate::node::Node> {
        Vec::new()
    }
    fn graft(
        &mut self,
        _: u16,
        _: Option<crate::node::Node>,
        _: &mut Setup<'_>,
    ) -> Result<Option<crate::node::Node>, TcError> {
        Err(Errno::EOPNOTSUPP.into())
    }
    fn show(&self, class: u16, handle: u32, _: SimTime) -> crate::node::ClassShown {
        let slot = self.slots.get(&u32::from(class).wrapping_sub(1));
        let mut statistics = crate::node::Statistics::default();
        if let Some(slot) = slot {
            statistics.queue.len = slot.packets.len() as u32;
            statistics.queue.backlog = slot.packets.iter().map(|packet| packet.len).sum();
            statistics.own = Some((slot.allotment as i32).to_ne_bytes().to_vec());
        }
        crate::node::ClassShown { parent: handle, statistics: Some(statistics), ..Default::default() }
    }
}
