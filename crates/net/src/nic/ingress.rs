use super::codel::{Codel, CodelConfig};
use super::queue::QueueActions;
use super::{Counters, DropReason, Pace};
use crate::Packet;
use belljar_base::SimTime;

/// Ingress: CoDel queue of the last router, then the host's downlink.
#[derive(Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub(super) struct Ingress {
    /// Packet on the downlink, and the time at which its last bit arrives.
    on_wire: Option<(SimTime, Packet)>,
    /// Time at which the downlink becomes (or became) idle.
    free_at: SimTime,
    pace: Pace,
    /// Recent drops and marks of the queue.
    dealings: QueueActions,
    queue: Codel,
}

/// Maximum length of a packet over the graph.
const MTU: usize = 1_500;

impl Ingress {
    pub(super) fn new(bandwidth: Option<u64>, limit: usize, codel: CodelConfig) -> Ingress {
        let queue = Codel::new(codel, limit, MTU);
        let pace = Pace::new(bandwidth);
        Ingress { pace, queue, on_wire: None, free_at: SimTime::ZERO, dealings: QueueActions::new(false) }
    }

    pub(super) fn enqueue(&mut self, now: SimTime, packet: Packet, counters: &mut Counters) {
        if self.on_wire.is_none() {
            // The queue is empty whenever the downlink is idle.
            self.start(now, packet);
        } else if self.queue.push(now, packet, false).is_err() {
            counters.drop_one(DropReason::RouterFull);
        }
    }

    pub(super) fn next_event(&self) -> Option<SimTime> {
        self.on_wire.as_ref().map(|(at, _)| *at)
    }

    /// Packet on the downlink.
    pub(super) fn on_wire(&self) -> Option<&Packet> {
        self.on_wire.as_ref().map(|(_, packet)| packet)
    }

    /// Number of packets in the queue and on the downlink.
    pub(super) fn held(&self) -> usize {
        self.queue.waiting().len() + usize::from(self.on_wire.is_some())
    }

    /// Time at which the last bit of a packet that reaches an idle downlink at `at` arrives.
    pub(super) fn would_end(&mut self, at: SimTime, bytes: usize) -> SimTime {
        at.max(self.free_at) + self.pace.of(bytes as u64)
    }

    /// Delivers the packet whose last bit has arrived by `now`, and starts the next one.
    pub(super) fn step(&mut self, now: SimTime, counters: &mut Counters) -> Option<(SimTime, Packet)> {
        let (at, packet) = self.on_wire.take_if(|(at, _)| *at <= now)?;
        let next = self.queue.pop(at, &mut self.dealings);
        counters.ecn_marked += std::mem::take(&mut self.dealings.marked);
        self.dealings.lost.drain(..).for_each(|(reason, _)| counters.drop_one(reason));
        if let Some(next) = next {
            self.start(at, next);
        }
        Some((at, packet))
    }

    pub(super) fn set_bandwidth(&mut self, bandwidth: Option<u64>) {
        self.pace = Pace::new(bandwidth);
    }

    fn start(&mut self, at: SimTime, packet: Packet) {
        self.free_at = self.would_end(at, packet.len());
        self.on_wire = Some((self.free_at, packet));
    }
}
