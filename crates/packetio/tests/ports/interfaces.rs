//! Contract of ports on existing interfaces, for each kind.

use crate::fixture::*;
use belljar_packetio::{Error, Sent};
use std::time::{Duration, Instant};

const VLAN: Option<u16> = Some(0x2007);

#[test]
fn frames_of_all_lengths_pass_both_ways() {
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        let frames = [
            frame(0, 14, None),
            frame(1, 15, None),
            frame(2, 60, None),
            frame(3, 1513, None),
            frame(4, 1514, None),
            frame(5, 20, VLAN),
            frame(6, 1518, VLAN),
            frame(7, 200, None),
        ];
        pass(&mut *a, &mut *b, &frames);
        pass(&mut *b, &mut *a, &frames);
        let (a, b) = (a.counters(), b.counters());
        let bytes = frames.iter().map(|f| f.len() as u64).sum::<u64>();
        for (end, counters) in [("a", a), ("b", b)] {
            assert_eq!(
                (counters.sent.frames, counters.sent.bytes),
                (8, bytes),
                "{kind:?} {end}: {counters:?}"
            );
            assert!(counters.received.frames >= 8 && counters.received.bytes >= bytes, "{kind:?} {end}");
            assert_eq!(
                (counters.dropped_port, counters.failed, counters.refused),
                (0, 0, 0),
                "{kind:?} {end}"
            );
        }
    }
}

#[test]
fn frames_that_do_not_fit_are_refused_and_harm_nothing() {
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        for bad in [vec![], vec![0; 13], frame(0, 1515, None), frame(0, 1519, VLAN), vec![0; 70_000]] {
            match a.send(&bad) {
                Err(e @ Error::FrameSize { .. }) => {
                    assert!(!e.is_fatal());
                    assert!(e.to_string().contains(&format!("{} bytes", bad.len())), "{e}");
                }
                other => panic!("{kind:?}: {} bytes: {other:?}", bad.len()),
            }
        }
        pass(&mut *a, &mut *b, &[frame(1, 100, None)]);
    }
}

#[test]
fn jumbo_frames_pass_where_they_can() {
    let Some(world) = World::with_mtu(9000) else { return };
    let frames: Vec<_> = (0..300).map(|i| frame(i, 9014 - i as usize, None)).collect();
    for kind in [Kind::Frames, Kind::Blocks] {
        let (mut a, mut b) = kind.pair(&world).unwrap();
        assert_eq!(a.mtu(), 9000);
        for batch in frames.chunks(100) {
            pass(&mut *a, &mut *b, batch);
        }
    }
    for kind in [Kind::Native, Kind::Generic] {
        let error = kind.open(&world.left, "a").map(drop).unwrap_err();
        assert!(matches!(error, Error::Unsupported { .. } | Error::Permission { .. }), "{error}");
        assert!(error.to_string().contains("MTU of 9000"), "{error}");
    }
}

#[test]
fn frames_longer_than_a_slot_pass() {
    let Some(world) = World::with_mtu(60_000) else { return };
    let (mut a, mut b) = Kind::Frames.pair(&world).unwrap();
    let frames: Vec<_> = [60_014, 100, 20_000, 16_256, 16_200, 60_000, 14]
        .iter()
        .enumerate()
        .map(|(i, len)| frame(i as u32, *len, None))
        .collect();
    pass(&mut *a, &mut *b, &frames);
}

#[test]
fn a_raised_mtu_is_noticed() {
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        assert!(a.send(&frame(0, 1600, None)).is_err());
        world.left.ip("link set dev a mtu 1600");
        world.right.ip("link set dev b mtu 1600");
        assert_eq!(a.mtu(), 1600);
        pass(&mut *a, &mut *b, &[frame(0, 1614, None)]);
        world.left.ip("link set dev a mtu 1500");
        world.right.ip("link set dev b mtu 1500");
    }
}

#[test]
fn a_hundred_thousand_frames_pass_without_loss() {
    const TOTAL: u32 = 100_000;
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        let (mut sent, mut expected) = (0, 0);
        let mut last = Instant::now();
        while expected < TOTAL {
            while sent < TOTAL && sent - expected < 512 {
                if a.send(&frame(sent, 60 + (sent as usize * 37) % 1400, None)).unwrap() == Sent::Full {
                    break;
                }
                sent += 1;
            }
            a.flush().unwrap();
            let got = b
                .receive(256, &mut |f| {
                    if is_ours(f.bytes) {
                        assert_eq!(f.bytes, frame(expected, f.bytes.len(), None), "{kind:?}");
                        expected += 1;
                    }
                })
                .unwrap();
            if got > 0 {
                last = Instant::now();
            } else {
                wait(&*b, rustix::event::PollFlags::IN, Duration::from_millis(20));
            }
            assert!(
                last.elapsed() < PATIENCE,
                "{kind:?}: {sent} sent, {expected} arrived: {:?}",
                b.counters()
            );
        }
        let (from, to) = (a.counters(), b.counters());
        assert_eq!(from.sent.frames, u64::from(TOTAL), "{kind:?}");
        assert_eq!(
            to.received.frames - (to.received.frames - u64::from(TOTAL)),
            u64::from(TOTAL),
            "{kind:?}"
        );
        assert_eq!((to.dropped_kernel, to.dropped_port, from.failed), (0, 0, 0), "{kind:?}");
    }
}

#[test]
fn an_overrun_is_counted() {
    const TOTAL: u32 = 20_000;
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        for i in 0..TOTAL {
            while a.send(&frame(i, 1000, None)).unwrap() == Sent::Full {
                a.flush().unwrap();
            }
        }
        flush(&mut *a);
        let mut arrived = 0u64;
        // The kernel may deliver the last frames with a delay.
        eventually(|| {
            while b.receive(64, &mut |f| arrived += u64::from(is_ours(f.bytes))).unwrap() > 0 {}
            arrived + b.counters().dropped_kernel >= u64::from(TOTAL)
        });
        let counters = b.counters();
        assert!(counters.dropped_kernel > 0 && arrived > 0, "{kind:?}: {arrived} arrived, {counters:?}");
        assert_eq!(arrived + counters.dropped_kernel, u64::from(TOTAL), "{kind:?}: {counters:?}");
        pass(&mut *a, &mut *b, &[frame(1, 100, None)]);
        for i in 0..10 {
            let _ = a.send(&frame(i, 100, None)).unwrap();
        }
        flush(&mut *a);
        let left = b.finish();
        if let Some(offered) = left.offered {
            let counters = b.counters();
            assert!(left.unread >= 10 && left.unsent == 0, "{kind:?}: {left:?}");
            assert_eq!(
                offered,
                counters.packets + counters.dropped_kernel + left.unread,
                "{kind:?}: {counters:?}"
            );
            let _ = a.send(&frame(1, 100, None)).unwrap();
            flush(&mut *a);
            assert_eq!(b.finish(), left, "{kind:?}: reception has ended");
        }
    }
}

#[test]
fn a_full_sender_polls_writable_in_the_end() {
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, _b)) = kind.pair(&world) else { continue };
        for i in 0..5000 {
            if a.send(&frame(i, 1000, None)).unwrap() == Sent::Full {
                let ready = wait(&*a, rustix::event::PollFlags::OUT, PATIENCE);
                assert!(ready.contains(rustix::event::PollFlags::OUT), "{kind:?}");
            }
        }
        flush(&mut *a);
        assert!(a.counters().sent.frames >= 4000, "{kind:?}: {:?}", a.counters());
    }
}
