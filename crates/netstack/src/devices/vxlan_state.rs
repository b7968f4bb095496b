//! State of VXLAN interfaces: see [`vxlan`](super::vxlan).

use belljar_base::{Map, SimDuration, SimTime};
use belljar_linux_abi::c;
use std::net::IpAddr;

/// Entry of frames without another entry.
pub const ANY: [u8; 6] = [0; 6];

/// Destination of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Address of the VTEP or of a multicast group.
    pub ip: IpAddr,
    /// UDP port.
    pub port: u16,
    /// Network identifier.
    pub vni: u32,
    /// Number of the interface by which datagrams leave, if it is given.
    pub link: Option<usize>,
}

/// Entry of the forwarding database.
#[derive(Clone, Debug)]
pub struct VxlanEntry {
    /// Destinations, each of which gets a copy.
    pub remotes: Vec<Remote>,
    /// `NUD_*`.
    pub state: u16,
    /// `NTF_*`.
    pub flags: u8,
    /// Time of the last frame from the address.
    pub updated: SimTime,
    /// Time of the last frame to the address.
    pub used: SimTime,
    /// Serial number of the entry, for listings.
    pub serial: u64,
}

/// A VXLAN interface.
#[derive(Clone, Debug)]
pub struct Vxlan {
    /// Network identifier.
    pub vni: u32,
    /// Default destination.
    pub remote: Option<IpAddr>,
    /// Number of the interface by which datagrams leave, if it is given.
    pub link: Option<usize>,
    /// Source address, if it is given.
    pub local: Option<IpAddr>,
    /// True for datagrams of IPv6.
    pub v6: bool,
    /// TTL; 0 for that of the route.
    pub ttl: u8,
    /// True if the TTL is that of the inner packet.
    pub ttl_inherit: bool,
    /// Type of service; 1 for that of the inner packet.
    pub tos: u8,
    /// DF: 0 not set, 1 set, 2 as in the inner packet.
    pub df: u8,
    /// Flow label (IPv6).
    pub label: u32,
    /// True if source addresses are learned.
    pub learning: bool,
    /// Ageing time of learned entries in seconds.
    pub ageing: u32,
    /// Limit of entries; 0 for none.
    pub limit: u32,
    /// UDP destination port.
    pub port: u16,
    /// Range of UDP source ports; zeros for that of the host.
    pub source_ports: (u16, u16),
    /// True if IPv4 datagrams have a UDP checksum.
    pub udp_csum: bool,
    /// True if IPv6 datagrams are sent without a UDP checksum.
    pub zero_csum6_tx: bool,
    /// True if IPv6 datagrams without a UDP checksum are accepted.
    pub zero_csum6_rx: bool,
    /// Forwarding database.
    pub fdb: Map<[u8; 6], VxlanEntry>,
    /// Serial number of the next entry.
    pub serial: u64,
}

impl Vxlan {
    /// A new entry.
    pub fn new_entry(&mut self, remote: Remote, state: u16, flags: u8, now: SimTime) -> VxlanEntry {
        self.serial += 1;
        VxlanEntry { remotes: vec![remote], state, flags, updated: now, used: now, serial: self.serial }
    }
    /// Destination at an address.
    pub fn remote_at(&self, ip: IpAddr) -> Remote {
        Remote { ip, port: self.port, vni: self.vni, link: None }
    }
    /// Time at which an entry ages, if it does.
    fn expiry(&self, entry: &VxlanEntry) -> Option<SimTime> {
        let ages =
            entry.state & (c::NUD_PERMANENT | c::NUD_NOARP) == 0 && entry.flags & c::NTF_EXT_LEARNED == 0;
        ages.then(|| {
            entry.updated.saturating_add(SimDuration::from_secs(1).saturating_mul(self.ageing.into()))
        })
    }
    /// Time at which the first entry ages.
    pub fn next_timeout(&self) -> Option<SimTime> {
        self.fdb.values().filter_map(|entry| self.expiry(entry)).min()
    }
    /// Removes aged entries, or with `all` those that are not permanent. Returns them.
    pub fn age(&mut self, now: SimTime, all: bool) -> Vec<([u8; 6], VxlanEntry)> {
        let gone = |entry: &VxlanEntry| match all {
            true => entry.state & (c::NUD_PERMANENT | c::NUD_NOARP) == 0,
            false => self.expiry(entry).is_some_and(|at| at <= now),
        };
        let keys: Vec<[u8; 6]> =
            self.fdb.iter().filter(|(_, entry)| gone(entry)).map(|(key, _)| *key).collect();
        keys.into_iter().filter_map(|key| self.fdb.remove(&key).map(|entry| (key, entry))).collect()
    }
}
