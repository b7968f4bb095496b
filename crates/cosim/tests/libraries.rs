//! The libraries in C and Python as peers of this crate.

mod support;

use belljar_base::SimTime;
use belljar_cosim::Role;
use std::path::Path;
use support::*;

/// Starts a program with two channels: the C wire or the Python middlebox.
fn between(folder: &Folder, python: bool, roles: [Role; 2], sync: bool, options: &[&str]) -> Peer {
    let urls = [folder.url(roles[0], "left", sync), folder.url(roles[1], "right", sync)];
    let arguments: Vec<&str> = urls.iter().map(String::as_str).chain(options.iter().copied()).collect();
    if python {
        Peer::python(&library("middlebox.py"), &arguments)
    } else {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire.c");
        Peer::start(compile(folder, &source), &arguments)
    }
}

#[test]
fn frames_pass_c_and_python_to_the_picosecond_in_both_roles() {
    for (python, roles, options, delay) in [
        (false, [Role::Listen, Role::Connect], &[][..], 0),
        (false, [Role::Connect, Role::Listen], &[], 0),
        (true, [Role::Listen, Role::Connect], &["--delay", "3.5"], 3_500),
        (true, [Role::Connect, Role::Connect], &[], 0),
    ] {
        let folder = Folder::new();
        let peer = between(&folder, python, roles, true, options);
        let ours = ["left", "right"].iter().zip(roles);
        let ours = ours.map(|(name, role)| parameters(&folder, name, other(role), true)).collect();
        let mut channels = connect(ours);
        let sent = numbered(200, 130);
        let arrived = run(&mut channels, &sent, SimTime::from_nanos(100_000)).unwrap();
        let expected = sent
            .iter()
            .map(|(at, frame)| (SimTime::from_nanos(at.as_nanos() + OURS + delay + THEIRS), frame.clone()));
        assert_eq!(arrived[1], expected.collect::<Vec<_>>(), "python: {python}, {roles:?}");
        assert!(arrived[0].is_empty());
        drop(channels);
        let output = peer.ended();
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert!(!python || output.stdout == b"200 frames passed, 0 lost\n", "{output:?}");
    }
}

#[test]
fn a_middlebox_loses_the_same_frames_in_every_run() {
    let run_once = |seed| {
        let folder = Folder::new();
        let peer = between(&folder, true, [Role::Listen; 2], true, &["--loss", "0.3", "--seed", seed]);
        let ours = ["left", "right"].map(|name| parameters(&folder, name, Role::Connect, true));
        let mut channels = connect(ours.into());
        let arrived = run(&mut channels, &numbered(100, 500), SimTime::from_nanos(60_000)).unwrap();
        drop(channels);
        peer.ended();
        arrived[1].clone()
    };
    let first = run_once("1");
    assert!(first.len() > 50 && first.len() < 90, "{}", first.len());
    assert_eq!(run_once("1"), first);
    assert_ne!(run_once("2"), first);
}

#[test]
fn a_packet_generator_keeps_its_rate_exactly() {
    let folder = Folder::new();
    let program = compile(&folder, &library("pktgen.c"));
    let url = folder.url(Role::Connect, "generator", true);
    // 1,000 bytes at 10 Gbit/s: one in 800 ns.
    let peer = Peer::start(program, &[&url, "--rate", "10000", "--count", "50", "--start", "2"]);
    let mut channels = connect(vec![parameters(&folder, "generator", Role::Listen, true)]);
    let arrived = run(&mut channels, &[], SimTime::from_nanos(60_000)).unwrap().remove(0);
    let times: Vec<u64> = arrived.iter().map(|(at, _)| at.as_nanos()).collect();
    assert_eq!(times, (0..50).map(|n| 2_000 + n * 800 + THEIRS).collect::<Vec<_>>());
    assert!(arrived.iter().all(|(_, frame)| frame.bytes.len() == 1_000));
    drop(channels);
    let output = peer.ended();
    assert!(output.stdout.starts_with(b"50 frames sent, 0 received"), "{output:?}");
}

#[test]
fn without_synchronisation_frames_pass_as_well() {
    for python in [false, true] {
        let folder = Folder::new();
        let peer = between(&folder, python, [Role::Listen, Role::Connect], false, &[]);
        let ours = [("left", Role::Connect), ("right", Role::Listen)];
        let mut channels = connect(ours.map(|(name, role)| parameters(&folder, name, role, false)).into());
        let sent = numbered(50, 1);
        for (at, frame) in &sent {
            assert!(channels[0].send(*at, frame).unwrap());
        }
        let got = collect(&mut channels[1], 50).unwrap();
        assert!(got.iter().eq(sent.iter().map(|(_, frame)| frame)));
        drop(channels);
        assert!(peer.ended().status.success());
    }
}

#[test]
fn a_peer_that_is_killed_is_noticed_and_named() {
    for python in [false, true] {
        let folder = Folder::new();
        let mut peer = between(&folder, python, [Role::Listen; 2], true, &[]);
        let ours = ["left", "right"].map(|name| parameters(&folder, name, Role::Connect, true));
        let mut channels = connect(ours.into());
        run(&mut channels, &[], SimTime::from_nanos(5_000)).unwrap();
        peer.kill();
        let error = run(&mut channels, &[], SimTime::from_secs(1_000)).unwrap_err().to_string();
        assert!(error.contains("it closed the channel without TERMINATE"), "{error}");
        assert!(error.starts_with("left: ") || error.starts_with("right: "));
    }
}
