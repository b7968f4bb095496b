//! Differential test: the simulator's and the emulator's use of a link direction give the same verdicts.

use super::*;
use belljar_base::{SimDuration, Stream};
use belljar_config::{Action, Event, PathContext, Target, When};
use belljar_emulation::Line;
use belljar_net::link::{LinkOverrides, LinkProperties, PathChange};
use belljar_net::nic::{Nic, NicEvent};
use belljar_net::{GilbertElliott, Loss, Reordering};
use belljar_plan::{Schedule, link_nic};

/// Number of random histories, and of frames in each.
const HISTORIES: u64 = 10_000;
const FRAMES: u64 = 30;

const EXPERIMENT: &str = "general: { stop_time: 1 s }\nhosts: { a: { processes: [] }, b: { processes: [] } }\n\
    links: [{ between: [a, b] }]\nevents:\n- { at: 1 us, partition: [[a], [b]], for: 5 us }\n";

fn micros(n: u64) -> SimDuration {
    SimDuration::from_micros(n)
}

fn probability(draw: &mut Stream) -> f64 {
    if draw.chance(0.5) { 0.0 } else { draw.below(5) as f64 / 8.0 }
}

fn loss(draw: &mut Stream) -> Loss {
    match draw.below(3) {
        0 => Loss::GilbertElliott(GilbertElliott {
            to_bad: probability(draw),
            to_good: probability(draw),
            loss_bad: probability(draw),
            loss_good: probability(draw),
        }),
        _ => Loss::Independent(probability(draw)),
    }
}

fn reordering(draw: &mut Stream) -> Option<Reordering> {
    let delay = micros(draw.below(20));
    draw.chance(0.4).then(|| Reordering { probability: probability(draw), delay })
}

fn latency(draw: &mut Stream) -> (SimDuration, SimDuration) {
    let latency = 1 + draw.below(30);
    (micros(latency), micros(draw.below(latency)))
}

fn properties(draw: &mut Stream) -> LinkProperties {
    let (latency, jitter) = latency(draw);
    LinkProperties {
        rate: draw.chance(0.7).then(|| 100_000_000 << draw.below(5)),
        latency,
        jitter,
        loss: loss(draw),
        reordering: reordering(draw),
        duplication: probability(draw),
        corruption: probability(draw),
        ..LinkProperties::default()
    }
}

fn change(draw: &mut Stream) -> PathChange {
    let link = LinkOverrides {
        loss: draw.chance(0.4).then(|| loss(draw)),
        reordering: draw.chance(0.4).then(|| reordering(draw)),
        duplication: draw.chance(0.4).then(|| probability(draw)),
        corruption: draw.chance(0.4).then(|| probability(draw)),
        ..LinkOverrides::default()
    };
    let (latency, jitter) = latency(draw);
    PathChange {
        latency: draw.chance(0.5).then_some(latency),
        jitter: draw.chance(0.5).then_some(jitter),
        loss: None,
        link: Box::new(link),
    }
}

/// Experiment with a random link and random events; one in five has a bootstrap phase.
fn experiment(base: &Experiment, number: u64) -> Experiment {
    let draw = &mut Seed(number).stream(&["history"]);
    let mut experiment = base.clone();
    experiment.general.seed = number;
    if draw.chance(0.2) {
        experiment.general.bootstrap_end_time = SimTime::ZERO + micros(draw.below(40));
    }
    experiment.topology.links[0].ends.iter_mut().for_each(|end| end.properties = properties(draw));
    let partition = experiment.events.remove(0);
    for _ in 0..draw.below(6) {
        let from = draw.chance(0.5).then(|| HostId(draw.below(2) as u32));
        let target = Target::Links { links: vec![0], from };
        let action = match draw.below(6) {
            0 => Action::LinkDown(target),
            1 => Action::LinkUp(target),
            2 => Action::Reset(target),
            3 => partition.action.clone(),
            _ => Action::Change(target, change(draw)),
        };
        let lasting = draw.chance(0.3).then(|| micros(1 + draw.below(40)));
        let when = When::At(SimTime::ZERO + micros(draw.below(100)));
        let number = experiment.events.len() as u32;
        experiment.events.push(Event { number, name: None, when, lasting, action });
    }
    experiment
}

type Arrivals = Vec<(SimTime, Vec<u8>)>;

/// Carries the frames of one direction by the simulator and by the emulator; returns arrivals and drops of
/// each.
fn carried(experiment: &Experiment, end: usize) -> [(Arrivals, Map<DropReason, u64>); 2] {
    let schedule = Schedule::new(experiment);
    let node = experiment.topology.links[0].ends[end].node;
    let nic = link_nic(experiment, &experiment.node_interfaces(node)[0]);
    let mut queue = Nic::new(&nic);
    let mut outbound = OutboundLink::new(experiment, 0, end, &schedule.network);
    let mut simulated = Vec::new();
    let direction = link_direction(experiment, &schedule.network, 0, end);
    let mut line = Line::new(&nic, direction);
    let mut emulated = Vec::new();
    let draw = &mut experiment.seed().stream(&["frames"]);
    let mut now = SimTime::ZERO;
    for number in 0..FRAMES {
        now += SimDuration::from_nanos(draw.below(8_000));
        let frame = vec![number as u8; 60 + draw.below(1_400) as usize];
        let _ = queue.send(now, Packet::new(frame.clone()));
        while let Some((_, event)) = queue.poll(now) {
            if let NicEvent::Transmit { packet, departs } = event {
                let deliver = |_, at, message: Message| simulated.push((at, message.packet.into_bytes()));
                outbound.carry(departs, packet, deliver);
            }
        }
        line.offer(now, &frame);
        // The emulator polls its lines from time to time.
        if draw.chance(0.3) {
            line.deliver(now, |frame, at| emulated.push((at, frame.to_vec())));
        }
    }
    let end = SimTime::ZERO + SimDuration::from_secs(1);
    while let Some((_, event)) = queue.poll(end) {
        if let NicEvent::Transmit { packet, departs } = event {
            let deliver = |_, at, message: Message| simulated.push((at, message.packet.into_bytes()));
            outbound.carry(departs, packet, deliver);
        }
    }
    line.deliver(end, |frame, at| emulated.push((at, frame.to_vec())));
    // The engine sorts arrivals by time; simultaneous arrivals keep the order of sending.
    simulated.sort_by_key(|(at, _)| *at);
    let mut of_simulation = outbound.direction.drops().clone();
    let full = queue.counters().dropped(DropReason::EgressFull);
    of_simulation.extend((full > 0).then_some((DropReason::EgressFull, full)));
    [(simulated, of_simulation), (emulated, line.counters().drops)]
}

#[test]
fn both_backends_give_the_same_verdicts() {
    let base = Experiment::parse_in("test.yaml", EXPERIMENT, &PathContext::default());
    let base = base.unwrap_or_else(|error| panic!("{error}"));
    let (mut frames, mut lost, mut blocked) = (0, 0, 0);
    for number in 0..HISTORIES {
        let experiment = experiment(&base, number);
        for end in 0..2 {
            let [simulated, emulated] = carried(&experiment, end);
            frames += simulated.0.len();
            lost += simulated.1.get(&DropReason::PacketLoss).copied().unwrap_or_default();
            blocked += simulated.1.get(&DropReason::LinkDown).copied().unwrap_or_default();
            assert_eq!(simulated, emulated, "history {number}, end {end}: {:#?}", experiment.events);
        }
    }
    assert!(frames > 300_000 && lost > 50_000 && blocked > 10_000, "{frames} {lost} {blocked}");
}
