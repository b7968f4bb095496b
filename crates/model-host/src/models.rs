//! Running models of a host. A model is notified of its sockets and timers between the events of the stack,
//! never during one.

use crate::sockets::Sockets;
use belljar_base::{Footprint, Map, SimTime, Stream};
use belljar_models::{Failure, FlowRecord, Model, ModelSocket, Spec};
use belljar_netstack::SocketKey;
use belljar_netstack::event_loop::EventLoop;
use std::collections::VecDeque;
use std::sync::Arc;

/// Model that the experiment starts.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// Specification.
    pub spec: Arc<Spec>,
    /// Start time; [`SimTime::MAX`] if only an event starts the model.
    pub start: SimTime,
    /// Stop time.
    pub stop: Option<SimTime>,
}

/// Timer of a host's models, ordered among the timers of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelTimer {
    /// Start of a model by the experiment.
    Start(u32),
    /// Stop of a model by the experiment.
    Stop(u32),
    /// Wake-up requested by a model.
    Wake {
        /// Index of the model in the configuration.
        model: u32,
        /// Generation, which distinguishes the model from a predecessor with the same index before a crash.
        generation: u32,
        /// Value chosen by the model.
        token: u64,
    },
}

/// Owner of a stack and of the models on it.
pub trait Owner: EventLoop {
    /// Models.
    fn models(&self) -> &Models;
    /// Mutable models.
    fn models_mut(&mut self) -> &mut Models;
    /// Subscribes to a socket: the owner calls [`Models::socket_changed`] whenever it may have changed.
    fn watch(&mut self, socket: SocketKey);
    /// Cancels [`watch`](Self::watch).
    fn unwatch(&mut self, socket: SocketKey);
    /// Sets a timer, on whose expiration the owner calls [`Models::fire`].
    fn add_timer(&mut self, at: SimTime, timer: ModelTimer);
}

/// Models of a host.
///
/// The owner calls [`schedule`](Self::schedule) when the host starts, [`fire`](Self::fire) for timers,
/// [`socket_changed`](Self::socket_changed) for sockets, and [`run_next`](Self::run_next) while there [is
/// work](Self::has_work). The experiment [starts](Self::start) and [stops](Self::stop) models,
/// [crashes](Self::crash) and [finishes](Self::finish) all of them. Functions that take an `owner` instead of
/// `self` run models, which use the owner's stack.
#[derive(Default)]
#[repr(C)] // Frequently read fields first: see `belljar_base::Footprint`.
pub struct Models {
    /// Sockets that have changed, with their models.
    changed: VecDeque<(u32, SocketKey)>,
    /// Running models by index in the configuration.
    running: Map<u32, Running>,
    /// Sockets of models.
    sockets: Map<SocketKey, Owned>,
    /// Number of models that have yet to start.
    pending: usize,
    /// Time at which a model last finished.
    last_end: SimTime,
    /// Number of models started so far, the generation of the newest.
    generation: u32,
    specs: Vec<ModelSpec>,
    /// Completed flows with the indices of their models, in order of completion.
    flows: Vec<(u32, FlowRecord)>,
    problems: Vec<(u32, Failure)>,
}

struct Running {
    /// Model; `None` while it is being called.
    model: Option<Box<dyn Model>>,
    random: Stream,
    generation: u32,
}

/// Socket of a model.
struct Owned {
    model: u32,
    /// True if it is in `Models::changed`.
    changed: bool,
}

impl Models {
    /// Creates the models of an experiment, none of them started.
    pub fn new(specs: Vec<ModelSpec>) -> Models {
        Models { specs, ..Models::default() }
    }
    /// Reports the memory read when no model has work.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.changed);
        footprint.object(&self.running);
        footprint.object(&self.last_end);
    }
    /// Records that a socket may have changed. If a model owns it, the model is notified after the current
    /// event.
    pub fn socket_changed(&mut self, socket: SocketKey) {
        if let Some(owned) = self.sockets.get_mut(&socket)
            && !std::mem::replace(&mut owned.changed, true)
        {
            self.changed.push_back((owned.model, socket));
        }
    }
    /// True if a model has work now.
    pub fn has_work(&self) -> bool {
        !self.changed.is_empty()
    }
    /// Time at which the last client model finished; `None` while one runs or has yet to start.
    pub fn finished_at(&self) -> Option<SimTime> {
        let is_server = |n: &u32| self.specs[*n as usize].spec.is_server();
        let idle = self.pending == 0 && self.running.keys().all(is_server);
        idle.then_some(self.last_end)
    }
    /// Completed flows with the indices of their models, in order of completion.
    pub fn flows(&self) -> &[(u32, FlowRecord)] {
        &self.flows
    }
    /// Models that could not start, by index, with the failure.
    pub fn problems(&self) -> &[(u32, Failure)] {
        &self.problems
    }

    /// Random stream of a running model.
    pub(crate) fn random(&mut self, n: u32) -> &mut Stream {
        &mut self.running.get_mut(&n).expect("a model that is called runs").random
    }
    /// Generation of a running model.
    pub(crate) fn generation(&self, n: u32) -> Option<u32> {
        self.running.get(&n).map(|running| running.generation)
    }
    /// Records that a model owns a socket.
    pub(crate) fn own(&mut self, model: u32, socket: SocketKey) {
        self.sockets.insert(socket, Owned { model, changed: false });
    }
    /// Records that a model has closed a socket.
    pub(crate) fn disown(&mut self, socket: SocketKey) {
        self.sockets.remove(&socket);
    }
    /// Records a completed flow of a model.
    pub(crate) fn record(&mut self, model: u32, flow: FlowRecord) {
        self.flows.push((model, flow));
    }
}

/// Functions that run models and therefore need the owner.
impl Models {
    /// Sets the start and stop timers of the models, on a host that starts at `now`.
    pub fn schedule(owner: &mut impl Owner, now: SimTime) {
        for n in 0..owner.models().specs.len() {
            let ModelSpec { start, stop, .. } = owner.models().specs[n];
            let n = n as u32;
            if start != SimTime::MAX {
                owner.add_timer(start.max(now), ModelTimer::Start(n));
                owner.models_mut().pending += 1;
            }
            if let Some(stop) = stop.filter(|stop| *stop > now) {
                owner.add_timer(stop, ModelTimer::Stop(n));
            }
        }
    }

    /// Handles the expiration of a timer.
    pub fn fire(owner: &mut impl Owner, timer: ModelTimer) {
        match timer {
            ModelTimer::Start(n) => {
                owner.models_mut().pending -= 1;
                Models::start(owner, n);
            }
            ModelTimer::Stop(n) => Models::stop(owner, n),
            ModelTimer::Wake { model, generation, token } => {
                if owner.models().generation(model) == Some(generation) {
                    owner.stack_mut().clock.work_of_model(true);
                    Models::with(owner, model, |model, sockets| model.wake(token, sockets));
                }
            }
        }
    }

    /// Starts model `n`, unless it is running.
    pub fn start<O: Owner>(owner: &mut O, n: u32) {
        if owner.stack().is_down || owner.models().running.contains_key(&n) {
            return;
        }
        let models = owner.models_mut();
        models.generation += 1;
        let (generation, spec) = (models.generation, models.specs[n as usize].spec.clone());
        // A restarted model draws a different random stream.
        let (number, started) = (n.to_string(), generation.to_string());
        let config = &owner.stack().config;
        let random = config.seed.stream(&["host", &config.name, "model", &number, &started]);
        let model = Some(spec.build());
        owner.models_mut().running.insert(n, Running { model, random, generation });
        let mut failed = None;
        Models::with(owner, n, |model, sockets: &mut Sockets<'_, O>| failed = model.start(sockets).err());
        if let Some(failure) = failed {
            owner.models_mut().problems.push((n, failure));
            Models::end(owner, n);
        }
    }

    /// Stops model `n`, if it is running.
    #[cold]
    pub fn stop(owner: &mut impl Owner, n: u32) {
        Models::with(owner, n, |model, sockets| model.stop(sockets));
        Models::end(owner, n);
    }

    /// Notifies a model of a changed socket.
    #[inline(never)]
    pub fn run_next(owner: &mut impl Owner) {
        let models = owner.models_mut();
        let Some((n, socket)) = models.changed.pop_front() else { return };
        let Some(owned) = models.sockets.get_mut(&socket).filter(|owned| owned.model == n) else { return };
        owned.changed = false;
        owner.stack_mut().clock.work_of_model(true);
        Models::with(owner, n, |model, sockets| model.ready(ModelSocket(socket.0), sockets));
    }

    /// Stops all models after a loss of power, without sending anything.
    pub fn crash(owner: &mut impl Owner) {
        Models::finish(owner);
        let now = owner.stack().clock.now();
        let models = owner.models_mut();
        models.running.clear();
        models.changed.clear();
        models.sockets.clear();
        models.pending = 0;
        models.last_end = now;
    }

    /// Ends the simulation: models record their unfinished flows.
    pub fn finish(owner: &mut impl Owner) {
        for n in owner.models().running.keys().copied().collect::<Vec<_>>() {
            Models::with(owner, n, |model, sockets| model.stop(sockets));
        }
    }

    /// Calls a running model and ends it if it has finished.
    fn with<O: Owner>(owner: &mut O, n: u32, run: impl FnOnce(&mut dyn Model, &mut Sockets<'_, O>)) {
        let Some(running) = owner.models_mut().running.get_mut(&n) else { return };
        let Some(mut model) = running.model.take() else { return };
        run(&mut *model, &mut Sockets { owner, model: n });
        owner.carry_out_effects();
        let finished = model.is_finished();
        if let Some(running) = owner.models_mut().running.get_mut(&n) {
            running.model = Some(model);
        }
        if finished {
            Models::end(owner, n);
        }
    }

    fn end(owner: &mut impl Owner, n: u32) {
        let now = owner.stack().clock.now();
        let models = owner.models_mut();
        if models.running.remove(&n).is_none() {
            return;
        }
        models.last_end = now;
        let sockets = models.sockets.iter().filter(|(_, owned)| owned.model == n);
        for socket in sockets.map(|(key, _)| *key).collect::<Vec<_>>() {
            owner.models_mut().sockets.remove(&socket);
            owner.stack_mut().close(socket);
        }
        owner.carry_out_effects();
    }
}
