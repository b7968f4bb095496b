//! Start of the experiment's processes and of the traffic models on a host, after its setup.
//!
//! The setup is a process of the experiment. What would start meanwhile is held, and starts when the setup has exited with
//! status 0. If the setup fails, nothing else starts: the run then fails, since these processes are not in the expected
//! state. After a crash the host's setup runs again.

use crate::config::ProcessSpec;
use crate::host::Host;
use crate::process::WaitStatus;
use crate::timer::TimerAction;
use crate::upgrade;
use belljar_base::{Setup, SimTime, Start};
use belljar_model_host::Models;

impl Host {
    /// Sets the start and shutdown timers of the experiment's processes, and starts the traffic models, on a host that
    /// starts at `now`.
    pub(crate) fn schedule_start(&mut self, now: SimTime) {
        let setup = self.config.setup();
        self.setup = Setup::begun(setup.is_some());
        if let Some(setup) = setup {
            self.set_timer(now, TimerAction::StartProcess(setup));
        }
        for n in 0..self.config.processes.len() {
            let &ProcessSpec { start, shutdown, is_setup, .. } = &self.config.processes[n];
            if start == SimTime::MAX || is_setup {
                continue;
            }
            self.set_timer(start.max(now), TimerAction::StartProcess(n));
            if let Some(at) = shutdown.filter(|at| *at > now) {
                self.set_timer(at, TimerAction::ShutdownProcess(n));
            }
        }
        if setup.is_none() {
            Models::schedule(self, now);
        }
    }
}

/// Starts the experiment's process `spec`, unless the setup still runs or has failed.
#[cold]
pub(crate) fn due(host: &mut Host, spec: usize) {
    if host.config.processes[spec].is_setup {
        return host.start_process(spec);
    }
    let spec = upgrade::current(host, spec);
    match host.setup.start_of(spec) {
        Start::Now => host.start_process(spec),
        Start::Later => {}
        Start::Never => host.specs_started += 1,
    }
}

/// Notes the end of the experiment's process `spec`, or that it could not start (`None`). After the setup, starts what
/// waited for it.
pub(crate) fn note_end(host: &mut Host, spec: usize, status: Option<WaitStatus>) {
    upgrade::ended(host, spec);
    if !host.config.processes.get(spec).is_some_and(|spec| spec.is_setup) {
        return;
    }
    let succeeded = status == Some(WaitStatus::Exited(0));
    let held = host.setup.end(succeeded);
    if !succeeded {
        host.specs_started += held.len();
        return;
    }
    let now = host.net.clock.now();
    for spec in held {
        host.set_timer(now, TimerAction::StartProcess(spec));
    }
    Models::schedule(host, now);
}
