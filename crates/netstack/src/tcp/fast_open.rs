//! TCP Fast Open (RFC 7413) outside of connections: the cache of cookies received from servers, the
//! generation of cookies, and the queues of listeners.

use belljar_base::{Map, SimDuration, SimTime};
use belljar_tcp::{FastOpen, FastOpenAnswer};
use siphasher::sip::SipHasher24;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::IpAddr;

/// Bits of `net.ipv4.tcp_fastopen` (`TFO_*` of Linux).
pub mod bit {
    /// Clients request Fast Open.
    pub const CLIENT: u32 = 1;
    /// Servers accept Fast Open.
    pub const SERVER: u32 = 2;
    /// Clients send data without a cookie.
    pub const CLIENT_NO_COOKIE: u32 = 4;
    /// Servers accept data without a cookie.
    pub const SERVER_NO_COOKIE: u32 = 0x200;
    /// Listeners use Fast Open without the socket option.
    pub const EVERY_LISTENER: u32 = 0x400;
}

/// Length of a key in bytes.
pub const KEY_LEN: usize = 16;
/// Maximum number of servers in the cache.
const SERVERS_MAX: usize = 4_096;
/// Time for which a connection that was reset before its ACK counts against the queue's limit.
pub(super) const RESET_COUNTS: SimDuration = SimDuration::from_secs(60);

/// Keys of cookies: cookies are generated with the primary key, and accepted with either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The current key.
    pub primary: [u8; KEY_LEN],
    /// The previous key.
    pub backup: Option<[u8; KEY_LEN]>,
}

impl Keys {
    /// Decodes one or two keys, of 16 bytes each.
    pub fn from_bytes(bytes: &[u8]) -> Option<Keys> {
        let (primary, rest) = bytes.split_first_chunk()?;
        match rest.len() {
            0 => Some(Keys { primary: *primary, backup: None }),
            _ => Some(Keys { primary: *primary, backup: Some(rest.try_into().ok()?) }),
        }
    }

    /// The concatenated keys.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.primary.to_vec();
        bytes.extend(self.backup.iter().flatten());
        bytes
    }

    /// Parses the format of `net.ipv4.tcp_fastopen_key`: `01234567-89abcdef-01234567-89abcdef`, or two of
    /// these separated by a comma.
    pub fn parse(text: &str) -> Option<Keys> {
        let mut bytes = Vec::new();
        for key in text.split(',') {
            let words: Vec<&str> = key.trim().split('-').collect();
            if words.len() != 4 {
                return None;
            }
            for word in words {
                bytes.extend(u32::from_str_radix(word, 16).ok()?.to_le_bytes());
            }
        }
        Keys::from_bytes(&bytes)
    }

    /// The cookie of a client that is generated with a key.
    pub fn cookie(key: &[u8; KEY_LEN], client: IpAddr, server: IpAddr) -> Option<FastOpen> {
        let mut hasher = SipHasher24::new_with_key(key);
        for ip in [client, server] {
            match ip {
                IpAddr::V4(ip) => hasher.write(&ip.octets()),
                IpAddr::V6(ip) => hasher.write(&ip.octets()),
            }
        }
        FastOpen::new(&hasher.finish().to_le_bytes())
    }
}

impl std::fmt::Display for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (number, key) in [Some(self.primary), self.backup].into_iter().flatten().enumerate() {
            f.write_str(if number > 0 { "," } else { "" })?;
            for (number, word) in key.chunks_exact(4).enumerate() {
                let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
                write!(f, "{}{word:08x}", if number > 0 { "-" } else { "" })?;
            }
        }
        Ok(())
    }
}

/// Cached properties of a server (Linux's `tcp_metrics`).
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    mss: Option<u16>,
    cookie: Option<FastOpen>,
    /// Requests without an answer: 1 with the standard option, 2 with the experimental one too.
    refused: u8,
    used: u64,
}

/// Cache of the properties of servers.
#[derive(Debug, Default)]
pub struct Servers {
    /// Servers, by local and server address.
    known: Map<(IpAddr, IpAddr), Server>,
    uses: u64,
    /// Time of the last black hole detection, and the number of detections.
    dropped: Option<(SimTime, u32)>,
}

impl Servers {
    /// Records the answer of a server.
    pub fn note(&mut self, ends: (IpAddr, IpAddr), answer: &FastOpenAnswer) {
        self.uses += 1;
        if self.known.len() >= SERVERS_MAX && !self.known.contains_key(&ends) {
            let oldest = self.known.iter().min_by_key(|(_, server)| server.used).map(|(ends, _)| *ends);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        let server = self.known.entry(ends).or_default();
        server.used = self.uses;
        server.mss = Some(answer.mss);
        if answer.cookie.is_some() {
            server.cookie = answer.cookie;
        } else if answer.refused > server.refused && server.cookie.is_none() {
            server.refused = answer.refused;
        }
    }
}

impl Servers {
    /// True while clients do not use Fast Open after the detection of a black hole. The interval of `seconds`
    /// doubles with each detection (`tcp_fastopen_active_should_disable`).
    pub fn pauses(&self, now: SimTime, seconds: u32) -> bool {
        const DOUBLINGS_MAX: u32 = 6;
        let Some((since, times)) = self.dropped else { return false };
        let seconds = u64::from(seconds) << (times - 1).min(DOUBLINGS_MAX);
        now < since + SimDuration::from_secs(seconds)
    }

    /// Records the detection of a black hole.
    pub fn black_hole_found(&mut self, now: SimTime) {
        let times = self.dropped.map_or(0, |(_, times)| times);
        self.dropped = Some((now, times + 1));
    }

    /// Records that the data of a SYN was acknowledged: there is no black hole.
    pub fn data_arrived(&mut self) {
        self.dropped = None;
    }

    /// Fast Open properties of a server, given by the local and its own address: true if a SYN may carry data,
    /// the option of the SYN, and the cached MSS. Without cookies (`no_cookie`) any SYN may carry data.
    pub fn properties(
        &self,
        ends: (IpAddr, IpAddr),
        no_cookie: bool,
    ) -> (bool, Option<FastOpen>, Option<u16>) {
        let server = self.known.get(&ends).copied().unwrap_or_default();
        if no_cookie {
            return (true, None, server.mss);
        }
        let request = FastOpen::REQUEST.in_form(server.refused == 1);
        (server.cookie.is_some(), server.cookie.or(Some(request)), server.mss)
    }
}

/// Counters of `/proc/net/netstat` for Fast Open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpenCounters {
    /// SYNs sent with data that was acknowledged.
    pub active: u64,
    /// SYNs sent with data that was not acknowledged.
    pub active_fail: u64,
    /// Connections opened by a SYN with a valid cookie.
    pub passive: u64,
    /// SYNs with an invalid cookie.
    pub passive_fail: u64,
    /// SYNs processed without Fast Open because too many connections wait for their ACK.
    pub listen_overflow: u64,
    /// Requests for a cookie received.
    pub cookie_requests: u64,
    /// Cookies received that were generated with the backup key.
    pub alternate_key: u64,
    /// Detections of a black hole for Fast Open connections.
    pub black_holes: u64,
}

/// State of Fast Open in a listener.
#[derive(Debug, Default)]
pub struct FastOpenQueue {
    /// Number of connections that wait for their ACK.
    pending: usize,
    /// Times until which connections reset before their ACK count as pending.
    resets: VecDeque<SimTime>,
}

impl FastOpenQueue {
    /// Adds a connection that waits for its ACK.
    pub fn started(&mut self) {
        self.pending += 1;
    }

    /// Removes a connection. One that was reset before its ACK still counts until the time given.
    pub fn ended(&mut self, counts_until: Option<SimTime>) {
        self.pending = self.pending.saturating_sub(1);
        self.resets.extend(counts_until);
    }

    /// True if another connection may wait for its ACK, of `most` (`tcp_fastopen_queue_check`). An overflow is
    /// counted.
    pub fn has_room(&mut self, most: usize, now: SimTime, counters: &mut FastOpenCounters) -> bool {
        if most == 0 {
            return false;
        }
        if self.pending + self.resets.len() < most {
            return true;
        }
        if self.resets.front().is_none_or(|until| *until > now) {
            counters.listen_overflow += 1;
            return false;
        }
        self.resets.pop_front();
        true
    }
}

/// The decision on a received SYN.
#[derive(Debug, Default)]
pub struct Verdict {
    /// True if the SYN opens a connection immediately.
    pub take: bool,
    /// The option of the SYN-ACK.
    pub option: Option<FastOpen>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn cookies_are_those_that_linux_makes() {
        // Linux 6.18's answer to a request from 11.0.0.2 to 11.0.0.1 with this key (packet script
        // serve_request).
        let keys = Keys::parse("01020304-05060708-090a0b0c-0d0e0f10").expect("a key");
        let ip = |last| IpAddr::V4(Ipv4Addr::new(11, 0, 0, last));
        let cookie = Keys::cookie(&keys.primary, ip(2), ip(1)).expect("eight bytes");
        assert_eq!(cookie.cookie(), [0x8e, 0x36, 0xb4, 0xad, 0x05, 0x54, 0xc8, 0x47]);
        assert_eq!(keys.to_string(), "01020304-05060708-090a0b0c-0d0e0f10");
    }

    #[test]
    fn keys_are_read_as_they_are_shown() {
        let text = "00000001-00000002-00000003-00000004,000000ff-00000000-00000000-deadbeef";
        assert_eq!(Keys::parse(text).map(|keys| keys.to_string()).as_deref(), Some(text));
        for bad in ["", "1-2-3", "1-2-3-4,", "1-2-3-4-5", "1-2-3-x", "1-2-3-4,1-2-3-4,1-2-3-4"] {
            assert_eq!(Keys::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn no_more_servers_are_remembered_than_there_is_room_for() {
        let mut servers = Servers::default();
        let answer = FastOpenAnswer { mss: 1000, cookie: None, refused: 1 };
        let ip = |n: usize| IpAddr::V4(Ipv4Addr::from(n as u32));
        for n in 0..SERVERS_MAX + 10 {
            servers.note((ip(1), ip(n)), &answer);
        }
        assert_eq!(servers.known.len(), SERVERS_MAX);
        assert!(!servers.known.contains_key(&(ip(1), ip(9))) && servers.known.contains_key(&(ip(1), ip(10))));
    }

    #[test]
    fn resets_before_the_ack_count_for_a_minute() {
        let (mut queue, mut counters) = (FastOpenQueue::default(), FastOpenCounters::default());
        let at = SimTime::from_secs;
        assert!(!queue.has_room(0, at(0), &mut counters));
        queue.started();
        queue.started();
        assert!(!queue.has_room(2, at(0), &mut counters) && queue.has_room(3, at(0), &mut counters));
        queue.ended(None);
        queue.ended(Some(at(0) + RESET_COUNTS));
        assert!(queue.has_room(2, at(0), &mut counters) && !queue.has_room(1, at(59), &mut counters));
        assert!(queue.has_room(1, at(60), &mut counters));
        assert_eq!(counters.listen_overflow, 2);
    }

    #[test]
    fn the_pause_doubles_with_each_black_hole() {
        let mut servers = Servers::default();
        let at = SimTime::from_secs;
        assert!(!servers.pauses(at(0), 10));
        servers.black_hole_found(at(0));
        assert!(servers.pauses(at(9), 10) && !servers.pauses(at(10), 10));
        servers.black_hole_found(at(10));
        assert!(servers.pauses(at(29), 10) && !servers.pauses(at(30), 10));
        servers.data_arrived();
        assert!(!servers.pauses(at(11), 10));
    }
}
