//! Upgrades: a process of the experiment replaces another one.

use crate::host::{Host, ProcessReport};
use crate::timer::TimerAction;
use belljar_base::SimTime;
use belljar_linux_abi::c;

/// Lets a process end by its shutdown signal, and the other one start once it has ended, or at once if it does not run. From then on the
/// host starts the other one.
pub fn begin(host: &mut Host, from: usize, to: usize) {
    let upgrades = host.upgrades.get_or_insert_default();
    upgrades.replace(from, to);
    // The one to be replaced may still wait for the end of its own predecessor.
    if upgrades.redirect(from, to) || host.net.is_down {
        return;
    }
    let (start, at) = (host.config.processes[from].start, host.net.clock.now());
    if host.running_specs().contains(&from) {
        host.upgrades.iter_mut().for_each(|upgrades| upgrades.wait(from, to));
        // The experiment itself ends it, as in a crash: the end is as expected.
        host.reports.push(ProcessReport::Crashed { spec: from, at });
        let signal = host.config.processes[from].shutdown_signal;
        host.signal_program(from, signal);
    } else if start <= at || start == SimTime::MAX {
        host.start_again(to);
    }
}

/// Kills a process that is to end and has not.
pub fn end(host: &mut Host, from: usize) {
    if host.upgrades.as_ref().is_some_and(|upgrades| upgrades.is_to_end(from)) {
        host.signal_program(from, c::SIGKILL);
    }
}

/// Process that the host starts as `spec`: the one that has replaced it, or itself.
pub(crate) fn current(host: &Host, spec: usize) -> usize {
    host.upgrades.as_ref().map_or(spec, |upgrades| upgrades.current(spec))
}

/// Starts what waits for the end of a process.
pub(crate) fn ended(host: &mut Host, spec: usize) {
    let Some(next) = host.upgrades.as_mut().and_then(|upgrades| upgrades.ended(spec)) else { return };
    // Its start is counted although it was not scheduled.
    host.specs_started -= 1;
    let now = host.net.clock.now();
    host.set_timer(now, TimerAction::StartProcess(next));
}

/// Forgets the processes that are to end, with a crash.
pub(crate) fn crashed(host: &mut Host) {
    host.upgrades.iter_mut().for_each(|upgrades| upgrades.crashed());
}
