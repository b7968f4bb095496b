//! Timer thread: expires the timers of a process in a host whose clock stops or changes its rate.
//!
//! The kernel's timers follow the machine's clock, which continues while a host is frozen, and no process can hold back a signal
//! that a timer has sent early. So the kernel's timers are left disarmed. A thread of the process waits for the next expiry in
//! [`timer_table`](super::timer_table) as every wait of the shim does: for the real time left at the current rate, and again
//! if the clock has not reached the expiry then. At the expiry it arms the kernel's timer for the same moment. The signal thus comes
//! from the kernel, with all that Linux defines: its fields, its target, ignored and blocked signals, `signalfd`, restarted calls.
//! The thread is frozen with its host and interrupts no call.
//!
//! *Overruns.* The kernel counts the expiries of a periodic timer from that of the pending signal until its delivery. If the
//! signal of a timer is still pending at the next expiry, the kernel's timer is set to have expired first at a time in the past, with
//! an interval so long that exactly the missed expiries fit. It would expire again after such an interval; the thread reviews the
//! timer before that. Kernels before 6.13 also count each time that the timer expires while its signal is pending, and
//! `timer_getoverrun` lacks these.
//!
//! *Descriptors.* A `timerfd` is armed far in the future, and the number of expiries is written to it (`TFD_IOC_SET_TICKS`).
//!
//! *Visibility.* The thread blocks all signals, belongs to no C library, and is removed from listings of `/proc/self/task`. It still
//! counts in `/proc/self/status`, and in calls that require a process with a single thread.
//!
//! *Limits.* A signal of the same number that another source has sent counts as pending.

use super::calls::{When, nr};
use super::clock::{Now, id, machine, monotonic};
use super::filter::{FEW, install_once};
use super::layout::{self, PAGE, TIMER_STACK, TIMER_STACK_LEN};
use super::memory::{native, read, write};
use super::timer_descriptors;
use super::timer_table::{Kind, Locked, Timer};
use super::timers::Setting;
use super::waits::timespec;

/// Calls intercepted once a process has a timer thread.
pub const OF_LISTINGS: &[(u64, When)] = &[(nr::GETDENTS64, When::Always)];
/// Flag of an absolute time.
const ABSOLUTE: u64 = 1;
/// Shortest wait in real nanoseconds: while the clock stands still, the time left does not become shorter.
const SHORTEST: u64 = 10_000;

core::arch::global_asm!(
    ".text",
    // belljar_dilate_clone(flags: rdi, stack: rsi) -> rax: starts a thread that runs `run`.
    ".globl belljar_dilate_clone",
    ".hidden belljar_dilate_clone",
    "belljar_dilate_clone:",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jz 2f",
    "ret",
    "2:",
    "xor ebp, ebp",
    "call {run}",
    "ud2",
    run = sym run,
);

unsafe extern "C" {
    fn belljar_dilate_clone(flags: u64, stack: u64) -> i64;
}

/// Starts the thread if the process has none; false if this fails.
pub fn start(table: &mut Locked) -> bool {
    const CLONE_VM: u64 = 0x100;
    const CLONE_FILES: u64 = 0x400;
    const CLONE_SIGHAND: u64 = 0x800;
    const CLONE_THREAD: u64 = 0x1_0000;
    const CLONE_UNTRACED: u64 = 0x80_0000;
    const EXISTS: i64 = -17;
    if table.thread != 0 {
        return true;
    }
    // A forked child has its parent's mapping.
    let mapped = native(nr::MMAP, [TIMER_STACK, TIMER_STACK_LEN, 3, 0x10_4022, u64::MAX, 0]);
    if mapped < 0 && mapped != EXISTS {
        return false;
    }
    // The thread has a working directory and a root of its own, so that the process may enter a mount namespace.
    let flags = CLONE_VM | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_UNTRACED;
    // SAFETY: the stack is the new thread's alone. The thread inherits this one's mask: all signals are blocked.
    let thread = unsafe { belljar_dilate_clone(flags, TIMER_STACK + TIMER_STACK_LEN) };
    table.thread = u32::try_from(thread).unwrap_or(0);
    if table.thread == 0 {
        return false;
    }
    install_once::<FEW>(layout::LISTED, OF_LISTINGS);
    true
}

/// Body of the thread.
extern "C" fn run() -> ! {
    const PR_SET_TIMERSLACK: u64 = 29;
    native(nr::PRCTL, [PR_SET_TIMERSLACK, 1, 0, 0, 0, 0]);
    native(nr::CHDIR, [c"/".as_ptr() as u64, 0, 0, 0, 0, 0]);
    loop {
        let mut table = Locked::take();
        let left = expire_all(&mut table);
        table.wait(left.map(timespec));
    }
}

/// Expires all timers that are due. Returns the real time until the next one.
fn expire_all(table: &mut Locked) -> Option<u64> {
    let now = Now::read();
    let mut next = None;
    let mut sooner = |left: u64| next = Some(next.map_or(left, |next: u64| next.min(left)).max(SHORTEST));
    for timer in table.timers().iter_mut().filter(|timer| timer.kind != Kind::None) {
        match timer.expire(now.time) {
            0 if timer.review != 0 && now.real >= timer.review => review(timer),
            0 => {}
            count => expired(timer, count),
        }
        if timer.expiry != 0 {
            let left = now.page.pace.real_span(timer.expiry.saturating_sub(now.time));
            sooner(if now.page.nap != 0 { left.min(now.page.nap) } else { left });
        }
        if timer.review != 0 {
            sooner(timer.review.saturating_sub(now.real));
        }
    }
    next
}

/// Makes the kernel notify the program of `count` expiries.
fn expired(timer: &mut Timer, count: u64) {
    match timer.kind {
        Kind::Alarm => {
            // In a microsecond: 0 would disarm it.
            let now: Setting = [0, 0, 0, 1];
            native(nr::SETITIMER, [0, now.as_ptr() as u64, 0, 0, 0, 0]);
        }
        Kind::Posix => {
            let is_pending = timer.interval != 0 && timer.has_expired != 0 && is_pending(timer);
            (timer.count, timer.requeued) = match is_pending {
                true => (timer.count.saturating_add(count), timer.requeued + 1),
                false => (count - 1, 0),
            };
            timer.has_expired = 1;
            send(timer);
        }
        Kind::Descriptor => timer_descriptors::expired(timer, count),
        Kind::None => {}
    }
}

/// Arms the kernel's POSIX timer so that it has just expired with the timer's number of overruns.
fn send(timer: &mut Timer) {
    let clock = match u64::from(timer.clock) {
        id::REALTIME_ALARM => id::REALTIME,
        id::BOOTTIME_ALARM => id::BOOTTIME,
        clock => clock,
    };
    let mut setting: Setting = [0, 0, 0, 1];
    timer.review = 0;
    let counted = if timer.requeued > 0 && counts_requeued() { timer.requeued } else { 0 };
    let missed = timer.count.saturating_sub(counted);
    if missed > 0 {
        let now = machine(clock);
        let interval = (now / missed.saturating_add(1)).max(1);
        let first = now.saturating_sub(interval.saturating_mul(missed)).max(1);
        timer.review = monotonic().saturating_add(interval / 2);
        let [interval, first] = [interval, first].map(timespec);
        setting = [interval[0], interval[1], first[0], first[1]];
    }
    native(nr::TIMER_SETTIME, [u64::from(timer.id), ABSOLUTE, setting.as_ptr() as u64, 0, 0, 0]);
}

/// True if the kernel counts an expiry of a timer whose signal is pending as an overrun.
fn counts_requeued() -> bool {
    /// Offset and length of `release` in `struct utsname`.
    const RELEASE: core::ops::Range<usize> = 130..195;
    let mut names = [0u8; 390];
    native(nr::UNAME, [names.as_mut_ptr() as u64, 0, 0, 0, 0, 0]);
    version(&names[RELEASE]) < [6, 13]
}

/// The first two numbers of a kernel's release.
fn version(release: &[u8]) -> [u32; 2] {
    let mut words = release.split(|byte| !byte.is_ascii_digit());
    let mut number = || {
        let digits = words.next().unwrap_or(&[]);
        digits.iter().fold(0u32, |sum, digit| sum.wrapping_mul(10) + u32::from(digit - b'0'))
    };
    [number(), number()]
}

/// Sets a kernel's timer with overruns again before it expires by itself, or disarms it if its signal has been delivered.
fn review(timer: &mut Timer) {
    if is_pending(timer) {
        timer.requeued += 1;
        return send(timer);
    }
    (timer.review, timer.count) = (0, 0);
    let off: Setting = [0; 4];
    native(nr::TIMER_SETTIME, [u64::from(timer.id), 0, off.as_ptr() as u64, 0, 0, 0]);
}

/// True if the signal of a POSIX timer is pending.
fn is_pending(timer: &Timer) -> bool {
    let mut pending = 0u64;
    match timer.thread {
        // This thread blocks all signals, so that the call reports all that the process has not received.
        0 => _ = native(nr::RT_SIGPENDING, [&raw mut pending as u64, 8, 0, 0, 0, 0]),
        thread => pending = pending_of(thread).unwrap_or(0),
    }
    timer.signal != 0 && pending >> (timer.signal - 1) & 1 != 0
}

/// The signals that are pending for one thread.
fn pending_of(thread: u32) -> Option<u64> {
    const KEY: &[u8] = b"SigPnd:\t";
    let mut path = super::exec::Text::<48>::new("/proc/self/task/");
    path.number(u64::from(thread));
    path.add(b"/status");
    let file = native(nr::OPEN, [path.at(), 0o2_000_000, 0, 0, 0, 0]);
    let file = u64::try_from(file).ok()?;
    let mut text = [0u8; 2_048];
    let len = native(nr::PREAD64, [file, text.as_mut_ptr() as u64, text.len() as u64, 0, 0, 0]);
    native(nr::CLOSE, [file, 0, 0, 0, 0, 0]);
    let text = text.get(..usize::try_from(len).ok()?)?;
    let at = text.windows(KEY.len()).position(|part| part == KEY)? + KEY.len();
    let digits = text[at..].iter().map_while(|digit| char::from(*digit).to_digit(16));
    Some(digits.fold(0, |sum, digit| sum << 4 | u64::from(digit)))
}

/// `getdents64`: removes the thread from the listing of `/proc/PID/task`.
pub fn list(args: [u64; 6]) -> i64 {
    /// Offsets of the record's length and its name in `struct linux_dirent64`.
    const LENGTH_AT: u64 = 16;
    const NAME_AT: u64 = 19;
    let [directory, at, ..] = args;
    let len = native(nr::GETDENTS64, args);
    let table = Locked::take();
    let thread = if len > 0 && table.is_own() { table.thread } else { 0 };
    drop(table);
    if thread == 0 || !is_list_of_threads(directory) {
        return len;
    }
    let mut name = super::exec::Text::<12>::new("");
    name.number(u64::from(thread));
    let is_named = |record: u64| {
        let mut rest = name.bytes().iter().chain(&[0]).enumerate();
        rest.all(|(n, byte)| read::<u8>(record + NAME_AT + n as u64) == Ok(*byte))
    };
    let end = at + len as u64;
    let mut record = at;
    while record < end {
        let size = read(record + LENGTH_AT).map_or(0, u16::from_le_bytes);
        if size == 0 {
            return len;
        }
        let next = record + u64::from(size);
        if is_named(record) {
            for byte in next..end {
                let _ = read::<u8>(byte).and_then(|value| write(byte - u64::from(size), value));
            }
            let left = len - i64::from(size);
            // An empty answer would end the listing.
            return if left > 0 { left } else { list(args) };
        }
        record = next;
    }
    len
}

/// True if a descriptor is the directory of a process's threads.
fn is_list_of_threads(descriptor: u64) -> bool {
    let link = super::exec::link_to(descriptor & 0xffff_ffff);
    let mut path = [0u8; 64];
    let len = native(nr::READLINK, [link.at(), path.as_mut_ptr() as u64, path.len() as u64, 0, 0, 0]);
    let path = &path[..usize::try_from(len).unwrap_or(0)];
    path.starts_with(b"/proc/") && path.ends_with(b"/task")
}

const _: () = assert!(TIMER_STACK_LEN.is_multiple_of(PAGE));

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_release_has_a_version() {
        assert_eq!(version(b"6.18.44-fc-v657\0\0"), [6, 18]);
        assert_eq!(version(b"6.1.0-28-amd64\0"), [6, 1]);
        assert_eq!(version(b"7.0-rc1"), [7, 0]);
        assert!(version(b"5.15.0\0") < [6, 13] && version(b"6.13.0\0") >= [6, 13]);
    }
}
