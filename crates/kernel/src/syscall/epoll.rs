//! The epoll family.

use super::timeout::{TimedWait, Timeout, with_mask};
use crate::call::Call;
use crate::outcome::{IfInterrupted, SysResult, done};
use belljar_linux_abi::poll::EpollEvent;
use belljar_linux_abi::{Errno, c};
use smallvec::SmallVec;
use zerocopy::IntoBytes;

/// `epoll_create(2)`: the size must be positive and is otherwise ignored.
pub fn sys_epoll_create(call: &mut Call<'_>) -> SysResult {
    if call.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    create(call, 0)
}

/// `epoll_create1(2)`.
pub fn sys_epoll_create1(call: &mut Call<'_>) -> SysResult {
    let flags = call.int(0);
    if flags & !c::EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    create(call, flags)
}

fn create(call: &mut Call<'_>, flags: i32) -> SysResult {
    let file = call.host.files.create_epoll(&mut call.host.waits);
    done(call.host.install_fd(call.process, file, flags & c::EPOLL_CLOEXEC != 0, 0)?)
}

/// `epoll_ctl(2)`.
pub fn sys_epoll_ctl(call: &mut Call<'_>) -> SysResult {
    let (operation, fd, addr) = (call.int(1), call.int(2), call.args[3]);
    let event = match operation {
        c::EPOLL_CTL_DEL => EpollEvent::default(),
        _ => call.read::<EpollEvent>(addr)?,
    };
    let own = call.host.pollable_file(call.process, call.int(0))?;
    let file = call.host.pollable_file(call.process, fd)?;
    if !call.host.can_be_watched(file) {
        return Err(Errno::EPERM);
    }
    let epoll = call.host.files.open(own).kind.epoll()?;
    let changes_exclusive = operation == c::EPOLL_CTL_MOD && event.events & c::EPOLLEXCLUSIVE as u32 != 0;
    if file == own || changes_exclusive {
        return Err(Errno::EINVAL);
    }
    match operation {
        c::EPOLL_CTL_ADD => call.host.epoll_add(epoll, file, fd, event)?,
        c::EPOLL_CTL_MOD => call.host.epoll_modify(epoll, file, fd, event)?,
        c::EPOLL_CTL_DEL => call.host.files.epoll_delete(&mut call.host.waits, epoll, file, fd)?,
        _ => return Err(Errno::EINVAL),
    }
    done(0)
}

/// `epoll_wait(2)`.
pub fn sys_epoll_wait(call: &mut Call<'_>) -> SysResult {
    let timeout = Timeout::from_millis(call.int(3));
    wait(call, timeout)
}

/// `epoll_pwait(2)`.
pub fn sys_epoll_pwait(call: &mut Call<'_>) -> SysResult {
    let timeout = Timeout::from_millis(call.int(3));
    let [.., mask, size] = call.args;
    with_mask(call, mask, size, |call| wait(call, timeout))
}

/// `epoll_pwait2(2)`: the time-out is a `struct timespec`.
pub fn sys_epoll_pwait2(call: &mut Call<'_>) -> SysResult {
    let [_, _, _, time, mask, size] = call.args;
    let timeout = match call.resumed {
        Some(_) => Timeout::default(),
        // Unlike `ppoll`, it does not store the remaining time.
        None => Timeout { remaining: None, ..Timeout::from_timespec(call, time)? },
    };
    with_mask(call, mask, size, |call| wait(call, timeout))
}

fn wait(call: &mut Call<'_>, timeout: Timeout) -> SysResult {
    const SIZE: usize = size_of::<EpollEvent>();
    let (addr, max) = (call.args[1], call.int(2));
    let file = call.host.pollable_file(call.process, call.int(0))?;
    if max <= 0 || max as usize > i32::MAX as usize / SIZE {
        return Err(Errno::EINVAL);
    }
    let epoll = call.host.files.open(file).kind.epoll()?;
    let attempt = TimedWait::of(call, timeout);
    let events = call.host.epoll_harvest(epoll, max as usize);
    if events.is_empty() && !attempt.last {
        let queue = call.host.files.epolls[epoll.0].queue;
        return attempt.wait(SmallVec::from_slice(&[queue]), IfInterrupted::Eintr);
    }
    call.write_bytes(addr, events.as_slice().as_bytes())?;
    done(events.len() as u64)
}
