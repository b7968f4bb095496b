//! State of the devices made inside a host: see [`devices`](super).

use super::bond_state::Bond;
use super::bridge::{Bridge, FdbEntry};
use super::ip_tunnel_state::IpTunnel;
use super::ipvlan_state::{Ipvlan, IpvlanPort};
use super::macvlan_state::Macvlan;
use super::vxlan_state::{Vxlan, VxlanEntry};
use crate::timer::TimerId;
use belljar_base::{Map, SimTime};
use belljar_wireguard::WireguardDevice;

/// State of the devices of a stack.
#[derive(Debug, Default)]
pub struct Devices {
    /// Bridges by the number of their interface.
    pub bridges: Map<usize, Bridge>,
    /// Bonds by the number of their interface.
    pub bonds: Map<usize, Bond>,
    /// VXLAN interfaces by number.
    pub vxlans: Map<usize, Vxlan>,
    /// macvlans by the number of their interface.
    pub macvlans: Map<usize, Macvlan>,
    /// ipvlans by the number of their interface.
    pub ipvlans: Map<usize, Ipvlan>,
    /// Settings of the ipvlans on an interface, by its number.
    pub ipvlan_ports: Map<usize, IpvlanPort>,
    /// Tunnels by the number of their interface.
    pub tunnels: Map<usize, IpTunnel>,
    /// WireGuard interfaces by number.
    pub wireguards: Map<usize, WireguardDevice>,
    /// Tables of VRFs by the number of their interface.
    pub vrfs: Map<usize, u32>,
    pub(super) timer: Option<TimerId>,
    /// Number of devices that pass a packet on, one in another.
    pub(super) nesting: u32,
}

/// A change of a device that programs are notified of.
#[derive(Debug)]
pub enum DeviceNews {
    /// An interface has changed, for example its carrier.
    Link(usize),
    /// A port of a bridge has changed.
    Port(usize),
    /// An entry of the forwarding database of a bridge was added or changed (true) or deleted.
    Fdb {
        /// Number of the bridge.
        bridge: usize,
        /// Address and VLAN.
        key: ([u8; 6], u16),
        /// The entry.
        entry: FdbEntry,
        /// False if it was deleted.
        there: bool,
    },
    /// An entry of a VXLAN interface was added or changed (true) or deleted.
    Vxlan {
        /// Number of the interface.
        device: usize,
        /// Address.
        mac: [u8; 6],
        /// The entry.
        entry: VxlanEntry,
        /// False if it was deleted.
        there: bool,
    },
}

impl Devices {
    pub(super) fn next_timeout(&self) -> Option<SimTime> {
        let bridges = self.bridges.values().filter_map(Bridge::next_timeout);
        let vxlans = self.vxlans.values().filter_map(Vxlan::next_timeout);
        let wireguards = self.wireguards.values().filter_map(WireguardDevice::next_timeout);
        let bonds = self.bonds.values().filter_map(Bond::next_timeout);
        bridges.chain(vxlans).chain(wireguards).chain(bonds).min()
    }
    /// Number of packets that wait in devices.
    pub(crate) fn held(&self) -> usize {
        self.wireguards.values().map(WireguardDevice::held).sum()
    }
}
