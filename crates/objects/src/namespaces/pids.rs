//! PID namespaces, `pid_namespaces(7)`: a process has a pid in its own namespace and in each ancestor.
//!
//! The kernel identifies processes and threads by their pids in the initial namespace, called global here.
//! Pids are translated at the boundary to programs of other namespaces: for most calls by [`translated`] and
//! its table.

use super::MAX_LEVEL;
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// Maximum number of ended tasks whose pids are kept, since messages and objects may refer to them.
const REMEMBERED: usize = 4_096;
/// Pid that no process has.
const NOBODY: i32 = i32::MAX;

#[derive(Debug)]
struct PidNamespace {
    parent: u32,
    level: u32,
    /// User namespace that owns it.
    owner: u32,
    /// Next pid to assign.
    next: i32,
    /// Global pid of its init process; `None` before that exists.
    init: Option<i32>,
    /// True after its init process has ended: no process can be created in it.
    over: bool,
    /// Global pids by local pid, including those of ended processes that are still group or session ids.
    members: Map<i32, i32>,
}

/// PID namespaces of a host except the initial one.
#[derive(Debug, Default)]
pub struct PidNamespaces {
    later: Vec<PidNamespace>,
    /// Local pid by global pid and namespace.
    numbers: Map<(i32, u32), i32>,
    /// Ended tasks that keep their pids, with their namespaces, oldest first.
    ended: VecDeque<(u32, i32)>,
}

impl PidNamespaces {
    fn get(&self, number: u32) -> Option<&PidNamespace> {
        self.later.get((number as usize).checked_sub(1)?)
    }
    /// True if only the initial namespace exists, so that no pid needs translation.
    pub fn is_empty(&self) -> bool {
        self.later.is_empty()
    }
    /// Parent namespace; `None` for the initial one.
    pub fn parent(&self, number: u32) -> Option<u32> {
        self.get(number).map(|found| found.parent)
    }
    /// User namespace that owns a namespace.
    pub fn owner(&self, number: u32) -> u32 {
        self.get(number).map_or(0, |found| found.owner)
    }
    /// True if a namespace is `outer` or a descendant of it.
    pub fn is_within(&self, number: u32, outer: u32) -> bool {
        let mut at = Some(number);
        while let Some(number) = at {
            if number == outer {
                return true;
            }
            at = self.parent(number);
        }
        false
    }
    /// Creates a namespace in `parent`. `ENOSPC` beyond the maximum depth.
    pub fn create(&mut self, parent: u32, owner: u32) -> Result<u32, Errno> {
        let level = self.get(parent).map_or(0, |found| found.level) + 1;
        if level > MAX_LEVEL {
            return Err(Errno::ENOSPC);
        }
        let (init, over, members) = (None, false, Map::new());
        self.later.push(PidNamespace { parent, level, owner, next: 1, init, over, members });
        Ok(self.later.len() as u32)
    }
    /// Checks that processes can still be created in a namespace: `ENOMEM`.
    pub fn check_open(&self, number: u32) -> Result<(), Errno> {
        if self.get(number).is_some_and(|found| found.over) { Err(Errno::ENOMEM) } else { Ok(()) }
    }
    /// Assigns pids to a new process or thread in its namespace and each ancestor.
    pub fn add(&mut self, number: u32, pid: i32) {
        let mut at = number;
        while let Some(found) = (at as usize).checked_sub(1).and_then(|n| self.later.get_mut(n)) {
            let local = found.next;
            found.next += 1;
            found.members.insert(local, pid);
            if found.init.is_none() {
                found.init = Some(pid);
            }
            self.numbers.insert((pid, at), local);
            at = found.parent;
        }
    }
    /// Schedules the removal of the pids of an ended process or thread whose number is no group or session id.
    pub fn forget(&mut self, number: u32, pid: i32) {
        self.ended.push_back((number, pid));
        if self.ended.len() > REMEMBERED
            && let Some((number, pid)) = self.ended.pop_front()
        {
            self.remove(number, pid);
        }
    }
    fn remove(&mut self, number: u32, pid: i32) {
        let mut at = number;
        while let Some(found) = (at as usize).checked_sub(1).and_then(|n| self.later.get_mut(n)) {
            if let Some(local) = self.numbers.remove(&(pid, at)) {
                found.members.remove(&local);
            }
            at = found.parent;
        }
    }
    /// True for the init process of a namespace other than the initial one.
    pub fn is_init(&self, number: u32, pid: i32) -> bool {
        self.init(number) == Some(pid)
    }
    /// Global pid of the init process of a namespace other than the initial one, if it has one.
    pub fn init(&self, number: u32) -> Option<i32> {
        self.get(number).and_then(|found| found.init)
    }
    /// Closes a namespace whose init process ends. Returns the global pids of the members, descendants
    /// included.
    pub fn end(&mut self, number: u32) -> Vec<i32> {
        let Some(found) = (number as usize).checked_sub(1).and_then(|n| self.later.get_mut(n)) else {
            return Vec::new();
        };
        found.over = true;
        found.members.values().copied().collect()
    }
    /// True if the init process of a namespace has ended.
    pub fn is_over(&self, number: u32) -> bool {
        self.get(number).is_some_and(|found| found.over)
    }
    /// Local pid of a process in a namespace; 0 if it has none there. Negative values are returned unchanged.
    pub fn shown(&self, number: u32, pid: i32) -> i32 {
        match number {
            0 => pid,
            _ if pid < 0 => pid,
            _ => self.numbers.get(&(pid, number)).copied().unwrap_or(0),
        }
    }
    /// Global pid of a local pid.
    pub fn found(&self, number: u32, pid: i32) -> Option<i32> {
        match self.get(number) {
            None => Some(pid),
            Some(found) => found.members.get(&pid).copied(),
        }
    }
    /// Global pid for a lookup: that of the local pid, or one that no process has.
    pub fn sought(&self, number: u32, pid: i32) -> i32 {
        self.found(number, pid).unwrap_or(NOBODY)
    }
    /// Local pids from namespace `from` down to `own`, each after a tab: `NSpid` in `/proc/PID/status`.
    pub fn all_shown(&self, from: u32, own: u32, pid: i32) -> String {
        let mut numbers = Vec::new();
        let mut at = Some(own);
        while let Some(number) = at {
            numbers.push(format!("\t{}", self.shown(number, pid)));
            at = if number == from { None } else { self.parent(number) };
        }
        numbers.reverse();
        numbers.concat()
    }
}

/// Meaning of an argument of a system call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Pid of a process or thread, or a process group id; 0 and negative values are special.
    Task,
    /// As `Task`, or a process group as a negative number.
    TaskOrGroup,
    /// Pid, if the argument with this index has this value.
    If(usize, u64),
}

/// Index of an argument and its meaning.
type Argument = (usize, Names);

/// System calls with pid arguments: the arguments, and true if the result is a pid.
const CALLS: &[(i64, &[Argument], bool)] = &[
    (c::SYS_getpgid, &[(0, Names::Task)], true),
    (c::SYS_getsid, &[(0, Names::Task)], true),
    (c::SYS_setsid, &[], true),
    (c::SYS_setpgid, &[(0, Names::Task), (1, Names::Task)], false),
    (c::SYS_fork, &[], true),
    (c::SYS_vfork, &[], true),
    (c::SYS_clone, &[], true),
    (c::SYS_clone3, &[], true),
    (c::SYS_set_tid_address, &[], true),
    (c::SYS_kill, &[(0, Names::TaskOrGroup)], false),
    (c::SYS_tkill, &[(0, Names::Task)], false),
    (c::SYS_tgkill, &[(0, Names::Task), (1, Names::Task)], false),
    (c::SYS_rt_sigqueueinfo, &[(0, Names::Task)], false),
    (c::SYS_rt_tgsigqueueinfo, &[(0, Names::Task), (1, Names::Task)], false),
    (c::SYS_wait4, &[(0, Names::TaskOrGroup)], true),
    // `P_PID` and `P_PGID`.
    (c::SYS_waitid, &[(1, Names::If(0, 1)), (1, Names::If(0, 2))], false),
    (c::SYS_pidfd_open, &[(0, Names::Task)], false),
    (c::SYS_prlimit64, &[(0, Names::Task)], false),
    (c::SYS_ptrace, &[(1, Names::Task)], false),
    (c::SYS_kcmp, &[(0, Names::Task), (1, Names::Task)], false),
    (c::SYS_process_vm_readv, &[(0, Names::Task)], false),
    (c::SYS_process_vm_writev, &[(0, Names::Task)], false),
    (c::SYS_get_robust_list, &[(0, Names::Task)], false),
    (c::SYS_move_pages, &[(0, Names::Task)], false),
    (c::SYS_migrate_pages, &[(0, Names::Task)], false),
    (c::SYS_sched_setparam, &[(0, Names::Task)], false),
    (c::SYS_sched_getparam, &[(0, Names::Task)], false),
    (c::SYS_sched_setscheduler, &[(0, Names::Task)], false),
    (c::SYS_sched_getscheduler, &[(0, Names::Task)], false),
    (c::SYS_sched_rr_get_interval, &[(0, Names::Task)], false),
    (c::SYS_sched_setaffinity, &[(0, Names::Task)], false),
    (c::SYS_sched_getaffinity, &[(0, Names::Task)], false),
    (c::SYS_sched_setattr, &[(0, Names::Task)], false),
    (c::SYS_sched_getattr, &[(0, Names::Task)], false),
    // `PRIO_PROCESS` and `PRIO_PGRP`, `IOPRIO_WHO_PROCESS` and `IOPRIO_WHO_PGRP`.
    (c::SYS_getpriority, &[(1, Names::If(0, 0)), (1, Names::If(0, 1))], false),
    (c::SYS_setpriority, &[(1, Names::If(0, 0)), (1, Names::If(0, 1))], false),
    (c::SYS_ioprio_get, &[(1, Names::If(0, 1)), (1, Names::If(0, 2))], false),
    (c::SYS_ioprio_set, &[(1, Names::If(0, 1)), (1, Names::If(0, 2))], false),
    (c::SYS_fcntl, &[(2, Names::If(1, c::F_SETOWN as u64))], false),
];

/// Arguments of a system call translated from a namespace to global pids, and true if the result is a pid.
pub fn translated(all: &PidNamespaces, namespace: u32, number: u32, mut args: [u64; 6]) -> ([u64; 6], bool) {
    let Some((_, names, result)) = CALLS.iter().find(|(call, ..)| *call == i64::from(number)) else {
        return (args, false);
    };
    let before = args;
    for (at, what) in *names {
        let given = before[*at] as i32;
        let wanted = match what {
            Names::If(other, value) => before[*other] as i32 == *value as i32,
            _ => true,
        };
        let signed = matches!(what, Names::TaskOrGroup) || number as i64 == c::SYS_fcntl;
        args[*at] = match given {
            _ if !wanted => continue,
            1.. => all.sought(namespace, given) as u64,
            i32::MIN..-1 if signed => all.sought(namespace, given.wrapping_neg()).wrapping_neg() as u64,
            _ => continue,
        };
    }
    (args, *result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_number_in_each_namespace_around_it() {
        let mut all = PidNamespaces::default();
        let outer = all.create(0, 0).unwrap();
        all.add(outer, 1_000);
        let inner = all.create(outer, 7).unwrap();
        for pid in [1_001, 1_002] {
            all.add(inner, pid);
        }
        assert_eq!([0, outer, inner].map(|number| all.shown(number, 1_002)), [1_002, 3, 2]);
        assert_eq!(all.shown(inner, 1_000), 0);
        assert_eq!(all.all_shown(0, inner, 1_002), "\t1002\t3\t2");
        assert_eq!(all.all_shown(outer, inner, 1_002), "\t3\t2");
        assert_eq!((all.found(inner, 1), all.found(inner, 9), all.found(0, 9)), (Some(1_001), None, Some(9)));
        assert!(all.is_init(inner, 1_001) && !all.is_init(outer, 1_001) && !all.is_init(0, 1_000));
        assert_eq!(all.end(outer), [1_000, 1_001, 1_002]);
        assert_eq!((all.check_open(outer), all.check_open(inner)), (Err(Errno::ENOMEM), Ok(())));
        assert_eq!((all.owner(inner), all.parent(inner), all.parent(0)), (7, Some(outer), None));
    }

    #[test]
    fn arguments_are_translated_where_they_name_processes() {
        let mut all = PidNamespaces::default();
        let number = all.create(0, 0).unwrap();
        all.add(number, 1_000);
        let call = |number: i64, args: [i32; 2]| {
            let args = [args[0] as u64, args[1] as u64, 0, 0, 0, 0];
            let (new, result) = translated(&all, 1, number as u32, args);
            ([new[0] as i32, new[1] as i32], result)
        };
        assert_eq!(call(c::SYS_kill, [1, 9]), ([1_000, 9], false));
        assert_eq!(call(c::SYS_kill, [-1, 9]), ([-1, 9], false));
        assert_eq!(call(c::SYS_wait4, [-5, 0]), ([-NOBODY, 0], true));
        assert_eq!(call(c::SYS_getpriority, [2, 1]), ([2, 1], false));
        assert_eq!(call(c::SYS_getpriority, [0, 1]), ([0, 1_000], false));
        assert_eq!(call(c::SYS_read, [1, 1]), ([1, 1], false));
        assert_eq!(call(c::SYS_tgkill, [1, 5]), ([1_000, NOBODY], false));
    }

    #[test]
    fn namespaces_lie_in_each_other_only_so_deep() {
        let mut all = PidNamespaces::default();
        let deepest = (0..MAX_LEVEL).fold(0, |at, _| all.create(at, 0).unwrap());
        assert_eq!(all.create(deepest, 0), Err(Errno::ENOSPC));
        assert!(all.is_within(deepest, 1) && !all.is_within(1, deepest));
    }
}
