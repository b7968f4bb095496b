//! Target of gdb's protocol: memory, registers and threads of a process.

use super::registers::{ThreadRegisters, X86_64};
use super::session::tid_of;
use super::signals::from_gdb;
use crate::node::HostNode;
use belljar_kernel::DebugResume;
use gdbstub::common::{Pid, Signal, Tid};
use gdbstub::target::ext::auxv::{Auxv, AuxvOps};
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{
    MultiThreadBase, MultiThreadRangeStepping, MultiThreadRangeSteppingOps, MultiThreadResume,
    MultiThreadResumeOps, MultiThreadSchedulerLocking, MultiThreadSchedulerLockingOps, MultiThreadSingleStep,
    MultiThreadSingleStepOps,
};
use gdbstub::target::ext::breakpoints::{Breakpoints, BreakpointsOps, SwBreakpoint, SwBreakpointOps};
use gdbstub::target::ext::exec_file::{ExecFile, ExecFileOps};
use gdbstub::target::ext::extended_mode::{
    Args, AttachKind, CurrentActivePid, CurrentActivePidOps, ExtendedMode, ExtendedModeOps, ShouldTerminate,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::monitor_cmd::{ConsoleOutput, MonitorCmd, MonitorCmdOps, outputln};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};
use std::convert::Infallible;

/// Error numbers of the protocol, `EFAULT` and `ENOSYS`.
const FAULT: u8 = 14;
const UNSUPPORTED: u8 = 38;

fn number(tid: Tid) -> i32 {
    tid.get() as i32
}

/// Copies the requested part of `data` to `out`; returns its length.
pub fn part(data: &[u8], offset: u64, length: usize, out: &mut [u8]) -> usize {
    let from = data.len().min(usize::try_from(offset).unwrap_or(usize::MAX));
    let len = (data.len() - from).min(length).min(out.len());
    out[..len].copy_from_slice(&data[from..from + len]);
    len
}

impl Target for HostNode {
    type Arch = X86_64;
    type Error = Infallible;

    fn base_ops(&mut self) -> BaseOps<'_, X86_64, Infallible> {
        BaseOps::MultiThread(self)
    }
    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }
    fn support_extended_mode(&mut self) -> Option<ExtendedModeOps<'_, Self>> {
        Some(self)
    }
    fn support_auxv(&mut self) -> Option<AuxvOps<'_, Self>> {
        Some(self)
    }
    fn support_exec_file(&mut self) -> Option<ExecFileOps<'_, Self>> {
        Some(self)
    }
    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }
    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for HostNode {
    fn read_registers(&mut self, out: &mut ThreadRegisters, tid: Tid) -> TargetResult<(), Self> {
        let tid = number(tid);
        let (Some(regs), Some(xstate)) =
            (self.host.debugged().debug_regs(tid), self.host.debugged().debug_xstate(tid))
        else {
            return Err(TargetError::NonFatal);
        };
        *out = ThreadRegisters { regs, call: self.host.debugged().debug_call(tid), xstate };
        Ok(())
    }
    fn write_registers(&mut self, new: &ThreadRegisters, tid: Tid) -> TargetResult<(), Self> {
        let tid = number(tid);
        self.host
            .debugged()
            .debug_set_regs(tid, &new.regs)
            .map_err(|errno| TargetError::Errno(errno.0 as u8))?;
        if !new.xstate.is_empty() {
            self.host.debugged().debug_set_xstate(tid, &new.xstate);
        }
        Ok(())
    }
    fn read_addrs(&mut self, addr: u64, out: &mut [u8], _: Tid) -> TargetResult<usize, Self> {
        match self.host.debugged().debug_read(self.debug.pid, addr, out) {
            0 => Err(TargetError::Errno(FAULT)),
            len => Ok(len),
        }
    }
    fn write_addrs(&mut self, addr: u64, data: &[u8], _: Tid) -> TargetResult<(), Self> {
        self.host.debugged().debug_write(self.debug.pid, addr, data).map_err(|_| TargetError::Errno(FAULT))
    }
    fn list_active_threads(&mut self, each: &mut dyn FnMut(Tid)) -> Result<(), Infallible> {
        for thread in self.host.debugged().debug_threads(self.debug.pid) {
            each(tid_of(thread.tid));
        }
        Ok(())
    }
    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }
    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl ThreadExtraInfo for HostNode {
    fn thread_extra_info(&self, tid: Tid, out: &mut [u8]) -> Result<usize, Infallible> {
        let threads = self.host.linux().map(|linux| linux.debug_threads(self.debug.pid)).unwrap_or_default();
        let found = threads.iter().find(|thread| thread.tid == number(tid));
        let text = found.map_or("", |thread| thread.description.as_str());
        Ok(part(text.as_bytes(), 0, usize::MAX, out))
    }
}

impl MultiThreadResume for HostNode {
    fn clear_resume_actions(&mut self) -> Result<(), Infallible> {
        self.debug.resume = DebugResume::default();
        Ok(())
    }
    fn set_resume_action_continue(&mut self, tid: Tid, signal: Option<Signal>) -> Result<(), Infallible> {
        let tid = number(tid);
        if let Some(signal) = signal.and_then(from_gdb) {
            self.debug.resume.signal = Some((tid, signal));
        }
        // The thread is the only one to run if the scheduler is locked.
        self.debug.resume.only.get_or_insert(tid);
        Ok(())
    }
    fn resume(&mut self) -> Result<(), Infallible> {
        if !self.debug.is_locked {
            self.debug.resume.only = None;
        }
        self.debug.is_locked = false;
        self.resume_debuggee();
        Ok(())
    }
    fn support_single_step(&mut self) -> Option<MultiThreadSingleStepOps<'_, Self>> {
        Some(self)
    }
    fn support_range_step(&mut self) -> Option<MultiThreadRangeSteppingOps<'_, Self>> {
        Some(self)
    }
    fn support_scheduler_locking(&mut self) -> Option<MultiThreadSchedulerLockingOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadSingleStep for HostNode {
    fn set_resume_action_step(&mut self, tid: Tid, signal: Option<Signal>) -> Result<(), Infallible> {
        self.set_resume_action_continue(tid, signal)?;
        let resume = &mut self.debug.resume;
        (resume.step, resume.only) = (Some((number(tid), 0, 0)), Some(number(tid)));
        Ok(())
    }
}

impl MultiThreadRangeStepping for HostNode {
    fn set_resume_action_range_step(&mut self, tid: Tid, start: u64, end: u64) -> Result<(), Infallible> {
        self.set_resume_action_step(tid, None)?;
        self.debug.resume.step = Some((number(tid), start, end));
        Ok(())
    }
}

impl MultiThreadSchedulerLocking for HostNode {
    fn set_resume_action_scheduler_lock(&mut self) -> Result<(), Infallible> {
        self.debug.is_locked = true;
        Ok(())
    }
}

impl Breakpoints for HostNode {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for HostNode {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.host.debugged().debug_add_breakpoint(self.debug.pid, addr).is_ok())
    }
    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        // A breakpoint in an image that has been replaced is gone already.
        self.host.debugged().debug_remove_breakpoint(self.debug.pid, addr);
        Ok(true)
    }
}

impl Auxv for HostNode {
    fn get_auxv(&self, offset: u64, length: usize, out: &mut [u8]) -> TargetResult<usize, Self> {
        let auxv = self.host.linux().map(|linux| linux.debug_auxv(self.debug.pid)).unwrap_or_default();
        Ok(part(&auxv, offset, length, out))
    }
}

impl ExecFile for HostNode {
    fn get_exec_file(
        &self,
        _: Option<Pid>,
        offset: u64,
        length: usize,
        out: &mut [u8],
    ) -> TargetResult<usize, Self> {
        let session = self.debug.sessions.iter().find(|session| session.pid == self.debug.pid);
        let path = session.and_then(|session| session.executable.as_ref()).ok_or(TargetError::NonFatal)?;
        Ok(part(path.as_os_str().as_encoded_bytes(), offset, length, out))
    }
}

impl MonitorCmd for HostNode {
    fn handle_monitor_cmd(&mut self, _: &[u8], mut out: ConsoleOutput<'_>) -> Result<(), Infallible> {
        let (host, pid, now) = (self.host.name(), self.debug.pid, self.host.stack().clock.now());
        outputln!(out, "process {pid} of host {host}, simulated time {now}");
        Ok(())
    }
}

/// Extended mode; the process is selected before the protocol starts.
impl ExtendedMode for HostNode {
    fn run(&mut self, _: Option<&[u8]>, _: Args<'_, '_>) -> TargetResult<Pid, Self> {
        Err(TargetError::Errno(UNSUPPORTED))
    }
    fn attach(&mut self, _: Pid) -> TargetResult<(), Self> {
        Err(TargetError::Errno(UNSUPPORTED))
    }
    fn query_if_attached(&mut self, _: Pid) -> TargetResult<AttachKind, Self> {
        Ok(AttachKind::Attach)
    }
    fn kill(&mut self, _: Option<Pid>) -> TargetResult<ShouldTerminate, Self> {
        Ok(ShouldTerminate::Yes)
    }
    fn restart(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
    fn support_current_active_pid(&mut self) -> Option<CurrentActivePidOps<'_, Self>> {
        Some(self)
    }
}

impl CurrentActivePid for HostNode {
    fn current_active_pid(&mut self) -> Result<Pid, Infallible> {
        Ok(tid_of(self.debug.pid))
    }
}
