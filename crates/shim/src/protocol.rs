//! Protocol between the simulator and a far guest's process: a block of shared memory owned by the side that
//! has the turn, and a futex word.

use crate::context::Context;
use crate::pieces::Pieces;
use crate::worker::{Answers, Readings, Trap};
use crate::xstate::XsaveLayout;
use core::sync::atomic::AtomicU32;

/// The process's descriptor of the channel's memory.
pub const CHANNEL_FD: u64 = 0;
/// The process's descriptor of the socket over which it receives other descriptors.
pub const SOCKET_FD: u64 = 1;

/// [`Channel::turn`]: the simulator has the turn. The process sleeps.
pub const SIMULATOR: u32 = 0;
/// [`Channel::turn`]: the process has the turn and has not stored its thread id yet. A new process starts in
/// this state and passes the turn when it is ready.
pub const STARTING: u32 = 1;
/// [`Channel::turn`] flag: the simulator sleeps until the process passes the turn.
pub const AWAITED: u32 = 0x8000_0000;
/// [`Channel::turn`] flag: the process ended during its turn.
pub const ENDED: u32 = 0x4000_0000;

/// [`Channel::command`]: run the guest until it exits.
pub const RESUME: u32 = 1;
/// [`Channel::command`]: make [`Channel::calls`].
pub const CALLS: u32 = 2;
/// [`Channel::command`]: fork. The child uses the channel memory and the socket received over the socket, in
/// this order; `results[0]` is its process id or a negative errno.
pub const FORK: u32 = 3;

/// Upper bound on the calls of one command.
pub const MAX_CALLS: usize = 64;
/// Capacity of the process's tables of `cpuid` results and of replaced `cpuid` instructions.
pub const MAX_CPUID: usize = 256;
/// Size of [`Channel::buffer`] in bytes.
pub const BUFFER: usize = 128 << 10;

/// [`NativeCall::number`]: receives a descriptor from the socket; the result is the descriptor.
pub const RECEIVE_FD: u32 = u32::MAX;

/// One native system call.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NativeCall {
    /// System-call number, or [`RECEIVE_FD`].
    pub number: u32,
    /// 1 plus the index of the argument to be replaced by the descriptor received last; 0 for none.
    pub received_fd: u32,
    /// Arguments.
    pub args: [u64; 6],
}

/// A result of `cpuid`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CpuidAnswer {
    /// EAX before the instruction.
    pub leaf: u32,
    /// ECX before the instruction; 0 for leaves that ignore it.
    pub subleaf: u32,
    /// EAX, EBX, ECX and EDX after the instruction.
    pub registers: [u32; 4],
}

/// True if a leaf of `cpuid` depends on ECX.
pub fn has_subleaves(leaf: u32) -> bool {
    matches!(leaf, 4 | 7 | 0xb | 0xd)
}

/// The shared block, exactly as long as its file. Fields used by every hand-over are adjacent.
#[repr(C, align(4096))]
pub struct Channel {
    /// The side that has the turn; a futex word.
    pub turn: AtomicU32,
    /// Value of `turn` during the process's turn: its thread id, or [`STARTING`] if Linux refuses the robust
    /// list.
    pub thread: u32,
    /// The command for the process.
    pub command: u32,
    /// Number of `calls` to make. The process stops after the first one that fails.
    pub call_count: u32,
    /// Result of [`crate::entry::enter`].
    pub came: u32,
    /// Process id of the required parent; the process ends if its parent is another one.
    pub parent: u32,
    /// Description of the signal that ended the resume.
    pub trap: Trap,
    /// The clocks that the resumed guest may read.
    pub clocks: Readings,
    /// Calls answered by the guest's stubs; the reader resets it to zero.
    pub answered: Answers,
    /// The guest thread to resume.
    pub context: Context,
    /// Guest memory that the process read when the guest exited with a system call.
    pub staged: Pieces,
    /// Guest memory that the process must write before any other action.
    pub answers: Pieces,
    /// Layout of vector state; read once.
    pub layout: XsaveLayout,
    /// Number of valid `cpuid_answers`.
    pub cpuid_answer_count: u32,
    /// Number of valid `cpuid_places`.
    pub cpuid_place_count: u32,
    /// Results for `cpuid` instructions that the process emulates itself: a starting program executes some
    /// 60.
    pub cpuid_answers: [CpuidAnswer; MAX_CPUID],
    /// Addresses of replaced `cpuid` instructions.
    pub cpuid_places: [u64; MAX_CPUID],
    /// The calls to make.
    pub calls: [NativeCall; MAX_CALLS],
    /// Results of the calls.
    pub results: [i64; MAX_CALLS],
    /// Bytes in transit, and the structures to which `calls` point.
    pub buffer: [u8; BUFFER],
}
