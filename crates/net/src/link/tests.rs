use super::*;
use crate::{DropReason, Loss, Packet, Path};
use belljar_base::{Seed, SimDuration, SimTime};

fn ms(n: u64) -> SimDuration {
    SimDuration::from_millis(n)
}

fn usual() -> Path {
    Path::new(ms(50), ms(10), 0.1)
}

/// Path after these changes.
fn after(changes: &[DirectionChange]) -> Result<Path, DropReason> {
    let mut state = PathState::default();
    changes.iter().for_each(|change| state.apply(change));
    state.path(Some(usual()))
}

#[test]
fn no_sequence_of_changes_undercuts_the_least_delay() {
    let amounts = [None, Some(ms(2)), Some(ms(9)), Some(ms(30)), Some(ms(400))];
    let changes: Vec<PathChange> = amounts
        .iter()
        .flat_map(|latency| {
            amounts.map(|jitter| PathChange { latency: *latency, jitter, ..PathChange::default() })
        })
        .filter(|c| c.latency.is_none_or(|latency| c.jitter.is_none_or(|jitter| jitter <= latency)))
        .collect();
    for first in &changes {
        for second in &changes {
            for third in &changes {
                let sequence = [first, second, third];
                let bound = sequence.iter().map(|c| least_delay(c, usual().least_latency)).min().unwrap();
                let bound = bound.min(usual().least_latency);
                let set = sequence.map(|c| DirectionChange::Set(c.clone()));
                let least = after(&set).unwrap().least_latency;
                assert!(least >= bound && !least.is_zero(), "{least} < {bound}: {sequence:?}");
            }
        }
    }
}

/// Arrivals, or reasons of loss, of one frame per millisecond.
fn carried(
    properties: &LinkProperties,
    changes: Vec<(SimTime, DirectionChange)>,
    frames: u64,
) -> Vec<Result<Arrival, DropReason>> {
    let mut direction = LinkDirection::new(properties, Seed(3), "l", "a", changes, SimTime::ZERO);
    let carry = |n| direction.carry(SimTime::ZERO + ms(n), &mut Packet::new(vec![0; 60]));
    (0..frames).map(carry).collect()
}

#[test]
fn frames_are_delivered_duplicated_or_dropped() {
    let properties = LinkProperties {
        latency: ms(5),
        loss: Loss::Independent(0.2),
        duplication: 0.1,
        ..LinkProperties::default()
    };
    let at = |n| SimTime::ZERO + ms(n);
    let changes = vec![(at(300), DirectionChange::Down), (at(350), DirectionChange::Up)];
    let mut direction = LinkDirection::new(&properties, Seed(3), "l", "a", changes, SimTime::ZERO);
    let mut arrivals = 0;
    for n in 0..1_000 {
        if let Ok(arrival) = direction.carry(at(n), &mut Packet::new(vec![0; 60])) {
            arrivals += 1 + u64::from(arrival.duplicated);
        }
        assert_eq!(direction.packet_account().imbalance(), 0);
    }
    let account = direction.packet_account();
    assert_eq!((account.received, account.sent), (1_000, arrivals));
    assert!(account.originated["duplicates"] > 50 && account.dropped["packet_loss"] > 100);
    assert_eq!(account.dropped["link_down"], 50);
}

#[test]
fn changes_act_from_their_time_on_and_shift_no_draws_of_later_frames() {
    let properties = LinkProperties {
        latency: ms(5),
        jitter: ms(1),
        loss: Loss::Independent(0.2),
        ..LinkProperties::default()
    };
    let at = |n| SimTime::ZERO + ms(n);
    let plain = carried(&properties, Vec::new(), 300);
    let changes = vec![
        (at(100), DirectionChange::Down),
        (at(150), DirectionChange::Up),
        (at(150), DirectionChange::Split { event: 1, apart: true }),
        (at(160), DirectionChange::Heal(Some(vec![1]))),
    ];
    let changed = carried(&properties, changes, 300);
    for (n, (plain, changed)) in plain.iter().zip(&changed).enumerate() {
        match n {
            100..150 => assert_eq!(*changed, Err(DropReason::LinkDown)),
            150..160 => assert_eq!(*changed, Err(DropReason::Partition)),
            _ => assert_eq!(plain, changed, "frame {n}"),
        }
    }
    assert!(plain.iter().filter(|arrival| arrival.is_err()).count() > 30);
}

#[test]
fn a_changed_property_acts_and_a_reset_ends_it() {
    let at = |n| SimTime::ZERO + ms(n);
    let link = LinkOverrides { duplication: Some(1.0), ..LinkOverrides::default() };
    let slow = PathChange { latency: Some(ms(40)), link: Box::new(link), ..PathChange::default() };
    let changes = vec![(at(1), DirectionChange::Set(slow)), (at(60), DirectionChange::Reset)];
    let arrivals = carried(&LinkProperties::default(), changes, 61);
    let found = [0, 1, 60].map(|n| arrivals[n].unwrap());
    let usual = SimDuration::from_micros(10);
    assert_eq!(found[0], Arrival { at: at(0) + usual, duplicated: false });
    assert_eq!(found[1], Arrival { at: at(41), duplicated: true });
    assert_eq!(found[2], Arrival { at: at(99).max(at(60) + usual), duplicated: false }, "no overtaking");
}
