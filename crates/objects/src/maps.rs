//! Text of memory mappings in `/proc`, `proc_pid_maps(5)`.

use crate::space::{AddressSpace, Marks, Vma, VmaKind};
use belljar_linux_abi::c;
use belljar_machine::Prot;
use std::fmt::Write;

/// Text of `/proc/PID/maps` or, with `details`, of `smaps`.
pub fn maps_text<'a>(vmas: impl Iterator<Item = &'a Vma>, details: bool) -> Vec<u8> {
    let mut text = Vec::new();
    for vma in vmas {
        put_mapping(&mut text, vma);
        if details {
            let (size, kib) = ((vma.end - vma.start) / 1_024, resident(vma) / 1_024);
            let _ = write!(
                TextBytes(&mut text),
                "Size: {size:>14} kB\nKernelPageSize:        4 kB\nMMUPageSize:           4 kB\n\
                 Rss: {kib:>15} kB\nPss: {kib:>15} kB\nShared_Clean:          0 kB\n\
                 Shared_Dirty:          0 kB\nPrivate_Clean:         0 kB\nPrivate_Dirty: {kib:>5} kB\n\
                 Referenced: {kib:>8} kB\nAnonymous: {kib:>9} kB\nSwap:                  0 kB\n\
                 Locked: {:>12} kB\nVmFlags: rd mr mw me\n",
                if vma.marks.contains(Marks::LOCKED) { kib } else { 0 }
            );
        }
    }
    text
}

/// Memory usage of a process in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct MemoryUse {
    /// Mapped bytes.
    pub size: u64,
    /// Resident bytes.
    pub resident: u64,
    /// Size of the initial stack.
    pub stack: u64,
}

impl MemoryUse {
    /// Usage of an address space; zero after it is gone.
    pub fn of(space: Option<&AddressSpace>) -> MemoryUse {
        let Some(space) = space else { return MemoryUse::default() };
        let mut memory = MemoryUse { stack: space.stack.end - space.stack.start, ..MemoryUse::default() };
        for vma in space.vmas() {
            memory.size += vma.end - vma.start;
            memory.resident += resident(vma);
        }
        memory
    }
}

/// Resident bytes of a mapping: all, unless it permits no access, as the reservations of language runtimes
/// do. The pages really touched would depend on the machine.
pub fn resident(vma: &Vma) -> u64 {
    if vma.prot.is_empty() { 0 } else { vma.end - vma.start }
}

fn put_mapping(text: &mut Vec<u8>, vma: &Vma) {
    let bit = |prot, letter| if vma.prot.contains(prot) { letter } else { '-' };
    let (read, write, exec) = (bit(Prot::READ, 'r'), bit(Prot::WRITE, 'w'), bit(Prot::EXEC, 'x'));
    let share = if vma.shared { 's' } else { 'p' };
    let (offset, (device, inode), path): (u64, (u64, u64), &[u8]) = match &vma.kind {
        VmaKind::Anonymous(label) => (0, (0, 0), label.as_bytes()),
        VmaKind::File { path, identity, offset, .. } => (*offset, *identity, path),
    };
    let start = text.len();
    let (major, minor) = (c::major(device), c::minor(device));
    let _ = write!(
        TextBytes(text),
        "{:08x}-{:08x} {read}{write}{exec}{share} {offset:08x} {major:02x}:{minor:02x} {inode} ",
        vma.start,
        vma.end
    );
    if !path.is_empty() {
        while text.len() < start + 73 {
            text.push(b' ');
        }
        text.extend_from_slice(path);
    }
    text.push(b'\n');
}

/// `fmt::Write` adapter that appends to a byte vector.
#[derive(Debug)]
pub struct TextBytes<'a>(pub &'a mut Vec<u8>);

impl Write for TextBytes<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}
