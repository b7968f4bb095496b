//! TAP interfaces: the kernel's side is a packet socket on the interface.

use crate::fixture::*;
use belljar_packetio::*;

fn open(net: &Net, options: &TapOptions) -> (Tap, PacketRing) {
    net.inside(|| Ok((Tap::create("t", options)?, PacketRing::open("t", &PacketOptions::default())?)))
        .unwrap()
}

#[test]
fn frames_of_all_lengths_pass_both_ways() {
    let Some(net) = Net::new() else { return };
    for large_segments in [false, true] {
        let (mut tap, mut kernel) = open(&net, &TapOptions { large_segments, ..TapOptions::default() });
        let frames = [frame(0, 14, None), frame(1, 60, None), frame(2, 1514, None), frame(3, 1518, Some(9))];
        pass(&mut tap, &mut kernel, &frames);
        pass(&mut kernel, &mut tap, &frames);
        assert_eq!(tap.counters().sent.frames, 4);
        assert!(tap.counters().received.frames >= 4);
        for bad in [vec![], vec![0; 13], frame(0, 1515, None)] {
            assert!(matches!(tap.send(&bad), Err(Error::FrameSize { .. })));
        }
    }
}

#[test]
fn address_mtu_and_state_are_as_asked_for() {
    let Some(net) = Net::new() else { return };
    let mac = belljar_wire::ethernet::Address([2, 0, 0, 0, 0, 0x42]);
    let options = TapOptions { mac: Some(mac), mtu: Some(9000), up: false, ..TapOptions::default() };
    let tap = net.inside(|| Tap::create("t", &options)).unwrap();
    let shown = net.ip("link show dev t");
    assert!(shown.contains("mtu 9000") && shown.contains(&mac.to_string()), "{shown}");
    assert!(!shown.contains("UP"), "{shown}");
    assert_eq!((tap.mac(), tap.mtu(), tap.name()), (mac, 9000, "t"));
    drop(tap);
    let (mut tap, mut kernel) = open(&net, &TapOptions { mtu: Some(9000), ..TapOptions::default() });
    let frames: Vec<_> = (0..20).map(|i| frame(i, 9014 - i as usize, None)).collect();
    pass(&mut tap, &mut kernel, &frames);
    pass(&mut kernel, &mut tap, &frames);
}

#[test]
fn a_hundred_thousand_frames_pass_without_loss() {
    const TOTAL: u32 = 100_000;
    let Some(net) = Net::new() else { return };
    let (mut tap, mut kernel) = open(&net, &TapOptions::default());
    for up in [true, false] {
        let (from, to): (&mut dyn Port, &mut dyn Port) =
            if up { (&mut tap, &mut kernel) } else { (&mut kernel, &mut tap) };
        for start in (0..TOTAL).step_by(250) {
            let frames: Vec<_> =
                (start..start + 250).map(|i| frame(i, 60 + i as usize % 1000, None)).collect();
            pass(from, to, &frames);
        }
        assert_eq!(from.counters().sent.frames, u64::from(TOTAL));
        assert_eq!(to.counters().dropped_kernel + to.counters().dropped_port, 0);
    }
}

#[test]
fn several_ports_share_a_tap_with_queues() {
    let Some(net) = Net::new() else { return };
    let options = TapOptions { multi_queue: true, ..TapOptions::default() };
    let (mut first, mut kernel) = open(&net, &options);
    let mut second = net.inside(|| Tap::attach("t", &options)).unwrap();
    for tap in [&mut first, &mut second] {
        pass(tap, &mut kernel, &[frame(0, 60, None)]);
    }
    let single = net.inside(|| Tap::attach("t", &TapOptions::default())).unwrap_err();
    assert!(matches!(single, Error::Invalid { .. } | Error::Busy { .. }), "{single}");
    drop(first);
    pass(&mut second, &mut kernel, &[frame(1, 60, None)]);
    drop(second);
    assert!(!net.ip("link show").contains("t:"));
}
