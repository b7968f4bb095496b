//! The host's current activity, for observers: see [`belljar_base::activity`].

use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use crate::syscall::table;
use crate::thread::ThreadState;
use crate::timer::TimerAction;
use belljar_base::activity::{Activity, Phase};

impl Host {
    /// Posts the host's current phase, not on behalf of a program.
    #[inline]
    pub fn doing(&self, phase: Phase) {
        if let Some(board) = &self.config.watched {
            board.doing(Activity::of(phase, self.net.config.id.0));
        }
    }

    /// Posts the host's current phase on behalf of a process; `call` is the number of its system call, if
    /// any.
    #[inline]
    pub(crate) fn doing_for(&mut self, phase: Phase, process: ProcessKey, call: u32) {
        if self.config.watched.is_some() {
            self.note_doing(phase, process, call);
        }
    }

    /// Names of the calls in which the threads of a process wait, each once, oldest thread first; empty if
    /// the process has ended.
    pub fn waits_of(&self, pid: i32) -> Vec<&'static str> {
        let Some(process) = self.processes.by_pid.get(&pid) else { return Vec::new() };
        let mut calls = Vec::new();
        for key in &self.processes[process.0].threads {
            let thread = &self.threads[key.0];
            let call = match &thread.state {
                ThreadState::Blocked(_) if thread.spin.is_some() => "a loop without calls",
                ThreadState::Blocked(_) => {
                    let number = self.machine.regs(thread.context).rax as u32;
                    table::entry(number).map_or("a call", |entry| entry.name)
                }
                ThreadState::Stopped | ThreadState::Traced => "a stop by a signal",
                ThreadState::Runnable => continue,
            };
            if !calls.contains(&call) {
                calls.push(call);
            }
        }
        calls
    }

    /// Reports how the system calls of an address space entered the kernel, when its last process leaves or
    /// the run ends; nothing while other processes use the space.
    pub(crate) fn tell_call_ways(&self, process: ProcessKey, mm: MmKey) {
        let Some(board) = &self.config.watched else { return };
        let mm = &self.spaces[mm.0];
        if mm.users > 1 {
            return;
        }
        let ways = self.machine.call_ways(mm.space);
        board.called(self.processes[process.0].watched, ways);
    }

    /// Reports the same for all remaining processes at the end of the run.
    pub(crate) fn tell_all_call_ways(&self) {
        for (key, process) in self.processes.iter() {
            if let Some(mm) = process.mm {
                self.tell_call_ways(ProcessKey(key), mm);
            }
        }
    }

    #[cold]
    fn note_doing(&mut self, phase: Phase, process: ProcessKey, call: u32) {
        let Some(board) = &self.config.watched else { return };
        let process = &mut self.processes[process.0];
        if process.watched == 0 {
            let path = String::from_utf8_lossy(&process.exe);
            process.watched = board.program(path.rsplit('/').next().unwrap_or_default());
        }
        board.doing(Activity { phase, node: Some(self.net.config.id.0), program: process.watched, call });
    }
}

/// Phase that a timer belongs to.
pub(crate) fn phase_of(action: &TimerAction) -> Phase {
    match action {
        TimerAction::StartProcess(_) => Phase::Starting,
        TimerAction::Model(_) => Phase::Model,
        _ => Phase::Kernel,
    }
}
