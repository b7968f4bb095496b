//! Waiting by tracers for their tracees.

use crate::host::Host;
use crate::ids::ProcessKey;
use crate::process::WaitStatus;
use crate::task::{ChildEvent, Selector, WaitFlags};
use belljar_linux_abi::c;
use belljar_objects::tracees::Stop;

impl Host {
    /// Reports the first event of a tracee of `tracer`; the flag is true if there are tracees to wait for.
    pub(crate) fn collect_tracee(
        &mut self,
        tracer: ProcessKey,
        which: Selector,
        flags: WaitFlags,
    ) -> (bool, Option<ChildEvent>) {
        let keep = flags.contains(WaitFlags::NOWAIT);
        let selects = |tid: i32, pgid: i32| match which {
            Selector::Any => true,
            Selector::Pid(pid) => tid == pid,
            Selector::Group(group) => pgid == group,
        };
        let ended = self
            .ended_tracees
            .iter()
            .position(|ended| ended.tracer == tracer && selects(ended.tid, ended.pgid));
        if let Some(at) = ended.filter(|_| flags.contains(WaitFlags::EXITED)) {
            let ended = self.ended_tracees[at];
            if !keep {
                self.ended_tracees.remove(at);
            }
            let (code, status) = match ended.status {
                WaitStatus::Exited(code) => (c::CLD_EXITED, i32::from(code)),
                WaitStatus::Signaled(signal) => (c::CLD_KILLED, signal),
            };
            return (
                true,
                Some(ChildEvent { pid: ended.tid, uid: ended.uid, code, status, calls: 0, resident: 0 }),
            );
        }
        let mut any = false;
        for key in self.threads.tracees_of(tracer) {
            let (tid, process) = (self.threads[key.0].tid, self.threads[key.0].process);
            if !selects(tid, self.processes[process.0].pgid) {
                continue;
            }
            any = true;
            let uid = self.processes[process.0].credentials.ruid;
            let Some(tracee) = &mut self.thread(key).trace else { continue };
            if let Some(stop) = tracee.stop.filter(|_| tracee.unreported) {
                tracee.unreported = keep;
                let code = if matches!(stop, Stop::Group(_)) { c::CLD_STOPPED } else { c::CLD_TRAPPED };
                let status = tracee.status(stop);
                return (true, Some(ChildEvent { pid: tid, uid, code, status, calls: 0, resident: 0 }));
            }
        }
        (any, None)
    }
}
