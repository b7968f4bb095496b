//! One host as the engine sees it: its kernel, the flows that it sends and its captures.

use crate::cable::Cable;
use crate::debug::DebugState;
use crate::fabric::Fabric;
use crate::message::Message;
use crate::metrics::{Sampler, link_row};
use crate::output::Output;
use belljar_base::activity::Phase;
use belljar_base::{EventClass, EventKey, Footprint, HostId, Map, Seed, SimDuration, SimTime};
use belljar_engine::Outgoing;
use belljar_kernel::{Departure, Host, ProcessReport};
use belljar_net::{DropReason, Flow, FlowStreams, Packet, Path};
use belljar_plan::{HostChange, LinkChange, PathState};
use belljar_results::ResultsError;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// A simulated host with everything around its kernel.
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct HostNode {
    id: HostId,
    fabric: Arc<Fabric>,
    /// Number of the network's changes that have come to pass.
    network_changes: usize,
    sequence: u64,
    loss_free_until: SimTime,
    /// This host's own changes that are to come, the next one last.
    changes: Vec<(SimTime, HostChange)>,
    pub(crate) reports: Vec<ProcessReport>,
    departures: Vec<Departure>,
    /// When how many frames are to arrive that a partition keeps away: lost then, not when they are handed over.
    kept_away: Map<SimTime, u64>,
    pub(crate) sampler: Sampler,
    pub(crate) debug: DebugState,
    pub(crate) kernel: Host,
    seed: Seed,
    ways: Map<HostId, OutboundPath>,
    last_change: SimTime,
    pub(crate) path_drops: Map<DropReason, u64>,
    output: Output,
    /// By link.
    cables: Vec<Cable>,
}

/// The way to another host.
struct OutboundPath {
    flow: Option<Flow>,
    streams: FlowStreams,
    state: PathState,
    /// Number of the network's changes that the state has in it.
    seen: usize,
    blocked: Option<DropReason>,
}

impl HostNode {
    /// The host `id` of the experiment.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        id: HostId,
        seed: Seed,
        kernel: Host,
        fabric: Arc<Fabric>,
        mut changes: Vec<(SimTime, HostChange)>,
        loss_free_until: SimTime,
        cables: Vec<Cable>,
        output: Output,
        debug: DebugState,
    ) -> HostNode {
        changes.reverse();
        HostNode {
            id,
            seed,
            kernel,
            fabric,
            ways: Map::new(),
            network_changes: 0,
            changes,
            last_change: SimTime::ZERO,
            sequence: 0,
            loss_free_until,
            path_drops: Map::new(),
            kept_away: Map::new(),
            reports: Vec::new(),
            sampler: Sampler::default(),
            output,
            departures: Vec::new(),
            debug,
            cables,
        }
    }

    /// The host's id.
    pub fn id(&self) -> HostId {
        self.id
    }

    /// Puts what has left the host on the paths to where it goes.
    fn forward(&mut self, out: &mut Vec<Outgoing<Message>>) {
        self.kernel.doing(Phase::Network);
        let mut departures = std::mem::take(&mut self.departures);
        self.kernel.take_departures(&mut departures);
        for departure in departures.drain(..) {
            let loss_free = departure.at < self.loss_free_until;
            while let Some((at, _)) = self.fabric.changes().get(self.network_changes)
                && *at <= departure.at
            {
                self.network_changes += 1;
            }
            if let Some(link) = departure.link {
                self.send_by_link(link, departure, loss_free, out);
                continue;
            }
            let to = departure.to.and_then(|address| match address {
                IpAddr::V4(v4) => self.fabric.host(v4),
                IpAddr::V6(v6) => self.fabric.host6(v6),
            });
            let Some(to) = to else {
                self.drop_packet(DropReason::NoRoute);
                continue;
            };
            let arrival = match self.way_without_state(to) {
                Some(path) => Ok(Some(departure.at + path.latency)),
                None => self.way(to).map(|(flow, streams)| {
                    if loss_free {
                        Some(flow.carry_without_loss(departure.at, &mut streams.jitter))
                    } else {
                        flow.carry(departure.at, streams)
                    }
                }),
            };
            let arrival = match arrival {
                Err(reason) => {
                    self.drop_packet(reason);
                    continue;
                }
                Ok(time) => time,
            };
            let Some(time) = arrival else {
                self.drop_packet(DropReason::PathLoss);
                continue;
            };
            self.sequence += 1;
            let key = EventKey { time, class: EventClass::Arrival, source: self.id, sequence: self.sequence };
            out.push(Outgoing { to, key, message: Message { port: None, packet: departure.packet } });
        }
        self.departures = departures;
    }

    /// Puts a frame on a link.
    fn send_by_link(
        &mut self,
        link: usize,
        departure: Departure,
        loss_free: bool,
        out: &mut Vec<Outgoing<Message>>,
    ) {
        let cable = &mut self.cables[link];
        let (source, sequence) = (self.id, &mut self.sequence);
        cable.carry(departure.at, loss_free, departure.packet, |to, time, message| {
            *sequence += 1;
            let key = EventKey { time, class: EventClass::Arrival, source, sequence: *sequence };
            out.push(Outgoing { to, key, message });
        });
    }

    /// The path to a host, if nothing about it is drawn or ever changes. Such a path needs no [`OutboundPath`]: with
    /// a thousand peers each, finding theirs in cold memory was a seventh of what a message cost.
    fn way_without_state(&self, to: HostId) -> Option<Path> {
        if !self.fabric.changes().is_empty() {
            return None;
        }
        self.fabric.path(self.id, to, 0).filter(|path| path.jitter == SimDuration::ZERO && path.loss == 0.0)
    }

    /// The way to a host as it is now, made on first use.
    fn way(&mut self, to: HostId) -> Result<(&mut Flow, &mut FlowStreams), DropReason> {
        let (id, fabric) = (self.id, &self.fabric);
        let mut fresh = false;
        let way = self.ways.entry(to).or_insert_with(|| {
            fresh = true;
            let streams = FlowStreams::new(self.seed, fabric.name(id), fabric.name(to));
            OutboundPath { flow: None, streams, state: PathState::default(), seen: 0, blocked: None }
        });
        let mut changed = fresh;
        for (_, change) in &fabric.changes()[way.seen..self.network_changes] {
            changed |= way.state.apply(id, to, change);
        }
        way.seen = self.network_changes;
        if changed {
            let found = way.state.path(fabric.path(id, to, way.state.graph));
            way.blocked = found.err();
            match (found, &mut way.flow) {
                (Ok(path), Some(flow)) => flow.set_path(path),
                (Ok(path), flow) => *flow = Some(Flow::new(path)),
                (Err(_), _) => {}
            }
        }
        match (&mut way.flow, way.blocked) {
            (_, Some(reason)) => Err(reason),
            (Some(flow), None) => Ok((flow, &mut way.streams)),
            (None, None) => Err(DropReason::NoRoute),
        }
    }

    /// Lets a change of this host happen.
    fn change(&mut self, at: SimTime, change: HostChange) {
        self.last_change = at;
        self.kernel.advance(at);
        match change {
            HostChange::Crash { lose_files } => self.kernel.crash(lose_files),
            HostChange::Restart => self.kernel.restart(),
            HostChange::NameServer { down } => self.kernel.set_resolver_down(down),
            HostChange::Start(process) => self.kernel.start_again(process),
            HostChange::StartModel(model) => self.kernel.start_model_again(model),
            HostChange::StopModel(model) => self.kernel.stop_model(model),
            HostChange::Signal(process, signal) => self.kernel.signal_program(process, signal),
            HostChange::Step(ns) => self.kernel.step_clock(ns),
            HostChange::Drift(ppb) => self.kernel.set_clock_drift(ppb),
            HostChange::Bandwidth { up, down } => self.kernel.set_bandwidths(up, down),
            HostChange::Link(LinkChange::Carrier(link, on)) => self.kernel.set_carrier(link, on),
            HostChange::Link(LinkChange::Nic(link, change)) => self.kernel.change_nic(link, &change),
            HostChange::Link(LinkChange::Routes(routes)) => self.kernel.set_routes(routes),
            HostChange::Link(LinkChange::Routes6(routes)) => self.kernel.set_routes6(routes),
            HostChange::Link(LinkChange::Blocked(_)) => {}
        }
    }

    /// Runs the kernel up to `limit`, and stops on the way where it is to be sampled.
    fn advance(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        while let Some(at) = self.sampler.due(limit, self.next_arrival_or_timer()) {
            self.run_kernel(at);
            self.forward(out);
            self.lose_kept_away(at);
            let lost = self.lost();
            self.sampler.sample(at, &self.kernel, &lost);
            let rows: Vec<String> = self.link_rows().collect();
            self.sampler.sample_links(at, rows.into_iter());
        }
        self.run_kernel(limit);
        self.forward(out);
        self.lose_kept_away(limit);
    }

    /// The next that happens here without a change.
    fn next_arrival_or_timer(&self) -> Option<SimTime> {
        let kept_away = self.kept_away.first_key_value().map(|(at, _)| *at);
        [self.kernel.next_event(), kept_away].into_iter().flatten().min()
    }

    /// Counts the frames that a partition has kept away before `limit`.
    fn lose_kept_away(&mut self, limit: SimTime) {
        while let Some(first) = self.kept_away.first_entry().filter(|first| *first.key() < limit) {
            *self.path_drops.entry(DropReason::Partition).or_default() += first.remove();
        }
    }

    fn drop_packet(&mut self, reason: DropReason) {
        *self.path_drops.entry(reason).or_default() += 1;
    }

    fn collect(&mut self) {
        self.kernel.doing(Phase::Writing);
        self.reports.extend(self.kernel.take_reports());
        if !self.kernel.has_logged() {
            return;
        }
        self.collect_logs(false);
    }

    /// Takes over what has been captured, and what is worth being written of the logs, or `all` of them.
    fn collect_logs(&mut self, all: bool) {
        let host = PathBuf::from("hosts").join(self.kernel.name());
        let output = &mut self.output;
        self.kernel.drain_captured(|run| output.capture_run(&host, run));
        self.kernel.drain_strace(all, |name, text| output.log(&host, name, text));
    }

    /// The first error that writing results has met.
    pub fn output_error(&mut self) -> Option<ResultsError> {
        self.output.error.take()
    }
    /// Writes out what is buffered.
    pub fn finish_output(&mut self) {
        self.kernel.finish_models();
        self.kernel.finish_processes();
        self.collect();
        self.collect_logs(true);
        let path = self.output.folder.host(self.kernel.name());
        let described = self.kernel.finish_files();
        self.output.note(described.map_err(|errno| ResultsError::Write {
            path,
            error: std::io::Error::from_raw_os_error(errno.0.into()),
        }));
        self.output.finish();
    }
}

impl HostNode {
    pub fn deliver(&mut self, key: EventKey, message: Message) {
        if message.port.is_some() && self.fabric.splits() && self.is_kept_away(&message.packet, key.time) {
            *self.kept_away.entry(key.time).or_default() += 1;
            return;
        }
        self.kernel.deliver(key, message.port, message.packet);
    }

    /// True if a frame comes from a host that a partition holds apart from this one.
    fn is_kept_away(&self, frame: &Packet, at: SimTime) -> bool {
        let from = origin(frame.bytes()).and_then(|address| self.fabric.owner(address));
        from.is_some_and(|from| from != self.id && self.fabric.apart(from, self.id, at))
    }

    pub fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        self.kernel.doing(Phase::Kernel);
        while let Some((at, change)) = self.changes.pop_if(|(at, _)| *at < limit) {
            // What has left before a crash is on its way.
            self.advance(at, out);
            self.change(at, change);
        }
        self.advance(limit, out);
        self.collect();
    }
    pub fn next_event(&self) -> Option<SimTime> {
        let change = self.changes.last().map(|(at, _)| *at);
        [self.next_arrival_or_timer(), change].into_iter().flatten().min()
    }
    pub fn finished_at(&self) -> Option<SimTime> {
        let revives = |change: &HostChange| {
            matches!(change, HostChange::Restart | HostChange::Start(_) | HostChange::StartModel(_))
        };
        if self.changes.iter().any(|(_, change)| revives(change)) {
            return None;
        }
        self.kernel.finished_at().map(|at| at.max(self.last_change))
    }
    /// Tells which memory is read when it runs next.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.network_changes);
        footprint.object(&self.loss_free_until);
        footprint.object(&self.changes);
        self.sampler.footprint(footprint);
        self.debug.footprint(footprint);
        footprint.object(&self.departures);
        footprint.object(&self.reports);
        footprint.object(&self.kept_away);
        self.kernel.footprint(footprint);
        footprint.start(self.departures.as_ptr(), 2);
    }
    /// The cable at the end of a link.
    pub fn cable(&self, link: usize) -> &Cable {
        &self.cables[link]
    }
    /// A row of samples for each link of this host: what it has carried from here.
    pub fn link_rows(&self) -> impl Iterator<Item = String> + '_ {
        let row = |(port, cable)| {
            link_row(&self.kernel.link_counters(port), cable, self.kernel.stack().link_queue_len(port))
        };
        self.cables.iter().enumerate().map(row)
    }
    /// Packets lost on the way from this host, over the graph and its links, by reason.
    pub fn lost(&self) -> Map<DropReason, u64> {
        let mut lost = self.path_drops.clone();
        for (reason, count) in self.cables.iter().flat_map(|cable| &cable.drops) {
            *lost.entry(*reason).or_default() += count;
        }
        lost
    }
    pub fn attend(&mut self) {
        self.serve_between_windows();
    }
}

/// The original sender of a frame with IP or ARP.
fn origin(frame: &[u8]) -> Option<IpAddr> {
    let at = match frame.get(12..14)? {
        [0x86, 0xdd] => {
            let octets: [u8; 16] = frame.get(22..38)?.try_into().ok()?;
            return Some(octets.into());
        }
        [0x08, 0x00] => 14 + 12,
        [0x08, 0x06] => 14 + 14,
        _ => return None,
    };
    let octets: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
    Some(octets.into())
}
