//! What goes out: finishing headers, fragmenting, queueing.

use super::IpHeader;
use super::header::V4_LEN;
use super::route::Route;
use crate::host::Host;
use crate::net::LO;
use belljar_linux_abi::Errno;
use std::net::IpAddr;

/// A datagram ready to go: its buffer has room for the IP header at the start and holds everything
/// behind it.
#[derive(Debug)]
pub struct Outbound {
    /// Where it goes.
    pub route: Route,
    /// Its header but for length, checksum and identification.
    pub header: IpHeader,
    /// The whole packet.
    pub packet: Vec<u8>,
    /// Told when the packet (each fragment) has left; 0 for nobody.
    pub cookie: u64,
    /// Whether a copy is delivered to this host too (`IP_MULTICAST_LOOP`, broadcasts).
    pub loop_back: bool,
}

impl Host {
    /// Sends a datagram, in fragments if it is larger than the MTU and may be cut. `EMSGSIZE` if it
    /// may not.
    pub(crate) fn ip_output(&mut self, outbound: Outbound) -> Result<(), Errno> {
        let Outbound { route, mut header, mut packet, cookie, loop_back } = outbound;
        self.net.counters.ip_out += 1;
        let mtu = self.net.mtu(route.interface);
        header.id = self.net.next_ip_id;
        self.net.next_ip_id = self.net.next_ip_id.wrapping_add(1);
        if loop_back && self.net.is_multipoint(header.dst) {
            let mut copy = packet.clone();
            header.emit(&mut copy);
            self.transmit(LO, None, copy, 0);
        }
        if packet.len() <= mtu {
            header.emit(&mut packet);
            let len = packet.len();
            if !self.queue_packet(&route, packet, cookie) {
                self.packet_lost(cookie, len);
            }
            return Ok(());
        }
        if header.dont_fragment || !matches!(header.dst, IpAddr::V4(_)) {
            return Err(Errno::EMSGSIZE);
        }
        let step = (mtu - V4_LEN) & !7;
        let payload = &packet[V4_LEN..];
        let pieces = payload.len().div_ceil(step);
        for n in 0..pieces {
            let piece = &packet[V4_LEN + n * step..packet.len().min(V4_LEN + (n + 1) * step)];
            let mut fragment = Vec::with_capacity(V4_LEN + piece.len());
            fragment.resize(V4_LEN, 0);
            fragment.extend_from_slice(piece);
            header.more_fragments = n + 1 < pieces;
            header.fragment_offset = n * step;
            header.emit(&mut fragment);
            // Losing one loses all: Linux goes on sending the rest.
            self.queue_packet(&route, fragment, cookie);
        }
        self.recycle_buffer(packet);
        Ok(())
    }
}
