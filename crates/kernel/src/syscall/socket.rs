//! Calls that create, name and connect sockets: `socket`, `bind`, `connect` and others.

use super::socket_io::wait;
use crate::call::Call;
use crate::credentials::capability;
use crate::ids::{FileKey, SocketKey};
use crate::net::message::{Attempt, RawAddress};
use crate::net::{operations, unix};
use crate::outcome::{CallState, SysResult, done};
use belljar_linux_abi::landlock::{ACCESS_NET_BIND_TCP, ACCESS_NET_CONNECT_TCP};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::namespaces::NamespaceKind;

/// `sizeof(struct sockaddr_storage)`.
const SOCKADDR_MAX: usize = 128;

/// Socket of a descriptor argument.
pub(super) struct Target {
    /// Key of the socket.
    pub key: SocketKey,
    /// True if the call must not wait (`O_NONBLOCK`).
    pub nonblocking: bool,
}

impl Target {
    /// Decodes descriptor argument 0: `EBADF` if it is not open, `ENOTSOCK` if it is not a socket.
    pub(super) fn of(call: &mut Call<'_>) -> Result<Target, Errno> {
        let file = call.host.file_of(call.process, call.int(0))?;
        let open = call.host.files.open(file);
        if open.flags & c::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        let FileKind::Socket(key) = open.kind else { return Err(Errno::ENOTSOCK) };
        let nonblocking = open.is_nonblocking();
        Ok(Target { key, nonblocking })
    }
}

/// Reads a `struct sockaddr` argument. `EINVAL` for an invalid length; the address itself is not checked.
pub(super) fn read_address(call: &Call<'_>, addr: u64, len: i32) -> Result<RawAddress, Errno> {
    let len = usize::try_from(len).ok().filter(|len| *len <= SOCKADDR_MAX).ok_or(Errno::EINVAL)?;
    let mut name = RawAddress::from_elem(0, len);
    call.read_bytes(addr, &mut name)?;
    Ok(name)
}

/// Stores an address as `accept(2)` does: truncated to the length given by the caller, which is replaced by
/// the true length.
pub(super) fn write_address(call: &mut Call<'_>, addr: u64, len_addr: u64, name: &[u8]) -> Result<(), Errno> {
    let room: i32 = call.read(len_addr)?;
    let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
    call.write_bytes(addr, &name[..name.len().min(room)])?;
    call.write(len_addr, &(name.len() as i32))
}

/// Splits the type argument into the socket type, open flags and close-on-exec. `EINVAL` for unknown flags.
fn split_type(type_: i32) -> Result<(i32, i32, bool), Errno> {
    let flags = type_ & !0xf;
    if flags & !(c::SOCK_CLOEXEC | c::SOCK_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let open_flags = c::O_RDWR | if flags & c::SOCK_NONBLOCK != 0 { c::O_NONBLOCK } else { 0 };
    Ok((type_ & 0xf, open_flags, flags & c::SOCK_CLOEXEC != 0))
}

/// Opens a new socket as a file owned by the caller.
fn open_own(call: &mut Call<'_>, key: SocketKey, flags: i32) -> FileKey {
    let uid = call.host.process(call.process).credentials.fsuid;
    call.host.socket(key).uid = uid;
    let file = call.host.files.open_file(FileKind::Socket(key), flags);
    call.host.own_unnamed(call.process, file);
    file
}

/// `socket(2)`.
pub fn sys_socket(call: &mut Call<'_>) -> SysResult {
    let (type_, open_flags, cloexec) = split_type(call.int(1))?;
    let by_hand = call.int(0) == c::AF_PACKET
        || matches!(call.int(0), c::AF_INET | c::AF_INET6) && type_ == c::SOCK_RAW;
    if by_hand {
        call.host.processes.require_for(call.process, NamespaceKind::Net, capability::NET_RAW)?;
    }
    let key = operations::create(call.host, call.network(), (call.int(0), type_, call.int(2)))?;
    let file = open_own(call, key, open_flags);
    call.host.install_fd(call.process, file, cloexec, 0).and_then(done)
}

/// `socketpair(2)`: supports UNIX sockets only, as on Linux.
pub fn sys_socketpair(call: &mut Call<'_>) -> SysResult {
    let (type_, open_flags, cloexec) = split_type(call.int(1))?;
    if call.int(0) != c::AF_UNIX {
        // Linux creates the sockets before it fails.
        if matches!(call.int(0), c::AF_INET | c::AF_INET6) {
            let key = operations::create(call.host, call.network(), (call.int(0), type_, call.int(2)))?;
            call.host.close_socket(key);
        }
        let known = matches!(call.int(0), c::AF_INET | c::AF_INET6 | c::AF_NETLINK);
        return Err(if known { Errno::EOPNOTSUPP } else { Errno::EAFNOSUPPORT });
    }
    // The descriptor limit is checked before the sockets are created.
    check_descriptors_available(call, 2)?;
    let (a, b) = unix::create_pair(call, type_, call.int(2))?;
    let first = open_own(call, a, open_flags);
    let second = open_own(call, b, open_flags);
    let fd_a = match call.host.install_fd(call.process, first, cloexec, 0) {
        Ok(fd) => fd,
        Err(errno) => {
            call.host.release_file(second);
            return Err(errno);
        }
    };
    let stored = call.host.install_fd(call.process, second, cloexec, 0).and_then(|fd_b| {
        let fds = [fd_a as i32, fd_b as i32];
        call.write(call.args[3], &fds).inspect_err(|_| close_descriptor(call, fds[1]))
    });
    if let Err(errno) = stored {
        close_descriptor(call, fd_a as i32);
        return Err(errno);
    }
    done(0)
}

/// Closes a descriptor that the call has just allocated.
fn close_descriptor(call: &mut Call<'_>, fd: i32) {
    let Some(table) = call.host.process(call.process).fds else { return };
    let entry = call.host.files.tables[table.0].entries.get_mut(fd as usize).and_then(Option::take);
    if let Some(entry) = entry {
        call.host.release_file(entry.file);
    }
}

/// `EMFILE` if the process has reached its descriptor limit.
pub(super) fn check_descriptor_available(call: &mut Call<'_>) -> Result<(), Errno> {
    check_descriptors_available(call, 1)
}

fn check_descriptors_available(call: &mut Call<'_>, count: usize) -> Result<(), Errno> {
    let process = call.host.process(call.process);
    let limit = process.rlimits[c::RLIMIT_NOFILE as usize].soft as usize;
    let table = process.fds.ok_or(Errno::EMFILE)?;
    let entries = &call.host.files.tables[table.0].entries;
    let behind = limit.saturating_sub(entries.len());
    let gaps = entries.iter().take(limit).filter(|entry| entry.is_none());
    if behind >= count || behind + gaps.take(count).count() >= count { Ok(()) } else { Err(Errno::EMFILE) }
}

/// `bind(2)`.
pub fn sys_bind(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let name = read_address(call, call.args[1], call.int(2))?;
    call.check_restricted_port(target.key, &name, ACCESS_NET_BIND_TCP)?;
    operations::bind(call, target.key, &name)?;
    done(0)
}

/// `connect(2)`.
pub fn sys_connect(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let name = read_address(call, call.args[1], call.int(2))?;
    call.check_restricted_port(target.key, &name, ACCESS_NET_CONNECT_TCP)?;
    let again = call.resumed.is_some();
    let (is_unix, queue, timeout) = {
        let socket = call.host.socket(target.key);
        (socket.domain == c::AF_UNIX, target.key.into(), socket.options.send_timeout)
    };
    let would_wait = if is_unix { Errno::EAGAIN } else { Errno::EINPROGRESS };
    let queue = match operations::connect(call, target.key, &name, again) {
        Ok(Attempt::Done(())) => return done(0),
        Ok(Attempt::Wait(queue)) if !target.nonblocking => queue,
        // Handshake started by another call: a blocking call waits for it.
        Err(Errno::EALREADY) if !target.nonblocking => queue,
        Ok(Attempt::Wait(_)) => return Err(would_wait),
        Err(errno) => return Err(errno),
    };
    wait(call, queue, timeout, would_wait, CallState::Deadline)
}

/// `listen(2)`.
pub fn sys_listen(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    // The backlog is unsigned and limited to net.core.somaxconn: a negative one means the maximum.
    let backlog = (call.int(1) as u32).min(call.host.stack_of(target.key).sysctls.somaxconn);
    operations::listen(call, target.key, backlog as usize)?;
    done(0)
}

/// `accept(2)`.
pub fn sys_accept(call: &mut Call<'_>) -> SysResult {
    accept(call, 0)
}

/// `accept4(2)`.
pub fn sys_accept4(call: &mut Call<'_>) -> SysResult {
    accept(call, call.int(3))
}

fn accept(call: &mut Call<'_>, flags: i32) -> SysResult {
    call.host.file_of(call.process, call.int(0))?;
    if flags & !(c::SOCK_CLOEXEC | c::SOCK_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let target = Target::of(call)?;
    let (_, open_flags, cloexec) = split_type(flags)?;
    // The descriptor limit is checked first, so that no connection is lost.
    check_descriptor_available(call)?;
    let key = match operations::accept(call, target.key, !target.nonblocking)? {
        Attempt::Done(key) => key,
        Attempt::Wait(_) if target.nonblocking => return Err(Errno::EAGAIN),
        Attempt::Wait(queue) => {
            let timeout = call.host.socket(target.key).options.receive_timeout;
            return wait(call, queue, timeout, Errno::EAGAIN, CallState::Deadline);
        }
    };
    let file = open_own(call, key, open_flags);
    if call.args[1] != 0 {
        let stored = call
            .host
            .socket_accepted_name(key)
            .and_then(|name| write_address(call, call.args[1], call.args[2], &name));
        if let Err(errno) = stored {
            call.host.release_file(file);
            return Err(errno);
        }
    }
    call.host.install_fd(call.process, file, cloexec, 0).and_then(done)
}

/// `getsockname(2)`.
pub fn sys_getsockname(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let name = call.host.socket_local_name(target.key)?;
    write_address(call, call.args[1], call.args[2], &name)?;
    done(0)
}

/// `getpeername(2)`.
pub fn sys_getpeername(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let name = call.host.socket_peer_name(target.key)?;
    write_address(call, call.args[1], call.args[2], &name)?;
    done(0)
}

/// `shutdown(2)`.
pub fn sys_shutdown(call: &mut Call<'_>) -> SysResult {
    let target = Target::of(call)?;
    let how = call.int(1);
    if !matches!(how, c::SHUT_RD | c::SHUT_WR | c::SHUT_RDWR) {
        return Err(Errno::EINVAL);
    }
    operations::shutdown(call, target.key, how)?;
    done(0)
}
