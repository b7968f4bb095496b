//! System call filtering, seccomp(2): the strict mode, which allows four calls, and filters in classic BPF
//! over the call number and arguments.

use belljar_linux_abi::{Errno, c};
use belljar_netstack::filter::{Instruction, Metadata, SocketFilter};
use std::sync::Arc;

/// `AUDIT_ARCH_X86_64`.
pub const ARCH_X86_64: u32 = 0xc000_003e;
/// `AUDIT_ARCH_I386`: calls by `int 0x80`.
pub const ARCH_I386: u32 = 0x4000_0003;
/// `MAX_INSNS_PER_PATH`: maximum of instructions in all filters of a thread, with a penalty of four for each
/// filter.
const MOST_INSTRUCTIONS: usize = 32_768;
const COUNTED_MORE: usize = 4;
/// Size of `struct seccomp_data` in bytes.
const DATA: u32 = 64;

/// Input of a filter, `struct seccomp_data`.
#[derive(Clone, Copy, Debug)]
pub struct SeccompData {
    /// System call number.
    pub number: u32,
    /// `AUDIT_ARCH_*`.
    pub arch: u32,
    /// Address after the system call instruction.
    pub instruction: u64,
    /// Arguments of the call.
    pub args: [u64; 6],
}

/// Verdict on a system call, `SECCOMP_RET_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeccompVerdict {
    /// Kill the process.
    KillProcess,
    /// Kill the thread with this signal.
    KillThread(i32),
    /// Send `SIGSYS` with this value as `si_errno`.
    Trap(u16),
    /// Fail the call with this errno; 0 makes it return 0.
    Fail(u16),
    /// Ask a tracer or listener; there is none.
    Unanswered,
    /// Allow the call.
    Allow,
}

/// `SECCOMP_RET_*`.
mod action {
    pub const KILL_PROCESS: u32 = 0x8000_0000;
    pub const KILL_THREAD: u32 = 0;
    pub const TRAP: u32 = 0x3_0000;
    pub const ERRNO: u32 = 0x5_0000;
    pub const USER_NOTIF: u32 = 0x7fc0_0000;
    pub const TRACE: u32 = 0x7ff0_0000;
    pub const LOG: u32 = 0x7ffc_0000;
    pub const ALLOW: u32 = 0x7fff_0000;
    pub const MASK: u32 = 0xffff_0000;
}

/// True if the action is supported, `SECCOMP_GET_ACTION_AVAIL`. Filters may return others nevertheless.
pub fn is_available(action: u32) -> bool {
    use action::{ALLOW, ERRNO, KILL_PROCESS, KILL_THREAD, LOG, TRAP};
    [KILL_PROCESS, KILL_THREAD, TRAP, ERRNO, LOG, ALLOW].contains(&action)
}

/// Seccomp state of a thread.
#[derive(Clone, Debug)]
pub enum Seccomp {
    /// `SECCOMP_MODE_STRICT`.
    Strict,
    /// `SECCOMP_MODE_FILTER`: the filters, oldest first.
    Filters(Vec<Arc<SocketFilter>>),
}

impl Seccomp {
    /// `PR_GET_SECCOMP`.
    pub fn mode(&self) -> u64 {
        match self {
            Seccomp::Strict => 1,
            Seccomp::Filters(_) => 2,
        }
    }
    /// Number of filters.
    pub fn filters(&self) -> usize {
        match self {
            Seccomp::Strict => 0,
            Seccomp::Filters(filters) => filters.len(),
        }
    }
    /// Verdict on a call. The filter with the strictest action decides; among equals, the newest.
    pub fn verdict(&self, call: &SeccompData) -> SeccompVerdict {
        let Seccomp::Filters(filters) = self else {
            let allowed = [c::SYS_read, c::SYS_write, c::SYS_exit, c::SYS_rt_sigreturn];
            let is_allowed = call.arch == ARCH_X86_64 && allowed.contains(&i64::from(call.number));
            return if is_allowed { SeccompVerdict::Allow } else { SeccompVerdict::KillThread(c::SIGKILL) };
        };
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        let words = [call.number, call.arch].into_iter().chain(halves(call.instruction));
        let words = words.chain(call.args.into_iter().flat_map(halves));
        // Packet filters load words in network byte order.
        let data: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
        let metadata = Metadata::default();
        let results = filters.iter().rev().map(|filter| filter.run(&data, &metadata) as u32);
        let strictest = results.min_by_key(|result| (result & action::MASK) as i32).unwrap_or(action::ALLOW);
        let value = strictest as u16;
        match strictest & action::MASK {
            action::KILL_THREAD => SeccompVerdict::KillThread(c::SIGSYS),
            action::TRAP => SeccompVerdict::Trap(value),
            action::ERRNO => SeccompVerdict::Fail(value.min(4_095)),
            action::USER_NOTIF | action::TRACE => SeccompVerdict::Unanswered,
            action::LOG | action::ALLOW => SeccompVerdict::Allow,
            _ => SeccompVerdict::KillProcess,
        }
    }
    /// True if the filters of `self` are a prefix of those of `other`, so that `other` is at least as strict.
    pub fn is_part_of(&self, other: &Seccomp) -> bool {
        match (self, other) {
            (Seccomp::Filters(own), Seccomp::Filters(all)) => {
                own.len() <= all.len() && own.iter().zip(all).all(|(a, b)| Arc::ptr_eq(a, b))
            }
            _ => false,
        }
    }
}

/// State with one more filter. `EINVAL` in strict mode, `ENOMEM` beyond the instruction limit.
pub fn with_filter(now: Option<&Seccomp>, filter: SocketFilter) -> Result<Seccomp, Errno> {
    let mut filters = match now {
        None => Vec::new(),
        Some(Seccomp::Filters(filters)) => filters.clone(),
        Some(Seccomp::Strict) => return Err(Errno::EINVAL),
    };
    let before: usize = filters.iter().map(|filter| filter.instructions() + COUNTED_MORE).sum();
    if before + filter.instructions() > MOST_INSTRUCTIONS {
        return Err(Errno::ENOMEM);
    }
    filters.push(Arc::new(filter));
    Ok(Seccomp::Filters(filters))
}

/// Validates a program as Linux's `seccomp_check_filter` does: packet loads must be aligned words of the call
/// data.
pub fn filter(program: Vec<Instruction>) -> Result<SocketFilter, Errno> {
    /// Load into A: word at an offset, length, constant, scratch memory; into X the same without the first.
    const LOADS: [u16; 4] = [0x20, 0x80, 0x00, 0x60];
    const LOADS_X: [u16; 3] = [0x81, 0x01, 0x61];
    /// `st`, `stx`, `ret`, `ret a`, `tax`, `txa`.
    const OTHERS: [u16; 6] = [0x02, 0x03, 0x06, 0x16, 0x07, 0x87];
    /// ALU: add, subtract, multiply, divide, or, and, shifts, negate, exclusive or. Jumps: always, equal,
    /// greater, greater or equal, any bit set.
    const OPERATIONS: [u16; 10] = [0x00, 0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x70, 0x80, 0xa0];
    const JUMPS: [u16; 5] = [0x00, 0x10, 0x20, 0x30, 0x40];
    for instruction in &program {
        let code = instruction.code;
        let known = match code & 7 {
            4 => OPERATIONS.contains(&(code & !0xf)),
            5 => JUMPS.contains(&(code & !0xf)),
            _ => LOADS.contains(&code) || LOADS_X.contains(&code) || OTHERS.contains(&code),
        };
        let outside = code == LOADS[0] && (instruction.k >= DATA || !instruction.k.is_multiple_of(4));
        if !known || outside {
            return Err(Errno::EINVAL);
        }
    }
    SocketFilter::new(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(of: &[(u16, u8, u8, u32)]) -> Vec<Instruction> {
        of.iter().map(|&(code, jt, jf, k)| Instruction { code, jt, jf, k }).collect()
    }
    fn data(number: u32, third: u64) -> SeccompData {
        SeccompData { number, arch: ARCH_X86_64, instruction: 0x1234_5678_9abc, args: [0, 0, third, 0, 0, 0] }
    }
    /// Filter that returns `result` if the word at `offset` equals `value`, and allows the call otherwise.
    fn rule(offset: u32, value: u32, result: u32) -> SocketFilter {
        let text =
            [(0x20, 0, 0, offset), (0x15, 0, 1, value), (0x06, 0, 0, result), (0x06, 0, 0, action::ALLOW)];
        filter(program(&text)).unwrap()
    }

    #[test]
    fn the_strictest_filter_decides() {
        let mut all = with_filter(None, rule(0, 5, action::ERRNO | 7)).unwrap();
        assert_eq!(
            (all.verdict(&data(5, 0)), all.verdict(&data(6, 0))),
            (SeccompVerdict::Fail(7), SeccompVerdict::Allow)
        );
        all = with_filter(Some(&all), rule(0, 5, action::ERRNO | 5_000)).unwrap();
        assert_eq!(all.verdict(&data(5, 0)), SeccompVerdict::Fail(4_095), "the newest of equal ones");
        let before = all.clone();
        all = with_filter(Some(&all), rule(32, 0xabcd, action::TRAP | 3)).unwrap();
        assert_eq!(all.verdict(&data(5, 0xabcd)), SeccompVerdict::Trap(3));
        all = with_filter(Some(&all), rule(36, 1, action::KILL_THREAD)).unwrap();
        assert_eq!(all.verdict(&data(5, 0x1_0000_abcd)), SeccompVerdict::KillThread(c::SIGSYS));
        all = with_filter(Some(&all), rule(8, 0x5678_9abc, action::KILL_PROCESS)).unwrap();
        assert_eq!(all.verdict(&data(0, 0)), SeccompVerdict::KillProcess);
        assert!(before.is_part_of(&all) && !all.is_part_of(&before));
        assert_eq!((all.mode(), all.filters()), (2, 5));
    }

    #[test]
    fn the_strict_mode_allows_four_calls() {
        let allowed = |number: i64, arch| {
            Seccomp::Strict.verdict(&SeccompData { arch, ..data(number as u32, 0) }) == SeccompVerdict::Allow
        };
        assert!(allowed(c::SYS_read, ARCH_X86_64) && allowed(c::SYS_exit, ARCH_X86_64));
        assert!(!allowed(c::SYS_exit_group, ARCH_X86_64) && !allowed(c::SYS_read, ARCH_I386));
        assert_eq!(with_filter(Some(&Seccomp::Strict), rule(0, 0, 0)).unwrap_err(), Errno::EINVAL);
    }

    #[test]
    fn programs_load_words_of_the_call_alone() {
        let bad = [
            (0x20, 64),
            (0x20, 2),
            (0x28, 0),
            (0x30, 0),
            (0x40, 0),
            (0xb1, 0),
            (0x94, 3),
            (0x20, 0xffff_f000),
        ];
        for (code, k) in bad {
            assert_eq!(filter(program(&[(code, 0, 0, k), (0x06, 0, 0, 0)])), Err(Errno::EINVAL), "{code:#x}");
        }
        assert!(filter(program(&[(0x80, 0, 0, 0), (0x16, 0, 0, 0)])).is_ok());
        let long = vec![(0x00, 0, 0, 1); 4_000];
        let long = [&long[..], &[(0x06, 0, 0, action::ALLOW)]].concat();
        let mut all = None;
        for n in 0..9 {
            match with_filter(all.as_ref(), filter(program(&long)).unwrap()) {
                Ok(more) => all = Some(more),
                Err(errno) => assert_eq!((errno, n), (Errno::ENOMEM, 8)),
            }
        }
    }
}
