//! Clean-up of ports, and ports whose interface disappears.

use crate::fixture::*;
use belljar_packetio::{Error, Namespace, PacketOptions, PacketRing, Port, Tap, TapOptions};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

#[test]
fn nothing_remains_of_a_dropped_port() {
    let Some(world) = World::new() else { return };
    let before = world.left.ip("-d link show dev a");
    for kind in KINDS {
        let Some(ports) = kind.pair(&world) else { continue };
        let during = world.left.ip("-d link show dev a");
        assert!(during.contains("promiscuity 1"), "{kind:?}: {during}");
        assert_eq!(
            during.contains("xdp"),
            matches!(kind, Kind::Native | Kind::Generic),
            "{kind:?}: {during}"
        );
        drop(ports);
        // A process forked by another test may hold the descriptor until it executes its program.
        let after = || world.left.ip("-d link show dev a");
        assert!(eventually(|| after() == before), "{kind:?}: {} is not {before}", after());
    }
}

#[test]
fn a_deleted_interface_is_an_error_not_a_hang() {
    for kind in KINDS {
        let Some(world) = World::new() else { return };
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        pass(&mut *a, &mut *b, &[frame(0, 60, None)]);
        world.left.ip("link del dev a");
        for port in [&mut a, &mut b] {
            let error = receive_error(&mut **port);
            assert!(matches!(error, Error::Gone { .. }) && error.is_fatal(), "{kind:?}: {error}");
            let again = port.receive(1, &mut |_| {}).unwrap_err();
            assert!(matches!(again, Error::Gone { .. }), "{kind:?}: {again}");
            let error = port.send(&frame(0, 60, None)).unwrap_err();
            assert!(matches!(error, Error::Gone { .. }), "{kind:?}: {error}");
        }
    }
}

#[test]
fn a_renamed_interface_goes_on() {
    let Some(world) = World::new() else { return };
    let (mut a, mut b) = Kind::Frames.pair(&world).unwrap();
    world.left.ip("link set dev a down");
    world.left.ip("link set dev a name c");
    assert!(matches!(receive_error(&mut *a), Error::Down { .. }));
    world.left.ip("link set dev c up");
    assert_eq!(a.mtu(), 1500);
    pass(&mut *a, &mut *b, &[frame(0, 60, None)]);
}

#[test]
fn a_sender_alone_notices_that_the_interface_is_deleted() {
    for kind in KINDS {
        let Some(world) = World::new() else { return };
        let Some((mut a, b)) = kind.pair(&world) else { continue };
        drop(b);
        world.right.ip("link del dev b");
        let sent = (0..10).try_for_each(|i| a.send(&frame(i, 60, None)).and_then(|_| a.flush()).map(drop));
        assert!(matches!(sent, Err(Error::Gone { .. })), "{kind:?}: {sent:?}");
    }
}

#[test]
fn an_interface_that_comes_back_up_works_again() {
    let Some(world) = World::new() else { return };
    for kind in KINDS {
        let Some((mut a, mut b)) = kind.pair(&world) else { continue };
        world.left.ip("link set dev a down");
        let error = match kind {
            Kind::Frames | Kind::Blocks => receive_error(&mut *a),
            Kind::Native | Kind::Generic => {
                let _ = a.send(&frame(0, 60, None)).unwrap();
                a.flush().unwrap_err()
            }
        };
        assert!(matches!(error, Error::Down { .. }) && !error.is_fatal(), "{kind:?}: {error}");
        world.left.ip("link set dev a up");
        // A frame queued in the meantime may be sent now.
        send(&mut *a, &[frame(1, 60, None)]);
        let got = receive(&mut *b, 1);
        assert!(!got.is_empty(), "{kind:?}: {:?}", a.counters());
        send(&mut *b, &[frame(2, 60, None)]);
        assert_eq!(receive(&mut *a, 1), [frame(2, 60, None)], "{kind:?}");
    }
}

#[test]
fn taps_end_with_their_port_unless_persistent() {
    let Some(net) = Net::new() else { return };
    let tap = net.inside(|| Tap::create("t", &TapOptions::default())).unwrap();
    assert!(net.ip("link show").contains("t:"));
    drop(tap);
    // As above, a process forked by another test may hold the descriptor.
    let is_gone = || !net.ip("link show").contains("t:");
    assert!(eventually(is_gone));

    let options = TapOptions { persistent: true, ..TapOptions::default() };
    drop(net.inside(|| Tap::create("t", &options)).unwrap());
    let mut tap = None;
    let attach = || net.inside(|| Tap::attach("t", &TapOptions::default()));
    assert!(eventually(|| {
        tap = attach().ok();
        tap.is_some()
    }));
    tap.take().unwrap().set_persistent(false).unwrap();
    assert!(eventually(is_gone));
}

#[test]
fn a_deleted_tap_is_an_error() {
    let Some(net) = Net::new() else { return };
    let mut tap = net.inside(|| Tap::create("t", &TapOptions::default())).unwrap();
    net.ip("link del dev t");
    let error = receive_error(&mut tap);
    assert!(matches!(error, Error::Gone { .. }), "{error}");
    assert!(matches!(tap.send(&frame(0, 60, None)), Err(Error::Gone { .. })));
}

#[test]
fn a_tap_that_is_down_refuses_frames_until_it_is_up() {
    let Some(net) = Net::new() else { return };
    let mut tap = net.inside(|| Tap::create("t", &TapOptions::default())).unwrap();
    net.ip("link set dev t down");
    let error = tap.send(&frame(0, 60, None)).unwrap_err();
    assert!(matches!(error, Error::Down { .. }), "{error}");
    assert_eq!(tap.counters().failed, 0, "the frame was not accepted");
    net.ip("link set dev t up");
    let _ = tap.send(&frame(0, 60, None)).unwrap();
    assert_eq!(tap.counters().sent.frames, 1);
}

#[test]
fn namespaces_are_entered_by_name_path_process_and_descriptor() {
    let Some(world) = World::new() else { return };
    let open = || PacketRing::open("a", &PacketOptions::default());
    assert!(matches!(open(), Err(Error::NoInterface { .. })), "the caller stays where it is");
    let name = &world.left.name;
    let path = std::path::PathBuf::from(format!("/run/netns/{name}"));
    let file = std::fs::File::open(&path).unwrap();
    let mut child = Command::new("ip")
        .args(["netns", "exec", name, "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // An echoed line: `cat` runs, so the namespace has been entered.
    use std::io::{BufRead, BufReader, Write};
    child.stdin.as_mut().unwrap().write_all(b"there\n").unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut peer = Kind::Frames.open(&world.right, "b").unwrap();
    for namespace in [
        Namespace::Name(name.clone()),
        Namespace::Path(path),
        Namespace::Process(child.id()),
        Namespace::Fd(file.as_fd()),
    ] {
        let mut port = namespace.run(open).unwrap_or_else(|e| panic!("{namespace:?}: {e}"));
        pass(&mut port, &mut *peer, &[frame(0, 60, None)]);
        pass(&mut *peer, &mut port, &[frame(1, 60, None)]);
    }
    drop(child.stdin.take());
    child.wait().unwrap();
}
