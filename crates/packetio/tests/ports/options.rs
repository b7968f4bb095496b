//! Options of packet sockets.

use crate::fixture::*;
use belljar_packetio::*;
use std::time::{SystemTime, UNIX_EPOCH};

fn open(net: &Net, dev: &str, options: &PacketOptions) -> PacketRing {
    net.inside(|| PacketRing::open(dev, options)).unwrap()
}

#[test]
fn stamps_of_the_kernel_are_those_of_arrival() {
    let Some(world) = World::new() else { return };
    for ring in [RingKind::Frames, RingKind::Blocks { timeout_ms: 1 }] {
        let options = PacketOptions { ring, timestamps: Timestamps::Kernel, ..PacketOptions::default() };
        let mut a = open(&world.left, "a", &PacketOptions::default());
        let mut b = open(&world.right, "b", &options);
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let before = now();
        send(&mut a, &[frame(0, 60, None)]);
        let after = now();
        let mut times = Vec::new();
        assert!(eventually(|| {
            b.receive(64, &mut |f| times.push(f.time.unwrap())).unwrap();
            !times.is_empty()
        }));
        for time in times {
            assert_eq!(time.source, TimeSource::Kernel);
            assert!((before..after).contains(&time.nanos), "{before} {} {after}", time.nanos);
        }
        assert!(world.right.inside(|| PacketRing::open("b", &PacketOptions::default())).is_ok());
    }
}

#[test]
fn stamps_of_hardware_need_hardware() {
    let Some(world) = World::new() else { return };
    let options = PacketOptions { timestamps: Timestamps::Hardware, ..PacketOptions::default() };
    let error = world.left.inside(|| PacketRing::open("a", &options)).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("timestamps by the kernel"), "{error}");
}

#[test]
fn filters_choose_frames() {
    let Some(world) = World::new() else { return };
    let mut a = open(&world.left, "a", &PacketOptions::default());
    let other = Filter::ethertypes(&[0x0806, 0x0800]);
    let ours = Filter::ethertypes(&[0x0806, 0x88b5]);
    // tcpdump -ddd 'ether[17] = 3'
    let third = Filter::from_tcpdump("4\n48 0 0 17\n21 0 1 3\n6 0 0 262144\n6 0 0 0\n").unwrap();
    let frames: Vec<_> = (0..5).map(|i| frame(i, 60, None)).collect();
    for (filter, expected) in [(other, vec![]), (ours, frames.clone()), (third, vec![frames[3].clone()])] {
        // The latest port receives a frame first: frames received by an earlier port have passed this one.
        let mut earlier = open(&world.right, "b", &PacketOptions::default());
        let mut b =
            open(&world.right, "b", &PacketOptions { filter: Some(filter), ..PacketOptions::default() });
        send(&mut a, &frames);
        assert_eq!(receive(&mut earlier, frames.len()), frames);
        let mut got = Vec::new();
        while b.receive(64, &mut |f| got.push(f.bytes.to_vec())).unwrap() > 0 {}
        assert_eq!(got, expected);
    }
}

#[test]
fn a_group_shares_frames() {
    let Some(world) = World::new() else { return };
    let mut a = open(&world.left, "a", &PacketOptions::default());
    let fanout = Some(Fanout { group: 7, mode: FanoutMode::RoundRobin });
    let options = PacketOptions { fanout, ..PacketOptions::default() };
    let (mut b1, mut b2) = (open(&world.right, "b", &options), open(&world.right, "b", &options));
    send(&mut a, &(0..100).map(|i| frame(i, 60, None)).collect::<Vec<_>>());
    let (mut n1, mut n2) = (0, 0);
    let arrived = eventually(|| {
        for (port, n) in [(&mut b1, &mut n1), (&mut b2, &mut n2)] {
            while port.receive(64, &mut |f| *n += u32::from(is_ours(f.bytes))).unwrap() > 0 {}
        }
        n1 + n2 >= 100
    });
    assert!(arrived && n1 + n2 == 100, "{n1} {n2}");
    assert!(n1 >= 40 && n2 >= 40, "{n1} {n2}");
    let wrong = Some(Fanout { group: 7, mode: FanoutMode::Hash });
    let options = PacketOptions { fanout: wrong, ..PacketOptions::default() };
    let error = world.right.inside(|| PacketRing::open("b", &options)).unwrap_err();
    assert!(error.to_string().contains("fanout group 7"), "{error}");
}

#[test]
fn outgoing_frames_are_seen_only_if_asked_for() {
    let Some(world) = World::new() else { return };
    for (outgoing, expected) in [(false, 0), (true, 3)] {
        let mut a = open(&world.left, "a", &PacketOptions { outgoing, ..PacketOptions::default() });
        let mut other = open(&world.left, "a", &PacketOptions::default());
        send(&mut other, &(0..3).map(|i| frame(i, 60, None)).collect::<Vec<_>>());
        let mut n = 0;
        while a.receive(64, &mut |f| n += u32::from(is_ours(f.bytes))).unwrap() > 0 {}
        assert_eq!(n, expected);
    }
}

#[test]
fn sending_past_the_queueing_discipline_works() {
    let Some(world) = World::new() else { return };
    // A queue that would drop nearly every frame, and sends one every 40 s.
    world.left.ip("link set dev a txqueuelen 2");
    crate::fixture::run(&format!(
        "tc -n {} qdisc add dev a root tbf rate 200bit burst 1600 limit 3000",
        world.left.name
    ));
    let frames: Vec<_> = (0..100).map(|i| frame(i, 1000, None)).collect();
    let mut b = open(&world.right, "b", &PacketOptions::default());
    let mut shaped = open(&world.left, "a", &PacketOptions::default());
    send(&mut shaped, &frames);
    assert!(shaped.counters().failed > 50, "{:?}", shaped.counters());
    while b.receive(64, &mut |_| {}).unwrap() > 0 {}
    let mut direct =
        open(&world.left, "a", &PacketOptions { bypass_qdisc: true, ..PacketOptions::default() });
    pass(&mut direct, &mut b, &frames);
}
