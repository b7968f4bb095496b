//! Loads a program into the process that executed the shim, as the kernel would: same image, same stack.

use super::calls::nr;
use super::memory::{native, read, write};
use super::{error, exec, layout, signals, timers, vdso};
use layout::PAGE;

const PROT_READ: u64 = 1;
const PROT_WRITE: u64 = 2;
const PROT_EXEC: u64 = 4;
const MAP_SHARED: u64 = 1;
const MAP_PRIVATE: u64 = 2;
const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_NORESERVE: u64 = 0x4000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;
const NO_FILE: u64 = u64::MAX;

const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;
const AT_RANDOM: u64 = 25;
const AT_EXECFN: u64 = 31;
const AT_SYSINFO_EHDR: u64 = 33;

const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PT_PHDR: u32 = 6;
const PT_GNU_STACK: u32 = 0x6474_e551;
const ET_EXEC: u16 = 2;
/// Upper bound on the program headers of an image.
const MOST_HEADERS: usize = 64;
/// Base of the range in which the kernel loads position-independent programs.
const PIE_BASE: u64 = 0x5555_5555_4000;

/// A program header.
#[derive(Clone, Copy)]
#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    in_file: u64,
    in_memory: u64,
    align: u64,
}

impl Header {
    const EMPTY: Header =
        Header { kind: 0, flags: 0, offset: 0, address: 0, physical: 0, in_file: 0, in_memory: 0, align: 0 };
}

/// Headers of an image file.
struct Image {
    descriptor: u64,
    headers: [Header; MOST_HEADERS],
    count: usize,
    kind: u16,
    entry: u64,
    headers_at: u64,
}

/// Addresses of a loaded image.
struct Loaded {
    bias: u64,
    /// Start and end of the code, start and end of the data, and the end of the image.
    code: [u64; 2],
    data: [u64; 2],
    end: u64,
}

/// Initial stack of a process.
struct Stack {
    argv: u64,
    envp: u64,
    auxv: u64,
}

impl Stack {
    fn of(sp: u64) -> Stack {
        let argc = read::<u64>(sp).unwrap_or(0);
        let argv = sp + 8;
        let envp = argv + 8 * (argc + 1);
        let mut auxv = envp;
        while read::<u64>(auxv).is_ok_and(|at| at != 0) {
            auxv += 8;
        }
        Stack { argv, envp, auxv: auxv + 8 }
    }

    /// Address of the value of an auxiliary-vector entry.
    fn entry(&self, kind: u64) -> Option<u64> {
        (0..)
            .map(|n| self.auxv + 16 * n)
            .map_while(|at| read::<[u64; 2]>(at).ok().map(|pair| (at, pair[0])))
            .take_while(|(_, found)| *found != AT_NULL)
            .find_map(|(at, found)| (found == kind).then_some(at + 8))
    }

    fn value(&self, kind: u64) -> u64 {
        self.entry(kind).and_then(|at| read(at).ok()).unwrap_or(0)
    }

    fn set(&self, kind: u64, value: u64) {
        if let Some(at) = self.entry(kind) {
            let _ = write(at, value);
        }
    }
}

/// Main function of the program; `sp` is the stack pointer at its start.
///
/// # Safety
/// To be called once in a fresh process linked to run at [`layout::IMAGE`].
pub unsafe fn main(sp: u64) -> ! {
    let stack = Stack::of(sp);
    let path = stack.value(AT_EXECFN);
    let mut name = [0u8; exec::LONGEST];
    let mut len = 0;
    while len < name.len()
        && let Ok(byte @ 1..) = read::<u8>(path + len as u64)
    {
        name[len] = byte;
        len += 1;
    }
    let failed = match exec::parse(&name[..len]) {
        Some(exec::Parsed { folder, program: Some(program), timer }) if folder.len() < layout::FOLDER_LEN => {
            let loaded = load(folder, program, sp, &stack);
            if loaded.is_ok() {
                timers::adopt(timer);
            }
            match loaded {
                // SAFETY: the image is mapped, and this stack is not used any more.
                Ok(entry) => unsafe { start(entry, sp) },
                Err(error) => error,
            }
        }
        Some(exec::Parsed { folder, program: None, .. }) => exec::launch(folder, stack.argv, stack.envp),
        _ => error::NOENT,
    };
    let text: &[u8] = match failed {
        error::NOENT => b"belljar: the program or its interpreter does not exist\n",
        -13 => b"belljar: the program may not be executed\n",
        error::NOEXEC => b"belljar: the program is none for this machine\n",
        error::NOMEM => b"belljar: there is no room for the program\n",
        _ => b"belljar: the program cannot be loaded into dilated time\n",
    };
    native(nr::WRITE, [2, text.as_ptr() as u64, text.len() as u64, 0, 0, 0]);
    crate::system::exit(127)
}

/// Sets the process up and maps the image in `descriptor`. Returns its entry point.
fn load(folder: &[u8], descriptor: u64, sp: u64, stack: &Stack) -> Result<u64, i64> {
    move_to_memory(stack)?;
    map_clock(folder, descriptor)?;
    // From here on, accesses to unmapped memory are handled.
    signals::install();
    const PR_SET_TSC: u64 = 26;
    const PR_TSC_SIGSEGV: u64 = 2;
    native(nr::PRCTL, [PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0, 0]);
    let program = Image::of(descriptor)?;
    let random = read::<u64>(stack.value(AT_RANDOM)).unwrap_or(0);
    let loaded = program.map(PIE_BASE + (random & 0xff_ffff) * PAGE)?;
    let mut entry = program.entry.wrapping_add(loaded.bias);
    stack.set(AT_ENTRY, entry);
    stack.set(AT_PHDR, program.headers_in_memory().wrapping_add(loaded.bias));
    stack.set(AT_PHNUM, program.count as u64);
    stack.set(AT_BASE, 0);
    stack.set(AT_SYSINFO_EHDR, layout::VDSO);
    stack.set(AT_EXECFN, layout::TABLE + layout::PATH_AT);
    if let Some(interpreter) = program.interpreter()? {
        let loaded = interpreter.map(0)?;
        native(nr::CLOSE, [interpreter.descriptor, 0, 0, 0, 0, 0]);
        entry = interpreter.entry.wrapping_add(loaded.bias);
        stack.set(AT_BASE, loaded.bias);
    }
    if program.find(PT_GNU_STACK).is_some_and(|header| header.flags & 1 != 0) {
        const PROT_GROWSDOWN: u64 = 0x0100_0000;
        let all = PROT_READ | PROT_WRITE | PROT_EXEC | PROT_GROWSDOWN;
        native(nr::MPROTECT, [sp & !(PAGE - 1), PAGE, all, 0, 0, 0]);
    }
    pose(descriptor, &loaded, sp, stack);
    native(nr::CLOSE, [descriptor, 0, 0, 0, 0, 0]);
    Ok(entry)
}

/// Replaces the mapping of the shim's file by anonymous memory with the same content: a process can change
/// its executable file (`exe`) only when no part of the old one is mapped.
fn move_to_memory(stack: &Stack) -> Result<(), i64> {
    let (at, count) = (stack.value(AT_PHDR), stack.value(AT_PHNUM) as usize);
    let mut headers = [Header::EMPTY; 16];
    let count = count.min(headers.len());
    for (n, header) in headers.iter_mut().enumerate().take(count) {
        *header = header_at(at + 56 * n as u64);
    }
    let end = headers.iter().filter(|header| header.kind == PT_LOAD).map(|h| h.address + h.in_memory).max();
    let len = (end.ok_or(error::NOEXEC)? - layout::IMAGE).next_multiple_of(PAGE);
    let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    must(native(nr::MMAP, [layout::COPY, len, PROT_READ | PROT_WRITE, flags, NO_FILE, 0]))?;
    for header in headers.iter().filter(|header| header.kind == PT_LOAD) {
        let to = layout::COPY + (header.address - layout::IMAGE);
        // SAFETY: the segment is mapped, and so is an equal range in the copy.
        unsafe {
            core::ptr::copy_nonoverlapping(
                header.address as *const u8,
                to as *mut u8,
                header.in_memory as usize,
            );
        }
    }
    must(native(nr::MPROTECT, [layout::COPY, len, PROT_READ | PROT_EXEC, 0, 0, 0]))?;
    const MAY_MOVE: u64 = 1;
    const TO_ADDRESS: u64 = 2;
    must(native(nr::MREMAP, [layout::COPY, len, len, MAY_MOVE | TO_ADDRESS, layout::IMAGE, 0])).map(drop)
}

fn header_at(at: u64) -> Header {
    // SAFETY: `at` is the address of a header, of this program or in a buffer.
    unsafe { (at as *const Header).read_unaligned() }
}

fn must(result: i64) -> Result<u64, i64> {
    if result < 0 { Err(result) } else { Ok(result as u64) }
}

/// Maps the clock and the vDSO, and fills the shim's own page.
fn map_clock(folder: &[u8], program: u64) -> Result<(), i64> {
    let mut path = exec::Text::<{ exec::LONGEST }>::new("");
    path.add(folder);
    let end = path.bytes().len();
    path.add(b"/");
    path.add(layout::CLOCK_FILE.as_bytes());
    const O_CLOEXEC: u64 = 0x8_0000;
    let file = must(native(nr::OPEN, [path.at(), O_CLOEXEC, 0, 0, 0, 0]))?;
    must(native(nr::MMAP, [layout::CLOCK, PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0]))?;
    let code = PROT_READ | PROT_EXEC;
    must(native(nr::MMAP, [layout::VDSO, PAGE, code, MAP_PRIVATE | MAP_FIXED, file, PAGE]))?;
    native(nr::CLOSE, [file, 0, 0, 0, 0, 0]);
    let flags = MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS;
    must(native(nr::MMAP, [layout::TABLE, PAGE, PROT_READ | PROT_WRITE, flags, NO_FILE, 0]))?;
    // Mapped from the start: each wait reads it, and an unmapped page would cost a fault.
    must(native(nr::MMAP, [layout::RINGS, PAGE, PROT_READ | PROT_WRITE, flags, NO_FILE, 0]))?;
    const WIPE_ON_FORK: u64 = 18;
    let (at, len, flags) = (layout::TIMERS, layout::TIMERS_LEN, flags | MAP_NORESERVE);
    must(native(nr::MMAP, [at, len, PROT_READ | PROT_WRITE, flags, NO_FILE, 0]))?;
    must(native(nr::MADVISE, [at, len, WIPE_ON_FORK, 0, 0, 0]))?;
    vdso::fill_table()?;
    for (n, byte) in path.bytes()[..end].iter().enumerate() {
        write(layout::TABLE + layout::FOLDER_AT + n as u64, *byte)?;
    }
    let at = layout::TABLE + layout::PATH_AT;
    let link = exec::link_to(program);
    native(nr::READLINK, [link.at(), at, PAGE - layout::PATH_AT - 1, 0, 0, 0]);
    must(native(nr::MPROTECT, [layout::TABLE, PAGE, PROT_READ, 0, 0, 0])).map(drop)
}

impl Image {
    fn of(descriptor: u64) -> Result<Image, i64> {
        let mut head = [0u64; 8];
        let got = native(nr::PREAD64, [descriptor, head.as_mut_ptr() as u64, 64, 0, 0, 0]);
        if got != 64 || head[0] as u32 != u32::from_le_bytes(*b"\x7fELF") {
            return Err(error::NOEXEC);
        }
        let (kind, entry, headers_at) = (head[2] as u16, head[3], head[4]);
        let (size, count) = ((head[6] >> 48) as u16, head[7] as u16 as usize);
        if size != 56 || count == 0 || count > MOST_HEADERS {
            return Err(error::NOEXEC);
        }
        let mut headers = [Header::EMPTY; MOST_HEADERS];
        let len = 56 * count as u64;
        let got = native(nr::PREAD64, [descriptor, headers.as_mut_ptr() as u64, len, headers_at, 0, 0]);
        match got as u64 == len {
            true => Ok(Image { descriptor, headers, count, kind, entry, headers_at }),
            false => Err(error::NOEXEC),
        }
    }

    fn find(&self, kind: u32) -> Option<&Header> {
        self.headers[..self.count].iter().find(|header| header.kind == kind)
    }

    fn segments(&self) -> impl Iterator<Item = &Header> {
        self.headers[..self.count].iter().filter(|header| header.kind == PT_LOAD)
    }

    /// Address of the program headers without the bias.
    fn headers_in_memory(&self) -> u64 {
        let holds = |h: &&Header| h.offset <= self.headers_at && self.headers_at < h.offset + h.in_file;
        let in_segment = || self.segments().find(holds).map(|h| h.address + self.headers_at - h.offset);
        self.find(PT_PHDR).map(|header| header.address).or_else(in_segment).unwrap_or(0)
    }

    /// The interpreter (loader) that the image names, if any.
    fn interpreter(&self) -> Result<Option<Image>, i64> {
        let Some(header) = self.find(PT_INTERP) else { return Ok(None) };
        let mut path = [0u8; 256];
        let len = (path.len() as u64 - 1).min(header.in_file);
        must(native(nr::PREAD64, [self.descriptor, path.as_mut_ptr() as u64, len, header.offset, 0, 0]))?;
        const O_CLOEXEC: u64 = 0x8_0000;
        let file = must(native(nr::OPEN, [path.as_ptr() as u64, O_CLOEXEC, 0, 0, 0, 0]))?;
        Image::of(file).map(Some)
    }

    /// Maps the image at its own addresses or, if it is position-independent, near `wanted`.
    fn map(&self, wanted: u64) -> Result<Loaded, i64> {
        let first = self.segments().map(|h| h.address & !(PAGE - 1)).min().ok_or(error::NOEXEC)?;
        let end = self.segments().map(|h| h.address + h.in_memory).max().unwrap_or(first);
        let len = (end - first).next_multiple_of(PAGE);
        let mut bias = 0;
        let mut fixed = MAP_FIXED_NOREPLACE;
        if self.kind != ET_EXEC {
            let align = self
                .segments()
                .map(|h| h.align)
                .filter(|a| a.is_power_of_two())
                .max()
                .unwrap_or(PAGE)
                .max(PAGE);
            let room = len + align - PAGE;
            let flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
            let place = must(native(nr::MMAP, [wanted.next_multiple_of(align), room, 0, flags, NO_FILE, 0]))?;
            let start = place.next_multiple_of(align);
            native(nr::MUNMAP, [place, start - place, 0, 0, 0, 0]);
            native(nr::MUNMAP, [start + len, place + room - start - len, 0, 0, 0, 0]);
            bias = start.wrapping_sub(first);
            fixed = MAP_FIXED;
        }
        let mut loaded =
            Loaded { bias, code: [u64::MAX, 0], data: [u64::MAX, 0], end: end.wrapping_add(bias) };
        for header in self.segments() {
            self.map_segment(header, bias, fixed)?;
            let start = header.address.wrapping_add(bias);
            let range = if header.flags & 1 != 0 { &mut loaded.code } else { &mut loaded.data };
            *range = [range[0].min(start), range[1].max(start + header.in_file)];
        }
        Ok(loaded)
    }

    fn map_segment(&self, header: &Header, bias: u64, fixed: u64) -> Result<(), i64> {
        let flag = |bit: u32, prot: u64| if header.flags & bit != 0 { prot } else { 0 };
        let prot = flag(4, PROT_READ) | flag(2, PROT_WRITE) | flag(1, PROT_EXEC);
        let start = header.address.wrapping_add(bias);
        let (page, within) = (start & !(PAGE - 1), start & (PAGE - 1));
        let of_file = if header.in_file > 0 { (within + header.in_file).next_multiple_of(PAGE) } else { 0 };
        if of_file > 0 {
            let args = [page, of_file, prot, MAP_PRIVATE | fixed, self.descriptor, header.offset - within];
            must(native(nr::MMAP, args))?;
        }
        if header.in_memory > header.in_file {
            // Zeros in the rest of the file's last page, then anonymous pages.
            let mut at = start + header.in_file;
            while of_file > 0 && at < page + of_file {
                let (zeros, len) = ([0u8; 64], (page + of_file - at).min(64));
                if len == 64 { write(at, zeros) } else { (0..len).try_for_each(|n| write(at + n, 0u8)) }?;
                at += len;
            }
            let all = (within + header.in_memory).next_multiple_of(PAGE);
            if all > of_file {
                let flags = MAP_PRIVATE | MAP_ANONYMOUS | fixed;
                must(native(nr::MMAP, [page + of_file, all - of_file, prot, flags, NO_FILE, 0]))?;
            }
        }
        Ok(())
    }
}

/// Sets the process's name to the program's and, if the user has the privilege, its executable file, break
/// and auxiliary vector.
fn pose(descriptor: u64, loaded: &Loaded, sp: u64, stack: &Stack) {
    const PR_SET_NAME: u64 = 15;
    const PR_SET_MM: u64 = 35;
    const PR_SET_MM_MAP: u64 = 14;
    let path = layout::TABLE + layout::PATH_AT;
    let mut name = path;
    let mut at = path;
    while let Ok(byte @ 1..) = read::<u8>(at) {
        at += 1;
        if byte == b'/' {
            name = at;
        }
    }
    native(nr::PRCTL, [PR_SET_NAME, name, 0, 0, 0, 0]);
    // The strings are contiguous, arguments first.
    let last = |list: u64| {
        let mut at = list;
        while read::<u64>(at).is_ok_and(|text| text != 0) {
            at += 8;
        }
        let mut text = if at > list { read::<u64>(at - 8).unwrap_or(sp) } else { return None };
        while let Ok(1..) = read::<u8>(text) {
            text += 1;
        }
        Some(text + 1)
    };
    let arguments = [read::<u64>(stack.argv).unwrap_or(sp), last(stack.argv).unwrap_or(sp)];
    let environment = [arguments[1], last(stack.envp).unwrap_or(arguments[1])];
    let ordered = |range: [u64; 2], other: [u64; 2]| if range[1] == 0 { other } else { range };
    let (code, data) = (ordered(loaded.code, loaded.data), ordered(loaded.data, loaded.code));
    let brk = (loaded.end.max(data[1]) + 1).next_multiple_of(PAGE);
    let mut entries = 0;
    while read::<u64>(stack.auxv + 16 * entries).is_ok_and(|kind| kind != AT_NULL) {
        entries += 1;
    }
    /// `struct prctl_mm_map`.
    #[repr(C)]
    struct Map {
        addresses: [u64; 11],
        auxv: u64,
        auxv_size: u32,
        exe: u32,
    }
    let mut map = Map {
        addresses: [
            code[0],
            code[1],
            data[0],
            data[1],
            brk,
            brk,
            sp,
            arguments[0],
            arguments[1],
            environment[0],
            environment[1],
        ],
        auxv: stack.auxv,
        auxv_size: 16 * (entries as u32 + 1),
        exe: descriptor as u32,
    };
    let size = size_of::<Map>() as u64;
    if native(nr::PRCTL, [PR_SET_MM, PR_SET_MM_MAP, &raw const map as u64, size, 0, 0]) != 0 {
        // A user without privileges cannot change the file.
        map.exe = u32::MAX;
        native(nr::PRCTL, [PR_SET_MM, PR_SET_MM_MAP, &raw const map as u64, size, 0, 0]);
    }
}

/// Jumps to the entry point of the program.
///
/// # Safety
/// Its image and its stack must be mapped.
unsafe fn start(entry: u64, sp: u64) -> ! {
    // SAFETY: from here on this code runs only by signals and calls of the vDSO.
    unsafe {
        core::arch::asm!(
            "mov rsp, rsi",
            "xor eax, eax",
            "xor ebx, ebx",
            "xor ecx, ecx",
            "xor edx, edx",
            "xor esi, esi",
            "xor ebp, ebp",
            "xor r8d, r8d",
            "xor r9d, r9d",
            "xor r10d, r10d",
            "xor r12d, r12d",
            "xor r13d, r13d",
            "xor r14d, r14d",
            "xor r15d, r15d",
            "mov r11, rdi",
            "xor edi, edi",
            "jmp r11",
            in("rdi") entry,
            in("rsi") sp,
            options(noreturn),
        )
    }
}
