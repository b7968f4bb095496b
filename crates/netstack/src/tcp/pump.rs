//! Processing after every change of a connection: transmits segments, wakes waiters, sets the timer, and
//! removes a finished connection.

use super::{Role, TcpSocket};
use crate::Effect;
use crate::SocketKey;
use crate::Stack;
use crate::StackTimer;
use crate::TimerId;
use crate::account::Origin;
use crate::buffers;
use crate::flow_hash::flow_label_of;
use crate::ip::route::Through;
use crate::ip::{IpHeader, Onward, SendOutcome};
use crate::readiness::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, EPOLLRDNORM, READABLE, WRITABLE,
};
use crate::socket::SocketKind;
use crate::stamping;
use belljar_base::SimDuration;
use belljar_net::{ChecksumState, Packet};
use belljar_tcp::{Connection, Events, Readiness, State};
use belljar_wire::protocol;
use belljar_wire::tcp::fill_checksum;

/// A superfluous timer due within this time is left to expire, since delayed ACKs reuse it. Equals the
/// maximum delay of an ACK.
const SOON: SimDuration = SimDuration::from_millis(200);

impl Stack {
    /// Fulfils the contract of `belljar_tcp` after every call into a connection. The socket may be removed by
    /// it.
    pub fn tcp_pump(&mut self, key: SocketKey) {
        self.tcp_transmit(key);
        self.tcp_settle(key);
    }

    /// Processes a read by a program, which may cause a window update.
    pub fn tcp_was_read(&mut self, key: SocketKey) {
        let tcp = self.sockets.tcp(key);
        if let Role::Connection(connection) = &mut tcp.role
            && connection.is_settled()
        {
            tcp.ready = epoll_bits(connection.readiness());
            return;
        }
        self.tcp_pump(key);
        self.flush_network();
    }

    /// Processes the departure of a packet of the connection, which may permit further transmissions.
    pub fn tcp_packet_left(&mut self, key: SocketKey, bytes: usize) {
        let tcp = self.sockets.tcp(key);
        tcp.in_device = tcp.in_device.saturating_sub(bytes);
        // Waiters are only affected if the departure permits a transmission.
        if self.tcp_transmit(key) {
            self.tcp_settle(key);
        }
    }

    /// Handles the timer of a connection. It may fire early, which has no effect.
    pub fn socket_timer(&mut self, key: SocketKey) {
        let now = self.clock.local();
        let tcp = self.sockets.tcp(key);
        tcp.timer = None;
        let Some(connection) = tcp.connection() else { return };
        let next = connection.next_timer();
        if next.is_none_or(|next| next > now) {
            return self.tcp_set_timer(key, next);
        }
        connection.on_timer(now);
        self.tcp_pump(key);
        self.flush_network();
    }

    /// Queues all segments that may be sent now. Returns false if no segment could be sent.
    fn tcp_transmit(&mut self, key: SocketKey) -> bool {
        let now = self.clock.local();
        let tcp = self.sockets.tcp(key);
        let in_device = tcp.in_device;
        let Some(connection) = tcp.connection() else { return true };
        if !connection.may_transmit(in_device) {
            if connection.is_idle() {
                return false;
            }
            let nothing = connection.poll_transmit(now, in_device, &mut Vec::new());
            debug_assert!(nothing.is_none(), "it cannot give a segment");
            return false;
        }
        self.tcp_transmit_all(key);
        true
    }

    fn tcp_transmit_all(&mut self, key: SocketKey) {
        let now = self.clock.local();
        let default_ttl = self.sysctls.default_ttl as u8;
        let socket = &mut self.sockets[key.0];
        let through = Through::of(socket, socket.options.bound_device);
        let is_stamped = socket.options.stamping.is_some();
        let SocketKind::Tcp(tcp) = &mut socket.kind else { return };
        let ip = &tcp.ip;
        let (tos, ttl, hop_limit) = (ip.tos, ip.ttl.unwrap_or(default_ttl), ip.hop_limit);
        let (discover, labelled) = (ip.mtu_discover, ip.flow_label);
        let Some(connection) = tcp.connection() else { return };
        let ports = [connection.local().port().to_be_bytes(), connection.remote().port().to_be_bytes()];
        let (local, remote) = (connection.local().ip(), connection.remote().ip());

        let mut header = IpHeader { ttl, ..IpHeader::new(local, remote, protocol::TCP) };
        let cookie = socket.cookie(key);
        let mark = through.mark;
        let Ok(route) = self.route(remote, Some(local), through) else { return };
        // Segments never exceed the path MTU.
        header.dont_fragment = self.must_not_fragment(discover, &route, 0, self.clock.now());
        if remote.is_ipv6() {
            header.ttl =
                hop_limit.unwrap_or_else(|| self.v6.hop_limit(&self.interface_settings, route.interface));
            header.flow_label =
                if labelled { flow_label_of(self.flow_key, &header, ports.as_flattened()) } else { 0 };
        }
        let checksum = match self.may_leave_open(route.interface) {
            true => ChecksumState::Open,
            false => ChecksumState::Intact,
        };
        loop {
            let mut packet = buffers::take();
            packet.resize(header.len(), 0);
            let tcp = self.sockets.tcp(key);
            let (in_device, of_listener, is_remainder) =
                (tcp.in_device, tcp.parent.is_some(), tcp.is_remainder);
            let Some(connection) = tcp.connection() else { return buffers::recycle(packet) };
            let Some(segment) = connection.poll_transmit(now, in_device, &mut packet) else {
                return buffers::recycle(packet);
            };
            let (progress, answers_syn) =
                (connection.take_progress(), connection.state() == State::SynReceived);
            if progress {
                self.confirm_neighbour(&route, self.clock.now());
            }
            // Linux answers these without the socket.
            let socketless = is_remainder || of_listener && answers_syn && segment.payload_len == 0;
            let id = if socketless || remote.is_ipv6() { 0 } else { self.tcp_ident(key) };
            self.counters.tcp_out += 1;
            if checksum == ChecksumState::Intact {
                fill_checksum(local, remote, &mut packet[header.len()..]);
            }
            let tos = (tos & !3) | segment.ecn.bits();
            IpHeader { id: u32::from(id), tos, ..header }.emit(&mut packet);
            let len = packet.len();
            // Only data segments are throttled by the interface's queue, so only their departure is reported.
            let counted = segment.payload_len > 0;
            let cookie = match counted && is_stamped {
                true => stamping::of_segment(self, key, cookie),
                false if counted => cookie,
                false => 0,
            };
            let packet = Packet::with_cookie(packet, cookie).with_checksum(checksum).with_mark(mark);
            let onward = Onward::by(route.interface, route.gateway);
            if self.ip_local_out(Origin::Tcp, &remote, packet, &onward) == SendOutcome::Queued && counted {
                self.sockets.tcp(key).in_device += len;
                self.tcp_prefetch(key);
            }
        }
    }

    /// Prefetches the data to be sent next, which is no longer cached since it was written.
    fn tcp_prefetch(&self, key: SocketKey) {
        if let SocketKind::Tcp(tcp) = &self.sockets[key.0].kind
            && let Role::Connection(connection) = &tcp.role
        {
            (self.prefetch)(connection.next_bytes());
        }
    }

    /// Allocates the identification of a connection's next IPv4 packet.
    fn tcp_ident(&mut self, key: SocketKey) -> u16 {
        let SocketKind::Tcp(tcp) = &mut self.sockets[key.0].kind else { return 0 };
        tcp.ip.next_ident(&mut self.idents, 1)
    }

    /// Wakes waiters, sets the timer, and removes a finished connection.
    fn tcp_settle(&mut self, key: SocketKey) {
        let socket = &mut self.sockets[key.0];
        let is_stamped = socket.options.stamping.is_some();
        let SocketKind::Tcp(tcp) = &mut socket.kind else { return };
        let Role::Connection(connection) = &mut tcp.role else { return };
        let (repeats, timeouts) = connection.retransmissions();
        let since = std::mem::replace(&mut tcp.counted, (repeats, timeouts));
        let state = connection.state();
        let ended = state == State::Closed;
        let failed = ended && connection.error().is_some() && !tcp.failure_counted;
        tcp.failure_counted |= failed;
        let opening = !connection.was_established();
        let events = connection.take_events();
        let ready = epoll_bits(connection.readiness());
        let (finished, next) = (connection.is_finished(), connection.next_timer());
        tcp.ready = ready;
        tcp.is_remainder = state == State::TimeWait || (state == State::FinWait2 && tcp.orphan);
        let counters = &mut self.counters;
        connection.add_counts(&mut counters.tcp_counts);
        counters.tcp_retransmitted += u64::from(repeats.wrapping_sub(since.0));
        counters.tcp_timeouts += u64::from(timeouts.wrapping_sub(since.1));
        counters.tcp_attempt_fails += u64::from(failed && opening);
        counters.tcp_resets += u64::from(failed && !opening);
        let tcp = self.sockets.tcp(key);
        let established = is_acceptable(tcp);
        self.tcp_settle_fast_open(key);
        self.tcp_set_timer(key, next);
        if established {
            self.tcp_offer(key);
        }
        if events.contains(Events::URGENT_MARK) {
            self.effects.push(Effect::Urgent(key));
        }
        self.zero_copy_settle(key);
        if is_stamped {
            stamping::acknowledged(self, key);
        }
        // Wakes a lingering `close`.
        let drained =
            if events.contains(Events::DRAINED) && self.sockets.tcp(key).orphan { WRITABLE } else { 0 };
        let woken = woken_by(events) | drained;
        if woken != 0 {
            self.effects.notify_socket(key, woken);
        }
        if finished {
            self.tcp_finished(key);
        }
    }

    /// Moves a connection with a complete handshake to the accept queue of its listener.
    fn tcp_offer(&mut self, key: SocketKey) {
        let tcp = self.sockets.tcp(key);
        tcp.queued_for_accept = true;
        let Some(parent) = tcp.parent else { return };
        if let Role::Listening(queues) = &mut self.sockets.tcp(parent).role {
            queues.established(key);
        }
        self.effects.notify_socket(parent, READABLE);
    }

    /// Reschedules all timers after a change of the clock's rate.
    pub fn tcp_set_timers_anew(&mut self) {
        let sockets = self.own_sockets().filter(|(_, socket)| matches!(socket.kind, SocketKind::Tcp(_)));
        let keys: Vec<SocketKey> = sockets.map(|(key, _)| SocketKey(key)).collect();
        for key in keys {
            let tcp = self.sockets.tcp(key);
            if let Some(next) = tcp.connection().map(|connection| connection.next_timer()) {
                self.tcp_set_timer(key, next);
            }
        }
    }

    /// Sets the timer of a connection. If an earlier one is pending it is kept: it expires without effect and
    /// is set again. `next` is a time of the host's own clock.
    fn tcp_set_timer(&mut self, key: SocketKey, next: Option<belljar_base::SimTime>) {
        let next = next.map(|next| self.clock.at_local(next));
        let timer = self.sockets.tcp(key).timer;
        let now = self.clock.now();
        let keep = match (timer.map(TimerId::at), next) {
            (Some(at), Some(next)) => at <= next,
            // The next segment will request another timer before that time.
            (Some(at), None) => at.since(now) <= SOON && self.sockets.tcp(key).is_established(),
            (None, None) => true,
            _ => false,
        };
        if keep {
            return;
        }
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        let timer = next.map(|at| self.timers.add(at.max(self.clock.now()), StackTimer::Socket(key)));
        self.sockets.tcp(key).timer = timer;
    }

    fn tcp_finished(&mut self, key: SocketKey) {
        let tcp = self.sockets.tcp(key);
        match tcp.parent {
            // A reset before the handshake was complete. A connection in the accept queue stays there.
            Some(parent) if !tcp.queued_for_accept => {
                if let Role::Listening(queues) = &mut self.sockets.tcp(parent).role {
                    queues.abandoned(key);
                }
                self.tcp_remove(key);
            }
            None if tcp.orphan => self.tcp_remove(key),
            // The program still holds the socket; its endpoints may be reused.
            _ => {
                if let Some(connection) = tcp.connection() {
                    let (local, remote) = (connection.local(), connection.remote());
                    self.tcp.remove_connection(local, remote, key);
                }
            }
        }
    }

    /// Removes a socket from all tables.
    pub fn tcp_remove(&mut self, key: SocketKey) {
        let tcp = self.sockets.tcp(key);
        let (timer, bound) = (tcp.timer.take(), tcp.bound);
        let ends = tcp.connection().map(|c| (c.local(), c.remote()));
        if let Some(timer) = timer {
            self.timers.cancel(timer);
        }
        if let Some((local, remote)) = ends {
            self.tcp.remove_connection(local, remote, key);
        }
        if let Some(bound) = bound {
            self.tcp.remove_bound(bound.port, key);
        }
        self.remove_socket(key);
    }
}

/// True if a passive connection can be accepted and is not yet in the accept queue.
fn is_acceptable(tcp: &mut TcpSocket) -> bool {
    if tcp.parent.is_none() || tcp.queued_for_accept {
        return false;
    }
    let deferred = tcp.options.defer_accept > 0;
    tcp.connection().is_some_and(|connection: &mut Connection| {
        if connection.is_unconfirmed() {
            return true;
        }
        connection.state().is_synchronised()
            && (!deferred || connection.readable_bytes() > 0 || connection.is_read_closed())
    })
}

fn epoll_bits(ready: Readiness) -> u32 {
    [
        (Readiness::READABLE, EPOLLIN | EPOLLRDNORM),
        (Readiness::WRITABLE, WRITABLE),
        (Readiness::READ_CLOSED, EPOLLRDHUP),
        (Readiness::HANG_UP, EPOLLHUP),
        (Readiness::ERROR, EPOLLERR),
        (Readiness::URGENT, EPOLLPRI),
    ]
    .into_iter()
    .filter(|(bit, _)| ready.contains(*bit))
    .fold(0, |bits, (_, more)| bits | more)
}

/// The bits with which Linux wakes waiters at each event.
fn woken_by(events: Events) -> u32 {
    if events.is_empty() {
        return 0;
    }
    [
        (Events::READABLE, READABLE),
        (Events::URGENT, READABLE | EPOLLPRI),
        (Events::URGENT_MARK, EPOLLPRI),
        (Events::WRITABLE, WRITABLE),
        (Events::CONNECTED, WRITABLE),
        (Events::READ_CLOSED, READABLE | EPOLLRDHUP),
        (Events::ERROR, EPOLLERR),
        (Events::CLOSED, READABLE | EPOLLOUT | EPOLLHUP | EPOLLRDHUP),
    ]
    .into_iter()
    .filter(|(event, _)| events.contains(*event))
    .fold(0, |bits, (_, more)| bits | more)
}
