//! TCP sockets of the hosts that have data to send without a pause, by sock_diag(7).
//!
//! Two processors that carry one flow leave each other pauses: the receiver's waits for data and the sender's
//! for acknowledgements, so usage alone shows neither as saturated. The sockets show that data waited all the
//! time. The kernel adds up for each socket how long its queue was not empty (`tcpi_busy_time`).

use crate::clock::monotonic_ns;
use crate::error::{Doing, Result};
use belljar_base::Map;
use belljar_packetio::Namespace;
use netlink_sys::protocols::NETLINK_SOCK_DIAG;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::os::fd::BorrowedFd;

/// Share of a window from which on a socket that had data counts as one that always had.
const ALWAYS: f64 = 0.9;
/// `SOCK_DIAG_BY_FAMILY`, and the flags `NLM_F_REQUEST | NLM_F_DUMP`.
const BY_FAMILY: u16 = 20;
const DUMP: u16 = 0x301;
/// `INET_DIAG_INFO`: `struct tcp_info`.
const INFO: u16 = 2;
const IPPROTO_TCP: u8 = 6;
/// States of sockets that send: `TCP_ESTABLISHED` and `TCP_CLOSE_WAIT`.
const SENDING: u32 = 1 << 1 | 1 << 8;
/// Lengths of `struct nlmsghdr`, `inet_diag_req_v2` and `inet_diag_msg`; offset of the cookie in the last.
const HEADER: usize = 16;
const REQUEST: usize = 56;
const MESSAGE: usize = 72;
const COOKIE: usize = 44;
/// Offsets in `struct tcp_info`.
const DATA_SEGS_OUT: usize = 156;
const BUSY_TIME: usize = 168;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Counts of a socket since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Time for which data was queued or unacknowledged, in microseconds.
    busy_us: u64,
    /// Segments with data.
    segments: u32,
}

/// Sockets of all hosts, by host and cookie.
type Sockets = Map<(usize, u64), Counts>;

/// TCP sockets of the hosts.
#[derive(Default)]
pub struct Senders {
    /// Connections to the namespaces of the hosts; none if the kernel has no statistics of sockets.
    hosts: Vec<Socket>,
    families: &'static [u8],
    seen: Sockets,
    /// Time of the last sample.
    last: u64,
}

impl Senders {
    /// Opens connections in these namespaces.
    pub fn open<'a>(namespaces: impl Iterator<Item = BorrowedFd<'a>>, has_ipv6: bool) -> Result<Senders> {
        let open = || {
            let mut socket = Socket::new(NETLINK_SOCK_DIAG)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            Ok(socket)
        };
        let connect = |namespace| -> Result<Socket> {
            let opened: io::Result<Socket> = Namespace::Fd(namespace).run(|| Ok(open()))?;
            opened.doing("opening a netlink socket")
        };
        let hosts = namespaces.map(connect).collect::<Result<_>>()?;
        let families: &[u8] = if has_ipv6 { &[2, 10] } else { &[2] };
        Ok(Senders { hosts, families, ..Senders::default() })
    }

    /// Samples the sockets. Returns the segments per second that those sockets sent which have had data since
    /// the last sample without a pause.
    pub fn sample(&mut self) -> f64 {
        let now = monotonic_ns();
        let mut found = Sockets::new();
        for (host, socket) in self.hosts.iter().enumerate() {
            for family in self.families {
                if ask(socket, *family, host, &mut found).is_err() {
                    // Without the kernel's part for TCP sockets.
                    *self = Senders::default();
                    return 0.0;
                }
            }
        }
        let passed = now.saturating_sub(std::mem::replace(&mut self.last, now));
        let rate = pressing(&self.seen, &found, passed);
        self.seen = found;
        rate
    }
}

/// Segments per second of the sockets that have had data all the time between two samples, `ns` apart.
fn pressing(before: &Sockets, now: &Sockets, ns: u64) -> f64 {
    let mut segments = 0;
    for (socket, counts) in now {
        let Some(before) = before.get(socket) else { continue };
        let busy_us = counts.busy_us.saturating_sub(before.busy_us);
        if busy_us as f64 * 1e3 >= ALWAYS * ns as f64 {
            segments += u64::from(counts.segments.wrapping_sub(before.segments));
        }
    }
    segments as f64 * 1e9 / ns.max(1) as f64
}

/// Adds the sockets of a host and family.
fn ask(socket: &Socket, family: u8, host: usize, found: &mut Sockets) -> io::Result<()> {
    socket.send(&request(family), 0)?;
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        if read(&bytes, host, found)? {
            return Ok(());
        }
    }
}

/// Request for all TCP sockets of a family that may send.
fn request(family: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((HEADER + REQUEST) as u32).to_ne_bytes());
    bytes.extend(BY_FAMILY.to_ne_bytes());
    bytes.extend(DUMP.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([family, IPPROTO_TCP, 1 << (INFO - 1), 0]);
    bytes.extend(SENDING.to_ne_bytes());
    bytes.resize(HEADER + REQUEST, 0);
    bytes
}

/// Reads a datagram of a dump; true if it is the last one.
fn read(mut rest: &[u8], host: usize, found: &mut Sockets) -> io::Result<bool> {
    while rest.len() >= HEADER {
        let length = number::<4>(rest, 0) as usize;
        let kind = number::<2>(rest, 4) as u16;
        if !(HEADER..=rest.len()).contains(&length) {
            break;
        }
        let body = &rest[HEADER..length];
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        match kind {
            DONE => return Ok(true),
            ERROR => return Err(io::Error::from_raw_os_error(-(number::<4>(body, 0) as i32))),
            BY_FAMILY if body.len() >= MESSAGE => {
                if let Some(counts) = counts(&body[MESSAGE..]) {
                    found.insert((host, number::<8>(body, COOKIE)), counts);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// Counts in the attributes of a message; none from a kernel whose `struct tcp_info` is shorter.
fn counts(mut attributes: &[u8]) -> Option<Counts> {
    while attributes.len() >= 4 {
        let length = number::<2>(attributes, 0) as usize;
        if !(4..=attributes.len()).contains(&length) {
            return None;
        }
        let value = &attributes[4..length];
        if number::<2>(attributes, 2) as u16 == INFO && value.len() >= BUSY_TIME + 8 {
            return Some(Counts {
                busy_us: number::<8>(value, BUSY_TIME),
                segments: number::<4>(value, DATA_SEGS_OUT) as u32,
            });
        }
        attributes = &attributes[length.next_multiple_of(4).min(attributes.len())..];
    }
    None
}

/// Number of `N` bytes at an offset; 0 beyond the end.
fn number<const N: usize>(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    if let Some(found) = bytes.get(at..at + N) {
        value[..N].copy_from_slice(found);
    }
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests;
