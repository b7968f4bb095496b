//! Processes that an event of the experiment suspends, without a trace that they could see.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::kill::{Meant, find};
use belljar_tasks::suspension::Suspension;

/// Suspends processes for an event. Returns the number of those that were not suspended.
pub fn begin(host: &mut Host, event: u32, meant: &Meant<'_>) -> u64 {
    let found = find(host, meant, "pause");
    let pids: Vec<i32> = found.into_iter().map(|process| host.processes[process.0].pid).collect();
    change(host, |suspension| pids.iter().filter(|pid| suspension.begin(**pid, event)).count() as u64)
}

/// Lets the processes go on that an occurrence of an event has suspended, unless other events do.
pub fn end_event(host: &mut Host, event: u32) {
    change(host, |suspension| suspension.end_event(event));
}

/// Lets processes go on, whatever events have suspended them.
pub fn end(host: &mut Host, meant: &Meant<'_>) {
    let found = find(host, meant, "resume");
    let pids: Vec<i32> = found.into_iter().map(|process| host.processes[process.0].pid).collect();
    change(host, |suspension| pids.iter().for_each(|pid| _ = suspension.end(*pid)));
}

/// Suspends all processes of the host, or lets them go on.
pub fn set_all(host: &mut Host, all: bool) {
    change(host, |suspension| suspension.set_all(all));
}

/// True if a thread whose turn has come must not run: its process is suspended, or its debugger runs another one.
#[cold]
pub(crate) fn keeps_waiting(host: &mut Host, thread: ThreadKey) -> bool {
    let pid = host.processes[host.threads[thread.0].process.0].pid;
    let suspended = host.suspension.as_mut().is_some_and(|suspension| suspension.keeps_waiting(thread, pid));
    suspended || !host.debuggers.is_empty() && host.debug_keeps_waiting(thread)
}

/// Lets a killed process end.
pub(crate) fn killed(host: &mut Host, pid: i32) {
    if host.suspension.is_some() {
        change(host, |suspension| suspension.kill(pid));
    }
}

/// Forgets a thread that ends.
pub(crate) fn forget(host: &mut Host, thread: ThreadKey) {
    if let Some(suspension) = &mut host.suspension {
        let process = &host.processes[host.threads[thread.0].process.0];
        suspension.forget(thread, process.pid, process.threads.len() <= 1);
    }
}

/// Has the scheduler ask [`keeps_waiting`] if there is something to be asked.
pub(crate) fn settle(host: &mut Host) {
    let suspends = host.suspension.as_ref().is_some_and(|suspension| suspension.is_active());
    host.scheduler.selects = suspends || !host.debuggers.is_empty();
}

fn change<T>(host: &mut Host, change: impl FnOnce(&mut Suspension) -> T) -> T {
    let suspension = host.suspension.get_or_insert_default();
    let result = change(suspension);
    for thread in suspension.take_released() {
        host.scheduler.ready(thread);
    }
    settle(host);
    result
}
