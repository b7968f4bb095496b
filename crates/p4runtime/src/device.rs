//! The v1model switch as a [`Device`].
//!
//! [`SwitchDevice`] has the switch's ports, its clock and the program that runs. Packets and times go through it to the
//! [`Switch`]; what the switch tells its control plane goes to a server by [`Server::tell_notifications`].

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

/// Sending properties of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSettings {
    /// Bits per second, `None` is infinite.
    pub rate: Option<u64>,
    /// Bytes that a packet takes on the wire besides its own.
    pub overhead: u64,
    /// Limits of each of its queues.
    pub limits: QueueLimits,
    /// Token bucket that limits the rate in the long run, besides the bandwidth.
    pub token_bucket: Option<TokenBucket>,
}

/// A switch whose program controllers can change. Its methods take times of the switch's own clock, which do not decrease.
///
/// Ports keep their settings, carriers and counts when the program changes.
pub struct SwitchDevice {
    config: SwitchConfig,
    pipeline: Option<SwitchPipeline>,
    now: SimTime,
    down: Set<u32>,
    /// Ports that have an interface.
    attached: Set<u16>,
    ports: Map<u16, PortSettings>,
    /// A program with its JSON, which need not be read again.
    known: Option<(Arc<str>, Arc<Program>)>,
    /// Packets that came while there was no program.
    without_program: u64,
    trace: bool,
}

impl SwitchDevice {
    // Each packet passes the methods marked `#[inline]`: they are compiled with their callers, which are optimised.

    /// A switch without a program, which drops all packets.
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

    /// Lets the switch write down what it decides, whatever program runs: [`Switch::take_trace`] gives it.
    pub fn trace(&mut self) {
        self.trace = true;
        if let Some(switch) = self.switch() {
            switch.set_trace(true);
        }
    }

    /// Makes a program known by its JSON: [`load`](Device::load) takes it for that. Many switches may share it.
    pub fn know(&mut self, json: Arc<str>, program: Arc<Program>) {
        self.known = Some((json, program));
    }

    /// Sets how a port sends from now on, whatever program runs. A token bucket that it has already keeps its level.
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

    /// Sets the rate of a port from now on, whatever program runs, and leaves its queues as they are.
    pub fn set_rate(&mut self, now: SimTime, port: u16, rate: Option<u64>) {
        if let Some(settings) = self.ports.get_mut(&port) {
            settings.rate = rate;
        }
        self.set_time(now);
        if let Some(switch) = self.switch() {
            switch.set_port_rate(now, port, rate);
        }
    }

    /// Sets the token bucket of a port from now on, whatever program runs, or takes it away.
    pub fn set_token_bucket(&mut self, now: SimTime, port: u16, bucket: Option<TokenBucket>) {
        if let Some(settings) = self.ports.get_mut(&port) {
            settings.token_bucket = bucket;
        }
        self.set_time(now);
        if let Some(switch) = self.switch() {
            switch.set_port_bucket(now, port, bucket);
        }
    }

    /// The ports that have an interface, and whether each has a carrier.
    pub fn ports(&self) -> Vec<(u16, bool)> {
        self.attached.iter().map(|port| (*port, !self.down.contains(&u32::from(*port)))).collect()
    }

    /// The JSON of the program that runs.
    pub fn json(&self) -> Option<&str> {
        self.pipeline.as_ref()?.json.as_deref()
    }

    /// Number of packets that came while there was no program.
    pub fn without_program(&self) -> u64 {
        self.without_program
    }

    /// The switch, if it has a program, to be looked at.
    #[inline]
    pub fn look(&self) -> Option<&Switch> {
        self.pipeline.as_ref().map(|pipeline| &pipeline.switch)
    }

    /// The switch, if it has a program.
    #[inline]
    pub fn switch(&mut self) -> Option<&mut Switch> {
        self.pipeline.as_mut().map(|pipeline| &mut pipeline.switch)
    }

    /// Tells the time; controllers' requests are carried out at the time told last.
    #[inline]
    pub fn set_time(&mut self, now: SimTime) {
        self.now = self.now.max(now);
        if let Some(switch) = self.switch() {
            switch.set_time(now);
        }
    }

    /// Takes a packet that has come in.
    #[inline]
    pub fn receive(&mut self, now: SimTime, port: u16, packet: Vec<u8>) {
        self.now = self.now.max(now);
        match self.switch() {
            Some(switch) => switch.receive(now, port, packet),
            None => self.without_program += 1,
        }
    }

    /// The next packet that has begun to leave up to `now`.
    #[inline]
    pub fn poll(&mut self, now: SimTime) -> Option<Leaving> {
        self.now = self.now.max(now);
        self.switch()?.poll(now)
    }

    /// The time at which the switch does something by itself.
    #[inline]
    pub fn next_event(&self) -> Option<SimTime> {
        self.pipeline.as_ref()?.switch.next_event()
    }

    /// A port loses or finds its carrier.
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

/// Request of a controller that sets this program; the P4Info is text or binary.
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
    /// Tells controllers what the switch has told, at a time in ns since the epoch; gives what the program has logged.
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
