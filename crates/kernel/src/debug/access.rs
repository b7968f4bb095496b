//! Debugger's access to a process: threads, registers, memory, breakpoints.

use super::DebugProcess;
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use crate::thread::ThreadState;
use belljar_linux_abi::{Errno, c};
use belljar_machine::Regs;
use belljar_objects::space::PAGE;
use belljar_tasks::debuggers::BREAKPOINT;
use std::path::PathBuf;

/// Entry of a debugger's thread list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DebugThread {
    /// Thread id.
    pub tid: i32,
    /// Name of the thread and its activity.
    pub description: String,
}

impl Host {
    /// Threads of a process, the oldest first.
    pub fn debug_threads(&self, pid: i32) -> Vec<DebugThread> {
        let Some(process) = self.processes.by_pid.get(&pid) else { return Vec::new() };
        let threads = self.processes[process.0].threads.iter().map(|key| &self.threads[key.0]);
        let describe = |thread: &crate::thread::Thread| {
            let name = String::from_utf8_lossy(&thread.comm);
            match &thread.state {
                ThreadState::Runnable => name.into_owned(),
                ThreadState::Stopped | ThreadState::Traced => format!("{name}, stopped"),
                ThreadState::Blocked(_) => {
                    let number = self.machine.regs(thread.context).rax as u32;
                    let call = crate::syscall::table::entry(number).map_or("a call", |entry| entry.name);
                    format!("{name}, waits in {call}")
                }
            }
        };
        threads.map(|thread| DebugThread { tid: thread.tid, description: describe(thread) }).collect()
    }

    /// Registers of a thread.
    pub fn debug_regs(&self, tid: i32) -> Option<Regs> {
        let thread = self.threads.by_tid.get(&tid)?;
        Some(*self.machine.regs(self.threads[thread.0].context))
    }

    /// Number of the system call in which a thread waits.
    pub fn debug_call(&self, tid: i32) -> Option<u64> {
        let thread = &self.threads[self.threads.by_tid.get(&tid)?.0];
        let waits = thread.blocked_state().is_some() || thread.continuation.is_some();
        waits.then(|| self.machine.regs(thread.context).rax)
    }

    /// Changes the registers of a thread. `EBUSY` while the thread waits in a call; `EIO` for FS and GS bases
    /// outside user space.
    pub fn debug_set_regs(&mut self, tid: i32, regs: &Regs) -> Result<(), Errno> {
        let thread = self.threads.by_tid.get(&tid).ok_or(Errno::ESRCH)?;
        let thread = &self.threads[thread.0];
        let context = thread.context;
        if self.machine.regs(context) == regs {
            return Ok(());
        }
        if thread.blocked_state().is_some() || thread.continuation.is_some() {
            return Err(Errno::EBUSY);
        }
        if !regs.has_proper_bases() {
            return Err(Errno::EIO);
        }
        *self.machine.regs_mut(context) = *regs;
        Ok(())
    }

    /// Extended register state of a thread, as [`xstate`](belljar_machine::Platform::xstate).
    pub fn debug_xstate(&self, tid: i32) -> Option<Vec<u8>> {
        let thread = self.threads.by_tid.get(&tid)?;
        let mut state = Vec::new();
        self.machine.xstate(self.threads[thread.0].context, &mut state);
        Some(state)
    }

    /// Sets the extended register state of a thread.
    pub fn debug_set_xstate(&mut self, tid: i32, state: &[u8]) {
        if let Some(thread) = self.threads.by_tid.get(&tid) {
            self.machine.set_xstate(self.threads[thread.0].context, state);
        }
    }

    /// Copies from a process's memory with breakpoints replaced by the original bytes; returns the number of
    /// bytes readable from `addr` on.
    pub fn debug_read(&self, pid: i32, addr: u64, out: &mut [u8]) -> usize {
        let Some(mm) = self.debug_mm(pid) else { return 0 };
        let got = self.peek(mm, addr, out);
        if let Some(debugger) = self.debuggers.get(pid) {
            debugger.hide_breakpoints(addr, &mut out[..got]);
        }
        got
    }

    /// Copies to a process's memory regardless of its protection; breakpoints stay set. `EIO` where nothing
    /// is mapped.
    pub fn debug_write(&mut self, pid: i32, addr: u64, data: &[u8]) -> Result<(), Errno> {
        let mm = self.debug_mm(pid).ok_or(Errno::ESRCH)?;
        let mut data = data.to_vec();
        if let Some(debugger) = self.debuggers.get_mut(pid) {
            debugger.keep_breakpoints(addr, &mut data);
        }
        self.poke(mm, addr, &data)
    }

    /// Sets a breakpoint. `EFAULT` unless private memory is mapped at `addr`.
    pub fn debug_add_breakpoint(&mut self, pid: i32, addr: u64) -> Result<(), Errno> {
        let mm = self.debug_mm(pid).ok_or(Errno::ESRCH)?;
        let Some(debugger) = self.debuggers.get(pid) else { return Err(Errno::ESRCH) };
        if debugger.has_breakpoint(addr) {
            return Ok(());
        }
        let mut byte = [0];
        let shared = self.spaces[mm.0].find(addr).is_none_or(|vma| vma.shared);
        if shared || self.peek(mm, addr, &mut byte) == 0 {
            return Err(Errno::EFAULT);
        }
        self.poke(mm, addr, &[BREAKPOINT])?;
        if let Some(debugger) = self.debuggers.get_mut(pid) {
            debugger.add_breakpoint(addr, byte[0]);
        }
        Ok(())
    }

    /// Removes a breakpoint; false if there is none at `addr`.
    pub fn debug_remove_breakpoint(&mut self, pid: i32, addr: u64) -> bool {
        let Some(debugger) = self.debuggers.get_mut(pid) else { return false };
        let Some(byte) = debugger.remove_breakpoint(addr) else { return false };
        if let Some(mm) = self.debug_mm(pid) {
            // Memory that has been unmapped meanwhile is not restored.
            let _ = self.poke(mm, addr, &[byte]);
        }
        true
    }

    /// Contents of `/proc/<pid>/auxv`.
    pub fn debug_auxv(&self, pid: i32) -> Vec<u8> {
        self.debug_mm(pid).map_or_else(Vec::new, |mm| self.spaces[mm.0].auxv.clone())
    }

    /// Native path of the executable of a process.
    pub fn debug_executable(&mut self, pid: i32) -> Option<PathBuf> {
        let process = *self.processes.by_pid.get(&pid)?;
        let path = self.processes[process.0].exe.clone();
        let follow = crate::files::tree::Walk::FOLLOW;
        let inode = self.resolve(process, c::AT_FDCWD, &path, follow).ok()?.inode().ok()?;
        self.content_path(inode).ok()?
    }

    /// Finds the process with the given pid or program name. `Err` with all processes unless exactly one
    /// matches.
    pub fn debug_find(&self, who: &str) -> Result<i32, Vec<DebugProcess>> {
        let all = self.debug_processes();
        let named = |process: &&DebugProcess| {
            let program = process.command.split(' ').next().unwrap_or_default();
            process.pid.to_string() == who || program == who || program.rsplit('/').next() == Some(who)
        };
        match all.iter().filter(named).collect::<Vec<_>>()[..] {
            [process] => Ok(process.pid),
            _ => Err(all),
        }
    }

    fn debug_mm(&self, pid: i32) -> Option<MmKey> {
        self.processes[self.processes.by_pid.get(&pid)?.0].mm
    }

    /// Copies from an address space regardless of protection; returns the number of bytes readable from
    /// `addr` on.
    pub(crate) fn peek(&self, mm: MmKey, addr: u64, out: &mut [u8]) -> usize {
        let mm = &self.spaces[mm.0];
        let mut done = 0;
        while done < out.len() {
            let at = addr.wrapping_add(done as u64);
            let len = (PAGE - at % PAGE).min((out.len() - done) as u64) as usize;
            if mm.find(at).is_none() || self.machine.read(mm.space, at, &mut out[done..done + len]).is_err() {
                break;
            }
            done += len;
        }
        done
    }

    /// Writes to an address space; private pages are written regardless of their protection. `EIO` where
    /// nothing is mapped or shared memory is not writable.
    pub(crate) fn poke(&mut self, mm: MmKey, addr: u64, data: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while done < data.len() {
            let at = addr.wrapping_add(done as u64);
            let len = (PAGE - at % PAGE).min((data.len() - done) as u64) as usize;
            let part = &data[done..done + len];
            let mm = &self.spaces[mm.0];
            let (space, vma) = (mm.space, mm.find(at).ok_or(Errno::EIO)?);
            if vma.prot.contains(belljar_machine::Prot::WRITE) {
                self.machine.write(space, at, part)?;
            } else if vma.shared {
                return Err(Errno::EIO);
            } else {
                self.machine.poke(space, at, part).map_err(|_| Errno::EIO)?;
            }
            done += len;
        }
        Ok(())
    }

    /// Removes the breakpoints that a forked process inherited from its parent: the parent's debugger does
    /// not debug the child.
    pub(crate) fn drop_inherited_breakpoints(&mut self, parent: ProcessKey, mm: MmKey) {
        let Some(debugger) = self.debugger_of(parent) else { return };
        for (addr, byte) in debugger.breakpoints() {
            // The page was writable in the parent, so it is in the child.
            let _ = self.poke(mm, addr, &[byte]);
        }
    }
}
