//! Process namespaces, `pid_namespaces(7)`: a process has a number in its own namespace and in each one around it.
//!
//! The kernel knows a process and a thread by its number in the first namespace. Numbers are translated where programs of other
//! namespaces give or get them: for most calls by [`translated`] and the table behind it.

use super::MAX_LEVEL;
use belljar_base::Map;
use belljar_linux_abi::{Errno, c};
use std::collections::{BTreeMap, VecDeque};

/// The most numbers of ended tasks that are remembered: messages and objects may name them.
const REMEMBERED: usize = 4_096;
/// The number that stands for one that nobody has.
const NOBODY: i32 = i32::MAX;

#[derive(Debug)]
struct PidNamespace {
    parent: u32,
    level: u32,
    /// The user namespace that owns it.
    owner: u32,
    /// The number that it gives next.
    next: i32,
    /// Its process 1; `None` before there is one.
    init: Option<i32>,
    /// Its process 1 has ended: nobody can be made in it any more.
    over: bool,
    /// What its numbers are in the first namespace, those of ended processes included while groups and sessions keep them.
    members: BTreeMap<i32, i32>,
}

/// The process namespaces of a host but the first.
#[derive(Debug, Default)]
pub struct PidNamespaces {
    later: Vec<PidNamespace>,
    /// The number in the first namespace, with a later one, and the number there.
    numbers: Map<(i32, u32), i32>,
    /// Ended tasks that still have their numbers, with their namespaces, the first to end first.
    ended: VecDeque<(u32, i32)>,
}

impl PidNamespaces {
    fn get(&self, number: u32) -> Option<&PidNamespace> {
        self.later.get((number as usize).checked_sub(1)?)
    }
    /// True if numbers are what they are everywhere, since there is no other namespace.
    pub fn is_empty(&self) -> bool {
        self.later.is_empty()
    }
    /// The namespace that one lies in; `None` for the first.
    pub fn parent(&self, number: u32) -> Option<u32> {
        self.get(number).map(|found| found.parent)
    }
    /// The user namespace that owns one.
    pub fn owner(&self, number: u32) -> u32 {
        self.get(number).map_or(0, |found| found.owner)
    }
    /// True if a namespace is another, or lies in it.
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
    /// A new namespace in another. `ENOSPC` if they lie too deep.
    pub fn create(&mut self, parent: u32, owner: u32) -> Result<u32, Errno> {
        let level = self.get(parent).map_or(0, |found| found.level) + 1;
        if level > MAX_LEVEL {
            return Err(Errno::ENOSPC);
        }
        let (init, over, members) = (None, false, BTreeMap::new());
        self.later.push(PidNamespace { parent, level, owner, next: 1, init, over, members });
        Ok(self.later.len() as u32)
    }
    /// `ENOMEM` for a namespace in which nobody can be made any more.
    pub fn check_open(&self, number: u32) -> Result<(), Errno> {
        if self.get(number).is_some_and(|found| found.over) { Err(Errno::ENOMEM) } else { Ok(()) }
    }
    /// A process or thread is made in a namespace: it gets a number there and in each one around it.
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
    /// A process or thread is no more, and no group or session has its number, which is forgotten some time later.
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
    /// True for the process 1 of a namespace that programs have made.
    pub fn is_init(&self, number: u32, pid: i32) -> bool {
        self.init(number) == Some(pid)
    }
    /// The process 1 of a namespace that programs have made, if it has one.
    pub fn init(&self, number: u32) -> Option<i32> {
        self.get(number).and_then(|found| found.init)
    }
    /// The process 1 of a namespace ends; those that are in it or within it, with their numbers in the first one.
    pub fn end(&mut self, number: u32) -> Vec<i32> {
        let Some(found) = (number as usize).checked_sub(1).and_then(|n| self.later.get_mut(n)) else {
            return Vec::new();
        };
        found.over = true;
        found.members.values().copied().collect()
    }
    /// True if a namespace's process 1 has ended.
    pub fn is_over(&self, number: u32) -> bool {
        self.get(number).is_some_and(|found| found.over)
    }
    /// The number of a process in a namespace; 0 if it has none there, and what is no number as it is.
    pub fn shown(&self, number: u32, pid: i32) -> i32 {
        match number {
            0 => pid,
            _ if pid < 0 => pid,
            _ => self.numbers.get(&(pid, number)).copied().unwrap_or(0),
        }
    }
    /// The process that a number of a namespace names, by its number in the first one.
    pub fn found(&self, number: u32, pid: i32) -> Option<i32> {
        match self.get(number) {
            None => Some(pid),
            Some(found) => found.members.get(&pid).copied(),
        }
    }
    /// The same for what is to be looked for anyhow: a number that nobody has, if it names nobody.
    pub fn sought(&self, number: u32, pid: i32) -> i32 {
        self.found(number, pid).unwrap_or(NOBODY)
    }
    /// Its numbers from one namespace down to its own, a tabulator before each: `NSpid` in `/proc/PID/status`.
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

/// What an argument of a call names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// A process, a thread or a group; 0 and negative numbers mean something else.
    Task,
    /// The same, and a group by its negative number.
    TaskOrGroup,
    /// A process if another argument says so.
    If(usize, u64),
}

/// An argument's place, and what it names.
type Argument = (usize, Names);

/// The calls with arguments that are processes, those arguments, and whether their result is one.
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

/// The arguments of a call of a program in a namespace as the kernel has them, and whether the result is a process's number.
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
