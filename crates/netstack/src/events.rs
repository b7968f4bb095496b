//! Events of the stack: packets come in, timers fire.

use crate::cpu::Work;
use crate::{Stack, StackTimer, TimerId};
use belljar_base::{EventKey, SimTime};
use belljar_net::Packet;

/// The earliest event of a stack whose owner has timers of its own: see [`Stack::next_turn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A packet comes in: [`Stack::receive_arrival`].
    Arrival,
    /// A timer of the stack: [`Stack::fire_timer`].
    Timer,
    /// A timer of its owner.
    Owner,
}

impl Stack {
    /// When something is due next; `None` if nothing but a packet or an operation can bring that about.
    pub fn next_event(&self) -> Option<SimTime> {
        let next = sooner(self.next_in(), self.timers.next());
        match self.is_yielding() {
            // What is in waits for threads. If none of them can run, it is received once time may go on from now.
            true => next.map(|at| at.max(self.clock.now())),
            false => next,
        }
    }
    /// When something is due next while threads of the owner can run.
    #[inline]
    pub fn next_due(&self) -> Option<SimTime> {
        sooner(self.next_arrival(), self.timers.next())
    }
    /// When the next packet that is on its way here is to be received: when it is in, or once threads have had their turn.
    #[inline]
    pub fn next_arrival(&self) -> Option<SimTime> {
        match &self.clock.processor {
            None => self.next_in(),
            Some(processor) => self.next_in().map(|at| processor.receives(at)),
        }
    }
    /// When the next packet that is on its way here is in.
    #[inline]
    fn next_in(&self) -> Option<SimTime> {
        sooner(self.arrivals.next(), self.inbox.next())
    }
    /// True while threads that can run come before packets: see [`cpu`](crate::cpu).
    #[inline]
    pub fn is_yielding(&self) -> bool {
        self.clock
            .processor()
            .is_some_and(|processor| processor.receives(self.clock.now()) > self.clock.now())
    }
    /// Lets packets come before threads again: for an owner none of whose threads can run.
    pub fn stop_yielding(&mut self) {
        if let Some(processor) = &mut self.clock.processor {
            processor.stop_yielding();
        }
    }
    /// The name of the next timer.
    #[inline]
    pub fn next_timer(&self) -> Option<TimerId> {
        self.timers.next_id()
    }

    /// The event that comes first, the owner's next timer being `of_owner`: of those of the same time what comes in, then timers
    /// in the order in which they were named.
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

    /// A packet that reaches `eth0` from the graph, or a frame that comes by a link, at `key.time`, which lies ahead.
    pub fn deliver(&mut self, key: EventKey, link: Option<usize>, packet: Packet) {
        match link {
            Some(link) => self.inbox.push(key, (link, packet)),
            None => self.will_arrive(key, packet),
        }
    }

    /// Moves the clock on to `until` and handles everything that is due up to then: arrivals before timers of the same
    /// time.
    pub fn pass_until(&mut self, until: SimTime) {
        while let Some(at) = self.next_event().filter(|at| *at <= until) {
            self.clock.advance(at);
            self.stop_yielding();
            let timer_at = self.timers.next().unwrap_or(SimTime::MAX);
            match self.next_arrival() {
                Some(at) if at <= timer_at => self.receive_arrival(),
                _ => self.fire_timer(),
            }
        }
        self.clock.advance(until);
    }

    /// Receives the next packet, whose time has come: of those of the same time what comes from the graph first.
    #[inline]
    pub fn receive_arrival(&mut self) {
        if self.clock.processor.is_some() && !self.is_down {
            return self.receive_with_processor();
        }
        let by_link = self.inbox.next().unwrap_or(SimTime::MAX);
        if let Some(at) = self.arrivals.next().filter(|at| *at <= by_link) {
            if let Some((at, packet)) = self.take_received(at) {
                self.graph_input(at, packet);
            }
            return;
        }
        let Some((link, packet)) = self.inbox.pop() else { return };
        self.link_input(link, packet);
    }

    /// Receives the next packet where that takes the processor's time: see [`cpu`](crate::cpu).
    #[inline(never)]
    fn receive_with_processor(&mut self) {
        let by_link = self.inbox.next().unwrap_or(SimTime::MAX);
        let (at, link, packet) = match self.arrivals.next().filter(|at| *at <= by_link) {
            Some(at) => match self.take_received(at) {
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
            None => return,
            // The interrupt of an adapter was another event.
            Some(true) if link.is_some_and(|link| self.links[link].adapter.is_some()) => {}
            Some(true) => self.clock.work(Work::Interrupt, 1),
            Some(false) => {}
        }
        self.clock.work_on_packet(packet.len());
        match link {
            None => self.graph_input(self.clock.now(), packet),
            Some(link) => self.link_input(link, packet),
        }
        let now = self.clock.now();
        if let Some(processor) = &mut self.clock.processor {
            processor.end_packet(now);
        }
    }

    /// Takes in a frame that came by a link, or a packet of the name server.
    #[inline]
    fn link_input(&mut self, link: usize, packet: Packet) {
        // Its bytes have gone cold since they were sent: they come while this one is dealt with.
        if let Some((_, next)) = self.inbox.following() {
            self.prefetch(next.open_bytes());
        }
        self.packet_arrived(link, packet);
    }

    /// Fires the next timer, if its time has come.
    #[inline]
    pub fn fire_timer(&mut self) {
        match self.timers.pop_due(self.clock.now()) {
            Some(StackTimer::Socket(socket)) => self.socket_timer(socket),
            Some(StackTimer::Interface(n)) => self.interface_timer(n),
            Some(rarer) => self.fire_rarer(rarer),
            None => {}
        }
    }

    /// Does what is not done for each packet, away from the code that is run for each.
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
            StackTimer::BootstrapEnd => self.limit_bandwidths(),
        }
    }
}

/// The earlier of two times, if there are any.
#[inline(always)]
fn sooner(a: Option<SimTime>, b: Option<SimTime>) -> Option<SimTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
