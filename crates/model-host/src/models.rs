//! The running models of a host. A model is told of its sockets and of its times between the events of the stack, never
//! inside them.

use crate::sockets::Sockets;
use belljar_base::{Footprint, Map, SimTime, Stream};
use belljar_models::{Failure, FlowRecord, Model, ModelSocket, Spec};
use belljar_netstack::{SocketKey, Stack};
use std::collections::VecDeque;
use std::sync::Arc;

/// A model that the experiment starts.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// Its specification.
    pub spec: Arc<Spec>,
    /// When it starts; [`SimTime::MAX`] if only an event starts it.
    pub start: SimTime,
    /// When it is stopped.
    pub stop: Option<SimTime>,
}

/// A timer of a host's models, which fires in turn with those of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelTimer {
    /// The experiment starts a model.
    Start(u32),
    /// The experiment stops it.
    Stop(u32),
    /// A model asked to be woken.
    Wake {
        /// Its number in the configuration.
        model: u32,
        /// Tells it from another one of the same number, before a crash.
        generation: u32,
        /// The model's own value.
        token: u64,
    },
}

/// The owner of a stack and of the models on it.
pub trait Owner {
    /// The stack.
    fn stack(&self) -> &Stack;
    /// The stack.
    fn stack_mut(&mut self) -> &mut Stack;
    /// The models.
    fn models(&self) -> &Models;
    /// The models.
    fn models_mut(&mut self) -> &mut Models;
    /// From now on [`Models::socket_changed`] is called whenever a socket may have changed.
    fn watch(&mut self, socket: SocketKey);
    /// The contrary.
    fn unwatch(&mut self, socket: SocketKey);
    /// Sets a timer; [`Models::fire`] when its time has come.
    fn add_timer(&mut self, at: SimTime, timer: ModelTimer);
    /// Does what the stack has left to be done.
    fn carry_out_effects(&mut self);
}

/// The models of a host.
///
/// Its owner calls [`schedule`](Self::schedule) when the host starts, [`fire`](Self::fire) for its timers,
/// [`socket_changed`](Self::socket_changed) for its sockets, and [`run_next`](Self::run_next) while there
/// [is work](Self::has_work). The experiment [starts](Self::start) and [stops](Self::stop) models, [crashes](Self::crash) and
/// [finishes](Self::finish) all of them. What takes an `owner` instead of `self` runs models, which use the owner's stack.
#[derive(Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub struct Models {
    /// Sockets that have changed, and whose they are.
    changed: VecDeque<(u32, SocketKey)>,
    /// Running models, by their number in the configuration.
    running: Map<u32, Running>,
    /// Their sockets.
    sockets: Map<SocketKey, Owned>,
    /// Number of models that will start and have not yet.
    pending: usize,
    /// When one last finished.
    last_end: SimTime,
    /// Models started so far: tells a model's timers from those of its predecessor.
    generation: u32,
    specs: Vec<ModelSpec>,
    /// Completed flows, each with the number of its model, in the order of their ends.
    flows: Vec<(u32, FlowRecord)>,
    problems: Vec<(u32, Failure)>,
}

struct Running {
    /// Not there while it runs.
    model: Option<Box<dyn Model>>,
    random: Stream,
    generation: u32,
}

/// A socket of a model.
struct Owned {
    model: u32,
    /// It is among the changed ones.
    changed: bool,
}

impl Models {
    /// The models of an experiment, none of which has started.
    pub fn new(specs: Vec<ModelSpec>) -> Models {
        Models { specs, ..Models::default() }
    }
    /// Tells what is read of it where none runs.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.changed);
        footprint.object(&self.running);
        footprint.object(&self.last_end);
    }
    /// A socket may have changed: if it is a model's, the model is told after what is under way.
    pub fn socket_changed(&mut self, socket: SocketKey) {
        if let Some(owned) = self.sockets.get_mut(&socket)
            && !std::mem::replace(&mut owned.changed, true)
        {
            self.changed.push_back((owned.model, socket));
        }
    }
    /// True if a model has something to do now.
    pub fn has_work(&self) -> bool {
        !self.changed.is_empty()
    }
    /// When the last model ended that does something of its own accord; `None` while one runs or will.
    pub fn finished_at(&self) -> Option<SimTime> {
        let is_server = |n: &u32| self.specs[*n as usize].spec.is_server();
        let idle = self.pending == 0 && self.running.keys().all(is_server);
        idle.then_some(self.last_end)
    }
    /// Completed flows, each with the number of its model, in the order of their ends.
    pub fn flows(&self) -> &[(u32, FlowRecord)] {
        &self.flows
    }
    /// The models that could not start, by their number, and why.
    pub fn problems(&self) -> &[(u32, Failure)] {
        &self.problems
    }

    /// A running model's own random numbers.
    pub(crate) fn random(&mut self, n: u32) -> &mut Stream {
        &mut self.running.get_mut(&n).expect("a model that is called runs").random
    }
    /// Tells a running model from others of its number.
    pub(crate) fn generation(&self, n: u32) -> Option<u32> {
        self.running.get(&n).map(|running| running.generation)
    }
    /// A model owns a socket from now on.
    pub(crate) fn own(&mut self, model: u32, socket: SocketKey) {
        self.sockets.insert(socket, Owned { model, changed: false });
    }
    /// A model has closed a socket.
    pub(crate) fn disown(&mut self, socket: SocketKey) {
        self.sockets.remove(&socket);
    }
    /// A flow of a model is over.
    pub(crate) fn record(&mut self, model: u32, flow: FlowRecord) {
        self.flows.push((model, flow));
    }
}

/// What runs models, and so needs their owner.
impl Models {
    /// Sets the timers of the models, on a host that starts at `now`.
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

    /// A timer's time has come.
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

    /// Starts the experiment's model number `n`, unless it runs.
    pub fn start<O: Owner>(owner: &mut O, n: u32) {
        if owner.stack().is_down || owner.models().running.contains_key(&n) {
            return;
        }
        let models = owner.models_mut();
        models.generation += 1;
        let (generation, spec) = (models.generation, models.specs[n as usize].spec.clone());
        // A host that starts again does not do the same again.
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

    /// Ends a model from outside, if it runs.
    #[cold]
    pub fn stop(owner: &mut impl Owner, n: u32) {
        Models::with(owner, n, |model, sockets| model.stop(sockets));
        Models::end(owner, n);
    }

    /// Tells a model of a socket that has changed.
    #[inline(never)]
    pub fn run_next(owner: &mut impl Owner) {
        let models = owner.models_mut();
        let Some((n, socket)) = models.changed.pop_front() else { return };
        let Some(owned) = models.sockets.get_mut(&socket).filter(|owned| owned.model == n) else { return };
        owned.changed = false;
        owner.stack_mut().clock.work_of_model(true);
        Models::with(owner, n, |model, sockets| model.ready(ModelSocket(socket.0), sockets));
    }

    /// The host has lost its power: nothing is said to anybody.
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

    /// The simulation is over: what models have under way is put among what they have done.
    pub fn finish(owner: &mut impl Owner) {
        for n in owner.models().running.keys().copied().collect::<Vec<_>>() {
            Models::with(owner, n, |model, sockets| model.stop(sockets));
        }
    }

    /// Runs a model; one that has finished ends.
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
