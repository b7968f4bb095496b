//! One far guest's process and its channel.

use super::{affinity, spawner};
use crate::layout::{FIXED_AREA, SHIM_AREA, USER_END};
use crate::mappings::Counted;
use crate::near::worker;
use crate::{cpu, cpuid};
use belljar_channel::{SharedMemory, futex};
use belljar_linux_abi::Errno;
use belljar_shim::context::{Context, Xsave};
use belljar_shim::protocol::{self, Channel, CpuidAnswer, NativeCall};
use belljar_shim::worker::{Answers, Readings, Trap};
use std::cell::Cell;
use std::io::{Error, Result as IoResult};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Interval at which the simulator, while it sleeps, checks that a process not yet known to sleep is still
/// alive.
const PATIENCE: Duration = Duration::from_millis(100);

/// A process that holds a guest's memory. Dropping it kills the process.
#[derive(Debug)]
pub struct Shim {
    pub(super) channel: SharedMemory<Channel>,
    socket: OwnedFd,
    pub(super) pid: i32,
    /// Serial number, unique within the run.
    pub(super) number: u64,
    /// True if the process has ended, killed from outside.
    gone: Cell<bool>,
    /// The processor that the process is pinned to, -1 for none.
    cpu: Cell<i32>,
    /// True if `process_vm_readv` and `process_vm_writev` are not permitted on this machine.
    pub(super) denied: Cell<bool>,
    /// Number of the context whose current vector state is in the channel rather than in the context itself;
    /// 0 if none.
    holds: Cell<u64>,
    _mapping: Counted,
}

static LIVING: AtomicUsize = AtomicUsize::new(0);
static NUMBERS: AtomicU64 = AtomicU64::new(0);

/// Error: the process has ended.
#[derive(Clone, Copy, Debug)]
pub struct Gone;

impl From<Gone> for Errno {
    fn from(_: Gone) -> Errno {
        Errno::ESRCH
    }
}

/// The ends of the channel and the socket for a new process.
struct Ends {
    channel: SharedMemory<Channel>,
    memory: OwnedFd,
    ours: OwnedFd,
    theirs: OwnedFd,
}

/// Upper limit on the number of far processes: each keeps a descriptor open, and enough descriptors must
/// remain for files.
fn most() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(crate::files::process_share)
}

impl Ends {
    fn new() -> Result<Ends, Errno> {
        if LIVING.load(Ordering::Relaxed) >= most() {
            // An idle process is ended to make room.
            let idle = idle().pop();
            if idle.is_none() {
                return Err(Errno::EMFILE);
            }
        }
        let (channel, memory) = SharedMemory::<Channel>::create()?;
        // SAFETY: the memory is not shared yet; all zero bytes are a valid channel.
        unsafe {
            let block = channel.get();
            (*block).layout = *cpu::xsave_layout();
            (*block).parent = std::process::id();
            let answers = cpuid_answers();
            (&mut (*block).cpuid_answers)[..answers.len()].copy_from_slice(answers);
            (*block).cpuid_answer_count = answers.len() as u32;
            (*block).turn.store(protocol::STARTING, Ordering::Release);
        }
        let (ours, theirs) = socket_pair()?;
        Ok(Ends { channel, memory, ours, theirs })
    }
}

fn cpuid_answers() -> &'static [CpuidAnswer] {
    static ANSWERS: OnceLock<Vec<CpuidAnswer>> = OnceLock::new();
    // SAFETY: the block is this thread's own, and no guest runs on it.
    ANSWERS.get_or_init(|| cpuid::answers(unsafe { &mut *worker::current() }))
}

/// Idle processes: their guests have ended and their memory is unmapped. Emptying a process costs a fraction
/// of ending it and starting another one.
fn idle() -> MutexGuard<'static, Vec<Shim>> {
    static IDLE: Mutex<Vec<Shim>> = Mutex::new(Vec::new());
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Largest number of idle processes kept.
const MOST_IDLE: usize = 16;

fn socket_pair() -> IoResult<(OwnedFd, OwnedFd)> {
    let mut fds = [-1; 2];
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: `fds` has room for two; the fresh descriptors have no other owner.
    unsafe {
        match libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) {
            0 => Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1]))),
            _ => Err(Error::last_os_error()),
        }
    }
}

impl Shim {
    /// An empty process, which may still be starting up when this function returns.
    ///
    /// An idle process is reused if there is one. Otherwise the process is a fork of an empty one kept for
    /// this purpose, which is cheaper than starting the program again.
    pub fn spawn() -> Result<Shim, Errno> {
        while let Some(shim) = { idle().pop() } {
            // It may have been killed from outside.
            if !shim.has_hung_up() {
                return Ok(shim);
            }
        }
        static EMPTY: Mutex<Option<Shim>> = Mutex::new(None);
        let mut empty = EMPTY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shim) = empty.as_ref().and_then(|empty| empty.fork().ok()) {
            return Ok(shim);
        }
        // The empty process may have been killed from outside.
        empty.insert(Shim::start()?).fork()
    }

    fn start() -> Result<Shim, Errno> {
        let ends = Ends::new()?;
        let pid = spawner::spawn(ends.memory, ends.theirs)?;
        Ok(Shim::new(ends.channel, ends.ours, pid))
    }

    /// A process with a copy of this one's memory in `own`. No guest may run in these ranges, nor may they
    /// change, meanwhile.
    pub fn of_near(own: Vec<Range<u64>>) -> Result<Shim, Errno> {
        let ends = Ends::new()?;
        let pid = spawner::fork(own, ends.channel.get(), ends.memory, ends.theirs)?;
        Ok(Shim::new(ends.channel, ends.ours, pid))
    }

    /// A copy of the process, by a native fork.
    pub fn fork(&self) -> Result<Shim, Errno> {
        let ends = Ends::new()?;
        self.send_fd(ends.memory.as_raw_fd())?;
        self.send_fd(ends.theirs.as_raw_fd())?;
        self.round(protocol::FORK)?;
        // SAFETY: it is the simulator's turn.
        match unsafe { (*self.channel.get()).results[0] } {
            pid if pid > 0 => Ok(Shim::new(ends.channel, ends.ours, pid as i32)),
            _ => Err(Errno::EAGAIN),
        }
    }

    fn new(channel: SharedMemory<Channel>, socket: OwnedFd, pid: i32) -> Shim {
        let (gone, cpu, denied) = (Cell::new(false), Cell::new(-1), Cell::new(false));
        LIVING.fetch_add(1, Ordering::Relaxed);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let holds = Cell::new(0);
        Shim { channel, socket, pid, number, gone, cpu, denied, holds, _mapping: Counted::new() }
    }

    /// Empties the process for reuse by another guest, or ends it.
    pub fn retire(self) {
        let unmap = |from: u64, to: u64| NativeCall {
            number: libc::SYS_munmap as u32,
            received_fd: 0,
            args: [from, to - from, 0, 0, 0, 0],
        };
        if idle().len() >= MOST_IDLE {
            return;
        }
        let all = [unmap(FIXED_AREA.start, SHIM_AREA.start), unmap(SHIM_AREA.end, USER_END)];
        if !self.has_hung_up() && self.calls(&all).is_ok() {
            // SAFETY: it is the simulator's turn.
            unsafe { (*self.channel.get()).cpuid_place_count = 0 };
            self.holds.set(0);
            idle().push(self);
        }
    }

    /// Registers the addresses of replaced `cpuid` instructions, which the process then emulates itself.
    /// Addresses beyond the capacity of its table exit to the simulator.
    pub fn answer_cpuids(&self, places: impl Iterator<Item = u64>) {
        if self.wait().is_err() {
            return;
        }
        // SAFETY: it is the simulator's turn.
        unsafe {
            let block = self.channel.get();
            for place in places {
                let count = (*block).cpuid_place_count as usize;
                let known = &mut (*block).cpuid_places;
                let Some(room) = known.get_mut(count) else { return };
                *room = place;
                (*block).cpuid_place_count += 1;
            }
        }
    }

    /// Has the process carry out `command` and waits for its completion.
    fn round(&self, command: u32) -> Result<(), Gone> {
        // The process may still be starting up.
        self.wait()?;
        // In a virtual machine, a hand-over between two threads of which only one has `cpuid` trap costs 14
        // us more: the hypervisor intercepts the switch. SAFETY: the block is this thread's own, and no guest
        // runs on it.
        unsafe { worker::trap_as_guests_do(worker::current()) };
        // SAFETY: it is the simulator's turn.
        let (turn, thread) = unsafe {
            let block = self.channel.get();
            (*block).command = command;
            (&(*block).turn, (*block).thread)
        };
        turn.store(thread, Ordering::Release);
        if !futex::wake(turn) {
            // No sleeper was woken: the process is either about to sleep or has ended, and in the latter case
            // there would be no notification.
            return self.wait_looking();
        }
        self.wait()
    }

    /// Waits for the simulator's turn.
    #[inline]
    pub(super) fn wait(&self) -> Result<(), Gone> {
        // SAFETY: mapped, and an atomic.
        let turn = unsafe { &(*self.channel.get()).turn };
        if self.gone.get() {
            return Err(Gone);
        }
        match turn.load(Ordering::Acquire) {
            protocol::SIMULATOR => Ok(()),
            protocol::STARTING => self.wait_looking(),
            _ => self.wait_told(),
        }
    }

    /// Waits while the process has the turn, given that it was alive when it took it: Linux marks the futex
    /// word if the process ends.
    fn wait_told(&self) -> Result<(), Gone> {
        // SAFETY: as above.
        let turn = unsafe { &(*self.channel.get()).turn };
        loop {
            match turn.load(Ordering::Acquire) {
                protocol::SIMULATOR => break,
                ended if ended & protocol::ENDED != 0 => {
                    self.gone.set(true);
                    break;
                }
                theirs if theirs & protocol::AWAITED == 0 => {
                    let awaited = theirs | protocol::AWAITED;
                    let _ = turn.compare_exchange(theirs, awaited, Ordering::AcqRel, Ordering::Acquire);
                }
                theirs => futex::wait_untimed(turn, theirs),
            }
        }
        if self.gone.get() { Err(Gone) } else { Ok(()) }
    }

    /// Waits for a process that may have ended already, and checks for that.
    #[cold]
    fn wait_looking(&self) -> Result<(), Gone> {
        // SAFETY: as above.
        let turn = unsafe { &(*self.channel.get()).turn };
        loop {
            let theirs = turn.load(Ordering::Acquire);
            if theirs == protocol::SIMULATOR || self.gone.get() {
                break;
            }
            let awaited = theirs | protocol::AWAITED;
            if turn.compare_exchange(theirs, awaited, Ordering::AcqRel, Ordering::Acquire).is_ok()
                && !futex::wait(turn, awaited, PATIENCE)
                && self.has_ended()
            {
                self.gone.set(true);
            }
        }
        if self.gone.get() { Err(Gone) } else { Ok(()) }
    }

    /// True if the process has ended. Cheap: polls for the hang-up of its socket first.
    pub fn has_hung_up(&self) -> bool {
        let mut socket = libc::pollfd { fd: self.socket.as_raw_fd(), events: 0, revents: 0 };
        // SAFETY: `socket` outlives the call.
        let found = unsafe { libc::poll(&mut socket, 1, 0) };
        found == 1 && socket.revents & libc::POLLHUP != 0 && self.has_ended()
    }

    fn has_ended(&self) -> bool {
        // SAFETY: all zero is a valid siginfo, which the call fills.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let how = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
            libc::waitid(libc::P_PID, self.pid as libc::id_t, &mut info, how) != 0 || info.si_pid() != 0
        }
    }

    /// Has the process carry out the pending answers and no calls.
    pub(super) fn no_calls(&self) -> Result<(), Gone> {
        self.wait()?;
        // SAFETY: it is the simulator's turn.
        unsafe { (*self.channel.get()).call_count = 0 };
        self.round(protocol::CALLS)
    }

    /// Makes native calls in order up to the first one that fails; returns the last call's result.
    pub fn calls(&self, calls: &[NativeCall]) -> Result<u64, Errno> {
        let mut last = 0;
        for part in calls.chunks(protocol::MAX_CALLS) {
            self.wait()?;
            // SAFETY: it is the simulator's turn.
            unsafe {
                let block = self.channel.get();
                (*block).call_count = part.len() as u32;
                let to = &mut (*block).calls;
                to[..part.len()].copy_from_slice(part);
            }
            self.round(protocol::CALLS)?;
            // SAFETY: as above.
            let results = unsafe { &(*self.channel.get()).results };
            for result in &results[..part.len()] {
                if (-4095..0).contains(result) {
                    return Err(Errno::from(Error::from_raw_os_error(-*result as i32)));
                }
                last = *result as u64;
            }
        }
        Ok(last)
    }

    /// Makes one native call.
    pub fn call(&self, nr: libc::c_long, args: [u64; 6]) -> Result<u64, Errno> {
        self.calls(&[NativeCall { number: nr as u32, received_fd: 0, args }])
    }

    /// `mmap(2)`; `fd` is a descriptor of the simulator, or -1.
    pub fn mmap(
        &self,
        addr: u64,
        len: u64,
        prot: i32,
        flags: i32,
        fd: i32,
        offset: u64,
    ) -> Result<(), Errno> {
        let args = [addr, len, prot as u64, flags as u64, fd as u64, offset];
        if fd < 0 {
            return self.call(libc::SYS_mmap, args).map(|_| ());
        }
        self.send_fd(fd)?;
        let receive = NativeCall { number: protocol::RECEIVE_FD, ..NativeCall::default() };
        let map = NativeCall { number: libc::SYS_mmap as u32, received_fd: 5, args };
        let close = NativeCall { number: libc::SYS_close as u32, received_fd: 1, args: [0; 6] };
        let mapped = self.calls(&[receive, map, close]);
        if mapped.is_err() && !self.gone.get() {
            // SAFETY: it is the simulator's turn.
            let received = unsafe { (*self.channel.get()).results[0] };
            let _ = self.call(libc::SYS_close, [received as u64, 0, 0, 0, 0, 0]);
        }
        mapped.map(|_| ())
    }

    /// Passes a descriptor over the socket; the process receives it by [`protocol::RECEIVE_FD`].
    fn send_fd(&self, fd: i32) -> Result<(), Errno> {
        let mut byte = 0u8;
        let mut part = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let mut control = [0u64; 3];
        // SAFETY: the message refers to live values; `control` has room for one descriptor with its
        // header and is aligned for it.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &mut part;
            message.msg_iovlen = 1;
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = size_of_val(&control);
            let header = libc::CMSG_FIRSTHDR(&message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd);
            libc::sendmsg(self.socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL)
        };
        if sent == 1 { Ok(()) } else { Err(Error::last_os_error().into()) }
    }

    /// Runs a guest thread until it exits; returns the kind of exit. The vector state stays in the channel:
    /// most processes have one thread, and state that is not inspected need not be copied.
    pub fn resume(&self, context: &mut Context, clocks: &mut Readings) -> Result<(u32, Trap), Gone> {
        self.wait()?;
        self.follow();
        // SAFETY: it is the simulator's turn, before and after the round.
        unsafe {
            let block = self.channel.get();
            copy_registers(context, &raw mut (*block).context);
            if self.holds.get() != context.number {
                debug_assert_eq!(self.holds.get(), 0, "the state of another context is still here");
                (*block).context.xsave.clone_from(&context.xsave);
                self.holds.set(context.number);
            }
            (*block).clocks = *clocks;
            self.round(protocol::RESUME)?;
            *clocks = (*block).clocks;
            copy_registers(&raw const (*block).context, context);
            Ok(((*block).came, (*block).trap))
        }
    }

    /// Calls answered within the process since the last call of this function.
    pub fn answers(&self) -> Answers {
        // SAFETY: the process accesses the channel only during a resume.
        unsafe { std::mem::take(&mut (*self.channel.get()).answered) }
    }

    /// Number of the context whose vector state is in the channel; 0 if none.
    pub fn held(&self) -> u64 {
        self.holds.get()
    }

    /// The vector state that the channel holds.
    pub fn held_state(&self) -> &Xsave {
        // SAFETY: the process writes to the channel only during a resume.
        unsafe { &(*self.channel.get()).context.xsave }
    }

    /// Marks the channel's vector state as belonging to no context.
    pub fn let_go(&self) {
        self.holds.set(0);
    }

    /// Moves the process to the worker's processor: only one of the two runs at a time, and a hand-over to
    /// another processor has to wake that processor first.
    fn follow(&self) {
        let cpu = affinity::processor();
        if cpu < 0 || cpu == self.cpu.get() {
            return;
        }
        affinity::put(self.pid, cpu);
        self.cpu.set(cpu);
    }
}

/// Copies a context without its vector state.
///
/// # Safety
/// Both pointers must be valid, and `from` initialised.
unsafe fn copy_registers(from: *const Context, to: *mut Context) {
    let len = std::mem::offset_of!(Context, xsave);
    // SAFETY: everything in front of the vector state is plain words.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), len) };
}

impl Drop for Shim {
    fn drop(&mut self) {
        spawner::bury(self.pid);
        LIVING.fetch_sub(1, Ordering::Relaxed);
    }
}
