//! Host that runs only traffic models: a network stack, the models on it, and no kernel.

use crate::models::{ModelSpec, ModelTimer, Models, Owner};
use belljar_base::activity::{Activity, Board, Phase};
use belljar_base::{Footprint, Map, SimTime};
use belljar_net::NicChange;
use belljar_netstack::clock::Clock;
use belljar_netstack::event_loop::EventLoop;
use belljar_netstack::{Effect, SocketKey, Stack, StackConfig, TimerId, TimerQueue, Turn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Configuration of a host of models, besides that of its stack.
#[derive(Debug)]
pub struct ModelHostConfig {
    /// Traffic models.
    pub models: Vec<ModelSpec>,
    /// Abort flag: once set, [`ModelHost::run_until`] returns early because the run is aborted.
    pub interrupt: Arc<AtomicBool>,
    /// Attention flag, set from outside: [`ModelHost::run_until`] returns early for a request to the host.
    /// The caller clears the flag before it continues.
    pub attention: Arc<AtomicBool>,
    /// Board on which the host reports its activity to an observer.
    pub watched: Option<Arc<Board>>,
}

/// Host that runs traffic models and no programs. It has the interface of a host with a kernel: packets in by
/// [`Stack::deliver`] and out by [`Stack::take_departures`], [`run_until`](Self::run_until) to advance time,
/// and the changes of the experiment once [the clock](Self::advance) has reached their time.
#[repr(C)] // Frequently read fields first: see `belljar_base::Footprint`.
pub struct ModelHost {
    config: ModelHostConfig,
    timers: TimerQueue<ModelTimer>,
    models: Models,
    stack: Stack,
    /// Buffer for the stack's effects.
    spare_effects: Vec<Effect>,
    warnings: Map<String, u64>,
}

impl ModelHost {
    /// Creates a host at the start of the simulation, before any event.
    pub fn new(mut config: ModelHostConfig, network: StackConfig, clock: Clock) -> ModelHost {
        let mut host = ModelHost {
            models: Models::new(std::mem::take(&mut config.models)),
            config,
            timers: TimerQueue::default(),
            stack: Stack::new(network, clock),
            spare_effects: Vec::new(),
            warnings: Map::new(),
        };
        host.stack.begin_bootstrap();
        Models::schedule(&mut host, SimTime::ZERO);
        host
    }

    /// Executes all events strictly before `limit`.
    pub fn run_until(&mut self, limit: SimTime) {
        self.run_events(limit);
        self.stack.take_arrivals(limit);
        self.stack.plan_arrivals();
    }
    /// Time of the next event; `None` if only a packet can wake the host.
    pub fn next_event(&self) -> Option<SimTime> {
        match self.models.has_work() {
            true => Some(self.stack.clock.now()),
            false => [self.stack.next_event(), self.timers.next()].into_iter().flatten().min(),
        }
    }
    /// Reports a phase of activity.
    pub fn doing(&self, phase: Phase) {
        if let Some(board) = &self.config.watched {
            board.doing(Activity::of(phase, self.stack.config.id.0));
        }
    }
    /// True if the attention flag is set.
    pub fn is_held(&self) -> bool {
        self.config.attention.load(Relaxed)
    }
    /// Reports the memory that the next run reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.config.attention);
        footprint.object(&*self.config.attention);
        footprint.object(&self.config.interrupt);
        self.timers.footprint(footprint);
        self.models.footprint(footprint);
        self.stack.footprint(footprint);
    }
    /// Warnings with their counts.
    pub fn warnings(&self) -> &Map<String, u64> {
        &self.warnings
    }

    /// Advances the clock to `to`, before which all events have been executed.
    pub fn advance(&mut self, to: SimTime) {
        self.stack.clock.advance(to);
    }
    /// Crashes the host, as by a loss of power: connections are not closed, queues are lost.
    pub fn crash(&mut self) {
        if self.stack.is_down {
            return;
        }
        let cut = self.stack.cut_power();
        Models::crash(self);
        self.timers.clear();
        self.carry_out_effects();
        self.stack.lose_state(cut);
    }
    /// Restarts the host after a crash, and the experiment's models with it.
    pub fn restart(&mut self) {
        if !self.stack.is_down {
            return;
        }
        self.stack.restore_power();
        Models::schedule(self, self.stack.clock.now());
        self.stack.begin_bootstrap();
        self.stack.plan_arrivals();
    }
    /// Steps the wall clock by `ns` nanoseconds.
    pub fn step_clock(&mut self, ns: i64) {
        self.stack.clock.step(ns);
    }
    /// Sets the drift of the clock in parts per billion.
    pub fn set_clock_drift(&mut self, ppb: i64) {
        self.stack.clock.set_drift(ppb);
        self.stack.tcp_set_timers_anew();
    }
    /// Changes the bandwidths of `eth0` in bits per second; an inner `None` is unlimited.
    pub fn set_bandwidths(&mut self, up: Option<Option<u64>>, down: Option<Option<u64>>) {
        self.stack.set_bandwidths(up, down);
        self.carry_out_effects();
    }
    /// Sets the carrier of a link; its loss flushes the link's neighbours.
    pub fn set_carrier(&mut self, link: usize, carrier: bool) {
        self.stack.set_carrier(link, carrier);
        if !self.stack.is_down {
            self.stack.flush_network();
            self.carry_out_effects();
        }
    }
    /// Changes the transmission properties of a link.
    pub fn change_nic(&mut self, link: usize, change: &NicChange) {
        self.stack.change_nic(link, change);
        self.carry_out_effects();
    }
}

impl EventLoop for ModelHost {
    fn stack(&self) -> &Stack {
        &self.stack
    }
    fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }
    fn next_own_timer(&self) -> Option<TimerId> {
        self.timers.next_id()
    }
    fn fire_own_timer(&mut self) {
        if let Some(timer) = self.timers.pop_due(self.stack.clock.now()) {
            Models::fire(self, timer);
        }
    }
    fn work(&mut self, _: SimTime) -> bool {
        let has_work = self.models.has_work();
        if has_work {
            self.doing(Phase::Model);
            Models::run_next(self);
        }
        has_work
    }
    fn is_interrupted(&self) -> bool {
        self.config.interrupt.load(Relaxed) || self.is_held()
    }
    fn begin_event(&mut self, turn: Turn) {
        self.doing(if turn == Turn::Owner { Phase::Model } else { Phase::Network });
    }
    fn carry_out_effects(&mut self) {
        if !self.stack.has_effects() {
            return;
        }
        let mut effects = std::mem::take(&mut self.spare_effects);
        self.stack.take_effects(&mut effects);
        for effect in effects.drain(..) {
            match effect {
                Effect::Ready(socket, _) => self.models.socket_changed(socket),
                Effect::Note(what) => *self.warnings.entry(what.into()).or_default() += 1,
                // These effects have no subscribers here.
                Effect::Closed(_)
                | Effect::KernelLog(..)
                | Effect::Netfilter(..)
                | Effect::Urgent(_)
                | Effect::ProgramReady(..)
                | Effect::Passed(_)
                | Effect::Stamped(..)
                | Effect::Peer(..)
                | Effect::Further(..)
                | Effect::Neighbour(..)
                | Effect::Neighbour6(..)
                | Effect::AddressExpired(..)
                | Effect::Device(_)
                | Effect::AddressDeprecated(..) => {}
            }
        }
        self.spare_effects = effects;
    }
}

impl Owner for ModelHost {
    fn models(&self) -> &Models {
        &self.models
    }
    fn models_mut(&mut self) -> &mut Models {
        &mut self.models
    }
    /// All sockets belong to models.
    fn watch(&mut self, _: SocketKey) {}
    fn unwatch(&mut self, _: SocketKey) {}
    fn add_timer(&mut self, at: SimTime, timer: ModelTimer) {
        self.timers.insert(self.stack.timers.name(at), timer);
    }
}
