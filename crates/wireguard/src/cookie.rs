//! MACs of handshake messages, and cookies: under load a responder answers an initiator by a cookie that is bound to its
//! address, and does the work of a handshake only for messages that prove to have received it.

use crate::limits::{COOKIE_SECRET_LATENCY, COOKIE_SECRET_MAX_AGE};
use crate::messages::{CookieReply, MACS_LEN};
use crate::primitives::{Key, hash, mac, open_cookie, seal_cookie};
use belljar_base::{Map, SimDuration, SimTime, Stream};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

const MAC1_LABEL: &[u8] = b"mac1----";
const COOKIE_LABEL: &[u8] = b"cookie--";
/// Length of a MAC and of a cookie in bytes.
const LEN: usize = 16;

/// State of the MACs of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacState {
    /// The first MAC is wrong.
    Invalid,
    /// The first MAC is right.
    Valid,
    /// Both are right: the sender has received a cookie.
    WithCookie,
    /// The same, but the address sends too many messages.
    Limited,
}

/// Responder's side: the keys of a device's public key and the secret of its cookies.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    mac1_key: Key,
    encryption_key: Key,
    secret: Key,
    born: Option<SimTime>,
    limiter: Limiter,
}

impl Checker {
    /// Takes over the device's public key.
    pub fn set_public_key(&mut self, public: &Key) {
        self.mac1_key = hash(&[MAC1_LABEL, public]);
        self.encryption_key = hash(&[COOKIE_LABEL, public]);
    }
    fn cookie(&mut self, from: SocketAddr, now: SimTime, random: &mut Stream) -> [u8; LEN] {
        if self.born.is_none_or(|born| born + COOKIE_SECRET_MAX_AGE <= now) {
            random.fill(&mut self.secret);
            self.born = Some(now);
        }
        let port = from.port().to_be_bytes();
        match from.ip() {
            IpAddr::V4(ip) => mac(&self.secret, &[&ip.octets(), &port]),
            IpAddr::V6(ip) => mac(&self.secret, &[&ip.octets(), &port]),
        }
    }
    /// Checks the MACs of a message; the second one only with `wants_cookie` (`wg_cookie_validate_packet`).
    pub fn check(
        &mut self,
        message: &[u8],
        (from, wants_cookie): (SocketAddr, bool),
        now: SimTime,
        random: &mut Stream,
    ) -> MacState {
        let Some(at) = message.len().checked_sub(MACS_LEN) else { return MacState::Invalid };
        if mac(&self.mac1_key, &[&message[..at]]) != message[at..at + LEN] {
            return MacState::Invalid;
        }
        if !wants_cookie {
            return MacState::Valid;
        }
        let cookie = self.cookie(from, now, random);
        if mac(&cookie, &[&message[..at + LEN]]) != message[at + LEN..] {
            return MacState::Valid;
        }
        if self.limiter.allows(from.ip(), now) { MacState::WithCookie } else { MacState::Limited }
    }
    /// Creates the reply to a message that lacks a cookie.
    pub fn reply(
        &mut self,
        message: &[u8],
        (from, index): (SocketAddr, u32),
        now: SimTime,
        random: &mut Stream,
    ) -> CookieReply {
        let at = message.len() - MACS_LEN;
        let cookie = self.cookie(from, now, random);
        let mut nonce = [0; 24];
        random.fill(&mut nonce);
        let cookie = seal_cookie(&self.encryption_key, &nonce, cookie, &message[at..at + LEN]);
        CookieReply { receiver: index, nonce, cookie }
    }
}

/// Initiator's side: the latest cookie of a peer.
#[derive(Clone, Debug)]
pub struct PeerCookie {
    mac1_key: Key,
    decryption_key: Key,
    latest: Option<([u8; LEN], SimTime)>,
    /// The first MAC of the last message, until a cookie has come for it.
    sent: Option<[u8; LEN]>,
}

impl PeerCookie {
    /// State for a peer with this public key.
    pub fn new(public: &Key) -> PeerCookie {
        PeerCookie {
            mac1_key: hash(&[MAC1_LABEL, public]),
            decryption_key: hash(&[COOKIE_LABEL, public]),
            latest: None,
            sent: None,
        }
    }
    /// Writes the MACs of a message, which has space for them at its end.
    pub fn add_macs(&mut self, message: &mut [u8], now: SimTime) {
        let at = message.len() - MACS_LEN;
        let first = mac(&self.mac1_key, &[&message[..at]]);
        message[at..at + LEN].copy_from_slice(&first);
        self.sent = Some(first);
        let age = COOKIE_SECRET_MAX_AGE.saturating_sub(COOKIE_SECRET_LATENCY);
        match self.latest {
            Some((cookie, born)) if born + age > now => {
                let second = mac(&cookie, &[&message[..at + LEN]]);
                message[at + LEN..].copy_from_slice(&second);
            }
            _ => self.latest = None,
        }
    }
    /// Takes a cookie over. False if it is not one for the last message.
    pub fn take(&mut self, reply: &CookieReply, now: SimTime) -> bool {
        let Some(sent) = self.sent else { return false };
        let Some(cookie) = open_cookie(&self.decryption_key, &reply.nonce, &reply.cookie, &sent) else {
            return false;
        };
        self.latest = Some((cookie, now));
        self.sent = None;
        true
    }
}

/// Limit of the handshakes of each address under load: 20 a second, in bursts of 5 (`wg_ratelimiter_allow`). Networks
/// of 64 bits count as one address of IPv6.
#[derive(Clone, Debug, Default)]
struct Limiter {
    /// Time of the last message, and nanoseconds left, by address.
    entries: Map<IpAddr, (SimTime, u64)>,
    cleaned: SimTime,
}

impl Limiter {
    fn allows(&mut self, ip: IpAddr, now: SimTime) -> bool {
        const COST: u64 = 1_000_000_000 / 20;
        const MOST: u64 = COST * 5;
        const IDLE: SimDuration = SimDuration::from_secs(1);
        if self.cleaned + IDLE <= now {
            self.entries.retain(|_, (last, _)| *last + IDLE > now);
            self.cleaned = now;
        }
        let ip = match ip {
            IpAddr::V6(ip) => IpAddr::V6(Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64)),
            ip => ip,
        };
        let (last, tokens) = self.entries.entry(ip).or_insert((now, MOST));
        let filled = (*tokens + (now - *last).as_nanos()).min(MOST);
        let allowed = filled >= COST;
        (*last, *tokens) = (now, if allowed { filled - COST } else { filled });
        allowed
    }
}

/// Estimate of the queue of handshake messages that wait for the processor: Linux is under load while 512 wait, and one
/// second longer, and drops messages beyond 4,096. Messages that are simulated do not wait; each is work for the time
/// that a processor of today takes for it.
#[derive(Clone, Debug, Default)]
pub struct HandshakeLoad {
    busy_until: SimTime,
    last: Option<SimTime>,
}

impl HandshakeLoad {
    /// Work of a handshake: five multiplications on the curve.
    const HANDSHAKE: SimDuration = SimDuration::from_micros(200);
    /// Work of a cookie.
    const COOKIE: SimDuration = SimDuration::from_micros(5);

    /// Registers a message. `None` if the queue is full, else true under load.
    pub fn arrive(&mut self, now: SimTime) -> Option<bool> {
        let queued = (self.busy_until - now).as_nanos() / Self::HANDSHAKE.as_nanos();
        if queued >= 4_096 {
            return None;
        }
        if queued >= 512 {
            self.last = Some(now);
        }
        Some(self.last.is_some_and(|last| last + SimDuration::from_secs(1) > now))
    }
    /// Adds the work of a message: that of a handshake, or of a cookie.
    pub fn work(&mut self, now: SimTime, handshake: bool) {
        let work = if handshake { Self::HANDSHAKE } else { Self::COOKIE };
        self.busy_until = self.busy_until.max(now) + work;
    }
}
