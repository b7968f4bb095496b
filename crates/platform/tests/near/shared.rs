//! Images shared by many guests: their sites are rewritten before the first use, invisibly to guests.

use crate::blob;
use crate::fixture::Guest;
use belljar_machine::{
    Backing, ContextId, GuestMemory, HostFiles, ImageRoom, NativeFile, OpenHow, Platform, Prot, Regs,
};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};

const PAGE: u64 = 4096;
/// More mappings than an image needs to be shared.
const OFTEN: usize = 20;
/// Pages of the image: headers, text, constants, data.
const PARTS: [Prot; 4] =
    [Prot::READ, Prot::READ.union(Prot::EXEC), Prot::READ, Prot::READ.union(Prot::WRITE)];
const TEXT: u64 = PAGE;
const CONSTANTS: u64 = 2 * PAGE;
const DATA: u64 = 3 * PAGE;

/// A position-independent image of four pages in a file of its own.
fn image(code: &[u8]) -> Vec<u8> {
    let mut out = vec![0u8; 4 * PAGE as usize];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    for (at, value) in [(16, 3u16), (18, 62), (52, 64), (54, 56), (56, 4)] {
        put(at, &value.to_le_bytes());
    }
    put(32, &64u64.to_le_bytes());
    for (index, prot) in PARTS.iter().enumerate() {
        let (entry, page) = (64 + 56 * index, index as u64 * PAGE);
        let flags = u32::from(prot.contains(Prot::READ)) << 2
            | u32::from(prot.contains(Prot::WRITE)) << 1
            | u32::from(prot.contains(Prot::EXEC));
        put(entry, &[1u32.to_le_bytes(), flags.to_le_bytes()].concat());
        for (at, value) in [(8, page), (16, page), (32, PAGE), (40, PAGE), (48, PAGE)] {
            put(entry + at, &value.to_le_bytes());
        }
    }
    put(TEXT as usize, code);
    put(CONSTANTS as usize, b"constants");
    put(DATA as usize, b"data");
    out
}

/// A guest that maps such an image.
struct Loaded {
    guest: Guest,
    file: NativeFile,
    room: ImageRoom,
    /// Address of the image.
    base: u64,
}

impl Deref for Loaded {
    type Target = Guest;
    fn deref(&self) -> &Guest {
        &self.guest
    }
}
impl DerefMut for Loaded {
    fn deref_mut(&mut self) -> &mut Guest {
        &mut self.guest
    }
}

impl Loaded {
    /// A guest with an image that has been mapped `times` before.
    fn after(code: &[u8], times: usize) -> Loaded {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let mut guest = Guest::new(&[0x90]);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("belljar-shared-{}-{number}", std::process::id()));
        let how = OpenHow { write: true, create: Some(0o600), exclusive: true, truncate: false };
        let file = guest.machine.open(&path, how).unwrap();
        guest.machine.remove_file(&path).unwrap();
        guest.machine.write_at(file, 0, &image(code)).unwrap();
        let room = guest.machine.room_of_image(guest.space, file);
        let base = room.above(guest.text + (16 << 20));
        let mut loaded = Loaded { guest, file, room, base };
        for _ in 0..times {
            loaded.map();
            loaded.guest.machine.unmap(loaded.guest.space, base, 4 * PAGE).unwrap();
        }
        loaded.map();
        loaded
    }

    /// Maps the image like the C library's loader: the whole file first, then each part over it.
    fn map(&mut self) {
        let (machine, space, file) = (&mut self.guest.machine, self.guest.space, self.file);
        machine
            .map(space, self.base, 4 * PAGE, Prot::READ, Backing::PrivateFile { file, offset: 0 })
            .unwrap();
        for (index, prot) in PARTS.into_iter().enumerate().skip(1) {
            let offset = index as u64 * PAGE;
            let backing = Backing::PrivateFile { file, offset };
            machine.map(space, self.base + offset, PAGE, prot, backing).unwrap();
        }
    }

    fn text(&self) -> u64 {
        self.base + TEXT
    }
    fn bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.guest.machine.read(self.guest.space, self.base + offset, &mut out).unwrap();
        out
    }
    /// A thread that starts at the start of the text.
    fn start(&mut self) -> ContextId {
        let regs = Regs { rip: self.text(), rsp: self.guest.stack, ..Regs::default() };
        self.guest.machine.create_context(self.guest.space, &regs)
    }
    /// Registers with addresses relative to the text and the stack.
    fn seen(&self, thread: ContextId) -> Regs {
        let mut regs = *self.guest.machine.regs(thread);
        for address in [&mut regs.rip, &mut regs.rcx] {
            *address = address.wrapping_sub(self.text());
        }
        regs.rsp = regs.rsp.wrapping_sub(self.guest.stack);
        regs
    }
    fn counts(&self) -> (u64, u64) {
        let ways = self.guest.machine.call_ways(self.guest.space);
        (ways.trapped, ways.rewritten)
    }
}

/// Both forms, and a call that returns an id.
fn both_forms() -> &'static [u8] {
    blob!(
        shared_forms,
        ".fill 80, 1, 0x90",
        "2:",
        "mov eax, 44",
        "syscall",
        "mov r13, rax",
        "lea eax, [rbx + 1]",
        "syscall",
        "cmp rax, -4095",
        "lea r12, [rax + 1]",
        "inc rbx",
        "jmp 2b"
    )
}
/// Offset of the first site.
const FORM_A: u64 = 80;
const FORM_B: u64 = FORM_A + 5 + 2 + 3 + 3;

#[test]
fn whoever_comes_late_never_traps_and_sees_the_same() {
    let (mut early, mut late) = (Loaded::after(both_forms(), 0), Loaded::after(both_forms(), OFTEN));
    assert_eq!(late.bytes(TEXT + FORM_A, 1), [0xe9]);
    assert_eq!(late.bytes(TEXT + FORM_B, 1), [0xe9]);
    let (a, b) = (early.start(), late.start());
    for round in 0..20u64 {
        assert_eq!(early.guest.machine.resume(a), late.guest.machine.resume(b), "round {round}");
        assert_eq!(early.seen(a), late.seen(b), "round {round}");
        early.regs(a).rax = round.wrapping_sub(5);
        late.regs(b).rax = round.wrapping_sub(5);
    }
    assert_eq!(early.counts(), (4, 16), "each site traps twice");
    assert_eq!(late.counts(), (0, 20));
}

#[test]
fn what_is_not_code_is_what_the_file_has() {
    let mut late = Loaded::after(both_forms(), OFTEN);
    assert_eq!(late.bytes(0, 4), b"\x7fELF");
    assert_eq!(late.bytes(CONSTANTS, 10), b"constants\0");
    assert_eq!(late.bytes(DATA, 4), b"data");
    let (space, data, constants) = (late.space, late.base + DATA, late.base + CONSTANTS);
    late.machine.write(space, data, b"mine").unwrap();
    late.map();
    assert_eq!((late.bytes(CONSTANTS, 9), late.bytes(DATA, 4)), (b"constants".to_vec(), b"data".to_vec()));
    // A page that has been written must be read from the file again.
    late.machine.protect(space, constants, PAGE, Prot::READ | Prot::WRITE).unwrap();
    late.machine.write(space, constants, b"variables").unwrap();
    let backing = Backing::PrivateFile { file: late.file, offset: CONSTANTS };
    late.machine.map(space, constants, PAGE, Prot::READ, backing).unwrap();
    assert_eq!(late.bytes(CONSTANTS, 9), b"constants");
}

/// As in `rewriting.rs`, with stubs that exist from the beginning.
#[test]
fn single_steps_see_no_stub() {
    let mut late = Loaded::after(both_forms(), OFTEN);
    let thread = late.start();
    let mut calls = Vec::new();
    for _ in 0..300 {
        calls.extend(late.step_or_answer(thread));
        let rip = late.seen(thread).rip;
        assert!(rip < PAGE, "at {rip:#x}");
    }
    assert!(calls.len() > 10);
    for (index, pair) in calls.chunks_exact(2).enumerate() {
        assert_eq!(pair, [44, index as u64 + 1]);
    }
}

#[test]
fn a_thread_goes_on_behind_a_call_and_calls_again() {
    let mut late = Loaded::after(both_forms(), OFTEN);
    let thread = late.start();
    assert_eq!((late.syscall(thread), late.syscall(thread)), (44, 1));
    // A return to the address saved in a signal frame, behind the call of form B: the end of the stub serves
    // it.
    let again = late.start();
    late.regs(again).rip = late.text() + FORM_B + 2;
    late.regs(again).rax = 60;
    assert_eq!(late.syscall(again), 44);
    assert_eq!((late.regs(again).r12, late.regs(again).rbx), (61, 1));
    // Linux restarts a call by moving RIP back to its instruction.
    for (site, rax) in [(FORM_A + 5, 44), (FORM_B, 99)] {
        late.regs(again).rip = late.text() + site;
        late.regs(again).rax = rax;
        assert_eq!(late.syscall(again), rax);
        assert_eq!(late.seen(again).rip, site + 2);
    }
    // For form A this is a jump past the rewritten bytes, which traps each time.
    assert_eq!(late.counts().0, 1);
}

#[test]
fn a_debugger_sees_the_code_as_it_is() {
    let mut late = Loaded::after(both_forms(), OFTEN);
    let thread = late.start();
    assert_eq!(late.syscall(thread), 44);
    let space = late.space;
    late.machine.show_original_code(space);
    assert_eq!(late.bytes(TEXT, both_forms().len()), both_forms());
    late.regs(thread).rax = 3;
    for round in 1..4 {
        assert_eq!(late.syscall(thread), round);
        assert_eq!(late.syscall(thread), 44);
    }
    assert_eq!(late.counts(), (6, 1));
    // Other guests keep their content.
    assert_eq!(late.bytes(CONSTANTS, 9), b"constants");
}

#[test]
fn what_is_mapped_where_the_stubs_are_takes_them_away_from_no_one() {
    let mut late = Loaded::after(both_forms(), OFTEN);
    assert!(late.room.below >= PAGE);
    let thread = late.start();
    assert_eq!((late.syscall(thread), late.syscall(thread)), (44, 1));
    let (space, low) = (late.space, late.base - late.room.below);
    late.machine.map(space, low, PAGE, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
    late.machine.write(space, low, &[0xcc; 64]).unwrap();
    assert_eq!(late.bytes(TEXT, both_forms().len()), both_forms());
    late.regs(thread).rax = 8;
    assert_eq!((late.syscall(thread), late.regs(thread).r12), (44, 9));
    assert_eq!((late.syscall(thread), late.syscall(thread)), (2, 44));
}

#[test]
fn text_in_whose_place_something_else_is_has_no_sites() {
    let mut late = Loaded::after(both_forms(), OFTEN);
    let (space, text) = (late.space, late.text());
    let other =
        blob!(shared_other, ".fill 93, 1, 0x90", "2:", "mov eax, ebx", "syscall", "inc rbx", "jmp 2b");
    late.machine.map(space, text, PAGE, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
    late.machine.write(space, text, other).unwrap();
    late.machine.protect(space, text, PAGE, Prot::READ | Prot::EXEC).unwrap();
    let thread = late.start();
    // The resume address behind the call of form B used to be in a stub.
    late.regs(thread).rip = text + FORM_B + 2;
    for round in 0..4 {
        assert_eq!(late.syscall(thread), round);
    }
    // Unmapping the image removes the window, and its addresses are free for new mappings.
    let (low, base) = (late.base - late.room.below, late.base);
    late.machine.unmap(space, base, 4 * PAGE).unwrap();
    late.machine.map(space, low, PAGE, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
    assert_eq!(late.read_u64(low), 0);
}

#[test]
fn data_of_many_guests_lies_at_different_places_of_a_huge_page() {
    let mut machine = belljar_platform::HostMachine::new(0, 4096);
    let mut late = Loaded::after(both_forms(), 0);
    let (space, file) = (late.space, late.file);
    let own = late.machine.room_of_image(space, file);
    assert_eq!(own, late.room, "an image has one room in a slot");
    let mut places = std::collections::BTreeSet::new();
    for host in 2_000..2_128 {
        machine = belljar_platform::HostMachine::new(host, 4096);
        let space = machine.create_space(0, belljar_machine::Placement::Near).unwrap();
        let room = machine.room_of_image(space, file);
        assert_eq!((room.remainder % PAGE, room.align % PAGE), (0, 0));
        places.insert((room.remainder + DATA) % room.align);
    }
    // No more phases than pages between text and data.
    assert_eq!(places.into_iter().collect::<Vec<_>>(), [0, PAGE]);
    drop(machine);
}
