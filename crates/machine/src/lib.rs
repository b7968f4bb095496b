//! Interface of the kernel to the machine: execution of guest code, guest memory, and native files. The
//! kernel accesses the machine by these traits alone. Their implementation (`belljar-platform`) decides no
//! semantics: the kernel keeps the mappings of each process, checks every access against them, and chooses
//! the addresses of new mappings.

#![forbid(unsafe_code)]

pub mod elf;
mod faults;
mod hardware;
pub mod initial_stack;
pub mod instrumented;
pub mod needed;
pub mod script;
pub mod trees;

use belljar_base::activity::CallWays;
use belljar_base::{Footprint, SimTime};
use belljar_linux_abi::{Errno, c};
use bitflags::bitflags;
pub use faults::{CallFault, CallResult, DiskFault, FAULTY_CALLS, ForcedResult};
pub use hardware::{HardwareRead, NativeRead, RandomRead};
use std::ops::Range;
use std::path::Path;

/// End of user-space addresses.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// Identifier of a guest process's address space on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub u32);

/// Identifier of a guest thread's saved registers and vector state on a platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(pub u32);

/// Identifier of a native open file in [`HostFiles`]. Never visible to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NativeFile(pub i32);

/// General registers of a guest thread, in the order of the kernel's `struct user_regs_struct` as far as
/// contained there.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Regs {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rax: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

impl Regs {
    /// True if the processor accepts the FS and GS bases: loading a non-canonical one faults.
    pub fn has_proper_bases(&self) -> bool {
        self.fs_base < USER_END && self.gs_base < USER_END
    }
}

/// Reason why [`Platform::resume`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// System call: number in RAX, arguments in RDI, RSI, RDX, R10, R8, R9. RIP is after the instruction; RCX
    /// and R11 are as the `syscall` instruction leaves them. The kernel writes the result to RAX and resumes.
    Syscall,
    /// System call of the 32-bit interface, by `int 0x80`.
    CompatSyscall,
    /// Execution of `rdtsc` (or `rdtscp` if `aux`). RIP is after the instruction; the kernel writes EDX:EAX
    /// (and ECX) and resumes.
    ReadTsc {
        /// True for `rdtscp`, which also loads TSC_AUX into ECX.
        aux: bool,
    },
    /// Execution of `rdrand` or `rdseed`. RIP is after the instruction; the kernel
    /// [loads](RandomRead::load) a random number and resumes.
    ReadRandom(RandomRead),
    /// Execution of `rdpid`. RIP is after the instruction; the kernel writes the number of the processor to
    /// the register and resumes.
    ReadProcessor {
        /// Number of the destination register in the instruction set.
        register: u8,
    },
    /// CPU exception in guest code; RIP is the value for the signal frame.
    Fault(Fault),
    /// Preemption: the thread ran for a whole tick of the native timer without a system call.
    Preempted,
    /// Completion of a single [step](Platform::step).
    Stepped,
    /// Death of the native process of the space, killed from outside. The space can only be destroyed.
    Killed,
}

/// Placement of a space's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// The simulator's own address space.
    Near,
    /// A separate native process.
    Far,
    /// A separate native process with Linux's address layout (except randomisation), for programs that
    /// require it.
    Linux,
}

/// Flag TF of RFLAGS: the CPU raises a [`DEBUG_EXCEPTION`] after one instruction.
pub const TRAP_FLAG: u64 = 0x100;
/// Vector of the exception that the trap flag and INT1 raise.
pub const DEBUG_EXCEPTION: u64 = 1;

/// CPU exception of guest code in the terms of `sigaction(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL` or `SIGTRAP`.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`.
    pub addr: u64,
    /// Exception vector, `REG_TRAPNO` of a signal frame.
    pub trapno: u64,
    /// Exception error code, `REG_ERR` of a signal frame.
    pub error_code: u64,
}

impl Fault {
    /// General-protection fault of an instruction that the process may not execute, as Linux reports it.
    pub const PROTECTION: Fault =
        Fault { signal: c::SIGSEGV, code: c::SI_KERNEL, addr: 0, trapno: 13, error_code: 0 };
}

bitflags! {
    /// Page protection, the `PROT_*` bits of `mmap(2)`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Prot: u32 {
        /// Readable.
        const READ = 1;
        /// Writable.
        const WRITE = 2;
        /// Executable.
        const EXEC = 4;
    }
}

/// Backing of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Zero-filled private memory.
    Anonymous,
    /// Private copy-on-write mapping of a file.
    PrivateFile {
        /// Mapped file; it may be closed afterwards.
        file: NativeFile,
        /// File offset of the mapping, a multiple of the page size.
        offset: u64,
    },
    /// Shared mapping of a file or of memory created by [`HostFiles::shared_memory`].
    SharedFile {
        /// Mapped file; it may be closed afterwards.
        file: NativeFile,
        /// File offset of the mapping, a multiple of the page size.
        offset: u64,
    },
}

/// Memory of guest processes. Access to inaccessible addresses returns `EFAULT` and never crashes: a mapped
/// file may have been truncated.
pub trait GuestMemory {
    /// Copies `out.len()` bytes from guest address `addr`.
    fn read(&self, space: SpaceId, addr: u64, out: &mut [u8]) -> Result<(), Errno>;
    /// Copies `data` to guest address `addr`.
    fn write(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno>;
    /// Atomically replaces the aligned 32-bit word at `addr` by `new` if it equals `old`; returns the
    /// previous value.
    fn compare_exchange_u32(&mut self, space: SpaceId, addr: u64, old: u32, new: u32) -> Result<u32, Errno>;
    /// Reads `len` bytes at `offset` of a native file directly to guest address `addr`; returns the number of
    /// bytes. `None` if the platform cannot do this in one step: the caller must read and copy.
    fn read_file(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        file: NativeFile,
        offset: u64,
    ) -> Option<Result<u64, Errno>> {
        let _ = (space, addr, len, file, offset);
        None
    }
    /// Writes `len` bytes at guest address `addr` directly to `offset` of a native file; returns the number
    /// of bytes, or `None` as in [`read_file`](Self::read_file).
    fn write_file(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        file: NativeFile,
        offset: u64,
    ) -> Option<Result<u64, Errno>> {
        let _ = (space, addr, len, file, offset);
        None
    }
}

/// Address constraints of the platform for a relocatable image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRoom {
    /// Size in bytes of the gap below the first page, in which nothing may be mapped while that page is.
    pub below: u64,
    /// Alignment: a power of two, at least a page.
    pub align: u64,
    /// Remainder of the first page's address modulo `align`, a multiple of the page size.
    pub remainder: u64,
}

impl ImageRoom {
    /// No constraints.
    pub const ANY: ImageRoom = ImageRoom { below: 0, align: 4096, remainder: 0 };

    /// Lowest address for an image with its gap at or above `floor`.
    pub fn above(&self, floor: u64) -> u64 {
        let least = floor + self.below;
        least + (self.remainder.wrapping_sub(least) & (self.align - 1))
    }
    /// Highest address for an image of `len` bytes below `top`.
    pub fn below(&self, top: u64, len: u64) -> Option<u64> {
        let most = top.checked_sub(len)?;
        most.checked_sub(most.wrapping_sub(self.remainder) & (self.align - 1))
    }
}

/// Execution of guest code, like a hypervisor's virtual CPU. Each host has one platform, which moves between
/// worker threads with the host.
pub trait Platform: GuestMemory + Send {
    /// Creates an empty address space in slot `slot` of this host (the kernel assigns the lowest free slot,
    /// from 0). `ENOMEM` if the slot does not exist. A slot holds at most one near space at a time.
    fn create_space(&mut self, slot: u32, placement: Placement) -> Result<SpaceId, Errno>;
    /// Creates a far copy of `space` with the same contents at the same addresses, as `fork(2)` does. Shared
    /// mappings remain shared.
    fn fork_space(&mut self, space: SpaceId) -> Result<SpaceId, Errno>;
    /// Counts of the system calls of `space` by interception mechanism.
    fn call_ways(&self, _space: SpaceId) -> CallWays {
        CallWays::default()
    }
    /// Instructions in `space` that read the machine and that the platform can neither make trap nor replace
    /// with certainty: those in its present executable memory and in executable memory unmapped before.
    fn native_reads(&self, _space: SpaceId) -> Vec<NativeRead> {
        Vec::new()
    }
    /// Destroys `space` and all of its mappings. Its contexts must have been destroyed before.
    fn destroy_space(&mut self, space: SpaceId);
    /// Cache prefetch hint for bytes of the simulator that it will read soon.
    fn prefetcher(&self) -> fn(&[u8]) {
        |_| ()
    }
    /// Spaces whose native process died unexpectedly: resuming them would return [`Exit::Killed`].
    fn ended_spaces(&mut self) -> Vec<SpaceId> {
        Vec::new()
    }
    /// Address range from which the kernel may allocate in `space`.
    fn space_range(&self, space: SpaceId) -> Range<u64>;
    /// Base address of position-independent programs in `space`.
    fn image_base(&self, space: SpaceId) -> u64;
    /// Address constraints for the image in `file` in `space`, as a program, interpreter or library. The
    /// result depends on the file and the slot of the space only.
    fn room_of_image(&mut self, _space: SpaceId, _file: NativeFile) -> ImageRoom {
        ImageRoom::ANY
    }
    /// Address range for mappings that exceed [`space_range`](Self::space_range). Every space may
    /// [claim](Self::claim_fixed) the same addresses in it, since a space that does becomes far.
    fn beyond_slots(&self) -> Range<u64> {
        0..0
    }
    /// Reserves `range`, outside [`space_range`](Self::space_range), for `space`: the fixed addresses of an
    /// `ET_EXEC` image. The reservation lasts until the space is destroyed.
    fn claim_fixed(&mut self, space: SpaceId, range: Range<u64>) -> Result<(), Errno>;

    /// Maps `len` bytes at `addr` (multiples of the page size), replacing existing mappings, as `MAP_FIXED`
    /// does.
    fn map(&mut self, space: SpaceId, addr: u64, len: u64, prot: Prot, backing: Backing)
    -> Result<(), Errno>;
    /// Unmaps `len` bytes at `addr`.
    fn unmap(&mut self, space: SpaceId, addr: u64, len: u64) -> Result<(), Errno>;
    /// Changes the protection of mapped pages.
    fn protect(&mut self, space: SpaceId, addr: u64, len: u64, prot: Prot) -> Result<(), Errno>;
    /// Moves the pages of a mapping from `from` to `to` and changes its length, as
    /// `mremap(MREMAP_MAYMOVE | MREMAP_FIXED)` does.
    fn relocate(
        &mut self,
        space: SpaceId,
        from: u64,
        old_len: u64,
        to: u64,
        new_len: u64,
    ) -> Result<(), Errno>;
    /// Forwards an `madvise(2)` whose effect on contents the kernel relies on (`MADV_DONTNEED` restores the
    /// original contents of private pages).
    fn advise(&mut self, space: SpaceId, addr: u64, len: u64, advice: i32) -> Result<(), Errno>;
    /// Residency of anonymous pages as reported by `mincore(2)`: one byte per page, whose lowest bit is set
    /// if the page was touched.
    fn resident(&mut self, space: SpaceId, addr: u64, pages: &mut [u8]) -> Result<(), Errno>;
    /// Copies `data` to the guest's private pages at `addr` regardless of their protection, as debuggers do;
    /// the pages must be readable.
    fn poke(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.write(space, addr, data)
    }
    /// False if the next instruction cannot be [stepped](Self::step) unnoticed.
    fn can_step(&self, context: ContextId) -> bool {
        let _ = context;
        true
    }
    /// Permanently reverts all patches of the platform to the code of `space`, so that a debugger sees and
    /// changes the original code.
    fn show_original_code(&mut self, space: SpaceId) {
        let _ = space;
    }
    /// Maps the synthetic vDSO at `addr` of `space`; returns its size in bytes. Its functions make ordinary
    /// system calls.
    fn map_vdso(&mut self, space: SpaceId, addr: u64) -> Result<u64, Errno>;

    /// Creates a thread context with `regs` and the initial vector state of a process.
    fn create_context(&mut self, space: SpaceId, regs: &Regs) -> ContextId;
    /// Copies context `from`, including vector state, to run in `space`: a new thread or a vfork child.
    fn copy_context(&mut self, from: ContextId, space: SpaceId) -> ContextId;
    /// Destroys a context.
    fn destroy_context(&mut self, context: ContextId);
    /// Registers of a context that is not running.
    fn regs(&self, context: ContextId) -> &Regs;
    /// Mutable registers of a context. Selectors and privileged flag bits are not included.
    fn regs_mut(&mut self, context: ContextId) -> &mut Regs;
    /// Vector and floating-point state in the layout of a signal frame: the 512 bytes of FXSAVE, the XSAVE
    /// header and the extended area in standard (not compacted) form. Layout and length are the same on every
    /// machine (one baseline of features).
    fn xstate(&self, context: ContextId, out: &mut Vec<u8>);
    /// Loads vector state from a guest's signal frame; values that the CPU would reject are sanitized. A
    /// slice of 512 bytes is a plain FXSAVE image.
    fn set_xstate(&mut self, context: ContextId, state: &[u8]);
    /// Runs the context until an exit. The calling thread becomes a worker on first use.
    fn resume(&mut self, context: ContextId) -> Exit;
    /// Runs the context until an exit, like [`resume`](Self::resume); the guest may handle calls itself, as far as
    /// `clocks` allows.
    fn resume_with_clocks(&mut self, context: ContextId, clocks: &mut VdsoData) -> Exit {
        let _ = clocks;
        self.resume(context)
    }
    /// Collects the memory that resuming the context will read, including guest memory.
    fn footprint(&self, context: ContextId, footprint: &mut Footprint) {
        let _ = (context, footprint);
    }
    /// Counts, by [`ANSWERED`], of the calls that the context handled itself in its last run in which it did
    /// ([`VdsoData::made`]).
    fn answered(&mut self, context: ContextId) -> VdsoCounts {
        let _ = context;
        [0; ANSWERED.len()]
    }
    /// Sets the results of id calls that the context may handle itself from now on, by [`ID_CALLS`]; a
    /// negative value means that the call must exit.
    fn tell_ids(&mut self, context: ContextId, ids: &Ids) {
        let _ = (context, ids);
    }
    /// Executes one instruction of the context, invisibly to the guest. Returns [`Exit::Stepped`], the exit
    /// caused by the instruction, or `Preempted` if it cannot be stepped over.
    fn step(&mut self, context: ContextId) -> Exit {
        let _ = context;
        Exit::Preempted
    }
}

/// Data by which a running guest may handle calls itself: the time, as in Linux's vDSO, and its ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VdsoData {
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub realtime_ns: u64,
    /// `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW` in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_BOOTTIME` in nanoseconds.
    pub boottime_ns: u64,
    /// Maximum number of calls that the guest may handle itself.
    pub allowed: u32,
    /// Number of calls that the guest has handled itself.
    pub made: u32,
}

/// Calls that a guest may handle itself: clock reads, then id queries.
pub const ANSWERED: [i64; 11] = [
    c::SYS_clock_gettime,
    c::SYS_gettimeofday,
    c::SYS_time,
    c::SYS_getpid,
    c::SYS_gettid,
    c::SYS_getppid,
    c::SYS_getpgrp,
    c::SYS_getuid,
    c::SYS_geteuid,
    c::SYS_getgid,
    c::SYS_getegid,
];
/// Counts of self-handled calls, by [`ANSWERED`].
pub type VdsoCounts = [u32; ANSWERED.len()];
/// The id queries of [`ANSWERED`].
pub const ID_CALLS: &[i64] = ANSWERED.split_at(3).1;
/// Results of the id queries.
pub type Ids = [i64; ID_CALLS.len()];

/// Attributes of a native file as in `stat(2)`, with the file type in the `S_IFMT` bits of `mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct NativeStat {
    pub dev: u64,
    pub ino: u64,
    pub mode: u32,
    pub nlink: u64,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u64,
    pub size: u64,
    pub blocks: u64,
    /// Modification time in nanoseconds since 1970.
    pub mtime_ns: i64,
    /// True if the file is owned by the user that runs the simulator.
    pub is_own: bool,
}

/// Entry of a native directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeDirEntry {
    /// File name as bytes; never `.` or `..`.
    pub name: Vec<u8>,
    /// File type, the `S_IFMT` bits of the mode.
    pub kind: u32,
}

/// Mode of [`HostFiles::open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// Open for reading and writing (otherwise for reading only).
    pub write: bool,
    /// Create the file with this mode if it does not exist.
    pub create: Option<u32>,
    /// Fail with `EEXIST` if the file exists.
    pub exclusive: bool,
    /// Truncate the file to zero length.
    pub truncate: bool,
}

/// Native files, by absolute path. Symbolic links in the last component are never followed (the kernel
/// resolves guest paths itself); descriptors are close-on-exec and non-blocking.
pub trait HostFiles: Send {
    /// Opens a regular file.
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno>;
    /// Closes a file.
    fn close(&mut self, file: NativeFile);
    /// Reads at `offset`; a short read occurs only at the end of the file.
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno>;
    /// Reads memory shared by guests, without changing state of the caller.
    fn peek_at(&self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let _ = (file, offset, out);
        Err(Errno::EOPNOTSUPP)
    }
    /// Writes all of `data` at `offset`.
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno>;
    /// `fstat(2)`.
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno>;
    /// Files opened for reading only, each once, sorted.
    fn files_read(&self) -> Vec<std::path::PathBuf> {
        Vec::new()
    }
    /// Number of native files that this host may keep open, given that all hosts do so.
    fn file_share(&self) -> usize {
        usize::MAX
    }
    /// Deallocates the bytes from `start` to `end`, which then read as zeros. `EOPNOTSUPP` if the file system
    /// does not support it.
    fn punch(&mut self, file: NativeFile, start: u64, end: u64) -> Result<(), Errno> {
        let _ = (file, start, end);
        Err(Errno::EOPNOTSUPP)
    }
    /// `ftruncate(2)`.
    fn set_len(&mut self, file: NativeFile, len: u64) -> Result<(), Errno>;
    /// `lstat(2)`.
    fn stat(&mut self, path: &Path) -> Result<NativeStat, Errno>;
    /// `readlink(2)`.
    fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno>;
    /// Directory entries, sorted by name.
    fn read_dir(&mut self, path: &Path) -> Result<Vec<NativeDirEntry>, Errno>;
    /// `mkdir(2)`.
    fn create_dir(&mut self, path: &Path, mode: u32) -> Result<(), Errno>;
    /// `symlink(2)`.
    fn create_symlink(&mut self, target: &[u8], path: &Path) -> Result<(), Errno>;
    /// `link(2)`.
    fn create_link(&mut self, existing: &Path, path: &Path) -> Result<(), Errno>;
    /// `unlink(2)`.
    fn remove_file(&mut self, path: &Path) -> Result<(), Errno>;
    /// `rmdir(2)`.
    fn remove_dir(&mut self, path: &Path) -> Result<(), Errno>;
    /// `rename(2)`.
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno>;
    /// `chmod(2)` of a file that is not a symbolic link.
    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno>;
    /// Creates an unnamed in-memory file of `len` zero bytes, to be mapped shared.
    fn shared_memory(&mut self, len: u64) -> Result<NativeFile, Errno>;
    /// Reads from the simulator's own descriptor `stream` (0 to 2), blocking until data is available; 0 at
    /// end of file.
    fn read_stream(&mut self, stream: u8, out: &mut [u8]) -> Result<usize, Errno>;
    /// Writes all of `data` to the simulator's own descriptor `stream`. `EPIPE` if the reading end is closed
    /// (the simulator itself ignores `SIGPIPE`).
    fn write_stream(&mut self, stream: u8, data: &[u8]) -> Result<(), Errno>;
    /// True if [`disk_event`](Self::disk_event) has an effect: crashes of the host lose what is not synced.
    fn is_observed(&self) -> bool {
        false
    }
    /// Warning about files that [`disk_event`](Self::disk_event) cannot observe, if there are new ones.
    fn disk_warning(&mut self) -> Option<String> {
        None
    }
    /// Reports an event that the native files do not show.
    fn disk_event(&mut self, event: DiskEvent<'_>) -> Result<(), Errno> {
        let _ = event;
        Ok(())
    }
}

/// Fate of a host's files in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashFiles {
    /// All that was written is there, synced or not.
    Kept,
    /// The host has the files of its first start.
    Lost,
    /// What was not synced may be lost, by draw.
    Unsynced {
        /// True if pages may be torn.
        torn: bool,
    },
}

/// Event of a host's disk, for [`HostFiles::disk_event`]. Paths are native.
#[derive(Clone, Copy, Debug)]
pub enum DiskEvent<'a> {
    /// The file or directory, which was just created natively, was on the disk before, with this content.
    Existing(&'a Path),
    /// The next removal of a name is part of a rename that replaces it.
    Replacing,
    /// `fsync(2)` or, for `data_only`, `fdatasync(2)`.
    Synced {
        /// File or directory.
        path: &'a Path,
        /// True if metadata that is not needed to read the data may be lost.
        data_only: bool,
    },
    /// `sync(2)`.
    SyncedAll,
    /// The same for a file, and the disk failed: its data counts as written, and is not on the disk.
    SyncFailed {
        /// File.
        path: &'a Path,
    },
    /// The disk gives another byte than was written: the native file has it from now on.
    Rotted {
        /// File.
        file: NativeFile,
        /// Position of the byte.
        offset: u64,
        /// Its new value.
        byte: u8,
    },
    /// A program closed the file, which it had open for writing.
    Closed(&'a Path),
    /// The host crashed: its native files become those that the crash leaves. None of them is open, and the sidecar
    /// describes the files before the crash.
    Crash {
        /// True if pages may be torn.
        torn: bool,
        /// Simulated time.
        at: SimTime,
        /// Wall clock in nanoseconds since 1970.
        realtime_ns: i64,
    },
    /// The simulation ended.
    Finished,
}

/// Machine as seen by the kernel of one host.
pub trait Machine: Platform + HostFiles {}

impl<T: Platform + HostFiles> Machine for T {}
