//! Protocol between the simulator and a far guest's process: a block in shared memory that
//! belongs to the side whose turn it is, and a word to sleep on.

use crate::context::Context;
use crate::pieces::Pieces;
use crate::worker::{Answers, Readings, Trap};
use crate::xstate::XsaveLayout;
use core::sync::atomic::AtomicU32;

/// The process's descriptor of the channel's memory.
pub const CHANNEL_FD: u64 = 0;
/// The process's descriptor of the socket through which it is passed others.
pub const SOCKET_FD: u64 = 1;

/// [`Channel::turn`]: the simulator's. The process sleeps.
pub const SIMULATOR: u32 = 0;
/// [`Channel::turn`]: the process's before it has said who it is. It starts with that and gives the turn away when
/// it is ready.
pub const STARTING: u32 = 1;
/// [`Channel::turn`]: the simulator sleeps until the process gives the turn away.
pub const AWAITED: u32 = 0x8000_0000;
/// [`Channel::turn`]: the process ended while it was its turn.
pub const ENDED: u32 = 0x4000_0000;

/// [`Channel::command`]: run the guest until it comes back.
pub const RESUME: u32 = 1;
/// [`Channel::command`]: make [`Channel::calls`].
pub const CALLS: u32 = 2;
/// [`Channel::command`]: fork. The child takes the channel memory and the socket that the process
/// is passed, in this order; `results[0]` is its process id or a negative errno.
pub const FORK: u32 = 3;

/// Calls of one command, at most.
pub const MAX_CALLS: usize = 64;
/// Answers to `cpuid`, and places of it, that the process knows, at most.
pub const MAX_CPUID: usize = 256;
/// Bytes of [`Channel::buffer`].
pub const BUFFER: usize = 128 << 10;

/// [`NativeCall::number`]: receives a descriptor from the socket; gives it.
pub const RECEIVE_FD: u32 = u32::MAX;

/// One native system call.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct NativeCall {
    /// Its number.
    pub number: u32,
    /// 1 plus the index of the argument that stands for the descriptor received last; 0 for none.
    pub received_fd: u32,
    /// Its arguments.
    pub args: [u64; 6],
}

/// An answer to `cpuid`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CpuidAnswer {
    /// EAX of the question.
    pub leaf: u32,
    /// ECX of the question; 0 where that makes no difference.
    pub subleaf: u32,
    /// EAX, EBX, ECX and EDX.
    pub registers: [u32; 4],
}

/// True if a leaf of `cpuid` depends on ECX.
pub fn has_subleaves(leaf: u32) -> bool {
    matches!(leaf, 4 | 7 | 0xb | 0xd)
}

/// The shared block. The file that it lies in is exactly as long. What each hand-over needs lies together.
#[repr(C, align(4096))]
pub struct Channel {
    /// The side whose turn it is; a futex.
    pub turn: AtomicU32,
    /// The value of `turn` while it is the process's: its thread, or [`STARTING`] if Linux would not look for it.
    pub thread: u32,
    /// The command that the process is to carry out.
    pub command: u32,
    /// Number of `calls` to make. The first one that fails is the last one made.
    pub call_count: u32,
    /// The result of [`crate::entry::enter`].
    pub came: u32,
    /// The process that it must be a child of, else it ends.
    pub parent: u32,
    /// Description of the signal that ended the resume.
    pub trap: Trap,
    /// The clocks that the resumed guest may read.
    pub clocks: Readings,
    /// Calls that the guest's stubs have answered; the reader sets it to zero.
    pub answered: Answers,
    /// The guest thread to resume.
    pub context: Context,
    /// Guest memory that the process has read when it came back with a call.
    pub staged: Pieces,
    /// Guest memory that the process must write before it does anything else.
    pub answers: Pieces,
    /// Layout of vector state; read once.
    pub layout: XsaveLayout,
    /// Number of valid `cpuid_answers`.
    pub cpuid_answer_count: u32,
    /// See `cpuid_answer_count`.
    pub cpuid_place_count: u32,
    /// Answers to `cpuid` that the process gives itself: a program that starts asks some 60 times.
    pub cpuid_answers: [CpuidAnswer; MAX_CPUID],
    /// Addresses of replaced `cpuid` instructions.
    pub cpuid_places: [u64; MAX_CPUID],
    /// The calls to make.
    pub calls: [NativeCall; MAX_CALLS],
    /// Their results.
    pub results: [i64; MAX_CALLS],
    /// Bytes on their way, and the structures that `calls` point to.
    pub buffer: [u8; BUFFER],
}
