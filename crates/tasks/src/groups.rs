//! Process groups and sessions: `setpgid(2)`, `setsid(2)`.

use crate::process::Processes;
use belljar_linux_abi::Errno;
use belljar_objects::ids::ProcessKey;

impl Processes {
    /// Process with the number `pid`, including one that has ended and was not waited for.
    pub fn numbered(&self, pid: i32) -> Option<ProcessKey> {
        self.by_pid.get(&pid).copied()
    }

    /// Process with the number `pid`, including one that has ended; the caller for 0. `ESRCH` if there is
    /// none.
    pub fn find(&self, caller: ProcessKey, pid: i32) -> Result<ProcessKey, Errno> {
        match pid {
            0 => Ok(caller),
            _ => self.by_pid.get(&pid).copied().ok_or(Errno::ESRCH),
        }
    }

    /// All processes except `own` that have a number above 1 in its namespace, in order of their numbers.
    pub fn members_beside(&self, own: ProcessKey) -> Vec<ProcessKey> {
        let reached = |process: &ProcessKey| *process != own && self.shown_pid(own, self[process.0].pid) > 1;
        self.by_pid.values().copied().filter(reached).collect()
    }

    /// Members of a process group, in order of their numbers.
    pub fn group_members(&self, pgid: i32) -> Vec<ProcessKey> {
        self.by_pid.values().copied().filter(|p| self[p.0].pgid == pgid).collect()
    }

    /// True if the group is orphaned: no member's parent is in another group of the same session, so no
    /// process does job control for the group. Members that have ended do not count.
    pub fn is_orphaned_group(&self, pgid: i32) -> bool {
        self.group_members(pgid).into_iter().all(|member| {
            let member = &self[member.0];
            member.ended.is_some()
                || member.parent.is_none_or(|parent| {
                    let parent = &self[parent.0];
                    parent.pgid == pgid || parent.sid != member.sid
                })
        })
    }

    /// `setpgid(2)`; a `pid` of 0 is the caller, a `pgid` of 0 the number of the process.
    pub fn set_group(&mut self, caller: ProcessKey, pid: i32, pgid: i32) -> Result<(), Errno> {
        if pgid < 0 {
            return Err(Errno::EINVAL);
        }
        let key = self.find(caller, pid)?;
        let target = &self[key.0];
        let own = &self[caller.0];
        let is_child = target.parent == Some(caller);
        if key != caller && !is_child {
            return Err(Errno::ESRCH);
        }
        if is_child && target.sid != own.sid {
            return Err(Errno::EPERM);
        }
        if is_child && target.has_executed {
            return Err(Errno::EACCES);
        }
        if target.sid == target.pid {
            return Err(Errno::EPERM);
        }
        let pgid = if pgid == 0 { target.pid } else { pgid };
        let exists = || self.group_members(pgid).iter().any(|m| self[m.0].sid == own.sid);
        if pgid != target.pid && !exists() {
            return Err(Errno::EPERM);
        }
        self[key.0].pgid = pgid;
        Ok(())
    }

    /// `setsid(2)`: creates a session led by the caller and returns its number. `EPERM` if a process group
    /// has that number.
    pub fn new_session(&mut self, caller: ProcessKey) -> Result<i32, Errno> {
        let pid = self[caller.0].pid;
        if !self.group_members(pid).is_empty() {
            return Err(Errno::EPERM);
        }
        let process = &mut self[caller.0];
        (process.sid, process.pgid, process.terminal) = (pid, pid, None);
        Ok(pid)
    }
}
