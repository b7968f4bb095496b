//! Spanning tree protocol (IEEE 802.1D-1998) of bridges, with the events and names of Linux's implementation.
//!
//! The functions change a [`Bridge`] and leave BPDUs to be sent and changed ports in its outputs. States of ports follow
//! from the election also without STP: all ports that are up forward.

use super::bridge::{Bridge, BridgeId, BridgeOutput, Port, PortState, Timing, centiseconds};
use belljar_base::{SimDuration, SimTime};

/// `MESSAGE_AGE_INCR`: age that a bridge adds to information, in 1/256 s.
const MESSAGE_AGE_INCR: u64 = 1;
/// `BR_HOLD_TIME`: least interval of BPDUs on a port.
const HOLD_TIME: SimDuration = SimDuration::from_secs(1);
/// Types of BPDUs.
const CONFIG: u8 = 0;
const TOPOLOGY_CHANGE_NOTIFICATION: u8 = 0x80;

/// Contents of a configuration BPDU. Times are in 1/256 s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConfigBpdu {
    topology_change: bool,
    topology_change_ack: bool,
    root: BridgeId,
    root_path_cost: u32,
    bridge: BridgeId,
    port: u16,
    message_age: u64,
    max_age: u64,
    hello_time: u64,
    forward_delay: u64,
}

/// Number of 1/256 s in hundredths of a second.
fn ticks(centiseconds: u32) -> u64 {
    u64::from(centiseconds) * 256 / 100
}

/// Hundredths of a second in a number of 1/256 s.
fn of_ticks(ticks: u64) -> u32 {
    (ticks * 100).div_ceil(256) as u32
}

fn duration(ticks: u64) -> SimDuration {
    SimDuration::from_nanos(ticks * 1_000_000_000 / 256)
}

impl ConfigBpdu {
    fn parse(bytes: &[u8]) -> Option<ConfigBpdu> {
        let bytes: &[u8; 31] = bytes.first_chunk()?;
        let two = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let id = |at: usize| BridgeId(*bytes[at..].first_chunk().expect("31 bytes"));
        Some(ConfigBpdu {
            topology_change: bytes[0] & 1 != 0,
            topology_change_ack: bytes[0] & 0x80 != 0,
            root: id(1),
            root_path_cost: u32::from_be_bytes(*bytes[9..].first_chunk().expect("31 bytes")),
            bridge: id(13),
            port: two(21),
            message_age: two(23).into(),
            max_age: two(25).into(),
            hello_time: two(27).into(),
            forward_delay: two(29).into(),
        })
    }
    fn emit(&self) -> Vec<u8> {
        let mut bytes = vec![0, 0, 0, CONFIG];
        bytes.push(u8::from(self.topology_change) | if self.topology_change_ack { 0x80 } else { 0 });
        bytes.extend(self.root.0);
        bytes.extend(self.root_path_cost.to_be_bytes());
        bytes.extend(self.bridge.0);
        bytes.extend(self.port.to_be_bytes());
        for time in [self.message_age, self.max_age, self.hello_time, self.forward_delay] {
            bytes.extend((time.min(u16::MAX.into()) as u16).to_be_bytes());
        }
        bytes
    }
}

impl Bridge {
    /// True if this bridge is the root.
    pub fn is_root(&self) -> bool {
        self.id == self.designated_root
    }
    /// True if this bridge is the designated one of a port's segment.
    fn is_designated(&self, port: &Port) -> bool {
        port.designated_bridge == self.id && port.designated_port == port.id()
    }
    fn root_port_at(&self) -> Option<usize> {
        self.ports.iter().position(|port| self.root_port != 0 && port.number == self.root_port)
    }
    fn changed(&mut self, at: usize) {
        self.outputs.push(BridgeOutput::Port(self.ports[at].interface));
    }
    /// Number of ports that forward.
    pub fn forwarding_ports(&self) -> usize {
        self.ports.iter().filter(|port| port.state == PortState::Forwarding).count()
    }

    /// Starts the bridge, whose interface is up. `running` is true for the interfaces of ports that are up
    /// (`br_stp_enable_bridge`).
    pub fn start(&mut self, now: SimTime, running: impl Fn(usize) -> bool) {
        self.up = true;
        if self.stp {
            self.hello_timer = Some(now + centiseconds(self.timing.hello_time.into()));
        }
        self.generate_config(now);
        for interface in self.ports.iter().map(|port| port.interface).collect::<Vec<_>>() {
            if running(interface) {
                self.enable_port(interface, now);
            }
        }
    }
    /// Stops the bridge, whose interface is down (`br_stp_disable_bridge`).
    pub fn stop(&mut self, now: SimTime) {
        for interface in self.ports.iter().map(|port| port.interface).collect::<Vec<_>>() {
            if self.port(interface).is_some_and(|port| port.state != PortState::Disabled) {
                self.disable_port(interface, now);
            }
        }
        self.up = false;
        self.set_topology_change(false);
        self.topology_change_detected = false;
        (self.hello_timer, self.tcn_timer, self.topology_change_timer) = (None, None, None);
    }
    /// Enables a port, whose interface is up (`br_stp_enable_port`).
    pub fn enable_port(&mut self, interface: usize, now: SimTime) {
        let Some(at) = self.ports.iter().position(|port| port.interface == interface) else { return };
        self.become_designated(at);
        let port = &mut self.ports[at];
        port.state = PortState::Blocking;
        (port.topology_change_ack, port.config_pending) = (false, false);
        self.select_states(now);
        self.changed(at);
    }
    /// Disables a port (`br_stp_disable_port`).
    pub fn disable_port(&mut self, interface: usize, now: SimTime) {
        let Some(at) = self.ports.iter().position(|port| port.interface == interface) else { return };
        let was_root = self.is_root();
        self.become_designated(at);
        let port = &mut self.ports[at];
        port.state = PortState::Disabled;
        (port.topology_change_ack, port.config_pending) = (false, false);
        (port.message_age_timer, port.forward_delay_timer, port.hold_timer) = (None, None, None);
        self.changed(at);
        self.forget_port(interface, false);
        self.update_configuration(now);
        self.select_states(now);
        if self.is_root() && !was_root {
            self.become_root(now);
        }
    }
    /// Turns STP on or off (`br_stp_set_enabled`).
    pub fn set_stp(&mut self, on: bool, now: SimTime) {
        if on && !self.stp {
            self.stp = true;
            if self.up {
                self.hello_timer = Some(now + centiseconds(self.timing.hello_time.into()));
            }
            self.select_states(now);
        }
        self.stp = on;
    }

    fn become_designated(&mut self, at: usize) {
        let (root, cost, id) = (self.designated_root, self.root_path_cost, self.id);
        let port = &mut self.ports[at];
        (port.designated_root, port.designated_cost, port.designated_bridge) = (root, cost, id);
        port.designated_port = port.id();
    }
    fn should_become_root_port(&self, port: &Port, than: Option<&Port>) -> bool {
        if port.state == PortState::Disabled || self.is_designated(port) || self.id <= port.designated_root {
            return false;
        }
        let rank = |port: &Port| {
            (
                port.designated_root,
                port.designated_cost.saturating_add(port.cost),
                port.designated_bridge,
                port.designated_port,
                port.id(),
            )
        };
        than.is_none_or(|than| rank(port) < rank(than))
    }
    fn select_root(&mut self, now: SimTime) {
        let mut best: Option<usize> = None;
        for at in 0..self.ports.len() {
            if !self.should_become_root_port(&self.ports[at], best.map(|best| &self.ports[best])) {
                continue;
            }
            if self.ports[at].flags.root_block {
                let until = now.saturating_add(centiseconds(self.timing.forward_delay.into()));
                self.ports[at].state = PortState::Listening;
                self.changed(at);
                if self.timing.forward_delay > 0 {
                    self.ports[at].forward_delay_timer = Some(until);
                }
            } else {
                best = Some(at);
            }
        }
        match best.map(|best| &self.ports[best]) {
            None => (self.root_port, self.designated_root, self.root_path_cost) = (0, self.id, 0),
            Some(port) => {
                (self.root_port, self.designated_root) = (port.number, port.designated_root);
                self.root_path_cost = port.designated_cost.saturating_add(port.cost);
            }
        }
    }
    fn should_become_designated(&self, port: &Port) -> bool {
        self.is_designated(port)
            || port.designated_root != self.designated_root
            || (self.root_path_cost, self.id, port.id())
                < (port.designated_cost, port.designated_bridge, port.designated_port)
    }
    /// Elects the root, the root port and the designated ports again (`br_configuration_update`).
    pub fn update_configuration(&mut self, now: SimTime) {
        self.select_root(now);
        for at in 0..self.ports.len() {
            if self.ports[at].state != PortState::Disabled && self.should_become_designated(&self.ports[at]) {
                self.become_designated(at);
            }
        }
    }
    fn become_root(&mut self, now: SimTime) {
        self.timing = self.own_timing;
        self.detect_topology_change(now);
        self.tcn_timer = None;
        if self.up {
            self.generate_config(now);
            self.hello_timer = Some(now + centiseconds(self.timing.hello_time.into()));
        }
    }
    fn generate_config(&mut self, now: SimTime) {
        for at in 0..self.ports.len() {
            if self.ports[at].state != PortState::Disabled && self.is_designated(&self.ports[at]) {
                self.transmit_config(at, now);
            }
        }
    }
    fn transmit_config(&mut self, at: usize, now: SimTime) {
        if self.ports[at].hold_timer.is_some() {
            self.ports[at].config_pending = true;
            return;
        }
        let age = match self.root_port_at() {
            Some(root) if !self.is_root() => {
                let age = now.since(self.ports[root].designated_age);
                age.as_nanos() * 256 / 1_000_000_000 + MESSAGE_AGE_INCR
            }
            _ => 0,
        };
        let bpdu = ConfigBpdu {
            topology_change: self.topology_change,
            topology_change_ack: self.ports[at].topology_change_ack,
            root: self.designated_root,
            root_path_cost: self.root_path_cost,
            bridge: self.id,
            port: self.ports[at].id(),
            message_age: age,
            max_age: ticks(self.timing.max_age),
            hello_time: ticks(self.timing.hello_time),
            forward_delay: ticks(self.timing.forward_delay),
        };
        if bpdu.message_age < bpdu.max_age {
            let stp = self.stp;
            if stp {
                self.outputs.push(BridgeOutput::Bpdu(self.ports[at].interface, bpdu.emit()));
            }
            let port = &mut self.ports[at];
            (port.topology_change_ack, port.config_pending) = (false, false);
            if stp {
                port.hold_timer = Some(now + HOLD_TIME);
            }
        }
    }
    fn transmit_tcn(&mut self) {
        if let Some(at) = self.root_port_at().filter(|_| self.stp) {
            let bytes = vec![0, 0, 0, TOPOLOGY_CHANGE_NOTIFICATION];
            self.outputs.push(BridgeOutput::Bpdu(self.ports[at].interface, bytes));
        }
    }
    fn set_topology_change(&mut self, on: bool) {
        if self.stp && self.topology_change != on {
            self.ageing_time =
                if on { self.timing.forward_delay.saturating_mul(2) } else { self.own_ageing_time };
        }
        self.topology_change = on;
        if on {
            // Entries age faster.
            let hold = self.hold_time();
            let soonest = self.fdb.values().filter(|entry| !entry.is_static && !entry.external);
            self.gc_timer = soonest.map(|entry| entry.updated.saturating_add(hold)).min();
        }
    }
    fn detect_topology_change(&mut self, now: SimTime) {
        if !self.stp {
            return;
        }
        let Timing { max_age, hello_time, forward_delay } = self.own_timing;
        if self.is_root() {
            self.set_topology_change(true);
            let after = u64::from(forward_delay) + u64::from(max_age);
            self.topology_change_timer = Some(now.saturating_add(centiseconds(after)));
        } else if !self.topology_change_detected {
            self.transmit_tcn();
            self.tcn_timer = Some(now.saturating_add(centiseconds(hello_time.into())));
        }
        self.topology_change_detected = true;
    }
    fn make_forwarding(&mut self, at: usize, now: SimTime) {
        if self.ports[at].state != PortState::Blocking {
            return;
        }
        if !self.stp || self.timing.forward_delay == 0 {
            self.ports[at].state = PortState::Forwarding;
            self.detect_topology_change(now);
            self.ports[at].forward_delay_timer = None;
        } else {
            self.ports[at].state = PortState::Listening;
        }
        self.changed(at);
        if self.timing.forward_delay != 0 {
            let until = now.saturating_add(centiseconds(self.timing.forward_delay.into()));
            self.ports[at].forward_delay_timer = Some(until);
        }
    }
    fn make_blocking(&mut self, at: usize, now: SimTime) {
        let state = self.ports[at].state;
        if state == PortState::Disabled || state == PortState::Blocking {
            return;
        }
        if state == PortState::Forwarding || state == PortState::Learning {
            self.detect_topology_change(now);
        }
        self.ports[at].state = PortState::Blocking;
        self.changed(at);
        self.ports[at].forward_delay_timer = None;
    }
    /// Sets the states of the ports by the election (`br_port_state_selection`).
    pub fn select_states(&mut self, now: SimTime) {
        self.selected = true;
        for at in 0..self.ports.len() {
            if self.ports[at].state == PortState::Disabled {
                continue;
            }
            if self.root_port != 0 && self.ports[at].number == self.root_port {
                (self.ports[at].config_pending, self.ports[at].topology_change_ack) = (false, false);
                self.make_forwarding(at, now);
            } else if self.is_designated(&self.ports[at]) {
                self.ports[at].message_age_timer = None;
                self.make_forwarding(at, now);
            } else {
                (self.ports[at].config_pending, self.ports[at].topology_change_ack) = (false, false);
                self.make_blocking(at, now);
            }
        }
    }
}

impl Bridge {
    /// Processes a BPDU, the bytes after the LLC header, that a port has received (`br_stp_rcv`).
    pub fn receive_bpdu(&mut self, interface: usize, bytes: &[u8], now: SimTime) {
        let Some(at) = self.ports.iter().position(|port| port.interface == interface) else { return };
        let [0, 0, 0, kind, rest @ ..] = bytes else { return };
        if !self.stp || !self.up || self.ports[at].state == PortState::Disabled {
            return;
        }
        if self.ports[at].flags.bpdu_guard {
            self.disable_port(interface, now);
            return;
        }
        match *kind {
            CONFIG => {
                if let Some(bpdu) = ConfigBpdu::parse(rest).filter(|bpdu| bpdu.message_age <= bpdu.max_age) {
                    self.receive_config(at, &bpdu, now);
                }
            }
            TOPOLOGY_CHANGE_NOTIFICATION if self.is_designated(&self.ports[at]) => {
                self.detect_topology_change(now);
                self.ports[at].topology_change_ack = true;
                self.transmit_config(at, now);
            }
            _ => {}
        }
    }
    fn supersedes(&self, port: &Port, bpdu: &ConfigBpdu) -> bool {
        let new = (bpdu.root, bpdu.root_path_cost, bpdu.bridge);
        let known = (port.designated_root, port.designated_cost, port.designated_bridge);
        match new.cmp(&known) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Greater => false,
            std::cmp::Ordering::Equal => bpdu.bridge != self.id || bpdu.port <= port.designated_port,
        }
    }
    fn receive_config(&mut self, at: usize, bpdu: &ConfigBpdu, now: SimTime) {
        let was_root = self.is_root();
        if !self.supersedes(&self.ports[at], bpdu) {
            if self.is_designated(&self.ports[at]) {
                self.transmit_config(at, now);
            }
            return;
        }
        let port = &mut self.ports[at];
        (port.designated_root, port.designated_cost) = (bpdu.root, bpdu.root_path_cost);
        (port.designated_bridge, port.designated_port) = (bpdu.bridge, bpdu.port);
        let age = duration(bpdu.message_age).as_picos().min(now.as_picos());
        port.designated_age = SimTime::from_picos(now.as_picos() - age);
        port.message_age_timer = Some(now + duration(bpdu.max_age - bpdu.message_age));
        self.update_configuration(now);
        self.select_states(now);
        if !self.is_root() && was_root {
            self.hello_timer = None;
            if self.topology_change_detected {
                self.topology_change_timer = None;
                self.transmit_tcn();
                self.tcn_timer = Some(now + centiseconds(self.own_timing.hello_time.into()));
            }
        }
        if self.ports[at].number == self.root_port {
            self.timing = Timing {
                max_age: of_ticks(bpdu.max_age),
                hello_time: of_ticks(bpdu.hello_time),
                forward_delay: of_ticks(bpdu.forward_delay),
            };
            self.set_topology_change(bpdu.topology_change);
            self.generate_config(now);
            if bpdu.topology_change_ack {
                self.topology_change_detected = false;
                self.tcn_timer = None;
            }
        }
    }

    /// Processes the timers that are due.
    pub fn on_timeout(&mut self, now: SimTime) {
        let due = |timer: &mut Option<SimTime>| timer.take_if(|at| *at <= now).is_some();
        if due(&mut self.gc_timer) {
            self.age(now);
        }
        if due(&mut self.hello_timer) && self.up {
            self.generate_config(now);
            if self.stp {
                self.hello_timer = Some(now + centiseconds(self.timing.hello_time.max(1).into()));
            }
        }
        if due(&mut self.tcn_timer) && !self.is_root() && self.up {
            self.transmit_tcn();
            self.tcn_timer = Some(now + centiseconds(self.own_timing.hello_time.max(1).into()));
        }
        if due(&mut self.topology_change_timer) {
            self.topology_change_detected = false;
            self.set_topology_change(false);
        }
        for at in 0..self.ports.len() {
            if due(&mut self.ports[at].message_age_timer) && self.ports[at].state != PortState::Disabled {
                let was_root = self.is_root();
                self.become_designated(at);
                self.update_configuration(now);
                self.select_states(now);
                if self.is_root() && !was_root {
                    self.become_root(now);
                }
            }
            if due(&mut self.ports[at].forward_delay_timer) {
                self.forward_delay_expired(at, now);
            }
            if due(&mut self.ports[at].hold_timer) && self.ports[at].config_pending {
                self.transmit_config(at, now);
            }
        }
    }
    fn forward_delay_expired(&mut self, at: usize, now: SimTime) {
        match self.ports[at].state {
            PortState::Listening => {
                self.ports[at].state = PortState::Learning;
                let until = now.saturating_add(centiseconds(self.timing.forward_delay.into()));
                self.ports[at].forward_delay_timer = Some(until);
            }
            PortState::Learning => {
                self.ports[at].state = PortState::Forwarding;
                let mut enabled = self.ports.iter().filter(|port| port.state != PortState::Disabled);
                if enabled.any(|port| port.designated_bridge == self.id) {
                    self.detect_topology_change(now);
                }
            }
            _ => {}
        }
        self.changed(at);
    }

    /// Changes the hardware address of the bridge (`br_stp_change_bridge_id`).
    pub fn set_mac(&mut self, mac: [u8; 6], now: SimTime) {
        self.set_id(BridgeId::new(self.id.priority(), mac), now);
    }
    /// Changes the priority of the bridge (`br_stp_set_bridge_priority`).
    pub fn set_priority(&mut self, priority: u16, now: SimTime) {
        self.set_id(BridgeId::new(priority, self.id.mac()), now);
    }
    fn set_id(&mut self, id: BridgeId, now: SimTime) {
        let (was_root, before) = (self.is_root(), self.id);
        self.id = id;
        for port in &mut self.ports {
            for known in [&mut port.designated_bridge, &mut port.designated_root] {
                if *known == before {
                    *known = id;
                }
            }
        }
        self.update_configuration(now);
        self.select_states(now);
        if self.is_root() && !was_root {
            self.become_root(now);
        }
    }
    /// Changes the priority of a port (`br_stp_set_port_priority`).
    pub fn set_port_priority(&mut self, interface: usize, priority: u8, now: SimTime) {
        let Some(at) = self.ports.iter().position(|port| port.interface == interface) else { return };
        let designated = self.is_designated(&self.ports[at]);
        self.ports[at].priority = priority;
        let id = self.ports[at].id();
        if designated {
            self.ports[at].designated_port = id;
        }
        if self.ports[at].designated_bridge == self.id && id < self.ports[at].designated_port {
            self.become_designated(at);
            self.select_states(now);
        }
    }
    /// Changes the path cost of a port.
    pub fn set_path_cost(&mut self, interface: usize, cost: u32, now: SimTime) {
        if let Some(port) = self.port_mut(interface) {
            port.cost = cost;
            self.update_configuration(now);
            self.select_states(now);
        }
    }
}
