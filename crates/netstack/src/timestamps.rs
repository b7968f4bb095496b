//! Timestamps of packets that sockets send and receive: `SO_TIMESTAMPING`, Linux's
//! `Documentation/networking/timestamping.rst`.
//!
//! A send that asks for timestamps has a [`StampRequest`], which is kept in [`StampRequests`] while its packet is in
//! transit. The packet carries the key of the request in its cookie, so packets without one cost nothing. Each
//! timestamp is reported on the socket's error queue as a [`SentStamp`].

use belljar_base::SimTime;
use belljar_linux_abi::{Errno, c};
use slab::Slab;
use std::collections::VecDeque;

/// `SOF_TIMESTAMPING_*`.
#[allow(missing_docs)]
pub mod flag {
    pub const TX_HARDWARE: u32 = 1;
    pub const TX_SOFTWARE: u32 = 1 << 1;
    pub const RX_HARDWARE: u32 = 1 << 2;
    pub const RX_SOFTWARE: u32 = 1 << 3;
    pub const SOFTWARE: u32 = 1 << 4;
    pub const RAW_HARDWARE: u32 = 1 << 6;
    pub const OPT_ID: u32 = 1 << 7;
    pub const TX_SCHED: u32 = 1 << 8;
    pub const TX_ACK: u32 = 1 << 9;
    pub const OPT_CMSG: u32 = 1 << 10;
    pub const OPT_TSONLY: u32 = 1 << 11;
    pub const OPT_STATS: u32 = 1 << 12;
    pub const OPT_PKTINFO: u32 = 1 << 13;
    pub const OPT_TX_SWHW: u32 = 1 << 14;
    pub const BIND_PHC: u32 = 1 << 15;
    pub const OPT_ID_TCP: u32 = 1 << 16;
    pub const OPT_RX_FILTER: u32 = 1 << 17;
    pub const TX_COMPLETION: u32 = 1 << 18;
    /// All flags.
    pub const ALL: u32 = (1 << 19) - 1;
    /// `SOF_TIMESTAMPING_TX_RECORD_MASK`: the flags that a control message may set for one send.
    pub const TX_RECORD: u32 = TX_HARDWARE | TX_SOFTWARE | TX_SCHED | TX_ACK | TX_COMPLETION;
    /// `SKBTX_ANY_TSTAMP`: the timestamps taken of a packet.
    pub const OF_PACKET: u32 = TX_HARDWARE | TX_SOFTWARE | TX_SCHED;
}
use flag::*;

/// `SCM_TSTAMP_*`: the event that a timestamp is of, in `ee_info`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StampEvent {
    /// `SCM_TSTAMP_SND`: the packet was passed to the adapter, or left it.
    Sent = 0,
    /// `SCM_TSTAMP_SCHED`: the packet was queued on the interface.
    Scheduled = 1,
    /// `SCM_TSTAMP_ACK`: the peer has acknowledged the bytes.
    Acknowledged = 2,
}

/// A timestamp of a sent packet on an error queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentStamp {
    /// The event.
    pub event: StampEvent,
    /// Identifier of the send in `ee_data`; 0 without `OPT_ID`.
    pub id: u32,
    /// Time by the system's clock in nanoseconds since 1970, or 0.
    pub software: i64,
    /// Time by the adapter's clock, or 0.
    pub hardware: i64,
    /// The frame; empty with `OPT_TSONLY`.
    pub frame: Vec<u8>,
    /// Number of the interface, if the frame is present.
    pub interface: Option<usize>,
}

/// `SO_TIMESTAMPING` of a socket.
#[derive(Clone, Debug, Default)]
pub struct Stamping {
    /// `SOF_TIMESTAMPING_*`.
    pub flags: u32,
    /// Identifier of the next send with `OPT_ID`. For TCP, position in the stream from which identifiers count.
    pub next_id: u64,
    /// Request of the datagram being sent.
    pub(crate) begun: Option<StampRequest>,
    /// Writes to a connection whose last byte is yet to be sent or acknowledged.
    pub(crate) writes: VecDeque<StampedWrite>,
    /// Received bytes of a connection that are not read yet.
    pub(crate) arrivals: StreamArrivals,
}

/// Times of arrival of the bytes of a connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamArrivals {
    /// Number of bytes read.
    read: u64,
    /// Number of bytes that had arrived with a segment, its time, and its timestamp by the adapter's clock.
    segments: VecDeque<(u64, SimTime, i64)>,
}

impl StreamArrivals {
    /// Records a segment, after which `readable` bytes can be read.
    pub fn received(&mut self, readable: usize, at: SimTime, hardware: i64) {
        let until = self.read + readable as u64;
        if until > self.segments.back().map_or(self.read, |(last, ..)| *last) {
            self.segments.push_back((until, at, hardware));
        }
    }
    /// Reads `n` bytes, or only looks at them; returns the times of the segment with the last of them.
    pub fn take(&mut self, n: usize, look: bool) -> Option<(SimTime, i64)> {
        let until = self.read + n as u64;
        let at = self.segments.iter().position(|(end, ..)| *end >= until);
        let found = at.map(|at| (self.segments[at].1, self.segments[at].2));
        if !look {
            self.read = until;
            let done = self.segments.iter().take_while(|(end, ..)| *end <= until).count();
            self.segments.drain(..done);
        }
        found
    }
}

/// Timestamps requested for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampRequest {
    /// The requested timestamps: [`OF_PACKET`].
    pub flags: u32,
    /// Identifier of the send.
    pub id: u32,
    /// Cookie of the socket.
    pub socket: u64,
    /// Cookie that the packet had, or 0.
    pub cookie: u64,
}

/// A write to a connection with requested timestamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StampedWrite {
    /// Position in the stream of its end.
    pub until: u64,
    /// The requested timestamps.
    pub flags: u32,
    /// True if its last byte was sent.
    pub sent: bool,
}

/// State of a connection that `SO_TIMESTAMPING` of its socket depends on.
#[derive(Clone, Copy, Debug)]
pub struct StreamState {
    /// True if it is closed or listens.
    pub is_idle: bool,
    /// Position in the stream of the end of the written data, and of the acknowledged data.
    pub written: u64,
    /// See `written`.
    pub acknowledged: u64,
}

impl Stamping {
    /// Checks and sets the flags (`sock_set_timestamping` of Linux). `stream` is the state of a TCP socket,
    /// `bound` is true for a socket bound to an interface.
    pub fn set(&mut self, flags: u32, stream: Option<StreamState>, bound: bool) -> Result<(), Errno> {
        if flags & !ALL != 0 || flags & OPT_ID_TCP != 0 && flags & OPT_ID == 0 {
            return Err(Errno::EINVAL);
        }
        let mut next_id = self.next_id;
        if flags & OPT_ID != 0 && self.flags & OPT_ID == 0 {
            next_id = match stream {
                Some(stream) if stream.is_idle => return Err(Errno::EINVAL),
                Some(stream) if flags & OPT_ID_TCP != 0 => stream.written,
                Some(stream) => stream.acknowledged,
                None => 0,
            };
        }
        if flags & OPT_STATS != 0 && flags & OPT_TSONLY == 0 {
            return Err(Errno::EINVAL);
        }
        if flags & BIND_PHC != 0 {
            // No hardware clock has virtual clocks.
            return Err(if bound { Errno::EINVAL } else { Errno::EOPNOTSUPP });
        }
        (self.flags, self.next_id) = (flags, next_id);
        Ok(())
    }

    /// Begins a datagram with the flags of a control message, if there is one, and the identifier of another.
    /// Returns true if the datagram took an identifier.
    pub(crate) fn begin(&mut self, given: Option<u32>, id: Option<u32>, socket: u64) -> bool {
        let flags = given.unwrap_or(self.flags) & OF_PACKET;
        let counts = flags != 0 && self.flags & OPT_ID != 0 && id.is_none();
        let id = if self.flags & OPT_ID == 0 { 0 } else { id.unwrap_or(self.next_id as u32) };
        self.begun = (flags != 0).then_some(StampRequest { flags, id, socket, cookie: 0 });
        if counts {
            self.next_id = self.next_id.wrapping_add(1);
        }
        counts
    }

    /// Records a write to a connection.
    pub fn written(&mut self, given: Option<u32>, until: u64) {
        let flags = given.unwrap_or(self.flags) & TX_RECORD;
        if flags != 0 {
            self.writes.push_back(StampedWrite { until, flags, sent: false });
        }
    }

    /// Identifier of the write to a connection that ends at `until`.
    pub(crate) fn id_of(&self, until: u64) -> u32 {
        if self.flags & OPT_ID == 0 { 0 } else { until.wrapping_sub(self.next_id).wrapping_sub(1) as u32 }
    }
}

/// Checks the value of a control message `SO_TIMESTAMPING`.
pub fn check_given(flags: u32) -> Result<u32, Errno> {
    if flags & !TX_RECORD != 0 { Err(Errno::EINVAL) } else { Ok(flags) }
}

/// Format of the timestamps that `recvmsg` returns with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveStamps {
    /// `SO_TIMESTAMP` or `SO_TIMESTAMPNS`.
    pub plain: Timestamping,
    /// `SO_TIMESTAMPING`.
    pub flags: u32,
    /// True after an option with the suffix `_NEW`, which also gives the type of control messages.
    pub is_new: bool,
}

/// Format of the arrival timestamps returned by `recvmsg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timestamping {
    /// No timestamps.
    Off,
    /// `SO_TIMESTAMP`: a `struct timeval`.
    Micros,
    /// `SO_TIMESTAMPNS`: a `struct timespec`.
    Nanos,
}

/// Times of a packet in nanoseconds, 0 if there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketTimes {
    /// By the system's clock.
    pub software: i64,
    /// By the adapter's clock.
    pub hardware: i64,
    /// True for a packet on the error queue.
    pub is_error: bool,
}

impl ReceiveStamps {
    /// True if no timestamps are returned.
    #[inline]
    pub fn is_off(self) -> bool {
        self.plain == Timestamping::Off && self.flags == 0
    }
    /// `struct scm_timestamping`: the times to report, or `None` if there are none (`__sock_recv_timestamp`).
    pub fn reported(self, times: PacketTimes) -> Option<[i64; 3]> {
        let always = times.is_error;
        let software = self.flags & SOFTWARE != 0
            && (always || self.flags & RX_SOFTWARE != 0 || self.plain != Timestamping::Off);
        let hardware = self.flags & RAW_HARDWARE != 0
            && (always || self.flags & (RX_HARDWARE | OPT_RX_FILTER) != OPT_RX_FILTER)
            && !(times.is_error && times.software != 0);
        let shown = [if software { times.software } else { 0 }, 0, if hardware { times.hardware } else { 0 }];
        (shown != [0; 3]).then_some(shown)
    }
    /// True if the index of the interface and the length of a packet are reported besides its hardware
    /// timestamp.
    pub fn reports_interface(self, times: PacketTimes) -> bool {
        self.flags & OPT_PKTINFO != 0 && !times.is_error && self.reported(times).is_some_and(|t| t[2] != 0)
    }
}

/// Mark of a cookie that is the key of a request.
const STAMPED: u64 = 1 << 31;

/// True if a packet has a request for timestamps.
#[inline(always)]
pub(crate) fn is_stamped(cookie: u64) -> bool {
    cookie & STAMPED != 0
}

/// Requests of the packets in transit.
#[derive(Debug, Default)]
pub(crate) struct StampRequests {
    requests: Slab<(u32, StampRequest)>,
    serial: u32,
}

impl StampRequests {
    /// Keeps a request and returns the cookie of its packet.
    pub fn insert(&mut self, request: StampRequest) -> u64 {
        self.serial = self.serial.wrapping_add(1);
        let key = self.requests.insert((self.serial, request));
        u64::from(self.serial) << 32 | STAMPED | key as u64
    }
    /// Request of a packet's cookie.
    pub fn get(&self, cookie: u64) -> Option<StampRequest> {
        let (serial, request) = self.requests.get(key_of(cookie)?)?;
        (u64::from(*serial) == cookie >> 32).then_some(*request)
    }
    /// Removes the request of a packet's cookie.
    pub fn take(&mut self, cookie: u64) -> Option<StampRequest> {
        let request = self.get(cookie)?;
        self.requests.remove(key_of(cookie)?);
        Some(request)
    }
    /// Cookie that a packet had before it got a request.
    pub fn inner(&self, cookie: u64) -> u64 {
        if is_stamped(cookie) { self.get(cookie).map_or(0, |request| request.cookie) } else { cookie }
    }
}

fn key_of(cookie: u64) -> Option<usize> {
    is_stamped(cookie).then_some((cookie & (STAMPED - 1)) as usize)
}

/// Event bits of an error queue that is not empty: with `SO_SELECT_ERR_QUEUE` also those of exceptions.
pub fn error_bits(options: &crate::socket::SocketOptions) -> u32 {
    use crate::readiness::{EPOLLERR, EPOLLPRI};
    if options.is_kept(c::SO_SELECT_ERR_QUEUE) { EPOLLERR | EPOLLPRI } else { EPOLLERR }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_checked_and_identifiers_begin_anew() {
        let mut stamping = Stamping::default();
        let refused = |stamping: &mut Stamping, flags| stamping.set(flags, None, false).unwrap_err();
        assert_eq!(refused(&mut stamping, 1 << 19), Errno::EINVAL);
        assert_eq!(refused(&mut stamping, OPT_ID_TCP), Errno::EINVAL);
        assert_eq!(refused(&mut stamping, OPT_STATS), Errno::EINVAL);
        assert_eq!(refused(&mut stamping, BIND_PHC), Errno::EOPNOTSUPP);
        assert_eq!(stamping.set(BIND_PHC, None, true), Err(Errno::EINVAL));
        stamping.set(TX_SOFTWARE | OPT_ID, None, false).unwrap();
        assert!(stamping.begin(None, None, 7));
        assert!(!stamping.begin(Some(0), None, 7) && stamping.begun.is_none());
        assert!(!stamping.begin(None, Some(99), 7));
        assert_eq!(stamping.begun.map(|request| request.id), Some(99));
        assert!(stamping.begin(Some(TX_SCHED | TX_ACK), None, 7));
        assert_eq!(stamping.begun, Some(StampRequest { flags: TX_SCHED, id: 1, socket: 7, cookie: 0 }));
        stamping.set(TX_SOFTWARE, None, false).unwrap();
        stamping.set(TX_SOFTWARE | OPT_ID, None, false).unwrap();
        assert_eq!(stamping.next_id, 0);
    }

    #[test]
    fn identifiers_of_a_connection_are_positions_of_last_bytes() {
        let mut stamping = Stamping::default();
        let idle = StreamState { is_idle: true, written: 0, acknowledged: 0 };
        assert_eq!(stamping.set(OPT_ID, Some(idle), false), Err(Errno::EINVAL));
        let open = StreamState { is_idle: false, written: 110, acknowledged: 100 };
        stamping.set(OPT_ID | OPT_ID_TCP, Some(open), false).unwrap();
        assert_eq!(stamping.id_of(115), 4);
        stamping.set(0, Some(open), false).unwrap();
        stamping.set(OPT_ID | TX_ACK, Some(open), false).unwrap();
        assert_eq!(stamping.id_of(115), 14);
        stamping.written(None, 115);
        stamping.written(Some(0), 116);
        assert_eq!(stamping.writes.len(), 1);
    }

    #[test]
    fn a_read_has_the_time_of_its_last_byte() {
        let mut arrivals = StreamArrivals::default();
        let at = SimTime::from_nanos;
        arrivals.received(10, at(1), 0);
        arrivals.received(10, at(2), 0);
        arrivals.received(15, at(3), 7);
        assert_eq!(arrivals.take(12, true), Some((at(3), 7)));
        assert_eq!(arrivals.take(4, false), Some((at(1), 0)));
        assert_eq!(arrivals.take(6, false), Some((at(1), 0)));
        assert_eq!(arrivals.take(5, false), Some((at(3), 7)));
        arrivals.received(1, at(4), 0);
        assert_eq!((arrivals.take(1, false), arrivals.take(1, false)), (Some((at(4), 0)), None));
    }

    #[test]
    fn hardware_timestamps_are_reported_where_they_were_asked_for() {
        let of = |flags| ReceiveStamps { plain: Timestamping::Off, flags, is_new: false };
        let both = PacketTimes { software: 1, hardware: 2, is_error: false };
        assert_eq!(of(SOFTWARE).reported(both), None);
        assert_eq!(of(SOFTWARE | RX_SOFTWARE).reported(both), Some([1, 0, 0]));
        assert_eq!(of(RAW_HARDWARE).reported(both), Some([0, 0, 2]));
        assert_eq!(of(RAW_HARDWARE | OPT_RX_FILTER).reported(both), None);
        assert_eq!(of(RAW_HARDWARE | OPT_RX_FILTER | RX_HARDWARE).reported(both), Some([0, 0, 2]));
        let sent = PacketTimes { is_error: true, ..both };
        assert_eq!(of(SOFTWARE | RAW_HARDWARE).reported(sent), Some([1, 0, 0]));
        assert_eq!(of(RAW_HARDWARE).reported(PacketTimes { software: 0, ..sent }), Some([0, 0, 2]));
        assert!(of(RAW_HARDWARE | OPT_PKTINFO).reports_interface(both));
        assert!(!of(RAW_HARDWARE | OPT_PKTINFO).reports_interface(sent));
    }

    #[test]
    fn requests_are_found_by_their_cookies_alone() {
        let mut requests = StampRequests::default();
        let request = StampRequest { flags: TX_SOFTWARE, id: 3, socket: 1 << 32 | 1, cookie: 5 };
        let cookie = requests.insert(request);
        assert!(is_stamped(cookie) && !is_stamped(request.socket));
        assert_eq!((requests.inner(cookie), requests.inner(8)), (5, 8));
        assert_eq!(requests.take(cookie), Some(request));
        let next = requests.insert(request);
        assert_ne!(cookie, next);
        assert_eq!((requests.get(cookie), requests.take(cookie)), (None, None));
    }
}
