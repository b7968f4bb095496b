//! The links of a host: the configuration of their interfaces, and their transmit ports.

use crate::TimerId;
use crate::adapter::Adapter;
use crate::clock::Clock;
use crate::interface::{Attachment, Ethernet, Interface};
use crate::ptp::{PtpClock, PtpConfig, PtpPort};
use belljar_base::SimTime;
use belljar_net::{Nic, NicConfig};
use std::sync::Arc;

/// Configuration of an interface at the end of a link.
#[derive(Clone, Debug)]
pub struct LinkConfig {
    /// The interface's name.
    pub name: Arc<str>,
    /// The interface's hardware address.
    pub mac: [u8; 6],
    /// MTU in bytes.
    pub mtu: usize,
    /// The interface's IPv4 addresses.
    pub addresses: Vec<belljar_net::InterfaceAddress>,
    /// The interface's IPv6 addresses, except for the link-local one.
    pub addresses6: Vec<belljar_net::InterfaceAddress<std::net::Ipv6Addr>>,
    /// Queue and bandwidth.
    pub nic: NicConfig,
    /// True if the link has a carrier at the start.
    pub carrier: bool,
    /// Oscillator of the adapter's PTP hardware clock; `None` for an adapter without one.
    pub ptp: Option<PtpConfig>,
}

/// The transmit port of a link.
#[derive(Debug)]
pub struct LinkPort {
    /// The queue and the transmitter.
    pub nic: Nic,
    /// The adapter behind the port, if it has a driver.
    pub(crate) adapter: Option<Box<Adapter>>,
    /// The timestamping unit of the adapter, if it has one.
    pub ptp: Option<Box<PtpPort>>,
    pub(crate) timer: Option<TimerId>,
}

impl LinkPort {
    /// Creates an idle port.
    pub fn new(config: &LinkConfig, clock: &Clock, oscillator_ppb: i64) -> LinkPort {
        let mut nic = Nic::new(&config.nic);
        if !config.carrier {
            nic.set_carrier(SimTime::ZERO, false);
        }
        // A driver sets the clock to the host's time.
        let ptp = config.ptp.map(|ptp| {
            let simulated = |offset: i64| clock.start_ns() as i64 + clock.now().as_nanos() as i64 + offset;
            let ns = ptp.offset_ns.map_or(clock.realtime_ns() as i64, simulated);
            let drift = ptp.drift_ppb.unwrap_or(oscillator_ppb);
            Box::new(PtpPort::new(PtpClock::new(clock.now(), ns, drift), ptp.drift_ppb.is_some()))
        });
        LinkPort { nic, adapter: None, ptp, timer: None }
    }
    /// Records the adapter behind the link, whose driver has no hardware clock.
    pub fn set_adapter(&mut self, adapter: Adapter) {
        self.ptp = None;
        self.adapter = Some(Box::new(adapter));
    }
    /// Replaces the statistics of the adapter behind the link, if there is one.
    pub fn set_adapter_statistics(&mut self, statistics: Vec<(&'static str, u64)>) {
        if let Some(adapter) = &mut self.adapter {
            adapter.statistics = statistics;
        }
    }
}

/// The adapter behind an interface, if any.
pub fn adapter_of<'a>(ports: &'a [LinkPort], interface: &Interface) -> Option<&'a Adapter> {
    match interface.attachment {
        Attachment::Link(link) => ports[link].adapter.as_deref(),
        _ => None,
    }
}

/// Speed of an interface's medium in Mbit/s, as `ethtool` shows it: 10,000 without a rate, as of a veth
/// pair. `None` for interfaces without a medium; `u32::MAX` below 1 Mbit/s.
pub fn speed(eth0: &Ethernet, ports: &[LinkPort], interface: &Interface) -> Option<u32> {
    const UNLIMITED: u32 = 10_000;
    let rate = match interface.attachment {
        Attachment::Graph => eth0.nic.rate(),
        Attachment::Link(link) => ports[link].nic.rate(),
        Attachment::Veth { .. } => None,
        Attachment::Tun(_) | Attachment::Tap(_) => Some(UNLIMITED as u64 * 1_000_000),
        _ => return None,
    };
    Some(match rate.map(|rate| rate / 1_000_000) {
        None => UNLIMITED,
        Some(0) => u32::MAX,
        Some(speed) => u32::try_from(speed).unwrap_or(u32::MAX),
    })
}
