use super::bridge::{Bridge, BridgeOutput, PortState};
use belljar_base::{SimDuration, SimTime};

/// A network of bridges, which exchange BPDUs without delay.
struct Network {
    bridges: Vec<Bridge>,
    /// Links between (bridge, interface) pairs.
    links: Vec<[(usize, usize); 2]>,
    now: SimTime,
}

impl Network {
    fn new(count: u8, links: &[[(usize, usize); 2]]) -> Network {
        let now = SimTime::from_secs(1);
        let mut bridges: Vec<Bridge> = (0..count).map(|n| Bridge::new(100, [2, 0, 0, 0, 0, n])).collect();
        for (at, bridge) in bridges.iter_mut().enumerate() {
            bridge.set_stp(true, now);
            for (_, interface) in links.iter().flatten().filter(|(of, _)| *of == at) {
                assert!(bridge.add_port(*interface, [2, 0, 0, 0, 1, *interface as u8], 2, now));
            }
            bridge.start(now, |_| true);
        }
        let mut made = Network { bridges, links: links.to_vec(), now };
        made.exchange();
        made
    }
    fn exchange(&mut self) {
        for _ in 0..1_000 {
            let mut sent = Vec::new();
            for (at, bridge) in self.bridges.iter_mut().enumerate() {
                for output in bridge.outputs.drain(..) {
                    if let BridgeOutput::Bpdu(interface, bytes) = output {
                        sent.push(((at, interface), bytes));
                    }
                }
            }
            if sent.is_empty() {
                return;
            }
            for (from, bytes) in sent {
                let far = self.links.iter().find_map(|[a, b]| match from {
                    end if end == *a => Some(*b),
                    end if end == *b => Some(*a),
                    _ => None,
                });
                if let Some((bridge, interface)) = far {
                    self.bridges[bridge].receive_bpdu(interface, &bytes, self.now);
                }
            }
        }
        panic!("BPDUs without end");
    }
    fn pass(&mut self, seconds: u64) {
        let until = self.now + SimDuration::from_secs(seconds);
        while let Some(at) =
            self.bridges.iter().filter_map(Bridge::next_timeout).min().filter(|at| *at <= until)
        {
            assert!(at >= self.now, "a timer in the past");
            self.now = at;
            self.bridges.iter_mut().for_each(|bridge| bridge.on_timeout(at));
            self.exchange();
        }
        self.now = until;
    }
    fn cut(&mut self, link: usize) {
        for (bridge, interface) in self.links.remove(link) {
            self.bridges[bridge].disable_port(interface, self.now);
        }
        self.exchange();
    }
    fn states(&self) -> Vec<(usize, usize, PortState)> {
        let all = self.bridges.iter().enumerate();
        let mut states: Vec<_> = all
            .flat_map(|(at, bridge)| bridge.ports.iter().map(move |port| (at, port.interface, port.state)))
            .collect();
        states.sort_by_key(|(at, interface, _)| (*at, *interface));
        states
    }
    fn blocked(&self) -> Vec<(usize, usize)> {
        let blocked = self.states().into_iter().filter(|(.., state)| *state == PortState::Blocking);
        blocked.map(|(at, interface, _)| (at, interface)).collect()
    }
}

const TRIANGLE: [[(usize, usize); 2]; 3] = [[(0, 1), (1, 2)], [(1, 3), (2, 4)], [(2, 5), (0, 6)]];

#[test]
fn a_triangle_has_one_blocked_port_and_recovers() {
    let mut network = Network::new(3, &TRIANGLE);
    network.pass(40);
    // The lowest address is the root. Of the link opposite it the end of the higher bridge blocks.
    assert!(network.bridges.iter().all(|bridge| bridge.designated_root == network.bridges[0].id));
    assert_eq!(network.blocked(), [(2, 4)]);
    let forwarding = network.states().iter().filter(|(.., state)| *state == PortState::Forwarding).count();
    assert_eq!(forwarding, 5);
    assert_eq!((network.bridges[2].root_path_cost, network.bridges[0].root_port), (2, 0));
    network.cut(2);
    network.pass(60);
    assert_eq!(network.blocked(), []);
    assert_eq!(network.bridges[2].root_path_cost, 4);
    // The topology change has ended.
    assert!(network.bridges.iter().all(|bridge| !bridge.topology_change && bridge.ageing_time == 30_000));
}

#[test]
fn a_lost_root_is_replaced_after_the_maximum_age() {
    let mut network = Network::new(3, &TRIANGLE);
    network.pass(40);
    let id = network.bridges[1].id;
    network.bridges[0].stop(network.now);
    network.bridges[0].outputs.clear();
    network.pass(10);
    assert!(network.bridges[2].designated_root != id, "the information is still valid");
    network.pass(15);
    assert!(network.bridges[1..].iter().all(|bridge| bridge.designated_root == id));
}

#[test]
fn a_priority_moves_the_root() {
    let mut network = Network::new(3, &TRIANGLE);
    network.pass(40);
    network.bridges[2].set_priority(4_096, network.now);
    network.pass(40);
    assert!(network.bridges.iter().all(|bridge| bridge.designated_root == network.bridges[2].id));
    assert_eq!(network.blocked(), [(1, 2)]);
}

#[test]
fn entries_age_are_moved_and_stay_if_they_are_static() {
    let now = SimTime::from_secs(1);
    let mut bridge = Bridge::new(100, [2; 6]);
    for interface in [1, 2] {
        assert!(bridge.add_port(interface, [2, 0, 0, 0, 1, interface as u8], 2, now));
    }
    bridge.start(now, |_| true);
    let station = [4; 6];
    bridge.learn(1, station, 0, now);
    bridge.learn(2, station, 0, now);
    assert_eq!(bridge.fdb[&(station, 0)].port, Some(2));
    // An address of this host is not learned.
    bridge.learn(2, [2, 0, 0, 0, 1, 1], 0, now);
    assert_eq!(bridge.fdb[&([2, 0, 0, 0, 1, 1], 0)].port, Some(1));
    let entry = bridge.new_entry(Some(1), now);
    bridge.put(([6; 6], 0), super::bridge::FdbEntry { is_static: true, ..entry });
    let before = bridge.fdb.len();
    assert_eq!(bridge.next_timeout(), Some(SimTime::from_secs(16)), "the forward delay comes first");
    bridge.on_timeout(SimTime::from_secs(16));
    assert_eq!(bridge.next_timeout(), Some(SimTime::from_secs(301)));
    bridge.on_timeout(SimTime::from_secs(301));
    assert_eq!(bridge.fdb.len(), before - 1);
    assert_eq!(bridge.next_timeout(), None);
    bridge.forget_port(1, true);
    assert!(bridge.fdb.values().all(|entry| entry.port != Some(1)));
}

#[test]
fn malformed_bpdus_are_ignored() {
    let now = SimTime::from_secs(1);
    let mut bridge = Bridge::new(100, [2; 6]);
    bridge.set_stp(true, now);
    assert!(bridge.add_port(1, [2, 0, 0, 0, 1, 1], 2, now));
    bridge.start(now, |_| true);
    let root = bridge.designated_root;
    for len in 0..40 {
        for byte in [0, 1, 0x80, 0xff] {
            // Zeros of sufficient length are valid.
            if len < 35 || byte != 0 {
                bridge.receive_bpdu(1, &vec![byte; len], now);
            }
            let mut config = vec![0; len];
            config.iter_mut().skip(4).for_each(|each| *each = byte);
            if len < 35 || byte == 0xff {
                bridge.receive_bpdu(1, &config, now);
                assert_eq!(bridge.designated_root, root, "{len} {byte}");
            }
        }
    }
}
