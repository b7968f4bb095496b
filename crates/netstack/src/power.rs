//! Loss of power: the state in memory is lost. Departed packets stay in transit, and the sequences of ports
//! and initial sequence numbers continue, so that they do not repeat.

use crate::account::{DropCause, StackAccount};
use crate::{Stack, StackCounters};
use belljar_net::{Counters, Nic};

/// State of a stack at the time of a power cut.
#[must_use]
pub struct PowerCut {
    nics: Vec<Counters>,
    counters: StackCounters,
    account: StackAccount,
    departures: usize,
    captured: usize,
}

impl PowerCut {
    /// Adds the account of the stack of a further network namespace, which the power cut ends. The owner
    /// invokes it before any socket is closed.
    pub fn end_stack(&mut self, stack: &Stack) {
        self.account.absorb(&stack.account, stack.packet_account().held, DropCause::HostDown);
    }
}

impl Stack {
    /// Cuts the power. The owner then closes the users of the sockets and calls
    /// [`lose_state`](Self::lose_state), which discards the packets and counts that the closing causes.
    pub fn cut_power(&mut self) -> PowerCut {
        self.is_down = true;
        let mut account = StackAccount::default();
        account.absorb(&self.account, self.packet_account().held, DropCause::HostDown);
        let nics = std::iter::once(&self.eth0.nic).chain(self.links.iter().map(|link| &link.nic));
        PowerCut {
            nics: nics.map(Nic::counters_without_power).collect(),
            counters: std::mem::take(&mut self.counters),
            account,
            departures: self.departures.len(),
            captured: self.captured.len(),
        }
    }

    /// Discards all volatile state: the stack is left without sockets; its counters continue.
    pub fn lose_state(&mut self, cut: PowerCut) {
        let fresh = Stack::new(self.config.clone(), self.clock.clone());
        let old = std::mem::replace(self, fresh);
        self.timers = old.timers;
        self.timers.clear();
        self.is_down = old.is_down;
        self.departures = old.departures;
        self.departures.truncate(cut.departures);
        self.captured = old.captured;
        self.captured.truncate(cut.captured);
        // The log of the new stack follows that of the old one.
        self.route_log.follow(&old.route_log);
        self.arrivals = old.arrivals;
        self.inbox = old.inbox;
        self.ports = old.ports;
        self.isns = old.isns;
        self.next_serial = old.next_serial;
        self.resolved = old.resolved;
        self.eth0.nic.power_cycle(&self.config.nic, cut.nics[0]);
        let now = self.clock.now();
        for ((port, config), counters) in self.links.iter_mut().zip(&self.config.links).zip(&cut.nics[1..]) {
            port.nic.power_cycle(&config.nic, *counters);
            port.nic.set_carrier(now, config.carrier);
        }
        self.plan_arrivals();
        self.counters = cut.counters;
        // Responses of the name server stay in transit, too.
        self.account = cut.account;
        self.account.from_resolver = old.account.from_resolver;
    }

    /// Restores the power: `CLOCK_MONOTONIC` restarts. The owner sets its timers and calls
    /// [`begin_bootstrap`](Self::begin_bootstrap) and [`plan_arrivals`](Self::plan_arrivals).
    pub fn restore_power(&mut self) {
        self.is_down = false;
        self.clock.boot();
    }
}
