//! What a thread needs to run guests: a block that GS points to, an alternate signal stack below
//! which that block lies, system calls of guest code trapping, a preemption timer.

use super::context::{Context, DEFAULT_MXCSR, xsave};
use super::cpu::{self, XsaveLayout};
use super::{cpuid, entry, signals};
use crate::InitError;
use crate::init::native;
use belljar_linux_abi::Errno;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Size and alignment of a worker's region: the block, a guard page, the alternate stack. The
/// frame of a CPU with AVX-512 takes 3.4 KiB, one with AMX 11 KiB; frames nest at most twice.
pub const REGION: u64 = 256 << 10;
/// How many threads may be workers at the same time.
const MAX_WORKERS: u64 = 1024;
const BLOCK: usize = 4096;

/// Thread CPU time between two preemption ticks. A guest is preempted by the second tick within
/// one resume, so after one to two of these.
const TICK_NS: i64 = 50_000_000;

/// The worker block. The entry code knows it by fixed offsets, stubs by `entry` at GS:0.
#[repr(C, align(64))]
pub struct Worker {
    /// Where stubs jump to.
    pub entry: u64,
    /// Where the guest goes on (or, on a stub's way in, would).
    pub target: u64,
    /// The context that runs.
    pub context: *mut Context,
    /// The worker's own stack below the registers that [`entry::enter`] saved.
    pub host_rsp: u64,
    /// The thread's own FS base.
    pub host_fs: u64,
    /// 1 from just before guest code runs until it is left.
    pub in_guest: u64,
    /// The vector components that are kept.
    pub xsave_mask: u32,
    /// Those of them that only `xsavec` and `xrstor` save and load.
    pub not_by_hand: u32,
    /// Those that the simulator may use and `vzeroupper` does not clear.
    pub left_behind: u32,
    /// The simulator's MXCSR.
    pub mxcsr: u32,
    /// Whether the simulator's own use of `rdtsc` on this thread made it native again.
    pub tsc_is_native: bool,
    /// The same for `cpuid`.
    pub cpuid_is_native: bool,
    /// Counts resumes.
    pub resumes: u64,
    /// `resumes` at the last preemption tick that found guest code running.
    pub tick_resumes: u64,
    /// The thread's registered timer.
    timer: libc::timer_t,
    /// Where vector state lies in signal frames and contexts.
    pub layout: XsaveLayout,
    /// What the last signal that ended a resume said.
    pub trap: Trap,
    /// An XSAVE image that brings x87 back to its initial state.
    pub initial_x87: InitialX87,
}

/// All zeros: no component has anything but its initial state.
#[repr(C, align(64))]
pub struct InitialX87([u8; xsave::EXTENDED]);

/// What a signal's frame says beyond the registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Trap {
    /// Its number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`, or `si_arch` of a SIGSYS.
    pub addr: u64,
    /// The exception's vector.
    pub trapno: u64,
    /// The exception's error code.
    pub error_code: u64,
}

/// The region of addresses that all workers' blocks lie in, so that a signal handler can tell
/// whether it runs on a worker's stack.
pub static ARENA: AtomicU64 = AtomicU64::new(0);
/// Its size in bytes.
pub const ARENA_SIZE: u64 = MAX_WORKERS * REGION;
static FREE: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Reserves the arena.
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

/// The calling thread's worker block; makes the thread a worker if it is none.
///
/// # Panics
/// If the thread cannot become one: the platform is not initialised, more than 1,024 threads are
/// workers, or the kernel refuses a resource.
pub fn current() -> *mut Worker {
    let worker = CURRENT.get();
    if worker.is_null() { become_worker() } else { worker }
}

/// See [`super::release_thread`].
pub fn release_current() {
    let worker = CURRENT.get();
    if !worker.is_null() {
        // SAFETY: the block is this thread's, and no guest runs.
        set_traps_native(unsafe { &mut *worker });
    }
}

#[cold]
fn become_worker() -> *mut Worker {
    let owned = Owned::new().unwrap_or_else(|error| panic!("this thread cannot run guests: {error}"));
    let worker = owned.0;
    OWNED.set(Some(owned));
    CURRENT.set(worker);
    worker
}

/// Undoes everything when the thread ends.
struct Owned(*mut Worker);

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
        let block = Worker {
            entry: entry::from_stub as *const () as u64,
            target: 0,
            context: std::ptr::null_mut(),
            host_rsp: 0,
            host_fs: 0,
            in_guest: 0,
            xsave_mask: layout.mask as u32,
            not_by_hand: layout.not_by_hand(),
            left_behind: layout.left_behind(),
            mxcsr: DEFAULT_MXCSR,
            tsc_is_native: true,
            cpuid_is_native: true,
            resumes: 0,
            tick_resumes: 0,
            timer: std::ptr::null_mut(),
            layout,
            trap: Trap::default(),
            initial_x87: InitialX87([0; xsave::EXTENDED]),
        };
        // SAFETY: the page was just made writable, is aligned, and belongs to this thread alone.
        // FS holds this thread's base, GS is unused by everything else on this platform.
        unsafe {
            worker.write(block);
            (*worker).host_fs = entry::read_fs_base();
            entry::write_gs_base(region);
        }
        signals::block_others()?;
        let owned = Owned(worker);
        let alternate = libc::stack_t {
            ss_sp: stack as *mut libc::c_void,
            ss_flags: 0,
            ss_size: REGION as usize - 2 * BLOCK,
        };
        // SAFETY: the stack lives until `Owned` is dropped, which takes it out of use first.
        if unsafe { libc::sigaltstack(&alternate, std::ptr::null_mut()) } != 0 {
            return Err(native("setting a signal stack"));
        }
        owned.start_timer()?;
        entry::dispatch_system_calls(true).map_err(InitError::NoSyscallUserDispatch)?;
        Ok(owned)
    }

    fn start_timer(&self) -> Result<(), InitError> {
        // SAFETY: a zeroed sigevent is valid; all pointers are to live values.
        unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = signals::tick_signal();
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::ptr::null_mut();
            if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) != 0 {
                return Err(native("creating a preemption timer"));
            }
            (*self.0).timer = timer;
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
        // SAFETY: the thread runs no guest any more; the region is given back last.
        unsafe {
            if !(*self.0).timer.is_null() {
                libc::timer_delete((*self.0).timer);
            }
            let _ = entry::dispatch_system_calls(false);
            set_traps_native(&mut *self.0);
            let off = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            libc::sigaltstack(&off, std::ptr::null_mut());
            entry::write_gs_base(0);
            let at = self.0 as *mut libc::c_void;
            libc::madvise(at, REGION as usize, libc::MADV_DONTNEED);
            libc::mprotect(at, REGION as usize, libc::PROT_NONE);
        }
        FREE.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(self.0 as u64);
    }
}

fn open_up(at: usize, len: usize) -> Result<(), InitError> {
    // SAFETY: a part of the arena that was taken from the free list.
    match unsafe { libc::mprotect(at as *mut libc::c_void, len, libc::PROT_READ | libc::PROT_WRITE) } {
        0 => Ok(()),
        _ => Err(native("making room for a worker")),
    }
}

/// Makes `rdtsc` and (where the CPU can) `cpuid` trap on this thread.
#[cold]
pub fn set_traps(worker: &mut Worker) -> Result<(), Errno> {
    if worker.tsc_is_native {
        // SAFETY: prctl with plain numbers.
        if unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) } != 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        worker.tsc_is_native = false;
    }
    if worker.cpuid_is_native {
        cpuid::set_faulting(true);
        worker.cpuid_is_native = false;
    }
    Ok(())
}

/// Gives the simulator `rdtsc` and `cpuid` back until the next resume. Async-signal-safe.
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

/// Gives `rdtsc` and `cpuid` to a thread that is no worker; false if it has them. Async-signal-safe.
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
