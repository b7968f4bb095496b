//! Generic netlink family `ethtool`: Linux's `Documentation/networking/ethtool-netlink.rst`. The answers are those
//! of `SIOCETHTOOL`, [`ethtool`].

use super::message::{attribute, attributes};
use super::refusal::{Refusal, refusal};
use super::tree::{BitSet, GenericRequest, nested, parse_bits, put, put_nested, text, word};
use crate::ethtool::{self, FEATURE_COUNT, StampingInfo};
use belljar_linux_abi::Errno;
use belljar_netstack::interface::Interface;
use belljar_netstack::{Stack, interface_index, link};

/// `ETHTOOL_MSG_*` from programs.
mod command {
    pub const STRSET_GET: u8 = 1;
    pub const LINKINFO_GET: u8 = 2;
    pub const LINKMODES_GET: u8 = 4;
    pub const LINKSTATE_GET: u8 = 6;
    pub const DEBUG_GET: u8 = 7;
    pub const WOL_GET: u8 = 9;
    pub const FEATURES_GET: u8 = 11;
    pub const FEATURES_SET: u8 = 12;
    pub const PRIVFLAGS_GET: u8 = 13;
    pub const RINGS_GET: u8 = 15;
    pub const CHANNELS_GET: u8 = 17;
    pub const COALESCE_GET: u8 = 19;
    pub const PAUSE_GET: u8 = 21;
    pub const EEE_GET: u8 = 23;
    pub const TSINFO_GET: u8 = 25;
    pub const FEC_GET: u8 = 29;
    pub const PHC_VCLOCKS_GET: u8 = 33;
}
use command::*;

/// `GENL_UNS_ADMIN_PERM`: the command needs `CAP_NET_ADMIN`.
pub(super) const FOR_ADMINISTRATORS: u32 = 0x10;
/// Flags of a query, which can be a dump, and of a change.
const QUERY: u32 = 0xe;
const CHANGE: u32 = 0xa | FOR_ADMINISTRATORS;

/// Commands with their flags.
pub(super) const OPERATIONS: &[(u32, u32)] = &[
    (STRSET_GET as u32, QUERY),
    (LINKINFO_GET as u32, QUERY),
    (LINKMODES_GET as u32, QUERY),
    (LINKSTATE_GET as u32, QUERY),
    (DEBUG_GET as u32, QUERY),
    (WOL_GET as u32, QUERY | FOR_ADMINISTRATORS),
    (FEATURES_GET as u32, QUERY),
    (FEATURES_SET as u32, CHANGE),
    (PRIVFLAGS_GET as u32, QUERY),
    (RINGS_GET as u32, QUERY),
    (CHANNELS_GET as u32, QUERY),
    (COALESCE_GET as u32, QUERY),
    (PAUSE_GET as u32, QUERY),
    (EEE_GET as u32, QUERY),
    (TSINFO_GET as u32, QUERY),
    (FEC_GET as u32, QUERY),
    (PHC_VCLOCKS_GET as u32, QUERY),
];

/// `ETHTOOL_A_HEADER_*`, and the attribute of all messages that contains them.
const HEADER: u16 = 1;
const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const FLAGS: u16 = 3;
/// `ETHTOOL_FLAG_*`.
const COMPACT: u32 = 1;
const OMIT_REPLY: u32 = 2;

/// String sets, `ETH_SS_*`, and their strings where they are the same for all interfaces.
const SET_STATS: u32 = 1;
const SET_FEATURES: u32 = 4;
const SET_STAMPING: u32 = 12;
const SET_TX_TYPES: u32 = 13;
const SET_RX_FILTERS: u32 = 14;
const STAMPING: &str = "hardware-transmit software-transmit hardware-receive software-receive \
    software-system-clock hardware-legacy-clock hardware-raw-clock option-id sched-transmit ack-transmit \
    option-cmsg option-tsonly option-stats option-pktinfo option-tx-swhw bind-phc option-id-tcp option-rx-filter \
    completion-transmit";
const TX_TYPES: &str = "off on onestep-sync onestep-p2p";
const RX_FILTERS: &str = "none all some ptpv1-l4-event ptpv1-l4-sync ptpv1-l4-delay-req ptpv2-l4-event \
    ptpv2-l4-sync ptpv2-l4-delay-req ptpv2-l2-event ptpv2-l2-sync ptpv2-l2-delay-req ptpv2-event ptpv2-sync \
    ptpv2-delay-req ntp-all";
/// `__ETHTOOL_LINK_MODE_MASK_NBITS` of Linux 6.18; no mode is reported.
const LINK_MODES: u32 = 121;

/// Answers a request; returns the command and the attributes of each message.
pub(super) fn answer(net: &Stack, asked: &GenericRequest<'_>) -> Result<Vec<(u8, Vec<u8>)>, Refusal> {
    let header = attribute(asked.attributes, HEADER);
    let flags = header.and_then(|header| attribute(header, FLAGS)).and_then(|flags| flags.try_into().ok());
    let flags = flags.map_or(0, u32::from_ne_bytes);
    if asked.command == STRSET_GET {
        let named = header.filter(|header| {
            asked.is_dump || attribute(header, DEV_INDEX).or(attribute(header, DEV_NAME)).is_some()
        });
        let interface = match named.filter(|_| !asked.is_dump) {
            Some(header) => Some(interface_of(net, header)?),
            None => None,
        };
        return Ok(vec![(reply_of(STRSET_GET), string_sets(net, interface, asked.attributes)?)]);
    }
    if asked.is_dump {
        let mut all = Vec::new();
        for number in (0..net.interfaces.len()).filter(|number| net.interfaces[*number].exists()) {
            // Interfaces that do not support the command are left out.
            if let Ok(body) = of_interface(net, number, asked, flags) {
                all.push((reply_of(asked.command), body));
            }
        }
        return Ok(all);
    }
    let header = header.ok_or(refusal(Errno::EINVAL, "request header missing"))?;
    let number = interface_of(net, header)?;
    let body = of_interface(net, number, asked, flags)?;
    let is_silent = asked.command == FEATURES_SET && flags & OMIT_REPLY != 0;
    Ok(if is_silent { Vec::new() } else { vec![(reply_of(asked.command), body)] })
}

/// `ETHTOOL_MSG_*_REPLY`.
fn reply_of(command: u8) -> u8 {
    match command {
        // Notifications of their own precede the replies to these.
        RINGS_GET..=TSINFO_GET => command + 1,
        FEC_GET | PHC_VCLOCKS_GET => command + 1,
        command => command,
    }
}

/// Interface of a header.
fn interface_of(net: &Stack, header: &[u8]) -> Result<usize, Refusal> {
    let index = attribute(header, DEV_INDEX).and_then(|index| index.try_into().ok()).map(u32::from_ne_bytes);
    let name = attribute(header, DEV_NAME).map(|name| name.strip_suffix(&[0]).unwrap_or(name));
    match (index, name) {
        (None, None) => Err(refusal(Errno::EINVAL, "neither ifindex nor name specified")),
        (Some(index), name) => {
            let number = net.interfaces.by_index(index);
            let number = number.ok_or(refusal(Errno::ENODEV, "no device matches ifindex"))?;
            match name {
                Some(name) if net.interfaces[number].name.as_bytes() != name => {
                    Err(refusal(Errno::ENODEV, "ifindex and name do not match"))
                }
                _ => Ok(number),
            }
        }
        (None, Some(name)) => {
            net.interfaces.by_name(name).ok_or(refusal(Errno::ENODEV, "no device matches name"))
        }
    }
}

/// Header and answer for an interface.
fn of_interface(
    net: &Stack,
    number: usize,
    asked: &GenericRequest<'_>,
    flags: u32,
) -> Result<Vec<u8>, Refusal> {
    let interface = &net.interfaces[number];
    let mut all = Vec::new();
    put_header(&mut all, net, number);
    let compact = flags & COMPACT != 0;
    match asked.command {
        LINKINFO_GET => {
            link::speed(&net.eth0, &net.links, interface).ok_or(Errno::EOPNOTSUPP)?;
            // Port: twisted pair; address, crossover and its control: unknown; transceiver: internal.
            (2..=6).for_each(|kind| put(&mut all, kind, &[0]));
        }
        LINKMODES_GET => {
            let speed = link::speed(&net.eth0, &net.links, interface).ok_or(Errno::EOPNOTSUPP)?;
            // Negotiation: off.
            put(&mut all, 2, &[0]);
            let none = BitSet { value: 0, mask: Some(0), size: LINK_MODES, names: &[] };
            put_nested(&mut all, 3, &wide(none, compact));
            put(&mut all, 5, &word(speed));
            // Duplex: full. Rate matching: none.
            put(&mut all, 6, &[1]);
            put(&mut all, 10, &[0]);
        }
        LINKSTATE_GET => put(&mut all, 2, &[u8::from(interface.is_running())]),
        FEATURES_GET => {
            let names: Vec<&str> = ethtool::features().collect();
            let none = BitSet { value: 0, mask: None, size: FEATURE_COUNT, names: &names };
            // Changeable, wanted, active, and never changed: none.
            put_nested(&mut all, 2, &BitSet { mask: Some(u64::MAX), ..none }.emit(compact));
            (3..=5).for_each(|kind| put_nested(&mut all, kind, &none.emit(compact)));
        }
        FEATURES_SET => {
            let names: Vec<&str> = ethtool::features().collect();
            let wanted = attribute(asked.attributes, 3).ok_or(Errno::EINVAL)?;
            let (value, mask) = parse_bits(wanted, &names).ok_or(Errno::EINVAL)?;
            // Nothing changes: the features that were to be on stay off.
            let missed = value & mask;
            let set = BitSet { value: missed, mask: Some(missed), size: FEATURE_COUNT, names: &names };
            put_nested(&mut all, 3, &set.emit(compact));
            put_nested(&mut all, 4, &BitSet { value: 0, mask: Some(0), ..set }.emit(compact));
        }
        RINGS_GET => {
            let adapter = link::adapter_of(&net.links, interface).ok_or(Errno::EOPNOTSUPP)?;
            let (len, most) = adapter.ring;
            for (kind, number) in [(2, most), (6, len), (5, most), (9, len)] {
                put(&mut all, kind, &word(number));
            }
        }
        CHANNELS_GET => {
            let channels = ethtool::channels(interface).ok_or(Errno::EOPNOTSUPP)?;
            // Combined channels: the maximum, and their number.
            put(&mut all, 5, &word(channels));
            put(&mut all, 9, &word(channels));
        }
        COALESCE_GET => {
            let adapter = link::adapter_of(&net.links, interface).ok_or(Errno::EOPNOTSUPP)?;
            let interval = adapter.interrupt_interval.ok_or(Errno::EOPNOTSUPP)?;
            let micros = (interval.as_nanos() / 1_000) as u32;
            put(&mut all, 2, &word(micros));
            put(&mut all, 6, &word(micros));
        }
        PAUSE_GET => {
            ethtool::channels(interface).ok_or(Errno::EOPNOTSUPP)?;
            // Negotiation, reception, transmission: off.
            (2..=4).for_each(|kind| put(&mut all, kind, &[0]));
        }
        TSINFO_GET => put_stamping(&mut all, ethtool::stamping_info(net, interface), compact),
        PHC_VCLOCKS_GET => {
            ethtool::stamping_info(net, interface).clock.ok_or(Errno::EOPNOTSUPP)?;
            put(&mut all, 2, &word(0));
        }
        _ => return Err(Errno::EOPNOTSUPP.into()),
    }
    Ok(all)
}

fn put_header(all: &mut Vec<u8>, net: &Stack, number: usize) {
    let name = text(&net.interfaces[number].name);
    put_nested(all, HEADER, &nested(&[(DEV_INDEX, word(interface_index(number))), (DEV_NAME, name)]));
}

/// A set of more than 64 bits, none of which is set.
fn wide(set: BitSet<'_>, compact: bool) -> Vec<u8> {
    if !compact {
        return set.emit(false);
    }
    let zeros = vec![0; 4 * set.size.div_ceil(32) as usize];
    nested(&[(2, word(set.size)), (4, zeros.clone()), (5, zeros)])
}

/// `ETHTOOL_A_TSINFO_*`.
fn put_stamping(all: &mut Vec<u8>, info: StampingInfo, compact: bool) {
    for (kind, bits, names) in
        [(2, info.flags, STAMPING), (3, info.tx_types, TX_TYPES), (4, info.rx_filters, RX_FILTERS)]
    {
        let names: Vec<&str> = names.split(' ').collect();
        if bits != 0 {
            let set = BitSet { value: bits.into(), mask: None, size: names.len() as u32, names: &names };
            put_nested(all, kind, &set.emit(compact));
        }
    }
    if let Some(clock) = info.clock {
        put(all, 5, &word(clock));
    }
}

/// `ETHTOOL_A_STRSET_*`: the string sets that are asked for, or all of an interface.
fn string_sets(net: &Stack, interface: Option<usize>, asked: &[u8]) -> Result<Vec<u8>, Refusal> {
    const STRING_SETS: u16 = 2;
    const COUNTS_ONLY: u16 = 3;
    let mut ids = Vec::new();
    for (_, set) in attributes(attribute(asked, STRING_SETS).unwrap_or_default()) {
        let id = attribute(set, 1).and_then(|id| id.try_into().ok()).ok_or(Errno::EINVAL)?;
        ids.push(u32::from_ne_bytes(id));
    }
    if ids.is_empty() {
        ids = if interface.is_some() { vec![SET_STATS] } else { vec![SET_FEATURES, SET_STAMPING] };
    }
    let mut all = Vec::new();
    if let Some(number) = interface {
        put_header(&mut all, net, number);
    }
    let mut sets = Vec::new();
    for id in ids {
        let strings = strings(interface.map(|number| (net, &net.interfaces[number])), id)?;
        let mut set = nested(&[(1, word(id)), (2, word(strings.len() as u32))]);
        if attribute(asked, COUNTS_ONLY).is_none() {
            let mut list = Vec::new();
            for (string, n) in strings.iter().zip(0..) {
                put_nested(&mut list, 1, &nested(&[(1, word(n)), (2, text(string))]));
            }
            put_nested(&mut set, 3, &list);
        }
        put_nested(&mut sets, 1, &set);
    }
    put_nested(&mut all, STRING_SETS, &sets);
    Ok(all)
}

fn strings<'a>(of: Option<(&'a Stack, &'a Interface)>, set: u32) -> Result<Vec<&'a str>, Refusal> {
    Ok(match set {
        SET_FEATURES => ethtool::features().map(|name| if name == "-" { "" } else { name }).collect(),
        SET_STAMPING => STAMPING.split(' ').collect(),
        SET_TX_TYPES => TX_TYPES.split(' ').collect(),
        SET_RX_FILTERS => RX_FILTERS.split(' ').collect(),
        SET_STATS => {
            let (net, interface) =
                of.ok_or(refusal(Errno::EINVAL, "device must be specified for this set"))?;
            let adapter = link::adapter_of(&net.links, interface);
            adapter
                .map_or_else(Vec::new, |adapter| adapter.statistics.iter().map(|(name, _)| *name).collect())
        }
        _ => return Err(Errno::EOPNOTSUPP.into()),
    })
}
