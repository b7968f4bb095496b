//! A device: its keys and peers, and the handshakes with them.

use crate::allowed_ips::AllowedIps;
use crate::cookie::{Checker, HandshakeLoad, MacState};
use crate::limits::REKEY_TIMEOUT;
use crate::messages::{self, CookieReply, Initiation, Response};
use crate::noise::{Identity, identify, timestamp};
use crate::peer::{Peer, PeerEndpoint};
use crate::{Key, Now};
use belljar_base::{Map, Stream};
use std::net::SocketAddr;

/// Type of service of handshake messages: AF41.
const HANDSHAKE_TOS: u8 = 0x88;

/// Result of a call, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireguardOutput {
    /// A datagram to send.
    Datagram {
        /// The peer to whom it is sent; none for cookies.
        peer: Option<Key>,
        /// Its destination, and its source if it is chosen.
        endpoint: PeerEndpoint,
        /// Type of service.
        tos: u8,
        /// The payload.
        bytes: Vec<u8>,
        /// True if it carries a packet of the host, which leaves the queue.
        carries: bool,
    },
    /// A packet that a peer has sent through the tunnel.
    Packet(Vec<u8>),
    /// A packet of the host that has left the queue and is given up.
    Dropped(RejectReason),
}

/// Reason for which a packet or datagram is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectReason {
    /// Not a message of the protocol, or no IP packet within.
    Malformed,
    /// No peer has the network of the destination.
    NoPeer,
    /// The peer has no address yet.
    NoEndpoint,
    /// The packet has waited for a session: the queue overflowed, the peer does not answer or was removed.
    NoSession,
    /// A handshake message that is not authentic, that is replayed, or too many of them.
    Handshake,
    /// Data without a key, with one that has expired, or not authentic.
    Key,
    /// Data that were received before.
    Replay,
    /// The source of the packet within is not one of the peer's.
    Source,
}

/// A device.
#[derive(Clone, Debug)]
pub struct WireguardDevice {
    identity: Option<Identity>,
    /// UDP port on which it listens; 0 if it has none yet.
    pub port: u16,
    /// Mark of its datagrams.
    pub fwmark: u32,
    /// Networks of the peers.
    pub allowed: AllowedIps,
    up: bool,
    pub(crate) peers: Map<Key, Peer>,
    /// Public keys in the order in which peers were added.
    order: Vec<Key>,
    /// Peers by the indices of this end.
    indices: Map<u32, Key>,
    checker: Checker,
    load: HandshakeLoad,
    pub(crate) random: Stream,
    pub(crate) outputs: Vec<WireguardOutput>,
}

impl WireguardDevice {
    /// Device without a key. All random numbers are drawn from `random`.
    pub fn new(random: Stream) -> WireguardDevice {
        WireguardDevice {
            identity: None,
            port: 0,
            fwmark: 0,
            allowed: AllowedIps::default(),
            up: false,
            peers: Map::new(),
            order: Vec::new(),
            indices: Map::new(),
            checker: Checker::default(),
            load: HandshakeLoad::default(),
            random,
            outputs: Vec::new(),
        }
    }

    /// The results since the last call, in order.
    pub fn take_outputs(&mut self) -> Vec<WireguardOutput> {
        std::mem::take(&mut self.outputs)
    }
    /// Static keys, if they are set.
    pub fn identity(&self) -> Option<&Identity> {
        self.identity.as_ref()
    }
    /// True while the device is up.
    pub fn is_up(&self) -> bool {
        self.up
    }
    /// Peers with their public keys, in the order in which they were added.
    pub fn peers(&self) -> impl Iterator<Item = (&Key, &Peer)> {
        self.order.iter().filter_map(|key| Some((key, self.peers.get(key)?)))
    }
    /// A peer by its public key.
    pub fn peer(&self, key: &Key) -> Option<&Peer> {
        self.peers.get(key)
    }
    /// A peer by its public key.
    pub fn peer_mut(&mut self, key: &Key) -> Option<&mut Peer> {
        self.peers.get_mut(key)
    }
    /// Number of packets of the host that wait for a key.
    pub fn held(&self) -> usize {
        let staged = self.peers.values().flat_map(|peer| &peer.staged);
        staged.filter(|staged| !staged.is_keepalive()).count()
    }
    /// Sets the private key; zeros remove it. A peer with the same public key is removed (`wg_set_device`).
    pub fn set_private_key(&mut self, private: Key) {
        if self.identity.is_some_and(|own| own.private == private) {
            return;
        }
        self.identity = (private != [0; 32]).then(|| Identity::new(private));
        if let Some(own) = self.identity {
            self.remove_peer(&own.public);
            self.checker.set_public_key(&own.public);
        }
        for peer in self.peers.values_mut() {
            peer.set_identity(self.identity.as_ref());
            peer.keypairs.expire();
        }
    }
    /// Adds a peer, unless it is the device itself. Returns false for that.
    pub fn add_peer(&mut self, public: Key) -> bool {
        if self.identity.is_some_and(|own| own.public == public) {
            return false;
        }
        if !self.peers.contains_key(&public) {
            self.peers.insert(public, Peer::new(self.identity.as_ref(), public));
            self.order.push(public);
        }
        true
    }
    /// Removes a peer with its networks and keys.
    pub fn remove_peer(&mut self, public: &Key) {
        self.purge_staged(public, RejectReason::NoSession);
        let Some(mut peer) = self.peers.remove(public) else { return };
        self.order.retain(|key| key != public);
        self.allowed.remove_peer(*public);
        let gone = peer.forget_keys();
        self.release(gone);
    }
    /// Removes all peers.
    pub fn remove_all_peers(&mut self) {
        for key in self.order.clone() {
            self.remove_peer(&key);
        }
    }
    /// Sets the interval of a peer's keepalives, and sends the first one.
    pub fn set_persistent_keepalive(&mut self, key: &Key, seconds: u16, now: Now) {
        let up = self.up;
        let Some(peer) = self.peer_mut(key) else { return };
        let begins = peer.persistent_keepalive == 0 && seconds != 0;
        peer.persistent_keepalive = seconds;
        if begins && up {
            self.send_keepalive(key, now);
        }
    }
    /// Sends the packets that wait for a peer, if there are any.
    pub fn send_staged_if_any(&mut self, key: &Key, now: Now) {
        if self.peer(key).is_some_and(|peer| !peer.staged.is_empty()) {
            self.send_staged(key, now);
        }
    }
    /// Starts the device (`wg_open`).
    pub fn start(&mut self, now: Now) {
        self.up = true;
        for key in self.order.clone() {
            self.send_staged_if_any(&key, now);
            if self.peer(&key).is_some_and(|peer| peer.persistent_keepalive != 0) {
                self.send_keepalive(&key, now);
            }
        }
    }
    /// Stops the device, and forgets all keys (`wg_stop`).
    pub fn stop(&mut self) {
        self.up = false;
        for key in self.order.clone() {
            self.purge_staged(&key, RejectReason::NoSession);
            let Some(peer) = self.peer_mut(&key) else { continue };
            peer.timers = Default::default();
            peer.last_sent_handshake = None;
            let gone = peer.forget_keys();
            self.release(gone);
        }
        self.load = HandshakeLoad::default();
    }
    /// Forgets from which addresses datagrams are sent, since the routes to the peers may have changed.
    pub fn clear_sources(&mut self) {
        self.peers.values_mut().for_each(Peer::clear_source);
    }

    pub(crate) fn release(&mut self, indices: impl IntoIterator<Item = u32>) {
        for index in indices {
            self.indices.remove(&index);
        }
    }
    pub(crate) fn by_index(&self, index: u32) -> Option<Key> {
        self.indices.get(&index).copied()
    }
    fn new_index(&mut self, peer: Key) -> u32 {
        loop {
            let index = self.random.next_u32();
            if !self.indices.contains_key(&index) {
                self.indices.insert(index, peer);
                return index;
            }
        }
    }
    fn new_private_key(&mut self) -> Key {
        let mut key = [0; 32];
        self.random.fill(&mut key);
        key
    }

    /// Sends an initiation, unless one was sent recently.
    pub(crate) fn initiate(&mut self, key: &Key, is_retry: bool, now: Now) {
        let Some(peer) = self.peers.get_mut(key) else { return };
        if !is_retry {
            peer.attempts = 0;
        }
        if peer.last_sent_handshake.is_some_and(|last| last + REKEY_TIMEOUT > now.time) {
            return;
        }
        peer.last_sent_handshake = Some(now.time);
        let Some(own) = self.identity else { return };
        let gone = peer.handshake.clear();
        self.release(gone);
        let (ephemeral, index) = (self.new_private_key(), self.new_index(*key));
        let Some(peer) = self.peers.get_mut(key) else { return };
        let stamp = timestamp(now.realtime_ns);
        let made = peer.handshake.create_initiation((&own, &peer.remote), ephemeral, stamp, index);
        let Some(message) = made else {
            self.release([index]);
            return;
        };
        let mut bytes = message.emit();
        peer.cookie.add_macs(&mut bytes, now.time);
        peer.authenticated_sent(now.time);
        peer.handshake_initiated(now.time, &mut self.random);
        self.send_to_peer(key, bytes, HANDSHAKE_TOS);
    }

    /// Leaves a handshake message or a keepalive as an output, if the peer's address is known.
    pub(crate) fn send_to_peer(&mut self, key: &Key, bytes: Vec<u8>, tos: u8) {
        let Some(endpoint) = self.peer(key).and_then(|peer| peer.endpoint) else { return };
        self.outputs.push(WireguardOutput::Datagram {
            peer: Some(*key),
            endpoint,
            tos,
            bytes,
            carries: false,
        });
    }

    /// Receives a datagram. Returns the number of bytes that count as received from the peer, 0 for a cookie or a message
    /// that was answered by one.
    pub fn receive(&mut self, bytes: &[u8], from: PeerEndpoint, now: Now) -> Result<usize, RejectReason> {
        match messages::kind(bytes).ok_or(RejectReason::Malformed)? {
            messages::DATA => self.receive_data(bytes, from, now).map(|()| bytes.len()),
            messages::COOKIE => self.receive_cookie(bytes, now).map(|()| 0),
            kind => self.receive_handshake(kind, bytes, from, now),
        }
    }

    fn receive_cookie(&mut self, bytes: &[u8], now: Now) -> Result<(), RejectReason> {
        let reply = CookieReply::parse(bytes.first_chunk().ok_or(RejectReason::Malformed)?);
        let key = self.by_index(reply.receiver);
        let peer = key.and_then(|key| self.peer_mut(&key)).ok_or(RejectReason::Handshake)?;
        peer.cookie.take(&reply, now.time).then_some(()).ok_or(RejectReason::Handshake)
    }

    fn receive_handshake(
        &mut self,
        kind: u32,
        bytes: &[u8],
        from: PeerEndpoint,
        now: Now,
    ) -> Result<usize, RejectReason> {
        let own = self.identity.ok_or(RejectReason::Handshake)?;
        let loaded = self.load.arrive(now.time).ok_or(RejectReason::Handshake)?;
        let sender = (from.remote, loaded);
        match (self.checker.check(bytes, sender, now.time, &mut self.random), loaded) {
            (MacState::Valid, false) | (MacState::WithCookie, true) => {}
            (MacState::Valid, true) => {
                self.load.work(now.time, false);
                self.send_cookie(bytes, from, now);
                return Ok(0);
            }
            _ => return Err(RejectReason::Handshake),
        }
        self.load.work(now.time, true);
        let key = match kind {
            messages::INITIATION => self.accept_initiation(&own, bytes, now),
            _ => self.accept_response(&own, bytes),
        };
        let key = key.ok_or(RejectReason::Handshake)?;
        let Some(peer) = self.peer_mut(&key) else { return Err(RejectReason::Handshake) };
        peer.endpoint = Some(from);
        match kind {
            messages::INITIATION => self.respond(&key, now),
            _ => self.finish(&key, now),
        }
        if let Some(peer) = self.peer_mut(&key) {
            peer.rx_bytes += bytes.len() as u64;
            peer.authenticated_received(now.time);
        }
        Ok(bytes.len())
    }

    fn send_cookie(&mut self, message: &[u8], from: PeerEndpoint, now: Now) {
        let index = message.get(4..8).and_then(|index| index.first_chunk().copied());
        let to: (SocketAddr, u32) = (from.remote, index.map_or(0, u32::from_le_bytes));
        let reply = self.checker.reply(message, to, now.time, &mut self.random);
        let bytes = reply.emit();
        self.outputs.push(WireguardOutput::Datagram {
            peer: None,
            endpoint: from,
            tos: 0,
            bytes,
            carries: false,
        });
    }

    /// Accepts an initiation; returns its sender.
    fn accept_initiation(&mut self, own: &Identity, bytes: &[u8], now: Now) -> Option<Key> {
        let claim = identify(own, &Initiation::parse(bytes.first_chunk()?))?;
        let peer = self.peers.get_mut(&claim.peer)?;
        peer.handshake.consume_initiation(&claim, &peer.remote, now.time)?;
        Some(claim.peer)
    }

    /// Accepts a response; returns its sender.
    fn accept_response(&mut self, own: &Identity, bytes: &[u8]) -> Option<Key> {
        let message = Response::parse(bytes.first_chunk()?);
        let key = self.by_index(message.receiver)?;
        let peer = self.peers.get_mut(&key)?;
        if peer.handshake.index != Some(message.receiver) {
            return None;
        }
        peer.handshake.consume_response(own, &peer.remote, &message)?;
        Some(key)
    }

    /// Answers an initiation (`wg_packet_send_handshake_response`).
    fn respond(&mut self, key: &Key, now: Now) {
        let (ephemeral, index) = (self.new_private_key(), self.new_index(*key));
        let Some(peer) = self.peers.get_mut(key) else { return };
        peer.last_sent_handshake = Some(now.time);
        let before = peer.handshake.index.take();
        let made = peer.handshake.create_response(&peer.remote, ephemeral, index);
        self.release(before);
        let (Some(message), Some(peer)) = (made, self.peers.get_mut(key)) else {
            self.release([index]);
            return;
        };
        let mut bytes = message.emit();
        peer.cookie.add_macs(&mut bytes, now.time);
        let Some(pair) = peer.handshake.begin_session(now.time) else { return };
        let gone = peer.keypairs.add(pair);
        peer.session_derived(now.time);
        peer.authenticated_sent(now.time);
        self.release(gone);
        self.send_to_peer(key, bytes, HANDSHAKE_TOS);
    }

    /// Begins the session after a response. The packets that have waited confirm it, or else a keepalive.
    fn finish(&mut self, key: &Key, now: Now) {
        let Some(peer) = self.peer_mut(key) else { return };
        let Some(pair) = peer.handshake.begin_session(now.time) else { return };
        let gone = peer.keypairs.add(pair);
        peer.session_derived(now.time);
        peer.handshake_complete(now);
        self.release(gone);
        self.send_keepalive(key, now);
    }
}

#[cfg(test)]
impl WireguardDevice {
    /// Puts the device under load.
    pub(crate) fn load_again(&mut self, now: belljar_base::SimTime) {
        (0..600).for_each(|_| self.load.work(now, true));
    }
}
