//! Events of a host: packet arrivals and timers.

use crate::host::Host;
use crate::ids::WaitQueueId;
use crate::outcome::Wake;
use crate::timer::TimerAction;
use crate::watched::phase_of;
use belljar_base::SimTime;
use belljar_base::activity::Phase;
use belljar_model_host::Models;
use belljar_netstack::event_loop::EventLoop;
use belljar_netstack::stamping;
use belljar_netstack::{Effect, Stack, TimerId, Turn};
use belljar_objects::file_kind::FilePlace;
use std::sync::atomic::Ordering::Relaxed;

impl EventLoop for Host {
    fn stack(&self) -> &Stack {
        &self.net
    }
    fn stack_mut(&mut self) -> &mut Stack {
        &mut self.net
    }
    #[inline]
    fn next_own_timer(&self) -> Option<TimerId> {
        match self.first_network() {
            Some((timer, _)) => Some(timer),
            None => self.timers.next_id(),
        }
    }
    #[inline]
    fn fire_own_timer(&mut self) {
        if let Some((_, number)) = self.first_network() {
            self.doing(Phase::Network);
            return Host::stack_mut(self, number).fire_timer();
        }
        let Some(action) = self.timers.pop_due(self.net.clock.now()) else { return };
        self.doing(phase_of(&action));
        match action {
            TimerAction::Deadline(thread) => self.continue_call(thread, Wake::Deadline),
            rarer => self.fire_rarer(rarer),
        }
    }
    #[inline]
    fn work(&mut self, limit: SimTime) -> bool {
        if self.urings.has_uring_work() {
            self.run_next_request();
        } else if self.models.has_work() {
            self.doing(Phase::Model);
            Models::run_next(self);
        } else if self.is_runnable() {
            self.run_next_thread(limit);
        } else {
            return false;
        }
        true
    }
    fn is_interrupted(&self) -> bool {
        self.config.interrupt.load(Relaxed) || self.is_held()
    }
    #[inline]
    fn begin_event(&mut self, turn: Turn) {
        self.scheduler.end_turn();
        self.scheduler.made_progress();
        if turn != Turn::Owner {
            self.doing(Phase::Network);
        }
    }
    #[inline]
    fn carry_out_effects(&mut self) {
        Host::carry_out_effects(self);
    }
}

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

    /// Network namespace whose timer precedes all timers of the host itself.
    #[inline]
    fn first_network(&self) -> Option<(TimerId, u32)> {
        if !self.has_networks {
            return None;
        }
        let next = self.networks.next_timer()?;
        self.timers.next_id().is_none_or(|own| next.0 < own).then_some(next)
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
            Effect::Stamped(cookie, stamp) => {
                if let Some(key) = self.net.sockets.of_cookie(cookie) {
                    stamping::deliver(&mut self.net, key, *stamp);
                    self.carry_out_effects();
                }
            }
            Effect::Neighbour(neighbour, there) => {
                self.administer(network, |admin| admin.announce_neighbour(*neighbour, there));
                self.carry_out_effects();
            }
            Effect::Neighbour6(neighbour, there) => {
                self.administer(network, |admin| admin.announce_neighbour(*neighbour, there));
                self.carry_out_effects();
            }
            Effect::Device(news) => {
                self.administer(network, |admin| admin.announce_device(&news));
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
            Effect::KernelLog(level, line) => {
                // Rules of other network namespaces do not log (`nf_log_all_netns`).
                if network == 0 {
                    self.log.push(level, self.net.clock.monotonic_ns(), &line);
                }
            }
            Effect::Netfilter(group, message) => {
                self.administer(network, |admin| admin.announce_netfilter(group, &message));
                self.carry_out_effects();
            }
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
            TimerAction::StartProcess(n) => crate::start::due(self, n),
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
