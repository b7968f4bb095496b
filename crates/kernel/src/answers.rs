//! System calls answered by the guest's own stubs, near and far: clock readings and ids.
//!
//! The values are provided before the guest is resumed and equal those that the kernel would return: no host
//! state changes while a guest runs. Each answer counts as the call that it replaces; a call with other side
//! effects must enter the kernel. Ids are provided only to threads that have asked for them repeatedly, so
//! other threads do not pay for them.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_machine::{ANSWERED, Ids, VdsoData};
use belljar_objects::namespaces::IdKind;

/// Number of id calls after which a thread's stubs are given its ids.
const OFTEN: u8 = 8;

impl Host {
    /// Returns the data with which the stubs of a thread about to run answer calls.
    pub(crate) fn clocks_for(&mut self, key: ThreadKey) -> VdsoData {
        let thread = &self.threads[key.0];
        let is_watched = self.strace.is_enabled()
            || !self.debuggers.is_empty()
            || thread.trace.is_some()
            || thread.seccomp.is_some()
            || self.processes[thread.process.0].signals.timers.count_processor_time;
        let allowed =
            if is_watched { 0 } else { self.scheduler.calls_left().min(self.net.clock.free_calls()) };
        if thread.asked_ids == OFTEN && allowed > 0 {
            self.tell_ids(key);
        }
        let offsets = self.processes.time_offsets(self.threads[key.0].process);
        let (realtime_ns, shown) = self.net.clock.shown();
        let monotonic_ns = shown.saturating_add_signed(offsets.monotonic);
        let boottime_ns = shown.saturating_add_signed(offsets.boottime);
        VdsoData { realtime_ns, monotonic_ns, boottime_ns, allowed, made: 0 }
    }

    /// Time since the host started in nanoseconds, in the current caller's time namespace.
    pub(crate) fn boottime_ns(&self) -> u64 {
        let offset = self.caller.map_or(0, |(_, process)| self.processes.time_offsets(process).boottime);
        self.net.clock.monotonic_ns().saturating_add_signed(offset)
    }

    /// Accounts for the calls that a thread's stubs have answered; returns true if there were any.
    pub(crate) fn clocks_read(&mut self, key: ThreadKey, clocks: &VdsoData) -> bool {
        if clocks.made == 0 {
            return false;
        }
        let answered = self.machine.answered(self.threads[key.0].context);
        for (number, times) in ANSWERED.into_iter().zip(answered).filter(|(_, times)| *times != 0) {
            self.call_counts.add(number as u32, times);
        }
        self.net.clock.charge_free(clocks.made);
        self.scheduler.calls_answered(clocks.made);
        self.threads[key.0].calls += u64::from(clocks.made);
        true
    }

    /// Returns the id that a thread's call asks for; `number` is its index in [`Host::ids_of`].
    pub(crate) fn asked_id(&mut self, key: ThreadKey, number: usize) -> u64 {
        let asked = &mut self.threads[key.0].asked_ids;
        *asked = (*asked + 1).min(OFTEN);
        self.ids_of(key)[number] as u64
    }

    /// Ids of a thread, in the order of [`ID_CALLS`](belljar_machine::ID_CALLS).
    fn ids_of(&self, key: ThreadKey) -> Ids {
        let thread = &self.threads[key.0];
        let process = &self.processes[thread.process.0];
        let credentials = &process.credentials;
        // Processes of the experiment, and orphans, are children of process 1.
        let parent = process.parent.map_or(1, |parent| self.processes[parent.0].pid);
        let own = |pid| self.processes.shown_pid(thread.process, pid);
        let (pid, tid, parent, pgid) = (own(process.pid), own(thread.tid), own(parent), own(process.pgid));
        let shown = |kind, id| i64::from(self.processes.shown_id(thread.process, kind, id));
        let [ruid, euid] = [credentials.ruid, credentials.euid].map(|id| shown(IdKind::User, id));
        let [rgid, egid] = [credentials.rgid, credentials.egid].map(|id| shown(IdKind::Group, id));
        [pid.into(), tid.into(), parent.into(), pgid.into(), ruid, euid, rgid, egid]
    }

    #[cold]
    fn tell_ids(&mut self, key: ThreadKey) {
        // A real call releases descriptors held by an interrupted one, so such a thread must enter the
        // kernel.
        let holds = !self.threads[key.0].held.is_empty();
        let ids = if holds { [-1; _] } else { self.ids_of(key) };
        self.machine.tell_ids(self.threads[key.0].context, &ids);
    }
}
