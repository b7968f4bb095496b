//! Registers as presented to tracers.

use crate::host::Host;
use crate::ids::ThreadKey;
use crate::outcome::IfInterrupted;
use crate::thread::Continuation;
use belljar_linux_abi::Errno;
use belljar_linux_abi::ptrace::{SyscallInfo, UserRegs};
use belljar_machine::Regs;
use belljar_objects::tracees::Stop;

/// Segment selectors of 64-bit code on Linux.
const CS: u64 = 0x33;
const SS: u64 = 0x2b;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Internal return values of interrupted calls that are restarted: `ERESTARTSYS` unless a handler without
/// `SA_RESTART` runs, `ERESTARTNOINTR` always, `ERESTARTNOHAND` unless any handler runs.
const RESTART: i64 = -512;
const RESTART_ALWAYS: i64 = -513;
const RESTART_NO_HANDLER: i64 = -514;

impl Host {
    /// Registers of a stopped thread.
    pub(crate) fn trace_regs(&self, thread: ThreadKey) -> UserRegs {
        let thread = &self.threads[thread.0];
        let regs = self.machine.regs(thread.context);
        let call = thread.trace.as_ref().and_then(|tracee| tracee.call);
        let (rax, orig_rax) = match &thread.continuation {
            Some(Continuation::Interrupted { how, .. }) => (interrupted_value(*how), regs.rax),
            _ if thread.blocked_state().is_some() => (Errno::ENOSYS.as_return(), regs.rax),
            _ => (regs.rax, call.unwrap_or(u64::MAX)),
        };
        UserRegs {
            r15: regs.r15,
            r14: regs.r14,
            r13: regs.r13,
            r12: regs.r12,
            rbp: regs.rbp,
            rbx: regs.rbx,
            r11: regs.r11,
            r10: regs.r10,
            r9: regs.r9,
            r8: regs.r8,
            rax,
            rcx: regs.rcx,
            rdx: regs.rdx,
            rsi: regs.rsi,
            rdi: regs.rdi,
            orig_rax,
            rip: regs.rip,
            cs: CS,
            eflags: regs.rflags,
            rsp: regs.rsp,
            ss: SS,
            fs_base: regs.fs_base,
            gs_base: regs.gs_base,
            ..UserRegs::default()
        }
    }

    /// Sets the registers of a stopped thread. A change aborts an interrupted call. `EIO` for a thread
    /// stopped inside a call, and for FS and GS bases outside user space.
    pub(crate) fn set_trace_regs(&mut self, key: ThreadKey, new: &UserRegs) -> Result<(), Errno> {
        let shown = self.trace_regs(key);
        if shown == *new {
            return Ok(());
        }
        let regs = Regs {
            r15: new.r15,
            r14: new.r14,
            r13: new.r13,
            r12: new.r12,
            rbp: new.rbp,
            rbx: new.rbx,
            r11: new.r11,
            r10: new.r10,
            r9: new.r9,
            r8: new.r8,
            rax: new.rax,
            rcx: new.rcx,
            rdx: new.rdx,
            rsi: new.rsi,
            rdi: new.rdi,
            rip: new.rip,
            rflags: new.eflags,
            rsp: new.rsp,
            fs_base: new.fs_base,
            gs_base: new.gs_base,
        };
        if !regs.has_proper_bases() {
            return Err(Errno::EIO);
        }
        let thread = self.thread(key);
        if thread.blocked_state().is_some() {
            // A stop inside a call: registers are not reloaded there.
            return Err(Errno::EIO);
        }
        if matches!(thread.continuation, Some(Continuation::Interrupted { .. })) {
            thread.continuation = None;
        }
        let (process, context) = (thread.process, thread.context);
        if let Some(tracee) = &mut thread.trace
            && tracee.call.is_some()
        {
            tracee.call = Some(new.orig_rax);
        }
        *self.machine.regs_mut(context) = regs;
        if regs.gs_base != 0 {
            // As for `ARCH_SET_GS`: rewritten call sites reach the platform through GS.
            self.show_code(process);
        }
        Ok(())
    }

    /// `PTRACE_GET_SYSCALL_INFO`.
    pub(crate) fn trace_call_info(&self, key: ThreadKey) -> SyscallInfo {
        let regs = self.trace_regs(key);
        let stop = self.threads[key.0].trace.as_ref().and_then(|tracee| tracee.stop);
        let mut info = SyscallInfo {
            arch: AUDIT_ARCH_X86_64,
            instruction_pointer: regs.rip,
            stack_pointer: regs.rsp,
            ..SyscallInfo::default()
        };
        match stop {
            Some(Stop::CallEntry) => {
                info.op = SyscallInfo::ENTRY;
                info.fields = [regs.orig_rax, regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
            }
            Some(Stop::CallExit) => {
                info.op = SyscallInfo::EXIT;
                let failed = (-4095..0).contains(&(regs.rax as i64));
                info.fields[..2].copy_from_slice(&[regs.rax, u64::from(failed)]);
            }
            _ => {}
        }
        info
    }
}

/// Return value that an interrupted call shows until its restart is decided.
fn interrupted_value(how: IfInterrupted) -> u64 {
    match how {
        IfInterrupted::Eintr => Errno::EINTR.as_return(),
        IfInterrupted::Restart | IfInterrupted::Killable => RESTART as u64,
        IfInterrupted::RestartNoHandler => RESTART_NO_HANDLER as u64,
        IfInterrupted::RestartAlways => RESTART_ALWAYS as u64,
        IfInterrupted::Value(value) => value,
    }
}
