//! Simulated host of a node: a kernel with programs, or traffic models without a kernel.

use belljar_base::activity::Phase;
use belljar_base::{Footprint, Map, SimTime};
use belljar_config::ProcessRef;
use belljar_kernel::kill::Meant;
use belljar_kernel::{Host, call_faults, disk_faults, memory, new_root, suspension, upgrade};
use belljar_machine::CrashFiles;
use belljar_model_host::{ModelHost, Models, Owner};
use belljar_netstack::Stack;
use belljar_netstack::event_loop::EventLoop;
use belljar_netstack::tcp::{ConnectionEnd, break_connections};
use belljar_plan::{HostChange, LinkChange, NewRoot, ProcessPlan};
use std::net::IpAddr;

/// Simulated host. See the [module](self).
pub enum SimulatedHost {
    /// Host with a kernel and programs, and possibly models.
    Linux(Box<Host>),
    /// Host with models only.
    Models(Box<ModelHost>),
}

use SimulatedHost::{Linux, Models as OfModels};

/// Calls the same method of both variants.
macro_rules! both {
    ($self:ident, $host:ident => $call:expr) => {
        match $self {
            Linux($host) => $call,
            OfModels($host) => $call,
        }
    };
}

impl SimulatedHost {
    /// Kernel, if the host has one.
    pub fn linux(&self) -> Option<&Host> {
        match self {
            Linux(host) => Some(host),
            OfModels(_) => None,
        }
    }
    /// Kernel, if the host has one.
    pub fn linux_mut(&mut self) -> Option<&mut Host> {
        match self {
            Linux(host) => Some(host),
            OfModels(_) => None,
        }
    }
    /// Kernel of a host that is being debugged. Panics if the host has none.
    pub fn debugged(&mut self) -> &mut Host {
        self.linux_mut().expect("what is debugged is a process")
    }
    /// Network stack.
    pub fn stack(&self) -> &Stack {
        both!(self, host => host.stack())
    }
    /// Network stack.
    pub fn stack_mut(&mut self) -> &mut Stack {
        both!(self, host => host.stack_mut())
    }
    /// Stacks of all network namespaces.
    pub fn stacks(&self) -> impl Iterator<Item = &Stack> {
        let further = self.linux().into_iter().flat_map(|host| host.networks.stacks());
        std::iter::once(self.stack()).chain(further)
    }
    /// Traffic models.
    pub fn models(&self) -> &Models {
        both!(self, host => host.models())
    }
    /// Name of the host.
    pub fn name(&self) -> &str {
        &self.stack().config.name
    }

    /// Processes all events strictly before `limit`.
    pub fn run_until(&mut self, limit: SimTime) {
        both!(self, host => host.run_until(limit));
    }
    /// Advances the clock to `to`, after the host was stalled.
    pub fn advance(&mut self, to: SimTime) {
        both!(self, host => host.advance(to));
    }
    /// Time of the next event.
    pub fn next_event(&self) -> Option<SimTime> {
        both!(self, host => host.next_event())
    }
    /// Time at which the host finished; `None` if it has not.
    pub fn finished_at(&self) -> Option<SimTime> {
        match self {
            Linux(host) => host.finished_at(),
            OfModels(host) => host.models().finished_at(),
        }
    }
    /// True if a debugger or viewer requests attention, or has stopped the host.
    pub fn is_held(&self) -> bool {
        both!(self, host => host.is_held())
    }
    /// Publishes the current activity.
    pub fn doing(&self, phase: Phase) {
        both!(self, host => host.doing(phase));
    }
    /// Records the memory that the next run reads.
    pub fn footprint(&self, footprint: &mut Footprint) {
        both!(self, host => host.footprint(footprint));
    }
    /// Warnings with their counts.
    pub fn warnings(&self) -> &Map<String, u64> {
        both!(self, host => host.warnings())
    }
    /// True if there are captures or logs to be collected.
    pub fn has_logged(&self) -> bool {
        match self {
            Linux(host) => host.has_logged(),
            OfModels(host) => !host.stack().captured.is_empty() || !host.stack().route_log.is_empty(),
        }
    }

    /// Resets TCP connections, as a segment from the middle of the path would, with the remote addresses that `is_peer` accepts.
    /// Returns their number.
    pub fn reset_connections(&mut self, at: SimTime, is_peer: &dyn Fn(IpAddr) -> bool) -> u64 {
        both!(self, host => host.advance(at));
        if self.stack().is_down {
            return 0;
        }
        let count = break_connections(self.stack_mut(), &|remote| is_peer(remote.ip()), ConnectionEnd::Reset);
        both!(self, host => EventLoop::carry_out_effects(&mut **host));
        count
    }

    /// Applies a change of the experiment at `at`, when all earlier events have been processed.
    pub fn change(&mut self, at: SimTime, change: HostChange) {
        both!(self, host => host.advance(at));
        match change {
            HostChange::Crash { files } => match self {
                Linux(host) => host.crash(match files {
                    belljar_config::CrashFiles::Kept => CrashFiles::Kept,
                    belljar_config::CrashFiles::Lost => CrashFiles::Lost,
                    belljar_config::CrashFiles::Unsynced { torn, .. } => CrashFiles::Unsynced { torn },
                }),
                OfModels(host) => host.crash(),
            },
            HostChange::Pause | HostChange::Resume => unreachable!("the node holds the host"),
            HostChange::Cpu { .. } | HostChange::CpuHeal(_) => unreachable!("the node measures the share"),
            HostChange::PauseProcess { .. } => unreachable!("the node counts the processes"),
            HostChange::ResumeEvent(event) => {
                self.linux_mut().into_iter().for_each(|host| suspension::end_event(host, event));
            }
            HostChange::ResumeProcess(process) => {
                self.linux_mut().into_iter().for_each(|host| suspension::end(host, &meant(&process)));
            }
            HostChange::ConnectionReset(_) => unreachable!("the node knows the peers"),
            HostChange::Kill { .. } | HostChange::Revive(_) => unreachable!("the node knows what was killed"),
            HostChange::DiskFault { event, fault } => {
                self.linux_mut().into_iter().for_each(|host| disk_faults::begin(host, event, *fault.clone()));
            }
            HostChange::DiskHeal(event) => {
                self.linux_mut().into_iter().for_each(|host| disk_faults::end(host, event));
            }
            HostChange::CallFault { event, fault } => {
                self.linux_mut().into_iter().for_each(|host| call_faults::begin(host, event, fault.clone()));
            }
            HostChange::CallHeal(event) => {
                self.linux_mut().into_iter().for_each(|host| call_faults::end(host, event));
            }
            HostChange::Memory { event, limit } => {
                self.linux_mut().into_iter().for_each(|host| memory::begin(host, event, limit));
            }
            HostChange::MemoryHeal(event) => {
                self.linux_mut().into_iter().for_each(|host| memory::end(host, event));
            }
            HostChange::Restart => both!(self, host => host.restart()),
            HostChange::NewRoot(new) => {
                if let Some(host) = self.linux_mut() {
                    new_root::restart_with(host, new_root_of(*new));
                }
            }
            HostChange::NameServer { down } => {
                if let Some(resolver) = &mut self.stack_mut().config.resolver {
                    resolver.down = down;
                }
            }
            HostChange::DnsFault { event, fault } => {
                if let Some(resolver) = &mut self.stack_mut().config.resolver {
                    resolver.faults.begin(event, fault);
                }
            }
            HostChange::DnsHeal(event) => {
                if let Some(resolver) = &mut self.stack_mut().config.resolver {
                    resolver.faults.end(event);
                }
            }
            HostChange::Start(process) => {
                self.linux_mut().into_iter().for_each(|host| host.start_again(process))
            }
            HostChange::Upgrade { from, to } => {
                self.linux_mut().into_iter().for_each(|host| upgrade::begin(host, from, to));
            }
            HostChange::UpgradeEnd(from) => {
                self.linux_mut().into_iter().for_each(|host| upgrade::end(host, from));
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

    /// Finishes the host at the end of the simulation: activities in progress are recorded.
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

/// Processes that an event means, as the kernel names them.
pub fn meant(process: &ProcessRef) -> Meant<'_> {
    match process {
        ProcessRef::Number(spec) => Meant::Listed(*spec),
        ProcessRef::Program(name) => Meant::Named(name),
    }
}

/// Another root as the kernel needs it.
fn new_root_of(new: NewRoot) -> new_root::NewRoot {
    let program = |process: ProcessPlan| new_root::RootProgram {
        path: process.path,
        args: process.args,
        environment: process.environment,
        user: process.user,
    };
    new_root::NewRoot {
        directory: new.directory,
        working_directory: new.working_directory,
        keep: new.keep,
        programs: new.processes.into_iter().map(program).collect(),
    }
}
