//! Account of the packets: under random operations every packet is sent, consumed, dropped for a reason, or
//! held.

mod common;

use belljar_base::{Map, PacketAccount, Seed, SimDuration, SimTime, Stream, TokenBucket};
use belljar_p4::switch::{CloneSession, Drop, QueueLimits, Replica};
use belljar_p4::{PortSettings, Program, Switch, SwitchConfig, SwitchDevice};
use common::*;
use serde_json::json;
use std::sync::Arc;

/// Actions of [`program`] in ingress, by `ipv4.diffserv`; further values forward the packet.
const INGRESS: [&str; 7] = ["drop", "multicast", "clone", "resubmit", "assert", "cpu", "digest"];
/// Actions in egress, by `ipv4.diffserv`.
const EGRESS: [&str; 4] = ["clone", "recirculate", "drop", "assert"];
/// Value of `ipv4.diffserv` for the first action in egress.
const FIRST_EGRESS: u64 = 16;
/// Value of `ipv4.diffserv` for packets that are forwarded.
const FORWARD: u64 = 32;
const CPU: u16 = 500;

/// Program whose packets request their processing: the action by `diffserv`, the egress port by `protocol`,
/// the priority by `flags`, the multicast group by `identification`, the clone session by `ttl`.
fn program() -> Arc<Program> {
    let mut builder = Builder::new();
    builder.list("field_lists").push(json!({"id": 1, "name": "keep", "elements": [field("meta", "a")]}));
    builder
        .list("learn_lists")
        .push(json!({"id": 1, "name": "learn", "elements": [field("ethernet", "src")]}));
    builder.always(
        0,
        "out",
        vec![
            assign("standard_metadata", "egress_spec", field("ipv4", "protocol")),
            assign("standard_metadata", "priority", field("ipv4", "flags")),
        ],
    );
    let session = || field("ipv4", "ttl");
    let never = || call("assert", json!([operation("==", hexstr(1), hexstr(2))]));
    let primitives = |half: usize, name: &str| match (half, name) {
        (_, "drop") => drop_packet(),
        (_, "multicast") => assign("standard_metadata", "mcast_grp", field("ipv4", "identification")),
        (0, "clone") => call("clone_ingress_pkt_to_egress", json!([session(), hexstr(1)])),
        (_, "clone") => call("clone_egress_pkt_to_egress", json!([session(), hexstr(1)])),
        (_, "resubmit") => call("resubmit", json!([hexstr(1)])),
        (_, "recirculate") => call("recirculate", json!([hexstr(1)])),
        (_, "assert") => never(),
        (_, "digest") => call("generate_digest", json!([hexstr(0), hexstr(1)])),
        _ => assign("standard_metadata", "egress_spec", hexstr(CPU.into())),
    };
    for (half, names, first) in [(0, &INGRESS[..], 0), (1, &EGRESS[..], FIRST_EGRESS)] {
        let nothing = builder.action(&format!("nothing{half}"), &[], Vec::new());
        let mut actions = vec![nothing];
        let mut entries = Vec::new();
        for (value, name) in (first..).zip(names) {
            let action = builder.action(&format!("{name}{half}"), &[], vec![primitives(half, name)]);
            actions.push(action);
            entries.push(json!({
                "match_key": [{"match_type": "exact", "key": format!("{value:#04x}")}],
                "action_entry": {"action_id": action, "action_data": []}, "priority": 1}));
        }
        let entries = json!({"entries": entries});
        builder.table(half, &format!("act{half}"), &[("exact", "ipv4", "diffserv")], &actions, entries);
    }
    builder.build()
}

/// Packet for [`program`].
fn random_packet(stream: &mut Stream) -> Vec<u8> {
    let mut bytes = packet([10, 0, 0, 1], stream.below(200) as usize);
    bytes[15] = match stream.below(3) {
        0 => stream.below(INGRESS.len() as u64),
        1 => FIRST_EGRESS + stream.below(EGRESS.len() as u64),
        _ => FORWARD,
    } as u8;
    // The group or the session, of which some do not exist, and some are empty.
    bytes[19] = stream.below(5) as u8 + 1;
    bytes[22] = stream.below(5) as u8;
    // The priority, of which some have no queue.
    bytes[20] = if stream.below(8) == 0 { 7 << 5 } else { (stream.below(4) as u8) << 5 };
    // The port: existing ports, the CPU port, ports that do not exist.
    bytes[23] = stream.below(9) as u8;
    bytes.truncate(if stream.below(30) == 0 { stream.below(40) as usize } else { usize::MAX });
    bytes
}

fn random_config(stream: &mut Stream) -> SwitchConfig {
    let some = |stream: &mut Stream, value: u64| (stream.below(2) == 0).then_some(value);
    SwitchConfig {
        ports: 6,
        rate: some(stream, 2_000_000),
        queues: 4,
        limits: QueueLimits { packets: 4, bytes: some(stream, 700), packets_per_second: some(stream, 2_000) },
        latency: SimDuration::from_micros(stream.below(2) * 300),
        packets_per_second: some(stream, 4_000),
        input_packets: 6,
        cpu_port: [None, Some(CPU), Some(5)][stream.below(3) as usize],
        max_passes: 7,
        ..SwitchConfig::default()
    }
}

fn replicas(stream: &mut Stream) -> Vec<Replica> {
    (0..stream.below(5)).map(|n| Replica { port: stream.below(8) as u16, instance: n as u16 }).collect()
}

/// Groups and sessions: 1 to 3 exist, 3 is empty.
fn set_replication(switch: &mut Switch, stream: &mut Stream) {
    for id in 1..4 {
        if !switch.multicast_groups().contains(&id) {
            switch.create_multicast_group(id).unwrap();
        }
        let copies = if id == 3 { Vec::new() } else { replicas(stream) };
        switch.set_multicast_group(id, &copies).unwrap();
        let group = (stream.below(2) == 0).then(|| stream.below(5) as u16);
        let session = CloneSession { replicas: copies, group, length: Some(60) };
        switch.set_clone_session(id, session).unwrap();
    }
}

/// Switch with a clock and totals of its outputs.
struct Scene {
    device: SwitchDevice,
    config: SwitchConfig,
    program: Arc<Program>,
    now: SimTime,
    sent: u64,
    packet_in: u64,
    given: u64,
}

impl Scene {
    fn new(config: SwitchConfig, program: Arc<Program>) -> Scene {
        let device = SwitchDevice::new(config.clone());
        Scene { device, config, program, now: SimTime::ZERO, sent: 0, packet_in: 0, given: 0 }
    }

    fn install(&mut self, stream: &mut Stream) {
        let mut switch = Switch::new(self.program.clone(), self.config.clone());
        set_replication(&mut switch, stream);
        self.device.install(switch);
    }

    fn drain(&mut self, most: u64) {
        for _ in 0..most {
            match self.device.poll(self.now) {
                Some(_) => self.sent += 1,
                None => break,
            }
        }
        let Some(switch) = self.device.switch() else { return };
        for _ in 0..most {
            match switch.notification() {
                Some(belljar_p4::Notification::PacketIn(_)) => self.packet_in += 1,
                Some(_) => {}
                None => break,
            }
        }
    }

    fn step(&mut self, stream: &mut Stream) {
        let now = self.now;
        let port = stream.below(6) as u16;
        match stream.below(40) {
            0 => self.install(stream),
            1 => self.device.set_carrier(now, port, stream.below(3) > 0),
            2 => {
                let bucket = TokenBucket { rate: 1_000_000, burst: 400 };
                self.device.set_token_bucket(now, port, (stream.below(2) == 0).then_some(bucket));
                if let Some(switch) = self.device.switch() {
                    switch.set_port_bucket(now, port, (stream.below(2) == 0).then_some(bucket));
                }
            }
            3 => {
                let limits = QueueLimits { packets: 2, bytes: None, packets_per_second: None };
                let rate = Some(500_000 + stream.below(5_000_000));
                let settings = PortSettings { rate, overhead: 20, limits, token_bucket: None };
                self.device.set_port(now, port, settings);
            }
            4 => {
                if let Some(switch) = self.device.switch() {
                    set_replication(switch, stream);
                    let _ = switch.delete_clone_session(stream.below(4) as u16);
                }
            }
            5..14 => {
                self.now += SimDuration::from_micros(stream.below(400));
                self.device.set_time(self.now);
            }
            14..20 => self.drain(stream.below(6)),
            _ => {
                let cpu = self.device.cpu_port().filter(|_| stream.below(5) == 0);
                let from = cpu.unwrap_or(stream.below(9) as u16);
                for _ in 0..=stream.below(3) {
                    self.device.receive(now, from, random_packet(stream));
                    self.given += 1;
                }
            }
        }
    }

    /// Account, which balances and agrees with the inputs and outputs.
    fn account(&self, at: &str) -> PacketAccount {
        let account = self.device.packet_account();
        assert_eq!(account.imbalance(), 0, "{at}: {account:?}");
        let packet_out = account.originated.get("packet_out").copied().unwrap_or(0);
        assert_eq!(account.received + packet_out, self.given, "{at}: {account:?}");
        assert_eq!(account.sent, self.sent, "{at}");
        assert_eq!(account.consumed.get("cpu_port").copied().unwrap_or(0), self.packet_in, "{at}");
        account
    }
}

fn add(totals: &mut Map<String, u64>, kind: &str, counts: &Map<&'static str, u64>) {
    for (name, count) in counts {
        *totals.entry(format!("{kind} {name}")).or_default() += count;
    }
}

#[test]
fn every_packet_of_random_operations_has_an_end() {
    let program = program();
    let mut totals = Map::new();
    for seed in 0..60 {
        let mut stream = Seed(seed).stream(&["account"]);
        let mut scene = Scene::new(random_config(&mut stream), program.clone());
        let steps = 250;
        for step in 0..steps {
            if step == 5 {
                // The first packets meet no program.
                scene.install(&mut stream);
            }
            scene.step(&mut stream);
            scene.account(&format!("seed {seed}, step {step}"));
        }
        // Carriers return, and the queues run empty.
        for port in 0..6 {
            scene.device.set_carrier(scene.now, port, true);
        }
        for _ in 0..100 {
            scene.now += SimDuration::from_millis(10);
            scene.drain(1_000);
        }
        let account = scene.account(&format!("seed {seed}, end"));
        assert_eq!(account.held, 0, "{account:?}");
        add(&mut totals, "originated", &account.originated);
        add(&mut totals, "consumed", &account.consumed);
        add(&mut totals, "dropped", &account.dropped);
    }
    let reasons = Drop::ALL.iter().filter(|reason| **reason != Drop::NotificationsFull);
    let mut expected: Vec<String> = reasons.map(|reason| format!("dropped {}", reason.name())).collect();
    expected.push("dropped no_program".to_owned());
    expected.extend(["multicast", "clone", "packet_out"].map(|origin| format!("originated {origin}")));
    expected.push("consumed cpu_port".to_owned());
    for name in expected {
        assert!(totals.get(&name).is_some_and(|count| *count > 0), "no packet '{name}': {totals:?}");
    }
}

#[test]
fn a_packet_to_controllers_that_finds_no_room_is_dropped() {
    let mut builder = Builder::new();
    let log = call(
        "log_msg",
        json!([{"type": "string", "value": "x"}, {"type": "parameters_vector", "value": []}]),
    );
    let mut primitives = vec![log; 1_024];
    primitives.push(assign("standard_metadata", "egress_spec", hexstr(CPU.into())));
    builder.always(0, "noise", primitives);
    let mut switch = builder.switch(SwitchConfig { cpu_port: Some(CPU), ..SwitchConfig::default() });
    for n in 0..70 {
        switch.receive(ms(n), 0, packet([1, 1, 1, 1], 0));
        assert_eq!(switch.packet_account().imbalance(), 0);
    }
    // 63 packets with 1,024 messages each leave room for a part of the messages of the 64th.
    let account = switch.packet_account();
    assert_eq!((account.held, account.dropped["notifications_full"]), (63, 7));
    let mut next = Switch::new(switch.program().clone(), SwitchConfig::default());
    next.take_over(&switch);
    let account = next.packet_account();
    assert_eq!((account.imbalance(), account.held, account.dropped["program_replaced"]), (0, 0, 63));
}

#[test]
fn the_first_copy_of_a_group_replaces_the_packet() {
    let mut switch = Switch::new(program(), SwitchConfig::default());
    switch.create_multicast_group(1).unwrap();
    let copies: Vec<Replica> = (1..4).map(|port| Replica { port, instance: 0 }).collect();
    switch.set_multicast_group(1, &copies).unwrap();
    let mut bytes = packet([10, 0, 0, 1], 0);
    (bytes[15], bytes[19]) = (1, 1);
    switch.receive(ms(0), 0, bytes);
    assert_eq!(ports(&mut switch, ms(0)), [1, 2, 3]);
    let account = switch.packet_account();
    assert_eq!((account.received, account.originated["multicast"], account.sent), (1, 2, 3));
}
