//! The v1model switch as a [`Device`].
//!
//! [`SwitchDevice`] owns the ports, the clock and the running program of a switch. It passes packets and
//! times to the [`Switch`]. [`Server::tell_notifications`] passes the notifications of the switch to
//! controllers.

use crate::grpc::Code;
use crate::pipeline::{Device, Handle};
use crate::proto::ForwardingPipelineConfig;
use crate::switch::SwitchPipeline;
use crate::{Refusal, Server};
use belljar_base::{Map, Set, SimTime, TokenBucket};
use belljar_p4::switch::QueueLimits;
use belljar_p4::{Leaving, Notification, Program, Switch, SwitchConfig};
use belljar_p4info::proto::P4Info;
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

/// Switch whose program can be replaced by controllers. Its methods take times of the switch's clock, which
/// must not decrease.
///
/// Ports keep their settings, carriers and counters when the program is replaced.
pub struct SwitchDevice {
    config: SwitchConfig,
    pipeline: Option<SwitchPipeline>,
    now: SimTime,
    down: Set<u32>,
    /// Ports with an interface.
    attached: Set<u16>,
    ports: Map<u16, PortSettings>,
    /// Lowered program by its JSON, which need not be parsed again.
    known: Option<(Arc<str>, Arc<Program>)>,
    /// Number of packets received without a program.
    without_program: u64,
    trace: bool,
}

impl SwitchDevice {
    // The methods marked `#[inline]` are called for each packet and are optimised together with their
    // callers.

    /// Creates a switch without a program, which drops all packets.
    pub fn new(config: SwitchConfig) -> Self {
        Self {
            config,
            pipeline: None,
            now: SimTime::ZERO,
            down: Set::new(),
            attached: Set::new(),
            ports: Map::new(),
            known: None,
            without_program: 0,
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

    /// Registers a lowered program for its JSON, which [`load`](Device::load) then uses. Switches may share
    /// the program.
    pub fn know(&mut self, json: Arc<str>, program: Arc<Program>) {
        self.known = Some((json, program));
    }

    /// Sets the transmit settings of a port for this and later programs. An unchanged token bucket keeps its
    /// level.
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
        self.attached.iter().map(|port| (*port, !self.down.contains(&u32::from(*port)))).collect()
    }

    /// JSON of the running program.
    pub fn json(&self) -> Option<&str> {
        self.pipeline.as_ref()?.json.as_deref()
    }

    /// Number of packets received without a program.
    pub fn without_program(&self) -> u64 {
        self.without_program
    }

    /// Shared reference to the switch; `None` without a program.
    #[inline]
    pub fn look(&self) -> Option<&Switch> {
        self.pipeline.as_ref().map(|pipeline| &pipeline.switch)
    }

    /// Switch; `None` without a program.
    #[inline]
    pub fn switch(&mut self) -> Option<&mut Switch> {
        self.pipeline.as_mut().map(|pipeline| &mut pipeline.switch)
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
            None => self.without_program += 1,
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
        self.pipeline.as_ref()?.switch.next_event()
    }

    /// Sets the carrier of a port.
    pub fn set_carrier(&mut self, now: SimTime, port: u16, carrier: bool) {
        self.attached.insert(port);
        if carrier {
            self.down.remove(&port.into());
        } else {
            self.down.insert(port.into());
        }
        if let Some(pipeline) = &mut self.pipeline {
            pipeline.set_carrier(now, port, carrier);
        }
    }
}

impl Device for SwitchDevice {
    type Pipeline = SwitchPipeline;

    fn load(&self, config: &[u8]) -> Result<SwitchPipeline, Refusal> {
        let (json, program) = match &self.known {
            Some((json, program)) if json.as_bytes() == config => (json.clone(), program.clone()),
            _ => {
                let text = std::str::from_utf8(config).map_err(|_| {
                    Refusal::invalid("the device configuration is not text: it must be BMv2's JSON")
                })?;
                let program = Program::from_text(text)
                    .map_err(|error| Refusal::invalid(format!("the device configuration: {error}")))?;
                (text.into(), Arc::new(program))
            }
        };
        let mut switch = Switch::new(program, self.config.clone());
        switch.set_time(self.now);
        let mut pipeline = SwitchPipeline::from(switch);
        pipeline.json = Some(json);
        Ok(pipeline)
    }

    fn now(&self) -> SimTime {
        self.now
    }

    fn pipeline(&mut self) -> Option<&mut SwitchPipeline> {
        self.pipeline.as_mut()
    }

    fn install(&mut self, mut pipeline: SwitchPipeline) {
        pipeline.switch.set_time(self.now);
        for (port, settings) in &self.ports {
            apply(&mut pipeline.switch, self.now, *port, settings);
            pipeline.switch.set_port_bucket(self.now, *port, settings.token_bucket);
        }
        pipeline.switch.set_trace(self.trace);
        if let Some(before) = &self.pipeline {
            pipeline.switch.take_over(&before.switch);
        }
        for port in &self.down {
            pipeline.set_carrier(self.now, *port as u16, false);
        }
        self.pipeline = Some(pipeline);
    }

    fn packet_out(&mut self, frame: Vec<u8>) -> Result<(), Refusal> {
        let port = self.config.cpu_port;
        let port =
            port.ok_or_else(|| Refusal::new(Code::FailedPrecondition, "the switch has no CPU port"))?;
        self.receive(self.now, port, frame);
        Ok(())
    }
}

/// Request that installs a program; the P4Info is in text or binary form.
pub fn pipeline_config(json: &str, p4info: &[u8]) -> Result<ForwardingPipelineConfig, String> {
    let p4info = P4Info::from_file_content(p4info)?;
    let p4_device_config = json.as_bytes().to_vec();
    Ok(ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config, cookie: None })
}

fn apply(switch: &mut Switch, now: SimTime, port: u16, settings: &PortSettings) {
    switch.set_port_rate(now, port, settings.rate);
    switch.set_port_overhead(port, settings.overhead);
    switch.set_port_limits(port, settings.limits);
}

impl Server<SwitchDevice> {
    /// Passes the switch's notifications to controllers, stamped with `now` in ns since the epoch. Returns
    /// the log messages of the program.
    pub fn tell_notifications(&mut self, device: &mut SwitchDevice, now: u64) -> Vec<String> {
        let mut logs = Vec::new();
        while let Some(notification) = device.switch().and_then(Switch::notification) {
            match notification {
                Notification::Digest { name, list, samples } => self.digest(&name, list, samples, now),
                Notification::IdleTimeout { table, entries } => {
                    let table = device
                        .switch()
                        .map(|switch| switch.program().table_name(table).to_string())
                        .unwrap_or_default();
                    let handles: Vec<Handle> = entries.into_iter().map(Handle::from).collect();
                    self.idle_timeouts(&table, &handles, device, now);
                }
                Notification::PacketIn(frame) => self.packet_in(&frame),
                Notification::Log(text) => logs.push(text),
            }
        }
        logs
    }
}
