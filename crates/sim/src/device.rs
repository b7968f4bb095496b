//! A switch or a router as the engine sees it.

use crate::cable::Cable;
use crate::message::Message;
use crate::metrics::{Sampler, link_row};
use crate::output::Output;
use crate::schedule::LinkChange;
use belljar_base::activity::{Activity, Board, Phase};
use belljar_base::{EventClass, EventKey, HostId, Inbox, SimTime};
use belljar_engine::Outgoing;
use belljar_net::router::Router;
use belljar_net::switch::{Leaving, Switch};
use belljar_net::{Counters, Packet};
use std::path::PathBuf;
use std::sync::Arc;

/// What stands between links.
pub enum Kind {
    /// A learning switch.
    Switch(Switch),
    /// A router.
    Router(Box<Router>),
}

/// See the [module](self).
pub struct Device {
    id: HostId,
    kind: Kind,
    cables: Vec<Cable>,
    inbox: Inbox<(usize, Packet)>,
    /// The changes that are to come, the next one last.
    changes: Vec<(SimTime, LinkChange)>,
    sequence: u64,
    loss_free_until: SimTime,
    /// The names of its interfaces, if their frames are captured, and the folder for that.
    capture: Option<(PathBuf, Vec<Arc<str>>)>,
    watched: Option<Arc<Board>>,
    pub(crate) output: Output,
    pub(crate) sampler: Sampler,
}

impl Device {
    /// The node `id` with a cable at each port.
    #[allow(clippy::too_many_arguments)]
    pub fn new(
        id: HostId,
        kind: Kind,
        cables: Vec<Cable>,
        mut changes: Vec<(SimTime, LinkChange)>,
        loss_free_until: SimTime,
        capture: Option<(PathBuf, Vec<Arc<str>>)>,
        watched: Option<Arc<Board>>,
        output: Output,
    ) -> Device {
        changes.reverse();
        Device {
            id,
            kind,
            cables,
            inbox: Inbox::default(),
            changes,
            sequence: 0,
            loss_free_until,
            capture,
            watched,
            output,
            sampler: Sampler::default(),
        }
    }

    /// Its id.
    pub fn id(&self) -> HostId {
        self.id
    }

    pub fn deliver(&mut self, key: EventKey, message: Message) {
        let port = message.port.expect("a frame comes by a link");
        self.inbox.push(key, (port, message.packet));
    }

    pub fn next_event(&self) -> Option<SimTime> {
        let change = self.changes.last().map(|(at, _)| *at);
        [change, self.inbox.next(), self.own_event()].into_iter().flatten().min()
    }

    fn own_event(&self) -> Option<SimTime> {
        match &self.kind {
            Kind::Switch(switch) => switch.next_event(),
            Kind::Router(router) => router.next_event(),
        }
    }

    /// Runs up to `limit`, and stops on the way where it is to be sampled.
    pub fn run_until(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        if let Some(board) = &self.watched {
            board.doing(Activity::of(Phase::Network, self.id.0));
        }
        while let Some(at) = self.sampler.due(limit, self.next_event()) {
            self.advance(at, out);
            let rows: Vec<String> = self.link_rows().collect();
            self.sampler.sample_links(at, rows.into_iter());
        }
        self.advance(limit, out);
    }

    /// Everything of one instant happens in this order: changes, what is due, arrivals.
    fn advance(&mut self, limit: SimTime, out: &mut Vec<Outgoing<Message>>) {
        while let Some(now) = self.next_event().filter(|at| *at < limit) {
            if let Some((_, change)) = self.changes.pop_if(|(at, _)| *at <= now) {
                self.change(now, change);
            } else if self.own_event().is_some_and(|at| at <= now) {
                if let Kind::Router(router) = &mut self.kind {
                    router.on_timeout(now);
                }
            } else if let Some((port, packet)) = self.inbox.pop() {
                self.record(now, port, packet.bytes());
                match &mut self.kind {
                    Kind::Switch(switch) => switch.receive(now, port, packet),
                    Kind::Router(router) => router.receive(now, port, packet),
                }
            }
            while let Some(leaving) = self.poll(now) {
                self.send(leaving, out);
            }
        }
    }

    fn poll(&mut self, now: SimTime) -> Option<Leaving> {
        match &mut self.kind {
            Kind::Switch(switch) => switch.poll(now),
            Kind::Router(router) => router.poll(now),
        }
    }

    fn send(&mut self, leaving: Leaving, out: &mut Vec<Outgoing<Message>>) {
        self.record(leaving.at, leaving.port, leaving.packet.bytes());
        let cable = &mut self.cables[leaving.port];
        let loss_free = leaving.departs < self.loss_free_until;
        let (source, sequence) = (self.id, &mut self.sequence);
        cable.carry(leaving.departs, loss_free, leaving.packet, |to, time, message| {
            *sequence += 1;
            let key = EventKey { time, class: EventClass::Arrival, source, sequence: *sequence };
            out.push(Outgoing { to, key, message });
        });
    }

    fn change(&mut self, now: SimTime, change: LinkChange) {
        match (change, &mut self.kind) {
            (LinkChange::Carrier(port, on), Kind::Switch(switch)) => switch.set_carrier(now, port, on),
            (LinkChange::Carrier(port, on), Kind::Router(router)) => router.set_carrier(now, port, on),
            (LinkChange::Nic(port, change), Kind::Switch(switch)) => switch.change_port(now, port, &change),
            (LinkChange::Nic(port, change), Kind::Router(router)) => router.change_port(now, port, &change),
            (LinkChange::Blocked(ports), Kind::Switch(switch)) => switch.set_blocked(&ports),
            (LinkChange::Routes(routes), Kind::Router(router)) => {
                router.routes_mut().replace_computed(routes)
            }
            (LinkChange::Routes6(routes), Kind::Router(router)) => {
                router.routes6_mut().replace_computed(routes);
            }
            (LinkChange::Blocked(_), Kind::Router(_))
            | (LinkChange::Routes(_) | LinkChange::Routes6(_), Kind::Switch(_)) => {}
        }
    }

    fn record(&mut self, at: SimTime, port: usize, frame: &[u8]) {
        if let Some((folder, names)) = &self.capture {
            self.output.capture(folder, &names[port], at, frame);
        }
    }

    /// What a port has carried and dropped.
    pub fn counters(&self, port: usize) -> Counters {
        match &self.kind {
            Kind::Switch(switch) => *switch.counters(port),
            Kind::Router(router) => *router.port_counters(port),
        }
    }
    /// What each link has carried from here.
    pub fn link_rows(&self) -> impl Iterator<Item = String> + '_ {
        self.cables.iter().enumerate().map(|(port, cable)| {
            let queue = match &self.kind {
                Kind::Switch(switch) => switch.queue_len(port),
                Kind::Router(router) => router.queue_len(port),
            };
            link_row(&self.counters(port), cable, queue)
        })
    }
    /// The cable at a port.
    pub fn cable(&self, port: usize) -> &Cable {
        &self.cables[port]
    }
    /// What it has forwarded and lost, if it is a router.
    pub fn router(&self) -> Option<belljar_net::router::RouterCounters> {
        match &self.kind {
            Kind::Switch(_) => None,
            Kind::Router(router) => Some(router.counters()),
        }
    }
}
