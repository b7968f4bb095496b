//! Two hosts of models, connected by a delay only.

use belljar_base::{EventClass, EventKey, HostId, Seed, SimDuration, SimTime};
use belljar_model_host::{ModelHost, ModelHostConfig, ModelSpec, Models, Owner};
use belljar_models::{Bulk, Direction, Draw, Endpoint, FlowOutcome, FlowRecord, Kind, Pace, Spacing, Spec};
use belljar_netstack::clock::{Clock, CpuModel, DEFAULT_EPOCH_SECS};
use belljar_netstack::event_loop::EventLoop;
use belljar_netstack::{Departure, StackConfig};
use std::net::Ipv4Addr;
use std::sync::Arc;

const SIZE: u64 = 200_000;
const DELAY: SimDuration = SimDuration::from_millis(5);

fn address(n: u32) -> Ipv4Addr {
    Ipv4Addr::new(11, 0, 0, 1 + n as u8)
}

fn host(n: u32, kind: Kind) -> ModelHost {
    let spec = Arc::new(Spec { name: format!("model {n}"), kind });
    let config = ModelHostConfig {
        models: vec![ModelSpec { spec, start: SimTime::ZERO, stop: None }],
        interrupt: Arc::default(),
        attention: Arc::default(),
        watched: None,
    };
    let network = StackConfig {
        address: address(n),
        on_graph: true,
        ..StackConfig::new(HostId(n), &format!("host{n}"), Seed(1))
    };
    ModelHost::new(config, network, Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default()))
}

/// A sink, and a client that sends it three transfers of [`SIZE`] bytes.
fn pair() -> [ModelHost; 2] {
    let to = vec![Endpoint { host: "host0".into(), address: address(0), port: 5_001 }];
    let pace = Pace { count: Some(3), spacing: Spacing::Pause(Draw::Fixed(0)) };
    let size = Some(Draw::Fixed(SIZE));
    let client = Kind::Bulk(Bulk { to, direction: Direction::Up, size, pace });
    [host(0, Kind::Sink { port: 5_001, udp: false }), host(1, client)]
}

/// Runs both hosts in windows as long as the delay.
fn run(hosts: &mut [ModelHost; 2], until: SimTime) {
    let (mut sequence, mut departures): (u64, Vec<Departure>) = (0, Vec::new());
    let mut limit = hosts[0].stack().clock.now();
    while limit < until {
        limit = (limit + DELAY).min(until);
        for n in 0..2 {
            hosts[n].run_until(limit);
            hosts[n].stack_mut().take_departures(&mut departures);
            for departure in departures.drain(..) {
                sequence += 1;
                let (time, class) = (departure.at + DELAY, EventClass::Arrival);
                let key = EventKey { time, class, source: HostId(n as u32), sequence };
                hosts[1 - n].stack_mut().deliver(key, None, departure.packet);
            }
        }
        hosts.iter_mut().for_each(|host| host.advance(limit));
    }
    for host in hosts {
        let account = host.stack().packet_account();
        assert_eq!(account.imbalance(), 0, "{account:?}");
        assert_eq!(account.received, host.stack().eth0.nic.counters().packets_in);
    }
}

fn flows(host: &ModelHost) -> Vec<FlowRecord> {
    host.models().flows().iter().map(|(_, flow)| flow.clone()).collect()
}

#[test]
fn a_client_sends_to_a_sink_and_both_count_it() {
    let mut hosts = pair();
    run(&mut hosts, SimTime::from_nanos(2_000_000_000));
    for host in &mut hosts {
        Models::finish(host);
    }
    let sent = flows(&hosts[1]);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|flow| flow.outcome == FlowOutcome::Done && flow.bytes_out == SIZE));
    let received: u64 = flows(&hosts[0]).iter().map(|flow| flow.bytes_in).sum();
    assert_eq!(received, 3 * SIZE);
    assert!(hosts[1].models().finished_at().is_some_and(|at| at > SimTime::ZERO));
    assert!(hosts.iter().all(|host| host.warnings().is_empty() && host.models().problems().is_empty()));
}

#[test]
fn the_same_again_ends_at_the_same_times() {
    let [first, second] = [pair(), pair()].map(|mut hosts| {
        run(&mut hosts, SimTime::from_nanos(2_000_000_000));
        flows(&hosts[1]).iter().map(|flow| (flow.started, flow.ended)).collect::<Vec<_>>()
    });
    assert_eq!(first, second);
}

#[test]
fn a_host_that_lost_power_answers_nobody_and_serves_again_after_it() {
    let mut hosts = pair();
    run(&mut hosts, SimTime::from_nanos(20_000_000));
    hosts[0].crash();
    assert!(hosts[0].stack().is_down && hosts[0].models().finished_at().is_some());
    run(&mut hosts, SimTime::from_nanos(1_000_000_000));
    let before = flows(&hosts[1]).len();
    hosts[0].restart();
    run(&mut hosts, SimTime::from_nanos(120_000_000_000));
    let after = flows(&hosts[1]);
    assert!(before < 3 && after.len() == 3, "{before} of {}", after.len());
    assert!(after.iter().any(|flow| flow.outcome == FlowOutcome::Done));
}
