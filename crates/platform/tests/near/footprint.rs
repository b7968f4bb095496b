//! Footprints: the memory that guests will access when they next run.

use crate::blob;
use crate::fixture::Guest;
use belljar_base::Footprint;
use belljar_machine::{Backing, ContextId, GuestMemory, Platform, Prot};

/// Offset of the data, far from the stack.
const DATA: u64 = 16 << 20;
const FAR: u64 = 3 << 12;

/// A program that loops: it makes a call, adds two words of data and stores the sum on its stack. Part of its
/// code lies in another page.
fn waiting() -> (Guest, ContextId) {
    let mut guest = Guest::new(blob!(
        trail,
        "2:",
        "mov eax, 39",
        "syscall",
        "jmp 3f",
        ".skip 5000",
        "3:",
        "mov rcx, [rbx]",
        "add rcx, [rbx + 0x3000]",
        "mov [rsp - 0x400], rcx",
        "jmp 2b",
    ));
    let data = guest.text + DATA;
    guest.machine.map(guest.space, data, 4 << 12, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
    guest.machine.write(guest.space, data, &7u64.to_le_bytes()).unwrap();
    let thread = guest.thread();
    guest.regs(thread).rbx = data;
    assert_eq!(guest.syscall(thread), 39);
    (guest, thread)
}

fn pages(guest: &Guest, thread: ContextId) -> Vec<u64> {
    let mut footprint = Footprint::default();
    guest.machine.footprint(thread, &mut footprint);
    let lines = footprint.groups().iter().flat_map(|group| group.addresses());
    lines.map(|line| line as u64 & !0xfff).collect()
}

#[test]
fn where_one_guest_has_gone_others_like_it_are_expected() {
    let (mut first, thread) = waiting();
    let (mut second, waiter) = waiting();
    // The registers reveal the start of the data, but neither the rest nor the code that the program jumps
    // to.
    let knows_little = |guest: &Guest, thread, told| {
        let (known, data) = (pages(guest, thread), guest.text + DATA);
        assert!(known.contains(&(guest.text)), "{told}");
        assert!(!known.contains(&(data + FAR)) && !known.contains(&(guest.text + 0x1000)), "{told}");
    };
    for told in 0..9 {
        knows_little(&first, thread, told);
        assert_eq!(first.syscall(thread), 39);
    }
    for told in 0..6 {
        knows_little(&first, thread, told);
        knows_little(&second, waiter, told);
    }
    for round in 0..8 {
        assert_eq!(second.syscall(waiter), 39);
        let regs = *second.regs(waiter);
        assert_eq!((regs.rcx, regs.rflags & 0x100), (regs.rip, 0), "{round}: no trace of being followed");
        assert_eq!(second.read_u64(second.stack - 0x400), 7, "it does what it does unseen");
    }
    for (guest, thread) in [(&first, thread), (&second, waiter)] {
        let known = pages(guest, thread);
        let data = guest.text + DATA;
        for page in [guest.text, guest.text + 0x1000, data, data + FAR, guest.stack - 0x1000] {
            assert!(known.contains(&page), "{page:#x} of {known:x?}");
        }
    }
}
