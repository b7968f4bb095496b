//! The machine as the kernel uses it: running guest code, guest memory and the machine's own files. The kernel touches
//! the machine through these traits alone. Their implementation (`belljar-platform`) decides no semantics: the kernel
//! keeps the list of a process's mappings, checks every access against it and says what to map where.

#![forbid(unsafe_code)]

pub mod elf;
pub mod initial_stack;
pub mod instrumented;
pub mod needed;
pub mod script;

use belljar_base::Footprint;
use belljar_base::activity::CallWays;
use belljar_linux_abi::{Errno, c};
use bitflags::bitflags;
use std::ops::Range;
use std::path::Path;

/// The addresses of user space end here.
pub const USER_END: u64 = 0x7fff_ffff_f000;

/// An address space of one guest process, as its platform knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SpaceId(pub u32);

/// The saved registers and vector state of one guest thread, as its platform knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ContextId(pub u32);

/// A native open file, as [`HostFiles`] knows it. Never shown to a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NativeFile(pub i32);

/// The general registers of a guest thread, in the order of the kernel's `struct user_regs_struct`
/// where it has them.
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
    /// True if the processor takes the bases of FS and GS: one that is no address faults when it is loaded.
    pub fn has_proper_bases(&self) -> bool {
        self.fs_base < USER_END && self.gs_base < USER_END
    }
}

/// The reason for which a guest thread came back from [`Platform::resume`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It made a system call: number in RAX, arguments in RDI, RSI, RDX, R10, R8, R9. RIP is behind
    /// the instruction, RCX and R11 as the `syscall` instruction leaves them. The kernel writes the
    /// result to RAX and resumes.
    Syscall,
    /// It made a system call of the 32-bit interface, by `int 0x80`.
    CompatSyscall,
    /// It executed `rdtsc` (or `rdtscp` where `aux`). RIP is behind the instruction; the kernel
    /// writes EDX:EAX (and ECX) and resumes.
    ReadTsc {
        /// `rdtscp`, which also loads TSC_AUX into ECX.
        aux: bool,
    },
    /// The CPU raised an exception in guest code; RIP is where the signal frame must say.
    Fault(Fault),
    /// A native timer found it running for a whole preemption tick without a call.
    Preempted,
    /// It was [stepped](Platform::step) over one instruction.
    Stepped,
    /// The native process that it ran in is no more: somebody outside has killed it. The space can
    /// only be destroyed.
    Killed,
}

/// Where the code of a space runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In the simulator's own address space.
    Near,
    /// In a native process of its own.
    Far,
    /// Far, with everything at the addresses where Linux has it (but for randomisation): for programs that require it.
    Linux,
}

/// A CPU exception of guest code in the terms of `sigaction(2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// `SIGSEGV`, `SIGBUS`, `SIGFPE`, `SIGILL` or `SIGTRAP`.
    pub signal: i32,
    /// `si_code`.
    pub code: i32,
    /// `si_addr`.
    pub addr: u64,
    /// The exception's vector, `REG_TRAPNO` of a signal frame.
    pub trapno: u64,
    /// The exception's error code, `REG_ERR` of a signal frame.
    pub error_code: u64,
}

bitflags! {
    /// Page protection, the `PROT_*` bits of `mmap(2)`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Prot: u32 {
        /// Pages may be read.
        const READ = 1;
        /// Pages may be written.
        const WRITE = 2;
        /// Pages may be executed.
        const EXEC = 4;
    }
}

/// The backing of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// Zeroed private memory.
    Anonymous,
    /// A private copy-on-write view of a file.
    PrivateFile {
        /// The file; it may be closed once mapped.
        file: NativeFile,
        /// Where in the file the mapping starts; a multiple of the page size.
        offset: u64,
    },
    /// A shared view of a file or of memory made by [`HostFiles::shared_memory`].
    SharedFile {
        /// The file; it may be closed once mapped.
        file: NativeFile,
        /// Where in the file the mapping starts; a multiple of the page size.
        offset: u64,
    },
}

/// The memory of guest processes. Addresses that the platform cannot reach give `EFAULT`, never a
/// crash: a file mapping may have lost its file's tail.
pub trait GuestMemory {
    /// Copies `out.len()` bytes from the guest's `addr`.
    fn read(&self, space: SpaceId, addr: u64, out: &mut [u8]) -> Result<(), Errno>;
    /// Copies `data` to the guest's `addr`.
    fn write(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno>;
    /// Atomically replaces the aligned 32-bit word at `addr` by `new` if it is `old`; gives the
    /// value found.
    fn compare_exchange_u32(&mut self, space: SpaceId, addr: u64, old: u32, new: u32) -> Result<u32, Errno>;
    /// Reads `len` bytes at `offset` of a native file straight to the guest's `addr`; how many. `None`
    /// where that cannot be done in one step: the caller reads and copies.
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
    /// Writes `len` bytes at the guest's `addr` straight to `offset` of a native file; how many, or
    /// `None`, as for [`read_file`](Self::read_file).
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

/// Placement constraints of the platform for an image that may lie anywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageRoom {
    /// Bytes below its first page in which nothing may be mapped as long as that page is.
    pub below: u64,
    /// A power of two, a page or more.
    pub align: u64,
    /// Remainder of the first page's address divided by `align`: a whole number of pages.
    pub remainder: u64,
}

impl ImageRoom {
    /// Any pages will do.
    pub const ANY: ImageRoom = ImageRoom { below: 0, align: 4096, remainder: 0 };

    /// The lowest place for an image from `floor` on, with its room above that.
    pub fn above(&self, floor: u64) -> u64 {
        let least = floor + self.below;
        least + (self.remainder.wrapping_sub(least) & (self.align - 1))
    }
    /// The highest place for an image of `len` bytes below `top`.
    pub fn below(&self, top: u64, len: u64) -> Option<u64> {
        let most = top.checked_sub(len)?;
        most.checked_sub(most.wrapping_sub(self.remainder) & (self.align - 1))
    }
}

/// Runs guest code and gets it back, like a hypervisor's virtual CPU. One value serves one host and
/// moves between worker threads with it.
pub trait Platform: GuestMemory + Send {
    /// An empty address space at the range of addresses that is slot `slot` (0, 1, ...: the lowest
    /// free one, the kernel counts) of this host. `ENOMEM` when there is no such slot. Only one
    /// near space can be in a slot at a time.
    fn create_space(&mut self, slot: u32, placement: Placement) -> Result<SpaceId, Errno>;
    /// A far copy of `space`, with the same content at the same addresses: what `fork(2)` does to
    /// memory. Shared mappings are shared between both.
    fn fork_space(&mut self, space: SpaceId) -> Result<SpaceId, Errno>;
    /// Counts of the system calls of `space` by the way in which they came.
    fn call_ways(&self, _space: SpaceId) -> CallWays {
        CallWays::default()
    }
    /// Unmaps everything in `space` and forgets it. Its contexts must be gone.
    fn destroy_space(&mut self, space: SpaceId);
    /// The simulator will soon read `bytes` of its own: a hint to fetch them into the cache meanwhile.
    fn prefetcher(&self) -> fn(&[u8]) {
        |_| ()
    }
    /// Spaces whose native process is no more, though nobody has asked for that: those that
    /// [`Exit::Killed`] would be told of if they were resumed.
    fn ended_spaces(&mut self) -> Vec<SpaceId> {
        Vec::new()
    }
    /// The addresses that the kernel may hand out in `space`.
    fn space_range(&self, space: SpaceId) -> Range<u64>;
    /// Where position-independent programs are mapped in `space`.
    fn image_base(&self, space: SpaceId) -> u64;
    /// Where the image in `file` is best mapped in `space`, whether as a program, an interpreter or a library. The answer
    /// depends on the file and the space's slot alone.
    fn room_of_image(&mut self, _space: SpaceId, _file: NativeFile) -> ImageRoom {
        ImageRoom::ANY
    }
    /// Addresses for what is too large for [`space_range`](Self::space_range): they may be
    /// [claimed](Self::claim_fixed) in every space, the same ones too, since whoever does is far from then on.
    fn beyond_slots(&self) -> Range<u64> {
        0..0
    }
    /// Checks that `range`, which lies outside [`space_range`](Self::space_range), may be mapped in
    /// `space`: the fixed addresses of an `ET_EXEC` image. A granted range belongs to the space
    /// until it is destroyed.
    fn claim_fixed(&mut self, space: SpaceId, range: Range<u64>) -> Result<(), Errno>;

    /// Maps `len` bytes at `addr` (page multiples), replacing what was there, as `MAP_FIXED` does.
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
    /// Passes on an `madvise(2)` whose effect on content the kernel relies on (`MADV_DONTNEED` on
    /// private pages gives them their original content back).
    fn advise(&mut self, space: SpaceId, addr: u64, len: u64, advice: i32) -> Result<(), Errno>;
    /// Presence of the pages of anonymous memory as `mincore(2)` has it: a byte each, whose lowest bit says whether it
    /// has been touched.
    fn resident(&mut self, space: SpaceId, addr: u64, pages: &mut [u8]) -> Result<(), Errno>;
    /// Copies `data` to the guest's private pages at `addr` whatever their protection, as debuggers
    /// do; they must be readable.
    fn poke(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.write(space, addr, data)
    }
    /// Undoes for good whatever the platform has changed in the code of `space` for its own ends: a
    /// debugger wants to see that code as it is, and to change it.
    fn show_original_code(&mut self, space: SpaceId) {
        let _ = space;
    }
    /// Maps the synthetic vDSO at `addr` of `space`; gives the number of bytes it occupies. Its
    /// functions make system calls of the kernel's ordinary kind.
    fn map_vdso(&mut self, space: SpaceId, addr: u64) -> Result<u64, Errno>;

    /// A new thread context with `regs` and the vector state of a new process.
    fn create_context(&mut self, space: SpaceId, regs: &Regs) -> ContextId;
    /// A copy of `from`, vector state included, that runs in `space`: a new thread or a vfork child.
    fn copy_context(&mut self, from: ContextId, space: SpaceId) -> ContextId;
    /// Forgets a context.
    fn destroy_context(&mut self, context: ContextId);
    /// The registers of a context that is not running.
    fn regs(&self, context: ContextId) -> &Regs;
    /// The registers to change. Selectors and privileged flag bits are not among them.
    fn regs_mut(&mut self, context: ContextId) -> &mut Regs;
    /// The vector and floating-point state in the layout of a signal frame: the 512 bytes of
    /// FXSAVE, the XSAVE header and the extended area in standard (not compacted) form. The same
    /// layout and length on every machine (one baseline of features).
    fn xstate(&self, context: ContextId, out: &mut Vec<u8>);
    /// Loads state that a guest's signal frame carries; what the CPU would refuse is repaired.
    /// A slice of 512 bytes is a plain FXSAVE image.
    fn set_xstate(&mut self, context: ContextId, state: &[u8]);
    /// Runs the context until it comes back. The caller's thread becomes a worker on first use.
    fn resume(&mut self, context: ContextId) -> Exit;
    /// As [`resume`](Self::resume); meanwhile it may answer calls itself as far as `clocks` allows.
    fn resume_with_clocks(&mut self, context: ContextId, clocks: &mut VdsoData) -> Exit {
        let _ = clocks;
        self.resume(context)
    }
    /// Tells what memory is read when the context is resumed, the guest's own included.
    fn footprint(&self, context: ContextId, footprint: &mut Footprint) {
        let _ = (context, footprint);
    }
    /// Counts of the calls that the context has answered itself when it last ran and did so ([`VdsoData::made`]), by
    /// [`ANSWERED`].
    fn answered(&mut self, context: ContextId) -> VdsoCounts {
        let _ = context;
        [0; ANSWERED.len()]
    }
    /// Tells the results of calls that ask for ids in this context from now on, while it may answer calls, by
    /// [`ID_CALLS`]; negative for one that has to be made.
    fn tell_ids(&mut self, context: ContextId, ids: &Ids) {
        let _ = (context, ids);
    }
    /// Runs one instruction of the context, of which the guest sees nothing: [`Exit::Stepped`] unless
    /// the instruction comes back otherwise, `Preempted` if it cannot be stepped over.
    fn step(&mut self, context: ContextId) -> Exit {
        let _ = context;
        Exit::Preempted
    }
}

/// Data by which a guest that runs may answer calls itself: the time, as Linux's vDSO tells it, and its ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VdsoData {
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub realtime_ns: u64,
    /// `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW` in nanoseconds.
    pub monotonic_ns: u64,
    /// `CLOCK_BOOTTIME` in nanoseconds.
    pub boottime_ns: u64,
    /// Number of calls that it may still answer itself.
    pub allowed: u32,
    /// Number of calls that it has answered.
    pub made: u32,
}

/// The calls that a guest may answer itself: those that read a clock, then those that ask for ids.
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
/// Counts of answered calls by [`ANSWERED`].
pub type VdsoCounts = [u32; ANSWERED.len()];
/// Those of them that ask for ids.
pub const ID_CALLS: &[i64] = ANSWERED.split_at(3).1;
/// Their results.
pub type Ids = [i64; ID_CALLS.len()];

/// The attributes of a native file as of `stat(2)`, with its kind in the `S_IFMT` bits of `mode`.
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
    /// True if it belongs to the user who runs the simulator.
    pub is_own: bool,
}

/// One entry of a native directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeDirEntry {
    /// Its name as bytes; never `.` or `..`.
    pub name: Vec<u8>,
    /// The `S_IFMT` bits of its mode.
    pub kind: u32,
}

/// The mode of [`HostFiles::open`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenHow {
    /// For writing as well as reading (otherwise reading only).
    pub write: bool,
    /// Create with this mode if it does not exist.
    pub create: Option<u32>,
    /// Fail with `EEXIST` if it exists.
    pub exclusive: bool,
    /// Cut to no bytes.
    pub truncate: bool,
}

/// The machine's own files, by absolute native path. Symbolic links are never followed in the last
/// component (the kernel resolves guests' paths itself); descriptors are close-on-exec and
/// non-blocking.
pub trait HostFiles: Send {
    /// Opens a regular file.
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno>;
    /// Closes a file.
    fn close(&mut self, file: NativeFile);
    /// Reads at `offset`; fewer bytes than asked for only at the end of the file.
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno>;
    /// Reads bytes that guests have written to memory that they share; changes nothing of the caller's own.
    fn peek_at(&self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        let _ = (file, offset, out);
        Err(Errno::EOPNOTSUPP)
    }
    /// Writes all of `data` at `offset`.
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno>;
    /// `fstat(2)`.
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno>;
    /// The files that have been opened and not to be written, each once, sorted.
    fn files_read(&self) -> Vec<std::path::PathBuf> {
        Vec::new()
    }
    /// Number of native files that this host may keep open while others do the same.
    fn file_share(&self) -> usize {
        usize::MAX
    }
    /// Gives back the space of the bytes from `start` to `end`, which read as zeroes then.
    /// `EOPNOTSUPP` where the file system cannot.
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
    /// All entries, sorted by name.
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
    /// `chmod(2)` of something that is not a symbolic link.
    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno>;
    /// An unnamed file in memory of `len` zero bytes, to be mapped shared.
    fn shared_memory(&mut self, len: u64) -> Result<NativeFile, Errno>;
    /// Reads from the simulator's own descriptor `stream` (0 to 2), waiting until there is
    /// something; 0 at its end.
    fn read_stream(&mut self, stream: u8, out: &mut [u8]) -> Result<usize, Errno>;
    /// Writes all of `data` to the simulator's own descriptor `stream`. `EPIPE` when nobody reads
    /// it any more (the simulator itself ignores `SIGPIPE`).
    fn write_stream(&mut self, stream: u8, data: &[u8]) -> Result<(), Errno>;
}

/// The machine as one host's kernel sees it.
pub trait Machine: Platform + HostFiles {}

impl<T: Platform + HostFiles> Machine for T {}
