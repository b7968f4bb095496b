//! Workers: threads that run guests. Each has a block addressed by GS, an alternate signal stack above that
//! block, traps for guest code's system calls, and a preemption timer.

use crate::InitError;
use crate::init::native;
use crate::near::{entry, signals};
use crate::{cpu, cpuid};
use belljar_shim::worker::{ARENA, ARENA_SIZE, Answers, MAX_WORKERS, REGION, TICK_NS};
pub use belljar_shim::worker::{Trap, Worker};
use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, OnceLock};

const BLOCK: usize = 4096;

static FREE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Reserves the arena of worker blocks.
pub fn reserve() -> Result<(), InitError> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), (ARENA_SIZE + REGION) as usize, libc::PROT_NONE, flags, -1, 0)
    };
    if at == libc::MAP_FAILED {
        return Err(native("reserving room for workers"));
    }
    let base = (at as u64).next_multiple_of(REGION);
    let mut free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    free.extend((0..MAX_WORKERS).rev().map(|n| base + n * REGION));
    ARENA.store(base, Ordering::Relaxed);
    Ok(())
}

thread_local! {
    static CURRENT: Cell<*mut Worker> = const { Cell::new(std::ptr::null_mut()) };
    static OWNED: Cell<Option<Owned>> = const { Cell::new(None) };
}

/// The calling thread's worker block; makes the thread a worker if necessary.
///
/// # Panics
/// If the thread cannot become a worker: the platform is not initialised, more than 1,024 threads are
/// workers, or the kernel refuses a resource.
pub fn current() -> *mut Worker {
    let worker = CURRENT.get();
    if worker.is_null() { become_worker() } else { worker }
}

/// Calls answered within this thread's guests since the last call of this function.
pub fn answers() -> Answers {
    // SAFETY: the block is this thread's, and no guest runs.
    unsafe { std::mem::take(&mut (*current()).answers) }
}

/// See [`crate::release_thread`].
pub fn release_current() {
    let worker = CURRENT.get();
    if !worker.is_null() {
        // SAFETY: the block is this thread's, and no guest runs.
        set_traps_native(unsafe { &mut *worker });
    }
}

/// Makes `rdtsc` and `cpuid` trap on the calling thread, as guests require.
///
/// # Safety
/// `worker` must be the calling thread's block and not borrowed elsewhere.
#[inline]
pub unsafe fn trap_as_guests_do(worker: *mut Worker) {
    // SAFETY: the caller's obligation.
    unsafe {
        if (*worker).tsc_is_native || (*worker).cpuid_is_native {
            set_traps(&mut *worker);
        }
    }
}

#[cold]
fn become_worker() -> *mut Worker {
    let owned = Owned::new().unwrap_or_else(|error| panic!("this thread cannot run guests: {error}"));
    let worker = owned.worker;
    OWNED.set(Some(owned));
    CURRENT.set(worker);
    worker
}

/// Vector components that the simulator's own code leaves in use: a property of the CPU and thus the same for
/// all workers.
static LEFT_BY_LIBRARY: OnceLock<u32> = OnceLock::new();

/// Resources of a worker, released at the end of the thread.
struct Owned {
    worker: *mut Worker,
    /// The preemption timer; null before its creation.
    timer: libc::timer_t,
}

impl Owned {
    fn new() -> Result<Owned, InitError> {
        let layout = *cpu::xsave_layout();
        let region = {
            let mut free = FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            free.pop().ok_or(InitError::MissingFeature("room for another worker thread"))?
        };
        let worker = region as *mut Worker;
        let stack = region as usize + 2 * BLOCK;
        open_up(region as usize, BLOCK)?;
        open_up(stack, REGION as usize - 2 * BLOCK)?;
        // SAFETY: the page was just made writable, is aligned, and belongs to this thread alone. FS holds
        // this thread's base, and no other code on this platform uses GS.
        unsafe {
            worker.write(Worker::new(&layout, entry::read_fs_base(), signals::on_signal));
            entry::write_gs_base(region);
            let left = || cpu::left_by_library((*worker).not_cleared);
            (*worker).left_behind = *LEFT_BY_LIBRARY.get_or_init(left);
        }
        signals::block_others()?;
        let mut owned = Owned { worker, timer: std::ptr::null_mut() };
        let alternate = libc::stack_t {
            ss_sp: stack as *mut libc::c_void,
            ss_flags: 0,
            ss_size: REGION as usize - 2 * BLOCK,
        };
        // SAFETY: the stack lives until `Owned` is dropped, which disables it first.
        if unsafe { libc::sigaltstack(&alternate, std::ptr::null_mut()) } != 0 {
            return Err(native("setting a signal stack"));
        }
        owned.start_timer()?;
        entry::dispatch_system_calls(true).map_err(InitError::NoSyscallUserDispatch)?;
        Ok(owned)
    }

    fn start_timer(&mut self) -> Result<(), InitError> {
        // SAFETY: a zeroed sigevent is valid; all pointers are to live values.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signals::tick_signal();
            // A direct system call: glibc has a wrapper only since 2.30, and wheels target 2.28.
            event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
            let mut timer = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) != 0 {
                return Err(native("creating a preemption timer"));
            }
            self.timer = timer;
            let tick = libc::timespec { tv_sec: 0, tv_nsec: TICK_NS };
            let every = libc::itimerspec { it_interval: tick, it_value: tick };
            if libc::timer_settime(timer, 0, &every, std::ptr::null_mut()) != 0 {
                return Err(native("starting a preemption timer"));
            }
        }
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        CURRENT.set(std::ptr::null_mut());
        // SAFETY: the thread no longer runs guests; the region is released last.
        unsafe {
            if !self.timer.is_null() {
                libc::timer_delete(self.timer);
            }
            let _ = entry::dispatch_system_calls(false);
            set_traps_native(&mut *self.worker);
            let off = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&off, std::ptr::null_mut());
            entry::write_gs_base(0);
            let at = self.worker as *mut libc::c_void;
            libc::madvise(at, REGION as usize, libc::MADV_DONTNEED);
            libc::mprotect(at, REGION as usize, libc::PROT_NONE);
        }
        FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(self.worker as u64);
    }
}

fn open_up(at: usize, len: usize) -> Result<(), InitError> {
    // SAFETY: a part of the arena that was taken from the free list.
    match unsafe { libc::mprotect(at as *mut libc::c_void, len, libc::PROT_READ | libc::PROT_WRITE) } {
        0 => Ok(()),
        _ => Err(native("making room for a worker")),
    }
}

/// Makes `rdtsc` and, on CPUs with CPUID faulting, `cpuid` trap on this thread.
#[cold]
fn set_traps(worker: &mut Worker) {
    if worker.tsc_is_native {
        // Where Linux refuses, the instructions in images are replaced: see `counter_traps`. SAFETY: prctl with
        // plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) };
        worker.tsc_is_native = false;
    }
    if worker.cpuid_is_native {
        cpuid::set_faulting(true);
        worker.cpuid_is_native = false;
    }
}

/// True if Linux makes `rdtsc` and `rdtscp` trap on a thread that asks for it.
pub fn counter_traps() -> bool {
    static TRAPS: OnceLock<bool> = OnceLock::new();
    *TRAPS.get_or_init(|| {
        let mut mode = 0;
        // SAFETY: `mode` outlives the call; the rest are plain numbers. The previous mode is restored.
        unsafe {
            libc::prctl(libc::PR_GET_TSC, &mut mode, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_TSC, mode, 0, 0, 0) == 0
        }
    })
}

/// Restores native `rdtsc` and `cpuid` on this thread until the next resume. Async-signal-safe.
pub fn set_traps_native(worker: &mut Worker) {
    if !worker.tsc_is_native {
        // SAFETY: prctl with plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE, 0, 0, 0) };
        worker.tsc_is_native = true;
    }
    if !worker.cpuid_is_native {
        cpuid::set_faulting(false);
        worker.cpuid_is_native = true;
    }
}

/// Restores native `rdtsc` and `cpuid` on a thread that is not a worker; false if they were native.
/// Async-signal-safe.
pub fn set_thread_native() -> bool {
    let mut mode = libc::PR_TSC_ENABLE;
    // SAFETY: `mode` outlives the call; the rest are plain numbers.
    unsafe {
        libc::prctl(libc::PR_GET_TSC, &mut mode, 0, 0, 0);
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_ENABLE, 0, 0, 0);
    }
    let cpuid_was_faulting = cpuid::set_faulting(false);
    mode != libc::PR_TSC_ENABLE || cpuid_was_faulting
}
