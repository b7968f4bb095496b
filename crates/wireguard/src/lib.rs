//! WireGuard as a state machine: the protocol of the white paper with the behaviour of Linux's implementation.
//!
//! A [`WireguardDevice`] takes datagrams and packets with the time, and leaves [`WireguardOutput`]s: datagrams to send,
//! packets for the host and packets that it gave up. After each call that takes the time,
//! [`WireguardDevice::take_outputs`] is to be called, and [`WireguardDevice::on_timeout`] at the time of
//! [`WireguardDevice::next_timeout`].
//!
//! From below: the cryptographic functions of the protocol ([`primitives`]) and its message formats ([`messages`]); the
//! handshake ([`noise`]), which is Noise_IKpsk2, and the keys that follow from it ([`keypair`]), with the window against
//! replayed packets ([`replay`]); cookies, which bind initiators to their addresses under load ([`cookie`]); the networks
//! of the peers ([`allowed_ips`]); a [`peer`] with its timers; the [`device`], which is configured by Linux's rules.
//!
//! Not supported: segments that the host's offloading would join, and more than one processor. Handshakes take no time; the
//! load that they would be is estimated, so that a flood leads to cookies ([`cookie::HandshakeLoad`]).

#![forbid(unsafe_code)]

pub mod allowed_ips;
pub mod cookie;
pub mod device;
pub mod keypair;
pub mod messages;
pub mod noise;
pub mod peer;
pub mod primitives;
pub mod replay;
#[cfg(test)]
mod tests;
mod timers;
mod transfer;

pub use device::{RejectReason, WireguardDevice, WireguardOutput};
pub use peer::{Peer, PeerEndpoint};
pub use primitives::Key;

use belljar_base::{SimDuration, SimTime};

/// Present time: that of the simulation, and that which the host's clock shows.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Simulated time.
    pub time: SimTime,
    /// Nanoseconds since 1970 by the host's clock.
    pub realtime_ns: u64,
}

/// Constants of the protocol, with their names in the white paper and in Linux.
pub mod limits {
    use super::{SimDuration, replay};

    /// Number of packets after which a new handshake begins.
    pub const REKEY_AFTER_MESSAGES: u64 = 1 << 60;
    /// Number of packets after which a key is not used any more.
    pub const REJECT_AFTER_MESSAGES: u64 = u64::MAX - replay::WINDOW - 1;
    /// Age of a key at which its initiator begins a new handshake.
    pub const REKEY_AFTER_TIME: SimDuration = SimDuration::from_secs(120);
    /// Age at which a key is not used any more.
    pub const REJECT_AFTER_TIME: SimDuration = SimDuration::from_secs(180);
    /// Interval between attempts of a handshake.
    pub const REKEY_TIMEOUT: SimDuration = SimDuration::from_secs(5);
    /// Bound of the random part of that interval, in ticks of Linux's clock.
    pub const REKEY_JITTER_TICKS: u64 = belljar_base::HZ / 3;
    /// Interval after which received packets are answered by a keepalive.
    pub const KEEPALIVE_TIMEOUT: SimDuration = SimDuration::from_secs(10);
    /// Number of attempts of a handshake before the peer is given up.
    pub const MAX_TIMER_HANDSHAKES: u32 = 90 / 5;
    /// Least interval between initiations that are accepted.
    pub const INITIATION_INTERVAL: SimDuration = SimDuration::from_millis(20);
    /// Number of packets that wait for a key.
    pub const MAX_STAGED_PACKETS: usize = 128;
    /// Age of the secret from which cookies are made.
    pub const COOKIE_SECRET_MAX_AGE: SimDuration = SimDuration::from_secs(120);
    /// Time by which cookies are given up before that.
    pub const COOKIE_SECRET_LATENCY: SimDuration = SimDuration::from_secs(5);
    /// Unit of padding in bytes.
    pub const PADDING: usize = 16;
}
