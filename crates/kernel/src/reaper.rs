//! Reaper: ends guests whose native process was killed from outside the simulation, as `SIGKILL` would.

use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::process::Process;
use belljar_linux_abi::c;

impl Host {
    /// Kills the guests whose native process has ended; returns their threads.
    #[cold]
    pub(crate) fn reap_killed(&mut self) -> Vec<ThreadKey> {
        let ended = self.machine.ended_spaces();
        let mut threads = Vec::new();
        for (_, mm) in self.spaces.iter().filter(|(_, mm)| ended.contains(&mm.space)) {
            let lives_there = |process: &Process| {
                process.mm.is_some_and(|key| self.spaces.get(key.0).is_some_and(|of| of.space == mm.space))
            };
            let there = self.processes.iter().filter(|(_, process)| lives_there(process));
            threads.extend(there.flat_map(|(_, process)| process.threads.iter().copied()));
        }
        for thread in &threads {
            let process = self.threads[thread.0].process;
            self.kill_process(process, c::SIGKILL);
        }
        threads
    }

    /// True if a guest's native process has ended.
    pub(crate) fn native_has_ended(&mut self, process: ProcessKey) -> bool {
        let space = self.processes[process.0].mm.map(|mm| self.spaces[mm.0].space);
        space.is_some_and(|space| self.machine.ended_spaces().contains(&space))
    }
}
