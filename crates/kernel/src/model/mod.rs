//! Traffic models on this host: programs without a process. They use the sockets and the stack that
//! guests use; a model waits in the queues of its sockets as an epoll instance does.

mod sockets;

use crate::host::Host;
use crate::ids::SocketKey;
use crate::timer::TimerAction;
use belljar_base::{Footprint, Map, SimTime, Stream};
use belljar_models::{Failure, Flow, Model, Socket, Spec};
use sockets::Sockets;
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

/// The models of a host.
#[derive(Default)]
#[repr(C)] // What is read often comes first: see `belljar_base::Footprint`.
pub(crate) struct Models {
    /// Sockets that have changed, and whose they are.
    changed: VecDeque<(u32, SocketKey)>,
    /// Running models, by their number in the configuration.
    running: Map<u32, Running>,
    /// Number of models that will start and have not yet.
    pending: usize,
    /// When one last finished.
    last_end: SimTime,
    /// Models started so far: tells a model's timers from those of its predecessor.
    generation: u32,
    /// Completed flows, each with the number of its model, in the order of their ends.
    flows: Vec<(u32, Flow)>,
    problems: Vec<(u32, Failure)>,
}

impl Models {
    /// Tells what is read of it where none runs.
    pub fn footprint(&self, footprint: &mut Footprint) {
        footprint.object(&self.changed);
        footprint.object(&self.running);
        footprint.object(&self.last_end);
    }
}

struct Running {
    /// Not there while it runs.
    model: Option<Box<dyn Model>>,
    random: Stream,
    generation: u32,
    /// Its sockets, and whether each is among the changed ones.
    sockets: Map<SocketKey, bool>,
}

impl Host {
    /// Sets the timers of the models, on a host that starts at `now`.
    pub(crate) fn schedule_models(&mut self, now: SimTime) {
        for (n, model) in self.config.models.iter().enumerate() {
            let n = n as u32;
            if model.start != SimTime::MAX {
                self.timers.insert(self.net.timers.name(model.start.max(now)), TimerAction::StartModel(n));
                self.models.pending += 1;
            }
            if let Some(stop) = model.stop.filter(|stop| *stop > now) {
                self.timers.insert(self.net.timers.name(stop), TimerAction::StopModel(n));
            }
        }
    }

    /// The time of a model has come.
    #[cold]
    pub(crate) fn start_model(&mut self, n: u32) {
        self.models.pending -= 1;
        self.start_model_again(n);
    }

    /// Starts the experiment's model number `n`, unless it runs.
    pub fn start_model_again(&mut self, n: u32) {
        if self.net.is_down || self.models.running.contains_key(&n) {
            return;
        }
        let spec = self.config.models[n as usize].spec.clone();
        let number = n.to_string();
        self.models.generation += 1;
        let generation = self.models.generation;
        // A host that starts again does not do the same again.
        let started = generation.to_string();
        let owner = ["host", &self.net.config.name, "model", &number, &started];
        let random = self.net.config.seed.stream(&owner);
        let model = Some(spec.build());
        self.models.running.insert(n, Running { model, random, generation, sockets: Map::new() });
        let mut failed = None;
        self.with_model(n, |model, sockets| failed = model.start(sockets).err());
        if let Some(failure) = failed {
            self.models.problems.push((n, failure));
            self.end_model(n);
        }
    }

    /// Ends a model from outside, if it runs.
    #[cold]
    pub fn stop_model(&mut self, n: u32) {
        self.with_model(n, |model, sockets| model.stop(sockets));
        self.end_model(n);
    }

    fn end_model(&mut self, n: u32) {
        let Some(running) = self.models.running.remove(&n) else { return };
        self.models.last_end = self.net.clock.now();
        for socket in running.sockets.into_keys() {
            self.close_socket(socket);
        }
        self.carry_out_effects();
    }

    pub(crate) fn wake_model(&mut self, n: u32, generation: u32, token: u64) {
        if self.models.running.get(&n).is_some_and(|running| running.generation == generation) {
            self.net.clock.charge();
            self.with_model(n, |model, sockets| model.wake(token, sockets));
        }
    }

    /// A socket of a model has changed: the model is told after what is under way.
    pub(crate) fn model_socket_changed(&mut self, n: u32, socket: SocketKey) {
        let running = self.models.running.get_mut(&n);
        if let Some(told) = running.and_then(|running| running.sockets.get_mut(&socket))
            && !std::mem::replace(told, true)
        {
            self.models.changed.push_back((n, socket));
        }
    }

    /// True if a model has something to do now.
    pub(crate) fn has_model_work(&self) -> bool {
        !self.models.changed.is_empty()
    }

    /// Tells a model of a socket that has changed.
    #[inline(never)]
    pub(crate) fn run_next_model(&mut self) {
        let Some((n, socket)) = self.models.changed.pop_front() else { return };
        let running = self.models.running.get_mut(&n);
        let Some(told) = running.and_then(|running| running.sockets.get_mut(&socket)) else { return };
        *told = false;
        self.net.clock.charge();
        self.with_model(n, |model, sockets| model.ready(Socket(socket.0), sockets));
    }

    /// Runs a model; one that has finished ends.
    fn with_model(&mut self, n: u32, run: impl FnOnce(&mut dyn Model, &mut Sockets<'_>)) {
        let Some(running) = self.models.running.get_mut(&n) else { return };
        let Some(mut model) = running.model.take() else { return };
        run(&mut *model, &mut Sockets { host: self, model: n });
        self.carry_out_effects();
        let finished = model.is_finished();
        if let Some(running) = self.models.running.get_mut(&n) {
            running.model = Some(model);
        }
        if finished {
            self.end_model(n);
        }
    }

    /// The host has lost its power: nothing is said to anybody.
    pub(crate) fn crash_models(&mut self) {
        for n in self.models.running.keys().copied().collect::<Vec<_>>() {
            self.with_model(n, |model, sockets| model.stop(sockets));
        }
        self.models.running.clear();
        self.models.changed.clear();
        self.models.pending = 0;
        self.models.last_end = self.net.clock.now();
    }

    /// When the last model ended that does something of its own accord; `None` while one runs or will.
    pub(crate) fn models_finished_at(&self) -> Option<SimTime> {
        let is_server = |n: &u32| self.config.models[*n as usize].spec.is_server();
        let idle = self.models.pending == 0 && self.models.running.keys().all(is_server);
        idle.then_some(self.models.last_end)
    }

    /// The simulation is over: what models have under way is put among what they have done.
    pub fn finish_models(&mut self) {
        for n in self.models.running.keys().copied().collect::<Vec<_>>() {
            self.with_model(n, |model, sockets| model.stop(sockets));
        }
    }
    /// Completed flows, each with the number of its model, in the order of their ends.
    pub fn flows(&self) -> &[(u32, Flow)] {
        &self.models.flows
    }
    /// The models that could not start, by their number, and why.
    pub fn model_problems(&self) -> &[(u32, Failure)] {
        &self.models.problems
    }
}
