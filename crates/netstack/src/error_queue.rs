//! Error queues (`MSG_ERRQUEUE`): ICMP errors for packets that a socket sent (`IP_RECVERR`), and completion
//! notifications of its zero-copy sends (`MSG_ZEROCOPY`).

use super::send_charge::charge;
use super::timestamps::SentStamp;
use super::zero_copy::CompletedSends;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Upper bound of a path MTU (`IP_MAX_MTU`).
pub(crate) const MTU_MAX: usize = 65_535;
/// Length of the IP and ICMP headers of an error and of the headers that it quotes, in bytes.
const HEADERS: usize = 56;

/// An ICMP error, or a local error of this host.
#[derive(Debug)]
pub struct QueuedError {
    /// The error's errno.
    pub errno: Errno,
    /// ICMP type and code.
    pub icmp: (u8, u8),
    /// The MTU reported by a router, or 0.
    pub extra: u32,
    /// Time at which the error arrived.
    pub arrived: SimTime,
    /// Sender of the error; `None` for this host, which rejects a datagram larger than the path MTU.
    pub offender: Option<IpAddr>,
    /// Destination of the datagram.
    pub destination: SocketAddr,
    /// Quoted payload: the part of the packet that the error quotes after the protocol's header.
    pub quoted: Vec<u8>,
}

impl QueuedError {
    fn charge(&self) -> u32 {
        charge(HEADERS + self.quoted.len())
    }
}

/// True if an error is reported to the calls of a connected socket without `IP_RECVERR` (`icmp_err_convert`
/// of Linux).
pub fn is_hard(errno: Errno, (kind, code): (u8, u8), v4: bool) -> bool {
    const UNREACHABLE: u8 = 3;
    const PARAMETER_PROBLEM: u8 = 12;
    match kind {
        UNREACHABLE if v4 => matches!(code, 2..=4 | 6..=10 | 13..=15),
        kind if v4 => kind == PARAMETER_PROBLEM,
        _ => matches!(errno, Errno::ECONNREFUSED | Errno::EACCES | Errno::EPROTO | Errno::EMSGSIZE),
    }
}

/// An entry of an error queue.
#[derive(Debug)]
pub enum ErrorReport {
    /// An ICMP or local error.
    Icmp(QueuedError),
    /// Completed zero-copy sends.
    Sent(CompletedSends),
    /// Timestamp of a sent packet.
    Stamp(Box<SentStamp>),
}

impl ErrorReport {
    /// The error that the entry reports to the next call; `None` for local errors and completed sends.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            ErrorReport::Icmp(error) if error.offender.is_some() => Some(error.errno),
            _ => None,
        }
    }
}

/// A socket's error queue, the oldest entry first. ICMP errors are charged to its receive buffer.
#[derive(Debug, Default)]
pub struct ErrorQueue(VecDeque<ErrorReport>);

impl ErrorQueue {
    /// Queues an error. It is dropped if its charge and the `charged` bytes of the receive queue would reach
    /// the size `room` of the receive buffer (`sock_queue_err_skb`).
    pub fn push(&mut self, error: QueuedError, charged: &mut u32, room: u32) {
        let cost = error.charge();
        if charged.saturating_add(cost) < room {
            *charged += cost;
            self.0.push_back(ErrorReport::Icmp(error));
        }
    }

    /// Queues a timestamp, unless the receive buffer is full: see [`push`](Self::push).
    pub fn push_stamp(&mut self, stamp: SentStamp, charged: &mut u32, room: u32) {
        let cost = charge(stamp.frame.len());
        if charged.saturating_add(cost) < room {
            *charged += cost;
            self.0.push_back(ErrorReport::Stamp(Box::new(stamp)));
        }
    }

    /// Queues a notification of completed sends, or extends the newest one if it is contiguous
    /// (`skb_zerocopy_notify_extend`).
    pub fn tell(&mut self, told: CompletedSends) {
        let follows = match self.0.back_mut() {
            Some(ErrorReport::Sent(newest)) => newest.extend(&told),
            _ => false,
        };
        if !follows {
            self.0.push_back(ErrorReport::Sent(told));
        }
    }

    /// Removes the oldest entry. Returns it with the error of the next one, if that has one.
    pub fn pop(&mut self, charged: &mut u32) -> Option<(ErrorReport, Option<Errno>)> {
        let report = self.0.pop_front()?;
        *charged = charged.saturating_sub(match &report {
            ErrorReport::Icmp(error) => error.charge(),
            ErrorReport::Stamp(stamp) => charge(stamp.frame.len()),
            ErrorReport::Sent(_) => 0,
        });
        Some((report, self.0.front().and_then(ErrorReport::errno)))
    }

    /// Number of notifications of completed sends.
    pub fn told(&self) -> usize {
        self.0.iter().filter(|report| matches!(report, ErrorReport::Sent(_))).count()
    }

    /// True if the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn error(errno: Errno) -> QueuedError {
        let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
        QueuedError {
            errno,
            icmp: (3, 3),
            extra: 0,
            arrived: SimTime::ZERO,
            offender: Some(ip),
            destination: SocketAddr::new(ip, 9),
            quoted: vec![0; 100],
        }
    }

    #[test]
    fn errors_take_room_until_they_are_read() {
        let (mut queue, mut charged) = (ErrorQueue::default(), 500);
        for _ in 0..1_000 {
            queue.push(error(Errno::ECONNREFUSED), &mut charged, 10_000);
        }
        let held = queue.0.len();
        assert!(charged < 10_000 && charged + error(Errno::EPERM).charge() >= 10_000, "{charged}");
        assert_eq!(charged, 500 + held as u32 * error(Errno::EPERM).charge());
        queue.pop(&mut charged).expect("one");
        queue.push(error(Errno::EHOSTUNREACH), &mut charged, 10_000);
        assert_eq!(queue.0.len(), held);
        let mut next = None;
        while let Some((_, follows)) = queue.pop(&mut charged) {
            next = follows.or(next);
        }
        assert_eq!((charged, next, queue.is_empty()), (500, Some(Errno::EHOSTUNREACH), true));
    }
}
