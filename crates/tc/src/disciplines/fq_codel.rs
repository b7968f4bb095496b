//! `fq_codel`: flows in deficit round robin, each under CoDel (RFC 8290; `net/sched/sch_fq_codel.c`,
//! tc-fq_codel(8)).

use super::codel::{Counts, DISABLED, Parameters, Queue, State, to_micros};
use super::prio::dispose;
use crate::attributes::{Attributes, Out, words};
use crate::buffer::{Buffer, scale};
use crate::error::{TcError, invalid};
use crate::filters::Classified;
use crate::node::{
    ClassShown, Classful, Context, Discipline, MAJOR, MINOR, Own, QueueCounters, Setup, Statistics, TcDrop,
    Traffic, Verdict,
};
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

const TARGET: u16 = 1;
const LIMIT: u16 = 2;
const INTERVAL: u16 = 3;
const ECN: u16 = 4;
const FLOWS: u16 = 5;
const QUANTUM: u16 = 6;
const CE_THRESHOLD: u16 = 7;
const DROP_BATCH: u16 = 8;
const MEMORY_LIMIT: u16 = 9;
/// `FQ_CODEL_QUANTUM_MAX`.
const MAX_QUANTUM: u32 = 1 << 20;

/// Flow.
#[derive(Debug, Default)]
struct Flow {
    packets: VecDeque<Buffer>,
    backlog: u32,
    deficit: i64,
    listed: bool,
    state: State,
}

/// Flows by the hash of their packets.
#[derive(Debug)]
pub(super) struct FqCodel {
    limit: u32,
    count: u32,
    quantum: u32,
    drop_batch: u32,
    memory_limit: u32,
    parameters: Parameters,
    counts: Counts,
    over_limit: u32,
    over_memory: u32,
    new_flow_count: u32,
    total: Total,
    flows: Map<u32, Flow>,
    new_flows: VecDeque<u32>,
    old_flows: VecDeque<u32>,
    key: u64,
}

/// Packets of the flow that is served; the backlog is that of all flows.
struct Served<'a> {
    flow: &'a mut VecDeque<Buffer>,
    backlog: &'a mut u32,
    total: &'a mut Total,
}

/// Packets of all flows.
#[derive(Debug, Default)]
struct Total {
    packets: u32,
    bytes: u32,
    memory: u32,
}

impl Queue for Served<'_> {
    fn take(&mut self) -> Option<Buffer> {
        let packet = self.flow.pop_front()?;
        *self.backlog = self.backlog.saturating_sub(packet.len);
        self.total.packets -= 1;
        self.total.bytes = self.total.bytes.saturating_sub(packet.len);
        self.total.memory = self.total.memory.saturating_sub(memory(&packet));
        Some(packet)
    }
    fn backlog(&self) -> u32 {
        self.total.bytes
    }
}

/// Memory of a packet (`skb->truesize`): its buffer, rounded up by the allocator, and `struct sk_buff`.
fn memory(packet: &Buffer) -> u32 {
    (packet.packet.len() as u32 + 384).next_power_of_two() + 256
}

impl FqCodel {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<FqCodel, TcError> {
        let mtu = setup.device.mtu + setup.device.header;
        let mut made = FqCodel {
            limit: 10_240,
            count: 0,
            quantum: mtu,
            drop_batch: 64,
            memory_limit: 32 << 20,
            parameters: Parameters::new(mtu, true),
            counts: Counts::default(),
            over_limit: 0,
            over_memory: 0,
            new_flow_count: 0,
            total: Total::default(),
            flows: Map::new(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            key: setup.seed.stream(&["fq_codel"]).next_u64(),
        };
        if options.is_some() {
            made.change(options, setup)?;
        }
        if made.count == 0 {
            made.count = 1_024;
        }
        Ok(made)
    }
    /// Drops half of the longest flow, at most `drop_batch` packets; returns the flow (`fq_codel_drop`).
    fn shorten(&mut self, context: &mut Context<'_>) -> Option<u32> {
        let mut longest: Option<(u32, u32)> = None;
        for (number, flow) in self.flows.iter() {
            if longest.is_none_or(|(_, most)| flow.backlog > most) {
                longest = Some((*number, flow.backlog));
            }
        }
        let (number, backlog) = longest?;
        let flow = self.flows.get_mut(&number)?;
        let mut served =
            Served { flow: &mut flow.packets, backlog: &mut flow.backlog, total: &mut self.total };
        let (mut dropped, mut len) = (0, 0);
        while let Some(packet) = served.take() {
            dropped += 1;
            len += packet.len;
            context.lost.push((TcDrop::Queue, packet));
            if dropped >= self.drop_batch || len >= backlog >> 1 {
                break;
            }
        }
        flow.state.count = flow.state.count.wrapping_add(dropped);
        Some(number)
    }
    /// Number of a packet's flow (`fq_codel_classify`).
    fn classify(
        &self,
        buffer: &mut Buffer,
        own: &mut Own,
        context: &mut Context<'_>,
    ) -> Result<u32, Classified> {
        let minor = buffer.priority & MINOR;
        if buffer.priority & MAJOR == own.handle && (1..=self.count).contains(&minor) {
            return Ok(minor - 1);
        }
        if own.filters.is_empty() {
            return Ok(scale(buffer.flow_hash(self.key), self.count));
        }
        match own.filters.classify(buffer, context) {
            Classified::Class(class) if (1..=self.count).contains(&(class & MINOR)) => {
                Ok((class & MINOR) - 1)
            }
            Classified::Class(_) | Classified::Unmatched => Err(Classified::Shot),
            disposition => Err(disposition),
        }
    }
}

impl Discipline for FqCodel {
    fn kind(&self) -> &'static str {
        "fq_codel"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        let number = match self.classify(&mut buffer, own, context) {
            Ok(number) => number,
            Err(disposition) => return dispose(buffer, disposition, context),
        };
        buffer.queued = context.now;
        let flow = self.flows.entry(number).or_default();
        flow.backlog += buffer.len;
        self.total.bytes += buffer.len;
        self.total.packets += 1;
        self.total.memory += memory(&buffer);
        flow.packets.push_back(buffer);
        if !flow.listed {
            (flow.listed, flow.deficit) = (true, i64::from(self.quantum));
            self.new_flows.push_back(number);
            self.new_flow_count += 1;
        }
        let over_memory = self.total.memory > self.memory_limit;
        if self.total.packets <= self.limit && !over_memory {
            return Verdict::Queued;
        }
        let before = context.lost.len();
        let shortened = self.shorten(context);
        let dropped = (context.lost.len() - before) as u32;
        self.over_limit += dropped;
        self.over_memory += if over_memory { dropped } else { 0 };
        if shortened == Some(number) { Verdict::Congested } else { Verdict::Queued }
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        loop {
            let is_new = !self.new_flows.is_empty();
            let list = if is_new { &mut self.new_flows } else { &mut self.old_flows };
            let number = *list.front()?;
            let flow = self.flows.get_mut(&number)?;
            if flow.deficit <= 0 {
                flow.deficit += i64::from(self.quantum);
                list.pop_front();
                self.old_flows.push_back(number);
                continue;
            }
            let mut served =
                Served { flow: &mut flow.packets, backlog: &mut flow.backlog, total: &mut self.total };
            let taken = flow.state.dequeue(&self.parameters, &mut self.counts, &mut served, context);
            let Some(packet) = taken else {
                list.pop_front();
                // A pass through the old flows prevents starvation.
                if is_new && !self.old_flows.is_empty() {
                    self.old_flows.push_back(number);
                } else {
                    flow.listed = false;
                }
                continue;
            };
            flow.deficit -= i64::from(packet.len);
            return Some(packet);
        }
    }
    fn change(&mut self, options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<(), TcError> {
        let Some(options) = options else { return Ok(()) };
        if let Some(flows) = options.u32(FLOWS)? {
            if self.count != 0 || flows == 0 || flows > 65_536 {
                return Err(Errno::EINVAL.into());
            }
            self.count = flows;
        }
        if let Some(quantum) = options.u32(QUANTUM)? {
            if quantum > MAX_QUANTUM {
                return Err(invalid("Invalid quantum"));
            }
            self.quantum = quantum.max(256);
        }
        self.parameters.change(options, CE_THRESHOLD)?;
        if let Some(limit) = options.u32(LIMIT)? {
            self.limit = limit;
        }
        if let Some(ecn) = options.u32(ECN)? {
            self.parameters.ecn = ecn != 0;
        }
        if let Some(batch) = options.u32(DROP_BATCH)? {
            self.drop_batch = batch.max(1);
        }
        if let Some(limit) = options.u32(MEMORY_LIMIT)? {
            self.memory_limit = limit.min(1 << 31);
        }
        for flow in self.flows.values_mut() {
            let mut served =
                Served { flow: &mut flow.packets, backlog: &mut flow.backlog, total: &mut self.total };
            while served.total.packets > self.limit || served.total.memory > self.memory_limit {
                match served.take() {
                    Some(packet) => setup.purged.push(packet),
                    None => break,
                }
            }
        }
        Ok(())
    }
    fn dump(&self, out: &mut Out) {
        out.nest(2, |out| {
            out.u32(TARGET, to_micros(self.parameters.target));
            out.u32(LIMIT, self.limit);
            out.u32(INTERVAL, to_micros(self.parameters.interval));
            out.u32(ECN, u32::from(self.parameters.ecn));
            out.u32(QUANTUM, self.quantum);
            out.u32(DROP_BATCH, self.drop_batch);
            out.u32(MEMORY_LIMIT, self.memory_limit);
            out.u32(FLOWS, self.count);
            if self.parameters.ce_threshold != DISABLED {
                out.u32(CE_THRESHOLD, to_micros(self.parameters.ce_threshold));
            }
        });
    }
    fn statistics(&self, _: &Own, _: SimTime) -> Option<Vec<u8>> {
        let Counts { max_packet, marks, ce_marks } = self.counts;
        let (new, old) = (self.new_flows.len() as u32, self.old_flows.len() as u32);
        let FqCodel { over_limit, new_flow_count, over_memory, .. } = *self;
        Some(words([
            0,
            max_packet,
            over_limit,
            marks,
            new_flow_count,
            new,
            old,
            ce_marks,
            self.total.memory,
            over_memory,
        ]))
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        for flow in std::mem::take(&mut self.flows).into_values() {
            out.extend(flow.packets);
        }
        self.new_flows.clear();
        self.old_flows.clear();
        self.total = Total::default();
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for FqCodel {
    fn classes(&self) -> Vec<u16> {
        let listed = self.flows.iter().filter(|(_, flow)| flow.listed);
        listed.map(|(number, _)| (number + 1) as u16).collect()
    }
    fn has(&self, _: u16) -> bool {
        false
    }
    fn show(&self, class: u16, handle: u32, now: SimTime) -> ClassShown {
        let Some(flow) = self.flows.get(&u32::from(class).wrapping_sub(1)) else {
            return ClassShown::default();
        };
        let State { count, last_count, dropping, delay, .. } = flow.state;
        let next = flow.state.to_next_drop(now);
        let deficit = flow.deficit as u32;
        let own = words([1, deficit, to_micros(delay), count, last_count, u32::from(dropping), next]);
        let queue = QueueCounters {
            len: flow.packets.len() as u32,
            backlog: flow.backlog,
            ..QueueCounters::default()
        };
        let statistics = Statistics { traffic: Traffic::default(), queue, own: Some(own) };
        ClassShown { parent: handle, statistics: Some(statistics), ..ClassShown::default() }
    }
}
