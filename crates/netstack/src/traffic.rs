//! Traffic control on the paths of packets: disciplines of sent packets, filters of received ones, and interfaces
//! to which actions move packets (ifb). The crate `belljar_tc` decides; this file carries out.
//!
//! A packet that an interface sends passes the discipline of the interface, if the administrator has set one, before the
//! interface's own queue. A discipline hands over one packet at a time while the medium has a rate: the next one when
//! the first bit of the former has been sent, so that the queue is that of the discipline. On a medium without a rate,
//! and on virtual interfaces, it hands over what it has.
//!
//! Packets that an action passes to the input of an interface are received by a timer of the same time, so that the
//! protocols are never re-entered.

use crate::account::{DropCause, Origin, PacketDisposition, Receiver};
use crate::ethernet as ethernet_io;
use crate::interface::Attachment;
use crate::packet_io;
use crate::timestamps::is_stamped;
use crate::traffic_state::Traffic;
use crate::{PacketDirection, Stack, StackTimer, interface_index};
use belljar_base::Seed;
use belljar_net::nic::{Limit, QueueConfig};
use belljar_net::{Nic, Packet};
use belljar_tc::{
    Buffer, DefaultDiscipline, Redirected, Results, Sent, TcDevice, TcDrop, TcError, TcReply, TcRequest,
    TrafficControl,
};
use belljar_wire::ethernet::{self, ethertype};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Number of redirections of a packet within one call after which it is dropped, `MIRRED_NEST_LIMIT`.
const NEST_LIMIT: u32 = 4;

/// `ip_tos2prio`: `skb->priority` of a type of service.
const TOS_PRIORITY: [u32; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];

/// Answers a request about traffic control.
pub fn request(stack: &mut Stack, request: &TcRequest<'_>) -> Result<TcReply, TcError> {
    let devices = devices(stack);
    let mut results = Results::default();
    // A mere listing changes nothing, and packets are to pass as before.
    let stays = stack.traffic.is_some() || !request.dump;
    let mut traffic = stack.traffic.take().unwrap_or_else(|| {
        let stream = stack.config.seed.stream(&["host", &stack.config.name, "tc"]).next_u64();
        let control = TrafficControl::new(Seed(stream ^ u64::from(stack.number)));
        let (blocked, received) = (Vec::new(), VecDeque::new());
        Box::new(Traffic { control, timer: None, blocked, received, nesting: 0 })
    });
    let reply = traffic.control.request(request, &devices, &mut results);
    if stays {
        stack.traffic = Some(traffic);
    }
    settle(stack, results);
    reply
}

/// Properties of the interfaces for traffic control.
fn devices(stack: &Stack) -> Vec<(usize, TcDevice)> {
    let all = stack.interfaces.iter().enumerate().filter(|(_, interface)| interface.exists());
    all.map(|(number, interface)| {
        let nic = match interface.attachment {
            Attachment::Graph => Some(&stack.eth0.nic),
            Attachment::Link(link) => Some(&stack.links[link].nic),
            _ => None,
        };
        let sent = nic.map_or((0, 0, 0), |nic| {
            let counters = nic.counters();
            let header = if interface.is_link() { 0 } else { ethernet::HEADER_LEN as u64 };
            let bytes = counters.bytes_out + header * counters.packets_out;
            (bytes, counters.packets_out, counters.dropped(belljar_net::DropReason::EgressFull) as u32)
        });
        let device = TcDevice {
            index: interface_index(number),
            mtu: interface.mtu as u32,
            header: if matches!(interface.attachment, Attachment::Tun(_)) { 0 } else { 14 },
            queue_len: interface.queue_capacity(),
            up: interface.up,
            default: default_discipline(stack, number),
            sent,
        };
        (number, device)
    })
    .collect()
}

/// Discipline of an interface without one of the administrator.
pub fn default_discipline(stack: &Stack, interface: usize) -> DefaultDiscipline {
    let interface = &stack.interfaces[interface];
    let queue = match interface.attachment {
        Attachment::Graph => &stack.config.nic.queue,
        Attachment::Link(link) => &stack.config.links[link].nic.queue,
        Attachment::Ifb => return DefaultDiscipline::Bands,
        Attachment::Tun(_) | Attachment::Tap(_) | Attachment::Unplugged { .. } => {
            return DefaultDiscipline::Queue { kind: "pfifo", limit: interface.queue_capacity() };
        }
        _ => return DefaultDiscipline::None,
    };
    let (kind, limit) = match queue {
        QueueConfig::Fifo { limit: Limit::Packets(packets), .. } => ("pfifo", *packets as u32),
        QueueConfig::Fifo { limit: Limit::Bytes(bytes), .. } => ("bfifo", *bytes as u32),
        QueueConfig::Codel { .. } => ("codel", 0),
        QueueConfig::FqCodel(_) => ("fq_codel", 0),
        QueueConfig::Red(_) => ("red", 0),
        QueueConfig::Priority(_) => ("prio", 0),
    };
    DefaultDiscipline::Queue { kind, limit }
}

/// `skb->priority` of a packet: that of its socket, or that of its type of service.
fn packet_priority(stack: &Stack, packet: &Packet, framed: bool) -> u32 {
    let key = Some(packet.cookie()).filter(|cookie| *cookie != 0 && !is_stamped(*cookie));
    let socket = key.and_then(|cookie| stack.sockets.of_cookie(cookie));
    let chosen = socket.map_or(0, |key| stack.sockets[key.0].options.priority);
    if chosen != 0 {
        return chosen as u32;
    }
    let bytes = packet.open_bytes();
    let at = if framed { ethernet::HEADER_LEN } else { 0 };
    let v4 = !framed || bytes.get(12..14) == Some(&ethertype::IPV4.to_be_bytes());
    match bytes.get(at..at + 2) {
        Some([first, tos]) if v4 && first >> 4 == 4 => TOS_PRIORITY[usize::from(tos & 0x1e) >> 1],
        _ => 0,
    }
}

/// Sends a packet or frame through the discipline of its interface.
#[cold]
#[inline(never)]
pub(crate) fn output(
    stack: &mut Stack,
    interface: usize,
    gateway: Option<IpAddr>,
    packet: Packet,
    framed: bool,
) -> PacketDisposition {
    let header = if framed || is_tun(stack, interface) { 0 } else { ethernet::HEADER_LEN };
    let mut buffer = Buffer::new(packet, framed, header);
    buffer.priority = packet_priority(stack, &buffer.packet, framed);
    buffer.keeps_owner = is_stamped(buffer.packet.cookie());
    send(stack, interface, gateway, buffer)
}

fn is_tun(stack: &Stack, interface: usize) -> bool {
    matches!(stack.interfaces[interface].attachment, Attachment::Tun(_))
}

fn send(stack: &mut Stack, interface: usize, gateway: Option<IpAddr>, buffer: Buffer) -> PacketDisposition {
    let now = stack.clock.now();
    let mut results = Results::default();
    let Some(traffic) = &mut stack.traffic else {
        return transmit(stack, interface, gateway, buffer);
    };
    match traffic.control.egress(now, interface, buffer, &mut results) {
        Sent::Direct(buffer) => {
            settle(stack, results);
            transmit(stack, interface, gateway, buffer)
        }
        Sent::Dropped(reason, _) => {
            settle(stack, results);
            PacketDisposition::dropped(cause(reason))
        }
        Sent::Queued => {
            settle(stack, results);
            run_discipline(stack, interface);
            set_timer(stack);
            PacketDisposition::HELD
        }
    }
}

/// Passes a packet that has left its discipline to the interface.
fn transmit(
    stack: &mut Stack,
    interface: usize,
    gateway: Option<IpAddr>,
    buffer: Buffer,
) -> PacketDisposition {
    if stack.interfaces[interface].attachment == Attachment::Ifb {
        return ifb_output(stack, interface, buffer);
    }
    let framed = stack.interfaces[interface].is_link();
    match convert(buffer, framed) {
        packet if framed => ethernet_io::transmit_framed(stack, interface, packet),
        packet => packet_io::send_packet_now(stack, interface, gateway, packet),
    }
}

/// Hands over the packets of a discipline while the medium takes them. Returns true if there was one.
fn run_discipline(stack: &mut Stack, interface: usize) -> bool {
    let mut any = false;
    loop {
        let nic = match stack.interfaces[interface].attachment {
            Attachment::Graph => Some(&stack.eth0.nic),
            Attachment::Link(link) => Some(&stack.links[link].nic),
            _ => None,
        };
        let ready = nic.is_none_or(Nic::takes_packets);
        let now = stack.clock.now();
        let Some(traffic) = &mut stack.traffic else { return any };
        if !ready {
            if !traffic.blocked.contains(&interface) {
                traffic.blocked.push(interface);
            }
            traffic.control.wait(interface);
            return any;
        }
        let mut results = Results::default();
        let taken = traffic.control.dequeue(now, interface, &mut results);
        settle(stack, results);
        let Some(buffer) = taken else { return any };
        any = true;
        let (cookie, len, framed) = (buffer.packet.cookie(), buffer.packet.len(), buffer.framed);
        let end = transmit(stack, interface, None, buffer);
        stack.account.release(end);
        if !end.is_queued() {
            left(stack, cookie, len, framed);
        }
    }
}

/// Hands over the packets of all disciplines that are due. Returns true if there was one.
#[cold]
#[inline(never)]
pub(crate) fn run(stack: &mut Stack) -> bool {
    let now = stack.clock.now();
    let Some(traffic) = &mut stack.traffic else { return false };
    let mut interfaces = std::mem::take(&mut traffic.blocked);
    interfaces.extend(traffic.control.due(now));
    interfaces.sort_unstable();
    interfaces.dedup();
    let mut any = false;
    for interface in interfaces {
        any |= run_discipline(stack, interface);
    }
    set_timer(stack);
    any
}

/// Handles the timer of traffic control: receives redirected packets and continues disciplines.
pub(crate) fn on_timer(stack: &mut Stack) {
    if let Some(traffic) = &mut stack.traffic {
        traffic.timer = None;
    }
    let received = stack.traffic.as_mut().map(|traffic| std::mem::take(&mut traffic.received));
    for (interface, buffer, filtered) in received.unwrap_or_default() {
        if stack.lo.exceeds_free_packets(stack.clock.now()) {
            stack.clock.charge();
        }
        let end = receive(stack, interface, buffer, filtered);
        stack.account.release(end);
    }
    run(stack);
    stack.flush_network();
}

/// Passes a received packet to IP, through the filters of the interface where there are any.
#[inline]
pub(crate) fn packet_input(stack: &mut Stack, interface: usize, packet: Packet) -> PacketDisposition {
    let passed = match stack.traffic.is_some() {
        true => input(stack, interface, packet, false),
        false => Some(packet),
    };
    passed.map_or(PacketDisposition::HELD, |packet| stack.ip_input(interface, packet))
}

/// Receives a packet that an action has passed to the input of an interface.
fn receive(stack: &mut Stack, interface: usize, buffer: Buffer, filtered: bool) -> PacketDisposition {
    if !stack.interfaces[interface].up {
        return PacketDisposition::dropped(DropCause::InterfaceDown);
    }
    let framed = stack.interfaces[interface].is_link();
    let mut packet = convert(buffer, framed);
    match (framed, filtered) {
        (true, true) => ethernet_io::frame_classified(stack, interface, packet),
        (true, false) => stack.frame_input(interface, packet),
        (false, true) => {
            stack.arrived_as_one = true;
            stack.ip_input(interface, packet)
        }
        (false, false) => {
            stack.arrived_as_one = true;
            stack.seen(stack.clock.now(), interface, &mut packet, PacketDirection::In);
            packet_input(stack, interface, packet)
        }
    }
}

fn set_timer(stack: &mut Stack) {
    let now = stack.clock.now();
    let Some(traffic) = &mut stack.traffic else { return };
    let next = traffic.control.next();
    let next = if traffic.received.is_empty() { next.map(|at| at.max(now)) } else { Some(now) };
    stack.timers.set(&mut traffic.timer, next, StackTimer::Traffic);
}

/// Passes a received packet by the filters of its interface; `None` if it does not continue.
#[cold]
#[inline(never)]
pub(crate) fn input(stack: &mut Stack, interface: usize, packet: Packet, framed: bool) -> Option<Packet> {
    let now = stack.clock.now();
    let header = if framed { 0 } else { ethernet::HEADER_LEN };
    let traffic = stack.traffic.as_mut()?;
    if !traffic.control.has_ingress(interface) {
        return Some(packet);
    }
    let mut results = Results::default();
    let passed = traffic.control.ingress(now, interface, Buffer::new(packet, framed, header), &mut results);
    settle(stack, results);
    passed.map(|buffer| buffer.packet)
}

/// Reports a packet that has left its queue to its sender, at the end of the call.
fn left(stack: &mut Stack, cookie: u64, len: usize, framed: bool) {
    if cookie != 0 {
        let len = if framed { len.saturating_sub(ethernet::HEADER_LEN) } else { len };
        stack.taken_over.push_back((cookie, len));
    }
}

/// Counts packets that traffic control has ended, and passes on those that it has moved.
fn settle(stack: &mut Stack, results: Results) {
    for _ in 0..results.copies {
        stack.account.originate(Origin::TrafficControl, PacketDisposition::HELD);
    }
    for (cookie, len) in results.orphaned {
        stack.taken_over.push_back((cookie, len));
    }
    for (reason, buffer) in results.dropped {
        stack.account.release(PacketDisposition::dropped(cause(reason)));
        left(stack, buffer.packet.cookie(), buffer.packet.len(), buffer.framed);
    }
    for buffer in results.consumed {
        stack.account.release(PacketDisposition::consumed(Receiver::TrafficControl));
        left(stack, buffer.packet.cookie(), buffer.packet.len(), buffer.framed);
    }
    for redirected in results.redirected {
        redirect(stack, redirected);
    }
}

/// Passes a packet to the interface that an action names.
fn redirect(stack: &mut Stack, redirected: Redirected) {
    let Redirected { mut buffer, interface, ingress, copy } = redirected;
    if copy {
        stack.account.originate(Origin::TrafficControl, PacketDisposition::HELD);
    }
    // A sent packet is redirected as a clone (`tcf_mirred_to_dev`).
    if let Some((cookie, len)) = buffer.disown() {
        left(stack, cookie, len, buffer.framed);
    }
    let up = stack.interfaces.get(interface).is_some_and(|interface| interface.exists() && interface.up);
    let Some(traffic) = &mut stack.traffic else { return };
    let end = if !up || traffic.nesting >= NEST_LIMIT {
        PacketDisposition::dropped(DropCause::TrafficFilter)
    } else if ingress {
        traffic.received.push_back((interface, buffer, false));
        set_timer(stack);
        PacketDisposition::HELD
    } else {
        traffic.nesting += 1;
        let end = send(stack, interface, None, buffer);
        if let Some(traffic) = &mut stack.traffic {
            traffic.nesting -= 1;
        }
        end
    };
    stack.account.release(end);
}

/// Sends a packet on an ifb interface: it continues where an action has taken it from. Another one is dropped.
fn ifb_output(stack: &mut Stack, interface: usize, mut buffer: Buffer) -> PacketDisposition {
    let len = buffer.packet.len();
    stack.seen(stack.clock.now(), interface, &mut buffer.packet, PacketDirection::Out);
    stack.interfaces.count_virtual(interface, len, PacketDirection::In);
    let Some(origin) = buffer.redirection.take() else {
        return PacketDisposition::dropped(DropCause::TrafficFilter);
    };
    stack.interfaces.count_virtual(interface, len, PacketDirection::Out);
    if origin.ingress {
        let Some(traffic) = &mut stack.traffic else { return PacketDisposition::HELD };
        traffic.received.push_back((origin.interface, buffer, true));
        set_timer(stack);
        return PacketDisposition::HELD;
    }
    match stack.interfaces.get(origin.interface).is_some_and(|interface| interface.up) {
        true => {
            // It passes the discipline there, but not the actions that have taken it.
            buffer.skips_actions = true;
            send(stack, origin.interface, None, buffer)
        }
        false => PacketDisposition::dropped(DropCause::InterfaceDown),
    }
}

/// Sends a frame on an ifb interface, which only carries packets that actions pass to it.
pub(crate) fn ifb_frame(stack: &mut Stack, interface: usize, frame: Packet) -> PacketDisposition {
    ifb_output(stack, interface, Buffer::new(frame, true, 0))
}

/// Removes the packets of an interface that has gone down.
pub fn interface_down(stack: &mut Stack, interface: usize) {
    let mut results = Results::default();
    if let Some(traffic) = &mut stack.traffic {
        traffic.control.reset_interface(interface, &mut results);
        settle(stack, results);
        set_timer(stack);
    }
}

/// Removes the disciplines and filters of an interface that is deleted or leaves the namespace.
pub fn interface_removed(stack: &mut Stack, interface: usize) {
    let mut results = Results::default();
    if let Some(traffic) = &mut stack.traffic {
        traffic.control.remove_interface(interface, &mut results);
        settle(stack, results);
        set_timer(stack);
    }
}

fn cause(reason: TcDrop) -> DropCause {
    match reason {
        TcDrop::Queue => DropCause::Discipline,
        TcDrop::Loss => DropCause::NetemLoss,
        TcDrop::Action => DropCause::TrafficFilter,
    }
}

/// Packet of a buffer with or without an Ethernet header, as the interface needs it.
fn convert(buffer: Buffer, framed: bool) -> Packet {
    let Buffer { packet, framed: has, .. } = buffer;
    if has == framed {
        return packet;
    }
    let (cookie, checksum, mark, segment) =
        (packet.cookie(), packet.checksum(), packet.mark(), packet.segment());
    let mut bytes = packet.into_open_bytes();
    if framed {
        let v6 = bytes.first().is_some_and(|first| first >> 4 == 6);
        let kind = if v6 { ethertype::IPV6 } else { ethertype::IPV4 };
        let [a, b] = kind.to_be_bytes();
        bytes.splice(0..0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, a, b]);
    } else {
        bytes.drain(..ethernet::HEADER_LEN.min(bytes.len()));
    }
    Packet::with_cookie(bytes, cookie).with_checksum(checksum).with_mark(mark).with_segment(segment)
}
