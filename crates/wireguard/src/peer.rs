//! A peer of a device.

use crate::cookie::PeerCookie;
use crate::keypair::Keypairs;
use crate::noise::{Handshake, Identity, RemoteKeys};
use crate::primitives::{Key, dh};
use crate::timers::Timers;
use belljar_base::SimTime;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Far end of a peer: the address to which datagrams are sent, and the one of this host from which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerEndpoint {
    /// Address and port of the peer.
    pub remote: SocketAddr,
    /// Address of this host to which the last datagram came, and the number of its interface.
    pub local: Option<(IpAddr, usize)>,
}

/// A packet that waits for a key.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    pub bytes: Vec<u8>,
    /// MTU of the packet's route, which limits its padding.
    pub mtu: usize,
}

impl Staged {
    /// True for a keepalive, which carries no packet.
    pub(crate) fn is_keepalive(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// A peer of a device.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Static keys.
    pub remote: RemoteKeys,
    /// Far end, if it is known.
    pub endpoint: Option<PeerEndpoint>,
    /// Interval of keepalives in seconds; 0 for none.
    pub persistent_keepalive: u16,
    /// Number of bytes of received datagrams that are authentic.
    pub rx_bytes: u64,
    /// Number of bytes of sent datagrams.
    pub tx_bytes: u64,
    /// Time of the last handshake in nanoseconds since 1970.
    pub last_handshake_ns: Option<u64>,
    pub(crate) handshake: Handshake,
    pub(crate) keypairs: Keypairs,
    pub(crate) cookie: PeerCookie,
    pub(crate) staged: VecDeque<Staged>,
    pub(crate) timers: Timers,
    /// Time of the last initiation or response.
    pub(crate) last_sent_handshake: Option<SimTime>,
    pub(crate) attempts: u32,
    pub(crate) needs_another_keepalive: bool,
    pub(crate) sent_lastminute_handshake: bool,
}

impl Peer {
    pub(crate) fn new(own: Option<&Identity>, public: Key) -> Peer {
        let remote = RemoteKeys { public, static_static: None, preshared: [0; 32] };
        let mut peer = Peer {
            remote,
            endpoint: None,
            persistent_keepalive: 0,
            rx_bytes: 0,
            tx_bytes: 0,
            last_handshake_ns: None,
            handshake: Handshake::default(),
            keypairs: Keypairs::default(),
            cookie: PeerCookie::new(&public),
            staged: VecDeque::new(),
            timers: Timers::default(),
            last_sent_handshake: None,
            attempts: 0,
            needs_another_keepalive: false,
            sent_lastminute_handshake: false,
        };
        peer.set_identity(own);
        peer
    }
    /// Computes the shared secret of both static keys (`wg_noise_precompute_static_static`).
    pub(crate) fn set_identity(&mut self, own: Option<&Identity>) {
        self.remote.static_static = own.and_then(|own| dh(&own.private, &self.remote.public));
    }
    /// Forgets all keys and the handshake under way. Returns the indices that are free now.
    pub(crate) fn forget_keys(&mut self) -> Vec<u32> {
        let mut gone = self.keypairs.clear();
        gone.extend(self.handshake.clear());
        gone
    }
    /// Forgets from which of the host's addresses datagrams are sent.
    pub fn clear_source(&mut self) {
        if let Some(endpoint) = &mut self.endpoint {
            endpoint.local = None;
        }
    }
}
