//! Transport data: packets of the host to peers, and those of peers to the host.

use crate::device::{RejectReason, WireguardDevice, WireguardOutput};
use crate::limits::{
    KEEPALIVE_TIMEOUT, MAX_STAGED_PACKETS, PADDING, REJECT_AFTER_TIME, REKEY_AFTER_MESSAGES,
    REKEY_AFTER_TIME, REKEY_TIMEOUT,
};
use crate::messages::{DATA_HEADER_LEN, DataHeader, KEEPALIVE_LEN};
use crate::peer::{Peer, PeerEndpoint, Staged};
use crate::primitives::{open, seal};
use crate::{Key, Now};
use std::net::IpAddr;

/// Bits of ECN, and the value of congestion experienced.
const ECN: u8 = 3;
const CONGESTION: u8 = 3;

/// Header fields of a packet within.
struct Inner {
    source: IpAddr,
    destination: IpAddr,
    /// Length that the header states.
    len: usize,
    tos: u8,
}

fn inner(bytes: &[u8]) -> Option<Inner> {
    let two = |at: usize| bytes.get(at..at + 2)?.first_chunk().map(|two| u16::from_be_bytes(*two));
    match bytes.first()? >> 4 {
        4 => {
            let header: &[u8; 20] = bytes.first_chunk()?;
            let ip = |at: usize| [header[at], header[at + 1], header[at + 2], header[at + 3]].into();
            let len = usize::from(two(2)?);
            (len >= 20).then_some(Inner { source: ip(12), destination: ip(16), len, tos: header[1] })
        }
        6 => {
            let header: &[u8; 40] = bytes.first_chunk()?;
            let ip = |at: usize| header[at..].first_chunk::<16>().map(|ip| IpAddr::from(*ip));
            let len = 40 + usize::from(two(4)?);
            Some(Inner { source: ip(8)?, destination: ip(24)?, len, tos: (two(0)? >> 4) as u8 })
        }
        _ => None,
    }
}

/// Length of a packet with its padding: a multiple of 16 within the MTU (`calculate_skb_padding`).
fn padded(len: usize, mtu: usize) -> usize {
    let last = if mtu != 0 && len > mtu { len % mtu } else { len };
    let padded = last.next_multiple_of(PADDING);
    len - last + if mtu != 0 { padded.min(mtu) } else { padded }
}

impl WireguardDevice {
    /// Takes a packet of the host, whose route has this MTU. The packet waits, until an output says what became of it.
    pub fn send(&mut self, bytes: Vec<u8>, mtu: usize, now: Now) -> Result<(), (RejectReason, Vec<u8>)> {
        let Some(packet) = inner(&bytes) else { return Err((RejectReason::Malformed, bytes)) };
        let Some(key) = self.allowed.lookup(packet.destination) else {
            return Err((RejectReason::NoPeer, bytes));
        };
        let Some(peer) = self.peer_mut(&key).filter(|peer| peer.endpoint.is_some()) else {
            return Err((RejectReason::NoEndpoint, bytes));
        };
        let full = peer.staged.len() > MAX_STAGED_PACKETS;
        let oldest = if full { peer.staged.pop_front() } else { None };
        peer.staged.push_back(Staged { bytes, mtu });
        if oldest.is_some_and(|oldest| !oldest.is_keepalive()) {
            self.outputs.push(WireguardOutput::Dropped(RejectReason::NoSession));
        }
        self.send_staged(&key, now);
        Ok(())
    }

    /// Sends a keepalive, or the packets that wait.
    pub fn send_keepalive(&mut self, key: &Key, now: Now) {
        let Some(peer) = self.peer_mut(key) else { return };
        if peer.staged.is_empty() {
            peer.staged.push_back(Staged { bytes: Vec::new(), mtu: 0 });
        }
        self.send_staged(key, now);
    }

    /// Sends the packets of a peer that wait, or begins a handshake (`wg_packet_send_staged_packets`).
    pub fn send_staged(&mut self, key: &Key, now: Now) {
        let mut sent_any = false;
        let mut sent_data = false;
        while let Some(peer) = self.peer_mut(key)
            && let Some(staged) = peer.staged.pop_front()
        {
            let endpoint = peer.endpoint;
            let pair = peer.keypairs.current.as_mut();
            let Some((counter, pair)) = pair.and_then(|pair| Some((pair.next_counter(now.time)?, pair)))
            else {
                peer.staged.push_front(staged);
                self.after_sending(key, (sent_any, sent_data), now);
                self.initiate(key, false, now);
                return;
            };
            let tos = match inner(&staged.bytes).map_or(0, |packet| packet.tos & ECN) {
                CONGESTION => 2,
                ecn => ecn,
            };
            let carries = !staged.is_keepalive();
            let mut text = staged.bytes;
            text.resize(padded(text.len(), staged.mtu), 0);
            seal(&pair.send_key, counter, &mut text, &[]);
            let header = DataHeader { receiver: pair.remote_index, counter };
            let bytes = [&header.emit()[..], &text].concat();
            // A peer with a session has an address.
            if let Some(endpoint) = endpoint {
                self.outputs.push(WireguardOutput::Datagram {
                    peer: Some(*key),
                    endpoint,
                    tos,
                    bytes,
                    carries,
                });
            }
            (sent_any, sent_data) = (true, sent_data | carries);
        }
        self.after_sending(key, (sent_any, sent_data), now);
    }

    /// Sets timers after transport data were sent, and begins a handshake if the key is old (`keep_key_fresh` of
    /// Linux's `send.c`).
    fn after_sending(&mut self, key: &Key, (sent_any, sent_data): (bool, bool), now: Now) {
        let Some(peer) = self.peers.get_mut(key).filter(|_| sent_any) else { return };
        peer.authenticated_sent(now.time);
        if sent_data {
            peer.data_sent(now.time, &mut self.random);
        }
        let current = peer.keypairs.current.as_ref().filter(|pair| pair.sends);
        let is_old = current.is_some_and(|pair| {
            let aged = pair.is_initiator && pair.born + REKEY_AFTER_TIME <= now.time;
            pair.counter > REKEY_AFTER_MESSAGES || aged
        });
        if is_old {
            self.initiate(key, false, now);
        }
    }

    pub(crate) fn receive_data(
        &mut self,
        bytes: &[u8],
        from: PeerEndpoint,
        now: Now,
    ) -> Result<(), RejectReason> {
        let (head, sealed) = bytes.split_first_chunk::<DATA_HEADER_LEN>().ok_or(RejectReason::Malformed)?;
        let header = DataHeader::parse(head);
        let key = self.by_index(header.receiver).ok_or(RejectReason::Key)?;
        let peer = self.peer_mut(&key).ok_or(RejectReason::Key)?;
        let pair = peer.keypairs.with_index(header.receiver).ok_or(RejectReason::Key)?;
        let mut text = sealed.to_vec();
        if !pair.may_receive(now.time) || !open(&pair.receive_key, header.counter, &mut text, &[]) {
            return Err(RejectReason::Key);
        }
        if !pair.window.accept(header.counter) {
            return Err(RejectReason::Replay);
        }
        peer.endpoint = Some(from);
        let (confirmed, gone) = peer.keypairs.confirm(header.receiver);
        if confirmed {
            peer.handshake_complete(now);
            self.release(gone);
            self.send_staged(&key, now);
        }
        self.keep_key_fresh(&key, now);
        let Some(peer) = self.peer_mut(&key) else { return Err(RejectReason::Key) };
        peer.authenticated_received(now.time);
        if text.is_empty() {
            peer.rx_bytes += KEEPALIVE_LEN as u64;
            return Ok(());
        }
        peer.data_received(now.time);
        let len = text.len();
        let packet = inner(&text).filter(|packet| packet.len <= len).ok_or(RejectReason::Malformed)?;
        if self.allowed.lookup(packet.source) != Some(key) {
            return Err(RejectReason::Source);
        }
        text.truncate(packet.len);
        if let Some(peer) = self.peer_mut(&key) {
            peer.rx_bytes += (KEEPALIVE_LEN + len) as u64;
        }
        self.outputs.push(WireguardOutput::Packet(text));
        Ok(())
    }

    /// Begins a handshake by the initiator of a key that has little time left (`keep_key_fresh` of Linux's `receive.c`).
    fn keep_key_fresh(&mut self, key: &Key, now: Now) {
        let age = REJECT_AFTER_TIME.saturating_sub(KEEPALIVE_TIMEOUT).saturating_sub(REKEY_TIMEOUT);
        let is_old = |peer: &Peer| {
            let current = peer.keypairs.current.as_ref().filter(|pair| pair.sends && pair.is_initiator);
            current.is_some_and(|pair| pair.born + age <= now.time)
        };
        let Some(peer) = self.peer_mut(key) else { return };
        if !peer.sent_lastminute_handshake && is_old(peer) {
            peer.sent_lastminute_handshake = true;
            self.initiate(key, false, now);
        }
    }
}
