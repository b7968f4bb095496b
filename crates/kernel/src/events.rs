//! Events of a host: packet arrivals and timers.

use crate::host::Host;
use crate::ids::WaitQueueId;
use crate::outcome::Wake;
use crate::timer::TimerAction;
use crate::watched::phase_of;
use belljar_base::SimTime;
use belljar_base::activity::Phase;
use belljar_model_host::Models;
use belljar_netstack::{Effect, Turn};
use belljar_objects::file_kind::FilePlace;

impl Host {
    /// Time of the host's next event; `None` if only a packet can wake the host.
    pub fn next_event(&self) -> Option<SimTime> {
        match self.is_runnable() || self.models.has_work() || self.urings.has_uring_work() {
            true => Some(self.net.clock.now()),
            false => sooner(sooner(self.net.next_event(), self.timers.next()), self.next_of_networks()),
        }
    }

    /// Time of the next timer in the further network namespaces.
    #[inline]
    fn next_of_networks(&self) -> Option<SimTime> {
        if self.has_networks { self.networks.next() } else { None }
    }

    /// Time of the next due event, not considering runnable threads.
    pub(crate) fn next_due(&self) -> Option<SimTime> {
        sooner(sooner(self.net.next_due(), self.timers.next()), self.next_of_networks())
    }

    /// Handles the earliest due event. At equal times, arrivals precede timers.
    pub(crate) fn fire_next(&mut self) {
        self.scheduler.made_progress();
        if self.has_networks
            && let Some((timer, number)) = self.networks.next_timer()
            && [self.net.next_timer(), self.timers.next_id()].iter().flatten().all(|other| timer < *other)
            && self.net.next_arrival().is_none_or(|arrival| timer.at() < arrival)
        {
            self.doing(Phase::Network);
            self.stack_mut(number).fire_timer();
            return self.carry_out_effects();
        }
        match self.net.next_turn(self.timers.next_id()) {
            Turn::Arrival => {
                self.doing(Phase::Network);
                self.net.receive_arrival();
            }
            Turn::Timer => {
                self.doing(Phase::Network);
                self.net.fire_timer();
            }
            Turn::Owner => self.fire_own_timer(),
        }
        self.carry_out_effects();
    }

    #[inline]
    fn fire_own_timer(&mut self) {
        let Some(action) = self.timers.pop_due(self.net.clock.now()) else { return };
        self.doing(phase_of(&action));
        match action {
            TimerAction::Deadline(thread) => self.continue_call(thread, Wake::Deadline),
            rarer => self.fire_rarer(rarer),
        }
    }

    /// Carries out the effects that the stack has queued, such as notifications of socket waiters.
    #[inline]
    pub(crate) fn carry_out_effects(&mut self) {
        if self.net.has_effects() || self.turn != 0 {
            self.take_effects();
        }
    }

    fn take_effects(&mut self) {
        if self.turn != 0 {
            self.end_turn();
        }
        let mut effects = std::mem::take(&mut self.spare_effects);
        self.net.take_effects(&mut effects);
        for effect in effects.drain(..) {
            self.carry_out(0, effect);
        }
        self.spare_effects = effects;
    }

    /// Carries out an effect of the stack of a further network namespace, and the effects that follow from
    /// it.
    #[cold]
    #[inline(never)]
    fn carry_out_further(&mut self, network: u32, effect: Effect) {
        self.carry_out(network, effect);
        self.carry_out_effects();
    }

    /// Carries out one effect of the stack of `network`.
    #[inline(always)]
    fn carry_out(&mut self, network: u32, effect: Effect) {
        match effect {
            Effect::Ready(socket, events) => self.wake_waiters(socket.into(), events),
            Effect::ProgramReady(n, events) => self.wake_waiters(WaitQueueId::Tun(n as u32), events),
            Effect::Urgent(socket) => self.tcp_signal_owner(socket),
            Effect::Passed(frame) => {
                self.show_frame(network, &frame);
                // The effects of this frame precede those of later frames.
                self.carry_out_effects();
            }
            Effect::Neighbour(neighbour, there) => {
                self.administer(network, |admin| admin.announce_neighbour(*neighbour, there));
                self.carry_out_effects();
            }
            Effect::Neighbour6(neighbour, there) => {
                self.administer(network, |admin| admin.announce_neighbour(*neighbour, there));
                self.carry_out_effects();
            }
            Effect::AddressExpired(interface, own) => {
                self.administer(network, |admin| admin.address_expired(interface, own));
                self.carry_out_effects();
            }
            Effect::AddressDeprecated(interface, own) => {
                self.administer(network, |admin| admin.address_deprecated(interface, own));
                self.carry_out_effects();
            }
            Effect::Peer(to, interface, news) => self.tell_interface(network, (to, interface), *news),
            Effect::Further(of, effect) => self.carry_out_further(of, *effect),
            Effect::Note(what) => self.warn(what),
            Effect::Closed(socket) => {
                self.files.unnamed.remove(&FilePlace::Socket(socket));
                self.waits.destroy(socket.into());
            }
        }
    }

    /// Handles timers that are not set for each packet; kept out of line of the per-packet code.
    #[inline(never)]
    fn fire_rarer(&mut self, action: TimerAction) {
        match action {
            TimerAction::Deadline(_) => unreachable!("it is done where it is due"),
            TimerAction::StartProcess(n) => self.start_process(n),
            TimerAction::ShutdownProcess(n) => self.shutdown_process(n),
            TimerAction::Uring { instance, request, serial } => self.request_due(instance, request, serial),
            TimerAction::TimerFd(n) => self.timerfd_expired(n),
            TimerAction::PosixTimer(process, n) => self.posix_timer_expired(process, n),
            TimerAction::PacketBlock(socket) => self.packet_block_timer(socket),
            TimerAction::Model(timer) => Models::fire(self, timer),
        }
    }

    /// Handles all events due up to and including `until`, for tests; no thread runs.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn fire_until(&mut self, until: SimTime) {
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            self.net.clock.advance(at);
            self.fire_next();
        }
        self.net.clock.advance(until);
    }
}

#[inline(always)]
fn sooner(a: Option<SimTime>, b: Option<SimTime>) -> Option<SimTime> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
