//! Malicious neighbours: false information takes bounded memory, and expires.

use super::rules::Solo;
use super::{at, config};
use crate::olsr::packet::{LinkCode, LinkType, NeighborType, Tc, kind};
use std::net::Ipv4Addr;
use std::time::Duration;

const SYM: LinkCode = LinkCode { link: LinkType::Symmetric, neighbor: NeighborType::Symmetric };

#[test]
fn a_flood_of_forged_messages_stays_within_bounds() {
    let mut solo = Solo::new(config(0, 1));
    solo.hello(at(1), &[(LinkCode { link: LinkType::Symmetric, neighbor: NeighborType::Mpr }, at(0))]);
    for n in 0..3000u32 {
        let originator = Ipv4Addr::from(0x0b00_0000 + n);
        let neighbors = (0..300).map(|m| Ipv4Addr::from(0x0c00_0000 + n * 300 + m)).collect();
        solo.message(at(1), originator, kind::TC, 255, n as u16, &Tc { ansn: 1, neighbors }.encode());
        let mid: Vec<u8> = (0..60u32).flat_map(|m| (0x0d00_0000 + n * 60 + m).to_be_bytes()).collect();
        solo.message(at(1), originator, kind::MID, 255, n as u16 ^ 0x8000, &mid);
    }
    assert!(solo.olsr.topology().count() <= 131_072);
    assert!(solo.olsr.footprint() < 400_000, "{}", solo.olsr.footprint());
    assert!(solo.olsr.counts().refused > 0);
    solo.advance(Duration::from_secs(40));
    assert_eq!(solo.olsr.footprint(), 0, "all of it was valid for seconds only");
}

#[test]
fn a_neighbour_cannot_speak_for_this_node() {
    let mut solo = Solo::new(config(0, 1));
    solo.hello(at(1), &[(SYM, at(0)), (SYM, at(0))]);
    // A message in the name of this node, and one that claims this node's address for another.
    solo.message(at(1), at(0), kind::TC, 9, 1, &Tc { ansn: 9, neighbors: vec![at(7)] }.encode());
    solo.message(at(1), at(2), kind::MID, 9, 2, &at(0).octets());
    solo.message(at(1), at(1), kind::HNA, 9, 3, &[at(0).octets(), [255; 4]].concat());
    assert_eq!(solo.olsr.topology().count(), 0);
    assert_eq!(solo.route(at(0)), None);
    assert_eq!(solo.route(at(2)), None);
}

#[test]
fn a_neighbour_that_changes_its_main_address_has_one_at_a_time() {
    let mut solo = Solo::new(config(0, 1));
    for n in 2..50 {
        solo.hello_of(at(1), at(n), 3, &[(SYM, at(0))]);
    }
    assert_eq!(solo.olsr.links(solo.now).len(), 1);
    assert_eq!(solo.olsr.routes().count(), 2, "its interface, and the main address that it says now");
}

#[test]
fn addresses_that_no_node_has_are_ignored() {
    let mut solo = Solo::new(config(0, 1));
    for address in
        [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST, Ipv4Addr::LOCALHOST, Ipv4Addr::new(224, 0, 0, 1)]
    {
        solo.hello_of(at(1), address, 3, &[(SYM, at(0))]);
        solo.hello_of(address, at(1), 3, &[(SYM, at(0))]);
        solo.hello_of(at(3), at(3), 3, &[(SYM, at(0)), (SYM, address)]);
    }
    assert!(
        solo.olsr.routes().all(|route| route.destination.address() == at(3)),
        "{:?}",
        solo.olsr.routes().collect::<Vec<_>>()
    );
}
