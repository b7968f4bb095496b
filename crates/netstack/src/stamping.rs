//! Timestamps of packets at the interfaces, and their reports on sockets' error queues: see
//! [`timestamps`](crate::timestamps).

use crate::account::Origin;
use crate::error_queue::{ErrorQueue, ErrorReport};
use crate::interface::{Attachment, Interface};
use crate::ip::Outbound;
use crate::ptp::PtpPort;
use crate::socket::{Socket, SocketKind};
use crate::timestamps::flag::{OPT_ID, OPT_TSONLY, OPT_TX_SWHW, TX_ACK, TX_HARDWARE, TX_SCHED, TX_SOFTWARE};
use crate::timestamps::{
    self, PacketTimes, ReceiveStamps, SentStamp, StampEvent, StampRequest, StreamState, is_stamped,
};
use crate::{PacketDirection, SocketKey, Stack};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use belljar_net::Packet;
use belljar_tcp::State;

impl Socket {
    /// Format of the timestamps of received packets.
    #[inline]
    pub fn receive_stamps(&self) -> ReceiveStamps {
        let flags = self.options.stamping.as_ref().map_or(0, |stamping| stamping.flags);
        ReceiveStamps { plain: self.options.timestamp, flags, is_new: self.options.new_stamps }
    }

    /// State of the connection of a TCP socket that its timestamps depend on.
    pub fn stream_state(&mut self) -> Option<StreamState> {
        let SocketKind::Tcp(tcp) = &mut self.kind else { return None };
        let idle = StreamState { is_idle: true, written: 0, acknowledged: 0 };
        Some(tcp.connection().filter(|connection| connection.state() != State::Closed).map_or(
            idle,
            |connection| StreamState {
                is_idle: false,
                written: connection.written_until(),
                acknowledged: connection.acknowledged_until(),
            },
        ))
    }

    /// The error queue with its charge.
    fn error_queue(&mut self) -> (&mut ErrorQueue, Option<&mut u32>) {
        match &mut self.kind {
            SocketKind::Udp(udp) => (&mut udp.errors, Some(&mut udp.queued_charge)),
            SocketKind::Tcp(tcp) => (&mut tcp.errors, None),
            SocketKind::Raw(raw) => (&mut raw.end.errors, Some(&mut raw.end.queued_charge)),
            SocketKind::Ping(ping) => (&mut ping.end.errors, Some(&mut ping.end.queued_charge)),
            SocketKind::Other => (&mut self.stamps.get_or_insert_default().0, None),
        }
    }

    /// Removes the oldest timestamp of a sent frame from the error queue of a socket outside the stack.
    pub fn pop_stamp(&mut self) -> Option<SentStamp> {
        match self.stamps.as_mut()?.0.pop(&mut 0)? {
            (ErrorReport::Stamp(stamp), _) => Some(*stamp),
            _ => None,
        }
    }
}

/// Begins a datagram of a socket with the settings of its control messages.
#[cold]
pub(crate) fn begin(net: &mut Stack, key: SocketKey, given: (Option<u32>, Option<u32>)) -> bool {
    let socket = &mut net.sockets[key.0];
    let cookie = socket.cookie(key);
    socket.options.stamping.get_or_insert_default().begin(given.0, given.1, cookie)
}

/// Ends a datagram that took an identifier and was not sent: the next one has it.
#[cold]
pub(crate) fn abandon(net: &mut Stack, key: SocketKey, took_id: bool) {
    if let Some(stamping) = &mut net.sockets[key.0].options.stamping {
        stamping.begun = None;
        stamping.next_id = stamping.next_id.wrapping_sub(u64::from(took_id));
    }
}

/// Gives a packet the request of the datagram that its socket has begun; returns the packet's cookie.
#[cold]
pub(crate) fn attach(net: &mut Stack, key: SocketKey, cookie: u64) -> u64 {
    let stamping = net.sockets[key.0].options.stamping.as_mut();
    match stamping.and_then(|stamping| stamping.begun.take()) {
        Some(request) => net.stamp_requests.insert(StampRequest { cookie, ..request }),
        None => cookie,
    }
}

/// See [`attach`], for a datagram that a socket sends.
#[inline]
pub(crate) fn attach_to(net: &mut Stack, key: SocketKey, outbound: &mut Outbound<'_>) {
    if net.sockets[key.0].options.stamping.is_some() {
        outbound.cookie = attach(net, key, outbound.cookie);
    }
}

/// Sends a frame of a packet socket of this or another stack of the same owner, with the request of its datagram.
/// Returns false if the frame is dropped.
pub fn transmit(
    net: &mut Stack,
    (interface, is_frame): (usize, bool),
    bytes: Vec<u8>,
    request: Option<StampRequest>,
) -> bool {
    let cookie = request.map_or(0, |request| net.stamp_requests.insert(request));
    let (len, packet) = (bytes.len(), Packet::with_cookie(bytes, cookie));
    let end = match is_frame {
        true => net.send_framed(interface, packet),
        false => net.send_packet(interface, None, packet),
    };
    net.account.originate(Origin::PacketSocket, end);
    if !end.is_queued() {
        net.packet_lost(cookie, len);
    }
    end.is_queued()
}

impl Socket {
    /// Begins a frame of a packet socket with the settings of its control messages, and returns its request.
    pub fn begin_stamps(
        &mut self,
        key: SocketKey,
        given: (Option<u32>, Option<u32>),
    ) -> Option<StampRequest> {
        if self.options.stamping.is_none() && given.0.is_none() {
            return None;
        }
        let cookie = self.cookie(key);
        let stamping = self.options.stamping.get_or_insert_default();
        stamping.begin(given.0, given.1, cookie);
        stamping.begun.take()
    }
}

/// Takes the timestamp of a packet that is queued on an interface (`TX_SCHED`).
#[cold]
pub(crate) fn scheduled(net: &mut Stack, interface: usize, packet: &Packet) {
    let Some(request) = net.stamp_requests.get(packet.cookie()) else { return };
    if request.flags & TX_SCHED != 0 {
        let software = net.clock.realtime_ns() as i64;
        let times = PacketTimes { software, ..PacketTimes::default() };
        report(net, request, StampEvent::Scheduled, times, (interface, packet));
    }
}

/// Takes the timestamps of a packet whose first bit an interface sends at `at`.
#[cold]
pub(crate) fn sent(net: &mut Stack, at: SimTime, interface: usize, packet: &Packet) {
    let Some(request) = net.stamp_requests.get(packet.cookie()) else { return };
    let port = match net.interfaces[interface].attachment {
        Attachment::Link(link) => net.links[link].ptp.as_deref(),
        _ => None,
    };
    let hardware = port
        .filter(|port| request.flags & TX_HARDWARE != 0 && port.stamps_sent())
        .map(|port| port.clock.read(at));
    let flags = net.sockets.of_cookie(request.socket).and_then(|key| {
        Some(net.sockets.get(key.0)?.options.stamping.as_ref().map_or(0, |stamping| stamping.flags))
    });
    // `SKBTX_IN_PROGRESS`: the hardware's timestamp replaces the software's.
    let both = flags.is_none_or(|flags| flags & OPT_TX_SWHW != 0);
    if request.flags & TX_SOFTWARE != 0 && (hardware.is_none() || both) {
        let times = PacketTimes { software: net.clock.realtime_at(at) as i64, ..PacketTimes::default() };
        report(net, request, StampEvent::Sent, times, (interface, packet));
    }
    if let Some(hardware) = hardware {
        report(
            net,
            request,
            StampEvent::Sent,
            PacketTimes { hardware, ..PacketTimes::default() },
            (interface, packet),
        );
    }
}

/// Ends the request of a packet that has departed or was dropped, and reports its departure to its sender.
#[cold]
pub(crate) fn left(net: &mut Stack, cookie: u64, bytes: usize) {
    if let Some(request) = net.stamp_requests.take(cookie)
        && request.cookie != 0
    {
        net.packet_lost(request.cookie, bytes);
    }
}

/// Reports a timestamp to the sender of a packet.
fn report(
    net: &mut Stack,
    request: StampRequest,
    event: StampEvent,
    times: PacketTimes,
    (interface, packet): (usize, &Packet),
) {
    let mut stamp = SentStamp {
        event,
        id: request.id,
        software: times.software,
        hardware: times.hardware,
        frame: Vec::new(),
        interface: Some(interface),
    };
    let frame = || {
        let mut copy = packet.clone();
        copy.fill_checksum();
        let parts = net.interfaces.frame_parts(interface, copy.bytes(), PacketDirection::Out);
        let bare = matches!(net.interfaces[interface].attachment, Attachment::Tun(_));
        parts.map(|(header, payload)| if bare { payload.to_vec() } else { [&header[..], payload].concat() })
    };
    match net.sockets.of_cookie(request.socket) {
        Some(key) => {
            if !is_time_only(&net.sockets[key.0]) {
                stamp.frame = frame().unwrap_or_default();
            }
            deliver(net, key, stamp);
        }
        // The socket is one of the owner's first stack.
        None => {
            stamp.frame = frame().unwrap_or_default();
            net.effects.push(crate::Effect::Stamped(request.socket, Box::new(stamp)));
        }
    }
}

fn is_time_only(socket: &Socket) -> bool {
    socket.options.stamping.as_ref().is_some_and(|stamping| stamping.flags & OPT_TSONLY != 0)
}

/// Queues a timestamp on the error queue of a socket of this stack, and notifies its waiters.
pub fn deliver(net: &mut Stack, key: SocketKey, mut stamp: SentStamp) {
    let socket = &mut net.sockets[key.0];
    if is_time_only(socket) {
        (stamp.frame, stamp.interface) = (Vec::new(), None);
    }
    if socket.options.stamping.as_ref().is_none_or(|stamping| stamping.flags & OPT_ID == 0) {
        stamp.id = 0;
    }
    let room = socket.options.receive_buffer;
    let bits = timestamps::error_bits(&socket.options);
    let (errors, charged) = socket.error_queue();
    errors.push_stamp(stamp, charged.unwrap_or(&mut 0), room);
    net.effects.notify_socket(key, bits);
}

/// Cookie of a packet of a connection: that of a request if the packet carries the last byte of a write with
/// requested timestamps, and was not sent before.
#[cold]
pub(crate) fn of_segment(net: &mut Stack, key: SocketKey, cookie: u64) -> u64 {
    let socket = &mut net.sockets[key.0];
    let own = socket.cookie(key);
    let SocketKind::Tcp(tcp) = &mut socket.kind else { return cookie };
    let Some(connection) = tcp.connection() else { return cookie };
    let until = connection.written_until() - connection.unsent_bytes() as u64;
    let Some(stamping) = &mut socket.options.stamping else { return cookie };
    let mut request = StampRequest { socket: own, cookie, ..StampRequest::default() };
    // Linux joins the requests of writes in one packet: the last one counts.
    for write in stamping.writes.iter_mut().filter(|write| !write.sent && write.until <= until) {
        write.sent = true;
        request.flags |= write.flags & timestamps::flag::OF_PACKET;
        request.id = write.until.wrapping_sub(stamping.next_id).wrapping_sub(1) as u32;
    }
    if request.flags == 0 { cookie } else { net.stamp_requests.insert(request) }
}

/// Reports the writes to a connection that the peer has acknowledged (`TX_ACK`).
#[cold]
pub(crate) fn acknowledged(net: &mut Stack, key: SocketKey) {
    let reached = net.sockets[key.0].stream_state().map_or(0, |stream| stream.acknowledged);
    let software = net.clock.realtime_ns() as i64;
    loop {
        let Some(stamping) = &mut net.sockets[key.0].options.stamping else { return };
        let Some(write) = stamping.writes.front().copied() else { return };
        if !write.sent || write.until > reached {
            return;
        }
        stamping.writes.pop_front();
        if write.flags & TX_ACK != 0 {
            let (event, id) = (StampEvent::Acknowledged, stamping.id_of(write.until));
            let frame = Vec::new();
            deliver(net, key, SentStamp { event, id, software, hardware: 0, frame, interface: None });
        }
    }
}

/// Records the last `len` bytes of a message, which are about to be written to a connection, with the flags of
/// the message's control message.
pub fn written(net: &mut Stack, key: SocketKey, given: Option<u32>, len: usize) {
    let socket = &mut net.sockets[key.0];
    if given.is_some() {
        socket.options.stamping.get_or_insert_default();
    }
    let Some(stream) = socket.stream_state() else { return };
    if let Some(stamping) = &mut socket.options.stamping {
        stamping.written(given, stream.written + len as u64);
    }
}

/// Records the arrival of a segment of a connection.
#[cold]
pub(crate) fn segment_arrived(net: &mut Stack, key: SocketKey) {
    let (now, hardware) = (net.clock.now(), net.frame_stamp);
    let socket = &mut net.sockets[key.0];
    let SocketKind::Tcp(tcp) = &mut socket.kind else { return };
    let readable = tcp.connection().map_or(0, |connection| connection.readable_bytes());
    if let Some(stamping) = &mut socket.options.stamping {
        stamping.arrivals.received(readable, now, hardware);
    }
}

/// Reads `n` bytes of a connection, or only looks at them; returns the time of arrival of the last one, and its
/// timestamp by the adapter's clock.
pub fn stream_read(net: &mut Stack, key: SocketKey, n: usize, look: bool) -> Option<(SimTime, i64)> {
    net.sockets[key.0].options.stamping.as_mut()?.arrivals.take(n, look)
}

/// Timestamp by the hardware clock of a link of a frame whose last bit arrives at `at`; 0 without one.
#[inline]
pub(crate) fn received(net: &mut Stack, link: usize, at: SimTime, bytes: usize) -> i64 {
    match net.links[link].ptp {
        None => 0,
        Some(_) => read_arrival(net, link, at, bytes),
    }
}

#[inline(never)]
fn read_arrival(net: &mut Stack, link: usize, at: SimTime, bytes: usize) -> i64 {
    let port = &mut net.links[link];
    let len = port.nic.serialisation(bytes);
    port.ptp.as_ref().map_or(0, |ptp| ptp.received(at, len))
}

/// Timestamping unit with this number among the host's.
pub fn port(net: &mut Stack, number: usize) -> Option<&mut PtpPort> {
    net.links.iter_mut().filter_map(|port| port.ptp.as_deref_mut()).nth(number)
}

/// Timestamping unit of an interface with its number; that of the lower interface for a VLAN.
pub fn port_of<'a>(net: &'a Stack, interface: &Interface) -> Option<(usize, &'a PtpPort)> {
    match interface.attachment {
        Attachment::Link(link) => {
            let own = net.links[link].ptp.as_deref()?;
            Some((net.links[..link].iter().filter(|port| port.ptp.is_some()).count(), own))
        }
        Attachment::Vlan { below, .. } => port_of(net, &net.interfaces[below]),
        _ => None,
    }
}

/// Sets the frequency error of the oscillators of the hardware clocks that follow the host's.
pub fn set_oscillator(net: &mut Stack, ppb: i64) {
    let now = net.clock.now();
    net.config.oscillator_ppb = ppb;
    for ptp in net.links.iter_mut().filter_map(|port| port.ptp.as_deref_mut()) {
        if !ptp.own_oscillator {
            ptp.clock.set_drift(now, ppb);
        }
    }
}

/// Cookies of the first and the further fragments of a packet.
pub(crate) fn of_fragments(net: &Stack, cookie: u64) -> (u64, u64) {
    (cookie, if is_stamped(cookie) { net.stamp_requests.inner(cookie) } else { cookie })
}

/// Fails with `EOPNOTSUPP` for an interface without a timestamping unit.
pub fn configurable(net: &mut Stack, interface: usize) -> Result<&mut PtpPort, Errno> {
    let (number, _) = port_of(net, &net.interfaces[interface]).ok_or(Errno::EOPNOTSUPP)?;
    port(net, number).ok_or(Errno::EOPNOTSUPP)
}
