//! Errors of opening a port: each names the interface and the remedy.

use crate::fixture::*;
use belljar_packetio::{Error, PacketOptions, PacketRing, RingKind, Tap, TapOptions, Xdp, XdpOptions};

#[test]
fn missing_down_and_ill_named_interfaces() {
    let Some(world) = World::new() else { return };
    world.left.ip("link set dev a down");
    for kind in KINDS {
        let open = |dev| kind.open(&world.left, dev).map(drop).unwrap_err();
        let error = open("missing");
        assert!(
            matches!(error, Error::NoInterface { .. }) && error.to_string().contains("'missing'"),
            "{error}"
        );
        let error = open("a-name-beyond-15");
        assert!(matches!(error, Error::BadName { .. }), "{error}");
        let error = open("a");
        assert!(matches!(error, Error::Down { .. }), "{error}");
        assert!(error.to_string().contains("ip link set dev a up"), "{error}");
    }
}

#[test]
fn taken_names_and_queues() {
    let Some(world) = World::new() else { return };
    let options = TapOptions::default();
    let error = world.left.inside(|| Tap::create("a", &options)).unwrap_err();
    assert!(
        matches!(error, Error::NameInUse { .. }) && error.to_string().contains("ip link del a"),
        "{error}"
    );
    let error = world.left.inside(|| Tap::attach("a", &options)).unwrap_err();
    assert!(error.to_string().contains("no TAP interface"), "{error}");
    let error = world.left.inside(|| Tap::attach("t", &options)).unwrap_err();
    assert!(matches!(error, Error::NoInterface { .. }), "{error}");
    let _tap = world.left.inside(|| Tap::create("t", &options)).unwrap();
    let error = world.left.inside(|| Tap::attach("t", &options)).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }), "{error}");

    let Some((_a, _b)) = Kind::Native.pair(&world) else { return };
    let error = Kind::Native.open(&world.left, "a").map(drop).unwrap_err();
    assert!(matches!(error, Error::Busy { .. }) && error.to_string().contains("queue 0"), "{error}");
    let options = XdpOptions { queue: Some(7), ..XdpOptions::default() };
    let error = world.left.inside(|| Xdp::open("a", &options)).unwrap_err();
    assert!(error.to_string().contains("no queue 7"), "{error}");
}

#[test]
fn several_queues_need_a_choice() {
    let Some(net) = Net::new() else { return };
    net.ip("link add name a numrxqueues 2 numtxqueues 2 type veth peer name b numrxqueues 2 numtxqueues 2");
    net.ip("link set dev a up");
    let error = net.inside(|| Xdp::open("a", &XdpOptions::default())).unwrap_err();
    assert!(error.to_string().contains("2 receive queues"), "{error}");
}

#[test]
fn wrong_values() {
    let Some(world) = World::new() else { return };
    let options = PacketOptions { ring: RingKind::Blocks { timeout_ms: 0 }, ..PacketOptions::default() };
    let error = world.left.inside(|| PacketRing::open("a", &options)).unwrap_err();
    assert!(error.to_string().contains("at least 1 ms"), "{error}");
    let options = XdpOptions { ring: 1000, ..XdpOptions::default() };
    let error = world.left.inside(|| Xdp::open("a", &options)).unwrap_err();
    assert!(error.to_string().contains("power of two"), "{error}");
}

/// Runs `f` on a thread without privileges.
fn unprivileged<T: Send>(f: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the raw call changes the identity of this thread only; the thread ends with the
            // closure.
            let result = unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) };
            assert_eq!(result, 0);
            f()
        });
        thread.join().unwrap()
    })
}

#[test]
fn missing_capabilities() {
    let Some(world) = World::new() else { return };
    let error = |open: &(dyn Fn() -> belljar_packetio::Result<()> + Sync)| {
        let error = world.left.inside(|| Ok(unprivileged(open).unwrap_err())).unwrap();
        assert!(matches!(error, Error::Permission { .. }), "{error}");
        error.to_string()
    };
    let ring = error(&|| PacketRing::open("a", &PacketOptions::default()).map(drop));
    assert!(ring.contains("CAP_NET_RAW") && ring.contains("'a'"), "{ring}");
    let tap = error(&|| Tap::create("t", &TapOptions::default()).map(drop));
    assert!(tap.contains("CAP_NET_ADMIN"), "{tap}");
    error(&|| Xdp::open("a", &XdpOptions::default()).map(drop));
    let entry = unprivileged(|| world.left.inside(|| Ok(()))).unwrap_err();
    assert!(entry.to_string().contains("CAP_SYS_ADMIN"), "{entry}");
}
