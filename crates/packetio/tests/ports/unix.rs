//! UNIX sockets: these tests need no privilege.

use crate::fixture::*;
use belljar_packetio::{Error, Port, Sent, UnixListener, UnixOptions, UnixPort};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};

fn pair() -> (UnixPort, UnixPort) {
    UnixPort::pair("link", &UnixOptions::default()).unwrap()
}

#[test]
fn frames_of_all_lengths_pass_both_ways() {
    let (mut a, mut b) = pair();
    let frames = [frame(0, 14, None), frame(1, 1514, None), frame(2, 1518, Some(3)), frame(3, 60, None)];
    pass(&mut a, &mut b, &frames);
    pass(&mut b, &mut a, &frames);
    assert_eq!((a.counters().sent.frames, b.counters().received.bytes), (4, 14 + 1514 + 1518 + 60));
    for bad in [vec![], vec![0; 13], frame(0, 1515, None), frame(0, 1519, Some(1))] {
        assert!(matches!(a.send(&bad), Err(Error::FrameSize { .. })));
    }
}

#[test]
fn jumbo_frames_pass() {
    let options = UnixOptions { mtu: 9000, buffer: Some(1 << 20), ..UnixOptions::default() };
    let (mut a, mut b) = UnixPort::pair("jumbo", &options).unwrap();
    pass(&mut a, &mut b, &(0..20).map(|i| frame(i, 9014 - i as usize, None)).collect::<Vec<_>>());
}

#[test]
fn a_hundred_thousand_frames_pass_without_loss_and_with_back_pressure() {
    const TOTAL: u32 = 100_000;
    let (mut a, mut b) = pair();
    let sender = std::thread::spawn(move || {
        for i in 0..TOTAL {
            send_one(&mut a, &frame(i, 60 + i as usize % 1000, None));
        }
        flush(&mut a);
        a.counters()
    });
    let mut expected = 0;
    while expected < TOTAL {
        let got = b.receive(64, &mut |f| {
            assert_eq!(f.bytes, frame(expected, f.bytes.len(), None));
            expected += 1;
        });
        if got.unwrap() == 0 {
            assert!(!wait(&b, rustix::event::PollFlags::IN, PATIENCE).is_empty(), "{expected} arrived");
        }
    }
    let sent = sender.join().unwrap();
    assert_eq!(sent.sent.frames, u64::from(TOTAL));
    assert_eq!(b.counters().received, sent.sent);
}

fn send_one(port: &mut UnixPort, frame: &[u8]) {
    while port.send(frame).unwrap() == Sent::Full {
        wait(port, rustix::event::PollFlags::OUT, PATIENCE);
    }
}

#[test]
fn a_receiver_that_sleeps_fills_the_sender() {
    let (mut a, _b) = pair();
    let full = (0..100_000).any(|i| a.send(&frame(i, 1000, None)).unwrap() == Sent::Full);
    assert!(full);
    assert_eq!(a.counters().refused, 1);
    assert!(wait(&a, rustix::event::PollFlags::OUT, std::time::Duration::ZERO).is_empty());
}

#[test]
fn what_was_sent_before_the_end_arrives_and_then_the_end() {
    let (mut a, mut b) = pair();
    send(&mut a, &[frame(0, 60, None), frame(1, 60, None)]);
    drop(a);
    assert_eq!(receive(&mut b, 2).len(), 2);
    assert!(matches!(receive_error(&mut b), Error::PeerClosed { .. }));
    let error = b.send(&frame(2, 60, None)).unwrap_err();
    assert!(error.is_fatal() && error.to_string().contains("'link.1'"), "{error}");
}

#[test]
fn a_sender_notices_the_end() {
    let (mut a, b) = pair();
    drop(b);
    let _ = a.send(&frame(0, 60, None)).unwrap();
    assert!(matches!(a.flush(), Err(Error::PeerClosed { .. })));
    assert_eq!(a.counters().failed, 1);
}

#[test]
fn messages_that_are_no_frames_are_dropped_and_counted() {
    let (ours, theirs) = UnixDatagram::pair().unwrap();
    let mut port = UnixPort::from_socket("foreign", OwnedFd::from(ours), &UnixOptions::default()).unwrap();
    for len in [0, 13, 14, 1519, 60] {
        theirs.send(&frame(7, len, None)).unwrap();
    }
    let got = receive(&mut port, 2);
    assert_eq!(got, [frame(7, 14, None), frame(7, 60, None)]);
    assert_eq!(port.counters().dropped_port, 3);
}

#[test]
fn a_socket_of_another_kind_is_refused() {
    let (stream, _) = UnixStream::pair().unwrap();
    let error = UnixPort::from_socket("s", OwnedFd::from(stream), &UnixOptions::default()).unwrap_err();
    assert!(error.to_string().contains("SEQPACKET or DGRAM"), "{error}");
    let (datagram, _) = UnixDatagram::pair().unwrap();
    let options = UnixOptions { mtu: 0, ..UnixOptions::default() };
    let error = UnixPort::from_socket("s", OwnedFd::from(datagram), &options).unwrap_err();
    assert!(error.to_string().contains("MTU of 0"), "{error}");
}

#[test]
fn processes_meet_at_a_path_which_is_removed_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link");
    let options = UnixOptions::default();
    assert!(UnixPort::connect(&path, &options).unwrap_err().to_string().contains("link'"));
    let listener = UnixListener::bind(&path).unwrap();
    assert!(UnixListener::bind(&path).unwrap_err().to_string().contains("the file exists"));
    assert!(listener.accept(&options).unwrap().is_none());
    let mut a = UnixPort::connect(&path, &options).unwrap();
    let mut b = listener.accept(&options).unwrap().expect("a peer has connected");
    pass(&mut a, &mut b, &[frame(0, 60, None)]);
    drop(listener);
    assert!(!path.exists());
    pass(&mut b, &mut a, &[frame(1, 60, None)]);
}
