//! FQ-CoDel (RFC 8290): a CoDel queue for each flow, served in rotation, new flows first. Names and order
//! follow Linux's `sch_fq_codel`.

use super::DropReason;
use super::codel::{CodelConfig, Controller, Source};
use super::fifo::Waiting;
use super::queue::QueueActions;
use crate::Packet;
use crate::ecn::{IpVersion, ip_header};
use belljar_base::{Map, SimTime};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::hash::Hasher;

/// Maximum number of packets dropped per overflow, `drop_batch_size`.
const DROP_BATCH: u32 = 64;
const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_LITE: u8 = 136;

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Maximum number of packets of all flows.
    pub packets: usize,
    /// Maximum number of bytes of all flows.
    pub bytes: usize,
    /// Number of queues for flows.
    pub flows: u32,
    /// Number of bytes that a flow may send per round; `None` is one packet of maximum size.
    pub quantum: Option<usize>,
    /// Parameters of each flow's CoDel.
    pub codel: CodelConfig,
}

impl Default for FqCodelConfig {
    /// Linux's defaults.
    fn default() -> FqCodelConfig {
        FqCodelConfig {
            packets: 10_240,
            bytes: 32 << 20,
            flows: 1_024,
            quantum: None,
            codel: CodelConfig { ecn: true, ..CodelConfig::default() },
        }
    }
}

#[derive(Debug, Default)]
struct Flow {
    waiting: Waiting,
    controller: Controller,
    deficit: i64,
    /// True if the flow is in one of the two lists.
    listed: bool,
}

/// Queues of all flows.
#[derive(Debug)]
pub(super) struct FqCodel {
    config: FqCodelConfig,
    mtu: usize,
    framed: bool,
    key: u64,
    flows: Map<u32, Flow>,
    new_flows: VecDeque<u32>,
    old_flows: VecDeque<u32>,
    packets: usize,
    bytes: usize,
}

/// Packets of one flow; the byte count is that of all flows, as in Linux.
struct Turn<'a> {
    waiting: &'a mut Waiting,
    packets: &'a mut usize,
    bytes: &'a mut usize,
}

impl Source for Turn<'_> {
    fn take(&mut self) -> Option<(SimTime, Packet)> {
        let (queued, packet) = self.waiting.take()?;
        *self.packets -= 1;
        *self.bytes -= packet.len();
        Some((queued, packet))
    }
    fn bytes(&self) -> usize {
        *self.bytes
    }
}

impl FqCodel {
    /// Creates the queues. `key` randomises the assignment of flows to queues.
    pub(super) fn new(config: FqCodelConfig, mtu: usize, framed: bool, key: u64) -> FqCodel {
        FqCodel {
            config,
            mtu,
            framed,
            key,
            flows: Map::new(),
            new_flows: VecDeque::new(),
            old_flows: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Queues a packet. Packets dropped by an overflow, possibly including this one, are added to
    /// `dealings`.
    pub(super) fn push(&mut self, now: SimTime, packet: Packet, dealings: &mut QueueActions) {
        let number =
            (flow_hash(self.key, packet.open_bytes(), self.framed) % u64::from(self.config.flows)) as u32;
        let flow = self.flows.entry(number).or_default();
        self.packets += 1;
        self.bytes += packet.len();
        flow.waiting.push(now, packet);
        if !flow.listed {
            flow.listed = true;
            flow.deficit = quantum(&self.config, self.mtu);
            self.new_flows.push_back(number);
        }
        if self.packets > self.config.packets || self.bytes > self.config.bytes {
            self.overflow(dealings);
        }
    }

    /// `fq_codel_drop`: drops up to half of the longest flow, from its head.
    fn overflow(&mut self, dealings: &mut QueueActions) {
        let mut longest: Option<(&u32, &mut Flow)> = None;
        for (number, flow) in &mut self.flows {
            if longest.as_ref().is_none_or(|(_, most)| flow.waiting.bytes() > most.waiting.bytes()) {
                longest = Some((number, flow));
            }
        }
        let Some((_, flow)) = longest else { return };
        let enough = flow.waiting.bytes() / 2;
        let (mut dropped, mut bytes) = (0, 0);
        let mut turn =
            Turn { waiting: &mut flow.waiting, packets: &mut self.packets, bytes: &mut self.bytes };
        while let Some((_, packet)) = turn.take() {
            dropped += 1;
            bytes += packet.len();
            dealings.lost.push((DropReason::EgressFull, packet));
            if dropped == DROP_BATCH || bytes >= enough {
                break;
            }
        }
        flow.controller.overflowed(dropped);
    }

    pub(super) fn pop(&mut self, now: SimTime, dealings: &mut QueueActions) -> Option<Packet> {
        loop {
            let is_new = !self.new_flows.is_empty();
            let list = if is_new { &mut self.new_flows } else { &mut self.old_flows };
            let number = *list.front()?;
            let flow = self.flows.get_mut(&number).expect("a listed flow is there");
            if flow.deficit <= 0 {
                flow.deficit += quantum(&self.config, self.mtu);
                list.pop_front();
                self.old_flows.push_back(number);
                continue;
            }
            let mut turn =
                Turn { waiting: &mut flow.waiting, packets: &mut self.packets, bytes: &mut self.bytes };
            let served = flow.controller.serve(&self.config.codel, self.mtu, now, &mut turn, dealings);
            let Some(packet) = served else {
                list.pop_front();
                // "Force a pass through old_flows to prevent starvation."
                if is_new && !self.old_flows.is_empty() {
                    self.old_flows.push_back(number);
                } else {
                    flow.listed = false;
                }
                continue;
            };
            flow.deficit -= packet.len() as i64;
            return Some(packet);
        }
    }

    /// Removes all packets, and returns them in the order of arrival.
    pub(super) fn clear(&mut self) -> Vec<(SimTime, Packet)> {
        let flows = std::mem::take(&mut self.flows);
        let mut all: Vec<_> = flows.into_values().flat_map(|mut flow| flow.waiting.clear()).collect();
        all.sort_by_key(|(queued, _)| *queued);
        self.new_flows.clear();
        self.old_flows.clear();
        (self.packets, self.bytes) = (0, 0);
        all
    }

    pub(super) fn len(&self) -> usize {
        self.packets
    }
}

fn quantum(config: &FqCodelConfig, mtu: usize) -> i64 {
    config.quantum.unwrap_or(mtu).max(1) as i64
}

/// Hash of a packet's flow: addresses, protocol, and ports unless the packet is a fragment. Packets other
/// than IP form one flow.
fn flow_hash(key: u64, bytes: &[u8], framed: bool) -> u64 {
    let mut hasher = SipHasher13::new_with_keys(key, 0);
    let (protocol, ports) = match ip_header(bytes, framed) {
        Some(IpVersion::V4(at)) => {
            hasher.write(&bytes[at + 12..at + 20]);
            let whole = u16::from_be_bytes([bytes[at + 6], bytes[at + 7]]) & 0x3fff == 0;
            (bytes[at + 9], whole.then_some(at + usize::from(bytes[at] & 0xf) * 4))
        }
        Some(IpVersion::V6(at)) => {
            hasher.write(&bytes[at + 8..at + 40]);
            (bytes[at + 6], Some(at + 40))
        }
        None => return hasher.finish(),
    };
    hasher.write_u8(protocol);
    let ports =
        ports.filter(|_| matches!(protocol, TCP | UDP | UDP_LITE)).and_then(|at| bytes.get(at..at + 4));
    ports.into_iter().for_each(|ports| hasher.write(ports));
    hasher.finish()
}
