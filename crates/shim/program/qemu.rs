//! Library loaded into QEMU (LD_PRELOAD) in the simulated host of a whole machine. It synchronises QEMU's
//! virtual clock, which counts instructions (`-icount`), with the host's simulated clock, and opens the
//! packet sockets that serve as the machine's cables.
//!
//! Computation takes a guest no simulated time, so QEMU's virtual clock runs ahead of the simulated one while
//! the machine computes, and with it when the machine is idle. [`pace`] sleeps until the simulated clock has
//! caught up. It is called
//!
//! * before a frame is sent, so that the frame leaves at the virtual time at which the machine's driver has
//!   started the controller;
//! * when the machine becomes idle, before QEMU computes the duration of the idle period, so that frames and
//!   timers are in time;
//! * every quantum of virtual time while the machine computes, by a timer of QEMU's own, so that the machine
//!   sees arrivals at most a quantum late.
//!
//! The library interposes three functions of the C library (`ppoll`, `send`, `getsockname`) and calls
//! functions that QEMU's binary exports.
#![no_std]

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicUsize, Ordering::Relaxed};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    fail(c"the machine's clock: a panic\n")
}

/// Referenced by the precompiled core library; nothing unwinds.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

#[repr(C)]
struct Timespec {
    seconds: i64,
    nanoseconds: i64,
}

// SAFETY: the signatures are those of the C library.
unsafe extern "C" {
    fn bind(socket: c_int, address: *const c_void, length: u32) -> c_int;
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn clock_nanosleep(clock: c_int, flags: c_int, until: *const Timespec, left: *mut Timespec) -> c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    fn getenv(name: *const c_char) -> *const c_char;
    fn if_nametoindex(name: *const c_char) -> u32;
    fn sched_yield() -> c_int;
    fn setsockopt(socket: c_int, level: c_int, option: c_int, value: *const c_void, length: u32) -> c_int;
    fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn unsetenv(name: *const c_char) -> c_int;
    fn write(descriptor: c_int, bytes: *const c_void, length: usize) -> isize;
    fn _exit(status: c_int) -> !;
}

const CLOCK_MONOTONIC: c_int = 1;
const TIMER_ABSTIME: c_int = 1;
/// QEMU_CLOCK_VIRTUAL.
const VIRTUAL: c_int = 1;
/// Handles for `dlsym`: the global scope, and the objects behind this library.
const RTLD_DEFAULT: *mut c_void = core::ptr::null_mut();
const RTLD_NEXT: *mut c_void = usize::MAX as *mut c_void;
const AF_UNIX: u16 = 1;
const AF_PACKET: u16 = 17;
const SOCK_RAW: c_int = 3;
const ETH_P_ALL: u16 = 3;
const SOL_PACKET: c_int = 263;
const SOL_SOCKET: c_int = 1;
const SO_RCVBUF: c_int = 8;
const PACKET_ADD_MEMBERSHIP: c_int = 1;
const PACKET_MR_PROMISC: u16 = 1;
const PACKET_IGNORE_OUTGOING: c_int = 23;
/// Number of the first descriptor that a newly started process opens.
const FIRST_SOCKET: c_int = 3;
/// Size of the receive buffer of each cable, in bytes.
const RECEIVE_BUFFER: c_int = 4 << 20;
/// Size reserved for a QEMUTimer, which has some 48 bytes.
const TIMER_SIZE: usize = 256;

/// A function resolved at start-up.
struct Function {
    name: &'static core::ffi::CStr,
    address: AtomicUsize,
}

impl Function {
    const fn new(name: &'static core::ffi::CStr) -> Function {
        Function { name, address: AtomicUsize::new(0) }
    }

    /// Resolves the function in the scope `place`; false if it does not exist.
    fn find(&self, place: *mut c_void) -> bool {
        // SAFETY: the name ends with a zero byte.
        let address = unsafe { dlsym(place, self.name.as_ptr()) } as usize;
        self.address.store(address, Relaxed);
        address != 0
    }

    fn get(&self) -> usize {
        self.address.load(Relaxed)
    }
}

type Ppoll = unsafe extern "C" fn(*mut c_void, u64, *const Timespec, *const c_void) -> c_int;
type Send = unsafe extern "C" fn(c_int, *const c_void, usize, c_int) -> isize;
type Getsockname = unsafe extern "C" fn(c_int, *mut u8, *mut u32) -> c_int;
type ClockGet = unsafe extern "C" fn(c_int) -> i64;
type Idle = unsafe extern "C" fn() -> bool;
type InitTimer = unsafe extern "C" fn(
    *mut c_void,
    *mut c_void,
    c_int,
    c_int,
    c_int,
    unsafe extern "C" fn(*mut c_void),
    *mut c_void,
);
type SetTimer = unsafe extern "C" fn(*mut c_void, i64);
type Unlock = unsafe extern "C" fn();
type Lock = unsafe extern "C" fn(*const c_char, c_int);
type Locked = unsafe extern "C" fn() -> bool;

static PPOLL: Function = Function::new(c"ppoll");
static SEND: Function = Function::new(c"send");
static GETSOCKNAME: Function = Function::new(c"getsockname");
static CLOCK_GET: Function = Function::new(c"qemu_clock_get_ns");
static IDLE: Function = Function::new(c"all_cpu_threads_idle");
static INIT_TIMER: Function = Function::new(c"timer_init_full");
static SET_TIMER: Function = Function::new(c"timer_mod_ns");
/// The big lock, by its names in QEMU 7 and QEMU 9.
static LOCK: [Function; 2] =
    [Function::new(c"qemu_mutex_lock_iothread_impl"), Function::new(c"bql_lock_impl")];
static UNLOCK: [Function; 2] = [Function::new(c"qemu_mutex_unlock_iothread"), Function::new(c"bql_unlock")];
static LOCKED: [Function; 2] = [Function::new(c"qemu_mutex_iothread_locked"), Function::new(c"bql_locked")];

/// Index of the big lock's names in [`LOCK`].
static NAMES: AtomicUsize = AtomicUsize::new(0);
/// True in a QEMU whose clock is synchronised.
static TIED: AtomicBool = AtomicBool::new(false);
/// Number of packet sockets: descriptors from [`FIRST_SOCKET`] on.
static SOCKETS: AtomicI32 = AtomicI32::new(0);
/// Nanoseconds of virtual time between two synchronisations.
static QUANTUM: AtomicI64 = AtomicI64::new(0);
/// Simulated time at which the virtual clock was 0, in nanoseconds; 0 until it is known.
static ORIGIN: AtomicI64 = AtomicI64::new(0);
/// True while the quantum's timer is armed.
static ARMED: AtomicBool = AtomicBool::new(false);

#[repr(C, align(16))]
struct Timer(core::cell::UnsafeCell<[u8; TIMER_SIZE]>);
// SAFETY: only QEMU's timer functions access it, and they lock.
unsafe impl Sync for Timer {}
static TIMER: Timer = Timer(core::cell::UnsafeCell::new([0; TIMER_SIZE]));

#[used]
#[unsafe(link_section = ".init_array")]
static INIT: extern "C" fn() = start;

/// Writes a message to standard error and ends the process.
fn fail(message: &core::ffi::CStr) -> ! {
    // SAFETY: the bytes are the message's.
    unsafe {
        write(2, message.as_ptr().cast(), message.to_bytes().len());
        _exit(70)
    }
}

/// Resolves functions and opens the cables before QEMU's `main`.
extern "C" fn start() {
    let found = [&PPOLL, &SEND, &GETSOCKNAME].iter().all(|function| function.find(RTLD_NEXT));
    if !found {
        fail(c"the machine's clock: this C library lacks a function\n");
    }
    let own = [&CLOCK_GET, &IDLE, &INIT_TIMER, &SET_TIMER].iter().all(|function| function.find(RTLD_DEFAULT));
    let names = (0..LOCK.len())
        .find(|&at| [&LOCK[at], &UNLOCK[at], &LOCKED[at]].iter().all(|f| f.find(RTLD_DEFAULT)));
    let (true, Some(names)) = (own, names) else {
        fail(c"the machine's clock: this QEMU does not export its functions for timers and the clock: use one with modules or plugins, such as Debian's\n");
    };
    NAMES.store(names, Relaxed);
    // SAFETY: the names end with a zero byte; so do the values.
    let (quantum, interfaces) =
        unsafe { (getenv(c"BELLJAR_QUANTUM".as_ptr()), getenv(c"BELLJAR_INTERFACES".as_ptr())) };
    // SAFETY: environment variables are strings.
    QUANTUM.store(unsafe { number(quantum) }.max(1), Relaxed);
    // SAFETY: likewise.
    unsafe { open_all(interfaces) };
    // SAFETY: no other thread runs yet.
    unsafe { unsetenv(c"LD_PRELOAD".as_ptr()) };
    TIED.store(true, Relaxed);
}

/// The value of a string of decimal digits; 0 for null.
///
/// # Safety
/// `text` is null, or a string that ends with a zero byte.
unsafe fn number(mut text: *const c_char) -> i64 {
    let mut value = 0_i64;
    while !text.is_null() {
        // SAFETY: not beyond the zero byte, which ends the loop.
        let digit = unsafe { *text } as u8;
        if !digit.is_ascii_digit() {
            break;
        }
        value = value.saturating_mul(10).saturating_add(i64::from(digit - b'0'));
        // SAFETY: likewise.
        text = unsafe { text.add(1) };
    }
    value
}

/// Opens a packet socket on each of the interfaces in a list separated by commas.
///
/// # Safety
/// `names` is null, or a string that ends with a zero byte.
unsafe fn open_all(mut names: *const c_char) {
    let mut name = [0_u8; 16];
    let mut length = 0;
    while !names.is_null() {
        // SAFETY: not beyond the zero byte, which ends the loop.
        let byte = unsafe { *names } as u8;
        if byte == b',' || byte == 0 {
            name[length..].fill(0);
            if length > 0 {
                open(&name);
            }
            length = 0;
            if byte == 0 {
                return;
            }
        } else if length < name.len() - 1 {
            name[length] = byte;
            length += 1;
        }
        // SAFETY: likewise.
        names = unsafe { names.add(1) };
    }
}

/// Opens a packet socket on an interface, in promiscuous mode.
fn open(name: &[u8; 16]) {
    #[repr(C)]
    struct Address {
        family: u16,
        protocol: u16,
        interface: i32,
        rest: [u8; 12],
    }
    #[repr(C)]
    struct Membership {
        interface: i32,
        kind: u16,
        length: u16,
        address: [u8; 8],
    }
    let protocol = ETH_P_ALL.to_be();
    // SAFETY: the lengths are those of the structures.
    let opened = unsafe {
        let interface = if_nametoindex(name.as_ptr().cast()) as i32;
        // No protocol before `bind`: the socket must not queue frames of other interfaces.
        let socket = socket(i32::from(AF_PACKET), SOCK_RAW, 0);
        let size = RECEIVE_BUFFER;
        setsockopt(socket, SOL_SOCKET, SO_RCVBUF, (&raw const size).cast(), 4);
        let own: c_int = 1;
        setsockopt(socket, SOL_PACKET, PACKET_IGNORE_OUTGOING, (&raw const own).cast(), 4);
        let membership = Membership { interface, kind: PACKET_MR_PROMISC, length: 0, address: [0; 8] };
        setsockopt(socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, (&raw const membership).cast(), 16);
        let address = Address { family: AF_PACKET, protocol, interface, rest: [0; 12] };
        socket == FIRST_SOCKET + SOCKETS.load(Relaxed) && bind(socket, (&raw const address).cast(), 20) == 0
    };
    if !opened {
        fail(c"the machine's clock: an interface cannot be opened\n");
    }
    SOCKETS.fetch_add(1, Relaxed);
}

fn is_cable(descriptor: c_int) -> bool {
    (FIRST_SOCKET..FIRST_SOCKET + SOCKETS.load(Relaxed)).contains(&descriptor)
}

/// QEMU's virtual clock.
fn virtual_now() -> i64 {
    // SAFETY: the address is that of QEMU's function, and so is the signature.
    unsafe { core::mem::transmute::<usize, ClockGet>(CLOCK_GET.get())(VIRTUAL) }
}

/// True if all processors of the machine are idle.
fn idle() -> bool {
    // SAFETY: likewise.
    unsafe { core::mem::transmute::<usize, Idle>(IDLE.get())() }
}

/// The simulated clock in nanoseconds.
fn simulated_now() -> i64 {
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the structure is writable.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &raw mut now) };
    now.seconds * 1_000_000_000 + now.nanoseconds
}

/// Sleeps until the simulated clock reaches the virtual one. Returns false if it has already: QEMU's own
/// calls have taken simulated time, and the machine catches up by its next computation.
fn pace() -> bool {
    let due = ORIGIN.load(Relaxed) + virtual_now();
    let early = simulated_now() < due;
    if early {
        let until = Timespec { seconds: due / 1_000_000_000, nanoseconds: due % 1_000_000_000 };
        // SAFETY: the structure is valid. A signal may end the sleep early; the next call sleeps for the
        // rest.
        unsafe { clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &raw const until, core::ptr::null_mut()) };
    }
    early
}

/// Arms the quantum's timer.
fn arm() {
    ARMED.store(true, Relaxed);
    // SAFETY: the timer has been initialised, and the signature is QEMU's.
    unsafe {
        let set = core::mem::transmute::<usize, SetTimer>(SET_TIMER.get());
        set(TIMER.0.get().cast(), virtual_now() + QUANTUM.load(Relaxed));
    }
}

/// Callback at the end of a quantum. It releases the big lock, so that other threads of QEMU run while this
/// one sleeps.
unsafe extern "C" fn quantum_ends(_: *mut c_void) {
    let at = NAMES.load(Relaxed);
    ARMED.store(false, Relaxed);
    // SAFETY: the signatures are QEMU's; only the holder releases the lock.
    let held = unsafe { core::mem::transmute::<usize, Locked>(LOCKED[at].get())() };
    if held {
        // SAFETY: likewise.
        unsafe { core::mem::transmute::<usize, Unlock>(UNLOCK[at].get())() };
    }
    if !pace() {
        // SAFETY: no arguments.
        unsafe { sched_yield() };
    }
    if held {
        // SAFETY: likewise; file and line are for traces.
        unsafe { core::mem::transmute::<usize, Lock>(LOCK[at].get())(c"belljar".as_ptr(), 0) };
    }
    if !idle() {
        arm();
    }
}

/// Interposes the call in which QEMU's main thread waits.
#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(
    entries: *mut c_void,
    count: u64,
    timeout: *const Timespec,
    mask: *const c_void,
) -> c_int {
    let tied = TIED.load(Relaxed);
    if tied {
        if ORIGIN.load(Relaxed) == 0 {
            ORIGIN.store(simulated_now() - virtual_now(), Relaxed);
            // SAFETY: the timer has room for QEMU's structure, and the signature is QEMU's. QEMU's clocks
            // have been set up before its main loop waits.
            unsafe {
                let init = core::mem::transmute::<usize, InitTimer>(INIT_TIMER.get());
                init(
                    TIMER.0.get().cast(),
                    core::ptr::null_mut(),
                    VIRTUAL,
                    1,
                    0,
                    quantum_ends,
                    core::ptr::null_mut(),
                );
            }
        }
        if !ARMED.load(Relaxed) && !idle() {
            arm();
        }
    }
    // SAFETY: the arguments are the caller's.
    let ready = unsafe { core::mem::transmute::<usize, Ppoll>(PPOLL.get())(entries, count, timeout, mask) };
    if tied && idle() {
        pace();
    }
    ready
}

/// Sends a frame at the virtual time at which the machine sends it.
#[unsafe(no_mangle)]
unsafe extern "C" fn send(socket: c_int, bytes: *const c_void, length: usize, flags: c_int) -> isize {
    if is_cable(socket) {
        pace();
    }
    // SAFETY: the arguments are the caller's.
    unsafe { core::mem::transmute::<usize, Send>(SEND.get())(socket, bytes, length, flags) }
}

/// The address of a socket. Packet sockets appear as abstract UNIX sockets, because QEMU's datagram netdev
/// accepts no packet sockets.
#[unsafe(no_mangle)]
unsafe extern "C" fn getsockname(socket: c_int, address: *mut u8, length: *mut u32) -> c_int {
    if is_cable(socket) {
        // SAFETY: the caller has room for an address.
        unsafe {
            address.cast::<u16>().write_unaligned(AF_UNIX);
            address.add(2).write(0);
            length.write(3);
        }
        return 0;
    }
    // SAFETY: the arguments are the caller's.
    unsafe { core::mem::transmute::<usize, Getsockname>(GETSOCKNAME.get())(socket, address, length) }
}
