//! Routes in the kernel's main table.

use super::Netlink;
use belljar_routing::Prefix;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use nix::errno::Errno;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::Ipv4Addr;

/// A route in the kernel's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelRoute {
    pub destination: Ipv4Addr,
    pub bits: u8,
    /// `None` if the destination is a neighbour.
    pub gateway: Option<Ipv4Addr>,
    pub interface: u32,
    pub metric: u32,
    /// Preferred source address for packets of this machine.
    pub source: Option<Ipv4Addr>,
}

impl KernelRoute {
    pub fn prefix(&self) -> Prefix {
        Prefix::new(self.destination, self.bits)
    }
}

/// Largest number of requests in one call: the error replies to all of them fit into the socket's buffer.
const MOST_AT_ONCE: usize = 64;

/// A change of the kernel's table.
#[derive(Clone, Copy, Debug)]
pub enum RouteRequest {
    /// Adds a route, or replaces the one with the same destination and metric.
    Set(KernelRoute),
    /// Removes a route.
    Remove(KernelRoute),
}

/// The kernel's routes with one routing protocol number, which distinguishes them from all others.
pub struct Kernel {
    netlink: Netlink,
    protocol: u8,
}

impl Kernel {
    /// Opens a netlink socket, and checks the permission to change routes.
    pub fn open(protocol: u8) -> io::Result<Kernel> {
        let mut kernel = Kernel { netlink: Netlink::open()?, protocol };
        // Linux checks the permission before the route, and routes into the reserved block do not exist.
        let nowhere = KernelRoute {
            destination: Ipv4Addr::new(240, 0, 0, 1),
            bits: 32,
            gateway: None,
            interface: 1,
            metric: 0,
            source: None,
        };
        kernel.remove(&nowhere)?;
        Ok(kernel)
    }

    /// Adds a route, or replaces the one with the same destination and metric.
    pub fn set(&mut self, route: &KernelRoute) -> io::Result<()> {
        self.only(RouteRequest::Set(*route))
    }

    /// Removes a route. A route that no longer exists (for instance with its interface) is not an error.
    pub fn remove(&mut self, route: &KernelRoute) -> io::Result<()> {
        self.only(RouteRequest::Remove(*route))
    }

    fn only(&mut self, request: RouteRequest) -> io::Result<()> {
        self.carry_out(&[request])?.pop().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// Sets and removes routes in this order. Returns the errors of refused requests with their indices.
    pub fn carry_out(&mut self, requests: &[RouteRequest]) -> io::Result<Vec<(usize, io::Error)>> {
        let mut refused = Vec::new();
        for (n, part) in requests.chunks(MOST_AT_ONCE).enumerate() {
            let messages: Vec<_> = part.iter().map(|request| self.request(request)).collect();
            for (place, error) in self.netlink.change_all(messages)? {
                let gone = [Errno::ESRCH as i32, Errno::ENODEV as i32];
                let is_gone = error.raw_os_error().is_some_and(|code| gone.contains(&code));
                if !(is_gone && matches!(part.get(place), Some(RouteRequest::Remove(_)))) {
                    refused.push((n * MOST_AT_ONCE + place, error));
                }
            }
        }
        Ok(refused)
    }

    fn request(&self, request: &RouteRequest) -> (RouteNetlinkMessage, u16) {
        match request {
            RouteRequest::Set(route) => {
                (RouteNetlinkMessage::NewRoute(self.message(route)), NLM_F_CREATE | NLM_F_REPLACE)
            }
            RouteRequest::Remove(route) => (RouteNetlinkMessage::DelRoute(self.message(route)), 0),
        }
    }

    /// Removes all routes with this protocol number: leftovers of a daemon that did not shut down.
    pub fn remove_all(&mut self) -> io::Result<usize> {
        let mut removed = 0;
        for message in main_table(&mut self.netlink)? {
            let ours = u8::from(message.header.protocol) == self.protocol;
            if ours && message.header.kind == RouteType::Unicast {
                self.remove(&read(&message))?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn message(&self, route: &KernelRoute) -> RouteMessage {
        let mut message = RouteMessage::default();
        let scope = if route.gateway.is_some() { RouteScope::Universe } else { RouteScope::Link };
        message.header = RouteHeader {
            address_family: AddressFamily::Inet,
            destination_prefix_length: route.bits,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::from(self.protocol),
            scope,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Oif(route.interface));
        attributes.push(RouteAttribute::Priority(route.metric));
        if route.bits > 0 {
            attributes.push(RouteAttribute::Destination(RouteAddress::Inet(route.destination)));
        }
        attributes.extend(route.gateway.map(|gateway| RouteAttribute::Gateway(RouteAddress::Inet(gateway))));
        attributes.extend(route.source.map(|source| RouteAttribute::PrefSource(RouteAddress::Inet(source))));
        message
    }
}

/// The routes of the main table; `blackhole` and `unreachable` routes have interface 0.
pub fn routes(netlink: &mut Netlink) -> io::Result<Vec<KernelRoute>> {
    Ok(main_table(netlink)?.iter().map(read).collect())
}

fn main_table(netlink: &mut Netlink) -> io::Result<Vec<RouteMessage>> {
    let mut request = RouteMessage::default();
    request.header.address_family = AddressFamily::Inet;
    let messages = netlink.dump(RouteNetlinkMessage::GetRoute(request))?.into_iter();
    let routes = messages.filter_map(|message| match message {
        RouteNetlinkMessage::NewRoute(route) => Some(route),
        _ => None,
    });
    let in_main = |route: &RouteMessage| route.header.table == RouteHeader::RT_TABLE_MAIN;
    Ok(routes.filter(in_main).collect())
}

fn read(message: &RouteMessage) -> KernelRoute {
    let mut route = KernelRoute {
        destination: Ipv4Addr::UNSPECIFIED,
        bits: message.header.destination_prefix_length,
        gateway: None,
        interface: 0,
        metric: 0,
        source: None,
    };
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => route.destination = *address,
            RouteAttribute::Gateway(RouteAddress::Inet(address)) => route.gateway = Some(*address),
            RouteAttribute::Oif(index) => route.interface = *index,
            RouteAttribute::Priority(metric) => route.metric = *metric,
            _ => {}
        }
    }
    route
}
