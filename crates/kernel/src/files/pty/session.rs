//! Controlling terminals: the session of a terminal, its foreground process group, and job control of the
//! others, `credentials(7)`, `tty_ioctl(4)`.

use crate::call::Call;
use crate::files::Files;
use crate::host::Host;
use crate::ids::ProcessKey;
use crate::outcome::{Block, IfInterrupted, SysResult};
use crate::process::Processes;
use belljar_linux_abi::signal::{SigInfo, sig_bit};
use belljar_linux_abi::{Errno, c};

impl Files {
    /// Makes a terminal the controlling terminal of a session leader that has none, unless it belongs to
    /// another session.
    pub(super) fn acquire_terminal(&mut self, processes: &mut Processes, process: ProcessKey, pty: usize) {
        let leader = &processes[process.0];
        let free = self.ptys[pty].session.is_none();
        if leader.sid == leader.pid && leader.terminal.is_none() && free {
            self.set_terminal(processes, process, pty);
        }
    }

    fn set_terminal(&mut self, processes: &mut Processes, process: ProcessKey, pty: usize) {
        let leader = &mut processes[process.0];
        leader.terminal = Some(pty);
        let (sid, pgid) = (leader.sid, leader.pgid);
        let pty = &mut self.ptys[pty];
        (pty.session, pty.foreground) = (Some(sid), pgid);
    }

    /// `TIOCSCTTY`. `EPERM` if the process is no session leader or has another terminal, and if the terminal
    /// belongs to another session, unless root steals it.
    pub(super) fn claim_terminal(
        &mut self,
        processes: &mut Processes,
        process: ProcessKey,
        pty: usize,
        steal: bool,
    ) -> Result<(), Errno> {
        let leader = &processes[process.0];
        let session = self.ptys[pty].session;
        if leader.sid == leader.pid && session == Some(leader.sid) {
            return Ok(());
        }
        if leader.sid != leader.pid || leader.terminal.is_some() {
            return Err(Errno::EPERM);
        }
        if let Some(session) = session {
            if !(steal && leader.credentials.euid == 0) {
                return Err(Errno::EPERM);
            }
            self.forget_terminal_of_session(processes, session);
        }
        self.set_terminal(processes, process, pty);
        Ok(())
    }

    fn forget_terminal_of_session(&mut self, processes: &mut Processes, session: i32) {
        for (_, process) in processes.iter_mut() {
            if process.sid == session {
                process.terminal = None;
            }
        }
        for (_, pty) in &mut self.ptys {
            if pty.session == Some(session) {
                (pty.session, pty.foreground) = (None, 0);
            }
        }
    }
}

impl Host {
    /// `TIOCNOTTY`: a session leader detaches its whole session from the terminal, and the foreground group
    /// gets `SIGHUP` and `SIGCONT`; any other process only detaches itself.
    pub(super) fn give_up_terminal(&mut self, process: ProcessKey) {
        let target = &self.processes[process.0];
        let Some(pty) = target.terminal else { return };
        if target.sid != target.pid {
            self.process(process).terminal = None;
            return;
        }
        let (sid, foreground) = (target.sid, self.files.ptys[pty].foreground);
        self.signal_group(foreground, c::SIGHUP);
        self.signal_group(foreground, c::SIGCONT);
        self.files.forget_terminal_of_session(&mut self.processes, sid);
    }

    /// Handles the exit of a session leader: the foreground group of its terminal gets `SIGHUP`, and the
    /// session loses its terminal.
    pub(crate) fn session_leader_ended(&mut self, process: ProcessKey) {
        let leader = &self.processes[process.0];
        let (sid, terminal) = (leader.sid, leader.terminal);
        if leader.pid != sid {
            return;
        }
        let Some(pty) = terminal else { return };
        let foreground = self.files.ptys[pty].foreground;
        self.files.forget_terminal_of_session(&mut self.processes, sid);
        self.signal_group(foreground, c::SIGHUP);
    }

    /// Handles the close of a master: the session leader gets `SIGHUP` and `SIGCONT`, the foreground group
    /// `SIGHUP`, and the session loses its terminal.
    pub(crate) fn hang_up_terminal(&mut self, pty: usize) {
        let terminal = &self.files.ptys[pty];
        let Some(session) = terminal.session else { return };
        let foreground = terminal.foreground;
        if let Some(leader) = self.processes.by_pid.get(&session).copied() {
            self.send_signal(leader, SigInfo::kernel(c::SIGHUP));
            self.send_signal(leader, SigInfo::kernel(c::SIGCONT));
        }
        if foreground != session {
            self.signal_group(foreground, c::SIGHUP);
        }
        self.files.forget_terminal_of_session(&mut self.processes, session);
    }

    /// Sends a signal to the foreground process group of a terminal.
    pub(crate) fn signal_foreground(&mut self, pty: usize, signal: i32) {
        let foreground = self.files.ptys[pty].foreground;
        self.signal_group(foreground, signal);
    }

    pub(crate) fn signal_group(&mut self, pgid: i32, signal: i32) {
        if pgid <= 0 {
            return;
        }
        for member in self.processes.group_members(pgid) {
            if self.processes.contains(member.0) {
                self.send_signal(member, SigInfo::kernel(signal));
            }
        }
    }
}

impl Call<'_> {
    /// Result of an access to its terminal by a process of a background group: reading (`SIGTTIN`), or
    /// writing or setting (`SIGTTOU`); `None` if the access is allowed. The group is sent the signal, and the
    /// call restarts once the group is continued. `EIO` for an orphaned group, and for a read if `SIGTTIN` is
    /// blocked or ignored.
    pub(super) fn background_access(&mut self, pty: usize, signal: i32) -> Option<SysResult> {
        let process = &self.host.processes[self.process.0];
        let (pgid, foreground) = (process.pgid, self.host.files.ptys[pty].foreground);
        if process.terminal != Some(pty) || pgid == foreground {
            return None;
        }
        let blocked = self.host.threads[self.thread.0].signals.blocked & sig_bit(signal) != 0;
        let ignored = process.signals.action(signal).handler == c::SIG_IGN as u64;
        if blocked || ignored {
            return (signal == c::SIGTTIN).then_some(Err(Errno::EIO));
        }
        if self.host.processes.is_orphaned_group(pgid) {
            return Some(Err(Errno::EIO));
        }
        self.host.signal_group(pgid, signal);
        // A deadline of now: the thread restarts the call at once, unless the signal stops it.
        let now = self.now();
        Some(Block::until(Some(now)).interrupted(IfInterrupted::Restart).into())
    }
}
