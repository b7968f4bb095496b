//! Affinity: keeps a worker on its processor while it exchanges turns with far guests. Linux moves a woken
//! thread to an idle processor, and one is idle while the other side of a hand-over is still going to sleep.
//! Worker and guest would chase each other around the machine, and each hand-over would wake a processor.

use std::cell::Cell;

/// Number of hand-overs for which a worker stays on its processor. After them it may move once, to a less
/// busy one.
const STAY: u32 = 1_000;

/// Affinity of a worker: its original set, and the number of hand-overs left before it may move.
struct Affinity {
    left: Cell<u32>,
    own: Cell<Option<libc::cpu_set_t>>,
}

thread_local! {
    static AFFINITY: Affinity = const { Affinity { left: Cell::new(0), own: Cell::new(None) } };
}

/// The processor that the calling worker runs on; pins the worker to it for [`STAY`] hand-overs.
pub fn processor() -> i32 {
    AFFINITY.with(|affinity| {
        // SAFETY: no preconditions.
        let cpu = unsafe { libc::sched_getcpu() };
        match affinity.left.get() {
            0 if cpu >= 0 => hold(affinity, cpu),
            0 => {}
            1 => release(affinity),
            left => affinity.left.set(left - 1),
        }
        cpu
    })
}

/// Restores the calling thread's original affinity.
pub fn move_freely() {
    AFFINITY.with(release);
}

/// Pins a thread, 0 for the calling one, to one processor. Returns whether the kernel allowed it.
pub fn put(thread: i32, cpu: i32) -> bool {
    // SAFETY: the set is a plain value that outlives the calls.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu as usize, &mut set);
        libc::sched_setaffinity(thread, size_of_val(&set), &set) == 0
    }
}

fn hold(affinity: &Affinity, cpu: i32) {
    // SAFETY: all zero is a valid set, which the call fills.
    let (own, may_move) = unsafe {
        let mut own: libc::cpu_set_t = std::mem::zeroed();
        let known = libc::sched_getaffinity(0, size_of_val(&own), &mut own) == 0;
        (own, known && libc::CPU_COUNT(&own) > 1)
    };
    if may_move && put(0, cpu) {
        affinity.own.set(Some(own));
    }
    affinity.left.set(STAY);
}

fn release(affinity: &Affinity) {
    affinity.left.set(0);
    if let Some(own) = affinity.own.take() {
        // SAFETY: as above. If the call fails, the thread stays pinned and keeps running.
        unsafe { libc::sched_setaffinity(0, size_of_val(&own), &own) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The processors that the calling thread may run on.
    fn allowed() -> Vec<usize> {
        // SAFETY: sets are plain values; every index is below CPU_SETSIZE.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
            (0..libc::CPU_SETSIZE as usize).filter(|cpu| libc::CPU_ISSET(*cpu, &set)).collect()
        }
    }

    #[test]
    fn a_worker_stays_for_a_while_and_may_move_then() {
        let stays_and_moves = || {
            let own = allowed();
            let cpu = processor();
            assert_eq!(allowed(), [cpu as usize]);
            for _ in 1..STAY {
                assert_eq!(processor(), cpu, "it stays");
            }
            assert_eq!(allowed(), [cpu as usize]);
            processor();
            assert_eq!(allowed(), own, "now it may move");
            processor();
            assert_eq!(allowed().len(), 1, "where it is then it stays again");
            move_freely();
            assert_eq!(allowed(), own);
        };
        std::thread::spawn(stays_and_moves).join().expect("it stays and moves");
    }
}
