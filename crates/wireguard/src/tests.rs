//! Two devices in virtual time, with a network between them that a test may cut, delay or record.

use crate::limits::REJECT_AFTER_MESSAGES;
use crate::primitives::public_key;
use crate::{Key, Now, PeerEndpoint, RejectReason, WireguardDevice, WireguardOutput, messages};
use belljar_base::{Seed, SimDuration, SimTime};
use std::net::{IpAddr, SocketAddr};

const START_NS: u64 = 946_684_800_000_000_000;

struct Pair {
    devices: [WireguardDevice; 2],
    keys: [Key; 2],
    addresses: [SocketAddr; 2],
    now: SimTime,
    /// Delivered packets with their receiver, and dropped ones.
    packets: Vec<(usize, Vec<u8>)>,
    dropped: Vec<RejectReason>,
    /// Datagrams with their sender and time.
    wire: Vec<(usize, SimTime, Vec<u8>)>,
    rejected: Vec<RejectReason>,
    /// Senders whose datagrams are lost.
    cut: [bool; 2],
}

fn at(time: SimTime) -> Now {
    Now { time, realtime_ns: START_NS + time.as_nanos() }
}

/// Packet of IPv4 between the inner addresses 10.9.0.1 and 10.9.0.2.
fn packet(from: u8, to: u8, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    bytes[12..16].copy_from_slice(&[10, 9, 0, from]);
    bytes[16..20].copy_from_slice(&[10, 9, 0, to]);
    bytes
}

impl Pair {
    fn new() -> Pair {
        let private: [Key; 2] = [[7; 32], [9; 32]];
        let keys = private.map(|key| public_key(&key));
        let addresses = ["192.0.2.1:51820", "192.0.2.2:51820"].map(|text| text.parse().unwrap());
        let devices = [0, 1].map(|n: usize| {
            let mut device = WireguardDevice::new(Seed(1).stream(&["test", if n == 0 { "a" } else { "b" }]));
            device.set_private_key(private[n]);
            assert!(device.add_peer(keys[1 - n]));
            assert!(!device.add_peer(keys[n]), "a device is no peer of itself");
            let inner: IpAddr = [10, 9, 0, 2 - n as u8].into();
            device.allowed.insert(inner, 32, keys[1 - n]);
            let endpoint = PeerEndpoint { remote: addresses[1 - n], local: None };
            device.peer_mut(&keys[1 - n]).unwrap().endpoint = Some(endpoint);
            device.start(at(SimTime::ZERO));
            device
        });
        let (packets, dropped, wire, rejected) = Default::default();
        let now = SimTime::ZERO;
        Pair { devices, keys, addresses, now, packets, dropped, wire, rejected, cut: [false; 2] }
    }
    fn peer(&mut self, n: usize) -> &mut crate::Peer {
        let key = self.keys[1 - n];
        self.devices[n].peer_mut(&key).unwrap()
    }
    fn send(&mut self, n: usize, len: usize) {
        let bytes = packet(n as u8 + 1, 2 - n as u8, len);
        self.devices[n].send(bytes, 1_420, at(self.now)).unwrap();
        self.settle();
    }
    /// Delivers all datagrams without delay.
    fn settle(&mut self) {
        loop {
            let before = self.wire.len();
            for n in 0..2 {
                for output in self.devices[n].take_outputs() {
                    match output {
                        WireguardOutput::Datagram { bytes, .. } => {
                            self.wire.push((n, self.now, bytes.clone()));
                            if !self.cut[n] {
                                let from = PeerEndpoint { remote: self.addresses[n], local: None };
                                let end = self.devices[1 - n].receive(&bytes, from, at(self.now));
                                self.rejected.extend(end.err());
                            }
                        }
                        WireguardOutput::Packet(bytes) => self.packets.push((n, bytes)),
                        WireguardOutput::Dropped(why) => self.dropped.push(why),
                    }
                }
            }
            if self.wire.len() == before && self.devices.iter().all(|device| device.outputs.is_empty()) {
                return;
            }
        }
    }
    /// Runs the timers until a time.
    fn run(&mut self, until: SimTime) {
        while let Some(next) = self.devices.iter().filter_map(WireguardDevice::next_timeout).min()
            && next <= until
        {
            self.now = self.now.max(next);
            for n in 0..2 {
                self.devices[n].on_timeout(at(self.now));
            }
            self.settle();
        }
        self.now = until;
    }
    fn run_secs(&mut self, seconds: u64) {
        self.run(self.now + SimDuration::from_secs(seconds));
    }
    fn count(&self, kind: u32) -> usize {
        self.wire.iter().filter(|(_, _, bytes)| bytes[0] == kind as u8).count()
    }
}

#[test]
fn packets_pass_after_a_handshake_and_are_padded() {
    let mut pair = Pair::new();
    pair.send(0, 100);
    pair.send(1, 1_420);
    assert_eq!(pair.packets, [(1, packet(1, 2, 100)), (0, packet(2, 1, 1_420))]);
    let lengths: Vec<usize> = pair.wire.iter().map(|(_, _, bytes)| bytes.len()).collect();
    // A packet is padded to a multiple of 16, within the MTU.
    assert_eq!(lengths, [148, 92, 32 + 112, 32 + 1_420]);
    assert_eq!(pair.peer(0).tx_bytes, 0, "sent bytes are counted by the host");
    assert_eq!(pair.peer(0).rx_bytes, 92 + 1_452);
    assert_eq!(pair.peer(1).rx_bytes, 148 + 144);
    assert_eq!(pair.peer(1).last_handshake_ns, Some(START_NS));
    // Received data without an answer lead to a keepalive.
    pair.run_secs(12);
    assert_eq!(
        pair.wire.last().map(|(n, time, bytes)| (*n, *time, bytes.len())),
        Some((0, SimTime::from_secs(10), 32))
    );
    assert!(pair.rejected.is_empty() && pair.dropped.is_empty());
}

#[test]
fn preshared_keys_must_be_equal() {
    let mut pair = Pair::new();
    pair.peer(0).remote.preshared = [3; 32];
    pair.send(0, 100);
    assert!(pair.packets.is_empty());
    assert_eq!(pair.rejected, [RejectReason::Handshake]);
    pair.peer(1).remote.preshared = [3; 32];
    pair.run_secs(6);
    assert_eq!(pair.packets.len(), 1);
}

#[test]
fn the_initiator_renews_the_key_after_two_minutes() {
    let mut pair = Pair::new();
    for _ in 0..400 {
        pair.send(0, 60);
        pair.send(1, 60);
        pair.run_secs(1);
    }
    assert_eq!(pair.packets.len(), 800);
    let initiations = pair.wire.iter().filter(|(_, _, bytes)| bytes[0] == 1);
    let times: Vec<(usize, u64)> =
        initiations.map(|(n, time, _)| (*n, time.as_nanos() / 1_000_000_000)).collect();
    assert_eq!(times, [(0, 0), (0, 120), (0, 240), (0, 360)]);
    assert!(pair.rejected.is_empty());
}

#[test]
fn keys_are_rejected_when_they_are_old_and_forgotten_later() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    pair.run_secs(181);
    let before = pair.count(messages::INITIATION);
    pair.send(1, 60);
    assert_eq!(pair.count(messages::INITIATION), before + 1, "the key has expired");
    assert_eq!(pair.packets.len(), 2);
    pair.run_secs(600);
    assert!(pair.peer(0).keypairs.current.is_none(), "keys are zeroed after 9 minutes");
    assert_eq!(pair.devices[0].next_timeout(), None);
}

#[test]
fn a_peer_that_does_not_answer_is_given_up() {
    let mut pair = Pair::new();
    pair.cut = [true; 2];
    for _ in 0..140 {
        pair.send(0, 60);
    }
    // One more than the limit waits, as in Linux.
    assert_eq!((pair.dropped.len(), pair.devices[0].held()), (11, 129));
    pair.run_secs(200);
    assert_eq!((pair.dropped.len(), pair.devices[0].held()), (140, 0));
    assert!(pair.dropped.iter().all(|why| *why == RejectReason::NoSession));
    // The first initiation and 19 retries, each after 5 s and up to a third of a second.
    assert_eq!(pair.count(messages::INITIATION), 20);
    let (_, last, _) = pair.wire.last().unwrap();
    assert!(last.as_secs_f64() > 95.0 && last.as_secs_f64() < 102.0, "{last:?}");
}

#[test]
fn unanswered_data_begin_a_handshake() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    pair.run_secs(30);
    pair.cut[1] = true;
    pair.send(0, 60);
    pair.run_secs(16);
    let (_, last, bytes) = pair.wire.iter().rfind(|(sender, ..)| *sender == 0).unwrap();
    assert_eq!(bytes[0], 1);
    assert!(last.as_secs_f64() >= 45.0 && last.as_secs_f64() < 45.4, "{last:?}");
}

#[test]
fn persistent_keepalives_are_sent() {
    let mut pair = Pair::new();
    let key = pair.keys[1];
    pair.devices[0].set_persistent_keepalive(&key, 25, at(SimTime::ZERO));
    pair.settle();
    pair.run_secs(101);
    let sent: Vec<u64> = pair
        .wire
        .iter()
        .filter(|(n, _, bytes)| *n == 0 && bytes.len() == messages::KEEPALIVE_LEN)
        .map(|(_, time, _)| time.as_nanos() / 1_000_000_000)
        .collect();
    assert_eq!(sent, [0, 25, 50, 75, 100]);
}

#[test]
fn replayed_messages_are_dropped() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    let from = PeerEndpoint { remote: "198.51.100.1:9".parse().unwrap(), local: None };
    let (first, data) = (pair.wire[0].2.clone(), pair.wire[2].2.clone());
    pair.now = SimTime::from_secs(1);
    assert_eq!(pair.devices[1].receive(&first, from, at(pair.now)), Err(RejectReason::Handshake));
    assert_eq!(pair.devices[1].receive(&data, from, at(pair.now)), Err(RejectReason::Replay));
    assert_eq!(pair.peer(1).endpoint.unwrap().remote, pair.addresses[0], "replays do not move a peer");
    // An altered one is not authentic, even with another counter.
    let mut other = data;
    other[8] = 5;
    assert_eq!(pair.devices[1].receive(&other, from, at(pair.now)), Err(RejectReason::Key));
}

#[test]
fn a_peer_may_move_and_its_source_is_checked() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    pair.addresses[0] = "203.0.113.5:1234".parse().unwrap();
    pair.send(0, 60);
    assert_eq!(pair.peer(1).endpoint.unwrap().remote, pair.addresses[0]);
    let foreign = packet(77, 2, 60);
    pair.devices[0].send(foreign, 1_420, at(pair.now)).unwrap();
    pair.settle();
    assert_eq!((pair.packets.len(), &pair.rejected[..]), (2, &[RejectReason::Source][..]));
    let unknown = packet(1, 99, 60);
    let refused = pair.devices[0].send(unknown, 1_420, at(pair.now)).map_err(|(why, _)| why);
    assert_eq!(refused, Err(RejectReason::NoPeer));
    pair.peer(0).endpoint = None;
    let refused = pair.devices[0].send(packet(1, 2, 60), 1_420, at(pair.now)).map_err(|(why, _)| why);
    assert_eq!(refused, Err(RejectReason::NoEndpoint));
}

#[test]
fn keys_with_many_messages_are_renewed_and_rejected() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    pair.now = SimTime::from_secs(6);
    pair.peer(0).keypairs.current.as_mut().unwrap().counter = (1 << 60) + 1;
    pair.send(0, 60);
    assert_eq!(pair.count(messages::INITIATION), 2);
    pair.now = SimTime::from_secs(12);
    pair.peer(0).keypairs.current.as_mut().unwrap().counter = REJECT_AFTER_MESSAGES;
    pair.send(0, 60);
    assert_eq!((pair.count(messages::INITIATION), pair.packets.len()), (3, 3));
}

#[test]
fn a_flood_of_initiations_leads_to_cookies() {
    let mut pair = Pair::new();
    // 600 messages at once, each with the right first MAC.
    let mut other = WireguardDevice::new(Seed(2).stream(&["other"]));
    other.set_private_key([1; 32]);
    other.add_peer(pair.keys[1]);
    let endpoint = PeerEndpoint { remote: pair.addresses[1], local: None };
    other.peer_mut(&pair.keys[1]).unwrap().endpoint = Some(endpoint);
    other.allowed.insert([0, 0, 0, 0].into(), 0, pair.keys[1]);
    other.start(at(SimTime::ZERO));
    let from = PeerEndpoint { remote: "198.51.100.1:9".parse().unwrap(), local: None };
    for n in 0..600 {
        other.peer_mut(&pair.keys[1]).unwrap().last_sent_handshake = None;
        other.initiate(&pair.keys[1], false, at(SimTime::from_nanos(n * 1_000)));
        for output in other.take_outputs() {
            let WireguardOutput::Datagram { bytes, .. } = output else { panic!("a datagram") };
            let end = pair.devices[1].receive(&bytes, from, at(pair.now));
            assert_eq!(end.is_ok(), n >= 512, "strangers are refused, then answered by a cookie");
        }
    }
    let cookies = pair.devices[1].take_outputs();
    assert_eq!(cookies.len(), 600 - 512);
    pair.send(0, 60);
    assert_eq!(pair.wire.iter().map(|(_, _, bytes)| bytes[0]).collect::<Vec<_>>(), [1, 3]);
    // The next attempt has a cookie; still under load, since new messages come.
    pair.now = SimTime::from_nanos(900_000_000);
    pair.devices[1].load_again(pair.now);
    pair.peer(0).last_sent_handshake = None;
    let key = pair.keys[1];
    pair.devices[0].initiate(&key, true, at(pair.now));
    pair.settle();
    assert_eq!(pair.wire[2..].iter().map(|(_, _, bytes)| bytes[0]).collect::<Vec<_>>(), [1, 2, 4]);
    assert_eq!(pair.packets.len(), 1);
    // A reply for another message is refused.
    let Some(WireguardOutput::Datagram { bytes, .. }) = cookies.into_iter().next() else {
        panic!("a cookie")
    };
    assert_eq!(pair.devices[0].receive(&bytes, from, at(pair.now)), Err(RejectReason::Handshake));
}

#[test]
fn both_ends_may_begin_at_once() {
    let mut pair = Pair::new();
    pair.devices[0].send(packet(1, 2, 60), 1_420, at(pair.now)).unwrap();
    pair.devices[1].send(packet(2, 1, 60), 1_420, at(pair.now)).unwrap();
    pair.settle();
    pair.run_secs(20);
    assert_eq!(pair.packets.len(), 2);
    pair.send(0, 60);
    pair.send(1, 60);
    assert_eq!(pair.packets.len(), 4);
}

#[test]
fn a_stopped_device_forgets_its_keys() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    pair.devices[0].stop();
    assert_eq!(pair.devices[0].next_timeout(), None);
    pair.devices[0].start(at(pair.now));
    pair.now = SimTime::from_secs(1);
    pair.send(0, 60);
    assert_eq!((pair.count(messages::INITIATION), pair.packets.len()), (2, 2));
    // A new private key ends sessions; the former public key is unknown to the peer.
    pair.devices[0].set_private_key([42; 32]);
    pair.now = SimTime::from_secs(10);
    pair.send(0, 60);
    assert_eq!((pair.packets.len(), pair.devices[0].held()), (2, 1));
    pair.devices[0].remove_all_peers();
    pair.settle();
    assert_eq!((&pair.dropped[..], pair.devices[0].held()), (&[RejectReason::NoSession][..], 0));
    assert_eq!(pair.devices[0].peers().count(), 0);
}

#[test]
fn arbitrary_datagrams_do_not_disturb() {
    let mut pair = Pair::new();
    pair.send(0, 60);
    let mut random = Seed(3).stream(&["bytes"]);
    let from = PeerEndpoint { remote: "198.51.100.1:9".parse().unwrap(), local: None };
    for n in 0..20_000u64 {
        let kind = n % 6;
        let len = match (kind, random.below(4)) {
            (_, 0) => random.below(200),
            (1, _) => 148,
            (2, _) => 92,
            (3, _) => 64,
            _ => 32 + random.below(100),
        };
        let mut bytes = vec![0; len as usize];
        random.fill(&mut bytes);
        if let Some(head) = bytes.first_chunk_mut() {
            *head = (kind as u32).to_le_bytes();
        }
        // Some have a known index, and some a right first MAC by chance of the sample.
        if random.below(2) == 0 && bytes.len() >= 8 {
            let index = pair.peer(1).keypairs.current.as_ref().unwrap().index;
            bytes[4..8].copy_from_slice(&index.to_le_bytes());
        }
        assert!(pair.devices[1].receive(&bytes, from, at(pair.now)).is_err());
    }
    pair.send(0, 60);
    assert_eq!((pair.packets.len(), pair.rejected.len()), (2, 0));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = || {
        let mut pair = Pair::new();
        for _ in 0..130 {
            pair.send(0, 60);
            pair.run_secs(1);
        }
        pair.wire
    };
    assert_eq!(run(), run());
}
