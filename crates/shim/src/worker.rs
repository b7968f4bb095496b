//! The block that a thread needs to run guests, and the memory region around it.

use crate::context::{Context, IDS};
use crate::entry;
use crate::frame::{SigInfo, UContext};
use crate::xstate::{DEFAULT_MXCSR, XsaveLayout, offset};
use core::sync::atomic::AtomicU64;

/// Size and alignment of a worker's region: the block, a guard page, the alternate stack. The
/// frame of a CPU with AVX-512 takes 3.4 KiB, one with AMX 11 KiB; frames nest at most twice.
pub const REGION: u64 = 256 << 10;
/// Upper bound on the concurrent workers of a process.
pub const MAX_WORKERS: u64 = 1024;
/// Start of the address range that contains the blocks of all workers, so that a signal handler can determine
/// whether it runs on a worker's stack.
pub static ARENA: AtomicU64 = AtomicU64::new(0);
/// Size of the arena in bytes.
pub const ARENA_SIZE: u64 = MAX_WORKERS * REGION;
/// Address of the signal handler for threads that are not workers, an [`OnSignalElsewhere`].
pub static ON_SIGNAL_ELSEWHERE: AtomicU64 = AtomicU64::new(0);

/// Thread CPU time between two preemption ticks. The second tick within one resume preempts a guest, so a
/// guest runs for one to two of these.
pub const TICK_NS: i64 = 50_000_000;
/// Signal of the preemption timer: a real-time signal that C libraries do not use.
pub const TICK_SIGNAL: i32 = 42;

/// Signals of the exceptions that guest code may raise, and SIGSYS: these and [`TICK_SIGNAL`] end a resume.
pub const EXCEPTIONS: [i32; 6] = [SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP];
const SIGSYS: i32 = 31;
const SIGSEGV: i32 = 11;
const SIGBUS: i32 = 7;
const SIGFPE: i32 = 8;
const SIGILL: i32 = 4;
const SIGTRAP: i32 = 5;

/// Signal callback of the entry code, on a worker's alternate stack after the worker's own FS and GS have
/// been loaded; `fs_base` and `gs_base` are the interrupted values. Returns 0 to resume at the interrupted
/// instruction, otherwise the kind of exit.
pub type OnSignal = unsafe extern "C" fn(
    signal: i32,
    info: *mut SigInfo,
    frame: *mut UContext,
    worker: *mut Worker,
    fs_base: u64,
    gs_base: u64,
) -> u32;
/// Signal callback of the entry code on any other thread.
pub type OnSignalElsewhere = unsafe extern "C" fn(signal: i32, info: *mut SigInfo, frame: *mut UContext);

/// The worker block. The entry code accesses it by fixed offsets, stubs by `entry` at GS:0.
#[repr(C, align(64))]
pub struct Worker {
    /// The target of stubs' jumps.
    pub entry: u64,
    /// Address at which the guest resumes (or, while a stub enters the platform, would resume).
    pub target: u64,
    /// The running context.
    pub context: *mut Context,
    /// The worker's own stack below the registers that [`entry::enter`] saved.
    pub host_rsp: u64,
    /// The thread's own FS base.
    pub host_fs: u64,
    /// 1 from just before guest code runs until it exits.
    pub in_guest: u64,
    /// The callback for signals.
    pub on_signal: OnSignal,
    /// Vector components that are saved.
    pub xsave_mask: u32,
    /// Saved components that only `xsavec` and `xrstor` can save and load.
    pub not_by_hand: u32,
    /// Saved components that neither `vzeroupper` nor the entry code clears.
    pub not_cleared: u32,
    /// Components of `not_cleared` that compiled code may leave in use.
    pub left_behind: u32,
    /// Components of `not_cleared` in use by the last guest that exited through a stub.
    pub in_use: u32,
    /// MXCSR of compiled code.
    pub mxcsr: u32,
    /// True if the simulator's own use of `rdtsc` on this thread made it native again.
    pub tsc_is_native: bool,
    /// True if the simulator's own use of `cpuid` on this thread made it native again.
    pub cpuid_is_native: bool,
    /// Number of resumes.
    pub resumes: u64,
    /// `resumes` at the last preemption tick that found guest code running.
    pub tick_resumes: u64,
    /// Layout of vector state in signal frames and contexts.
    pub layout: XsaveLayout,
    /// Description of the last signal that ended a resume.
    pub trap: Trap,
    /// Clocks that stubs read.
    pub clocks: Clocks,
    /// Answers given by a near guest's stubs.
    pub answers: Answers,
    /// An XSAVE image that restores x87 to its initial state.
    pub initial_x87: InitialX87,
}

/// Data from which stubs answer calls without leaving the guest, and the counts of answers. Stubs access it
/// by fixed offsets from GS.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Clocks {
    /// Nanoseconds by clock number; 0 for a clock that requires the system call.
    pub shown_ns: [u64; CLOCKS],
    /// Number of answers still allowed; negative after a stub requested one more.
    pub left: i32,
    /// Answers given since the last [`Clocks::take`].
    pub given: Answers,
}

/// Number of answers by stubs for each call: `clock_gettime`, `gettimeofday`, `time`, then the id calls in
/// the order of [`Context::ids`].
pub type Answers = [u32; ANSWERED];
/// Number of calls that stubs answer.
pub const ANSWERED: usize = CLOCK_CALLS + IDS;
/// Number of calls among them that read a clock.
pub const CLOCK_CALLS: usize = 3;

/// Number of clock numbers in [`Clocks::shown_ns`].
pub const CLOCKS: usize = 8;
/// `CLOCK_REALTIME`.
pub const REALTIME: usize = 0;
/// `CLOCK_MONOTONIC`.
pub const MONOTONIC: usize = 1;
/// `CLOCK_MONOTONIC_RAW`, which shows the same time.
const MONOTONIC_RAW: usize = 4;
/// `CLOCK_BOOTTIME`.
const BOOTTIME: usize = 7;

/// Times that a guest's stubs may read, the number of reads allowed, and the number made.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Readings {
    /// The time of `CLOCK_REALTIME`.
    pub realtime_ns: u64,
    /// The time of `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
    pub monotonic_ns: u64,
    /// The time of `CLOCK_BOOTTIME`.
    pub boottime_ns: u64,
    /// Number of calls that stubs may answer.
    pub allowed: u32,
    /// Number of calls that stubs have answered.
    pub made: u32,
}

impl Clocks {
    /// Sets the clocks and the allowance before a guest runs.
    #[inline]
    pub fn give(&mut self, readings: &Readings) {
        let Readings { realtime_ns, monotonic_ns, boottime_ns, .. } = *readings;
        let shown = [(REALTIME, realtime_ns), (MONOTONIC, monotonic_ns), (BOOTTIME, boottime_ns)];
        if shown.iter().any(|(clock, ns)| self.shown_ns[*clock] != *ns) {
            for (clock, ns) in shown.into_iter().chain([(MONOTONIC_RAW, monotonic_ns)]) {
                self.shown_ns[clock] = ns;
            }
        }
        self.left = readings.allowed as i32;
    }
    /// Updates the readings after the guest has run; adds the answers given to `answers`.
    #[inline]
    pub fn take(&mut self, readings: &mut Readings, answers: &mut Answers) {
        if self.left == readings.allowed as i32 {
            return;
        }
        for (sum, given) in answers.iter_mut().zip(&mut self.given) {
            let given = core::mem::take(given);
            *sum += given;
            readings.made += given;
            readings.allowed = readings.allowed.saturating_sub(given);
        }
    }
}

/// All zeros: every component is in its initial state.
#[repr(C, align(64))]
pub struct InitialX87([u8; offset::EXTENDED]);

/// Description of a signal from its frame, without the registers.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Trap {
    /// Signal number.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`, or `si_arch` of a SIGSYS.
    pub addr: u64,
    /// Exception vector.
    pub trapno: u64,
    /// Exception error code.
    pub error_code: u64,
}

impl Worker {
    /// The block of a thread whose FS base is `host_fs`.
    pub fn new(layout: &XsaveLayout, host_fs: u64, on_signal: OnSignal) -> Worker {
        Worker {
            entry: entry::from_stub as *const () as u64,
            target: 0,
            context: core::ptr::null_mut(),
            host_rsp: 0,
            host_fs,
            in_guest: 0,
            on_signal,
            xsave_mask: layout.mask as u32,
            not_by_hand: layout.not_by_hand(),
            not_cleared: layout.not_cleared(),
            left_behind: layout.not_cleared(),
            in_use: 0,
            mxcsr: DEFAULT_MXCSR,
            tsc_is_native: true,
            cpuid_is_native: true,
            resumes: 0,
            tick_resumes: 0,
            layout: *layout,
            trap: Trap::default(),
            clocks: Clocks::default(),
            answers: [0; ANSWERED],
            initial_x87: InitialX87([0; offset::EXTENDED]),
        }
    }
}
