//! A host of traffic models alone: a network stack, the models on it, and no kernel.

use crate::models::{ModelSpec, ModelTimer, Models, Owner};
use belljar_base::activity::{Activity, Board, Phase};
use belljar_base::{Footprint, Map, SimTime};
use belljar_net::NicChange;
use belljar_netstack::clock::Clock;
use belljar_netstack::{Effect, SocketKey, Stack, StackConfig, TimerQueue, Turn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Configuration that a host of models is made from, besides that of its stack.
#[derive(Debug)]
pub struct ModelHostConfig {
    /// Its models.
    pub models: Vec<ModelSpec>,
    /// Once set, [`ModelHost::run_until`] returns early: the run is being given up.
    pub interrupt: Arc<AtomicBool>,
    /// Set from outside, it makes [`ModelHost::run_until`] return early: somebody wants something of the host. Whoever runs it
    /// takes it back before running it on.
    pub attention: Arc<AtomicBool>,
    /// Where to say what is being done, for who looks on.
    pub watched: Option<Arc<Board>>,
}

/// A host that runs traffic models and no programs. Its owner calls it as it calls a host with a kernel: packets in by
/// [`Stack::deliver`] and out by [`Stack::take_departures`], [`run_until`](Self::run_until) for the time, and the changes of
/// the experiment once [the clock](Self::advance) is at their time.
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct ModelHost {
    config: ModelHostConfig,
    timers: TimerQueue<ModelTimer>,
    models: Models,
    stack: Stack,
    /// Room for what the stack leaves to be done.
    spare_effects: Vec<Effect>,
    warnings: Map<String, u64>,
}

impl ModelHost {
    /// A host at the start of the simulation. Nothing has run yet.
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

    /// Runs everything that happens strictly before `limit`.
    pub fn run_until(&mut self, limit: SimTime) {
        while !self.config.interrupt.load(Relaxed) && !self.is_held() {
            let now = self.stack.clock.now();
            match self.next_due() {
                // Work may have moved the clock past the limit, beyond which not everything has been delivered.
                Some(at) if at <= now && at < limit => self.fire_next(),
                _ if now >= limit => break,
                _ if self.models.has_work() => {
                    self.doing(Phase::Model);
                    Models::run_next(self);
                }
                _ if self.stack.is_yielding() => self.stack.stop_yielding(),
                Some(at) if at < limit => self.stack.clock.advance(at),
                _ => break,
            }
        }
        self.stack.take_arrivals(limit);
        self.stack.plan_arrivals();
    }
    /// When the host will next do something; `None` if nothing but a packet can wake it.
    pub fn next_event(&self) -> Option<SimTime> {
        match self.models.has_work() {
            true => Some(self.stack.clock.now()),
            false => [self.stack.next_event(), self.timers.next()].into_iter().flatten().min(),
        }
    }
    fn next_due(&self) -> Option<SimTime> {
        [self.stack.next_due(), self.timers.next()].into_iter().flatten().min()
    }
    /// Handles the earliest due event.
    fn fire_next(&mut self) {
        match self.stack.next_turn(self.timers.next_id()) {
            Turn::Arrival => {
                self.doing(Phase::Network);
                self.stack.receive_arrival();
            }
            Turn::Timer => {
                self.doing(Phase::Network);
                self.stack.fire_timer();
            }
            Turn::Owner => {
                self.doing(Phase::Model);
                if let Some(timer) = self.timers.pop_due(self.stack.clock.now()) {
                    Models::fire(self, timer);
                }
            }
        }
        self.carry_out_effects();
    }
    /// This is being done from now on.
    pub fn doing(&self, phase: Phase) {
        if let Some(board) = &self.config.watched {
            board.doing(Activity::of(phase, self.stack.config.id.0));
        }
    }
    /// True if somebody wants something of the host.
    pub fn is_held(&self) -> bool {
        self.config.attention.load(Relaxed)
    }
    /// Tells what is read when it runs next.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.config.attention);
        footprint.object(&*self.config.attention);
        footprint.object(&self.config.interrupt);
        self.timers.footprint(footprint);
        self.models.footprint(footprint);
        self.stack.footprint(footprint);
    }
    /// Warnings and their counts.
    pub fn warnings(&self) -> &Map<String, u64> {
        &self.warnings
    }

    /// Moves the clock on to `to`, before which everything has happened.
    pub fn advance(&mut self, to: SimTime) {
        self.stack.clock.advance(to);
    }
    /// Stops at once, as by a loss of power: no connection is closed, what is queued is lost.
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
    /// Starts again after a crash, and the experiment's models with it.
    pub fn restart(&mut self) {
        if !self.stack.is_down {
            return;
        }
        self.stack.restore_power();
        Models::schedule(self, self.stack.clock.now());
        self.stack.begin_bootstrap();
        self.stack.plan_arrivals();
    }
    /// Sets the wall clock forward by so many nanoseconds, or back.
    pub fn step_clock(&mut self, ns: i64) {
        self.stack.clock.step(ns);
    }
    /// Lets the clock gain so many parts per billion from now on.
    pub fn set_clock_drift(&mut self, ppb: i64) {
        self.stack.clock.set_drift(ppb);
        self.stack.tcp_set_timers_anew();
    }
    /// Changes what `eth0` can send and receive, in bits per second; the inner `None` is unlimited.
    pub fn set_bandwidths(&mut self, up: Option<Option<u64>>, down: Option<Option<u64>>) {
        self.stack.set_bandwidths(up, down);
        self.carry_out_effects();
    }
    /// A link loses its carrier, and with it its neighbours, or finds it.
    pub fn set_carrier(&mut self, link: usize, carrier: bool) {
        self.stack.set_carrier(link, carrier);
        if !self.stack.is_down {
            self.stack.flush_network();
            self.carry_out_effects();
        }
    }
    /// Changes how a link sends.
    pub fn change_nic(&mut self, link: usize, change: &NicChange) {
        self.stack.change_nic(link, change);
        self.carry_out_effects();
    }
}

impl Owner for ModelHost {
    fn stack(&self) -> &Stack {
        &self.stack
    }
    fn stack_mut(&mut self) -> &mut Stack {
        &mut self.stack
    }
    fn models(&self) -> &Models {
        &self.models
    }
    fn models_mut(&mut self) -> &mut Models {
        &mut self.models
    }
    /// All sockets here are the models'.
    fn watch(&mut self, _: SocketKey) {}
    fn unwatch(&mut self, _: SocketKey) {}
    fn add_timer(&mut self, at: SimTime, timer: ModelTimer) {
        self.timers.insert(self.stack.timers.name(at), timer);
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
                // Nobody has asked to be told of these here.
                Effect::Closed(_)
                | Effect::Urgent(_)
                | Effect::ProgramReady(..)
                | Effect::Passed(_)
                | Effect::Peer(..)
                | Effect::Neighbour(..)
                | Effect::Neighbour6(..)
                | Effect::AddressExpired(..)
                | Effect::AddressDeprecated(..) => {}
            }
        }
        self.spare_effects = effects;
    }
}
