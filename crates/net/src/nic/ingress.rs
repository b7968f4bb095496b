use super::codel::{Codel, CodelConfig};
use super::queue::Dealings;
use super::{Counters, DropReason, serialisation};
use crate::Packet;
use belljar_base::SimTime;

/// The way in: CoDel's queue at the last router, then the host's downlink.
#[derive(Debug)]
pub(super) struct Ingress {
    bandwidth: Option<u64>,
    queue: Codel,
    /// The packet on the downlink and the time at which its last bit is in.
    on_wire: Option<(SimTime, Packet)>,
    /// When the downlink is (or became) free for the next packet.
    free_at: SimTime,
    /// What the queue has just done.
    dealings: Dealings,
}

/// The longest packet over the graph.
const MTU: usize = 1_500;

impl Ingress {
    pub(super) fn new(bandwidth: Option<u64>, limit: usize, codel: CodelConfig) -> Ingress {
        let queue = Codel::new(codel, limit, MTU);
        Ingress { bandwidth, queue, on_wire: None, free_at: SimTime::ZERO, dealings: Dealings::new(false) }
    }

    pub(super) fn enqueue(&mut self, now: SimTime, packet: Packet, counters: &mut Counters) {
        if self.on_wire.is_none() {
            // Nothing on the downlink implies nothing in the queue.
            self.start(now.max(self.free_at), packet);
        } else if self.queue.push(now, packet, false).is_err() {
            counters.drop_one(DropReason::RouterFull);
        }
    }

    pub(super) fn next_event(&self) -> Option<SimTime> {
        self.on_wire.as_ref().map(|(at, _)| *at)
    }

    /// Hands over the packet that [`next_event`](Self::next_event) announced and starts the next.
    pub(super) fn step(&mut self, counters: &mut Counters) -> Packet {
        let (at, packet) = self.on_wire.take().expect("a packet was announced");
        let next = self.queue.pop(at, &mut self.dealings);
        counters.ecn_marked += std::mem::take(&mut self.dealings.marked);
        self.dealings.lost.drain(..).for_each(|(reason, _)| counters.drop_one(reason));
        if let Some(next) = next {
            self.start(at, next);
        }
        counters.packets_in += 1;
        counters.bytes_in += packet.len() as u64;
        packet
    }

    pub(super) fn set_bandwidth(&mut self, bandwidth: Option<u64>) {
        self.bandwidth = bandwidth;
    }

    fn start(&mut self, at: SimTime, packet: Packet) {
        self.free_at = at + serialisation(&packet, self.bandwidth);
        self.on_wire = Some((self.free_at, packet));
    }
}
