//! futex(2), set_robust_list(2), get_robust_list(2).

use crate::call::Call;
use crate::credentials::capability;
use crate::futex::priority::LockAttempt;
use crate::futex::robust::HEAD_SIZE;
use crate::futex::wait::ANY;
use crate::outcome::{Block, CallState, IfInterrupted, SysResult, done};
use crate::rights::AccessIds;
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::time::Timespec;
use belljar_linux_abi::{Errno, c};
use belljar_objects::process_files::INIT;
use belljar_tasks::futexes::{FutexKey, FutexVector, FutexWait};

/// `FUTEX_LOCK_PI2`: `FUTEX_LOCK_PI` with a selectable clock.
const FUTEX_LOCK_PI2: i32 = 13;

/// futex(2).
pub fn sys_futex(call: &mut Call<'_>) -> SysResult {
    let [addr, op, value, fourth, addr2, value3] = call.args;
    let op = op as i32;
    let is_private = op & c::FUTEX_PRIVATE_FLAG != 0;
    let realtime = op & c::FUTEX_CLOCK_REALTIME != 0;
    let (value, value2, value3) = (value as u32, fourth as u32, value3 as u32);
    let key = call.host.futex_key(call.process, addr, is_private)?;
    match op & c::FUTEX_CMD_MASK {
        c::FUTEX_WAIT => wait(call, key, value, ANY, fourth, Clock::Relative),
        c::FUTEX_WAIT_BITSET => wait(call, key, value, value3, fourth, Clock::absolute(realtime)),
        c::FUTEX_WAKE => done(call.host.wake_futex(key, value.max(1), ANY)),
        c::FUTEX_WAKE_BITSET if value3 == 0 => Err(Errno::EINVAL),
        c::FUTEX_WAKE_BITSET => done(call.host.wake_futex(key, value.max(1), value3)),
        c::FUTEX_REQUEUE | c::FUTEX_CMP_REQUEUE => {
            let other = call.host.futex_key(call.process, addr2, is_private)?;
            if (value as i32) < 0 || (value2 as i32) < 0 {
                return Err(Errno::EINVAL);
            }
            let compares = op & c::FUTEX_CMD_MASK == c::FUTEX_CMP_REQUEUE;
            if compares && call.host.read_futex_word(call.process, addr)? != value3 {
                return Err(Errno::EAGAIN);
            }
            let woken = call.host.wake_futex(key, value, ANY);
            let moved = call.host.requeue_futex(key, other, value2);
            // FUTEX_REQUEUE returns the number woken, FUTEX_CMP_REQUEUE the number woken and requeued.
            done(if compares { woken + moved } else { woken })
        }
        c::FUTEX_WAKE_OP => {
            let other = call.host.futex_key(call.process, addr2, is_private)?;
            let passes = call.host.futex_operate(call.process, addr2, value3)?;
            let woken = call.host.wake_futex(key, value, ANY);
            done(woken + if passes { call.host.wake_futex(other, value2, ANY) } else { 0 })
        }
        c::FUTEX_WAIT_REQUEUE_PI => {
            if call.host.futex_key(call.process, addr2, is_private)? == key {
                return Err(Errno::EINVAL);
            }
            wait(call, key, value, ANY, fourth, Clock::absolute(realtime))
        }
        c::FUTEX_CMP_REQUEUE_PI => {
            let lock = call.host.futex_key(call.process, addr2, is_private)?;
            if value != 1 || lock == key || (value2 as i32) < 0 {
                return Err(Errno::EINVAL);
            }
            if call.host.read_futex_word(call.process, addr)? != value3 {
                return Err(Errno::EAGAIN);
            }
            done(call.host.requeue_to_lock(call.process, key, lock, addr2, value2)?)
        }
        c::FUTEX_LOCK_PI => lock(call, key, addr, Clock::Realtime),
        FUTEX_LOCK_PI2 => lock(call, key, addr, Clock::absolute(realtime)),
        c::FUTEX_TRYLOCK_PI => match call.host.try_lock_futex(call.thread, addr, key, false)? {
            LockAttempt::Locked => done(0),
            LockAttempt::Owned => Err(Errno::EAGAIN),
        },
        c::FUTEX_UNLOCK_PI => {
            call.host.unlock_futex(call.thread, addr, key)?;
            done(0)
        }
        command => {
            call.host.warn(format!("futex operation {command} is not supported"));
            Err(Errno::ENOSYS)
        }
    }
}

/// Clock of a time-out.
#[derive(Clone, Copy)]
enum Clock {
    Relative,
    Monotonic,
    Realtime,
}

impl Clock {
    fn absolute(realtime: bool) -> Clock {
        if realtime { Clock::Realtime } else { Clock::Monotonic }
    }

    fn deadline(self, call: &Call<'_>, addr: u64) -> Result<Option<SimTime>, Errno> {
        if addr == 0 {
            return Ok(None);
        }
        let ns = call.read::<Timespec>(addr)?.to_nanos().ok_or(Errno::EINVAL)?;
        Ok(Some(match self {
            Clock::Relative => call.after(SimDuration::from_nanos(ns)),
            Clock::Monotonic => {
                let clock = super::clocks::Clock::decode(call, c::CLOCK_MONOTONIC)?;
                clock.reaches(call.host, ns).unwrap_or(SimTime::MAX)
            }
            Clock::Realtime => call.host.net.clock.at_realtime(ns),
        }))
    }
}

fn wait(
    call: &mut Call<'_>,
    key: FutexKey,
    expected: u32,
    bitset: u32,
    timeout: u64,
    clock: Clock,
) -> SysResult {
    let deadline = match call.take_state() {
        CallState::Futex(FutexWait { woken: true, .. }) => return done(0),
        CallState::Futex(_) if call.deadline_passed() => return Err(Errno::ETIMEDOUT),
        CallState::Futex(wait) => wait.deadline,
        _ => clock.deadline(call, timeout)?,
    };
    if bitset == 0 {
        return Err(Errno::EINVAL);
    }
    if call.host.read_futex_word(call.process, call.args[0])? != expected {
        return Err(Errno::EAGAIN);
    }
    call.host.futexes.enqueue_futex_waiter(key, call.thread, bitset);
    // A signal handler ends a wait with a time-out, which cannot be restarted with the remaining time.
    let interrupted = if deadline.is_some() { IfInterrupted::Eintr } else { IfInterrupted::Restart };
    let state = CallState::Futex(FutexWait { key, woken: false, deadline });
    Block::until(deadline).with_state(state).interrupted(interrupted).into()
}

/// futex_waitv(2).
pub fn sys_futex_waitv(call: &mut Call<'_>) -> SysResult {
    /// `FUTEX_32`, the only supported word size, and the maximum number of futexes.
    const FUTEX_32: u32 = 2;
    const MOST: u64 = 128;
    let [addr, count, flags, timeout, clock, _] = call.args;
    let state = match call.take_state() {
        CallState::FutexVector(wait) => match wait.woken {
            Some(at) => return done(at as u64),
            None if call.deadline_passed() => return Err(Errno::ETIMEDOUT),
            None => Some(wait),
        },
        _ => None,
    };
    if flags != 0 || count == 0 || count > MOST || addr == 0 {
        return Err(Errno::EINVAL);
    }
    let deadline = match (state, clock as i32) {
        (Some(wait), _) => wait.deadline,
        (None, c::CLOCK_MONOTONIC | c::CLOCK_REALTIME) => {
            Clock::absolute(clock as i32 == c::CLOCK_REALTIME).deadline(call, timeout)?
        }
        (None, _) if timeout != 0 => return Err(Errno::EINVAL),
        (None, _) => None,
    };
    let mut futexes = Vec::new();
    for n in 0..count {
        let [value, word, flags]: [u64; 3] = call.read(addr + n * 24)?;
        let (flags, reserved) = (flags as u32, flags >> 32);
        let private = flags & c::FUTEX_PRIVATE_FLAG as u32;
        if reserved != 0 || flags != FUTEX_32 | private {
            return Err(Errno::EINVAL);
        }
        futexes.push((call.host.futex_key(call.process, word, private != 0)?, word, value));
    }
    for (_, word, value) in &futexes {
        if u64::from(call.host.read_futex_word(call.process, *word)?) != *value {
            return Err(Errno::EAGAIN);
        }
    }
    let keys: Vec<FutexKey> = futexes.iter().map(|(key, ..)| *key).collect();
    for key in &keys {
        call.host.futexes.enqueue_futex_waiter(*key, call.thread, ANY);
    }
    let state = CallState::FutexVector(Box::new(FutexVector { keys, woken: None, deadline }));
    Block::until(deadline).with_state(state).interrupted(IfInterrupted::Restart).into()
}

fn lock(call: &mut Call<'_>, key: FutexKey, addr: u64, clock: Clock) -> SysResult {
    let deadline = match call.take_state() {
        CallState::Futex(FutexWait { woken: true, .. }) => return done(0),
        CallState::Futex(_) if call.deadline_passed() => return Err(Errno::ETIMEDOUT),
        CallState::Futex(wait) => wait.deadline,
        _ => clock.deadline(call, call.args[3])?,
    };
    if call.host.try_lock_futex(call.thread, addr, key, true)? == LockAttempt::Locked {
        return done(0);
    }
    call.host.futexes.enqueue_futex_waiter(key, call.thread, ANY);
    let state = CallState::Futex(FutexWait { key, woken: false, deadline });
    Block::until(deadline).with_state(state).interrupted(IfInterrupted::RestartAlways).into()
}

/// set_robust_list(2).
pub fn sys_set_robust_list(call: &mut Call<'_>) -> SysResult {
    if call.args[1] != HEAD_SIZE {
        return Err(Errno::EINVAL);
    }
    call.host.thread(call.thread).robust_list = (call.args[0], call.args[1]);
    done(0)
}

/// get_robust_list(2).
pub fn sys_get_robust_list(call: &mut Call<'_>) -> SysResult {
    let head = if call.int(0) == INIT {
        call.host.processes.require(call.process, capability::SYS_PTRACE)?;
        0
    } else {
        let process = call.host.threads.find_task(&call.host.processes, call.thread, call.int(0))?;
        call.host.processes.may_access(call.process, process, AccessIds::Real)?;
        let thread = call.host.threads.find(call.thread, call.int(0));
        thread.map_or(0, |thread| call.host.threads[thread.0].robust_list.0)
    };
    call.write(call.args[2], &HEAD_SIZE)?;
    call.write(call.args[1], &head)?;
    done(0)
}
