//! A switch whose program can be replaced while it runs.
//!
//! [`SwitchDevice`] owns what a program does not: the ports, the clock, the trace. Packets and times pass through it to the
//! [`Switch`] that runs the present program. Simulated switches and those in real time are of this type, with a control
//! server beside them or without one.

use crate::Program;
use crate::switch::{Leaving, QueueLimits, Switch, SwitchConfig};
use belljar_base::{Map, PacketAccount, Set, SimTime, TokenBucket};
use belljar_p4json::LoadError;
use std::sync::Arc;

/// Transmit settings of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Rate in bits per second; `None` is infinite.
    pub rate: Option<u64>,
    /// Overhead of each packet on the wire in bytes.
    pub overhead: u64,
    /// Limits of each queue.
    pub limits: QueueLimits,
    /// Token bucket that limits the long-term rate, in addition to `rate`.
    pub token_bucket: Option<TokenBucket>,
}

/// Switch whose program can be replaced. Its methods take times of the switch's clock, which must not decrease.
///
/// Ports keep their settings, carriers and counters when the program is replaced.
pub struct SwitchDevice {
    config: SwitchConfig,
    switch: Option<Switch>,
    now: SimTime,
    /// Ports without a carrier.
    down: Set<u16>,
    /// Ports with an interface.
    attached: Set<u16>,
    ports: Map<u16, PortSettings>,
    /// Lowered program, which [`load`](Self::load) uses for its JSON.
    known: Option<Arc<Program>>,
    /// Number of packets received without a program.
    without_program: u64,
    /// Number of packets received at the CPU port without a program.
    packet_out_without_program: u64,
    trace: bool,
}

impl SwitchDevice {
    /// Creates a switch without a program, which drops all packets.
    pub fn new(config: SwitchConfig) -> Self {
        Self {
            config,
            switch: None,
            now: SimTime::ZERO,
            down: Set::new(),
            attached: Set::new(),
            ports: Map::new(),
            known: None,
            without_program: 0,
            packet_out_without_program: 0,
            trace: false,
        }
    }

    /// Enables tracing for this and later programs: [`Switch::take_trace`] returns the trace.
    pub fn trace(&mut self) {
        self.trace = true;
        if let Some(switch) = self.switch() {
            switch.set_trace(true);
        }
    }

    /// Registers a lowered program for its JSON, which [`load`](Self::load) then uses. Switches may share the program.
    pub fn know(&mut self, program: Arc<Program>) {
        self.known = Some(program);
    }

    /// Creates a switch with the program of a JSON text, for [`install`](Self::install).
    pub fn load(&self, json: &str) -> Result<Switch, LoadError> {
        let program = match &self.known {
            Some(program) if program.json() == json => program.clone(),
            _ => Arc::new(Program::from_text(json)?),
        };
        let mut switch = Switch::new(program, self.config.clone());
        switch.set_time(self.now);
        Ok(switch)
    }

    /// Replaces the running program, and its state, by that of a switch.
    pub fn install(&mut self, mut switch: Switch) {
        switch.set_time(self.now);
        for (port, settings) in &self.ports {
            apply(&mut switch, self.now, *port, settings);
            switch.set_port_bucket(self.now, *port, settings.token_bucket);
        }
        switch.set_trace(self.trace);
        if let Some(before) = &self.switch {
            switch.take_over(before);
        }
        for port in &self.down {
            switch.set_carrier(self.now, *port, false);
        }
        self.switch = Some(switch);
    }

    /// Sets the transmit settings of a port for this and later programs. An unchanged token bucket keeps its level.
    pub fn set_port(&mut self, now: SimTime, port: u16, settings: PortSettings) {
        self.attached.insert(port);
        let before = self.ports.insert(port, settings);
        self.set_time(now);
        if let Some(switch) = self.switch() {
            apply(switch, now, port, &settings);
            if before.and_then(|before| before.token_bucket) != settings.token_bucket {
                switch.set_port_bucket(now, port, settings.token_bucket);
            }
        }
    }

    /// Sets the rate of a port for this and later programs; its queues are unchanged.
    pub fn set_rate(&mut self, now: SimTime, port: u16, rate: Option<u64>) {
        if let Some(settings) = self.ports.get_mut(&port) {
            settings.rate = rate;
        }
        self.set_time(now);
        if let Some(switch) = self.switch() {
            switch.set_port_rate(now, port, rate);
        }
    }

    /// Sets or removes the token bucket of a port for this and later programs.
    pub fn set_token_bucket(&mut self, now: SimTime, port: u16, bucket: Option<TokenBucket>) {
        if let Some(settings) = self.ports.get_mut(&port) {
            settings.token_bucket = bucket;
        }
        self.set_time(now);
        if let Some(switch) = self.switch() {
            switch.set_port_bucket(now, port, bucket);
        }
    }

    /// Ports with an interface, and whether each has a carrier.
    pub fn ports(&self) -> Vec<(u16, bool)> {
        self.attached.iter().map(|port| (*port, !self.down.contains(port))).collect()
    }

    /// JSON of the running program.
    pub fn json(&self) -> Option<&str> {
        Some(self.switch.as_ref()?.program().json())
    }

    /// Present time of the switch's clock.
    pub fn now(&self) -> SimTime {
        self.now
    }

    /// CPU port: packets pass it to and from controllers.
    pub fn cpu_port(&self) -> Option<u16> {
        self.config.cpu_port
    }

    /// Number of packets received without a program.
    pub fn without_program(&self) -> u64 {
        self.without_program
    }

    /// Account of all packets, whatever program they met: that of the [`Switch`], and the packets received
    /// without a program, which are dropped as `no_program`.
    pub fn packet_account(&self) -> PacketAccount {
        let mut account = self.look().map(Switch::packet_account).unwrap_or_default();
        account.received += self.without_program - self.packet_out_without_program;
        account.originate("packet_out", self.packet_out_without_program);
        account.drop_for("no_program", self.without_program);
        account
    }

    /// Shared reference to the switch; `None` without a program.
    #[inline]
    pub fn look(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// Switch; `None` without a program.
    #[inline]
    pub fn switch(&mut self) -> Option<&mut Switch> {
        self.switch.as_mut()
    }

    /// Advances the clock. Requests of controllers are executed at the latest time set.
    #[inline]
    pub fn set_time(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        if let Some(switch) = self.switch() {
            switch.set_time(now);
        }
    }

    /// Delivers a received packet.
    #[inline]
    pub fn receive(&mut self, now: SimTime, port: u16, packet: Vec<u8>) {
        self.now = self.now.max(now);
        match self.switch() {
            Some(switch) => switch.receive(now, port, packet),
            None => {
                self.without_program += 1;
                self.packet_out_without_program += u64::from(Some(port) == self.config.cpu_port);
            }
        }
    }

    /// Next packet whose transmission has begun by `now`.
    #[inline]
    pub fn poll(&mut self, now: SimTime) -> Option<Leaving> {
        self.now = self.now.max(now);
        self.switch()?.poll(now)
    }

    /// Time of the switch's next internal event.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.switch.as_ref()?.next_event()
    }

    /// Sets the carrier of a port.
    pub fn set_carrier(&mut self, now: SimTime, port: u16, carrier: bool) {
        self.attached.insert(port);
        if carrier {
            self.down.remove(&port);
        } else {
            self.down.insert(port);
        }
        if let Some(switch) = self.switch() {
            switch.set_carrier(now, port, carrier);
        }
    }
}

fn apply(switch: &mut Switch, now: SimTime, port: u16, settings: &PortSettings) {
    switch.set_port_rate(now, port, settings.rate);
    switch.set_port_overhead(port, settings.overhead);
    switch.set_port_limits(port, settings.limits);
}
