//! Events of the stack: packet arrivals and timers.

use crate::account::{DropCause, PacketDisposition};
use crate::cpu::Work;
use crate::event_loop::EventLoop;
use crate::ip::filtering;
use crate::resolver::SERVICE;
use crate::{Stack, StackTimer, TimerId};
use belljar_base::{EventKey, SimDuration, SimTime};
use belljar_net::Packet;

/// The earliest event of a stack whose owner has timers of its own: see [`Stack::next_turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A packet arrives: [`Stack::receive_arrival`].
    Arrival,
    /// A timer of the stack expires: [`Stack::fire_timer`].
    Timer,
    /// A timer of the owner expires.
    Owner,
}

impl Stack {
    /// Time of the next event; `None` if only a new packet or operation can cause one.
    pub fn next_event(&self) -> Option<SimTime> {
        // Arrived packets wait for threads. If none is runnable, the packets are received from the present time
        // on. A turn of the threads that ends just now has ended.
        let arrival = match &self.clock.processor {
            None => self.next_in(),
            Some(processor) => {
                let now = self.clock.now();
                self.next_in().map(|at| at.max(processor.receives(at).min(now)))
            }
        };
        sooner(arrival, self.timers.next())
    }
    /// Time of the next event while threads of the owner are runnable.
    #[inline]
    pub fn next_due(&self) -> Option<SimTime> {
        sooner(self.next_arrival(), self.timers.next())
    }
    /// Time at which the next packet in transit is received: at its arrival, or once the threads have had
    /// their turn.
    #[inline]
    pub fn next_arrival(&self) -> Option<SimTime> {
        match &self.clock.processor {
            None => self.next_in(),
            Some(processor) => self.next_in().map(|at| processor.receives(at)),
        }
    }
    /// Time at which the next packet in transit arrives.
    #[inline]
    fn next_in(&self) -> Option<SimTime> {
        sooner(self.arrivals.next(), self.inbox.next())
    }
    /// The identifier of the next timer.
    #[inline]
    pub fn next_timer(&self) -> Option<TimerId> {
        self.timers.next_id()
    }

    /// The earliest event, given the owner's next timer `of_owner`. At equal times arrivals precede timers,
    /// and timers expire in the order of their creation.
    #[inline]
    pub fn next_turn(&self, of_owner: Option<TimerId>) -> Turn {
        let of_stack = self.next_timer();
        let stack_is_first =
            of_stack.is_some_and(|of_stack| of_owner.is_none_or(|of_owner| of_stack < of_owner));
        let timer_at = if stack_is_first { of_stack } else { of_owner }.map_or(SimTime::MAX, TimerId::at);
        match self.next_arrival() {
            Some(at) if at <= timer_at => Turn::Arrival,
            _ if stack_is_first => Turn::Timer,
            _ => Turn::Owner,
        }
    }

    /// Queues a packet that reaches `eth0` from the graph, or a frame that arrives by a link, at the future
    /// time `key.time`.
    pub fn deliver(&mut self, key: EventKey, link: Option<usize>, packet: Packet) {
        match link {
            Some(link) => self.inbox.push(key, (link, packet)),
            None => self.arrivals.push(key, packet, &mut self.eth0.nic, self.is_down),
        }
    }

    /// Advances the clock to `until` and handles all events due by then; arrivals precede timers of the same
    /// time.
    pub fn pass_until(&mut self, until: SimTime) {
        self.run_events(until.saturating_add(SimDuration::from_picos(1)));
        self.clock.advance(until);
    }

    /// Receives the next packet, which is due; of packets of the same time, those from the graph come first.
    #[inline]
    pub fn receive_arrival(&mut self) {
        if self.clock.processor.is_some() && !self.is_down {
            return self.receive_with_processor();
        }
        let by_link = self.inbox.next().unwrap_or(SimTime::MAX);
        if let Some(at) = self.arrivals.next().filter(|at| *at <= by_link) {
            if let Some((at, packet)) = self.arrivals.take_received(at, &mut self.eth0.nic, self.is_down) {
                self.graph_input(at, packet);
            }
            return;
        }
        let Some((link, packet)) = self.inbox.pop() else { return };
        self.link_input(link, packet);
    }

    /// Receives the next packet and charges the processor: see [`cpu`](crate::cpu).
    #[inline(never)]
    fn receive_with_processor(&mut self) {
        let by_link = self.inbox.next().unwrap_or(SimTime::MAX);
        let (at, link, packet) = match self.arrivals.next().filter(|at| *at <= by_link) {
            Some(at) => match self.arrivals.take_received(at, &mut self.eth0.nic, self.is_down) {
                Some((at, packet)) => (at, None, packet),
                None => return,
            },
            None => match self.inbox.pop() {
                Some((link, packet)) => (by_link, Some(link), packet),
                None => return,
            },
        };
        let now = self.clock.now();
        let Some(processor) = &mut self.clock.processor else { return };
        match processor.begin_packet(at, now) {
            None => {
                match link {
                    // The card of `eth0` has counted the packet.
                    None => self.account.receive(PacketDisposition::dropped(DropCause::Backlog)),
                    Some(SERVICE) => {}
                    Some(link) => self.links[link].nic.count_backlog(),
                }
                return;
            }
            // The interrupt of an adapter is charged in an event of its own.
            Some(true) if link.is_some_and(|link| self.links[link].adapter.is_some()) => {}
            Some(true) => self.clock.work(Work::Interrupt, 1),
            Some(false) => {}
        }
        self.clock.work_on_packet(packet.len());
        self.frame_at = at;
        match link {
            None => self.graph_input(self.clock.now(), packet),
            Some(link) => self.link_input(link, packet),
        }
        let now = self.clock.now();
        if let Some(processor) = &mut self.clock.processor {
            processor.end_packet(now);
        }
    }

    /// Processes a frame received from a link, or a packet of the name server.
    #[inline]
    fn link_input(&mut self, link: usize, packet: Packet) {
        // Prefetches the next frame's bytes, no longer cached since it was sent, during the processing of
        // this one.
        if let Some((_, next)) = self.inbox.following() {
            (self.prefetch)(next.open_bytes());
        }
        self.packet_arrived(link, packet);
    }

    /// Fires the next timer if it is due.
    #[inline]
    pub fn fire_timer(&mut self) {
        match self.timers.pop_due(self.clock.now()) {
            Some(StackTimer::Socket(socket)) => self.socket_timer(socket),
            Some(StackTimer::Interface(n)) => self.interface_timer(n),
            Some(rarer) => self.fire_rarer(rarer),
            None => {}
        }
    }

    /// Fires a timer that is not per-packet work; kept out of line.
    #[inline(never)]
    fn fire_rarer(&mut self, timer: StackTimer) {
        match timer {
            StackTimer::Socket(_) | StackTimer::Interface(_) => {
                unreachable!("these are done where they are due")
            }
            StackTimer::Resolver => self.resolver_timer(),
            StackTimer::Neighbours => self.neighbour_timer(),
            StackTimer::Reassembly => self.reassembly_timer(),
            StackTimer::Igmp => self.igmp_timer(),
            StackTimer::Ipv6 => {
                self.timer6();
                self.log_routes();
            }
            StackTimer::Addresses => {
                self.lifetime_timer();
                self.flush_network();
            }
            StackTimer::Crossing => self.receive_crossed(),
            StackTimer::Conntrack => filtering::conntrack_timer(self),
            StackTimer::Traffic => crate::traffic::on_timer(self),
            StackTimer::Devices => crate::devices::on_timer(self),
            StackTimer::BootstrapEnd => self.limit_bandwidths(),
        }
    }
}

/// The earlier of two optional times.
#[inline(always)]
fn sooner(a: Option<SimTime>, b: Option<SimTime>) -> Option<SimTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
