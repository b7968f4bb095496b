//! The host's current activity, for observers: see [`belljar_base::activity`].

use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use crate::process::Process;
use crate::syscall::table;
use crate::thread::ThreadState;
use crate::timer::TimerAction;
use belljar_base::activity::{Activity, Phase};
use belljar_objects::native_reads::{self, ProcessMemory};

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

    /// Reports how the system calls of an address space entered the kernel, and which of its instructions read
    /// the machine, when its last process leaves or the run ends; nothing while other processes use the space.
    pub(crate) fn report_space(&mut self, process: ProcessKey, mm: MmKey) {
        let (process, space) = (&self.processes[process.0], &self.spaces[mm.0]);
        if space.users > 1 {
            return;
        }
        let memory = ProcessMemory { host: &self.net.config.name, program: &process.exe, space };
        native_reads::warn(&memory, &self.machine.native_reads(space.space), &mut self.warnings);
        if let Some(board) = &self.config.watched {
            board.called(process.watched, self.machine.call_ways(space.space));
        }
    }

    /// Reports the same for all remaining processes at the end of the run.
    pub(crate) fn report_all_spaces(&mut self) {
        let remaining = |(key, process): (usize, &Process)| process.mm.map(|mm| (ProcessKey(key), mm));
        let remaining: Vec<_> = self.processes.iter().filter_map(remaining).collect();
        remaining.into_iter().for_each(|(process, mm)| self.report_space(process, mm));
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
