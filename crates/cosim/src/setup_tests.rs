//! Peers that connect late, send invalid intros or close the connection.

use crate::intro::{Intro, Queue, Queues};
use crate::testing::{SocketPath, at, eventually, frame, parameters, socket, synchronised};
use crate::*;
use belljar_base::{Seed, SimTime, Stream};
use belljar_channel::Region;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

fn establish_one(parameters: Parameters, patience: u64) -> Result<Channel<Net>, Error> {
    let setup = Setup::new(parameters)?;
    let made = establish::<Net, Error>(vec![setup], Duration::from_millis(patience), || Ok(()));
    made.map(|mut channels| channels.remove(0))
}

/// The result of a listener whose peer sends `intro` and then stays, or closes the connection.
fn told(intro: &[u8], stays: bool) -> Result<Channel<Net>, Error> {
    let path = socket();
    let mut setup = Setup::<Net>::new(parameters(Role::Listen, &path, 500)).unwrap();
    let mut peer = UnixStream::connect(&path.0).unwrap();
    peer.write_all(intro).unwrap();
    let peer = stays.then_some(peer);
    let result = eventually(|| setup.advance().transpose());
    drop(peer);
    result
}

fn connector_intro() -> Vec<u8> {
    Intro { flags: 1, queues: None, upper: vec![0; 4] }.encode(&Net)
}

#[test]
fn a_listener_is_told_what_is_wrong_with_a_peer() {
    assert!(told(&connector_intro(), true).is_ok());
    let mut version = connector_intro();
    version[0] = 2;
    let mut layer = connector_intro();
    layer[16] = 2;
    let mut unsynchronised = connector_intro();
    unsynchronised[8] = 0;
    for (intro, reason) in [
        (version, "peer: it speaks version 2 of the channel protocol, not 1"),
        (layer, "peer: it speaks PCIe where Ethernet is expected: connect ports of the same kind"),
        (unsynchronised, "peer: it does not synchronise, which is required here"),
    ] {
        let error = told(&intro, true).err().unwrap().to_string();
        assert!(error.starts_with(reason), "{error}");
    }
    for len in 0..36 {
        let error = told(&connector_intro()[..len], false).err().unwrap().to_string();
        assert!(error.contains(&format!("after {len} bytes of its intro")), "{error}");
    }
}

#[test]
fn an_intro_may_come_in_pieces() {
    let path = socket();
    let mut setup = Setup::<Net>::new(parameters(Role::Listen, &path, 500)).unwrap();
    let mut peer = UnixStream::connect(&path.0).unwrap();
    for byte in connector_intro() {
        assert!(setup.advance().unwrap().is_none());
        peer.write_all(&[byte]).unwrap();
    }
    eventually(|| setup.advance().unwrap());
}

#[test]
fn who_never_comes_is_named() {
    let path = socket();
    let name = path.0.display().to_string();
    let error = establish_one(parameters(Role::Listen, &path, 500), 30).err().unwrap().to_string();
    assert!(error.starts_with(&format!("peer: nobody connected to {name}")), "{error}");
    assert!(!path.0.exists(), "the socket goes with who listened");
    let error = establish_one(parameters(Role::Connect, &path, 500), 30).err().unwrap().to_string();
    assert!(error.starts_with(&format!("peer: nobody listens on {name}")), "{error}");
    let listener = UnixListener::bind(&path.0).unwrap();
    let error = establish_one(parameters(Role::Connect, &path, 500), 30).err().unwrap().to_string();
    assert!(error.starts_with("peer: it sent 0 bytes of its intro"), "{error}");
    drop(listener);
}

#[test]
fn waiting_ends_when_it_is_not_worth_it_any_more() {
    let path = socket();
    let setup = Setup::<Net>::new(parameters(Role::Listen, &path, 500)).unwrap();
    let mut asked = 0;
    let told = establish::<Net, Error>(vec![setup], Duration::from_secs(60), || {
        asked += 1;
        if asked == 3 { Err(Error { peer: "it".into(), fault: Fault::Closed }) } else { Ok(()) }
    });
    assert_eq!((told.err().unwrap().peer, asked), ("it".into(), 3));
}

#[test]
fn a_socket_that_a_dead_program_left_makes_way_and_one_in_use_does_not() {
    let path = socket();
    drop(UnixListener::bind(&path.0).unwrap());
    let setup = Setup::<Net>::new(parameters(Role::Listen, &path, 500)).unwrap();
    let error = Setup::<Net>::new(parameters(Role::Listen, &path, 500)).err().unwrap().to_string();
    assert!(error.contains("is already in use by another program"), "{error}");
    drop(setup);
}

/// Replies to a connector as a listener would, with these queues in this memory.
fn listen_with(path: &SocketPath, queues: Queues, memory: Option<&Region>) -> Result<Channel<Net>, Error> {
    let listener = UnixListener::bind(&path.0).unwrap();
    let mut setup = Setup::<Net>::new(parameters(Role::Connect, path, 500)).unwrap();
    assert!(setup.advance().unwrap().is_none());
    let (mut peer, _) = listener.accept().unwrap();
    let mut theirs = [0; 36];
    peer.read_exact(&mut theirs).unwrap();
    assert_eq!(theirs[..], Intro { flags: 3, queues: None, upper: vec![0; 4] }.encode(&Net)[..]);
    let intro = Intro { flags: 1, queues: Some(queues), upper: vec![0; 4] }.encode(&Net);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files: Vec<_> = memory.iter().map(|region| region.file()).collect();
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&files));
    }
    sendmsg(&peer, &[IoSlice::new(&intro)], &mut control, SendFlags::empty()).unwrap();
    eventually(|| setup.advance().transpose())
}

#[test]
fn a_connector_uses_no_queues_that_are_not_there() {
    let region = Region::create(1 << 16).unwrap();
    let queues = |first, second| {
        let queue = |offset| Queue { offset, slot_size: 1600, slots: 16 };
        Queues { to_connector: queue(first), to_listener: queue(second) }
    };
    assert!(listen_with(&socket(), queues(0, 25_600), Some(&region)).is_ok());
    assert!(listen_with(&socket(), queues(39_936, 14_336), Some(&region)).is_ok(), "up to the last byte");
    for (first, second, memory, reason) in [
        (0, 25_600, None, "it came without the shared memory"),
        (0, 39_937, Some(&region), "do not lie within its shared memory of 65536 bytes"),
        (0, 25_599, Some(&region), "its queues overlap"),
        (u64::MAX, 0, Some(&region), "a queue of 16 slots at"),
    ] {
        let error = listen_with(&socket(), queues(first, second), memory).err().unwrap().to_string();
        assert!(error.starts_with("peer: its intro is not valid") && error.contains(reason), "{error}");
    }
    let empty = Region::create(4096).unwrap();
    assert!(listen_with(&socket(), queues(0, 25_600), Some(&empty)).is_err());
}

fn garbage(stream: &mut Stream, len: u64) -> Vec<u8> {
    (0..len).map(|_| stream.below(256) as u8).collect()
}

/// For any content of the socket or the slots, the result is a channel, an error, or a need for more input.
#[test]
fn garbage_makes_no_panic_and_no_endless_loop() {
    let mut stream = Seed(7).stream(&["garbage"]);
    for round in 0..300 {
        let mut intro = connector_intro();
        for _ in 0..stream.below(4) {
            let at = stream.below(intro.len() as u64) as usize;
            intro[at] = stream.below(256) as u8;
        }
        intro.truncate(stream.below(40) as usize);
        if round % 3 == 0 {
            let len = stream.below(3000);
            intro = garbage(&mut stream, len);
        }
        if let Err(error) = told(&intro, false) {
            assert!(error.to_string().starts_with("peer: "), "{error}");
        }
    }
    for _ in 0..300 {
        let (mut left, mut right) = synchronised(500);
        for _ in 0..stream.below(8) {
            let header: Vec<u8> = garbage(&mut stream, 48);
            let stamp = [stream.below(2_000_000), u64::MAX, 0][stream.below(3) as usize];
            left.send_raw(stamp, stream.below(128) as u8, header.as_slice().try_into().unwrap());
        }
        drop(left);
        let mut polled = 0;
        let ended = loop {
            match right.poll(SimTime::MAX) {
                Ok(Some((time, _))) => assert!(time <= right.horizon()),
                Ok(None) if right.has_ended() => break None,
                Ok(None) => break right.check_peer().err(),
                Err(error) => break Some(error),
            }
            polled += 1;
            assert!(polled <= 8);
        };
        assert!(ended.is_none_or(|error| error.to_string().starts_with("peer: ")));
    }
}

#[test]
fn slots_filled_out_of_order_are_read_in_order() {
    let path = socket();
    let region = Region::create(1 << 16).unwrap();
    let queue = |offset| Queue { offset, slot_size: 128, slots: 4 };
    let queues = Queues { to_connector: queue(0), to_listener: queue(512) };
    let mut channel = listen_with(&path, queues, Some(&region)).unwrap();
    let region = std::sync::Arc::new(region);
    let ring = belljar_channel::SlotRing::new(region, 0, 128, 4).unwrap();
    let fill = |slot, stamp: u64| {
        ring.write(slot, 0, &2_u16.to_le_bytes());
        ring.write(slot, 48, &stamp.to_le_bytes());
        ring.give(slot, 63, 0xc0);
    };
    fill(1, 2_000);
    assert_eq!(channel.poll(at(9)).unwrap(), None);
    fill(0, 1_000);
    assert_eq!(channel.poll(at(9)).unwrap(), Some((at(1), frame(0, 2))));
    assert_eq!(channel.poll(at(9)).unwrap(), Some((at(2), frame(0, 2))));
    assert_eq!(channel.poll(at(9)).unwrap(), None);
    assert_eq!(ring.owner(1, 63), 0x40, "given back with its type");
}
