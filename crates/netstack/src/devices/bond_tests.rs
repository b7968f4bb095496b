//! Tests of the choice among the ports of a bond, and of its monitor.

use super::bond_state::{Bond, BondLink, BondMode, BondSettings, HashPolicy, Reselect, hash};
use belljar_base::{SimDuration, SimTime};

const OWN: ([u8; 6], usize) = ([2, 0, 0, 0, 0, 1], 1_500);

fn bond(settings: BondSettings) -> Bond {
    let mut bond = Bond::default();
    bond.settings = settings;
    for port in [5, 6, 7] {
        bond.add(port, OWN, true);
    }
    bond.set_up(SimTime::ZERO, true);
    bond.select();
    bond
}

fn failover() -> BondSettings {
    BondSettings { mode: BondMode::ActiveBackup, miimon: 100, ..BondSettings::default() }
}

/// Runs the checks of some intervals; returns the active port after each.
fn run(bond: &mut Bond, intervals: u64, down: &[usize]) -> Vec<Option<usize>> {
    let mut actives = Vec::new();
    for _ in 0..intervals {
        let now = bond.next_timeout().expect("the bond is up");
        if bond.check(now, |port| !down.contains(&port)) {
            bond.select();
        }
        assert_eq!(bond.next_timeout(), Some(now + SimDuration::from_millis(100)));
        actives.push(bond.active);
    }
    actives
}

#[test]
fn another_port_takes_over() {
    let mut bond = bond(failover());
    assert_eq!(
        (bond.active, bond.take_announcement(true), bond.take_announcement(true)),
        (Some(5), true, false)
    );
    assert_eq!(run(&mut bond, 2, &[5]), [Some(6), Some(6)]);
    assert_eq!((bond.ports[0].link, bond.ports[0].failures), (BondLink::Down, 1));
    assert!(bond.ports[0].is_backup && !bond.ports[1].is_backup && bond.take_announcement(true));
    // Without a primary port the active one stays.
    assert_eq!(run(&mut bond, 2, &[]), [Some(6), Some(6)]);
    assert_eq!(run(&mut bond, 1, &[5, 6, 7]), [None]);
    assert!(!bond.has_carrier());
    assert_eq!(run(&mut bond, 1, &[5, 6]), [Some(7)]);
}

#[test]
fn a_primary_port_returns() {
    for (reselect, active) in [(Reselect::Always, Some(5)), (Reselect::Failure, Some(6))] {
        let mut bond = bond(BondSettings { primary: Some(5), reselect, ..failover() });
        run(&mut bond, 1, &[5]);
        assert_eq!(bond.active, Some(6));
        assert_eq!(run(&mut bond, 1, &[]), [active]);
    }
}

#[test]
fn delays_are_kept() {
    let mut bond = bond(BondSettings { updelay: 3, downdelay: 2, ..failover() });
    run(&mut bond, 4, &[]);
    assert_eq!(run(&mut bond, 3, &[5]), [Some(5), Some(5), Some(6)]);
    let links: Vec<BondLink> = (0..4)
        .map(|_| {
            run(&mut bond, 1, &[]);
            bond.ports[0].link
        })
        .collect();
    assert_eq!(links, [BondLink::Back, BondLink::Back, BondLink::Back, BondLink::Up]);
    // A short loss does not count.
    run(&mut bond, 1, &[6]);
    run(&mut bond, 1, &[]);
    assert_eq!((bond.active, bond.ports[1].failures), (Some(6), 0));
}

#[test]
fn frames_leave_by_the_ports_of_the_mode() {
    let frame = [0; 60];
    let mut turns = bond(BondSettings::default());
    let all: Vec<usize> = (0..4).flat_map(|_| turns.outputs(&frame, |_| true)).collect();
    assert_eq!(all, [6, 7, 5, 6]);
    assert_eq!(turns.outputs(&frame, |port| port == 5), [5]);
    assert!(turns.outputs(&frame, |_| false).is_empty());
    let mut all = bond(BondSettings { mode: BondMode::Broadcast, ..BondSettings::default() });
    assert_eq!(all.outputs(&frame, |port| port != 6), [5, 7]);
    let mut one = bond(failover());
    assert_eq!(one.outputs(&frame, |_| true), [5]);
    let mut by_hash = bond(BondSettings { mode: BondMode::Xor, ..BondSettings::default() });
    let mut frame = [0; 60];
    frame[5] = 1;
    assert_eq!(by_hash.outputs(&frame, |_| true), [6]);
}

#[test]
fn hashes_are_those_of_linux() {
    let mut frame = vec![0; 60];
    (frame[5], frame[11], frame[12]) = (3, 1, 8);
    (frame[14], frame[23]) = (0x45, 17);
    frame[26..30].copy_from_slice(&[10, 0, 0, 1]);
    frame[30..34].copy_from_slice(&[10, 0, 0, 3]);
    frame[34..38].copy_from_slice(&[0, 80, 0x30, 0x39]);
    assert_eq!(hash(&frame, HashPolicy::Layer2), 2 ^ 0x800);
    let fold = |hash: u32| {
        let hash = hash ^ hash >> 16;
        hash ^ hash >> 8
    };
    assert_eq!(hash(&frame, HashPolicy::Layer23), fold(0x802 ^ 0x0200_0000));
    assert_eq!(hash(&frame, HashPolicy::Layer34), fold(0x3930_5000 ^ 0x0200_0000) >> 1);
    // A later fragment has no ports.
    frame[21] = 1;
    assert_eq!(hash(&frame, HashPolicy::Layer34), fold(0x0200_0000) >> 1);
}
