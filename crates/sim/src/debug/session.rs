//! Session of one debugger with one process.

use super::hub::Debuggee;
use super::packets::Packets;
use super::signals::to_gdb;
use super::{DebugError, DebugState};
use crate::node::HostNode;
use belljar_kernel::{DebugStop, WaitStatus};
use gdbstub::common::{Signal, Tid};
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStub, MultiThreadStopReason};
use std::fmt::Write as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

type Machine = GdbStubStateMachine<'static, HostNode, Packets>;
type Stop = MultiThreadStopReason<u64>;

/// Session of a connected debugger.
pub struct Session {
    pub id: u64,
    pub pid: i32,
    /// Executable of the process.
    pub executable: Option<PathBuf>,
    /// State of the protocol; `None` during a transition, and after a failed one.
    machine: Option<Machine>,
}

/// Converts a thread id to the protocol's type.
pub fn tid_of(tid: i32) -> Tid {
    Tid::new(tid as usize).unwrap_or(Tid::MIN)
}

fn thread_stop(tid: i32, signal: Signal) -> Stop {
    MultiThreadStopReason::SignalWithThread { tid: tid_of(tid), signal }
}

impl DebugState {
    fn take(&mut self, session: u64) -> Option<(usize, Machine)> {
        let at = self.sessions.iter().position(|s| s.id == session)?;
        let Session { pid, machine, .. } = &mut self.sessions[at];
        self.pid = *pid;
        Some((at, machine.take()?))
    }
}

impl HostNode {
    /// Stops a process and starts the protocol with its debugger.
    pub(super) fn begin_session(
        &mut self,
        debuggee: Debuggee,
        stream: UnixStream,
    ) -> Result<u64, DebugError> {
        let pid = debuggee.pid;
        if !self.host.debugged().debug_attach(pid)
            || self.debug.sessions.iter().any(|session| session.pid == pid)
        {
            return Err(DebugError::Busy { host: self.host.name().to_owned(), pid });
        }
        // The debugger first queries the stop reason itself, so that the stop is not reported.
        self.host.debugged().debuggers.take_stop(pid);
        self.debug.pid = pid;
        let machine =
            GdbStub::new(Packets::new(stream)).run_state_machine(self).map_err(|_| DebugError::Over)?;
        self.debug.next_session += 1;
        let id = self.debug.next_session;
        self.debug.sessions.push(Session {
            id,
            pid,
            executable: debuggee.executable,
            machine: Some(machine),
        });
        Ok(id)
    }

    /// Processes data from a debugger.
    pub(super) fn feed(&mut self, session: u64, bytes: &[u8]) {
        for byte in bytes {
            let Some((at, machine)) = self.debug.take(session) else { return };
            let pid = self.debug.pid;
            let moved = match machine {
                Machine::Idle(machine) => machine.incoming_data(self, *byte),
                Machine::Running(machine) => machine.incoming_data(self, *byte),
                other => Ok(other),
            };
            let moved = moved.and_then(|machine| match machine {
                Machine::CtrlCInterrupt(machine) => {
                    if !self.host.debugged().debuggers.is_stopped(pid) {
                        self.host.debugged().debuggers.stop(pid, DebugStop::Asked);
                    }
                    machine.interrupt_handled(self, None::<Stop>)
                }
                other => Ok(other),
            });
            match moved {
                Ok(Machine::Disconnected(machine)) => {
                    if machine.get_reason() == DisconnectReason::Kill {
                        self.kill_debuggee(pid);
                    }
                    self.debug.sessions[at].machine = Some(machine.into());
                    return self.end_session(session);
                }
                Ok(machine) => self.debug.sessions[at].machine = Some(machine),
                // The connection broke, or the data violate the protocol.
                Err(_) => return self.end_session(session),
            }
        }
    }

    /// Reports a stop of the process to its debugger.
    pub(super) fn report_stop(&mut self, session: u64, pid: i32, stop: DebugStop) {
        let Some((at, machine)) = self.debug.take(session) else { return };
        let Machine::Running(mut machine) = machine else {
            self.debug.sessions[at].machine = Some(machine);
            return;
        };
        let reason = match stop {
            DebugStop::Asked => thread_stop(self.any_thread(pid), Signal::SIGINT),
            DebugStop::Breakpoint(tid) => MultiThreadStopReason::SwBreak(tid_of(tid)),
            DebugStop::Stepped(tid) => thread_stop(tid, Signal::SIGTRAP),
            DebugStop::Signal(tid, signal) => thread_stop(tid, to_gdb(signal)),
            DebugStop::Executed(tid) => {
                let packet = self.executed_packet(pid, tid);
                machine.borrow_conn().send_instead(packet);
                thread_stop(tid, Signal::SIGTRAP)
            }
            DebugStop::Ended(WaitStatus::Exited(code)) => MultiThreadStopReason::Exited(code),
            DebugStop::Ended(WaitStatus::Signaled(signal)) => {
                MultiThreadStopReason::Terminated(to_gdb(signal))
            }
        };
        match machine.report_stop(self, reason) {
            Ok(machine) => self.debug.sessions[at].machine = Some(machine),
            Err(_) => self.end_session(session),
        }
    }

    /// Ends a session: detaches from the process, which continues, and closes the connection.
    pub(super) fn end_session(&mut self, session: u64) {
        let Some(at) = self.debug.sessions.iter().position(|s| s.id == session) else { return };
        let session = self.debug.sessions.remove(at);
        self.host.debugged().debug_detach(session.pid);
        match session.machine {
            Some(Machine::Idle(mut machine)) => machine.borrow_conn().close(),
            Some(Machine::Running(mut machine)) => machine.borrow_conn().close(),
            Some(Machine::CtrlCInterrupt(mut machine)) => machine.borrow_conn().close(),
            Some(Machine::Disconnected(mut machine)) => machine.borrow_conn().close(),
            None => {}
        }
    }

    fn any_thread(&self, pid: i32) -> i32 {
        let threads = self.host.linux().map(|linux| linux.debug_threads(pid)).unwrap_or_default();
        threads.first().map_or(pid, |thread| thread.tid)
    }

    /// Builds the stop packet of a process that has executed another program.
    fn executed_packet(&mut self, pid: i32, tid: i32) -> String {
        let mut packet = format!("T05thread:p{pid:x}.{tid:x};exec:");
        let executable = self.host.debugged().debug_executable(pid);
        let path = executable.clone().unwrap_or_default();
        if let Some(session) = self.debug.sessions.iter_mut().find(|session| session.pid == pid) {
            session.executable = executable;
        }
        for byte in path.as_os_str().as_encoded_bytes() {
            let _ = write!(packet, "{byte:02x}");
        }
        packet.push(';');
        packet
    }
}
