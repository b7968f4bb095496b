//! Input of TCP segments and ICMP errors.

use super::Role;
use crate::LO;
use crate::SocketKey;
use crate::Stack;
use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::buffers;
use crate::devices::vrf;
use crate::ip::{Inbound, IpHeader, Outbound};
use crate::path_mtu::heeds_routers;
use crate::stamping;
use belljar_linux_abi::{Errno, c};
use belljar_net::ChecksumState;
use belljar_tcp::{Disposition, Ecn, Flags, Payload, Repr, Seq, State, TcpError, reset_for};
use belljar_wire::{protocol, tcp};
use std::net::SocketAddr;

impl Stack {
    /// Processes a received TCP packet.
    pub(crate) fn tcp_input(&mut self, mut inbound: Inbound) -> PacketDisposition {
        let end = self.tcp_segment(&mut inbound);
        buffers::recycle(inbound.packet);
        end
    }

    fn tcp_segment(&mut self, inbound: &mut Inbound) -> PacketDisposition {
        self.counters.tcp_in += 1;
        let (src, dst) = (inbound.header.src, inbound.header.dst);
        let Ok(packet) = tcp::Packet::new_checked(inbound.payload()) else {
            self.counters.malformed += 1;
            return PacketDisposition::dropped(DropCause::Malformed);
        };
        // A packet over `lo` cannot be corrupted.
        let tested = inbound.checksum != ChecksumState::Untested || inbound.interface == LO;
        let intact = tested || packet.verify_checksum(src, dst);
        if !intact || self.interfaces.is_multipoint(dst) {
            self.counters.malformed += 1;
            return PacketDisposition::dropped(if intact {
                DropCause::NoSocket
            } else {
                DropCause::Checksum
            });
        }
        let segment = Repr::parse(&packet);
        let text = inbound.payload.start + packet.header_len()..inbound.payload.end;
        let (ecn, interface) = (Ecn::from_tos(inbound.header.tos), inbound.interface);
        let local = SocketAddr::new(dst, segment.dst_port);
        let remote = SocketAddr::new(src, segment.src_port);
        if let Some(key) = self.tcp.connection(local, remote)
            && let Some(end) = self.tcp_segment_for(
                key,
                &segment,
                Payload::Owned(&mut inbound.packet, text.clone()),
                ecn,
                interface,
            )
        {
            return end;
        }
        let payload = inbound.packet.get(text).unwrap_or_default();
        let opens = segment.has(Flags::SYN) && !segment.flags.intersects(Flags::ACK | Flags::RST);
        let ingress = vrf::ingress(self, interface);
        match self.tcp.listener(&self.sockets, local, remote, ingress) {
            Some(_) if opens && segment.has(Flags::FIN) => PacketDisposition::dropped(DropCause::Malformed),
            Some(listener) if opens => {
                self.tcp_admit(listener, interface, (local, remote), &segment, payload)
            }
            Some(listener)
                if segment.has(Flags::ACK)
                    && !segment.flags.intersects(Flags::SYN | Flags::RST)
                    && self.tcp_take_cookie(listener, interface, local, remote, &segment) =>
            {
                // Without a connection the accept queue was full.
                let key = self.tcp.connection(local, remote);
                let end =
                    key.and_then(|key| self.tcp_segment_for(key, &segment, payload.into(), ecn, interface));
                end.unwrap_or(PacketDisposition::dropped(DropCause::ListenOverflow))
            }
            _ => {
                self.tcp_send_reset(&segment, payload.len(), local, remote, interface);
                PacketDisposition::dropped(DropCause::NoSocket)
            }
        }
    }

    /// Passes a segment to its connection. Returns `None` if the connection yields to a new one.
    fn tcp_segment_for(
        &mut self,
        key: SocketKey,
        segment: &Repr,
        payload: Payload<'_>,
        ecn: Ecn,
        interface: usize,
    ) -> Option<PacketDisposition> {
        let now = self.clock.local();
        let tcp = self.sockets.tcp(key);
        let (parent, queued) = (tcp.parent, tcp.queued_for_accept);
        let connection = tcp.connection()?;
        if connection.state() == State::SynReceived
            && let Some(parent) = parent
            && !queued
            && !segment.has(Flags::RST)
            && !self.sockets.tcp(parent).has_accept_room()
        {
            // The accept queue is full: the ACK is dropped, and the peer retransmits.
            self.counters.listen_overflows += 1;
            self.counters.listen_drops += 1;
            if self.sysctls.abort_on_overflow {
                let connection = self.sockets.tcp(key).connection().expect("just used");
                let (local, remote) = (connection.local(), connection.remote());
                if let Role::Listening(queues) = &mut self.sockets.tcp(parent).role {
                    queues.abandoned(key);
                }
                self.tcp_remove(key);
                self.tcp_send_reset(segment, payload.len(), local, remote, interface);
            }
            return Some(PacketDisposition::dropped(DropCause::ListenOverflow));
        }
        let connection = self.sockets.tcp(key).connection()?;
        match connection.on_segment(segment, payload, ecn, now) {
            Disposition::Consumed => {
                if self.sockets[key.0].options.stamping.is_some() {
                    stamping::segment_arrived(self, key);
                }
                self.tcp_pump(key);
                Some(PacketDisposition::consumed(Receiver::Tcp))
            }
            Disposition::Reopen => {
                if self.sockets.tcp(key).orphan {
                    self.tcp_remove(key);
                } else {
                    // The program still holds the socket: the connection is only removed from the table.
                    let (local, remote) = {
                        let connection = self.sockets.tcp(key).connection().expect("just used");
                        (connection.local(), connection.remote())
                    };
                    self.tcp.remove_connection(local, remote, key);
                }
                None
            }
        }
    }

    /// Sends a reset in answer to a segment without a connection.
    fn tcp_send_reset(
        &mut self,
        segment: &Repr,
        payload_len: usize,
        local: SocketAddr,
        remote: SocketAddr,
        interface: usize,
    ) {
        let Some(reset) = reset_for(segment, payload_len) else { return };
        let device = vrf::answer_device(self, remote.ip(), interface);
        let Ok(route) = self.route(remote.ip(), Some(local.ip()), device) else { return };
        self.counters.tcp_resets_sent += 1;
        let header =
            IpHeader { dont_fragment: true, ..IpHeader::new(local.ip(), remote.ip(), protocol::TCP) };
        let mut packet = buffers::take();
        packet.resize(header.len(), 0);
        reset.append(local.ip(), remote.ip(), (&[], &[]), &mut packet);
        let outbound = Outbound::new(Origin::Tcp, &route, header, packet);
        let outbound = Outbound { checksum: ChecksumState::Intact, ..outbound };
        // A reset is too small to exceed the MTU.
        let _ = self.ip_output(outbound);
    }

    /// Processes an ICMP error about a segment from `local` to `remote`; `mtu` is the MTU of the next link
    /// reported by a router, in bytes.
    pub fn tcp_error(
        &mut self,
        local: SocketAddr,
        remote: SocketAddr,
        seq: Seq,
        errno: Errno,
        mtu: Option<u16>,
    ) {
        // RFC 5927, section 4.1: an error about data that is not in flight is ignored.
        let Some(key) = self.tcp.connection(local, remote) else { return };
        if !self.sockets.tcp(key).connection().is_some_and(|connection| connection.is_in_flight(seq)) {
            return;
        }
        if let Some(mtu) = mtu {
            let now = self.clock.local();
            let discover = self.sockets.tcp(key).ip.mtu_discover;
            // `ip_sk_accept_pmtu`, and sockets that ignore path MTUs.
            if remote.is_ipv4() && (discover == c::IP_PMTUDISC_DONT || !heeds_routers(discover)) {
                return;
            }
            let Some(connection) = self.sockets.tcp(key).connection() else { return };
            connection.on_path_mtu(mtu, now);
            return self.tcp_pump(key);
        }
        let error = match errno {
            Errno::ENETUNREACH => TcpError::NetworkUnreachable,
            Errno::EHOSTUNREACH => TcpError::HostUnreachable,
            Errno::ECONNREFUSED => TcpError::Refused,
            Errno::ENOPROTOOPT => TcpError::NoProtocol,
            Errno::EACCES => TcpError::Prohibited,
            Errno::EPROTO => TcpError::Protocol,
            _ => return,
        };
        let wanted = self.sockets.tcp(key).ip.receive_errors;
        let Some(connection) = self.sockets.tcp(key).connection() else { return };
        connection.on_unreachable(error, wanted);
        self.tcp_pump(key);
    }
}
