//! Cryptographic functions of the protocol: Curve25519, ChaCha20-Poly1305, BLAKE2s and the key derivation over it.

use blake2::digest::consts::U16;
use blake2::digest::{FixedOutput, KeyInit, Update};
use blake2::{Blake2s256, Blake2sMac, Digest};
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, Tag, XChaCha20Poly1305};
use curve25519_dalek::MontgomeryPoint;

/// A key or a hash: 32 bytes.
pub type Key = [u8; 32];
/// Length of an authentication tag in bytes.
pub const TAG_LEN: usize = 16;
/// Block length of BLAKE2s in bytes.
const BLOCK_LEN: usize = 64;

/// Public key of a private key.
pub fn public_key(private: &Key) -> Key {
    MontgomeryPoint::mul_base_clamped(*private).to_bytes()
}

/// Private key with the bits set that the curve requires (`curve25519_clamp_secret`).
pub fn clamp(mut private: Key) -> Key {
    private[0] &= 248;
    private[31] = private[31] & 127 | 64;
    private
}

/// Diffie-Hellman function; `None` for a public key of low order.
pub fn dh(private: &Key, public: &Key) -> Option<Key> {
    let shared = MontgomeryPoint(*public).mul_clamped(*private).to_bytes();
    (shared != [0; 32]).then_some(shared)
}

/// Hash of the concatenation of parts.
pub fn hash(parts: &[&[u8]]) -> Key {
    let mut state = Blake2s256::default();
    for part in parts {
        Digest::update(&mut state, part);
    }
    state.finalize_fixed().into()
}

/// Keyed hash of 16 bytes; the key has at most 32 bytes.
pub fn mac(key: &[u8], parts: &[&[u8]]) -> [u8; 16] {
    let mut state = <Blake2sMac<U16> as KeyInit>::new_from_slice(key).expect("a key of at most 32 bytes");
    for part in parts {
        Update::update(&mut state, part);
    }
    state.finalize_fixed().into()
}

/// HMAC over BLAKE2s (RFC 2104), with a key of one hash.
fn hmac(key: &Key, parts: &[&[u8]]) -> Key {
    let pad = |byte: u8| {
        let mut block = [byte; BLOCK_LEN];
        block.iter_mut().zip(key).for_each(|(out, byte)| *out ^= byte);
        block
    };
    let inner = {
        let mut state = Blake2s256::default();
        Digest::update(&mut state, pad(0x36));
        for part in parts {
            Digest::update(&mut state, part);
        }
        state.finalize_fixed()
    };
    hash(&[&pad(0x5c), &inner])
}

/// HKDF of `N` keys, at most three.
pub fn kdf<const N: usize>(key: &Key, input: &[u8]) -> [Key; N] {
    let secret = hmac(key, &[input]);
    let mut out = [[0; 32]; N];
    let mut last: Option<Key> = None;
    for (number, key) in (1u8..).zip(&mut out) {
        let before = last.as_ref().map_or(&[][..], |key| &key[..]);
        *key = hmac(&secret, &[before, &[number]]);
        last = Some(*key);
    }
    out
}

/// Encrypts `bytes` in place and appends the tag.
pub fn seal(key: &Key, counter: u64, bytes: &mut Vec<u8>, authenticated: &[u8]) {
    let tag = ChaCha20Poly1305::new(key.into())
        .encrypt_in_place_detached(&nonce(counter).into(), authenticated, bytes)
        .expect("a packet is shorter than the limit of the cipher");
    bytes.extend_from_slice(&tag);
}

/// Decrypts bytes with their tag in place. False, with the bytes undefined, if they are not authentic.
pub fn open(key: &Key, counter: u64, bytes: &mut Vec<u8>, authenticated: &[u8]) -> bool {
    let Some(len) = bytes.len().checked_sub(TAG_LEN) else { return false };
    let tag = Tag::clone_from_slice(&bytes[len..]);
    bytes.truncate(len);
    ChaCha20Poly1305::new(key.into())
        .decrypt_in_place_detached(&nonce(counter).into(), authenticated, bytes, &tag)
        .is_ok()
}

fn nonce(counter: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter.to_le_bytes());
    nonce
}

/// Encrypts a cookie with a random nonce.
pub fn seal_cookie(key: &Key, nonce: &[u8; 24], cookie: [u8; 16], authenticated: &[u8]) -> [u8; 32] {
    let mut bytes = cookie;
    let tag = XChaCha20Poly1305::new(key.into())
        .encrypt_in_place_detached(nonce.into(), authenticated, &mut bytes)
        .expect("a cookie is shorter than the limit of the cipher");
    let mut out = [0; 32];
    out[..16].copy_from_slice(&bytes);
    out[16..].copy_from_slice(&tag);
    out
}

/// Decrypts a cookie; `None` if it is not authentic.
pub fn open_cookie(key: &Key, nonce: &[u8; 24], sealed: &[u8; 32], authenticated: &[u8]) -> Option<[u8; 16]> {
    let mut bytes: [u8; 16] = sealed[..16].try_into().ok()?;
    let tag = Tag::clone_from_slice(&sealed[16..]);
    let opened = XChaCha20Poly1305::new(key.into()).decrypt_in_place_detached(
        nonce.into(),
        authenticated,
        &mut bytes,
        &tag,
    );
    opened.ok().map(|()| bytes)
}
