//! `libvoidstar.so`: the library that Antithesis' SDKs load where it exists, and that programs instrumented for coverage
//! report to. Hosts with a property `assertions` have it at `/usr/lib/libvoidstar.so`.
//!
//! * [`fuzz_json_data`] appends a line to the file of assertions: that of the variable `ANTITHESIS_SDK_LOCAL_OUTPUT`, to which the
//!   SDKs write without the library, or else that of the [`SETTINGS`]. A line is a write of its own to a file that is
//!   opened for it, so that neither a kill nor a program that closes its descriptors loses one.
//! * [`fuzz_get_random`] asks the kernel for a choice of the host's stream `sdk`, by a flag of `getrandom(2)` that Linux does not have.
//! * [`init_coverage_module`] and [`notify_coverage`] count how often each edge is reached, in a file that is mapped shared, so that an
//!   edge costs no system call and the counts of killed processes stay. Edges of a module are numbered from 1.
//!   The layout of the file is that which `belljar_sim` reads: see [`HEADER`].
//! * [`notify_coverage_v2`] does so for SDKs that count hits themselves under a lease. No lease is longer than a call here: each hit is
//!   counted when it happens, so that the hits of a process that is killed are counted.
//! * The callbacks of `-fsanitize-coverage=trace-pc-guard` do the same for the edges of an executable or library, which is a module
//!   by the name of its file.
//!
//! The library calls the kernel itself and is linked to no other, so that it loads beside any C library. It keeps what it needs of
//! each host in [`SETTINGS`], which the simulator fills in.
#![no_std]

use core::arch::{asm, global_asm};
use core::ffi::{c_char, c_void};
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    complain(b"libvoidstar.so: a panic\n");
    loop {
        call(EXIT_GROUP, [134, 0, 0, 0, 0, 0]);
    }
}

/// Longest path, with its end.
const PATH: usize = 4_096;

/// Paths that differ between hosts, each ended by a zero byte. The simulator finds them by the mark.
#[repr(C)]
struct Settings {
    mark: [u8; 16],
    /// File of assertions.
    output: [u8; PATH],
    /// Folder for the counts of edges.
    counts: [u8; PATH],
}

#[used]
static SETTINGS: Settings = Settings { mark: *b"belljar-settings", output: [0; PATH], counts: [0; PATH] };

const READ: usize = 0;
const OPEN: usize = 2;
const CLOSE: usize = 3;
const MMAP: usize = 9;
const MUNMAP: usize = 11;
const WRITEV: usize = 20;
const FTRUNCATE: usize = 77;
const FCHMOD: usize = 91;
const EXIT_GROUP: usize = 231;
const GETRANDOM: usize = 318;

const O_WRONLY: usize = 0o1;
const O_RDWR: usize = 0o2;
const O_CREAT: usize = 0o100;
const O_APPEND: usize = 0o2000;
const O_CLOEXEC: usize = 0o2000000;
const PROT_READ_WRITE: usize = 3;
const MAP_SHARED: usize = 1;
const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
const EINTR: isize = -4;

/// Flag of `getrandom(2)` that asks for a choice: `CHOICE` of `belljar_objects::sdk`.
const GRND_CHOICE: usize = 0x8000_0000;

/// System call; negative results are error numbers. One that a signal interrupted is repeated.
fn call(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    loop {
        let result: isize;
        // SAFETY: callers pass memory that they own, or that their callers have vouched for.
        unsafe {
            asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
                in("r8") e, in("r9") f, lateout("rcx") _, lateout("r11") _, options(nostack));
        }
        if result != EINTR {
            return result;
        }
    }
}

// The C library's getenv(3), if the program has one; and what the compiler and the precompiled core library refer to, which no program
// is to find here. Nothing unwinds.
global_asm!(
    ".text",
    ".globl rust_eh_personality, memset, memcpy",
    ".hidden rust_eh_personality, memset, memcpy",
    "memset:",
    "mov r8, rdi",
    "mov eax, esi",
    "mov rcx, rdx",
    "rep stosb",
    "mov rax, r8",
    "rust_eh_personality:",
    "ret",
    "memcpy:",
    "mov rax, rdi",
    "mov rcx, rdx",
    "rep movsb",
    "ret",
    ".weak getenv",
    "libvoidstar_getenv:",
    "mov rax, qword ptr [rip + getenv@GOTPCREL]",
    "test rax, rax",
    "jz 2f",
    "jmp rax",
    "2:",
    "ret",
);

// SAFETY: the signature is that of getenv(3).
unsafe extern "C" {
    fn libvoidstar_getenv(name: *const c_char) -> *const c_char;
}

/// Length of a text that a zero byte ends, at most `most`.
fn length(text: *const u8, most: usize) -> usize {
    // SAFETY: the caller's text has an end, and nothing behind it is read. Volatile, since the simulator changes the settings.
    (0..most).find(|at| unsafe { text.add(*at).read_volatile() } == 0).unwrap_or(most)
}

/// Part of what `writev(2)` writes.
#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    start: *const u8,
    length: usize,
}

/// Parts of a write: more make a line several writes.
const PARTS: usize = 64;

/// Writes parts, all of them. Returns the error number of a failure, or 0.
fn write(descriptor: usize, mut parts: &mut [Part]) -> isize {
    while let Some(first) = parts.first_mut() {
        if first.length == 0 {
            parts = &mut parts[1..];
            continue;
        }
        let written = call(WRITEV, [descriptor, parts.as_ptr() as usize, parts.len(), 0, 0, 0]);
        if written <= 0 {
            return written;
        }
        let mut written = written as usize;
        for part in parts.iter_mut() {
            let of_part = written.min(part.length);
            // SAFETY: the sum is within the part, or one past its end.
            part.start = unsafe { part.start.add(of_part) };
            part.length -= of_part;
            written -= of_part;
        }
    }
    0
}

fn part(bytes: &[u8]) -> Part {
    Part { start: bytes.as_ptr(), length: bytes.len() }
}

fn complain(message: &[u8]) {
    write(2, &mut [part(message)]);
}

/// Complains once in a process that the file at `path` cannot be used.
fn complain_of(what: &[u8], path: *const u8, error: isize) {
    static HAS_COMPLAINED: AtomicBool = AtomicBool::new(false);
    if HAS_COMPLAINED.swap(true, Relaxed) {
        return;
    }
    let number = -error;
    let digits = [b'0' + (number / 100 % 10) as u8, b'0' + (number / 10 % 10) as u8, b'0' + (number % 10) as u8];
    let path = Part { start: path, length: length(path, PATH) };
    write(2, &mut [part(b"libvoidstar.so: "), part(what), path, part(b": error "), part(&digits), part(b"\n")]);
}

/// Appends a message in JSON to the file of assertions as one line.
///
/// # Safety
/// `data` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fuzz_json_data(data: *const u8, size: usize) {
    if data.is_null() || size == 0 {
        return;
    }
    // SAFETY: the caller vouches for it.
    let mut text = unsafe { core::slice::from_raw_parts(data, size) };
    while let [rest @ .., b'\n'] = text {
        text = rest;
    }
    // SAFETY: the name has an end.
    let given = unsafe { libvoidstar_getenv(c"ANTITHESIS_SDK_LOCAL_OUTPUT".as_ptr()) }.cast::<u8>();
    let is_given = !given.is_null() && length(given, 1) > 0;
    let path = if is_given { given } else { (&raw const SETTINGS.output).cast() };
    if length(path, 1) == 0 || text.is_empty() {
        return;
    }
    let descriptor = call(OPEN, [path as usize, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o666, 0, 0, 0]);
    let error = match descriptor {
        0.. => {
            let error = append(descriptor as usize, text);
            call(CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]);
            error
        }
        error => error,
    };
    if error < 0 {
        complain_of(b"assertions cannot be written to ", path, error);
    }
}

/// Appends a line. Line breaks in it, which are white space in JSON, become blanks.
fn append(descriptor: usize, text: &[u8]) -> isize {
    let mut parts = [part(b""); PARTS];
    let mut count = 0;
    for piece in text.split(|byte| *byte == b'\n') {
        if count > PARTS - 3 {
            let error = write(descriptor, &mut parts[..count]);
            if error < 0 {
                return error;
            }
            count = 0;
        }
        parts[count] = part(piece);
        parts[count + 1] = part(b" ");
        count += 2;
    }
    parts[count - 1] = part(b"\n");
    write(descriptor, &mut parts[..count])
}

/// Does nothing: each message is in the file as soon as it is reported.
#[unsafe(no_mangle)]
pub extern "C" fn fuzz_flush() {}

/// The next choice of the host's stream `sdk`.
#[unsafe(no_mangle)]
pub extern "C" fn fuzz_get_random() -> u64 {
    let mut value = 0u64;
    let at = &raw mut value as usize;
    if call(GETRANDOM, [at, 8, GRND_CHOICE, 0, 0, 0]) != 8 {
        call(GETRANDOM, [at, 8, 0, 0, 0, 0]);
    }
    // SAFETY: the kernel has written it.
    unsafe { (&raw const value).read_volatile() }
}

/// Bytes before the counts in a file of them: the number of edges in 8 bytes, and the name of the module, which a zero byte ends.
/// The counts follow, 8 bytes each, from edge 0, which most tools do not have, to the last one.
const HEADER: usize = 4_096;
/// Largest number of modules of a process.
const MODULES: usize = 256;
/// Largest number of edges of a module.
const EDGES: usize = 1 << 28;

/// Module of instrumented code, with the numbers of its edges in the process.
struct Module {
    first: AtomicUsize,
    last: AtomicUsize,
    /// Counts of the edges; null before they are mapped.
    counts: AtomicPtr<AtomicU64>,
}

static COUNT: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);
static TABLE: [Module; MODULES] = [const {
    Module { first: AtomicUsize::new(0), last: AtomicUsize::new(0), counts: AtomicPtr::new(ptr::null_mut()) }
}; MODULES];

/// Registers a module of code with edges 1 to `edge_count`. Returns the number that is added to an edge for [`notify_coverage`].
///
/// # Safety
/// `symbol_file_name` is null or has an end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn init_coverage_module(edge_count: usize, symbol_file_name: *const c_char) -> usize {
    let name = symbol_file_name.cast::<u8>();
    let size = if name.is_null() { 0 } else { length(name, HEADER - 9) };
    // SAFETY: it has as many bytes.
    register(edge_count, if size == 0 { b"" } else { unsafe { core::slice::from_raw_parts(name, size) } })
}

fn register(edges: usize, name: &[u8]) -> usize {
    if edges == 0 || edges > EDGES {
        return NEXT.load(Relaxed);
    }
    let first = NEXT.fetch_add(edges + 1, Relaxed);
    let number = COUNT.fetch_add(1, Relaxed);
    let Some(module) = TABLE.get(number) else {
        if number == MODULES {
            complain(b"libvoidstar.so: edges of more than 256 modules of a process are not counted\n");
        }
        return first;
    };
    let counts = map_counts(edges, name);
    module.first.store(first, Relaxed);
    module.last.store(first + edges, Relaxed);
    module.counts.store(counts, Release);
    first
}

/// Maps the file of a module's counts, which is created if there is none; null if that fails.
fn map_counts(edges: usize, name: &[u8]) -> *mut AtomicU64 {
    let folder: *const u8 = (&raw const SETTINGS.counts).cast();
    let size = length(folder, PATH);
    if size == 0 {
        return ptr::null_mut();
    }
    let mut path = [0u8; PATH + 24];
    for (at, byte) in path[..size].iter_mut().enumerate() {
        // SAFETY: the folder's name has `size` bytes.
        *byte = unsafe { folder.add(at).read_volatile() };
    }
    path[size] = b'/';
    // FNV-1a of the name and the number of edges: the file of the module in all processes of the host.
    let bytes = name.iter().copied().chain(edges.to_le_bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    for (at, digit) in path[size + 1..size + 17].iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(hash >> (60 - 4 * at) & 15) as usize];
    }
    let length = HEADER + 8 * (edges + 1);
    let descriptor = call(OPEN, [path.as_ptr() as usize, O_RDWR | O_CREAT | O_CLOEXEC, 0o666, 0, 0, 0]);
    if descriptor < 0 {
        complain_of(b"edges cannot be counted in ", path.as_ptr(), descriptor);
        return ptr::null_mut();
    }
    let descriptor = descriptor as usize;
    // Processes of other users count in it as well. That of another user has done this already.
    call(FCHMOD, [descriptor, 0o666, 0, 0, 0, 0]);
    let mut error = call(FTRUNCATE, [descriptor, length, 0, 0, 0, 0]);
    if error >= 0 {
        error = call(MMAP, [0, length, PROT_READ_WRITE, MAP_SHARED, descriptor, 0]);
    }
    call(CLOSE, [descriptor, 0, 0, 0, 0, 0]);
    if error < 0 {
        complain_of(b"edges cannot be counted in ", path.as_ptr(), error);
        return ptr::null_mut();
    }
    let start = error as usize as *mut u8;
    // SAFETY: the mapping has the header and the counts, each aligned; other processes write the same header.
    unsafe {
        start.cast::<u64>().write_volatile(edges as u64);
        for (at, byte) in name.iter().take(HEADER - 9).enumerate() {
            start.add(8 + at).write_volatile(*byte);
        }
        start.add(HEADER).cast()
    }
}

/// Counts that an edge is reached, by its number in the process. True: the next time is counted as well.
#[unsafe(no_mangle)]
pub extern "C" fn notify_coverage(edge_plus_module: usize) -> bool {
    count(edge_plus_module, 1)
}

/// Latest version of the interface that the library has: the second has leases.
const INTERFACE: u64 = 2;
/// A lease as an SDK keeps it for each edge: its generation, from bit 40; how many hits the SDK counts itself, from bit 20; how many of
/// them are left. No left hit, or another generation, makes the SDK call [`notify_coverage_v2`].
const GENERATION: u64 = 1;
const GENERATION_SHIFT: u32 = 40;
const GRANTED_SHIFT: u32 = 20;
const LONGEST_LEASE: u64 = (1 << 20) - 1;
/// The generation of leases that are valid, where SDKs read it. No lease is ever revoked.
static VALID_GENERATION: u64 = GENERATION;

/// Latest version of the interface.
#[unsafe(no_mangle)]
pub extern "C" fn instrumentation_max_abi_version() -> u64 {
    INTERFACE
}

/// The version that an SDK gets which asks for one: at most the latest.
#[unsafe(no_mangle)]
pub extern "C" fn instrumentation_request_abi_version(requested: u64) -> u64 {
    requested.clamp(1, INTERFACE)
}

/// Address of the generation of valid leases.
#[unsafe(no_mangle)]
pub extern "C" fn coverage_lease_generation_addr() -> *const u64 {
    &raw const VALID_GENERATION
}

/// Counts that an edge is reached, and was `hits` times under its last lease. Returns the next lease: an empty one, so that the next
/// hit calls this function again; the longest one for an edge that is not counted.
#[unsafe(no_mangle)]
pub extern "C" fn notify_coverage_v2(edge_plus_module: usize, hits: u64) -> u64 {
    let granted = if count(edge_plus_module, hits.saturating_add(1)) { 0 } else { LONGEST_LEASE };
    GENERATION << GENERATION_SHIFT | granted << GRANTED_SHIFT | granted
}

/// Adds hits to an edge, by its number in the process. False if the edge is not counted.
fn count(edge_plus_module: usize, hits: u64) -> bool {
    let known = COUNT.load(Relaxed).min(MODULES);
    for module in &TABLE[..known] {
        let counts = module.counts.load(Acquire);
        let first = module.first.load(Relaxed);
        if counts.is_null() || !(first..=module.last.load(Relaxed)).contains(&edge_plus_module) {
            continue;
        }
        // SAFETY: the module has this edge, and its counts stay mapped.
        unsafe { &*counts.add(edge_plus_module - first) }.fetch_add(hits, Relaxed);
        return true;
    }
    false
}

/// Registers the guards of an executable or library, which it numbers. A guard of 0 is not counted.
///
/// # Safety
/// `start` to `stop` are the guards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_trace_pc_guard_init(start: *mut u32, stop: *mut u32) {
    let edges = (stop as usize).saturating_sub(start as usize) / 4;
    // SAFETY: the caller vouches for the guards. Each compilation unit registers all of them.
    if edges == 0 || unsafe { start.read() } != 0 {
        return;
    }
    let mut name = [0; HEADER - 9];
    let length = name_of_object(start as usize, &mut name);
    let first = register(edges, &name[..length]);
    for at in 0..edges {
        // SAFETY: as above.
        let guard = unsafe { &*start.add(at).cast::<AtomicU32>() };
        guard.store(u32::try_from(first + 1 + at).unwrap_or(0), Relaxed);
    }
}

/// Counts that the edge of a guard is reached.
///
/// # Safety
/// The guard is one that was registered, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_trace_pc_guard(guard: *mut u32) {
    // SAFETY: the caller vouches for it.
    let Some(guard) = (unsafe { guard.cast::<AtomicU32>().as_ref() }) else { return };
    let edge = guard.load(Relaxed);
    if edge != 0 && !notify_coverage(edge as usize) {
        guard.store(0, Relaxed);
    }
}

/// The same for a caller that has the address of the edge, which is not needed.
///
/// # Safety
/// As [`__sanitizer_cov_trace_pc_guard`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __sanitizer_cov_trace_pc_guard_internal(guard: *mut u32, _address: *const c_void) {
    // SAFETY: the caller vouches for it.
    unsafe { __sanitizer_cov_trace_pc_guard(guard) }
}

/// Bytes of `/proc/self/maps` that are read.
const MAPS: usize = 1 << 20;

/// Path of the executable or library that is mapped at an address, by `/proc/self/maps`. Returns its length; 0 if it is not known.
fn name_of_object(address: usize, name: &mut [u8]) -> usize {
    let scratch = call(MMAP, [0, MAPS, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, usize::MAX, 0]);
    if scratch < 0 {
        return 0;
    }
    let descriptor = call(OPEN, [c"/proc/self/maps".as_ptr() as usize, O_CLOEXEC, 0, 0, 0, 0]);
    let mut size = 0;
    while descriptor >= 0 && size < MAPS {
        let read = call(READ, [descriptor as usize, scratch as usize + size, MAPS - size, 0, 0, 0]);
        if read <= 0 {
            break;
        }
        size += read as usize;
    }
    call(CLOSE, [descriptor as usize, 0, 0, 0, 0, 0]);
    // SAFETY: the mapping has as many bytes, and nothing else refers to it.
    let maps = unsafe { core::slice::from_raw_parts(scratch as usize as *const u8, size) };
    let mut length = 0;
    for line in maps.split(|byte| *byte == b'\n') {
        let Some(path) = line.iter().position(|byte| *byte == b'/') else { continue };
        let digit = |byte: &u8| (*byte as char).to_digit(16).map(|digit| digit as usize);
        // The mapping that begins last before the address: zeros behind the file's data belong to it.
        if line.iter().map_while(digit).fold(0usize, |start, digit| start << 4 | digit) > address {
            break;
        }
        let path = &line[path..];
        length = path.len().min(name.len());
        for (to, from) in name.iter_mut().zip(path) {
            *to = *from;
        }
    }
    call(MUNMAP, [scratch as usize, MAPS, 0, 0, 0, 0]);
    length
}
