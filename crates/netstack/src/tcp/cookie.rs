//! SYN cookies: during a flood of SYNs a listener answers without storing state, and recovers the properties
//! of the SYN from the acknowledgment of its SYN-ACK.
//!
//! The initial sequence number is a hash of the addresses and ports that encodes the minute and one of four
//! MSS values. If the peer sends timestamps, the low bits of ours encode its options
//! (`cookie_timestamp_decode` of Linux).

use super::Role;
use crate::SocketKey;
use crate::Stack;
use crate::account::Origin;
use crate::buffers;
use crate::ip::{IpHeader, Outbound};
use crate::socket::SocketKind;
use belljar_base::SimDuration;
use belljar_net::ChecksumState;
use belljar_tcp::{Config, Connection, Repr, Seq};
use belljar_wire::protocol;
use belljar_wire::tcp::fill_checksum;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

/// `msstab` of Linux: the MSS values of cookies. A cookie encodes the largest that does not exceed the
/// peer's.
const SIZES: [u16; 4] = [536, 1_300, 1_440, 1_460];
/// Cookies change once a minute (`TCP_SYNCOOKIE_PERIOD`), and are valid for two (`MAX_SYNCOOKIE_AGE`).
const MINUTE_NS: u64 = 60_000_000_000;
const MAX_AGE: u64 = 2;
/// `cookie_timestamp_decode`: window scale (15 for none), SACK and ECN.
const SCALE_BITS: u32 = 0xf;
const SACK_BIT: u32 = 0x10;
const ECN_BIT: u32 = 0x20;
const OPTION_BITS: u32 = 6;
/// Interval after an overflow in which cookies are accepted.
const RECENTLY: SimDuration = SimDuration::from_secs(120);

/// Cookies of a host, at one time.
struct Cookies {
    /// Key of the hash.
    key: u64,
    /// Number of the current minute.
    minute: u64,
}

impl Cookies {
    fn hash(&self, local: SocketAddr, remote: SocketAddr, count: u64) -> u32 {
        let mut hasher = SipHasher13::new_with_keys(self.key, count);
        for end in [local, remote] {
            match end.ip() {
                IpAddr::V4(ip) => hasher.write(&ip.octets()),
                IpAddr::V6(ip) => hasher.write(&ip.octets()),
            }
            hasher.write_u16(end.port());
        }
        hasher.finish() as u32
    }

    /// Computes a cookie: `secure_tcp_syn_cookie`.
    fn cookie(&self, local: SocketAddr, remote: SocketAddr, peer: Seq, size: usize) -> u32 {
        let data = self.hash(local, remote, self.minute + 1).wrapping_add(size as u32) & 0xff_ffff;
        self.hash(local, remote, 0)
            .wrapping_add(peer.0)
            .wrapping_add((self.minute as u32) << 24)
            .wrapping_add(data)
    }

    /// Validates a cookie and returns the MSS that it encodes: `check_tcp_syn_cookie`.
    fn size(&self, local: SocketAddr, remote: SocketAddr, peer: Seq, cookie: u32) -> Option<u16> {
        let rest = cookie.wrapping_sub(self.hash(local, remote, 0)).wrapping_sub(peer.0);
        let age = u64::from((self.minute as u32).wrapping_sub(rest >> 24) & 0xff);
        if age >= MAX_AGE || age > self.minute {
            return None;
        }
        let size = rest.wrapping_sub(self.hash(local, remote, self.minute - age + 1)) & 0xff_ffff;
        SIZES.get(size as usize).copied()
    }
}

impl Stack {
    fn cookies(&self) -> Cookies {
        Cookies {
            key: self.config.seed.stream(&["net", &self.config.name, "syn-cookies"]).next_u64(),
            minute: self.clock.local().as_nanos() / MINUTE_NS,
        }
    }

    fn cookie_config(
        &mut self,
        listener: SocketKey,
        interface: usize,
        ends: (SocketAddr, SocketAddr),
    ) -> Option<Config> {
        let path = self.tcp_path_back(interface, ends, self.clock.now());
        let socket = &self.sockets[listener.0];
        let SocketKind::Tcp(tcp) = &socket.kind else { return None };
        Some(tcp.options.config(&self.sysctls.tcp, &socket.options, path, ends.1.ip(), 0))
    }

    /// Answers a SYN with a cookie, without storing state.
    pub fn tcp_send_cookie(
        &mut self,
        listener: SocketKey,
        interface: usize,
        local: SocketAddr,
        remote: SocketAddr,
        syn: &Repr,
    ) {
        let now = self.clock.local();
        let Some(mut config) = self.cookie_config(listener, interface, (local, remote)) else { return };
        if let Role::Listening(queues) = &mut self.sockets.tcp(listener).role {
            queues.note_overflow(now);
        }
        let peers = syn.options.mss.unwrap_or(536);
        let size = SIZES.iter().rposition(|size| *size <= peers).unwrap_or(0);
        let mut seen = *syn;
        match (syn.options.timestamps, config.timestamps) {
            (Some(_), true) => {
                // The timestamp is the latest one, not in the future, whose low bits encode the options.
                let ms = (now.as_nanos() / 1_000_000) as u32;
                let scale = syn.options.window_scale.filter(|_| config.window_scaling);
                let mut bits = scale.map_or(SCALE_BITS, |scale| u32::from(scale) & SCALE_BITS);
                bits |= if syn.options.sack_permitted && config.sack { SACK_BIT } else { 0 };
                bits |= if asks_for_ecn(syn) { ECN_BIT } else { 0 };
                let mut stamp = ms >> OPTION_BITS << OPTION_BITS | bits;
                if stamp > ms {
                    stamp = stamp.wrapping_sub(1 << OPTION_BITS);
                }
                config.timestamp_offset = stamp.wrapping_sub(ms);
            }
            // Without timestamps the options cannot be encoded.
            _ => {
                seen.options.window_scale = None;
                seen.options.sack_permitted = false;
                seen.options.timestamps = None;
                seen.flags.remove(belljar_tcp::Flags::ECE | belljar_tcp::Flags::CWR);
            }
        }
        let isn = self.cookies().cookie(local, remote, syn.seq, size);
        let mut connection = Connection::accept_syn(config, local, remote, &seen, isn, now);
        let Ok(route) = self.route(remote.ip(), Some(local.ip()), None) else { return };
        let header =
            IpHeader { dont_fragment: true, ..IpHeader::new(local.ip(), remote.ip(), protocol::TCP) };
        let mut packet = buffers::take();
        packet.resize(header.len(), 0);
        if connection.poll_transmit(now, 0, &mut packet).is_none() {
            return buffers::recycle(packet);
        }
        fill_checksum(local.ip(), remote.ip(), &mut packet[header.len()..]);
        self.counters.cookies[0] += 1;
        self.counters.tcp_out += 1;
        let outbound = Outbound::new(Origin::Tcp, &route, header, packet);
        let _ = self.ip_output(Outbound { checksum: ChecksumState::Intact, ..outbound });
    }

    /// Processes an ACK for a listener that may return a cookie. A valid one creates the connection, in
    /// SYN-RECEIVED, which then processes the segment. Returns false if the cookie is not valid.
    pub fn tcp_take_cookie(
        &mut self,
        listener: SocketKey,
        interface: usize,
        local: SocketAddr,
        remote: SocketAddr,
        segment: &Repr,
    ) -> bool {
        let now = self.clock.local();
        let Role::Listening(queues) = &self.sockets.tcp(listener).role else { return false };
        let (recently, room) = (queues.overflowed_since(now, RECENTLY), queues.has_room());
        if self.sysctls.syncookies == 0 || !recently {
            return false;
        }
        let (isn, peer) = (segment.ack.0.wrapping_sub(1), segment.seq.wrapping_add(u32::MAX));
        let Some(size) = self.cookies().size(local, remote, peer, isn) else {
            self.counters.cookies[2] += 1;
            return false;
        };
        self.counters.cookies[1] += 1;
        if !room {
            self.counters.listen_overflows += 1;
            self.counters.listen_drops += 1;
            return true;
        }
        let Some(mut config) = self.cookie_config(listener, interface, (local, remote)) else { return false };
        let mut syn = Repr { seq: peer, window: segment.window, ..Repr::default() };
        (syn.src_port, syn.dst_port) = (segment.src_port, segment.dst_port);
        syn.flags = belljar_tcp::Flags::SYN;
        syn.options.mss = Some(size);
        if let Some(stamps) = segment.options.timestamps.filter(|_| config.timestamps) {
            let bits = stamps.echo;
            syn.options.timestamps = Some(stamps);
            syn.options.window_scale = (bits & SCALE_BITS != SCALE_BITS).then_some((bits & SCALE_BITS) as u8);
            syn.options.sack_permitted = bits & SACK_BIT != 0;
            if bits & ECN_BIT != 0 {
                syn.flags |= belljar_tcp::Flags::ECE | belljar_tcp::Flags::CWR;
            }
        }
        config.timestamp_offset = 0;
        let child = self.tcp_child(listener, local);
        let connection = Connection::accept_cookie(config, local, remote, &syn, isn, now);
        self.sockets.tcp(child).role = Role::Connection(Box::new(connection));
        self.counters.tcp_passive_opens += 1;
        self.tcp.add_connection(local, remote, child);
        if let Role::Listening(queues) = &mut self.sockets.tcp(listener).role {
            queues.started(child);
        }
        self.tcp_apply_options(child);
        true
    }
}

fn asks_for_ecn(syn: &Repr) -> bool {
    syn.flags.contains(belljar_tcp::Flags::ECE | belljar_tcp::Flags::CWR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_valid_for_two_minutes_and_their_own_ends() {
        let at = |minute| Cookies { key: 7, minute };
        let [local, remote, other] = [1, 2, 3].map(|last| SocketAddr::from(([11, 0, 0, last], 80)));
        let peer = Seq(0xffff_fff0);
        for (size, mss) in SIZES.into_iter().enumerate() {
            let cookie = at(10).cookie(local, remote, peer, size);
            assert_eq!(at(10).size(local, remote, peer, cookie), Some(mss));
            assert_eq!(at(11).size(local, remote, peer, cookie), Some(mss));
            assert_eq!(at(12).size(local, remote, peer, cookie), None);
            assert_eq!(at(9).size(local, remote, peer, cookie), None);
            assert_eq!(at(10).size(local, other, peer, cookie), None);
            assert_eq!(Cookies { key: 8, minute: 10 }.size(local, remote, peer, cookie), None);
        }
    }
}
