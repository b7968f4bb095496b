//! One host as the engine sees it: its kernel, the flows that it sends and its captures.

use crate::fabric::Fabric;
use belljar_base::{EventClass, EventKey, HostId, Map, Seed, SimTime, Stream};
use belljar_engine::{Node, Outgoing};
use belljar_kernel::{Host, Report};
use belljar_net::{DropReason, Flow, Packet};
use belljar_results::{CaptureWriter, ResultsError, ResultsFolder};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A simulated host with everything around its kernel.
pub struct HostNode {
    id: HostId,
    seed: Seed,
    pub(crate) kernel: Host,
    fabric: Arc<Fabric>,
    flows: Map<HostId, (Flow, Stream)>,
    sequence: u64,
    loss_free_until: SimTime,
    pub(crate) path_drops: Map<DropReason, u64>,
    pub(crate) reports: Vec<Report>,
    output: HostOutput,
    finished_at: Option<SimTime>,
}

/// Where a host's captures and system-call logs go.
pub struct HostOutput {
    /// The folder of the whole run.
    pub folder: ResultsFolder,
    /// What the clock shows at the start.
    pub epoch_secs: u64,
    /// Bytes kept of each captured packet.
    pub capture_len: usize,
    /// By interface.
    pub captures: Map<&'static str, CaptureWriter>,
    /// The first error met; the run stops for it.
    pub error: Option<ResultsError>,
    /// Set when any host of the run has met one.
    pub failed: Arc<AtomicBool>,
}

impl HostNode {
    /// The host `id` of the experiment.
    pub fn new(
        id: HostId,
        seed: Seed,
        kernel: Host,
        fabric: Arc<Fabric>,
        loss_free_until: SimTime,
        output: HostOutput,
    ) -> HostNode {
        let idle = kernel.is_finished();
        HostNode {
            id,
            seed,
            kernel,
            fabric,
            flows: Map::new(),
            sequence: 0,
            loss_free_until,
            path_drops: Map::new(),
            reports: Vec::new(),
            output,
            finished_at: idle.then_some(SimTime::ZERO),
        }
    }

    /// Puts what has left the host on the paths to where it goes.
    fn forward(&mut self, out: &mut Vec<Outgoing<Packet>>) {
        for departure in self.kernel.take_departures() {
            let loss_free = departure.at < self.loss_free_until;
            let to = destination(departure.packet.bytes()).and_then(|address| self.fabric.host(address));
            let Some((to, flow, stream)) = to.and_then(|to| self.flow(to)) else {
                self.drop_packet(DropReason::NoRoute);
                continue;
            };
            let arrival = if loss_free {
                Some(flow.carry_without_loss(departure.at, stream))
            } else {
                flow.carry(departure.at, stream)
            };
            let Some(time) = arrival else {
                self.drop_packet(DropReason::PathLoss);
                continue;
            };
            self.sequence += 1;
            let key = EventKey { time, class: EventClass::Arrival, source: self.id, sequence: self.sequence };
            out.push(Outgoing { to, key, message: departure.packet });
        }
    }

    /// The flow to a host, made on first use.
    fn flow(&mut self, to: HostId) -> Option<(HostId, &mut Flow, &mut Stream)> {
        if !self.flows.contains_key(&to) {
            let path = self.fabric.path(self.id, to)?;
            let owner = ["flow", &self.id.0.to_string(), &to.0.to_string()];
            self.flows.insert(to, (Flow::new(path), self.seed.stream(&owner)));
        }
        self.flows.get_mut(&to).map(|(flow, stream)| (to, flow, stream))
    }

    fn drop_packet(&mut self, reason: DropReason) {
        *self.path_drops.entry(reason).or_default() += 1;
    }

    fn collect(&mut self) {
        self.reports.extend(self.kernel.take_reports());
        let host = PathBuf::from("hosts").join(self.kernel.name());
        for captured in self.kernel.take_captured() {
            self.output.capture(&host, captured.interface, captured.at, &captured.bytes);
        }
        for (name, text) in self.kernel.take_strace() {
            self.output.log(&host.join(format!("{name}.strace")), &text);
        }
        if self.finished_at.is_none() && self.kernel.is_finished() {
            self.finished_at = Some(self.kernel.now());
        }
    }

    /// The first error that writing results has met.
    pub fn output_error(&mut self) -> Option<ResultsError> {
        self.output.error.take()
    }
    /// Writes out what is buffered.
    pub fn finish_output(&mut self) {
        self.collect();
        for (interface, capture) in std::mem::take(&mut self.output.captures) {
            let path = self.output.folder.host(self.kernel.name()).join(format!("{interface}.pcap"));
            self.output.note(capture.finish().map_err(|error| ResultsError::Write { path, error }));
        }
    }
}

impl HostOutput {
    fn capture(&mut self, host: &std::path::Path, interface: &'static str, at: SimTime, packet: &[u8]) {
        let name = host.join(format!("{interface}.pcap"));
        let failed = |error| ResultsError::Write { path: name.clone(), error };
        if !self.captures.contains_key(interface) {
            let opened = self
                .folder
                .create_file(&name)
                .and_then(|file| CaptureWriter::new(file, self.epoch_secs, self.capture_len).map_err(failed));
            match opened {
                Ok(writer) => {
                    self.captures.insert(interface, writer);
                }
                Err(error) => return self.note(Err(error)),
            }
        }
        if let Some(writer) = self.captures.get_mut(interface) {
            let written = writer.write(at, packet).map_err(failed);
            self.note(written);
        }
    }
    fn log(&mut self, name: &std::path::Path, text: &str) {
        let written = self.folder.append(name, text.as_bytes());
        self.note(written);
    }
    fn note(&mut self, written: Result<(), ResultsError>) {
        if let Err(error) = written {
            self.error.get_or_insert(error);
            self.failed.store(true, Relaxed);
        }
    }
}

impl Node for HostNode {
    type Message = Packet;

    fn deliver(&mut self, key: EventKey, packet: Packet) {
        self.kernel.deliver(key, packet);
    }
    fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Packet>>) {
        self.kernel.run_until(limit);
        self.forward(out);
        self.collect();
    }
    fn next_event(&self) -> Option<SimTime> {
        self.kernel.next_event()
    }
    fn finished_at(&self) -> Option<SimTime> {
        self.finished_at
    }
}

/// The destination address of an IPv4 packet.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet[0] >> 4 == 4).then(|| Ipv4Addr::from(octets))
}
