//! State of a bridge: its settings, ports and forwarding database (FDB).
//!
//! The bridge is a value without a clock and without packets: [`stp`](super::stp) elects the root and the states of the
//! ports, [`forward`](super::forward) carries frames. Times that an administrator sets are in hundredths of a second
//! (`USER_HZ`), as rtnetlink has them.

use super::vlans::VlanSet;
use belljar_base::{Map, SimDuration, SimTime};

/// `BR_PORT_BITS`: a port number is at most 1,023.
pub const MAX_PORTS: u16 = 1 << 10;
/// Group address of bridges (IEEE 802.1D).
pub const GROUP_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 0];

/// Duration of hundredths of a second.
pub fn centiseconds(count: u64) -> SimDuration {
    SimDuration::from_millis(10).saturating_mul(count)
}

/// State of a port, `BR_STATE_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PortState {
    /// The port is down.
    Disabled = 0,
    /// STP listens for better bridges.
    Listening = 1,
    /// The port learns addresses and does not forward.
    Learning = 2,
    /// The port forwards.
    Forwarding = 3,
    /// STP has closed a loop.
    Blocking = 4,
}

impl PortState {
    /// The state of a number.
    pub fn of(number: u8) -> Option<PortState> {
        use PortState::*;
        [Disabled, Listening, Learning, Forwarding, Blocking].get(usize::from(number)).copied()
    }
}

/// Identifier of a bridge: its priority, followed by its hardware address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BridgeId(pub [u8; 8]);

impl BridgeId {
    /// The identifier of a priority and an address.
    pub fn new(priority: u16, mac: [u8; 6]) -> BridgeId {
        let mut all = [0; 8];
        all[..2].copy_from_slice(&priority.to_be_bytes());
        all[2..].copy_from_slice(&mac);
        BridgeId(all)
    }
    /// The priority.
    pub fn priority(self) -> u16 {
        u16::from_be_bytes([self.0[0], self.0[1]])
    }
    /// The hardware address.
    pub fn mac(self) -> [u8; 6] {
        *self.0.last_chunk().expect("eight bytes")
    }
}

/// Flags of a port that an administrator sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PortFlags {
    pub hairpin: bool,
    pub bpdu_guard: bool,
    pub root_block: bool,
    pub learning: bool,
    pub unicast_flood: bool,
    pub multicast_flood: bool,
    pub broadcast_flood: bool,
    pub isolated: bool,
    pub locked: bool,
    pub neigh_suppress: bool,
}

impl Default for PortFlags {
    fn default() -> PortFlags {
        PortFlags {
            hairpin: false,
            bpdu_guard: false,
            root_block: false,
            learning: true,
            unicast_flood: true,
            multicast_flood: true,
            broadcast_flood: true,
            isolated: false,
            locked: false,
            neigh_suppress: false,
        }
    }
}

/// A port of a bridge.
#[derive(Clone, Debug)]
pub struct Port {
    /// Number of the interface.
    pub interface: usize,
    /// Number of the port, from 1.
    pub number: u16,
    /// Priority, 0 to 63.
    pub priority: u8,
    /// Path cost.
    pub cost: u32,
    /// State.
    pub state: PortState,
    /// Flags.
    pub flags: PortFlags,
    /// Mask of link-local groups that are forwarded.
    pub group_fwd_mask: u16,
    /// VLANs of the port.
    pub vlans: VlanSet,
    /// Root that the designated bridge of the segment has reported.
    pub designated_root: BridgeId,
    /// Cost that the designated bridge has reported.
    pub designated_cost: u32,
    /// Designated bridge of the segment.
    pub designated_bridge: BridgeId,
    /// Port of the designated bridge.
    pub designated_port: u16,
    /// Time at which the information of the designated bridge was of age 0.
    pub designated_age: SimTime,
    /// True if the next BPDU acknowledges a topology change.
    pub topology_change_ack: bool,
    /// True if a BPDU waits for the hold timer.
    pub config_pending: bool,
    /// Expiry of the message age timer.
    pub message_age_timer: Option<SimTime>,
    /// Expiry of the forward delay timer.
    pub forward_delay_timer: Option<SimTime>,
    /// Expiry of the hold timer.
    pub hold_timer: Option<SimTime>,
}

impl Port {
    /// Identifier of the port: priority and number.
    pub fn id(&self) -> u16 {
        self.number & 0x3ff | u16::from(self.priority & 0x3f) << 10
    }
}

/// Entry of the forwarding database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FdbEntry {
    /// Number of the port's interface; `None` for the bridge itself.
    pub port: Option<usize>,
    /// `BR_FDB_LOCAL`: the address is this host's.
    pub local: bool,
    /// `BR_FDB_STATIC`: the entry does not age.
    pub is_static: bool,
    /// `BR_FDB_STICKY`: the entry does not move to another port.
    pub sticky: bool,
    /// `BR_FDB_ADDED_BY_EXT_LEARN`: a control plane has added the entry.
    pub external: bool,
    /// `BR_FDB_ADDED_BY_USER`.
    pub by_user: bool,
    /// Time at which a frame from the address was last received.
    pub updated: SimTime,
    /// Time at which a frame was last sent to the address.
    pub used: SimTime,
    /// Serial number of the entry, for listings.
    pub serial: u64,
}

/// Consequences of an operation that the owner of the bridge carries out, in order.
#[derive(Debug)]
pub enum BridgeOutput {
    /// A BPDU leaves by the port of this interface: the bytes after the LLC header.
    Bpdu(usize, Vec<u8>),
    /// The port of this interface has changed.
    Port(usize),
    /// An entry was added or changed (true) or deleted.
    Fdb(([u8; 6], u16), FdbEntry, bool),
}

/// A bridge.
#[derive(Debug)]
pub struct Bridge {
    /// Number of the interface.
    pub interface: usize,
    /// Identifier.
    pub id: BridgeId,
    /// True if an administrator has set the hardware address.
    pub mac_is_set: bool,
    /// True if an administrator has set the MTU.
    pub mtu_is_set: bool,
    /// True while the interface is up.
    pub up: bool,
    /// The ports, the newest first, as Linux lists them.
    pub ports: Vec<Port>,
    /// The forwarding database, by address and VLAN.
    pub fdb: Map<([u8; 6], u16), FdbEntry>,
    /// Limit of learned entries; 0 for none.
    pub fdb_max_learned: u32,
    /// Time of the next search for aged entries.
    pub gc_timer: Option<SimTime>,
    serial: u64,
    /// VLANs of the bridge itself.
    pub vlans: VlanSet,
    /// True if VLANs are filtered.
    pub vlan_filtering: bool,
    /// EtherType of tags.
    pub vlan_protocol: u16,
    /// VLAN that new ports are untagged members of; 0 for none.
    pub default_pvid: u16,
    /// Mask of link-local groups that are forwarded.
    pub group_fwd_mask: u16,
    /// Group address of BPDUs.
    pub group_address: [u8; 6],
    /// True if link-local frames are not learned from.
    pub no_linklocal_learn: bool,
    /// Ageing time of entries, in hundredths of a second.
    pub ageing_time: u32,
    /// Ageing time that is set, which a topology change replaces for its duration.
    pub own_ageing_time: u32,
    /// True once the states of ports were selected; from then on the bridge has the carrier of its ports.
    pub selected: bool,
    /// True if the kernel runs STP.
    pub stp: bool,
    /// Root of the tree.
    pub designated_root: BridgeId,
    /// Cost of the path to the root.
    pub root_path_cost: u32,
    /// Number of the port to the root; 0 on the root.
    pub root_port: u16,
    /// Present maximum age, hello time and forward delay, in hundredths of a second: those of the root.
    pub timing: Timing,
    /// Times of this bridge as a root.
    pub own_timing: Timing,
    /// Topology change flag.
    pub topology_change: bool,
    /// True if this bridge has detected a topology change.
    pub topology_change_detected: bool,
    /// Expiry of the hello timer.
    pub hello_timer: Option<SimTime>,
    /// Expiry of the topology change notification timer.
    pub tcn_timer: Option<SimTime>,
    /// Expiry of the topology change timer.
    pub topology_change_timer: Option<SimTime>,
    /// Consequences not yet carried out.
    pub outputs: Vec<BridgeOutput>,
}

/// Times of STP, in hundredths of a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Maximum age of information.
    pub max_age: u32,
    /// Interval of configuration BPDUs.
    pub hello_time: u32,
    /// Time in each of the states listening and learning.
    pub forward_delay: u32,
}

impl Bridge {
    /// Creates a bridge without ports.
    pub fn new(interface: usize, mac: [u8; 6]) -> Bridge {
        let id = BridgeId::new(0x8000, mac);
        let timing = Timing { max_age: 2_000, hello_time: 200, forward_delay: 1_500 };
        let mut made = Bridge {
            interface,
            id,
            mac_is_set: false,
            mtu_is_set: false,
            up: false,
            ports: Vec::new(),
            fdb: Map::new(),
            fdb_max_learned: 0,
            gc_timer: None,
            serial: 0,
            vlans: VlanSet::default(),
            vlan_filtering: false,
            vlan_protocol: 0x8100,
            default_pvid: 1,
            group_fwd_mask: 0,
            group_address: GROUP_ADDRESS,
            no_linklocal_learn: false,
            ageing_time: 30_000,
            own_ageing_time: 30_000,
            selected: false,
            stp: false,
            designated_root: id,
            root_path_cost: 0,
            root_port: 0,
            timing,
            own_timing: timing,
            topology_change: false,
            topology_change_detected: false,
            hello_timer: None,
            tcn_timer: None,
            topology_change_timer: None,
            outputs: Vec::new(),
        };
        made.vlans.add(1, true, true);
        made
    }
    /// The port of an interface.
    pub fn port(&self, interface: usize) -> Option<&Port> {
        self.ports.iter().find(|port| port.interface == interface)
    }
    /// The port of an interface.
    pub fn port_mut(&mut self, interface: usize) -> Option<&mut Port> {
        self.ports.iter_mut().find(|port| port.interface == interface)
    }
    /// Adds a port with the lowest unused number (`new_nbp`). Returns false if there is none.
    pub fn add_port(&mut self, interface: usize, mac: [u8; 6], cost: u32, now: SimTime) -> bool {
        let taken = |number: &u16| self.ports.iter().any(|port| port.number == *number);
        let Some(number) = (1..MAX_PORTS).find(|number| !taken(number)) else { return false };
        let mut vlans = VlanSet::default();
        if self.default_pvid != 0 {
            vlans.add(self.default_pvid, true, true);
        }
        let port = Port {
            interface,
            number,
            priority: 32,
            cost,
            state: PortState::Disabled,
            flags: PortFlags::default(),
            group_fwd_mask: 0,
            vlans,
            designated_root: self.designated_root,
            designated_cost: self.root_path_cost,
            designated_bridge: self.id,
            designated_port: number & 0x3ff | 32 << 10,
            designated_age: now,
            topology_change_ack: false,
            config_pending: false,
            message_age_timer: None,
            forward_delay_timer: None,
            hold_timer: None,
        };
        self.ports.insert(0, port);
        self.add_own_address(Some(interface), mac, now);
        true
    }
    /// Adds the entries of a hardware address of this host: one without a VLAN, and one for each VLAN of the port.
    pub fn add_own_address(&mut self, port: Option<usize>, mac: [u8; 6], now: SimTime) {
        let vlans = match port.and_then(|port| self.port(port)) {
            Some(port) => &port.vlans,
            None => &self.vlans,
        };
        let vids: Vec<u16> = std::iter::once(0).chain(vlans.iter().map(|(vid, _)| vid)).collect();
        for vid in vids {
            self.add_local(port, (mac, vid), now);
        }
    }
    /// Adds an entry of this host, unless another port has one (`fdb_add_local`).
    pub fn add_local(&mut self, port: Option<usize>, key: ([u8; 6], u16), now: SimTime) {
        if key.0 == [0; 6] || self.fdb.get(&key).is_some_and(|entry| entry.local) {
            return;
        }
        let entry = FdbEntry { local: true, is_static: true, ..self.new_entry(port, now) };
        self.put(key, entry);
    }
    /// Removes the entries of a hardware address of a port, or those of another port take their place
    /// (`fdb_delete_local`).
    pub fn remove_own_address(
        &mut self,
        port: Option<usize>,
        mac: [u8; 6],
        now: SimTime,
        macs: &[(usize, [u8; 6])],
    ) {
        let own = self.fdb.iter().filter(|(key, entry)| key.0 == mac && entry.local && entry.port == port);
        let keys: Vec<_> = own.map(|(key, _)| *key).collect();
        for key in keys {
            self.remove(key);
            let vid = key.1;
            let other = macs.iter().find(|(number, other)| {
                Some(*number) != port
                    && *other == mac
                    && self.port(*number).is_some_and(|port| vid == 0 || port.vlans.has(vid))
            });
            if let Some((other, _)) = other {
                self.add_local(Some(*other), key, now);
            } else if port.is_some() && self.id.mac() == mac && self.mac_is_set {
                self.add_local(None, key, now);
            }
        }
    }
    /// A new dynamic entry.
    pub fn new_entry(&mut self, port: Option<usize>, now: SimTime) -> FdbEntry {
        self.serial += 1;
        FdbEntry {
            port,
            local: false,
            is_static: false,
            sticky: false,
            external: false,
            by_user: false,
            updated: now,
            used: now,
            serial: self.serial,
        }
    }
    /// Adds or replaces an entry.
    pub fn put(&mut self, key: ([u8; 6], u16), entry: FdbEntry) {
        self.fdb.insert(key, entry);
        self.outputs.push(BridgeOutput::Fdb(key, entry, true));
        if !entry.is_static && !entry.external && self.gc_timer.is_none() {
            self.gc_timer = Some(entry.updated.saturating_add(self.hold_time()));
        }
    }
    /// Deletes an entry.
    pub fn remove(&mut self, key: ([u8; 6], u16)) -> bool {
        let Some(entry) = self.fdb.remove(&key) else { return false };
        self.outputs.push(BridgeOutput::Fdb(key, entry, false));
        true
    }
    /// Number of learned entries.
    pub fn learned(&self) -> u32 {
        self.fdb.values().filter(|entry| !entry.local && !entry.by_user).count() as u32
    }
    /// Learns the source address of a frame (`br_fdb_update`).
    pub fn learn(&mut self, port: usize, mac: [u8; 6], vid: u16, now: SimTime) {
        if self.hold_time() == SimDuration::ZERO {
            return;
        }
        let key = (mac, vid);
        match self.fdb.get_mut(&key) {
            Some(entry) if entry.local => {}
            Some(entry) => {
                entry.updated = now;
                if entry.port != Some(port) && !entry.sticky {
                    entry.port = Some(port);
                    entry.external = false;
                    let entry = *entry;
                    self.outputs.push(BridgeOutput::Fdb(key, entry, true));
                }
            }
            None => {
                if self.fdb_max_learned != 0 && self.learned() >= self.fdb_max_learned {
                    return;
                }
                let entry = self.new_entry(Some(port), now);
                self.put(key, entry);
            }
        }
    }
    /// Time after which an entry ages.
    pub fn hold_time(&self) -> SimDuration {
        let count = if self.topology_change { self.timing.forward_delay } else { self.ageing_time };
        centiseconds(count.into())
    }
    /// Deletes aged entries (`br_fdb_cleanup`).
    pub fn age(&mut self, now: SimTime) {
        let hold = self.hold_time();
        let ages = |entry: &FdbEntry| !entry.is_static && !entry.external;
        let old =
            self.fdb.iter().filter(|(_, entry)| ages(entry) && entry.updated.saturating_add(hold) <= now);
        let old: Vec<_> = old.map(|(key, _)| *key).collect();
        for key in old {
            self.remove(key);
        }
        let expiries =
            self.fdb.values().filter(|entry| ages(entry)).map(|entry| entry.updated.saturating_add(hold));
        self.gc_timer = expiries.min();
    }
    /// Deletes the entries of a port: the learned ones, and with `all` the others, too.
    pub fn forget_port(&mut self, interface: usize, all: bool) {
        let of_port = self.fdb.iter().filter(|(_, entry)| {
            entry.port == Some(interface) && (all || !entry.is_static && (!entry.external || entry.by_user))
        });
        let keys: Vec<_> = of_port.map(|(key, _)| *key).collect();
        for key in keys {
            self.remove(key);
        }
    }
    /// Time of the next timer.
    pub fn next_timeout(&self) -> Option<SimTime> {
        let own = [self.gc_timer, self.hello_timer, self.tcn_timer, self.topology_change_timer];
        let of_ports = self
            .ports
            .iter()
            .flat_map(|port| [port.message_age_timer, port.forward_delay_timer, port.hold_timer]);
        own.into_iter().chain(of_ports).flatten().min()
    }
}
