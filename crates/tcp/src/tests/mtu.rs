//! Black-hole paths, which drop long segments silently, and path MTU probing over them.

use super::util::{Link, World};
use crate::{Config, MtuProbing};
use belljar_base::{SimDuration, SimTime};

/// Header bytes with the options of every segment.
const HEADER: usize = 32;

/// Runs a transfer over such a path for a minute; returns its progress and the final segment size.
fn transfer(mode: u8, bytes: u64, longest: usize, base_mss: u32) -> (World, usize) {
    let mut link = Link::new(100_000_000, SimDuration::from_millis(10));
    link.swallows_above = longest;
    let mtu_probing = MtuProbing { mode, base_mss, ..MtuProbing::default() };
    let config = Config { mtu_probing, ..Config::default() };
    let mut world = World::new(link, [config.clone(), config], 1);
    world.ends[0].to_send = bytes;
    let enough = SimTime::from_secs(60);
    world.run_while(SimTime::from_secs(600), |w| w.ends[1].received < bytes && w.now < enough);
    let mss = world.ends[0].tcp.info(world.now).send_mss as usize;
    (world, mss)
}

#[test]
fn a_black_hole_stops_who_does_not_probe() {
    let (world, mss) = transfer(0, 100_000, 1_000, 1_024);
    assert_eq!((world.ends[1].received, mss), (0, 1_448));
}

#[test]
fn a_black_hole_is_noticed_and_segments_are_halved() {
    for (longest, expected) in [(1_400, 1_024), (1_000, 512), (300, 256), (120, 64)] {
        let (world, mss) = transfer(1, 30_000, longest, 1_024);
        assert_eq!((world.ends[1].received, mss), (30_000, expected), "{longest}");
    }
}

#[test]
fn probes_find_the_longest_segment_that_passes() {
    for longest in [1_100, 1_250, 1_400, 1_480, 9_000] {
        let (world, mss) = transfer(2, 3_000_000, longest, 512);
        let most = longest.min(1_480);
        assert_eq!(world.ends[1].received, 3_000_000);
        assert!(mss + HEADER <= most && mss + HEADER + 8 >= most, "{mss} where {longest} pass");
        let (said, (_, timeouts)) = (world.ends[0].tcp.info(world.now), world.ends[0].tcp.retransmissions());
        assert_eq!(timeouts, 0, "a lost probe is noticed by what follows it");
        assert!(said.cwnd > 100, "and costs no window: {}", said.cwnd);
    }
}
