//! Host as a node of the engine: the simulated host, its outgoing paths, its captures.

use crate::accounts::NodeDrops;
use crate::attach::Attached;
use crate::debug::DebugState;
use crate::fabric::Fabric;
use crate::live::Live;
use crate::message::Message;
use crate::metrics::{Sampler, link_row};
use crate::outbound::{OutboundLink, OutboundPath};
use crate::output::Output;
use crate::partition::KeptAway;
use crate::pci::HostDevice;
use crate::shares::Shares;
use crate::simulated_host::{SimulatedHost, meant};
use crate::times;
use belljar_base::activity::Phase;
use belljar_base::{EventClass, EventKey, Footprint, HostId, Map, Seed, SimDuration, SimTime};
use belljar_engine::Outgoing;
use belljar_kernel::{Host, ProcessReport, call_faults, kill, suspension};
use belljar_net::{DropReason, Packet, Path};
use belljar_netstack::Departure;
use belljar_plan::HostChange;
use belljar_results::{ResultsError, names};
use std::io::Write;
use std::net::IpAddr;
use std::path::{self, PathBuf};
use std::sync::Arc;

/// Packets of a host over the graph.
#[derive(Clone, Copy, Default)]
pub(crate) struct GraphTraffic {
    /// Packets that have left the host.
    pub entered: u64,
    /// Packets among these for addresses of no host.
    pub no_route: u64,
    /// Packets among these that reach a host, now or later.
    pub arriving: u64,
    /// Packets of other hosts delivered to this host.
    pub delivered: u64,
}

/// Event of a host that is neither an arrival nor a timer.
pub(crate) enum Due {
    /// Change of the experiment.
    Change(HostChange),
    /// Exchange with the clients of added programs.
    Exchange,
    /// Beginning or end of the programs' time in a period: see [`Shares`].
    Slice,
}

/// Simulated host with its connections to the rest of the simulation.
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct HostNode {
    id: HostId,
    fabric: Arc<Fabric>,
    sequence: u64,
    loss_free_until: SimTime,
    /// Future changes of this host and exchanges with clients, the next one last.
    pub(crate) changes: Vec<(SimTime, Due)>,
    pub(crate) reports: Vec<ProcessReport>,
    departures: Vec<Departure>,
    /// Packets to and from the graph.
    graph: GraphTraffic,
    kept_away: KeptAway,
    pub(crate) sampler: Sampler,
    pub(crate) debug: DebugState,
    pub(crate) host: SimulatedHost,
    seed: Seed,
    /// Paths over the graph that involve random draws or changes.
    paths: Map<HostId, OutboundPath>,
    last_change: SimTime,
    output: Output,
    /// Outgoing directions of links, by link.
    links: Vec<OutboundLink>,
    /// Number of frames delivered to each link's interface.
    delivered: Vec<u64>,
    /// PCI devices that the host drives.
    pub(crate) devices: Vec<HostDevice>,
    /// Live view of the run, if there is one.
    pub(crate) live: Option<Arc<Live>>,
    /// Changes since the host was paused, which it sees when it goes on; `None` if it is not paused.
    paused: Option<Vec<HostChange>>,
    /// Number of connections that events have reset at this host.
    pub(crate) connection_resets: u64,
    /// Programs that users have added.
    pub(crate) attached: Attached,
    /// Number of processes that events have killed.
    pub(crate) kills: u64,
    /// Processes that events have killed and will start again, by event.
    killed: Map<u32, Vec<usize>>,
    /// Number of processes that events have paused.
    pub(crate) paused_processes: u64,
    /// Share of the processor that programs have, while an event limits it.
    pub(crate) shares: Shares,
}

impl HostNode {
    /// Creates the host `id` of the experiment.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        id: HostId,
        seed: Seed,
        mut host: SimulatedHost,
        fabric: Arc<Fabric>,
        changes: Vec<(SimTime, HostChange)>,
        loss_free_until: SimTime,
        links: Vec<OutboundLink>,
        devices: Vec<HostDevice>,
        output: Output,
        debug: DebugState,
        attached: Attached,
    ) -> HostNode {
        let changes = changes.into_iter().rev().map(|(at, change)| (at, Due::Change(change))).collect();
        for (number, device) in devices.iter().enumerate() {
            host.stack_mut().links[device.link].set_adapter(device.adapter(number));
        }
        HostNode {
            id,
            seed,
            host,
            fabric,
            paths: Map::new(),
            changes,
            last_change: SimTime::ZERO,
            sequence: 0,
            loss_free_until,
            delivered: vec![0; links.len()],
            graph: GraphTraffic::default(),
            kept_away: KeptAway::default(),
            reports: Vec::new(),
            sampler: Sampler::default(),
            output,
            departures: Vec::new(),
            debug,
            links,
            devices,
            live: None,
            paused: None,
            connection_resets: 0,
            attached,
            kills: 0,
            killed: Map::new(),
            paused_processes: 0,
            shares: Shares::default(),
        }
    }

    /// Id of the host.
    pub fn id(&self) -> HostId {
        self.id
    }

    /// Sends the packets that have left the host over their paths and links.
    fn forward(&mut self, out: &mut Vec<Outgoing<Message>>) {
        self.host.doing(Phase::Network);
        let mut departures = std::mem::take(&mut self.departures);
        self.host.stack_mut().take_departures(&mut departures);
        for departure in departures.drain(..) {
            if let Some(link) = departure.link {
                if let Some(device) = self.devices.iter_mut().find(|device| device.link == link) {
                    device.transmit(departure.at, departure.packet);
                    continue;
                }
                self.send_by_link(link, departure.at, departure.packet, out);
                continue;
            }
            self.graph.entered += 1;
            let to = departure.to.and_then(|address| match address {
                IpAddr::V4(v4) => self.fabric.host(v4),
                IpAddr::V6(v6) => self.fabric.host6(v6),
            });
            let Some(to) = to else {
                self.graph.no_route += 1;
                continue;
            };
            if let Some(path) = self.path_without_state(to) {
                self.graph.arriving += 1;
                self.sequence += 1;
                let (time, class) = (departure.at + path.latency, EventClass::Arrival);
                let key = EventKey { time, class, source: self.id, sequence: self.sequence };
                out.push(Outgoing { to, key, message: Message { port: None, packet: departure.packet } });
                continue;
            }
            let (id, seed, fabric) = (self.id, self.seed, &*self.fabric);
            let path = self.paths.entry(to).or_insert_with(|| OutboundPath::new(id, to, seed, fabric));
            if let Some(time) = path.carry(fabric, id, departure.at, self.loss_free_until) {
                self.graph.arriving += 1;
                self.sequence += 1;
                let key = EventKey { time, class: EventClass::Arrival, source: id, sequence: self.sequence };
                out.push(Outgoing { to, key, message: Message { port: None, packet: departure.packet } });
            }
        }
        self.departures = departures;
        self.exchange_with_devices(out);
    }

    /// Passes transactions from drivers to devices, and received frames to the kernel.
    fn exchange_with_devices(&mut self, out: &mut Vec<Outgoing<Message>>) {
        for number in 0..self.devices.len() {
            let link = self.devices[number].link;
            while let Some((at, packet)) = self.devices[number].poll_device() {
                self.send_by_link(link, at, packet, out);
            }
            while let Some((key, packet)) = self.devices[number].poll_received(self.id, &mut self.sequence) {
                self.host.stack_mut().deliver(key, Some(link), packet);
            }
            let statistics = self.devices[number].statistics();
            self.host.stack_mut().links[link].set_adapter_statistics(statistics);
        }
    }

    /// Runs the kernel up to `limit`, interleaved with the events of PCI devices. Returns false if the host
    /// is stalled at the limit, because a driver waits for a register read.
    fn advance(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) -> bool {
        if self.devices.is_empty() {
            self.advance_kernel(limit, out);
            return true;
        }
        loop {
            let next = self.next_of_devices().filter(|at| *at < limit);
            if !self.stands_still() {
                self.advance_kernel(next.unwrap_or(limit), out);
            }
            let Some(at) = next else { return !self.stands_still() };
            let stood_still = self.stands_still();
            let device = self.devices.iter_mut().find(|device| device.next_event() == Some(at));
            let Some(device) = device else { return !stood_still };
            let before = device.interrupts();
            device.handle(at);
            if device.interrupts() > before {
                // The processor may be busy, which delays the interrupt.
                device.delay(self.host.stack_mut().clock.interrupt(at));
            }
            if stood_still && !self.stands_still() {
                self.go_on(at);
            }
            self.exchange_with_devices(out);
        }
    }

    fn next_of_devices(&self) -> Option<SimTime> {
        self.devices.iter().filter_map(HostDevice::next_event).min()
    }

    /// True while a driver waits for a register read.
    fn stands_still(&self) -> bool {
        self.devices.iter().any(HostDevice::waits)
    }

    /// Sends a frame over a link.
    fn send_by_link(
        &mut self,
        link: usize,
        departs: SimTime,
        packet: Packet,
        out: &mut Vec<Outgoing<Message>>,
    ) {
        let (source, sequence) = (self.id, &mut self.sequence);
        self.links[link].carry(departs, packet, |to, time, message| {
            *sequence += 1;
            let key = EventKey { time, class: EventClass::Arrival, source, sequence: *sequence };
            out.push(Outgoing { to, key, message });
        });
    }

    /// Path to a host, if it involves no random draws and never changes. Such a path needs no
    /// [`OutboundPath`]: with a thousand peers per host, looking up the path in cold memory took a seventh
    /// of the cost of a message.
    fn path_without_state(&self, to: HostId) -> Option<Path> {
        if !self.fabric.changes().is_empty() {
            return None;
        }
        self.fabric.path(self.id, to, 0).filter(|path| path.jitter == SimDuration::ZERO && path.loss == 0.0)
    }

    /// Applies a change to this host.
    fn change(&mut self, at: SimTime, change: HostChange) {
        self.last_change = at;
        match change {
            HostChange::ConnectionReset(peers) => {
                let fabric = self.fabric.clone();
                let is_peer = |remote| fabric.owner(remote).is_some_and(|host| peers.may_hold(host));
                self.connection_resets += self.host.reset_connections(at, &is_peer);
            }
            HostChange::Kill { event, process } => {
                self.host.advance(at);
                let Some(host) = self.host.linux_mut() else { return };
                let killed = kill::kill(host, &meant(&process));
                self.kills += killed.count;
                self.killed.entry(event).or_default().extend(killed.specs);
            }
            HostChange::PauseProcess { event, process } => {
                self.host.advance(at);
                let Some(host) = self.host.linux_mut() else { return };
                self.paused_processes += suspension::begin(host, event, &meant(&process));
            }
            HostChange::Cpu { event, share } => self.begin_share(at, event, share),
            HostChange::CpuHeal(event) => self.end_share(at, event),
            HostChange::Revive(event) => {
                let killed = self.killed.remove(&event).unwrap_or_default();
                killed.into_iter().for_each(|spec| self.host.change(at, HostChange::Start(spec)));
            }
            change => {
                if matches!(change, HostChange::Crash { .. } | HostChange::NewRoot(_)) {
                    // At the restart all processes start.
                    self.killed.clear();
                }
                self.host.change(at, change);
            }
        }
    }

    /// Applies a change to this host while it is paused. All but the ends of the pause take effect later.
    fn change_paused(&mut self, at: SimTime, change: HostChange) {
        let ends = matches!(change, HostChange::Resume | HostChange::Crash { .. } | HostChange::NewRoot(_));
        if let Some(deferred) = self.paused.as_mut().filter(|_| !ends) {
            return deferred.push(change);
        }
        self.go_on(at);
        let deferred = self.paused.take().unwrap_or_default();
        for earlier in deferred.into_iter().filter(|earlier| *earlier != HostChange::Pause) {
            self.change(at, earlier);
        }
        if change != HostChange::Resume {
            self.change(at, change);
        }
    }

    /// Lets the host, which has stood still, go on: what was due meanwhile happens now, and queued packets leave from now on.
    fn go_on(&mut self, at: SimTime) {
        self.host.advance(at);
        let stack = self.host.stack_mut();
        stack.eth0.nic.hold_until(at);
        stack.links.iter_mut().for_each(|link| link.nic.hold_until(at));
    }

    /// Runs the kernel up to `limit`, and takes the samples that are due.
    fn advance_kernel(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        while let Some(at) = self.sampler.due(limit, self.next_arrival_or_timer()) {
            self.run_kernel(at);
            self.forward(out);
            self.kept_away.lose_before(at);
            let drops = NodeDrops::of_host(self);
            self.sampler.sample(at, &self.host, &drops);
            let rows: Vec<String> = self.link_rows(&drops).collect();
            self.sampler.sample_links(at, rows.into_iter());
        }
        self.run_kernel(limit);
        self.forward(out);
        self.kept_away.lose_before(limit);
    }

    /// Time of the next event other than a change.
    fn next_arrival_or_timer(&self) -> Option<SimTime> {
        [self.host.next_event(), self.kept_away.next()].into_iter().flatten().min()
    }

    fn collect(&mut self) {
        self.host.doing(Phase::Writing);
        self.reports.extend(self.host.linux_mut().map(Host::take_reports).unwrap_or_default());
        if !self.host.has_logged() {
            return;
        }
        self.collect_logs(false);
    }

    /// Writes captures, and logs that have reached a worthwhile size, or `all` of them.
    fn collect_logs(&mut self, all: bool) {
        let host = PathBuf::from("hosts").join(self.host.name());
        let output = &mut self.output;
        self.host.stack_mut().drain_captured(|run| output.capture_run(&host, run));
        let routes = self.host.stack_mut().route_log.take();
        if !routes.is_empty() {
            output.append(path::Path::new(names::ROUTES), self.host.name(), "jsonl", routes.as_bytes());
        }
        if let Some(linux) = self.host.linux_mut() {
            linux.drain_strace(all, |name, text| output.log(&host, name, text));
        }
    }

    /// Takes the first error of writing the results.
    pub fn output_error(&mut self) -> Option<ResultsError> {
        self.output.error.take()
    }
    /// Writes all buffered output.
    pub fn finish_output(&mut self) {
        self.host.finish();
        self.collect();
        self.collect_logs(true);
        for device in &self.devices {
            let (name, text) = device.counters();
            let name = PathBuf::from("hosts").join(self.host.name()).join(name);
            let path = self.output.folder.path().join(&name);
            let written = self.output.folder.create_file(&name).and_then(|mut file| {
                file.write_all(text.as_bytes()).map_err(|error| ResultsError::Write { path, error })
            });
            self.output.note(written);
        }
        let directory = self.output.folder.host(self.host.name());
        let path = directory.clone();
        let described = self.host.linux_mut().map_or(Ok(()), Host::finish_files);
        self.output.note(described.map_err(|errno| ResultsError::Write {
            path,
            error: std::io::Error::from_raw_os_error(errno.0.into()),
        }));
        if let Some(log) = self.host.linux().and_then(|linux| linux.write_log.as_deref()) {
            let name = format!("{}/{}.jsonl", names::TIMES, self.host.name());
            let text = times::text(log, &directory, &self.reports);
            let written = self.output.folder.write(&name, text.as_bytes());
            self.output.note(written);
        }
        let given = self.host.linux().map_or(&[][..], call_faults::log);
        if !given.is_empty() {
            let name = format!("hosts/{}/{}", self.host.name(), names::CALL_FAULTS);
            let text: String = given.iter().map(times::of_result).collect();
            let written = self.output.folder.write(&name, text.as_bytes());
            self.output.note(written);
        }
        self.output.finish();
    }
}

impl HostNode {
    pub fn deliver(&mut self, key: EventKey, message: Message) {
        if let Some(device) = self.devices.iter_mut().find(|device| message.port == Some(device.link)) {
            return device.deliver(key, message.packet);
        }
        match message.port {
            Some(port) => self.delivered[port] += 1,
            None => self.graph.delivered += 1,
        }
        if !self.kept_away.takes(&self.fabric, self.id, &message, key.time) {
            self.host.stack_mut().deliver(key, message.port, message.packet);
        }
    }

    pub fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        self.host.doing(Phase::Kernel);
        while let Some((at, due)) = self.changes.pop_if(|(at, _)| *at < limit) {
            let due = match due {
                Due::Change(change) if self.paused.is_some() => {
                    self.change_paused(at, change);
                    continue;
                }
                Due::Exchange if self.paused.is_some() => {
                    self.defer_exchange(at);
                    continue;
                }
                Due::Slice if self.paused.is_some() => {
                    self.defer_slice(at);
                    continue;
                }
                due => due,
            };
            // Packets that left before a crash are in flight. While a driver waits for a register read the
            // host is stalled, and the change waits as well.
            let mut until = at;
            while !self.advance(until, out) {
                let Some(next) = self.next_of_devices().filter(|next| *next < limit) else {
                    self.changes.push((at, due));
                    return self.collect();
                };
                until = next + SimDuration::from_picos(1);
            }
            match due {
                Due::Change(HostChange::Pause) => self.paused = Some(Vec::new()),
                Due::Change(HostChange::Resume) => {}
                Due::Change(change) => self.change(until, change),
                Due::Exchange => {
                    self.host.advance(until);
                    self.exchange(until);
                }
                Due::Slice => self.turn_slice(at, until),
            }
        }
        if self.paused.is_none() {
            self.advance(limit, out);
        }
        if self.attached.has_sessions() {
            self.look_at_sessions(limit);
        }
        self.collect();
    }
    pub fn next_event(&self) -> Option<SimTime> {
        let devices = self.next_of_devices();
        if self.stands_still() {
            return devices;
        }
        let change = self.changes.last().map(|(at, _)| *at);
        if self.paused.is_some() {
            return change;
        }
        [self.next_arrival_or_timer(), change, devices].into_iter().flatten().min()
    }
    /// Adds a change to those of the host, after the others of the same time.
    pub(crate) fn plan_last(&mut self, at: SimTime, due: Due) {
        let later = self.changes.partition_point(|(other, _)| *other > at);
        self.changes.insert(later, (at, due));
    }
    pub fn finished_at(&self) -> Option<SimTime> {
        let revives = |due: &Due| {
            use HostChange::{MemoryHeal, NewRoot, Restart, Resume, Revive, Start, StartModel, Upgrade};
            matches!(
                due,
                Due::Change(
                    Restart
                        | NewRoot(_)
                        | Resume
                        | Start(_)
                        | StartModel(_)
                        | Revive(_)
                        | Upgrade { .. }
                        | MemoryHeal(_)
                )
            )
        };
        if self.attached.is_open() || self.changes.iter().any(|(_, due)| revives(due)) {
            return None;
        }
        self.host.finished_at().map(|at| at.max(self.last_change))
    }
    /// Records the memory that the next run reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.loss_free_until);
        footprint.object(&self.changes);
        self.sampler.footprint(footprint);
        self.debug.footprint(footprint);
        footprint.object(&self.departures);
        footprint.object(&self.reports);
        footprint.object(&self.kept_away);
        footprint.object(&self.graph);
        self.host.footprint(footprint);
        footprint.start(self.departures.as_ptr(), 2);
    }
    /// Outgoing direction of a link.
    pub fn link(&self, link: usize) -> &OutboundLink {
        &self.links[link]
    }
    /// Row of samples for each outgoing direction of the host's links.
    pub fn link_rows(&self, drops: &NodeDrops) -> impl Iterator<Item = String> {
        let stack = self.host.stack();
        let row = |(port, drops): (usize, _)| {
            let nic = &stack.links[port].nic;
            link_row(nic.counters(), drops, nic.egress_queue_len())
        };
        drops.by_direction.iter().enumerate().map(row)
    }
    /// Packets of the host over the graph.
    pub(crate) fn graph_traffic(&self) -> &GraphTraffic {
        &self.graph
    }
    /// Packets lost on the graph by this host, by reason.
    pub(crate) fn graph_drops(&self) -> Map<DropReason, u64> {
        let mut drops = Map::from([(DropReason::NoRoute, self.graph.no_route)]);
        for (reason, count) in self.paths.values().flat_map(|path| &path.drops) {
            *drops.entry(*reason).or_default() += count;
        }
        drops
    }
    /// Number of frames delivered to a link's interface.
    pub(crate) fn delivered(&self, port: usize) -> u64 {
        self.delivered[port]
    }
    /// Frames discarded by partitions at a link's interface.
    pub(crate) fn kept_away(&self) -> &KeptAway {
        &self.kept_away
    }
    /// Outgoing directions of the host's links.
    pub fn links(&self) -> &[OutboundLink] {
        &self.links
    }
    pub fn attend(&mut self, since: SimTime) {
        self.serve_between_windows();
        self.take_requests(since);
        self.live.iter().for_each(|live| self.be_looked_at(live));
    }
}
