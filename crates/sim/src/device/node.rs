//! Device as a node of the engine.

use super::{Device, DeviceAccount};
use crate::accounts::NodeDrops;
use crate::live::{LinkView, Live, Table, link_view};
use crate::message::Message;
use crate::metrics::{Sampler, link_row};
use crate::outbound::OutboundLink;
use crate::output::Output;
use belljar_base::activity::{Activity, Board, Phase};
use belljar_base::{EventClass, EventKey, HostId, Inbox, SimTime};
use belljar_engine::Outgoing;
use belljar_net::switch::EgressFrame;
use belljar_net::{Counters, Packet};
use belljar_plan::DeviceChange;
use belljar_results::{ResultsError, Statistics};
use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Frames delivered to a port of a device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Delivered {
    /// All frames.
    pub frames: u64,
    /// Frames that the device has not received yet.
    pub waiting: u64,
}

/// Device with its inbox, its scheduled changes and the outgoing directions of its links.
pub struct DeviceNode {
    id: HostId,
    device: Box<dyn Device>,
    links: Vec<OutboundLink>,
    /// Number of frames delivered to each port.
    delivered: Vec<u64>,
    inbox: Inbox<(usize, Packet)>,
    /// Frames that have already been sent to the outside, and arrive at the device later.
    ahead: VecDeque<(SimTime, usize, Packet)>,
    /// Future changes, the next one last.
    changes: Vec<(SimTime, DeviceChange)>,
    sequence: u64,
    /// Folder of the device in the results.
    folder: PathBuf,
    /// Names of the interfaces, if their frames are captured; none for PCI connections.
    capture: Option<Vec<Option<Arc<str>>>>,
    watched: Option<Arc<Board>>,
    pub(crate) output: Output,
    pub(crate) sampler: Sampler,
    /// Live view of the run, if there is one.
    pub(crate) live: Option<Arc<Live>>,
    /// Time up to which the device has run.
    now: SimTime,
}

impl DeviceNode {
    /// Creates the node `id`, with the outgoing direction of a link at each port.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        id: HostId,
        device: Box<dyn Device>,
        links: Vec<OutboundLink>,
        mut changes: Vec<(SimTime, DeviceChange)>,
        folder: PathBuf,
        capture: Option<Vec<Option<Arc<str>>>>,
        watched: Option<Arc<Board>>,
        output: Output,
    ) -> DeviceNode {
        changes.reverse();
        DeviceNode {
            id,
            device,
            delivered: vec![0; links.len()],
            links,
            inbox: Inbox::default(),
            ahead: VecDeque::new(),
            changes,
            sequence: 0,
            folder,
            capture,
            watched,
            output,
            sampler: Sampler::default(),
            live: None,
            now: SimTime::ZERO,
        }
    }

    /// Id of the node.
    pub fn id(&self) -> HostId {
        self.id
    }

    pub fn deliver(&mut self, key: EventKey, message: Message) {
        let port = message.port.expect("a frame comes by a link");
        self.delivered[port] += 1;
        self.inbox.push(key, (port, message.packet));
    }

    /// Time at which the node must run: that of its next event, or of the next exchange with the outside.
    pub fn next_run(&self) -> Option<SimTime> {
        [self.next_event(), self.device.next_exchange()].into_iter().flatten().min()
    }

    fn next_event(&self) -> Option<SimTime> {
        let change = self.changes.last().map(|(at, _)| *at);
        [change, self.next_arrival(), self.device.next_event()].into_iter().flatten().min()
    }

    fn next_arrival(&self) -> Option<SimTime> {
        let ahead = self.ahead.front().map(|(at, ..)| *at);
        ahead.or(self.inbox.next())
    }

    fn pop_arrival(&mut self) -> Option<(usize, Packet)> {
        let ahead = self.ahead.pop_front().map(|(_, port, packet)| (port, packet));
        ahead.or_else(|| self.inbox.pop())
    }

    /// Sends the frames that arrive before `limit` to the outside, if the device has an interface to it,
    /// and returns the time up to which the device can be run.
    fn exchange(&mut self, limit: SimTime) -> SimTime {
        let Some(outside) = self.device.outside() else { return limit };
        while let Some(at) = self.inbox.next().filter(|at| *at < limit) {
            let Some((port, packet)) = self.inbox.pop() else { break };
            outside.send(at, port, &packet);
            self.ahead.push_back((at, port, packet));
        }
        outside.exchange(limit)
    }

    /// Runs the device up to `limit`, and takes the samples that are due.
    pub fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        if let Some(board) = &self.watched {
            board.doing(Activity::of(Phase::Network, self.id.0));
        }
        let limit = self.exchange(limit);
        while let Some(at) = self.sampler.due(limit, self.next_event()) {
            self.advance(at, out);
            let rows: Vec<String> = self.link_rows(&NodeDrops::of_device(self)).collect();
            self.sampler.sample_links(at, rows.into_iter());
        }
        self.advance(limit, out);
        self.now = limit;
        self.keep_log();
    }

    fn keep_log(&mut self) {
        let text = self.device.take_log();
        if !text.is_empty() {
            self.output.append(&self.folder, "trace", "log", text.as_bytes());
        }
    }

    /// Processes all events before `limit`; those at the same time in the order changes, timers, arrivals.
    fn advance(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        loop {
            let (change, own) = (self.changes.last().map(|(at, _)| *at), self.device.next_event());
            let next = [change, own, self.next_arrival()].into_iter().flatten().min();
            let Some(now) = next.filter(|at| *at < limit) else { return };
            if let Some((_, change)) = self.changes.pop_if(|(at, _)| *at <= now) {
                match change {
                    DeviceChange::Link(change) => self.device.change(now, change),
                    DeviceChange::P4(setup) => self.device.set_up(now, &setup),
                }
            } else if own.is_some_and(|at| at <= now) {
                self.device.on_timeout(now);
            } else if let Some((port, packet)) = self.pop_arrival() {
                if !packet.is_undelivered() {
                    self.record(now, port, packet.bytes());
                }
                self.device.receive(now, port, packet);
            }
            while let Some(leaving) = self.device.poll(now) {
                self.send(leaving, out);
            }
        }
    }

    fn send(&mut self, leaving: EgressFrame, out: &mut Vec<Outgoing<Message>>) {
        if !leaving.packet.is_undelivered() {
            self.record(leaving.at, leaving.port, leaving.packet.bytes());
        }
        let (source, sequence) = (self.id, &mut self.sequence);
        self.links[leaving.port].carry(leaving.departs, leaving.packet, |to, time, message| {
            *sequence += 1;
            let key = EventKey { time, class: EventClass::Arrival, source, sequence: *sequence };
            out.push(Outgoing { to, key, message });
        });
    }

    fn record(&mut self, at: SimTime, port: usize, frame: &[u8]) {
        if let Some(name) = self.capture.as_ref().and_then(|names| names[port].as_ref()) {
            self.output.capture(&self.folder, name, at, frame);
        }
    }

    /// Writes the device's final state and all buffered output, of a run that ended at `end`.
    pub fn finish_output(&mut self, end: SimTime) {
        self.device.finish(end);
        for (name, text) in self.device.state_files() {
            let name = self.folder.join(name);
            let path = self.output.folder.path().join(&name);
            let written = self.output.folder.create_file(&name).and_then(|mut file| {
                file.write_all(text.as_bytes()).map_err(|error| ResultsError::Write { path, error })
            });
            self.output.note(written);
        }
        self.output.finish();
    }

    /// Time at which the device became idle for good; `None` if the run must continue for it.
    pub fn finished_at(&self) -> Option<SimTime> {
        self.device.finished_at()
    }
    /// Counters of the frames and bytes that a port has carried and dropped.
    pub fn counters(&self, port: usize) -> Counters {
        self.device.counters(port)
    }
    /// Row of samples for each link, in the order of the ports.
    pub fn link_rows(&self, drops: &NodeDrops) -> impl Iterator<Item = String> {
        let row = |(port, drops)| link_row(&self.counters(port), drops, self.device.queue_len(port));
        drops.by_direction.iter().enumerate().map(row)
    }
    /// Views of the outgoing directions of the links, in the order of the ports.
    pub fn link_views(&self, drops: &NodeDrops) -> Vec<LinkView> {
        let view = |(port, drops)| link_view(&self.counters(port), drops, self.device.queue_len(port));
        drops.by_direction.iter().enumerate().map(view).collect()
    }
    /// Tables of the device at its current time.
    pub fn tables(&self) -> Vec<Table> {
        self.device.tables(self.now)
    }
    pub fn attend(&mut self) {
        self.live.iter().for_each(|live| self.be_looked_at(live));
    }
    /// Accounts of the packets of the device, as it has counted them.
    pub(crate) fn packet_accounts(&self) -> Vec<DeviceAccount> {
        self.device.packet_accounts()
    }
    /// Frames delivered to a port.
    pub(crate) fn delivered(&self, port: usize) -> Delivered {
        let inbox = self.inbox.contents().filter(|(to, _)| *to == port).count();
        let ahead = self.ahead.iter().filter(|(_, to, _)| *to == port).count();
        Delivered { frames: self.delivered[port], waiting: (inbox + ahead) as u64 }
    }
    /// Outgoing directions of the links, by port.
    pub(crate) fn links(&self) -> &[OutboundLink] {
        &self.links
    }
    /// Outgoing direction of the link at a port.
    pub fn link(&self, port: usize) -> &OutboundLink {
        &self.links[port]
    }
    /// Adds the statistics specific to the kind of device to those of the run.
    pub fn add_statistics(&self, name: &str, statistics: &mut Statistics) {
        self.device.add_statistics(name, statistics);
    }
}
