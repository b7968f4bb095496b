//! Interface counters for `/proc/net/dev` and rtnetlink.

use belljar_net::{Counters, DropReason};
use belljar_netstack::Stack;
use belljar_netstack::interface::{Attachment, Interface};
use belljar_netstack::link;
use belljar_netstack::tun::TunCounters;

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceCounters {
    /// Bytes and packets received.
    pub received: (u64, u64),
    /// Bytes and packets sent.
    pub sent: (u64, u64),
    /// Packets dropped on transmission.
    pub dropped_out: u64,
    /// Invalid packets received by the adapter.
    pub errors_in: u64,
    /// Packets dropped for lack of room in the adapter.
    pub missed: u64,
}

impl InterfaceCounters {
    /// Counters of an interface of `net`.
    pub fn of(net: &Stack, interface: &Interface) -> InterfaceCounters {
        match interface.attachment {
            Attachment::Loopback => {
                let both = (net.lo.bytes, net.lo.packets);
                InterfaceCounters { received: both, sent: both, ..InterfaceCounters::default() }
            }
            Attachment::Graph => counted(net.eth0.nic.counters()),
            Attachment::Link(link) => {
                let counters = counted(net.links[link].nic.counters());
                let Some(adapter) = link::adapter_of(&net.links, interface) else { return counters };
                InterfaceCounters {
                    dropped_out: counters.dropped_out + adapter.count("tx_dropped"),
                    errors_in: adapter.count("rx_errors"),
                    missed: adapter.count("rx_missed_errors"),
                    ..counters
                }
            }
            Attachment::Tun(n) | Attachment::Tap(n) => {
                // The notification of a removed interface is built after its device has gone.
                let counters = net.tuns.get(n).map_or(TunCounters::default(), |tun| tun.counters);
                let swap = |(packets, bytes): (u64, u64)| (bytes, packets);
                InterfaceCounters {
                    received: swap(counters.received),
                    sent: swap(counters.sent),
                    dropped_out: counters.dropped,
                    ..InterfaceCounters::default()
                }
            }
            Attachment::Dummy
            | Attachment::Vlan { .. }
            | Attachment::Veth { .. }
            | Attachment::Made(_)
            | Attachment::Ifb => {
                let number = net.interfaces.by_name(interface.name.as_bytes());
                let counters =
                    number.map_or(TunCounters::default(), |number| net.interfaces.virtual_counters(number));
                let swap = |(packets, bytes): (u64, u64)| (bytes, packets);
                InterfaceCounters {
                    received: swap(counters.received),
                    sent: swap(counters.sent),
                    ..InterfaceCounters::default()
                }
            }
            Attachment::Unplugged { .. } | Attachment::Gone => InterfaceCounters::default(),
        }
    }

    /// `struct rtnl_link_stats64`, 24 counters.
    pub fn link_stats64(&self) -> [u64; 24] {
        let mut all = [0; 24];
        all[..4].copy_from_slice(&[self.received.1, self.sent.1, self.received.0, self.sent.0]);
        (all[4], all[7], all[15]) = (self.errors_in, self.dropped_out, self.missed);
        all
    }
}

fn counted(counters: &Counters) -> InterfaceCounters {
    InterfaceCounters {
        received: (counters.bytes_in, counters.packets_in),
        sent: (counters.bytes_out, counters.packets_out),
        dropped_out: counters.dropped(DropReason::EgressFull),
        ..InterfaceCounters::default()
    }
}
