//! What happens on a host at a time: packets come in, timers fire.

use crate::call::Wake;
use crate::host::Host;
use crate::timer::TimerAction;
use crate::watched::phase_of;
use belljar_base::SimTime;
use belljar_base::activity::Phase;

impl Host {
    /// When the host will next do something; `None` if nothing but a packet can wake it.
    pub fn next_event(&self) -> Option<SimTime> {
        match self.is_runnable() || self.has_model_work() || self.has_uring_work() {
            true => Some(self.clock.now()),
            false => self.next_due(),
        }
    }

    /// When the next event is due.
    pub(crate) fn next_due(&self) -> Option<SimTime> {
        let sooner = |a: Option<SimTime>, b: Option<SimTime>| match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        sooner(sooner(self.arrivals.next(), self.inbox.next()), self.timers.next())
    }

    /// Handles the earliest due event: of those of the same time what comes from the graph first, then what comes by
    /// links, then timers.
    pub(crate) fn fire_next(&mut self) {
        self.scheduler.made_progress();
        let now = self.clock.now();
        let timer_at = self.timers.next().unwrap_or(SimTime::MAX);
        let by_link = self.inbox.next().unwrap_or(SimTime::MAX);
        if let Some(at) = self.arrivals.next().filter(|at| *at <= by_link && *at <= timer_at) {
            return self.receive_next(at);
        }
        if by_link <= timer_at
            && let Some((link, packet)) = self.inbox.pop()
        {
            self.doing(Phase::Network);
            // Its bytes have gone cold since they were sent: they come while this one is dealt with.
            if let Some((_, next)) = self.inbox.following() {
                self.machine.prefetch(next.open_bytes());
            }
            return self.packet_arrived(link, packet);
        }
        let Some(action) = self.timers.pop_due(now) else { return };
        self.doing(phase_of(&action));
        match action {
            TimerAction::Deadline(thread) => self.continue_call(thread, Wake::Deadline),
            TimerAction::Socket(socket) => self.socket_timer(socket),
            TimerAction::Interface(n) => self.interface_timer(n),
            rarer => self.fire_rarer(rarer),
        }
    }

    /// Does what is not done for each packet, away from the code that is run for each.
    #[inline(never)]
    fn fire_rarer(&mut self, action: TimerAction) {
        match action {
            TimerAction::Deadline(_) | TimerAction::Socket(_) | TimerAction::Interface(_) => {
                unreachable!("these are done where they are due")
            }
            TimerAction::StartProcess(n) => self.start_process(n),
            TimerAction::ShutdownProcess(n) => self.shutdown_process(n),
            TimerAction::Uring { instance, request, serial } => self.request_due(instance, request, serial),
            TimerAction::TimerFd(n) => self.timerfd_expired(n),
            TimerAction::PosixTimer(process, n) => self.posix_timer_expired(process, n),
            TimerAction::Resolver => self.resolver_timer(),
            TimerAction::Neighbours => self.neighbour_timer(),
            TimerAction::Reassembly => self.reassembly_timer(),
            TimerAction::Igmp => self.igmp_timer(),
            TimerAction::PacketBlock(socket) => self.packet_block_timer(socket),
            TimerAction::Ipv6 => self.timer6(),
            TimerAction::BootstrapEnd => self.limit_bandwidths(),
            TimerAction::StartModel(n) => self.start_model(n),
            TimerAction::StopModel(n) => self.stop_model(n),
            TimerAction::WakeModel { model, generation, token } => {
                self.wake_model(model, generation, token);
            }
        }
    }

    /// Handles everything that is due up to `until`, for tests; no thread runs.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn fire_until(&mut self, until: SimTime) {
        while let Some(at) = self.next_due().filter(|at| *at <= until) {
            self.clock.advance(at);
            self.fire_next();
        }
        self.clock.advance(until);
    }
}
