//! rtnetlink: interfaces, addresses, routes and queueing disciplines of one network namespace.

use crate::error::{Doing, Result};
use belljar_packetio::Namespace;
use netlink_packet_core::{
    DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST, NetlinkHeader,
    NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State, Stats64,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol, RouteScope,
    RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption, TcStats2};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Netlink connection for the interfaces of one namespace.
pub struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// One end of a pair of interfaces.
pub struct VethEnd<'a> {
    /// Name of the interface.
    pub name: &'a str,
    /// Hardware address; the kernel chooses one if none is given.
    pub mac: Option<[u8; 6]>,
}

/// Counters of the root queueing discipline of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Bytes that left the queue.
    pub bytes: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets in the queue.
    pub queued: u64,
    /// Bytes of these packets.
    pub backlog: u64,
}

/// Next hop of a route: interface index, and gateway if there is one.
pub type Hop = (u32, Option<IpAddr>);

impl Netlink {
    /// Opens a connection in a namespace.
    pub fn open(namespace: BorrowedFd<'_>) -> Result<Netlink> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let opened: io::Result<Socket> = Namespace::Fd(namespace).run(|| Ok(open()))?;
        Ok(Netlink { socket: opened.doing("opening a netlink socket")?, sequence: 0 })
    }

    /// Creates a veth pair: `near` here and `far` in another namespace.
    pub fn add_veth(
        &mut self,
        near: &VethEnd<'_>,
        far: &VethEnd<'_>,
        far_namespace: BorrowedFd<'_>,
        mtu: usize,
    ) -> Result<()> {
        let end = |end: &VethEnd<'_>| {
            let mut attributes =
                vec![LinkAttribute::IfName(end.name.to_owned()), LinkAttribute::Mtu(mtu as u32)];
            attributes.extend(end.mac.map(|mac| LinkAttribute::Address(mac.to_vec())));
            attributes
        };
        let mut peer = LinkMessage::default();
        peer.attributes = end(far);
        peer.attributes.push(LinkAttribute::NetNsFd(far_namespace.as_raw_fd()));
        let mut message = LinkMessage::default();
        message.attributes = end(near);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Veth),
            LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
        ]));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .doing(format!("making the interfaces '{}' and '{}'", near.name, far.name))
    }

    /// Creates a bridge without STP. Entries of its forwarding database expire after `ageing_secs`.
    pub fn add_bridge(&mut self, name: &str, ageing_secs: u64) -> Result<()> {
        let mut message = LinkMessage::default();
        // The attribute is in hundredths of a second.
        let ageing = InfoBridge::AgeingTime(u32::try_from(ageing_secs * 100).unwrap_or(u32::MAX));
        let data = vec![ageing, InfoBridge::MulticastSnooping(false)];
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            LinkInfo::Kind(InfoKind::Bridge),
            LinkInfo::Data(InfoData::Bridge(data)),
        ]));
        self.change(RouteNetlinkMessage::NewLink(message), NLM_F_CREATE | NLM_F_EXCL)
            .doing(format!("making the bridge '{name}'"))
    }

    /// Returns the index of an interface.
    pub fn index(&mut self, name: &str) -> Result<u32> {
        Ok(self.link(name)?.header.index)
    }

    /// True if an interface is operationally up: a bridge forwards no frames to a port before.
    pub fn is_running(&mut self, name: &str) -> Result<bool> {
        let link = self.link(name)?;
        Ok(link.attributes.iter().any(|attribute| matches!(attribute, LinkAttribute::OperState(State::Up))))
    }

    /// Counters of an interface.
    pub fn counters(&mut self, name: &str) -> Result<Stats64> {
        let link = self.link(name)?;
        let found = link.attributes.into_iter().find_map(|attribute| match attribute {
            LinkAttribute::Stats64(stats) => Some(stats),
            _ => None,
        });
        Ok(found.unwrap_or_default())
    }

    fn link(&mut self, name: &str) -> Result<LinkMessage> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let ask = |netlink: &mut Netlink| {
            netlink.send(RouteNetlinkMessage::GetLink(message), NLM_F_REQUEST | NLM_F_ACK)?;
            netlink.answers()
        };
        let answers = ask(self).doing(format!("asking about the interface '{name}'"))?;
        let link = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(link),
            _ => None,
        });
        link.ok_or_else(|| crate::Error::new(format!("the kernel knows no interface '{name}'")))
    }

    /// Brings an interface up or down.
    pub fn set_up(&mut self, index: u32, up: bool) -> Result<()> {
        let flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        self.set_flags(index, flags, LinkFlags::Up).doing("bringing an interface up or down")
    }

    /// Disables ARP on an interface: all stations have its own hardware address.
    pub fn set_no_arp(&mut self, index: u32) -> Result<()> {
        self.set_flags(index, LinkFlags::Noarp, LinkFlags::Noarp).doing("turning ARP off")
    }

    fn set_flags(&mut self, index: u32, flags: LinkFlags, mask: LinkFlags) -> io::Result<()> {
        let mut message = LinkMessage::default();
        (message.header.index, message.header.flags, message.header.change_mask) = (index, flags, mask);
        self.change(RouteNetlinkMessage::SetLink(message), 0)
    }

    /// Makes an interface a port of a bridge.
    pub fn set_bridge(&mut self, index: u32, bridge: u32) -> Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Controller(bridge));
        self.change(RouteNetlinkMessage::SetLink(message), 0).doing("adding a port to a bridge")
    }

    /// Adds an address to an interface, without duplicate address detection. `route`: the kernel adds the
    /// route to its network as well.
    pub fn add_address(&mut self, index: u32, address: IpAddr, prefix: u8, route: bool) -> Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family = family(address);
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        let mut flags = if address.is_ipv6() { AddressFlags::Nodad } else { AddressFlags::empty() };
        flags.set(AddressFlags::Noprefixroute, !route);
        message.attributes.push(AddressAttribute::Flags(flags));
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_REPLACE)
            .doing(format!("adding the address {address}/{prefix}"))
    }

    /// Adds a route, or replaces the one of the same metric.
    pub fn set_route(&mut self, route: &RouteSpec) -> Result<()> {
        self.change(RouteNetlinkMessage::NewRoute(route.message()), NLM_F_CREATE | NLM_F_REPLACE)
            .doing(format!("adding the route to {}/{}", route.to, route.prefix))
    }

    /// Removes a route; a missing route is no error.
    pub fn remove_route(&mut self, route: &RouteSpec) -> Result<()> {
        match self.change(RouteNetlinkMessage::DelRoute(route.message()), 0) {
            Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => Ok(()),
            other => other.doing(format!("removing the route to {}/{}", route.to, route.prefix)),
        }
    }

    /// Limits the egress rate of an interface to `rate` bit/s by a token bucket filter (`tbf`) with a
    /// bucket of `burst` bytes and a queue of `limit` bytes.
    pub fn set_rate(&mut self, index: u32, rate: u64, burst: u32, limit: u32) -> io::Result<()> {
        const TCA_TBF_PARMS: u16 = 1;
        const TCA_TBF_RATE64: u16 = 4;
        const TCA_TBF_BURST: u16 = 6;
        /// `TC_LINKLAYER_ETHERNET`: the kernel computes transmission times itself and takes no rate table.
        const ETHERNET: u8 = 1;
        let bytes = rate / 8;
        let mut parameters = vec![0, ETHERNET, 0, 0, 0, 0, 0, 0];
        parameters.extend(u32::try_from(bytes).unwrap_or(u32::MAX).to_ne_bytes());
        parameters.extend([0; 12]);
        parameters.extend(limit.to_ne_bytes());
        parameters.extend(burst.to_ne_bytes());
        parameters.extend([0; 4]);
        let mut options = vec![
            TcOption::Other(DefaultNla::new(TCA_TBF_PARMS, parameters)),
            TcOption::Other(DefaultNla::new(TCA_TBF_BURST, burst.to_ne_bytes().to_vec())),
        ];
        if bytes > u64::from(u32::MAX) {
            options.push(TcOption::Other(DefaultNla::new(TCA_TBF_RATE64, bytes.to_ne_bytes().to_vec())));
        }
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = TcHandle::ROOT;
        message.header.handle = TcHandle { major: 1, minor: 0 };
        message.attributes = vec![TcAttribute::Kind("tbf".to_owned()), TcAttribute::Options(options)];
        self.change(RouteNetlinkMessage::NewQueueDiscipline(message), NLM_F_CREATE | NLM_F_REPLACE)
    }

    /// Counters of the root queueing discipline of an interface; zeros if it has none.
    pub fn queue(&mut self, index: u32) -> io::Result<QueueCounters> {
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = TcHandle::ROOT;
        self.send(RouteNetlinkMessage::GetQueueDiscipline(message), NLM_F_REQUEST | NLM_F_ACK)?;
        let mut counters = QueueCounters::default();
        for answer in self.answers()? {
            let RouteNetlinkMessage::NewQueueDiscipline(queue) = answer else { continue };
            for attribute in queue.attributes {
                let TcAttribute::Stats2(statistics) = attribute else { continue };
                for statistics in statistics {
                    match statistics {
                        TcStats2::Basic(basic) => counters.bytes = basic.bytes,
                        TcStats2::Queue(queue) => {
                            counters.drops = queue.drops.into();
                            counters.queued = queue.qlen.into();
                            counters.backlog = queue.backlog.into();
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(counters)
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.send(message, NLM_F_REQUEST | NLM_F_ACK | flags)?;
        self.answers().map(drop)
    }

    fn send(&mut self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        (header.flags, header.sequence_number) = (flags, self.sequence);
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).map(drop)
    }

    /// Receives the answers to the last request, up to its acknowledgement or error.
    fn answers(&mut self) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut out = Vec::new();
        loop {
            let (bytes, _) = self.socket.recv_from_full()?;
            let mut rest = &bytes[..];
            while rest.len() >= 16 {
                let len = u32::from_ne_bytes([rest[0], rest[1], rest[2], rest[3]]) as usize;
                if !(16..=rest.len()).contains(&len) {
                    break;
                }
                // Messages that the library cannot parse are skipped.
                let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&rest[..len]).ok();
                rest = &rest[len.next_multiple_of(4).min(rest.len())..];
                let Some(message) = message.filter(|m| m.header.sequence_number == self.sequence) else {
                    continue;
                };
                match message.payload {
                    NetlinkPayload::Error(error) if error.code.is_none() => return Ok(out),
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(inner) => out.push(inner),
                    _ => {}
                }
            }
        }
    }
}

/// Route as given to the kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteSpec {
    /// First address of the destination prefix.
    pub to: IpAddr,
    /// Length of the destination prefix in bits.
    pub prefix: u8,
    /// Metric; routes of lower metric are preferred.
    pub metric: u32,
    /// Protocol that installed the route, `RTPROT_*`.
    pub protocol: u8,
    /// Next hops.
    pub hops: Vec<Hop>,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    /// Congestion control of connections over the route, if it differs from that of the namespace.
    pub congestion: Option<&'static str>,
    /// Minimum retransmission timeout of TCP in milliseconds, if it differs from the kernel's.
    pub rto_min: Option<u32>,
}

impl RouteSpec {
    /// Encodes `RTA_METRICS`, because the library mistakes the name of a congestion control for a number.
    fn metrics(&self) -> Option<RouteAttribute> {
        const RTA_METRICS: u16 = 8;
        const RTAX_LOCK: u16 = 1;
        const RTAX_RTO_MIN: u16 = 13;
        const RTAX_CC_ALGO: u16 = 16;
        let mut metrics = Vec::new();
        let mut add = |kind: u16, value: &[u8]| {
            metrics.extend((4 + value.len() as u16).to_ne_bytes());
            metrics.extend(kind.to_ne_bytes());
            metrics.extend(value);
            metrics.resize(metrics.len().next_multiple_of(4), 0);
        };
        if let Some(name) = self.congestion {
            add(RTAX_CC_ALGO, &[name.as_bytes(), &[0]].concat());
        }
        if let Some(milliseconds) = self.rto_min {
            // The kernel applies the value only if it is locked.
            add(RTAX_LOCK, &(1u32 << RTAX_RTO_MIN).to_ne_bytes());
            add(RTAX_RTO_MIN, &milliseconds.to_ne_bytes());
        }
        (!metrics.is_empty()).then(|| RouteAttribute::Other(DefaultNla::new(RTA_METRICS, metrics)))
    }

    fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: family(self.to),
            destination_prefix_length: self.prefix,
            table: RouteHeader::RT_TABLE_MAIN,
            protocol: RouteProtocol::from(self.protocol),
            scope: RouteScope::Universe,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        let attributes = &mut message.attributes;
        if self.prefix > 0 {
            attributes.push(RouteAttribute::Destination(RouteAddress::from(self.to)));
        }
        attributes.push(RouteAttribute::Priority(self.metric));
        attributes.extend(self.source.map(|source| RouteAttribute::PrefSource(RouteAddress::from(source))));
        attributes.extend(self.metrics());
        match &self.hops[..] {
            [] => {}
            [(interface, router)] => {
                attributes.push(RouteAttribute::Oif(*interface));
                attributes.extend(router.map(|router| RouteAttribute::Gateway(RouteAddress::from(router))));
                if router.is_none() && self.to.is_ipv4() {
                    message.header.scope = RouteScope::Link;
                }
            }
            several => {
                let hop = |(interface, router): &Hop| {
                    let mut hop = RouteNextHop::default();
                    hop.interface_index = *interface;
                    hop.attributes
                        .extend(router.map(|router| RouteAttribute::Gateway(RouteAddress::from(router))));
                    hop
                };
                attributes.push(RouteAttribute::MultiPath(several.iter().map(hop).collect()));
            }
        }
        message
    }
}

fn family(address: IpAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}
