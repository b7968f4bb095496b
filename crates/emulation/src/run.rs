//! Course of an emulation: execution of its schedule by the clock, and notifications from hosts.

use crate::Lateness;
use crate::clock::{ExperimentClock, monotonic_ns};
use crate::error::{Doing, Error, Result};
use crate::network::Bucket;
use crate::nodes::{HostNews, Node, apply_settings, slow_settings};
use crate::protocol::{News, ProcessStart, Request};
use crate::timeline::{Action, timeline};
use crate::world::{Report, report};
use belljar_base::{Map, Setup, SimTime, Start};
use belljar_config::{Experiment, FinalState};
use belljar_plan::outcome::{End, Observation};
use belljar_plan::{HostChange, LinkChange, Plan, ProcessPlan};
use belljar_results::AttendedProgram;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Interval between two progress reports, and longest sleep.
const REFRESH: Duration = Duration::from_millis(100);
/// Time limit for hosts to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Processes of a host.
#[derive(Default)]
struct HostState {
    observed: Vec<Vec<Observation>>,
    /// Running processes of the experiment, by their ids.
    running: Map<i32, usize>,
    setup: Setup,
    is_down: bool,
    cpu_seconds: f64,
    finished: bool,
}

/// End of a run.
pub struct Ending {
    /// Experiment time of the end.
    pub now: SimTime,
    /// True if the run was interrupted.
    pub interrupted: bool,
}

/// Run of an emulation. See the [module](self).
pub struct Run<'a> {
    experiment: &'a Experiment,
    plan: &'a Plan,
    nodes: &'a mut [Node],
    hub: &'a mut Node,
    /// Interface indices of the ends in the hub, by link; none for a direct link.
    pub hub_ends: Vec<Option<[u32; 2]>>,
    resolver_down: Vec<Arc<AtomicBool>>,
    until_done: bool,
    hosts: Vec<HostState>,
    /// Future actions, the next one last.
    timeline: Vec<(SimTime, Action)>,
    lateness: Lateness,
    warnings: Map<String, u64>,
    /// Settings of the kernel that follow the time dilation factor, where it changes.
    pub kernel: Option<KernelTimes<'a>>,
    /// Programs that users have attached, in order of time: host, process id, and the program.
    attended: Vec<(usize, i32, AttendedProgram)>,
    /// Pipes by which P4 switches with events are ordered to apply them, by node.
    pub p4_orders: Map<usize, File>,
}

/// Settings of the kernel that follow the mean ratio of real to virtual time.
pub struct KernelTimes<'a> {
    /// Mean ratio, in thousandths.
    pub mean_milli: &'a AtomicU64,
    /// Ratio for which the kernel is set, in thousandths.
    pub told_milli: u64,
    /// Token buckets of interfaces.
    pub buckets: Vec<Bucket>,
}

impl<'a> Run<'a> {
    /// Creates a run that has not begun.
    pub fn new(
        experiment: &'a Experiment,
        plan: &'a Plan,
        nodes: &'a mut [Node],
        hub: &'a mut Node,
        resolver_down: Vec<Arc<AtomicBool>>,
        until_done: bool,
    ) -> Run<'a> {
        let state = |processes: &Vec<ProcessPlan>| HostState {
            observed: vec![Vec::new(); processes.len()],
            setup: setup_of(processes),
            ..HostState::default()
        };
        Run {
            experiment,
            plan,
            nodes,
            hub,
            hub_ends: Vec::new(),
            resolver_down,
            until_done,
            hosts: plan.processes.iter().map(state).collect(),
            timeline: timeline(experiment, plan),
            lateness: Lateness::default(),
            warnings: Map::new(),
            kernel: None,
            attended: Vec::new(),
            p4_orders: Map::new(),
        }
    }

    /// Counts a warning.
    pub fn warn(&mut self, text: String) {
        *self.warnings.entry(text).or_default() += 1;
    }
    /// Counts a warning of a host. The same warning from several hosts is reported once, with its count.
    pub fn warn_of(&mut self, _host: usize, text: String) {
        self.warn(text);
    }
    /// Lateness of scheduled actions.
    pub fn lateness(&self) -> &Lateness {
        &self.lateness
    }
    /// Processor time in seconds, by host.
    pub fn cpu_seconds(&self) -> Map<String, f64> {
        let hosts = self.experiment.hosts.iter().zip(&self.hosts);
        hosts.map(|(host, state)| (host.name.clone(), state.cpu_seconds)).collect()
    }
    /// Takes the programs that users have attached, in order of time.
    pub fn take_attended(&mut self) -> Vec<AttendedProgram> {
        std::mem::take(&mut self.attended).into_iter().map(|(_, _, program)| program).collect()
    }
    /// Returns the observations of the processes of each host, and the warnings.
    pub fn take(self) -> (Vec<Vec<Vec<Observation>>>, Map<String, u64>) {
        (self.hosts.into_iter().map(|state| state.observed).collect(), self.warnings)
    }

    /// Runs the experiment to its end, or until `stop` is set.
    pub fn execute(
        &mut self,
        clock: &ExperimentClock,
        news: &Receiver<HostNews>,
        stop: &AtomicBool,
    ) -> Result<Ending> {
        let end = self.experiment.general.stop_time;
        let mut next_report = 0;
        // Actions at time 0 are not executed before the clock starts.
        let mut begun = false;
        loop {
            let now = clock.time();
            begun = begun || now > SimTime::ZERO;
            while begun
                && let Some((at, _)) = self.timeline.last()
                && *at <= now
                && let Some((at, action)) = self.timeline.pop()
            {
                self.lateness.add(clock.time().since(at));
                self.perform(action, at, clock.time())?;
            }
            if now >= end {
                return Ok(Ending { now: end, interrupted: false });
            }
            if stop.load(Relaxed) {
                return Ok(Ending { now, interrupted: true });
            }
            if self.until_done && begun && self.is_done() {
                return Ok(Ending { now, interrupted: false });
            }
            self.tell_kernel();
            if monotonic_ns() >= next_report {
                report(&Report::Now(now.as_secs_f64()));
                next_report = monotonic_ns() + REFRESH.as_nanos() as u64;
            }
            let due = self.timeline.last().map_or(end, |(at, _)| *at).min(end);
            let wait = match begun {
                true => clock.span(due.since(now)).min(REFRESH),
                false => Duration::from_millis(1),
            };
            match news.recv_timeout(wait) {
                Ok((host, news)) => self.hear(host, news, clock)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => std::thread::sleep(wait),
            }
        }
    }

    /// Updates the kernel's settings if the factor has changed.
    fn tell_kernel(&mut self) {
        let Some(kernel) = &mut self.kernel else { return };
        let mean = kernel.mean_milli.load(Relaxed);
        if std::mem::replace(&mut kernel.told_milli, mean) == mean {
            return;
        }
        let tdf = mean as f64 / 1e3;
        for bucket in &mut kernel.buckets {
            // The absence of token buckets has been reported at the start.
            let _ = bucket.set(&mut self.nodes[bucket.node], tdf);
        }
        for (node, host) in self.nodes.iter().zip(&self.experiment.hosts) {
            // The experiment's own choice takes precedence.
            let mut settings = slow_settings(tdf);
            settings.retain(|(name, _)| !host.options.sysctls.contains_key(&name.replace('/', ".")));
            let _ = apply_settings(node, settings);
        }
    }

    /// True if nothing more is scheduled and all processes have ended that are expected to.
    fn is_done(&self) -> bool {
        let waits = |host: usize, number: usize| {
            let expected = self.experiment.hosts[host].processes[number].expected_final_state;
            !matches!(expected, FinalState::Running | FinalState::Any)
        };
        let mut states = self.hosts.iter().enumerate();
        self.timeline.iter().all(|(_, action)| matches!(action, Action::Device(..) | Action::P4(..)))
            && states.all(|(host, state)| !state.running.values().any(|number| waits(host, *number)))
            // Processes that were requested to start have been reported as started.
            && self.hosts.iter().zip(&self.plan.processes).all(|(state, processes)| {
                let never = |n: usize| processes[n].start == SimTime::MAX || state.setup == Setup::Failed;
                let started = |n: usize| !state.observed[n].is_empty() || never(n);
                (0..processes.len()).all(started)
            })
    }

    /// Takes news of a host into account.
    pub fn hear(&mut self, host: usize, news: News, clock: &ExperimentClock) -> Result<()> {
        let state = &mut self.hosts[host];
        match news {
            News::Started { number, pid, at } => {
                state.running.insert(pid, number);
                state.observed[number].push(Observation::Started { pid, at: clock.at(at) });
            }
            News::Failed { number, reason, at } => {
                state.observed[number].push(Observation::Failed { reason, at: clock.at(at) });
                self.note_setup(host, number, false)?;
            }
            News::Ended { pid, exited, signaled, at } => {
                // Other processes are attached programs and orphaned descendants.
                let Some(number) = state.running.remove(&pid) else {
                    let of_host = |(owner, id, program): &&mut (usize, i32, AttendedProgram)| {
                        (*owner, *id) == (host, pid) && program.ended.is_none()
                    };
                    if let Some((.., program)) = self.attended.iter_mut().find(of_host) {
                        program.ended = Some(clock.at(at).as_secs_f64());
                    }
                    return Ok(());
                };
                let how = match (exited, signaled) {
                    (_, Some(signal)) => End::Signaled(signal),
                    (code, None) => End::Exited(code.unwrap_or(0) as u8),
                };
                state.observed[number].push(Observation::Ended { how, at: clock.at(at) });
                self.note_setup(host, number, matches!(how, End::Exited(0)))?;
            }
            News::Attended { pid, title, at } => {
                let name = self.experiment.hosts[host].name.clone();
                let program = AttendedProgram::new(name, title, clock.at(at).as_secs_f64());
                self.attended.push((host, pid, program));
            }
            News::Finished { cpu_seconds } => (state.cpu_seconds, state.finished) = (cpu_seconds, true),
            News::Warning(text) => self.warn_of(host, text),
            News::Ready => {}
            News::Unfit(_) if state.finished => {}
            News::Unfit(error) => {
                return Err(Error::new(format!("host '{}': {error}", self.experiment.hosts[host].name)));
            }
        }
        Ok(())
    }

    fn perform(&mut self, action: Action, at: SimTime, now: SimTime) -> Result<()> {
        match action {
            Action::Start(host, number) => self.start(host, number),
            Action::Shutdown(host, number) => {
                let signal = self.plan.processes[host][number].shutdown_signal.number();
                self.signal(host, number, signal)
            }
            Action::Device(node, change) => self.change_links(node, change),
            Action::P4(node, number) => match self.p4_orders.get_mut(&node) {
                Some(pipe) => writeln!(pipe, "{number}").doing("ordering a P4 switch to apply an event"),
                None => Ok(()),
            },
            Action::Host(host, change) => match change {
                HostChange::Crash { .. } => self.crash(host, now),
                HostChange::Restart => self.restart(host, at),
                HostChange::NameServer { down } => {
                    self.resolver_down[host].store(down, Relaxed);
                    Ok(())
                }
                HostChange::Start(number) if self.runs(host, number).is_none() => self.start(host, number),
                HostChange::Signal(number, signal) => self.signal(host, number, signal),
                HostChange::Link(change) => self.change_links(host, change),
                // The graph network applies changes of bandwidths itself; the others have been refused or
                // reported.
                HostChange::Start(_)
                | HostChange::Pause
                | HostChange::Resume
                | HostChange::PauseProcess { .. }
                | HostChange::ResumeEvent(_)
                | HostChange::ResumeProcess(_)
                | HostChange::Cpu { .. }
                | HostChange::CpuHeal(_)
                | HostChange::DiskFault { .. }
                | HostChange::DiskHeal(_)
                | HostChange::ConnectionReset(_)
                | HostChange::CallFault { .. }
                | HostChange::CallHeal(_)
                | HostChange::DnsFault { .. }
                | HostChange::DnsHeal(_)
                | HostChange::Memory { .. }
                | HostChange::MemoryHeal(_)
                | HostChange::Kill { .. }
                | HostChange::Revive(_)
                | HostChange::NewRoot(_)
                | HostChange::Upgrade { .. }
                | HostChange::UpgradeEnd(_)
                | HostChange::Bandwidth { .. }
                | HostChange::StartModel(_)
                | HostChange::StopModel(_)
                | HostChange::Step(_)
                | HostChange::Drift(_) => Ok(()),
            },
        }
    }

    /// Id of a process of the experiment, if it is running.
    fn runs(&self, host: usize, number: usize) -> Option<i32> {
        self.hosts[host].running.iter().find(|(_, n)| **n == number).map(|(pid, _)| *pid)
    }

    fn start(&mut self, host: usize, number: usize) -> Result<()> {
        if self.hosts[host].is_down {
            return Ok(());
        }
        let process = &self.plan.processes[host][number];
        if !process.is_setup && self.hosts[host].setup.start_of(number) != Start::Now {
            return Ok(());
        }
        self.nodes[host].tell(&Request::Start(ProcessStart {
            number,
            program: process.program.clone(),
            path: process.path.clone(),
            args: process.args.clone(),
            environment: process.environment.clone(),
            user: process.user.clone(),
        }))
    }

    /// Notes the end of a process. If it is the host's setup and has succeeded, the processes that waited for it start.
    fn note_setup(&mut self, host: usize, number: usize, succeeded: bool) -> Result<()> {
        if !self.plan.processes[host][number].is_setup {
            return Ok(());
        }
        let held = self.hosts[host].setup.end(succeeded);
        match succeeded {
            true => held.into_iter().try_for_each(|number| self.start(host, number)),
            false => Ok(()),
        }
    }

    fn signal(&mut self, host: usize, number: usize, signal: i32) -> Result<()> {
        match self.runs(host, number) {
            Some(pid) => self.nodes[host].tell(&Request::Signal { pid, signal }),
            None => Ok(()),
        }
    }

    /// Stops a host at once. Its interfaces go down first, so that no peer is notified of the end of its
    /// connections.
    fn crash(&mut self, host: usize, now: SimTime) -> Result<()> {
        if self.hosts[host].is_down {
            return Ok(());
        }
        self.nodes[host].down()?;
        self.nodes[host].tell(&Request::Crash)?;
        let state = &mut self.hosts[host];
        state.is_down = true;
        for number in std::mem::take(&mut state.running).into_values() {
            state.observed[number].push(Observation::Crashed { at: now });
        }
        Ok(())
    }

    fn restart(&mut self, host: usize, at: SimTime) -> Result<()> {
        if !self.hosts[host].is_down {
            return Ok(());
        }
        self.hosts[host].is_down = false;
        self.hosts[host].setup = setup_of(&self.plan.processes[host]);
        self.nodes[host].tell(&Request::Boot)?;
        let node = &mut self.nodes[host];
        node.configure(self.experiment)?;
        // The kernel has removed the routes of interfaces that went down.
        let (v4, v6) = std::mem::take(&mut node.routes).into_iter().partition(|route| route.to.is_ipv4());
        node.set_routes(true, v4)?;
        node.set_routes(false, v6)?;
        for number in 0..self.plan.processes[host].len() {
            // Processes that start at this very time are still in the timeline.
            if self.plan.processes[host][number].start < at {
                self.start(host, number)?;
            }
        }
        Ok(())
    }

    /// Applies a change to the links of a node. The lines apply changes of rates and queues themselves.
    fn change_links(&mut self, node: usize, change: LinkChange) -> Result<()> {
        let is_down = self.hosts.get(node).is_some_and(|state| state.is_down);
        let own = &mut self.nodes[node];
        let made = match change {
            LinkChange::Nic(..) => Ok(()),
            LinkChange::Carrier(port, up) => {
                let interface = &self.experiment.node_interfaces(own.id)[port];
                match self.hub_ends.get(interface.link).copied().flatten() {
                    // An end at an interface of the machine has no carrier in the hub.
                    Some(ends) if ends[interface.end] == 0 => Ok(()),
                    Some(ends) => self.hub.netlink.set_up(ends[interface.end], up),
                    None => Ok(()),
                }
            }
            LinkChange::Routes(routes) => {
                let specs = own.specs(&routes);
                if is_down { keep(own, true, specs) } else { own.set_routes(true, specs) }
            }
            LinkChange::Routes6(routes) => {
                let specs = own.specs(&routes);
                if is_down { keep(own, false, specs) } else { own.set_routes(false, specs) }
            }
            LinkChange::Blocked(blocked) => (0..own.ports.len()).try_for_each(|port| {
                let index = own.ports[port];
                own.netlink.set_up(index, !blocked.contains(&port))
            }),
        };
        if let Err(error) = made {
            let name = self.nodes[node].name.clone();
            self.warn(format!("'{name}': a change of its links was not made as planned: {error}"));
        }
        Ok(())
    }

    /// Ends all hosts. What they have reported before is taken into account.
    pub fn finish(&mut self, news: &Receiver<HostNews>, clock: &ExperimentClock) -> Result<()> {
        while let Ok((host, news)) = news.try_recv() {
            self.hear(host, news, clock)?;
        }
        for node in self.nodes.iter().filter(|node| node.connection.is_some()) {
            node.tell(&Request::Finish)?;
        }
        while self.hosts.iter().any(|state| !state.finished) {
            match news.recv_timeout(PATIENCE) {
                Ok((host, News::Finished { cpu_seconds })) => {
                    (self.hosts[host].cpu_seconds, self.hosts[host].finished) = (cpu_seconds, true);
                }
                Ok((host, news @ (News::Warning(_) | News::Attended { .. }))) => {
                    self.hear(host, news, clock)?
                }
                // Other notifications result from the end of the hosts.
                Ok(_) => {}
                Err(_) => {
                    self.warn("processes of some hosts could not be ended in time".into());
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// State of the setup of a host with these processes, at its start.
fn setup_of(processes: &[ProcessPlan]) -> Setup {
    Setup::begun(processes.iter().any(|process| process.is_setup))
}

/// Stores routes of one family until the host restarts.
fn keep(node: &mut Node, family4: bool, specs: Vec<crate::netlink::RouteSpec>) -> Result<()> {
    node.routes.retain(|route| route.to.is_ipv4() != family4);
    node.routes.extend(specs);
    Ok(())
}
