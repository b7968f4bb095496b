//! `flower`: filters by the fields of a packet's headers (`net/sched/cls_flower.c`, tc-flower(8)).
//!
//! Each field has a key and a mask, of which the packet's value is compared under the mask. The filters are tested in
//! the order in which their masks were first used, and there by their handles.

use super::{Change, flags};
use crate::action::Actions;
use crate::attributes::{Attributes, Out};
use crate::buffer::Buffer;
use crate::error::{TcError, error, invalid};
use crate::filters::{FilterSetup, Match, Target, TargetAttributes};
use crate::node::Context;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use belljar_wire::ethernet::ethertype;

const FLAGS: u16 = 22;
const IN_HW_COUNT: u16 = 86;
const ETH_TYPE: u16 = 8;
const IP_PROTO: u16 = 9;
const TARGET: TargetAttributes = TargetAttributes { class: 1, actions: 3, police: 0, device: 2 };

/// Value of a packet that a field is compared with.
type Value = Vec<u8>;

/// Field: the attributes of its key and mask (0: the mask is full), its length in bytes and its value in a packet.
struct Field {
    key: u16,
    mask: u16,
    len: usize,
    value: fn(&Buffer) -> Option<Value>,
}

fn bytes(buffer: &Buffer, at: usize, len: usize) -> Option<Value> {
    buffer.bytes().get(at..at + len).map(<[u8]>::to_vec)
}
fn ethernet(buffer: &Buffer, at: usize, len: usize) -> Option<Value> {
    bytes(buffer, at, len).filter(|_| buffer.framed)
}
fn network(buffer: &Buffer, protocol: u16, at: usize, len: usize) -> Option<Value> {
    (buffer.inner_protocol() == protocol).then(|| buffer.network().get(at..at + len).map(<[u8]>::to_vec))?
}
fn transport(buffer: &Buffer, protocol: u8, at: usize, len: usize) -> Option<Value> {
    let offset = buffer.transport_offset().filter(|_| buffer.ip_protocol() == Some(protocol))?;
    let network = buffer.network();
    let later = network[0] >> 4 == 4 && (network.get(6)? & 0x1f != 0 || *network.get(7)? != 0);
    network.get(offset + at..offset + at + len).filter(|_| !later).map(<[u8]>::to_vec)
}
/// Fields of ARP for IPv4 over Ethernet.
fn arp(buffer: &Buffer, at: usize, len: usize) -> Option<Value> {
    network(buffer, ethertype::ARP, at, len)
}

/// Fields, by the attributes `TCA_FLOWER_KEY_*`.
const FIELDS: [Field; 34] = [
    Field { key: 4, mask: 5, len: 6, value: |packet| ethernet(packet, 0, 6) },
    Field { key: 6, mask: 7, len: 6, value: |packet| ethernet(packet, 6, 6) },
    Field { key: 10, mask: 11, len: 4, value: |packet| network(packet, ethertype::IPV4, 12, 4) },
    Field { key: 12, mask: 13, len: 4, value: |packet| network(packet, ethertype::IPV4, 16, 4) },
    Field { key: 14, mask: 15, len: 16, value: |packet| network(packet, ethertype::IPV6, 8, 16) },
    Field { key: 16, mask: 17, len: 16, value: |packet| network(packet, ethertype::IPV6, 24, 16) },
    Field { key: 18, mask: 35, len: 2, value: |packet| transport(packet, 6, 0, 2) },
    Field { key: 19, mask: 36, len: 2, value: |packet| transport(packet, 6, 2, 2) },
    Field { key: 20, mask: 37, len: 2, value: |packet| transport(packet, 17, 0, 2) },
    Field { key: 21, mask: 38, len: 2, value: |packet| transport(packet, 17, 2, 2) },
    Field { key: 41, mask: 39, len: 2, value: |packet| transport(packet, 132, 0, 2) },
    Field { key: 42, mask: 40, len: 2, value: |packet| transport(packet, 132, 2, 2) },
    Field {
        key: 23,
        mask: 0,
        len: 2,
        value: |packet| packet.vlan().map(|tag| (tag & 0xfff).to_ne_bytes().to_vec()),
    },
    Field { key: 24, mask: 0, len: 1, value: |packet| packet.vlan().map(|tag| vec![(tag >> 13) as u8]) },
    Field {
        key: 25,
        mask: 0,
        len: 2,
        value: |packet| packet.vlan().map(|_| packet.inner_protocol().to_be_bytes().to_vec()),
    },
    Field { key: 49, mask: 50, len: 1, value: |packet| transport(packet, 1, 1, 1) },
    Field { key: 51, mask: 52, len: 1, value: |packet| transport(packet, 1, 0, 1) },
    Field { key: 53, mask: 54, len: 1, value: |packet| transport(packet, 58, 1, 1) },
    Field { key: 55, mask: 56, len: 1, value: |packet| transport(packet, 58, 0, 1) },
    Field { key: 57, mask: 58, len: 4, value: |packet| arp(packet, 14, 4) },
    Field { key: 59, mask: 60, len: 4, value: |packet| arp(packet, 24, 4) },
    Field { key: 61, mask: 62, len: 1, value: |packet| arp(packet, 7, 1) },
    Field { key: 63, mask: 64, len: 6, value: |packet| arp(packet, 8, 6) },
    Field { key: 65, mask: 66, len: 6, value: |packet| arp(packet, 18, 6) },
    Field {
        key: 71,
        mask: 72,
        len: 2,
        value: |packet| {
            transport(packet, 6, 12, 2).map(|mut pair| {
                pair[0] &= 0xf;
                pair
            })
        },
    },
    Field { key: 73, mask: 74, len: 1, value: |packet| packet.traffic_class().map(|class| vec![class]) },
    Field {
        key: 75,
        mask: 76,
        len: 1,
        value: |packet| {
            let at = if packet.inner_protocol() == ethertype::IPV4 { 8 } else { 7 };
            packet.traffic_class().and_then(|_| packet.network().get(at).map(|ttl| vec![*ttl]))
        },
    },
    Field {
        key: 47,
        mask: 48,
        len: 4,
        value: |packet| {
            // Bit 0: a fragment; bit 1: its first one.
            let network = network(packet, ethertype::IPV4, 6, 2)?;
            let word = u16::from_be_bytes([network[0], network[1]]);
            let (fragment, first) = (word & 0x3fff != 0, word & 0x1fff == 0);
            Some((u32::from(fragment) | u32::from(fragment && first) << 1).to_be_bytes().to_vec())
        },
    },
    // Ranges of ports: lower and upper bounds of source and destination.
    Field {
        key: 87,
        mask: 0,
        len: 2,
        value: |packet| packet.ports().map(|(from, _)| from.to_be_bytes().to_vec()),
    },
    Field {
        key: 88,
        mask: 0,
        len: 2,
        value: |packet| packet.ports().map(|(from, _)| from.to_be_bytes().to_vec()),
    },
    Field {
        key: 89,
        mask: 0,
        len: 2,
        value: |packet| packet.ports().map(|(_, to)| to.to_be_bytes().to_vec()),
    },
    Field {
        key: 90,
        mask: 0,
        len: 2,
        value: |packet| packet.ports().map(|(_, to)| to.to_be_bytes().to_vec()),
    },
    Field { key: ETH_TYPE, mask: 0, len: 2, value: |packet| Some(packet.protocol().to_be_bytes().to_vec()) },
    Field {
        key: IP_PROTO,
        mask: 0,
        len: 1,
        value: |packet| packet.ip_protocol().map(|protocol| vec![protocol]),
    },
];
/// Ranges of ports: the lower bound's attribute; the upper one follows.
const RANGES: [u16; 2] = [87, 89];
/// Attributes that are no fields: class, actions, flags, and the number of hardware copies.
const OTHERS: [u16; 6] = [0, 1, 2, 3, FLAGS, IN_HW_COUNT];

/// Condition: a field with its key and mask.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Condition {
    field: usize,
    key: Vec<u8>,
    mask: Vec<u8>,
}

/// Filter.
#[derive(Debug)]
struct Filter {
    handle: u32,
    conditions: Vec<Condition>,
    flags: u32,
    target: Target,
}

/// Filters.
#[derive(Debug, Default)]
pub(crate) struct Flower {
    filters: Vec<Filter>,
}

impl Condition {
    fn matches(&self, buffer: &Buffer) -> bool {
        let field = &FIELDS[self.field];
        let Some(value) = (field.value)(buffer) else { return false };
        match field.key {
            // Bounds of a range, in network order.
            87 | 89 => value >= self.key,
            88 | 90 => value <= self.key,
            // The EtherType of a tagged packet is that of the tag, unless the filter looks behind it.
            _ => value
                .iter()
                .zip(&self.key)
                .zip(&self.mask)
                .all(|((value, key), mask)| (value ^ key) & mask == 0),
        }
    }
}

impl Flower {
    pub(super) fn classify(&mut self, buffer: &mut Buffer, context: &mut Context<'_>) -> Option<Match> {
        for filter in &self.filters {
            if filter.conditions.iter().all(|condition| condition.matches(buffer)) {
                let matched = filter.target.execute(filter.target.class, buffer, context);
                if matched.is_some() {
                    return matched;
                }
            }
        }
        None
    }
    pub(super) fn has(&self, handle: u32) -> bool {
        self.filters.iter().any(|filter| filter.handle == handle)
    }
    pub(super) fn change(&mut self, change: Change<'_>, setup: &mut FilterSetup<'_>) -> Result<u32, TcError> {
        let options = change.options.ok_or(Errno::EINVAL)?;
        let conditions = conditions(options)?;
        let flags = flags(options.u32(FLAGS)?)?;
        let same = |filter: &&Filter| filter.conditions == conditions && filter.handle != change.handle;
        if self.filters.iter().any(|filter| same(&filter)) {
            return Err(Errno::EEXIST.into());
        }
        let target = Target::read(options, TARGET, change.create, setup)?;
        let free = || (1..).find(|handle| !self.has(*handle)).unwrap_or(1);
        let handle = if change.handle == 0 { free() } else { change.handle };
        let made = Filter { handle, conditions, flags, target };
        match self.filters.iter_mut().find(|filter| filter.handle == handle) {
            Some(filter) => {
                let former = std::mem::replace(filter, made);
                setup.actions.release(&former.target.actions, true);
            }
            None => self.filters.push(made),
        }
        Ok(handle)
    }
    pub(super) fn delete(&mut self, handle: u32, actions: &mut Actions) -> bool {
        self.filters.retain(|filter| {
            if filter.handle == handle {
                actions.release(&filter.target.actions, true);
            }
            filter.handle != handle
        });
        self.filters.is_empty()
    }
    pub(super) fn clear(&mut self, actions: &mut Actions) {
        self.filters.iter().for_each(|filter| actions.release(&filter.target.actions, true));
        self.filters.clear();
    }
    pub(super) fn handles(&self) -> Vec<u32> {
        let mut handles: Vec<u32> = self.filters.iter().map(|filter| filter.handle).collect();
        handles.sort_unstable();
        handles
    }
    pub(super) fn dump(&self, handle: u32, actions: &Actions, now: SimTime, out: &mut Out) {
        let Some(filter) = self.filters.iter().find(|filter| filter.handle == handle) else { return };
        for condition in &filter.conditions {
            let field = &FIELDS[condition.field];
            out.put(field.key, &condition.key);
            if field.mask != 0 {
                out.put(field.mask, &condition.mask);
            }
        }
        filter.target.dump(TARGET, actions, now, out);
        out.u32(FLAGS, filter.flags);
        out.u32(IN_HW_COUNT, 0);
    }
    pub(super) fn uses(&self, class: u32) -> bool {
        self.filters.iter().any(|filter| filter.target.class == class)
    }
}

/// Reads the conditions of a filter (`fl_set_key`). A key that is not supported is refused.
fn conditions(options: Attributes<'_>) -> Result<Vec<Condition>, TcError> {
    for (kind, _) in options.iter() {
        let known = FIELDS.iter().any(|field| field.key == kind || field.mask == kind);
        if !known && !OTHERS.contains(&kind) {
            return Err(error(Errno::EOPNOTSUPP, "key of the filter is not supported"));
        }
    }
    let mut all = Vec::new();
    for (number, field) in FIELDS.iter().enumerate() {
        let Some(key) = options.get(field.key) else { continue };
        let full = vec![0xff; field.len];
        let mask = options.get(field.mask).filter(|_| field.mask != 0).map_or(full, <[u8]>::to_vec);
        if key.len() < field.len || mask.len() < field.len {
            return Err(crate::error::SHORT);
        }
        // The EtherType of all protocols is no condition.
        if field.key == ETH_TYPE && key[..2] == [0, 3] {
            continue;
        }
        let key: Vec<u8> = key.iter().zip(&mask).map(|(key, mask)| key & mask).take(field.len).collect();
        all.push(Condition { field: number, key, mask: mask[..field.len].to_vec() });
    }
    for lower in RANGES {
        let bound = |kind| all.iter().find(|condition| FIELDS[condition.field].key == kind);
        match (bound(lower), bound(lower + 1)) {
            (None, None) => {}
            (Some(lower), Some(upper)) if lower.key < upper.key => {}
            _ => {
                return Err(invalid(
                    "Invalid source or destination port range (min must be strictly smaller than max)",
                ));
            }
        }
    }
    Ok(all)
}
