//! UNIX sockets through their system calls.

use crate::testing::{Answer, DATA, TestHost};
use belljar_linux_abi::{Errno, c};

const STREAM: u64 = c::SOCK_STREAM as u64;
const DGRAM: u64 = c::SOCK_DGRAM as u64;
const PACKET: u64 = c::SOCK_SEQPACKET as u64;
const NONBLOCK: u64 = c::SOCK_NONBLOCK as u64;
const UNIX: u64 = c::AF_UNIX as u64;
const BUFFER: u64 = DATA + 0x40000;

fn socket(t: &mut TestHost, type_: u64) -> u64 {
    t.call(c::SYS_socket, &[UNIX, type_, 0]).expect("a socket")
}
fn pair(t: &mut TestHost, type_: u64) -> (u64, u64) {
    t.call(c::SYS_socketpair, &[UNIX, type_, 0, DATA]).expect("a pair");
    t.pair(0)
}
/// Stores a `struct sockaddr_un`; returns its address and length.
fn name(t: &mut TestHost, path: &[u8]) -> (u64, u64) {
    let raw = [&[1, 0], path].concat();
    (t.put(0x1000, &raw), raw.len() as u64)
}
fn bind(t: &mut TestHost, fd: u64, path: &[u8]) -> Result<u64, Errno> {
    let (at, len) = name(t, path);
    t.call(c::SYS_bind, &[fd, at, len])
}
fn connect(t: &mut TestHost, fd: u64, path: &[u8]) -> Result<u64, Errno> {
    let (at, len) = name(t, path);
    t.call(c::SYS_connect, &[fd, at, len])
}
fn send(t: &mut TestHost, fd: u64, data: &[u8], flags: i32) -> Result<u64, Errno> {
    let at = t.put(0x2000, data);
    t.call(c::SYS_sendto, &[fd, at, data.len() as u64, (flags | c::MSG_NOSIGNAL) as u64, 0, 0])
}
fn receive(t: &mut TestHost, fd: u64, room: u64, flags: i32) -> Result<Vec<u8>, Errno> {
    let n = t.call(c::SYS_recvfrom, &[fd, BUFFER, room, flags as u64, 0, 0])?;
    Ok(t.get(0x40000, (n as usize).min(room as usize)))
}
fn poll(t: &mut TestHost, fd: u64) -> i16 {
    let entry = [&(fd as i32).to_le_bytes()[..], &0x2fffu16.to_le_bytes(), &[0, 0]].concat();
    let at = t.put(0x1100, &entry);
    t.call(c::SYS_poll, &[at, 1, 0]).expect("polled");
    i16::from_le_bytes(t.get(0x1106, 2).try_into().expect("two bytes"))
}
/// Listening socket bound to an abstract name.
fn listener(t: &mut TestHost, type_: u64, backlog: u64) -> u64 {
    let fd = socket(t, type_);
    bind(t, fd, b"\0service").expect("bound");
    t.call(c::SYS_listen, &[fd, backlog]).expect("listening");
    fd
}

#[test]
fn a_stream_joins_pieces_and_ends() {
    let mut t = TestHost::new(2);
    let (a, b) = pair(&mut t, STREAM);
    send(&mut t, a, b"hello ", 0).expect("sent");
    send(&mut t, a, b"world", 0).expect("sent");
    assert_eq!(receive(&mut t, b, 8, c::MSG_PEEK).as_deref(), Ok(&b"hello wo"[..]));
    assert_eq!(receive(&mut t, b, 8, 0).as_deref(), Ok(&b"hello wo"[..]));
    assert_eq!(receive(&mut t, b, 8, 0).as_deref(), Ok(&b"rld"[..]));
    assert_eq!(receive(&mut t, b, 8, c::MSG_DONTWAIT), Err(Errno::EAGAIN));
    assert_eq!(t.attempt(1, c::SYS_recvfrom, &[b, BUFFER, 8, 0, 0, 0]), Answer::Blocked);
    t.call(c::SYS_shutdown, &[a, c::SHUT_WR as u64]).expect("shut");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(0)));
    send(&mut t, b, b"still", 0).expect("the other direction is open");
    t.call(c::SYS_close, &[a]).expect("closed");
    assert_eq!(receive(&mut t, b, 8, 0), Err(Errno::ECONNRESET), "it left something unread");
    assert_eq!(send(&mut t, b, b"x", 0), Err(Errno::EPIPE));
}

#[test]
fn datagrams_keep_their_bounds_and_are_cut() {
    let mut t = TestHost::new(1);
    let (a, b) = pair(&mut t, DGRAM | NONBLOCK);
    send(&mut t, a, b"first", 0).expect("sent");
    send(&mut t, a, b"", 0).expect("sent");
    send(&mut t, a, b"third", 0).expect("sent");
    assert_eq!(t.call(c::SYS_recvfrom, &[b, BUFFER, 2, c::MSG_TRUNC as u64, 0, 0]), Ok(5));
    assert_eq!(receive(&mut t, b, 8, 0).as_deref(), Ok(&b""[..]));
    assert_eq!(receive(&mut t, b, 8, 0).as_deref(), Ok(&b"third"[..]));
    assert_eq!(receive(&mut t, b, 8, 0), Err(Errno::EAGAIN));
    t.call(c::SYS_close, &[b]).expect("closed");
    assert_eq!(send(&mut t, a, b"x", 0), Err(Errno::ECONNREFUSED));
    assert_eq!(send(&mut t, a, b"x", 0), Err(Errno::ENOTCONN));
}

#[test]
fn connections_queue_up_to_the_backlog() {
    let mut t = TestHost::new(2);
    let server = listener(&mut t, STREAM, 1);
    let clients: Vec<u64> = (0..3).map(|_| socket(&mut t, STREAM)).collect();
    for client in &clients[..2] {
        assert_eq!(connect(&mut t, *client, b"\0service"), Ok(0));
    }
    let (at, len) = name(&mut t, b"\0service");
    assert_eq!(t.attempt(1, c::SYS_connect, &[clients[2], at, len]), Answer::Blocked);
    assert_eq!(poll(&mut t, server), (c::POLLIN | c::POLLRDNORM));
    let accepted = t.call(c::SYS_accept, &[server, 0, 0]).expect("a connection");
    assert_eq!(t.go_on(1), Answer::Ended(Ok(0)));
    send(&mut t, clients[0], b"first come", 0).expect("sent");
    assert_eq!(receive(&mut t, accepted, 20, 0).as_deref(), Ok(&b"first come"[..]));
    t.call(c::SYS_accept, &[server, 0, 0]).expect("the next connection");
    assert_eq!(connect(&mut t, clients[0], b"\0service"), Err(Errno::EISCONN));
    let other = socket(&mut t, PACKET);
    assert_eq!(connect(&mut t, other, b"\0service"), Err(Errno::ECONNREFUSED), "a name of another type");
    t.call(c::SYS_close, &[server]).expect("closed");
    assert_eq!(receive(&mut t, clients[2], 8, 0), Err(Errno::ECONNRESET), "never accepted");
    let late = socket(&mut t, STREAM);
    assert_eq!(connect(&mut t, late, b"\0service"), Err(Errno::ECONNREFUSED));
}

#[test]
fn paths_are_entries_in_the_tree_that_outlive_their_sockets() {
    let mut t = TestHost::new(1);
    let fd = socket(&mut t, DGRAM);
    bind(&mut t, fd, b"/tmp/s\0").expect("bound");
    let other = socket(&mut t, DGRAM);
    assert_eq!(bind(&mut t, other, b"/tmp/s\0"), Err(Errno::EADDRINUSE));
    assert_eq!(connect(&mut t, other, b"/tmp/none\0"), Err(Errno::ENOENT));
    assert_eq!(connect(&mut t, other, b"s"), Ok(0), "relative to the working directory");
    let len = t.put(0x1200, &128u32.to_le_bytes());
    t.call(c::SYS_getpeername, &[other, DATA + 0x1300, len]).expect("a name");
    assert_eq!(t.get(0x1300, 9), b"\x01\0/tmp/s\0");
    assert_eq!(t.get(0x1200, 4), 9u32.to_le_bytes());
    let stream = socket(&mut t, STREAM);
    assert_eq!(connect(&mut t, stream, b"/tmp/s\0"), Err(Errno::EPROTOTYPE));
    t.call(c::SYS_close, &[fd]).expect("closed");
    let third = socket(&mut t, DGRAM);
    assert_eq!(connect(&mut t, third, b"/tmp/s\0"), Err(Errno::ECONNREFUSED));
}

#[test]
fn a_bound_socket_without_a_name_gets_one() {
    let mut t = TestHost::new(1);
    let fd = socket(&mut t, STREAM);
    assert_eq!(bind(&mut t, fd, b""), Ok(0));
    let len = t.put(0x1200, &128u32.to_le_bytes());
    t.call(c::SYS_getsockname, &[fd, DATA + 0x1300, len]).expect("a name");
    assert_eq!(t.get(0x1300, 8), b"\x01\0\x0000000");
    assert_eq!(t.get(0x1200, 4), 8u32.to_le_bytes());
}

#[test]
fn a_full_send_buffer_makes_the_writer_wait_for_the_reader() {
    let mut t = TestHost::new(2);
    let (a, b) = pair(&mut t, STREAM);
    let len = 400_000;
    assert_eq!(t.attempt(1, c::SYS_write, &[a, DATA + 0x80000, len]), Answer::Blocked);
    assert_eq!(poll(&mut t, a) & c::POLLOUT, 0);
    let (mut read, mut answer) = (0, Answer::Blocked);
    while read < len {
        read += receive(&mut t, b, 100_000, 0).expect("bytes").len() as u64;
        if answer == Answer::Blocked {
            answer = t.go_on(1);
        }
    }
    assert_eq!(answer, Answer::Ended(Ok(len)));
    assert_ne!(poll(&mut t, a) & c::POLLOUT, 0);
}

/// Sends one byte with `SCM_RIGHTS` descriptors.
fn send_files(t: &mut TestHost, fd: u64, files: &[u64]) -> Result<u64, Errno> {
    let mut control = (16 + 4 * files.len() as u64).to_le_bytes().to_vec();
    control.extend(c::SOL_SOCKET.to_le_bytes());
    control.extend(c::SCM_RIGHTS.to_le_bytes());
    files.iter().for_each(|file| control.extend((*file as i32).to_le_bytes()));
    let control_at = t.put(0x3000, &control);
    let buffer = t.put(0x3200, b"x");
    let iov = t.put(0x3300, &[buffer, 1].map(u64::to_le_bytes).concat());
    let header = [0, 0, iov, 1, control_at, control.len() as u64, 0].map(u64::to_le_bytes).concat();
    let at = t.put(0x3400, &header);
    t.call(c::SYS_sendmsg, &[fd, at, 0])
}
/// Receives with `room` bytes for control messages; returns the bytes read, the control bytes and the flags.
fn receive_files(t: &mut TestHost, fd: u64, room: u64) -> (u64, Vec<u8>, i32) {
    let iov = t.put(0x3300, &[BUFFER, 16].map(u64::to_le_bytes).concat());
    let at = t.put(0x3400, &[0, 0, iov, 1, DATA + 0x3600, room, 0].map(u64::to_le_bytes).concat());
    let n = t.call(c::SYS_recvmsg, &[fd, at, 0]).expect("a message");
    let len = u64::from_le_bytes(t.get(0x3428, 8).try_into().expect("eight bytes"));
    let flags = i32::from_le_bytes(t.get(0x3430, 4).try_into().expect("four bytes"));
    (n, t.get(0x3600, len as usize), flags)
}

#[test]
fn open_files_travel_and_stay_open_on_the_way() {
    let mut t = TestHost::new(1);
    let (a, b) = pair(&mut t, STREAM);
    t.call(c::SYS_pipe2, &[DATA, 0]).expect("a pipe");
    let (reader, writer) = t.pair(0);
    t.call(c::SYS_write, &[writer, DATA, 3]).expect("written");
    send_files(&mut t, a, &[reader, writer]).expect("sent");
    t.call(c::SYS_close, &[reader]).expect("closed");
    t.call(c::SYS_close, &[writer]).expect("closed");
    send(&mut t, a, b"later", 0).expect("sent");
    let (n, control, flags) = receive_files(&mut t, b, 64);
    assert_eq!((n, flags), (1, 0), "a read ends behind the files");
    let received = i32::from_le_bytes(control[16..20].try_into().expect("four bytes")) as u64;
    assert_eq!(t.call(c::SYS_read, &[received, BUFFER, 8]), Ok(3));
    let second = i32::from_le_bytes(control[20..24].try_into().expect("four bytes")) as u64;
    t.call(c::SYS_close, &[second]).expect("closed");
    assert_eq!(t.call(c::SYS_read, &[received, BUFFER, 8]), Ok(0), "no reference is left over");

    send_files(&mut t, a, &[received, received]).expect("sent");
    receive(&mut t, b, 5, 0).expect("the bytes before");
    let (_, control, flags) = receive_files(&mut t, b, 20);
    assert_eq!((control.len(), flags), (20, c::MSG_CTRUNC), "one of them fits");
    assert_eq!(send_files(&mut t, a, &[99]), Err(Errno::EBADF));
    send_files(&mut t, a, &[received]).expect("sent");
    let open = t.host.files.open.len();
    t.call(c::SYS_close, &[b]).expect("closed");
    t.call(c::SYS_close, &[a]).expect("closed");
    assert_eq!(t.host.files.open.len(), open - 2);
    assert!(t.host.net.sockets.is_empty());
}

#[test]
fn readiness_is_that_of_linux() {
    let mut t = TestHost::new(1);
    let out = c::POLLOUT | c::POLLWRNORM | c::POLLWRBAND;
    let fresh = socket(&mut t, STREAM);
    assert_eq!(poll(&mut t, fresh), out | c::POLLHUP);
    let (a, b) = pair(&mut t, STREAM);
    assert_eq!(poll(&mut t, a), out);
    t.call(c::SYS_shutdown, &[b, c::SHUT_WR as u64]).expect("shut");
    let read_hang_up = 0x2000 | c::POLLIN | c::POLLRDNORM;
    assert_eq!(poll(&mut t, a), out | read_hang_up);
    t.call(c::SYS_close, &[b]).expect("closed");
    assert_eq!(poll(&mut t, a), out | read_hang_up | c::POLLHUP);
}
