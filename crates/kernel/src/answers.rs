//! Calls that a guest's own stubs answer, near and far: what the time is, and who one is.
//!
//! Their values are told before the guest is resumed and are those that the kernel would give: nothing of the host
//! changes while a
//! guest runs. Each answer counts as the call that it stands for; where a call does more than to be counted, it has
//! to be made. Ids are told to threads only that have asked for some, so the others pay nothing for them.

use crate::host::Host;
use crate::ids::ThreadKey;
use belljar_machine::{ANSWERED, Ids, VdsoData};
use belljar_objects::namespaces::IdKind;

/// Number of times that a thread has to ask for ids before it is told them.
const OFTEN: u8 = 8;

impl Host {
    /// The data by which a thread that is about to run may answer calls itself.
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

    /// The time since the host has started as the present caller sees it, in nanoseconds.
    pub(crate) fn boottime_ns(&self) -> u64 {
        let offset = self.caller.map_or(0, |(_, process)| self.processes.time_offsets(process).boottime);
        self.net.clock.monotonic_ns().saturating_add_signed(offset)
    }

    /// Accounts for what a thread has answered itself; whether that was anything.
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

    /// An id that a thread has asked for by a call, which is the one with this number among [`Host::ids_of`].
    pub(crate) fn asked_id(&mut self, key: ThreadKey, number: usize) -> u64 {
        let asked = &mut self.threads[key.0].asked_ids;
        *asked = (*asked + 1).min(OFTEN);
        self.ids_of(key)[number] as u64
    }

    /// The ids of a thread, in the order of [`ID_CALLS`](belljar_machine::ID_CALLS).
    fn ids_of(&self, key: ThreadKey) -> Ids {
        let thread = &self.threads[key.0];
        let process = &self.processes[thread.process.0];
        let credentials = &process.credentials;
        // What the experiment started, and orphans, are children of 1.
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
        // A call would let go of files that an interrupted one holds.
        let holds = !self.threads[key.0].held.is_empty();
        let ids = if holds { [-1; _] } else { self.ids_of(key) };
        self.machine.tell_ids(self.threads[key.0].context, &ids);
    }
}
