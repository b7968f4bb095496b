//! TCP Fast Open (RFC 7413) outside of connections: the cache of cookies received from servers, the
//! generation of cookies, and the calls that send data in a SYN.

use super::{Role, TcpSocket};
use crate::SocketKey;
use crate::Stack;
use crate::socket::SocketKind;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_tcp::{FastOpen, FastOpenAnswer, FastOpenFailure, Repr};
use siphasher::sip::SipHasher24;
use std::collections::VecDeque;
use std::hash::Hasher;
use std::net::{IpAddr, SocketAddr};

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
const RESET_COUNTS: SimDuration = SimDuration::from_secs(60);

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

    fn cookie(key: &[u8; KEY_LEN], client: IpAddr, server: IpAddr) -> Option<FastOpen> {
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
    fn note(&mut self, ends: (IpAddr, IpAddr), answer: &FastOpenAnswer) {
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

/// The decision on a received SYN.
#[derive(Debug, Default)]
pub struct Verdict {
    /// True if the SYN opens a connection immediately.
    pub take: bool,
    /// The option of the SYN-ACK.
    pub option: Option<FastOpen>,
}

impl Stack {
    /// The value of `net.ipv4.tcp_fastopen`.
    pub fn fast_open_bits(&self) -> u32 {
        self.sysctls.fast_open
    }

    /// The keys of a listener, or else those of the host, which are generated at first use.
    pub fn fast_open_keys(&mut self, key: SocketKey) -> Keys {
        let own = self.tcp(key).options.fast_open_keys;
        own.unwrap_or_else(|| {
            let (seed, name) = (self.config.seed, &self.config.name);
            *self.sysctls.fast_open_keys.get_or_insert_with(|| {
                let mut primary = [0; KEY_LEN];
                seed.stream(&["net", name, "fast-open-key"]).fill(&mut primary);
                Keys { primary, backup: None }
            })
        })
    }

    /// Enables Fast Open on a listener if `net.ipv4.tcp_fastopen` does so for all of them.
    pub fn tcp_listen_fast_open(&mut self, key: SocketKey, backlog: usize) {
        let all = bit::SERVER | bit::EVERY_LISTENER;
        if self.fast_open_bits() & all == all && self.tcp(key).options.fast_open == 0 {
            self.tcp(key).options.fast_open = backlog as i32;
        }
    }

    /// True while clients do not use Fast Open after the detection of a black hole. The interval doubles with
    /// each detection (`tcp_fastopen_active_should_disable`).
    fn fast_open_pauses(&self) -> bool {
        const DOUBLINGS_MAX: u32 = 6;
        let Some((since, times)) = self.fast_open_servers.dropped else { return false };
        let seconds = u64::from(self.sysctls.fast_open_pause) << (times - 1).min(DOUBLINGS_MAX);
        self.clock.now() < since + SimDuration::from_secs(seconds)
    }

    /// Fast Open properties of a server: true if a SYN may carry data, the option of the SYN, and the cached
    /// MSS.
    fn fast_open_to(
        &mut self,
        key: SocketKey,
        ends: (IpAddr, IpAddr),
    ) -> (bool, Option<FastOpen>, Option<u16>) {
        let server = self.fast_open_servers.known.get(&ends).copied().unwrap_or_default();
        let no_cookie = self.fast_open_bits() & bit::CLIENT_NO_COOKIE != 0;
        if no_cookie || self.tcp(key).options.fast_open_no_cookie {
            return (true, None, server.mss);
        }
        let request = FastOpen::REQUEST.in_form(server.refused == 1);
        (server.cookie.is_some(), server.cookie.or(Some(request)), server.mss)
    }

    /// Makes the SYN of a new connection carry `data`, or wait for it. Returns the number of bytes taken.
    pub fn tcp_prepare_fast_open(&mut self, key: SocketKey, data: Option<&[u8]>) -> usize {
        let now = self.clock.local();
        let wanted = data.is_some() || self.tcp(key).options.fast_open_connect;
        let pauses = self.fast_open_pauses();
        let Some(connection) = self.tcp(key).connection().filter(|_| wanted && !pauses) else { return 0 };
        let ends = (connection.local().ip(), connection.remote().ip());
        let (usable, option, mss) = self.fast_open_to(key, ends);
        let Some(connection) = self.tcp(key).connection() else { return 0 };
        match data {
            None if usable => {
                connection.defer();
                0
            }
            data => connection.fast_open(option, mss, data.unwrap_or_default(), now),
        }
    }

    /// Records the Fast Open results of a connection (cookie, failure, black hole) after a change of its
    /// state.
    pub fn tcp_settle_fast_open(&mut self, key: SocketKey) {
        let tcp = self.tcp(key);
        let listener = tcp.fast_open_listener;
        let accepted = tcp.parent.is_none();
        let Some(connection) = tcp.connection() else { return };
        if connection.take_fast_open_black_hole() && self.sysctls.fast_open_pause > 0 {
            let times = self.fast_open_servers.dropped.map_or(0, |(_, times)| times);
            self.fast_open_servers.dropped = Some((self.clock.now(), times + 1));
            self.counters.fast_open.black_holes += 1;
        }
        let Some(connection) = self.tcp(key).connection() else { return };
        if let Some(answer) = connection.take_fast_open_answer() {
            let ends = (connection.local().ip(), connection.remote().ip());
            let taken = connection.syn_data_taken();
            let failed = connection.fast_open_failure();
            let counters = &mut self.counters.fast_open;
            counters.active += u64::from(taken);
            if taken {
                self.fast_open_servers.dropped = None;
            }
            counters.active_fail += u64::from(matches!(
                failed,
                FastOpenFailure::DataNotAcknowledged | FastOpenFailure::SynRetransmitted
            ));
            self.fast_open_servers.note(ends, &answer);
            return;
        }
        if let Some(listener) = listener
            && !connection.is_unconfirmed()
        {
            let reset = connection.error() == Some(belljar_tcp::TcpError::Reset);
            self.tcp(key).fast_open_listener = None;
            let until = (accepted && reset).then(|| self.clock.now() + RESET_COUNTS);
            if let Some(queue) = self.fast_open_queue(listener) {
                queue.pending = queue.pending.saturating_sub(1);
                queue.resets.extend(until);
            }
        }
    }

    /// The queue of a listener, if its socket still has this serial number.
    fn fast_open_queue(&mut self, (listener, serial): (SocketKey, u32)) -> Option<&mut FastOpenQueue> {
        let socket = self.sockets.get_mut(listener.0).filter(|socket| socket.serial == serial)?;
        match &mut socket.kind {
            SocketKind::Tcp(tcp) if matches!(tcp.role, Role::Listening(_)) => Some(&mut tcp.fast_open_queue),
            _ => None,
        }
    }

    /// Accounts for a connection opened by a SYN with a cookie.
    pub fn tcp_opened_fast(&mut self, child: SocketKey, listener: SocketKey) {
        let serial = self.socket(listener).serial;
        self.tcp(listener).fast_open_queue.pending += 1;
        self.tcp(child).fast_open_listener = Some((listener, serial));
        self.counters.fast_open.passive += 1;
    }

    /// True if another connection may wait for its ACK (`tcp_fastopen_queue_check`).
    fn fast_open_has_room(&mut self, listener: SocketKey) -> bool {
        let now = self.clock.now();
        let tcp: &mut TcpSocket = self.tcp(listener);
        let most = tcp.options.fast_open as usize;
        let queue = &mut tcp.fast_open_queue;
        if most == 0 {
            return false;
        }
        if queue.pending + queue.resets.len() < most {
            return true;
        }
        if queue.resets.front().is_none_or(|until| *until > now) {
            self.counters.fast_open.listen_overflow += 1;
            return false;
        }
        queue.resets.pop_front();
        true
    }

    /// Decides on a SYN: `tcp_try_fastopen` of Linux.
    pub fn tcp_try_fast_open(
        &mut self,
        listener: SocketKey,
        (local, remote): (SocketAddr, SocketAddr),
        syn: &Repr,
        payload_len: usize,
    ) -> Verdict {
        let bits = self.fast_open_bits();
        let option = syn.options.fast_open;
        if option.is_some_and(|option| option.is_request()) {
            self.counters.fast_open.cookie_requests += 1;
        }
        let concerned = payload_len > 0 || option.is_some();
        if bits & bit::SERVER == 0 || !concerned || !self.fast_open_has_room(listener) {
            return Verdict::default();
        }
        if bits & bit::SERVER_NO_COOKIE != 0 || self.tcp(listener).options.fast_open_no_cookie {
            return Verdict { take: true, option: None };
        }
        let Some(given) = option else { return Verdict::default() };
        let keys = self.fast_open_keys(listener);
        let cookie = |key| Keys::cookie(key, remote.ip(), local.ip());
        let present = cookie(&keys.primary).map(|made| made.in_form(given.experimental));
        let same = |made: Option<FastOpen>| made.is_some_and(|made| made.cookie() == given.cookie());
        if given.is_request() {
            Verdict { take: false, option: present }
        } else if same(present) {
            Verdict { take: true, option: None }
        } else if keys.backup.as_ref().is_some_and(|key| same(cookie(key))) {
            self.counters.fast_open.alternate_key += 1;
            Verdict { take: true, option: present }
        } else {
            self.counters.fast_open.passive_fail += 1;
            Verdict { take: false, option: present }
        }
    }
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
}
