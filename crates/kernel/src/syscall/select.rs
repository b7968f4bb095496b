//! `select` and `pselect6`.

use super::timeout::{TimedWait, Timeout, with_mask};
use crate::call::Call;
use crate::outcome::{IfInterrupted, SysResult, done};
use belljar_linux_abi::Errno;
use belljar_netstack::readiness::{
    EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDBAND, EPOLLRDNORM, EPOLLWRBAND, EPOLLWRNORM,
};
use smallvec::{SmallVec, smallvec};

/// Readiness bits that make a descriptor readable, writable and exceptional: select(2), "Correspondence
/// between select() and poll() notifications".
const MEANS: [u32; 3] = [
    EPOLLRDNORM | EPOLLRDBAND | EPOLLIN | EPOLLHUP | EPOLLERR,
    EPOLLWRBAND | EPOLLWRNORM | EPOLLOUT | EPOLLERR,
    EPOLLPRI,
];

type Bits = SmallVec<[u8; 32]>;

/// `select(2)`; stores the remaining time.
pub fn sys_select(call: &mut Call<'_>) -> SysResult {
    let timeout = match call.resumed {
        Some(_) => Timeout::default(),
        None => Timeout::from_timeval(call, call.args[4])?,
    };
    select(call, timeout)
}

/// `pselect6`: the last argument points to the address and size of the signal mask.
pub fn sys_pselect6(call: &mut Call<'_>) -> SysResult {
    let (mask, size) = match call.args[5] {
        _ if call.resumed.is_some() => (0, 0),
        0 => (0, 0),
        addr => (call.read::<u64>(addr)?, call.read::<u64>(addr + 8)?),
    };
    let timeout = match call.resumed {
        Some(_) => Timeout::default(),
        None => Timeout::from_timespec(call, call.args[4])?,
    };
    with_mask(call, mask, size, |call| select(call, timeout))
}

fn select(call: &mut Call<'_>, timeout: Timeout) -> SysResult {
    let count = usize::try_from(call.int(0)).map_err(|_| Errno::EINVAL)?;
    let table = call.host.process(call.process).fds.ok_or(Errno::EBADF)?;
    // Linux reads the sets only up to the size of the descriptor table, which has at least 64 entries.
    let reach = call.host.files.tables[table.0].entries.len().next_power_of_two().max(64);
    let mut asked = call.take_asked();
    if call.resumed.is_none() {
        let len = count.min(reach).div_ceil(64) * 8;
        asked.resize(3 * len, 0);
        for n in 0..3 {
            if call.args[1 + n] != 0 {
                call.read_bytes(call.args[1 + n], &mut asked[n * len..][..len])?;
            }
        }
    }
    let outcome = select_asked(call, timeout, count, &asked);
    call.host.threads[call.thread.0].asked = asked;
    outcome
}

/// Evaluates the sets read at the start of the call: `asked` holds the three sets consecutively.
fn select_asked(call: &mut Call<'_>, timeout: Timeout, count: usize, asked: &[u8]) -> SysResult {
    let attempt = TimedWait::of(call, timeout);
    let len = asked.len() / 3;
    let count = count.min(len * 8);
    let sets = [call.args[1], call.args[2], call.args[3]];
    let wanted = [0, 1, 2].map(|n| &asked[n * len..][..len]);
    let mut found = [0; 3].map(|_: u8| -> Bits { smallvec![0; len] });
    let mut ready = 0;
    let mut queues = SmallVec::new();
    for fd in 0..count {
        let (byte, bit) = (fd / 8, 1u8 << (fd % 8));
        if wanted.iter().all(|set| set[byte] & bit == 0) {
            continue;
        }
        let file = call.host.pollable_file(call.process, fd as i32)?;
        let events = call.host.polled(file);
        for set in 0..3 {
            if wanted[set][byte] & bit != 0 && events & MEANS[set] != 0 {
                found[set][byte] |= bit;
                ready += 1;
            }
        }
        queues.extend(call.host.wait_queue(file));
    }
    if ready == 0 && !attempt.last {
        return attempt.wait(queues, IfInterrupted::RestartNoHandler);
    }
    attempt.store_remaining(call);
    if ready == 0 && call.host.threads.has_deliverable_signal(&call.host.processes, call.thread) {
        // A pending signal interrupts even a call that does not wait.
        return attempt.wait(SmallVec::new(), IfInterrupted::RestartNoHandler);
    }
    for (set, addr) in found.iter().zip(sets) {
        if addr != 0 {
            call.write_bytes(addr, set)?;
        }
    }
    done(ready)
}
