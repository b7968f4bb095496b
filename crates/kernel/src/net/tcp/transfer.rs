//! Send and receive path of TCP sockets.

use super::{Role, errno, fast_open};
use crate::call::Call;
use crate::guest::scatter_to;
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::error_queue;
use crate::net::message::{Attempt, ControlMessage, Incoming, OutgoingMessage, ReceivedMessage};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::timestamps::{PacketArrival, requested};
use belljar_netstack::buffers::recycle;
use belljar_netstack::socket::SocketKind;
use belljar_netstack::stamping;
use belljar_netstack::timestamps::ReceiveStamps;
use belljar_tcp::{State, UrgentByte};
use std::cell::Cell;
/// Maximum number of bytes sent by one attempt, which bounds the scratch buffer; a call makes as many
/// attempts as there is room for.
const CHUNK: usize = 256 * 1_024;
thread_local! {
    /// Scratch buffer for bytes copied from a guest to a connection, shared by the hosts of a worker thread.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    done: usize,
) -> Result<Attempt<usize>, Errno> {
    // The limit on pending notifications (`ENOBUFS`) is checked only for the first part of a message.
    let told = match message.flags & c::MSG_ZEROCOPY {
        0 => false,
        _ if done > 0 => call.host.socket(key).options.is_kept(c::SO_ZEROCOPY),
        _ => message.len > 0 && call.host.stack_of_mut(key).socket(key).zero_copies(message.flags)?,
    };
    if !told {
        return send_part(call, key, message, done);
    }
    let before = call
        .host
        .stack_of_mut(key)
        .sockets
        .tcp(key)
        .connection()
        .map_or((0, 0), |c| (c.written_until(), c.unsent_bytes()));
    let attempt = send_part(call, key, message, done)?;
    if matches!(attempt, Attempt::Done(n) if n > 0) {
        call.host.stack_of_mut(key).zero_copy_written(key, message.len, done == 0, before);
    }
    Ok(attempt)
}

fn send_part(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    done: usize,
) -> Result<Attempt<usize>, Errno> {
    for control in message.control.iter().filter(|control| control.level == c::SOL_SOCKET) {
        control.check_socket_level()?;
    }
    if let Some(attempt) = fast_open::send(call, key, message, done)? {
        return Ok(attempt);
    }
    let now = call.host.stack_of_mut(key).clock.local();
    let queue = key.into();
    let net = call.host.stack_of_mut(key);
    let tcp = net.sockets.tcp(key);
    let (cork, more) = (tcp.options.cork, message.flags & c::MSG_MORE != 0);
    let shut = tcp.shut.1;
    let Some(connection) = tcp.connection() else {
        net.socket(key).take_error()?;
        return Err(Errno::EPIPE);
    };
    if shut {
        return Err(Errno::EPIPE);
    }
    if !connection.can_send() || (done == 0 && connection.error().is_some()) {
        // Bytes sent before the error are reported first; the next call returns the error.
        let error = if done == 0 { connection.take_error() } else { connection.error() };
        net.tcp_pump(key);
        return Err(error.map_or(Errno::EPIPE, errno));
    }
    let opening = matches!(connection.state(), State::SynSent | State::SynReceived);
    if opening && !connection.is_unconfirmed() {
        connection.set_write_pending(message.flags & c::MSG_DONTWAIT == 0);
        return Ok(Attempt::Wait(queue));
    }
    if message.len == 0 {
        return Ok(Attempt::Done(0));
    }
    // A full buffer is offered one byte nevertheless, so that the connection records the waiting writer.
    let room = connection.writable_bytes().clamp(1, CHUNK);
    let mut data = SCRATCH.take();
    let len = call.gather_into(&message.buffers, done as u64, room, &mut data)?;
    let net = call.host.stack_of_mut(key);
    if more
        && !cork
        && let Some(connection) = net.sockets.tcp(key).connection()
    {
        connection.set_cork(true, now);
    }
    let is_last = done + len == message.len;
    let (given, _) = requested(&message.control);
    if is_last && (given.is_some() || net.socket(key).options.stamping.is_some()) {
        stamping::written(net, key, given, len);
    }
    let sent = net.tcp_put(key, &data[..len]);
    SCRATCH.set(data);
    if message.flags & c::MSG_OOB != 0
        && sent > 0
        && let Some(connection) = net.sockets.tcp(key).connection()
    {
        connection.mark_urgent();
    }
    if !more
        && !cork
        && let Some(connection) = net.sockets.tcp(key).connection()
    {
        connection.set_cork(false, now);
    }
    net.tcp_pump(key);
    net.flush_network();
    Ok(if sent == 0 { Attempt::Wait(queue) } else { Attempt::Done(sent) })
}

pub fn receive(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    done: usize,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    let now = call.host.stack_of_mut(key).clock.local();
    if room.flags & c::MSG_ERRQUEUE != 0 {
        return error_queue::receive(call, key, room);
    }
    if room.flags & c::MSG_OOB != 0 {
        return receive_urgent(call, key, room);
    }
    let net = call.host.stack_of_mut(key);
    let socket = net.socket(key);
    let (queue, low_water) = (key.into(), socket.options.receive_low_water.max(1) as usize);
    let stamps = socket.receive_stamps();
    let wanted = room.len - done;
    let tcp = net.sockets.tcp(key);
    let shut = tcp.shut.0;
    let Role::Connection(connection) = &mut tcp.role else {
        let idle = matches!(tcp.role, Role::Idle);
        if idle {
            net.socket(key).take_error()?;
        }
        return if idle && shut {
            Ok(Attempt::Done(ReceivedMessage::default()))
        } else {
            Err(Errno::ENOTCONN)
        };
    };
    let at_mark = done > 0 && connection.is_at_mark();
    let readable = connection.readable_to_mark(done > 0);
    if at_mark {
        return Ok(Attempt::Done(ReceivedMessage::default()));
    }
    let closed = connection.is_read_closed() || shut;
    if readable == 0 {
        let error = if connection.is_ended_by_peer() { None } else { connection.take_error() };
        if let Some(error) = error {
            net.tcp_pump(key);
            return Err(errno(error));
        }
        return Ok(if closed { Attempt::Done(ReceivedMessage::default()) } else { Attempt::Wait(queue) });
    }
    if readable < low_water.min(wanted) && !closed && !connection.has_mark() {
        return Ok(Attempt::Wait(queue));
    }
    let n = readable.min(wanted);
    if room.flags & c::MSG_TRUNC != 0 && room.flags & c::MSG_PEEK == 0 {
        let n = connection.discard(n, now);
        while let Some(spent) = connection.take_spent() {
            recycle(spent);
        }
        stamping::stream_read(net, key, n, false);
        net.tcp_was_read(key);
        return Ok(Attempt::Done(ReceivedMessage { value: n, ..ReceivedMessage::default() }));
    }
    // Bytes are copied out before they are consumed, so that a bad buffer loses no data.
    copy_out(call, key, room, done, n)?;
    let control = match stamps.is_off() {
        true => Vec::new(),
        false => read_stamps(call, key, stamps, (n, room.flags & c::MSG_PEEK != 0)),
    };
    if room.flags & c::MSG_PEEK == 0 {
        let net = call.host.stack_of_mut(key);
        if let Role::Connection(connection) = &mut net.sockets.tcp(key).role {
            connection.discard(n, now);
            while let Some(spent) = connection.take_spent() {
                recycle(spent);
            }
        }
        net.tcp_was_read(key);
    }
    Ok(Attempt::Done(ReceivedMessage { value: n, control, ..ReceivedMessage::default() }))
}

/// Control messages with the time of arrival of the last of the bytes that are read, or only looked at.
#[cold]
fn read_stamps(
    call: &mut Call<'_>,
    key: SocketKey,
    stamps: ReceiveStamps,
    (n, look): (usize, bool),
) -> Vec<ControlMessage> {
    let read = stamping::stream_read(call.host.stack_of_mut(key), key, n, look);
    let of_time = |(at, hardware)| {
        PacketArrival { at, hardware, packet: (0, n) }.messages(stamps, &call.host.net.clock)
    };
    read.map(of_time).unwrap_or_default()
}

/// Stores the first `n` received bytes in the buffers of a call from offset `done`.
fn copy_out(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
    done: usize,
    n: usize,
) -> Result<(), Errno> {
    let Host { net, networks, turn, machine, spaces, processes, .. } = &mut *call.host;
    let SocketKind::Tcp(tcp) = &networks.stack_of(net, *turn, key).sockets[key.0].kind else {
        return Err(Errno::ENOTCONN);
    };
    let Role::Connection(connection) = &tcp.role else { return Err(Errno::ENOTCONN) };
    if let Some(staged) = &mut call.staged {
        connection.received(n).for_each(|piece| staged.extend_from_slice(piece));
        return Ok(());
    }
    let mm = processes[call.process.0].mm.ok_or(Errno::ESRCH)?;
    let mut stored = done;
    for piece in connection.received(n) {
        scatter_to(&mut **machine, &spaces[mm.0], &room.buffers, stored, piece)?;
        stored += piece.len();
    }
    Ok(())
}

/// `recv(2)` with `MSG_OOB`: returns the urgent byte (`tcp_recv_urg`) and never waits.
fn receive_urgent(
    call: &mut Call<'_>,
    key: SocketKey,
    room: &Incoming,
) -> Result<Attempt<ReceivedMessage>, Errno> {
    let look = room.flags & c::MSG_PEEK != 0;
    let Role::Connection(connection) = &mut call.host.stack_of_mut(key).sockets.tcp(key).role else {
        return Err(Errno::EINVAL);
    };
    let closed = connection.is_read_closed();
    match connection.take_urgent(look) {
        UrgentByte::None => Err(Errno::EINVAL),
        UrgentByte::Awaited if closed => Ok(Attempt::Done(ReceivedMessage::default())),
        UrgentByte::Awaited => Err(Errno::EAGAIN),
        UrgentByte::Byte(_) if room.len == 0 => Ok(Attempt::Done(ReceivedMessage {
            flags: c::MSG_OOB | c::MSG_TRUNC,
            ..ReceivedMessage::default()
        })),
        UrgentByte::Byte(byte) => {
            if room.flags & c::MSG_TRUNC == 0 {
                call.scatter(&room.buffers, &[byte])?;
            }
            call.host.stack_of_mut(key).tcp_pump(key);
            Ok(Attempt::Done(ReceivedMessage { value: 1, flags: c::MSG_OOB, ..ReceivedMessage::default() }))
        }
    }
}
