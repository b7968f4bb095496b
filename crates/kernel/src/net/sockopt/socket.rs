//! Level `SOL_SOCKET`, socket(7).

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::SocketKey;
use crate::net::tcp::{Role, errno};
use crate::net::unix;
use belljar_base::SimDuration;
use belljar_linux_abi::socket::{Linger, TimePair, Ucred};
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::options::{Value, flag, int, structure, to_int};
use belljar_linux_net::timestamps::{option, option_value};
use belljar_netstack::filter::{Instruction, MAX_INSTRUCTIONS, SocketFilter};
use belljar_netstack::socket::{MIN_RECEIVE_BUFFER, MIN_SEND_BUFFER, SocketKind, SocketOptions};
use belljar_netstack::timestamps::{Timestamping, flag as stamping_flag};
use belljar_netstack::{interface_index, zero_copy};
use belljar_objects::namespaces::NamespaceKind;
use std::sync::Arc;
use zerocopy::FromBytes;

/// Options missing in `libc`. The `_NEW` time-outs have 64-bit times, as the plain ones on this architecture.
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
const SO_BUF_LOCK: i32 = 72;
const SO_TXREHASH: i32 = 74;
const SO_RCVMARK: i32 = 75;

/// Maps the `_NEW` time-out options to the plain ones, which have the same layout.
fn plain(name: i32) -> i32 {
    match name {
        SO_RCVTIMEO_NEW => c::SO_RCVTIMEO,
        SO_SNDTIMEO_NEW => c::SO_SNDTIMEO,
        name => name,
    }
}

pub fn set(call: &mut Call<'_>, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    let name = plain(name);
    match name {
        c::SO_BINDTODEVICE => return bind_to_device(call, key, value),
        c::SO_LINGER => return set_linger(&mut call.host.socket(key).options, value),
        c::SO_RCVTIMEO | c::SO_SNDTIMEO => {
            let timeout = parse_timeout(value)?;
            let options = &mut call.host.socket(key).options;
            let slot =
                if name == c::SO_RCVTIMEO { &mut options.receive_timeout } else { &mut options.send_timeout };
            *slot = timeout;
            return Ok(());
        }
        c::SO_ATTACH_FILTER => return attach_filter(call, key, value),
        c::SO_DETACH_FILTER => {
            to_int(value)?;
            let options = &mut call.host.socket(key).options;
            if options.filter_locked {
                return Err(Errno::EPERM);
            }
            return options.filter.take().map(drop).ok_or(Errno::ENOENT);
        }
        c::SO_ATTACH_REUSEPORT_CBPF => {
            call.host.warn("SO_ATTACH_REUSEPORT_CBPF is accepted without effect");
            return Ok(());
        }
        // eBPF is not supported, so no descriptor is a valid program.
        c::SO_ATTACH_BPF => return Err(Errno::EINVAL),
        _ => {}
    }
    let number = to_int(value)?;
    let on = number != 0;
    check_right(call, name, number)?;
    let domain = call.host.socket(key).domain;
    // Linux treats sizes as unsigned; only `SO_RCVBUFFORCE` and `SO_SNDBUFFORCE` treat negative ones as 0.
    let forced = matches!(name, c::SO_RCVBUFFORCE | c::SO_SNDBUFFORCE);
    let asked = |number: i32| if forced { number.max(0) as u32 } else { number as u32 };
    let is_tcp = matches!(call.host.socket(key).kind, SocketKind::Tcp(_));
    let [_, receive_max, _, send_max] = call.host.stack_of_mut(key).sysctls.core_buffers;
    let options = &mut call.host.socket(key).options;
    match name {
        c::SO_REUSEADDR => options.reuse_address = on,
        c::SO_REUSEPORT if on && !matches!(domain, c::AF_INET | c::AF_INET6) => {
            return Err(Errno::EOPNOTSUPP);
        }
        c::SO_REUSEPORT => options.reuse_port = on,
        c::SO_BROADCAST => options.broadcast = on,
        c::SO_DONTROUTE => options.dont_route = on,
        c::SO_OOBINLINE => {
            options.out_of_band_inline = on;
            if is_tcp && let Some(connection) = call.host.stack_of_mut(key).sockets.tcp(key).connection() {
                connection.set_urgent_inline(on);
            }
        }
        c::SO_PASSCRED => options.pass_credentials = on,
        c::SO_PRIORITY => options.priority = number,
        c::SO_MARK => options.mark = number as u32,
        c::SO_TIMESTAMP | option::TIMESTAMP_NEW | c::SO_TIMESTAMPNS | option::TIMESTAMPNS_NEW => {
            let micros = matches!(name, c::SO_TIMESTAMP | option::TIMESTAMP_NEW);
            options.timestamp = match (on, micros) {
                (false, _) => Timestamping::Off,
                (true, true) => Timestamping::Micros,
                (true, false) => Timestamping::Nanos,
            };
            if on {
                options.new_stamps = !matches!(name, c::SO_TIMESTAMP | c::SO_TIMESTAMPNS);
                // The arrivals of a connection are recorded.
                is_tcp.then(|| options.stamping.get_or_insert_default());
            }
        }
        c::SO_TIMESTAMPING | option::TIMESTAMPING_NEW => {
            return set_stamping(call, key, number as u32, name != c::SO_TIMESTAMPING);
        }
        c::SO_KEEPALIVE => {
            options.keep_alive = on;
            keep_alive(call, key, on);
        }
        c::SO_RCVLOWAT => {
            // A negative number means the maximum, 0 means 1.
            let low_water = if number < 0 { i32::MAX } else { number.max(1) };
            options.receive_low_water = low_water;
            if let SocketKind::Tcp(tcp) = &mut call.host.socket(key).kind
                && let Some(connection) = tcp.connection()
            {
                connection.set_receive_low_water(low_water as usize);
                call.host.stack_of_mut(key).tcp_pump(key);
            }
        }
        c::SO_RCVBUF | c::SO_RCVBUFFORCE => {
            let limit = if name == c::SO_RCVBUF { receive_max } else { i32::MAX as u32 / 2 };
            let bytes = (2 * asked(number).min(limit)).max(MIN_RECEIVE_BUFFER);
            (options.receive_buffer, options.receive_buffer_set) = (bytes, true);
            if is_tcp && let Some(connection) = call.host.stack_of_mut(key).sockets.tcp(key).connection() {
                connection.set_receive_buffer(bytes);
                call.host.stack_of_mut(key).tcp_pump(key);
            }
        }
        c::SO_SNDBUF | c::SO_SNDBUFFORCE => {
            let limit = if name == c::SO_SNDBUF { send_max } else { i32::MAX as u32 / 2 };
            let bytes = (2 * asked(number).min(limit)).max(MIN_SEND_BUFFER);
            (options.send_buffer, options.send_buffer_set) = (bytes, true);
            if is_tcp && let Some(connection) = call.host.stack_of_mut(key).sockets.tcp(key).connection() {
                connection.set_send_buffer(bytes);
                call.host.stack_of_mut(key).tcp_pump(key);
            }
        }
        c::SO_ZEROCOPY => {
            zero_copy::check_option(call.host.socket(key), number)?;
            keep(&mut call.host.socket(key).options, name, number);
        }
        // Unlike an interface name, the index need not exist.
        c::SO_BINDTOIFINDEX => {
            check_rebinding(call, key)?;
            let index = u32::try_from(number).map_err(|_| Errno::EINVAL)?;
            call.host.socket(key).options.bound_device = Some(index).filter(|index| *index != 0);
        }
        // No effect since Linux 2.2.
        c::SO_BSDCOMPAT => {}
        SO_BUF_LOCK if number & !3 != 0 => return Err(Errno::EINVAL),
        SO_TXREHASH if !is_tcp => return Err(Errno::EOPNOTSUPP),
        SO_TXREHASH if !(-1..=1).contains(&number) => return Err(Errno::EINVAL),
        SO_BUF_LOCK | SO_TXREHASH => keep(options, name, number),
        c::SO_DEBUG
        | c::SO_NO_CHECK
        | c::SO_NOFCS
        | c::SO_PASSSEC
        | c::SO_PREFER_BUSY_POLL
        | c::SO_RXQ_OVFL
        | c::SO_SELECT_ERR_QUEUE
        | c::SO_WIFI_STATUS
        | SO_RCVMARK => keep(options, name, on.into()),
        c::SO_BUSY_POLL | c::SO_INCOMING_CPU | c::SO_PEEK_OFF => keep(options, name, number),
        c::SO_LOCK_FILTER if options.filter_locked && !on => return Err(Errno::EPERM),
        c::SO_LOCK_FILTER => options.filter_locked = on,
        c::SO_MAX_PACING_RATE => {
            keep(options, name, number);
            // The rate is unsigned; all ones means unlimited.
            let rate = (number != -1).then_some(u64::from(number as u32));
            if is_tcp {
                let tcp = call.host.stack_of_mut(key).sockets.tcp(key);
                tcp.options.max_pacing_rate = rate;
                if let Some(connection) = tcp.connection() {
                    connection.set_max_pacing_rate(rate);
                    call.host.stack_of_mut(key).tcp_pump(key);
                }
            }
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    call.host.stack_of_mut(key).flush_network();
    Ok(())
}

/// `SO_TIMESTAMPING`.
fn set_stamping(call: &mut Call<'_>, key: SocketKey, flags: u32, is_new: bool) -> Result<(), Errno> {
    let socket = call.host.socket(key);
    let (stream, bound) = (socket.stream_state(), socket.options.bound_device.is_some());
    if stream.is_some() && flags & stamping_flag::OPT_STATS != 0 {
        call.host.warn("SOF_TIMESTAMPING_OPT_STATS of TCP sockets is not supported");
        return Err(Errno::EINVAL);
    }
    socket.options.stamping.get_or_insert_default().set(flags, stream, bound)?;
    socket.options.new_stamps = is_new;
    Ok(())
}

/// `EPERM` (`EACCES` for `SO_DEBUG`) if an option requires a capability that the caller does not have.
fn check_right(call: &Call<'_>, name: i32, number: i32) -> Result<(), Errno> {
    let (host, process) = (&*call.host, call.process);
    match name {
        c::SO_DEBUG if number != 0 => host
            .processes
            .require_for(process, NamespaceKind::Net, capability::NET_ADMIN)
            .map_err(|_| Errno::EACCES),
        c::SO_RCVBUFFORCE | c::SO_SNDBUFFORCE => {
            host.processes.require_for(process, NamespaceKind::Net, capability::NET_ADMIN)
        }
        c::SO_MARK => host.processes.require_either(process, capability::NET_RAW, capability::NET_ADMIN),
        SO_RCVMARK => host.processes.require_either(process, capability::NET_RAW, capability::NET_ADMIN),
        c::SO_PREFER_BUSY_POLL if number != 0 => {
            host.processes.require_for(process, NamespaceKind::Net, capability::NET_ADMIN)
        }
        c::SO_PRIORITY if !(0..=6).contains(&number) => {
            host.processes.require_either(process, capability::NET_RAW, capability::NET_ADMIN)
        }
        _ => Ok(()),
    }
}

/// Stores the value of an option without effect, so that `getsockopt(2)` returns it.
fn keep(options: &mut SocketOptions, name: i32, number: i32) {
    match options.kept.iter_mut().find(|(kept, _)| *kept == name) {
        Some((_, value)) => *value = number,
        None => options.kept.push((name, number)),
    }
}

fn keep_alive(call: &mut Call<'_>, key: SocketKey, on: bool) {
    let now = call.host.stack_of_mut(key).clock.local();
    let SocketKind::Tcp(tcp) = &mut call.host.socket(key).kind else { return };
    let times = tcp.options.keepalive;
    if let Some(connection) = tcp.connection() {
        connection.set_keepalive(on.then_some(times), now);
        call.host.stack_of_mut(key).tcp_pump(key);
    }
}

fn bind_to_device(call: &mut Call<'_>, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
    let device = match &value[..end] {
        [] => None,
        name => {
            let network = call.host.socket(key).network;
            let n = call.host.stack(network).interfaces.by_name(name).ok_or(Errno::ENODEV)?;
            Some(interface_index(n))
        }
    };
    check_rebinding(call, key)?;
    call.host.socket(key).options.bound_device = device;
    Ok(())
}

/// `EPERM` if the socket is already bound to an interface and the caller lacks `CAP_NET_RAW`.
fn check_rebinding(call: &mut Call<'_>, key: SocketKey) -> Result<(), Errno> {
    if call.host.socket(key).options.bound_device.is_some() {
        call.host.processes.require_for(call.process, NamespaceKind::Net, capability::NET_RAW)?;
    }
    Ok(())
}

/// Attaches a filter given as `struct sock_fprog`: instruction count and address.
fn attach_filter(call: &mut Call<'_>, key: SocketKey, value: &[u8]) -> Result<(), Errno> {
    let (Some(count), Some(at)) = (value.first_chunk::<2>(), value.get(8..16)) else {
        return Err(Errno::EINVAL);
    };
    let count = usize::from(u16::from_ne_bytes(*count));
    let at = u64::from_ne_bytes(at.try_into().expect("eight bytes"));
    if call.host.socket(key).options.filter_locked {
        return Err(Errno::EPERM);
    }
    if count == 0 || count > MAX_INSTRUCTIONS {
        return Err(Errno::EINVAL);
    }
    let bytes = call.read_vec(at, count * Instruction::LEN)?;
    let filter =
        SocketFilter::new(bytes.chunks_exact(Instruction::LEN).map(Instruction::from_bytes).collect())?;
    let socket = call.host.socket(key);
    socket.options.filter = Some(Arc::new(filter));
    if matches!(socket.kind, SocketKind::Tcp(_)) || socket.domain == c::AF_UNIX {
        call.host.warn("filters on TCP and UNIX sockets are accepted without effect");
    }
    Ok(())
}

fn set_linger(options: &mut SocketOptions, value: &[u8]) -> Result<(), Errno> {
    let (linger, _) = Linger::read_from_prefix(value).map_err(|_| Errno::EINVAL)?;
    options.linger = (linger.onoff != 0).then(|| SimDuration::from_secs(u64::from(linger.linger as u32)));
    Ok(())
}

/// Parses a `struct timeval`; zero means no time-out. `EDOM` if the microseconds are out of range.
fn parse_timeout(value: &[u8]) -> Result<Option<SimDuration>, Errno> {
    let (time, _) = TimePair::read_from_prefix(value).map_err(|_| Errno::EINVAL)?;
    if !(0..1_000_000).contains(&time.fraction) {
        return Err(Errno::EDOM);
    }
    if time.secs < 0 {
        // A negative time-out expires at once, as on Linux.
        return Ok(Some(SimDuration::ZERO));
    }
    let total = SimDuration::from_secs(time.secs as u64) + SimDuration::from_micros(time.fraction as u64);
    Ok((!total.is_zero()).then_some(total))
}

fn timeout(value: Option<SimDuration>) -> Value {
    let micros = value.unwrap_or(SimDuration::ZERO).as_micros() as i64;
    structure(&TimePair { secs: micros / 1_000_000, fraction: micros % 1_000_000 })
}

pub fn get(call: &mut Call<'_>, key: SocketKey, name: i32) -> Result<Value, Errno> {
    /// Linux's number of ancillary BPF loads (`SKF_AD_MAX`).
    const BPF_EXTENSIONS: i32 = 64;
    let name = plain(name);
    match name {
        c::SO_ERROR => return Ok(int(take_error(call, key))),
        c::SO_PEERCRED => return peer_credentials(call, key),
        c::SO_PEERNAME => return call.host.socket_peer_name(key).map(|name| Value::from_slice(&name)),
        _ => {}
    }
    let socket = call.host.socket(key);
    let (options, network) = (&socket.options, socket.network);
    Ok(match name {
        c::SO_TYPE => int(socket.type_),
        c::SO_DOMAIN => int(socket.domain),
        c::SO_PROTOCOL => int(socket.protocol),
        c::SO_ACCEPTCONN => {
            let listening = match &socket.kind {
                SocketKind::Tcp(tcp) => matches!(tcp.role, Role::Listening(_)),
                _ => unix::is_listening(call.host, key),
            };
            return Ok(flag(listening));
        }
        c::SO_REUSEADDR => flag(options.reuse_address),
        c::SO_REUSEPORT => flag(options.reuse_port),
        c::SO_KEEPALIVE => flag(options.keep_alive),
        c::SO_BROADCAST => flag(options.broadcast),
        c::SO_DONTROUTE => flag(options.dont_route),
        c::SO_OOBINLINE => flag(options.out_of_band_inline),
        c::SO_PASSCRED => flag(options.pass_credentials),
        c::SO_TIMESTAMP => flag(options.timestamp == Timestamping::Micros && !options.new_stamps),
        // Unlike the old option, it is also set by nanoseconds.
        option::TIMESTAMP_NEW => flag(options.timestamp != Timestamping::Off && options.new_stamps),
        c::SO_TIMESTAMPNS | option::TIMESTAMPNS_NEW => {
            let own = options.new_stamps == (name != c::SO_TIMESTAMPNS);
            flag(options.timestamp == Timestamping::Nanos && own)
        }
        c::SO_TIMESTAMPING | option::TIMESTAMPING_NEW => {
            let own = options.new_stamps == (name != c::SO_TIMESTAMPING);
            structure(&option_value(options.stamping.as_deref(), own))
        }
        c::SO_PRIORITY => int(options.priority),
        c::SO_MARK => int(options.mark as i32),
        c::SO_RCVLOWAT => int(options.receive_low_water),
        c::SO_SNDLOWAT => int(1),
        c::SO_RCVTIMEO => timeout(options.receive_timeout),
        c::SO_SNDTIMEO => timeout(options.send_timeout),
        c::SO_LINGER => structure(&Linger {
            onoff: i32::from(options.linger.is_some()),
            linger: options.linger.map_or(0, |time| (time.as_millis() / 1_000) as i32),
        }),
        c::SO_BINDTODEVICE => match options.bound_device {
            None => Value::new(),
            Some(index) => {
                let net = call.host.stack(network);
                let name = net.interfaces.by_index(index).map(|n| &net.interfaces[n].name);
                name.map_or("", |name| &**name).bytes().chain([0]).collect()
            }
        },
        c::SO_RCVBUF => int(receive_buffer(call, key) as i32),
        c::SO_SNDBUF => int(send_buffer(call, key) as i32),
        c::SO_DEBUG
        | c::SO_ZEROCOPY
        | c::SO_BUSY_POLL
        | c::SO_INCOMING_CPU
        | c::SO_NO_CHECK
        | c::SO_RXQ_OVFL
        | c::SO_PASSSEC
        | c::SO_SELECT_ERR_QUEUE
        | c::SO_MAX_PACING_RATE
        | c::SO_NOFCS
        | c::SO_PREFER_BUSY_POLL
        | c::SO_WIFI_STATUS
        | SO_BUF_LOCK
        | SO_RCVMARK
        | SO_TXREHASH
        | c::SO_PEEK_OFF => {
            let unset = match name {
                c::SO_PEEK_OFF | c::SO_MAX_PACING_RATE | c::SO_INCOMING_CPU => -1,
                SO_TXREHASH => 1,
                _ => 0,
            };
            int(options.kept.iter().find(|(kept, _)| *kept == name).map_or(unset, |(_, value)| *value))
        }
        c::SO_LOCK_FILTER => flag(options.filter_locked),
        c::SO_BINDTOIFINDEX => int(options.bound_device.map_or(0, |index| index as i32)),
        c::SO_BPF_EXTENSIONS => int(BPF_EXTENSIONS),
        c::SO_BSDCOMPAT | c::SO_INCOMING_NAPI_ID => int(0),
        c::SO_COOKIE => structure(&u64::from(socket.serial)),
        _ => return Err(Errno::ENOPROTOOPT),
    })
}

fn take_error(call: &mut Call<'_>, key: SocketKey) -> i32 {
    let socket = call.host.socket(key);
    if let Err(errno) = socket.take_error() {
        return i32::from(errno.0);
    }
    let SocketKind::Tcp(tcp) = &mut socket.kind else { return 0 };
    let error = tcp.connection().and_then(|connection| connection.take_any_error());
    if error.is_some() {
        call.host.stack_of_mut(key).tcp_pump(key);
    }
    error.map_or(0, |error| i32::from(errno(error).0))
}

/// Effective receive buffer in bytes; connections tune it automatically unless the program has set it.
fn receive_buffer(call: &mut Call<'_>, key: SocketKey) -> u32 {
    let socket = call.host.socket(key);
    match &mut socket.kind {
        SocketKind::Tcp(tcp) => {
            tcp.connection().map_or(socket.options.receive_buffer, |connection| connection.receive_buffer())
        }
        _ => socket.options.receive_buffer,
    }
}

fn send_buffer(call: &mut Call<'_>, key: SocketKey) -> u32 {
    let socket = call.host.socket(key);
    match &mut socket.kind {
        SocketKind::Tcp(tcp) => {
            tcp.connection().map_or(socket.options.send_buffer, |connection| connection.send_buffer())
        }
        _ => socket.options.send_buffer,
    }
}

/// `SO_PEERCRED`: pid 0 and invalid ids for a socket outside `AF_UNIX`.
fn peer_credentials(call: &mut Call<'_>, key: SocketKey) -> Result<Value, Errno> {
    let nobody = Ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    if call.host.socket(key).domain != c::AF_UNIX {
        return Ok(structure(&nobody));
    }
    let (pid, uid, gid) = unix::peer_credentials(call.host, key)?;
    let (pid, uid, gid) = call.host.processes.shown_credentials(call.process, (pid, uid, gid));
    Ok(structure(&Ucred { pid, uid, gid }))
}
