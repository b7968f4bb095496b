//! `SIOCETHTOOL`: driver, link, features and statistics of an interface. The caller copies the structures in
//! and out.
//!
//! Hosts have no offloads: checksums are computed and verified, and segments have the size that they have on
//! the link, which captures show. So all features are off, and none can be switched on.

use belljar_linux_abi::Errno;
use belljar_netstack::Stack;
use belljar_netstack::adapter::Adapter;
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::ptp::{SUPPORTED_RX_FILTERS, SUPPORTED_TX_TYPES};
use belljar_netstack::timestamps::flag;
use belljar_netstack::{link, stamping};

/// Requests, `ETHTOOL_*`, the first field of their structures.
mod request {
    pub const GSET: u32 = 0x01;
    pub const GDRVINFO: u32 = 0x03;
    pub const GLINK: u32 = 0x0a;
    pub const GCOALESCE: u32 = 0x0e;
    pub const GRINGPARAM: u32 = 0x10;
    pub const GRXCSUM: u32 = 0x14;
    pub const GTXCSUM: u32 = 0x16;
    pub const GPAUSEPARAM: u32 = 0x12;
    pub const GCHANNELS: u32 = 0x3c;
    pub const GSG: u32 = 0x18;
    pub const GTSO: u32 = 0x1e;
    pub const GGSO: u32 = 0x23;
    pub const GFLAGS: u32 = 0x25;
    pub const GGRO: u32 = 0x2b;
    pub const GSTRINGS: u32 = 0x1b;
    pub const GSTATS: u32 = 0x1d;
    pub const GSSET_INFO: u32 = 0x37;
    pub const GFEATURES: u32 = 0x3a;
    pub const SFEATURES: u32 = 0x3b;
    pub const GET_TS_INFO: u32 = 0x41;
    pub const GLINKSETTINGS: u32 = 0x4c;
}

/// `ETH_SS_STATS`: the string set with the names of the statistics.
const SET_STATS: u32 = 1;
/// `ETH_SS_FEATURES`: the string set with the names of the features.
const SET_FEATURES: u32 = 4;
/// Names of features by their bits, `netdev_features_strings`.
const FEATURES: &str = "tx-scatter-gather tx-checksum-ipv4 - tx-checksum-ip-generic tx-checksum-ipv6 highdma \
    tx-scatter-gather-fraglist tx-vlan-hw-insert rx-vlan-hw-parse rx-vlan-filter vlan-challenged \
    tx-generic-segmentation - - rx-gro rx-lro tx-tcp-segmentation tx-gso-robust \
    tx-tcp-ecn-segmentation tx-tcp-mangleid-segmentation tx-tcp6-segmentation tx-fcoe-segmentation \
    tx-gre-segmentation tx-gre-csum-segmentation tx-ipxip4-segmentation tx-ipxip6-segmentation \
    tx-udp_tnl-segmentation tx-udp_tnl-csum-segmentation tx-gso-partial \
    tx-tunnel-remcsum-segmentation tx-sctp-segmentation tx-esp-segmentation - tx-udp-segmentation \
    tx-gso-list tx-tcp-accecn-segmentation tx-checksum-fcoe-crc tx-checksum-sctp rx-ntuple-filter \
    rx-hashing rx-checksum tx-nocache-copy loopback rx-fcs rx-all tx-vlan-stag-hw-insert \
    rx-vlan-stag-hw-parse rx-vlan-stag-filter l2-fwd-offload hw-tc-offload esp-hw-offload \
    esp-tx-csum-hw-offload rx-udp_tunnel-port-offload tls-hw-tx-offload tls-hw-rx-offload rx-gro-hw \
    tls-hw-record rx-gro-list macsec-hw-offload rx-udp-gro-forwarding hsr-tag-ins-offload \
    hsr-tag-rm-offload hsr-fwd-offload hsr-dup-offload";
/// Number of features.
pub(crate) const FEATURE_COUNT: u32 = 64;
/// `ETHTOOL_F_UNSUPPORTED`: result of a request for features that the interface does not have.
const UNSUPPORTED: u64 = 1;
/// Number of words of a set of link modes.
const LINK_MODES: usize = 4;
/// `ETH_GSTRING_LEN`.
const STRING: usize = 32;
/// Number of fields of `struct ethtool_coalesce`.
const COALESCE: usize = 23;

/// Names of the features, `-` for a bit without one.
pub(crate) fn features() -> impl Iterator<Item = &'static str> {
    FEATURES.split(' ')
}

/// Number of channels of an interface, which receive and send: one for those of the experiment.
pub(crate) fn channels(interface: &Interface) -> Option<u32> {
    matches!(interface.attachment, Attachment::Graph | Attachment::Link(_)).then_some(1)
}

/// Number of bytes of a request's structure to read before [`answer`].
pub fn head_len(number: u32) -> usize {
    match number {
        request::GSSET_INFO => 16,
        request::GLINKSETTINGS => 20,
        request::SFEATURES => 8 + 8 * FEATURE_COUNT as usize / 32,
        request::GSTRINGS => 12,
        _ => 4,
    }
}

/// True for requests that change something.
pub fn is_change(number: u32) -> bool {
    number == request::SFEATURES
}

/// The `at`th byte and the three behind it, as a word.
fn word_at(head: &[u8], at: usize) -> u32 {
    head.get(at..at + 4).map_or(0, |bytes| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Answers a request whose structure begins with `head`; returns the bytes to write over it, and the result of
/// the call.
///
/// # Errors
/// `EOPNOTSUPP` for a request that the interface's driver does not support.
pub fn answer(net: &Stack, interface: &Interface, head: &[u8]) -> Result<(Vec<u8>, u64), Errno> {
    let number = word_at(head, 0);
    let speed = link::speed(&net.eth0, &net.links, interface);
    let answer = match number {
        request::GLINK => bytes_of(&[number, u32::from(interface.has_lower_up())]),
        request::GRXCSUM
        | request::GTXCSUM
        | request::GSG
        | request::GTSO
        | request::GGSO
        | request::GFLAGS
        | request::GGRO => bytes_of(&[number, 0]),
        // Available, requested, active and never changed: none.
        request::GFEATURES => bytes_of(&[&[number, FEATURE_COUNT / 32][..], &[0; 8]].concat()),
        request::SFEATURES => return set_features(head),
        request::GSTRINGS if word_at(head, 4) == SET_FEATURES => {
            let mut all = bytes_of(&[number, SET_FEATURES, FEATURE_COUNT]);
            let names = features().map(|name| if name == "-" { "" } else { name });
            names.for_each(|name| put_text(&mut all, name, STRING));
            all
        }
        request::GSSET_INFO => string_sets(link::adapter_of(&net.links, interface), head),
        request::GET_TS_INFO => {
            let StampingInfo { flags, clock, tx_types, rx_filters } = stamping_info(net, interface);
            bytes_of(&[number, flags, clock.unwrap_or(u32::MAX), tx_types, 0, 0, 0, rx_filters, 0, 0, 0])
        }
        request::GPAUSEPARAM if channels(interface).is_some() => bytes_of(&[number, 0, 0, 0]),
        request::GCHANNELS if channels(interface).is_some() => {
            let count = channels(interface).unwrap_or_default();
            bytes_of(&[number, 0, 0, 0, count, 0, 0, 0, count])
        }
        request::GLINKSETTINGS => link_settings(head, speed.ok_or(Errno::EOPNOTSUPP)?),
        request::GSET => old_settings(speed.ok_or(Errno::EOPNOTSUPP)?),
        request::GDRVINFO => driver_info(net, interface).ok_or(Errno::EOPNOTSUPP)?,
        _ => of_adapter(link::adapter_of(&net.links, interface).ok_or(Errno::EOPNOTSUPP)?, head)?,
    };
    Ok((answer, 0))
}

/// Timestamps that an interface can take, `struct ethtool_ts_info`.
#[derive(Clone, Copy, Debug)]
pub struct StampingInfo {
    /// `SOF_TIMESTAMPING_*`.
    pub flags: u32,
    /// Number of the PTP hardware clock.
    pub clock: Option<u32>,
    /// Bits of the modes of transmission, `HWTSTAMP_TX_*`.
    pub tx_types: u32,
    /// Bits of the filters, `HWTSTAMP_FILTER_*`.
    pub rx_filters: u32,
}

/// Timestamps that an interface can take: by software, and by the hardware clock if it has one.
pub fn stamping_info(net: &Stack, interface: &Interface) -> StampingInfo {
    let software = flag::TX_SOFTWARE | flag::RX_SOFTWARE | flag::SOFTWARE;
    match stamping::port_of(net, interface) {
        None => StampingInfo { flags: software, clock: None, tx_types: 0, rx_filters: 0 },
        Some((number, _)) => StampingInfo {
            flags: software | flag::TX_HARDWARE | flag::RX_HARDWARE | flag::RAW_HARDWARE,
            clock: Some(number as u32),
            tx_types: SUPPORTED_TX_TYPES,
            rx_filters: SUPPORTED_RX_FILTERS,
        },
    }
}

/// `ETHTOOL_SFEATURES`: a request to switch features off changes nothing, and none can be switched on.
fn set_features(head: &[u8]) -> Result<(Vec<u8>, u64), Errno> {
    if word_at(head, 4) != FEATURE_COUNT / 32 {
        return Err(Errno::EINVAL);
    }
    let wanted = (0..FEATURE_COUNT as usize / 32).any(|n| word_at(head, 8 + 8 * n) != 0);
    Ok((Vec::new(), if wanted { UNSUPPORTED } else { 0 }))
}

/// `ETHTOOL_GSSET_INFO`: the lengths of the string sets that the interface has.
fn string_sets(adapter: Option<&Adapter>, head: &[u8]) -> Vec<u8> {
    let count = adapter.map(|adapter| adapter.statistics.len() as u32);
    let sets = [(SET_STATS, count), (SET_FEATURES, Some(FEATURE_COUNT))];
    let asked = sets.map(|(set, len)| (1 << set, len.filter(|_| word_at(head, 8) & (1 << set) != 0)));
    let has = asked.iter().filter(|(_, len)| len.is_some()).fold(0, |has, (bit, _)| has | bit);
    let lengths = asked.iter().filter_map(|(_, len)| *len);
    bytes_of(&[request::GSSET_INFO, 0, has, 0].into_iter().chain(lengths).collect::<Vec<u32>>())
}

/// `struct ethtool_link_settings`: full duplex over twisted pair, without negotiation and link modes. A request
/// for another number of words of link modes is answered with the right one, negated.
fn link_settings(head: &[u8], speed: u32) -> Vec<u8> {
    let words = head.get(15).copied().unwrap_or(0) as i8;
    if words != LINK_MODES as i8 {
        let mut all = vec![0; 48];
        all[..4].copy_from_slice(&request::GLINKSETTINGS.to_ne_bytes());
        all[15] = (-(LINK_MODES as i8)) as u8;
        return all;
    }
    let mut all = bytes_of(&[request::GLINKSETTINGS, speed]);
    // Duplex: full.
    all.extend([1, 0, 0, 0, 0, 0, 0, LINK_MODES as u8]);
    all.resize(48 + 3 * 4 * LINK_MODES, 0);
    all
}

/// `struct ethtool_cmd` of the request that `ETHTOOL_GLINKSETTINGS` has superseded.
fn old_settings(speed: u32) -> Vec<u8> {
    let mut all = bytes_of(&[request::GSET, 0, 0]);
    let [low, high] = [speed as u16, (speed >> 16) as u16].map(u16::to_ne_bytes);
    all.extend([low[0], low[1], 1, 0, 0, 0, 0, 0]);
    all.extend([0; 8]);
    all.extend([high[0], high[1]]);
    all.resize(44, 0);
    all
}

/// Answers a request about the driver of an adapter.
fn of_adapter(adapter: &Adapter, head: &[u8]) -> Result<Vec<u8>, Errno> {
    let (word, words) = (|at| word_at(head, at), bytes_of);
    let number = word(0);
    let count = adapter.statistics.len() as u32;
    Ok(match number {
        request::GCOALESCE => {
            let interval = adapter.interrupt_interval.ok_or(Errno::EOPNOTSUPP)?;
            let mut all = [0; COALESCE];
            // Receive and transmit share the interrupt.
            let micros = (interval.as_nanos() / 1_000) as u32;
            (all[0], all[1], all[5]) = (number, micros, micros);
            words(&all)
        }
        request::GRINGPARAM => {
            let (len, most) = adapter.ring;
            words(&[number, most, 0, 0, most, len, 0, 0, len])
        }
        request::GSTRINGS if word(4) == SET_STATS => {
            let mut all = words(&[number, SET_STATS, count]);
            adapter.statistics.iter().for_each(|(name, _)| put_text(&mut all, name, STRING));
            all
        }
        request::GSTATS => {
            let mut all = words(&[number, count]);
            all.extend(adapter.statistics.iter().flat_map(|(_, count)| count.to_ne_bytes()));
            all
        }
        _ => return Err(Errno::EOPNOTSUPP),
    })
}

/// `struct ethtool_drvinfo`; `None` for `lo`, which has no driver.
fn driver_info(net: &Stack, interface: &Interface) -> Option<Vec<u8>> {
    let adapter = link::adapter_of(&net.links, interface);
    let driver = match interface.attachment {
        Attachment::Loopback | Attachment::Gone => return None,
        Attachment::Graph | Attachment::Link(_) => adapter.map_or("belljar", |adapter| adapter.driver),
        Attachment::Veth { .. } => "veth",
        Attachment::Tun(_) | Attachment::Tap(_) | Attachment::Unplugged { .. } => "tun",
        Attachment::Dummy => "dummy",
        Attachment::Ifb => "ifb",
        Attachment::Made(kind) => kind.name(),
        Attachment::Vlan { .. } => "802.1Q VLAN Support",
    };
    let (bus, count) =
        adapter.map_or(("", 0), |adapter| (adapter.bus.as_str(), adapter.statistics.len() as u32));
    let mut all = request::GDRVINFO.to_ne_bytes().to_vec();
    // Driver, driver version, firmware version, bus address, expansion ROM version.
    for text in [driver, env!("CARGO_PKG_VERSION"), "", bus, ""] {
        put_text(&mut all, text, 32);
    }
    // Reserved bytes and private flags; number of statistics; lengths of self-test, EEPROM and registers.
    all.extend([0; 12 + 4]);
    all.extend(count.to_ne_bytes());
    all.extend([0; 12]);
    Some(all)
}

fn put_text(all: &mut Vec<u8>, text: &str, room: usize) {
    let end = all.len() + room;
    all.extend(text.bytes().take(room - 1));
    all.resize(end, 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_a_name() {
        let names: Vec<&str> = FEATURES.split(' ').collect();
        assert_eq!(names.len(), FEATURE_COUNT as usize);
        assert!(names.iter().all(|name| *name == "-" || name.len() > 5 && !name.ends_with('-')), "{names:?}");
        assert_eq!((names[16], names[40]), ("tx-tcp-segmentation", "rx-checksum"));
    }
}
