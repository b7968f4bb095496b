//! Handshake: Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s.

use crate::keypair::Keypair;
use crate::limits::INITIATION_INTERVAL;
use crate::messages::{Initiation, Response, TIMESTAMP_LEN};
use crate::primitives::{Key, clamp, dh, hash, kdf, open, public_key, seal};
use belljar_base::SimTime;

const CONSTRUCTION: &[u8] = b"Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s";
const IDENTIFIER: &[u8] = b"WireGuard v1 zx2c4 Jason@zx2c4.com";

/// Time stamp of an initiation, TAI64N: increasing numbers as bytes.
pub type Timestamp = [u8; TIMESTAMP_LEN];

/// Time stamp of a time in nanoseconds since 1970, rounded so that it tells nothing about the host's clock
/// (`tai64n_now`).
pub fn timestamp(realtime_ns: u64) -> Timestamp {
    /// The next power of two above the least interval between initiations, in nanoseconds.
    const STEP: u32 = 1 << 25;
    let (seconds, nanos) = (realtime_ns / 1_000_000_000, (realtime_ns % 1_000_000_000) as u32);
    let mut out = [0; TIMESTAMP_LEN];
    out[..8].copy_from_slice(&(0x4000_0000_0000_000a + seconds).to_be_bytes());
    out[8..].copy_from_slice(&(nanos & !(STEP - 1)).to_be_bytes());
    out
}

/// Static keys of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Private key.
    pub private: Key,
    /// Public key.
    pub public: Key,
}

impl Identity {
    /// Identity of a private key, which is clamped.
    pub fn new(private: Key) -> Identity {
        let private = clamp(private);
        Identity { private, public: public_key(&private) }
    }
}

/// Static keys of a peer.
#[derive(Clone, Copy, Debug)]
pub struct RemoteKeys {
    /// Public key.
    pub public: Key,
    /// Shared secret of both static keys; `None` if there is none.
    pub static_static: Option<Key>,
    /// Preshared key; zeros without one.
    pub preshared: Key,
}

/// Symmetric state of a handshake.
#[derive(Clone, Copy, Debug)]
struct Symmetric {
    chaining: Key,
    hash: Key,
}

impl Symmetric {
    /// State at the beginning of a handshake with this responder.
    fn new(responder: &Key) -> Symmetric {
        let chaining = hash(&[CONSTRUCTION]);
        let first = hash(&[&chaining, IDENTIFIER]);
        Symmetric { chaining, hash: hash(&[&first, responder]) }
    }
    fn mix_hash(&mut self, bytes: &[u8]) {
        self.hash = hash(&[&self.hash, bytes]);
    }
    fn mix_chain(&mut self, input: &Key) {
        [self.chaining] = kdf(&self.chaining, input);
    }
    /// Mixes a shared secret in; returns the key that follows.
    fn mix_key(&mut self, input: &Key) -> Key {
        let [chaining, key] = kdf(&self.chaining, input);
        self.chaining = chaining;
        key
    }
    fn mix_preshared(&mut self, preshared: &Key) -> Key {
        let [chaining, mixed, key] = kdf(&self.chaining, preshared);
        self.chaining = chaining;
        self.mix_hash(&mixed);
        key
    }
    fn mix_ephemeral(&mut self, public: &Key) {
        self.mix_hash(public);
        self.mix_chain(public);
    }
    fn encrypt<const N: usize>(&mut self, key: &Key, text: &[u8]) -> [u8; N] {
        let mut bytes = text.to_vec();
        seal(key, 0, &mut bytes, &self.hash);
        self.mix_hash(&bytes);
        bytes.try_into().expect("a text with its tag")
    }
    fn decrypt(&mut self, key: &Key, sealed: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = sealed.to_vec();
        open(key, 0, &mut bytes, &self.hash).then_some(())?;
        self.mix_hash(sealed);
        Some(bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    CreatedInitiation,
    ConsumedInitiation,
    CreatedResponse,
    ConsumedResponse,
}

/// Handshake with a peer.
#[derive(Clone, Debug)]
pub struct Handshake {
    state: State,
    symmetric: Symmetric,
    ephemeral: Key,
    remote_ephemeral: Key,
    remote_index: u32,
    /// Index of this end, while a handshake is under way.
    pub index: Option<u32>,
    latest_timestamp: Timestamp,
    last_initiation: Option<SimTime>,
}

/// An initiation whose sender is known, but not yet whether it is fresh.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Static public key of the sender.
    pub peer: Key,
    symmetric: Symmetric,
    message: Initiation,
}

/// Reads the sender of an initiation.
pub fn identify(own: &Identity, message: &Initiation) -> Option<Claim> {
    let mut symmetric = Symmetric::new(&own.public);
    symmetric.mix_ephemeral(&message.ephemeral);
    let key = symmetric.mix_key(&dh(&own.private, &message.ephemeral)?);
    let peer = symmetric.decrypt(&key, &message.static_key)?.try_into().ok()?;
    Some(Claim { peer, symmetric, message: *message })
}

impl Default for Handshake {
    fn default() -> Handshake {
        Handshake {
            state: State::None,
            symmetric: Symmetric { chaining: [0; 32], hash: [0; 32] },
            ephemeral: [0; 32],
            remote_ephemeral: [0; 32],
            remote_index: 0,
            index: None,
            latest_timestamp: [0; TIMESTAMP_LEN],
            last_initiation: None,
        }
    }
}

impl Handshake {
    /// Forgets a handshake under way. Time stamps stay. Returns the index that is free now.
    pub fn clear(&mut self) -> Option<u32> {
        let index = self.index.take();
        let (latest_timestamp, last_initiation) = (self.latest_timestamp, self.last_initiation);
        *self = Handshake { latest_timestamp, last_initiation, ..Handshake::default() };
        index
    }

    /// Creates an initiation with a new ephemeral key. The caller has released the former index.
    pub fn create_initiation(
        &mut self,
        (own, remote): (&Identity, &RemoteKeys),
        ephemeral: Key,
        time: Timestamp,
        index: u32,
    ) -> Option<Initiation> {
        let static_static = remote.static_static?;
        let mut symmetric = Symmetric::new(&remote.public);
        let ephemeral = clamp(ephemeral);
        let public = public_key(&ephemeral);
        symmetric.mix_ephemeral(&public);
        let key = symmetric.mix_key(&dh(&ephemeral, &remote.public)?);
        let static_key = symmetric.encrypt(&key, &own.public);
        let key = symmetric.mix_key(&static_static);
        let timestamp = symmetric.encrypt(&key, &time);
        (self.symmetric, self.ephemeral) = (symmetric, ephemeral);
        (self.state, self.index) = (State::CreatedInitiation, Some(index));
        Some(Initiation { sender: index, ephemeral: public, static_key, timestamp })
    }

    /// Accepts an initiation, unless it is replayed or follows another one too soon.
    pub fn consume_initiation(&mut self, claim: &Claim, remote: &RemoteKeys, now: SimTime) -> Option<()> {
        let mut symmetric = claim.symmetric;
        let key = symmetric.mix_key(&remote.static_static?);
        let time: Timestamp = symmetric.decrypt(&key, &claim.message.timestamp)?.try_into().ok()?;
        let is_replayed = time <= self.latest_timestamp;
        let is_flood = self.last_initiation.is_some_and(|last| last + INITIATION_INTERVAL > now);
        if is_replayed || is_flood {
            return None;
        }
        self.latest_timestamp = time;
        self.last_initiation = Some(now);
        self.symmetric = symmetric;
        self.remote_ephemeral = claim.message.ephemeral;
        self.remote_index = claim.message.sender;
        self.state = State::ConsumedInitiation;
        Some(())
    }

    /// Creates the response to the accepted initiation.
    pub fn create_response(&mut self, remote: &RemoteKeys, ephemeral: Key, index: u32) -> Option<Response> {
        if self.state != State::ConsumedInitiation {
            return None;
        }
        let mut symmetric = self.symmetric;
        let ephemeral = clamp(ephemeral);
        let public = public_key(&ephemeral);
        symmetric.mix_ephemeral(&public);
        symmetric.mix_chain(&dh(&ephemeral, &self.remote_ephemeral)?);
        symmetric.mix_chain(&dh(&ephemeral, &remote.public)?);
        let key = symmetric.mix_preshared(&remote.preshared);
        let empty = symmetric.encrypt(&key, &[]);
        (self.symmetric, self.ephemeral) = (symmetric, ephemeral);
        (self.state, self.index) = (State::CreatedResponse, Some(index));
        Some(Response { sender: index, receiver: self.remote_index, ephemeral: public, empty })
    }

    /// Accepts the response to the initiation.
    pub fn consume_response(
        &mut self,
        own: &Identity,
        remote: &RemoteKeys,
        message: &Response,
    ) -> Option<()> {
        if self.state != State::CreatedInitiation {
            return None;
        }
        let mut symmetric = self.symmetric;
        symmetric.mix_ephemeral(&message.ephemeral);
        symmetric.mix_chain(&dh(&self.ephemeral, &message.ephemeral)?);
        symmetric.mix_chain(&dh(&own.private, &message.ephemeral)?);
        let key = symmetric.mix_preshared(&remote.preshared);
        symmetric.decrypt(&key, &message.empty)?;
        self.symmetric = symmetric;
        self.remote_ephemeral = message.ephemeral;
        self.remote_index = message.sender;
        self.state = State::ConsumedResponse;
        Some(())
    }

    /// Derives the keys of a finished handshake, and forgets it. The index passes to the keys.
    pub fn begin_session(&mut self, now: SimTime) -> Option<Keypair> {
        let is_initiator = match self.state {
            State::ConsumedResponse => true,
            State::CreatedResponse => false,
            _ => return None,
        };
        let [first, second] = kdf(&self.symmetric.chaining, &[]);
        let keys = if is_initiator { (first, second) } else { (second, first) };
        let remote_index = self.remote_index;
        let index = self.clear()?;
        Some(Keypair::new((index, remote_index), keys, is_initiator, now))
    }
}
