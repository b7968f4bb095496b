//! The simulated host of a node: a kernel with programs, or traffic models without a kernel.

use belljar_base::activity::Phase;
use belljar_base::{Footprint, Map, SimTime};
use belljar_kernel::Host;
use belljar_model_host::{ModelHost, Models, Owner};
use belljar_netstack::Stack;
use belljar_plan::{HostChange, LinkChange};

/// See the [module](self).
pub enum SimulatedHost {
    /// A host with programs, and models besides if the experiment has some for it.
    Linux(Box<Host>),
    /// A host of models alone.
    Models(Box<ModelHost>),
}

use SimulatedHost::{Linux, Models as OfModels};

/// Calls the same method of both.
macro_rules! both {
    ($self:ident, $host:ident => $call:expr) => {
        match $self {
            Linux($host) => $call,
            OfModels($host) => $call,
        }
    };
}

impl SimulatedHost {
    /// Its kernel, if it has one.
    pub fn linux(&self) -> Option<&Host> {
        match self {
            Linux(host) => Some(host),
            OfModels(_) => None,
        }
    }
    /// Its kernel, if it has one.
    pub fn linux_mut(&mut self) -> Option<&mut Host> {
        match self {
            Linux(host) => Some(host),
            OfModels(_) => None,
        }
    }
    /// The kernel of the process that a debugger is at.
    pub fn debugged(&mut self) -> &mut Host {
        self.linux_mut().expect("what is debugged is a process")
    }
    /// Its network stack.
    pub fn stack(&self) -> &Stack {
        both!(self, host => host.stack())
    }
    /// Its network stack.
    pub fn stack_mut(&mut self) -> &mut Stack {
        both!(self, host => host.stack_mut())
    }
    /// Its traffic models.
    pub fn models(&self) -> &Models {
        both!(self, host => host.models())
    }
    /// Its name.
    pub fn name(&self) -> &str {
        &self.stack().config.name
    }

    /// Runs everything that happens strictly before `limit`.
    pub fn run_until(&mut self, limit: SimTime) {
        both!(self, host => host.run_until(limit));
    }
    /// Moves the clock on to `to`, until when it has stood still.
    pub fn advance(&mut self, to: SimTime) {
        both!(self, host => host.advance(to));
    }
    /// When it will next do something.
    pub fn next_event(&self) -> Option<SimTime> {
        both!(self, host => host.next_event())
    }
    /// When it was done; `None` while it is not.
    pub fn finished_at(&self) -> Option<SimTime> {
        match self {
            Linux(host) => host.finished_at(),
            OfModels(host) => host.models().finished_at(),
        }
    }
    /// True if somebody outside wants something of it, or has stopped it.
    pub fn is_held(&self) -> bool {
        both!(self, host => host.is_held())
    }
    /// This is being done from now on.
    pub fn doing(&self, phase: Phase) {
        both!(self, host => host.doing(phase));
    }
    /// Tells what is read when it runs next.
    pub fn footprint(&self, footprint: &mut Footprint) {
        both!(self, host => host.footprint(footprint));
    }
    /// Warnings and their counts.
    pub fn warnings(&self) -> &Map<String, u64> {
        both!(self, host => host.warnings())
    }
    /// True if there are captures or logs to be taken.
    pub fn has_logged(&self) -> bool {
        match self {
            Linux(host) => host.has_logged(),
            OfModels(host) => !host.stack().captured.is_empty() || !host.stack().route_log.is_empty(),
        }
    }

    /// Lets a change of the experiment happen at `at`, before which everything has been run.
    pub fn change(&mut self, at: SimTime, change: HostChange) {
        both!(self, host => host.advance(at));
        match change {
            HostChange::Crash { lose_files } => match self {
                Linux(host) => host.crash(lose_files),
                OfModels(host) => host.crash(),
            },
            HostChange::Restart => both!(self, host => host.restart()),
            HostChange::NameServer { down } => self.stack_mut().set_resolver_down(down),
            HostChange::Start(process) => {
                self.linux_mut().into_iter().for_each(|host| host.start_again(process))
            }
            HostChange::Signal(process, signal) => {
                self.linux_mut().into_iter().for_each(|host| host.signal_program(process, signal));
            }
            HostChange::StartModel(model) => both!(self, host => Models::start(&mut **host, model)),
            HostChange::StopModel(model) => both!(self, host => Models::stop(&mut **host, model)),
            HostChange::Step(ns) => both!(self, host => host.step_clock(ns)),
            HostChange::Drift(ppb) => both!(self, host => host.set_clock_drift(ppb)),
            HostChange::Bandwidth { up, down } => both!(self, host => host.set_bandwidths(up, down)),
            HostChange::Link(LinkChange::Carrier(link, on)) => {
                both!(self, host => host.set_carrier(link, on))
            }
            HostChange::Link(LinkChange::Nic(link, change)) => {
                both!(self, host => host.change_nic(link, &change));
            }
            HostChange::Link(LinkChange::Routes(routes)) => self.stack_mut().set_routes(routes),
            HostChange::Link(LinkChange::Routes6(routes)) => self.stack_mut().set_routes6(routes),
            HostChange::Link(LinkChange::Blocked(_)) => {}
        }
    }

    /// The simulation is over: what is under way is put among what has been done.
    pub fn finish(&mut self) {
        match self {
            Linux(host) => {
                Models::finish(&mut **host);
                host.finish_processes();
            }
            OfModels(host) => Models::finish(&mut **host),
        }
    }
}
