//! Parsing of ELF images for `execve`, `elf(5)`.

use crate::Prot;
use belljar_linux_abi::Errno;
use std::ops::Range;

/// Length of an ELF64 header.
pub const HEADER_LEN: usize = 64;
/// Length of one ELF64 program header.
const PROGRAM_HEADER_LEN: usize = 56;
/// Maximum number of program headers: Linux refuses more than fit in 64 KiB (`PN_XNUM` aside).
const MAX_PROGRAM_HEADERS: usize = 65_536 / PROGRAM_HEADER_LEN;

const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PT_NOTE: u32 = 4;
const PT_GNU_STACK: u32 = 0x6474_e551;

/// Reason why a file cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// The file does not start with the ELF magic number.
    NotElf,
    /// A 32-bit image.
    ThirtyTwoBit,
    /// The image is for another processor; value of `e_machine`.
    ForeignMachine(u16),
    /// The image is neither an executable nor position-independent; value of `e_type`.
    NotExecutable(u16),
    /// The image is inconsistent; description of the fault.
    Malformed(&'static str),
}

impl ElfError {
    /// Errno of `execve` for this error.
    pub fn errno(self) -> Errno {
        Errno::ENOEXEC
    }
}

impl std::fmt::Display for ElfError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ElfError::NotElf => f.write_str("neither an ELF image nor a script that starts with #!"),
            ElfError::ThirtyTwoBit => f.write_str("a 32-bit program; Belljar runs x86-64 programs only"),
            ElfError::ForeignMachine(machine) => {
                write!(
                    f,
                    "a program for another processor (e_machine {machine}); Belljar runs x86-64 programs only"
                )
            }
            ElfError::NotExecutable(kind) => write!(f, "an ELF file that is not a program (e_type {kind})"),
            ElfError::Malformed(what) => write!(f, "a damaged ELF image: {what}"),
        }
    }
}

/// Fields of an ELF64 header that the kernel uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElfHeader {
    /// True if the image must be mapped at its link addresses (`ET_EXEC`).
    pub fixed: bool,
    /// Entry point before relocation.
    pub entry: u64,
    /// File range of the program headers.
    pub program_headers: Range<u64>,
}

/// `PT_LOAD` segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Segment {
    pub offset: u64,
    pub vaddr: u64,
    pub file_size: u64,
    pub mem_size: u64,
    pub prot: Prot,
    pub align: u64,
}

/// Program headers in the kernel's terms.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Segments to map, in address order.
    pub segments: Vec<Segment>,
    /// File range of the interpreter's path.
    pub interpreter: Option<Range<u64>>,
    /// File range of the dynamic section.
    pub dynamic: Option<Range<u64>>,
    /// File range of the first notes.
    pub notes: Option<Range<u64>>,
    /// True if `PT_GNU_STACK` requests an executable stack.
    pub executable_stack: bool,
}

/// Reads a little-endian number.
pub fn u16_at(data: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(data[at..at + 2].try_into().expect("two bytes"))
}
/// Reads a little-endian number.
pub fn u32_at(data: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(data[at..at + 4].try_into().expect("four bytes"))
}
/// Reads a little-endian number.
pub fn u64_at(data: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(data[at..at + 8].try_into().expect("eight bytes"))
}

impl ElfHeader {
    /// Parses a header from the first bytes of a file.
    pub fn parse(data: &[u8]) -> Result<ElfHeader, ElfError> {
        if !data.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if data.len() >= 5 && data[4] == 1 {
            return Err(ElfError::ThirtyTwoBit);
        }
        if data.len() < HEADER_LEN || data[4] != 2 {
            return Err(ElfError::Malformed("its header is cut short"));
        }
        let (kind, machine) = (u16_at(data, 16), u16_at(data, 18));
        if data[5] != 1 || machine != EM_X86_64 {
            return Err(ElfError::ForeignMachine(machine));
        }
        if kind != ET_EXEC && kind != ET_DYN {
            return Err(ElfError::NotExecutable(kind));
        }
        let (offset, size, count) = (u64_at(data, 32), u16_at(data, 54), u16_at(data, 56));
        if usize::from(size) != PROGRAM_HEADER_LEN || count == 0 || usize::from(count) > MAX_PROGRAM_HEADERS {
            return Err(ElfError::Malformed("it has no usable program headers"));
        }
        let end = offset
            .checked_add(u64::from(count) * PROGRAM_HEADER_LEN as u64)
            .ok_or(ElfError::Malformed("its program headers lie outside any file"))?;
        Ok(ElfHeader { fixed: kind == ET_EXEC, entry: u64_at(data, 24), program_headers: offset..end })
    }

    /// Number of program headers.
    pub fn count(&self) -> u64 {
        (self.program_headers.end - self.program_headers.start) / PROGRAM_HEADER_LEN as u64
    }
}

impl Layout {
    /// Parses the program headers of a file of `file_len` bytes.
    pub fn parse(data: &[u8], file_len: u64) -> Result<Layout, ElfError> {
        let mut layout = Layout::default();
        for entry in data.chunks_exact(PROGRAM_HEADER_LEN) {
            let (kind, flags) = (u32_at(entry, 0), u32_at(entry, 4));
            let (offset, vaddr) = (u64_at(entry, 8), u64_at(entry, 16));
            let (file_size, mem_size) = (u64_at(entry, 32), u64_at(entry, 40));
            match kind {
                PT_LOAD if mem_size > 0 => {
                    let segment = Segment {
                        offset,
                        vaddr,
                        file_size,
                        mem_size,
                        prot: protection(flags),
                        align: u64_at(entry, 48),
                    };
                    segment.validate(file_len, layout.segments.last())?;
                    layout.segments.push(segment);
                }
                PT_INTERP => {
                    let end = offset.checked_add(file_size).filter(|end| *end <= file_len);
                    let end =
                        end.ok_or(ElfError::Malformed("its interpreter's name lies outside the file"))?;
                    layout.interpreter = Some(offset..end);
                }
                PT_DYNAMIC => layout.dynamic = Some(offset..offset.saturating_add(file_size)),
                PT_NOTE if layout.notes.is_none() => {
                    layout.notes = Some(offset..offset.saturating_add(file_size));
                }
                PT_GNU_STACK => layout.executable_stack = flags & 1 != 0,
                _ => {}
            }
        }
        if layout.segments.is_empty() {
            Err(ElfError::Malformed("nothing in it is to be loaded"))
        } else {
            Ok(layout)
        }
    }

    /// Address range of all segments, in whole pages.
    pub fn extent(&self) -> Range<u64> {
        let start = self.segments[0].vaddr & !0xfff;
        let end = self.segments.iter().map(|s| s.vaddr + s.mem_size).max().unwrap_or(start);
        start..(end + 0xfff) & !0xfff
    }
    /// Maximum alignment required by a segment, at least a page.
    pub fn align(&self) -> u64 {
        let asked = self.segments.iter().map(|s| s.align).filter(|a| a.is_power_of_two());
        asked.max().unwrap_or(0).clamp(0x1000, 1 << 30)
    }
    /// File offset of the byte at `address`, before relocation.
    pub fn offset_of_address(&self, address: u64) -> Option<u64> {
        let holder = self.segments.iter().find(|s| (s.vaddr..s.vaddr + s.file_size).contains(&address))?;
        Some(holder.offset + (address - holder.vaddr))
    }
    /// Memory address of the byte at file offset `offset`, before relocation.
    pub fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let holder = self.segments.iter().find(|s| (s.offset..s.offset + s.file_size).contains(&offset))?;
        Some(holder.vaddr + (offset - holder.offset))
    }
}

impl Segment {
    fn validate(&self, file_len: u64, before: Option<&Segment>) -> Result<(), ElfError> {
        const HIGHEST: u64 = 1 << 47;
        if self.file_size > self.mem_size {
            return Err(ElfError::Malformed("a segment is longer in the file than in memory"));
        }
        if self.offset.checked_add(self.file_size).is_none_or(|end| end > file_len) {
            return Err(ElfError::Malformed("a segment lies outside the file"));
        }
        if self.vaddr % 0x1000 != self.offset % 0x1000 && self.file_size > 0 {
            return Err(ElfError::Malformed("a segment is not aligned with its place in the file"));
        }
        if self.vaddr.checked_add(self.mem_size).is_none_or(|end| end > HIGHEST) {
            return Err(ElfError::Malformed("a segment lies outside user memory"));
        }
        if before.is_some_and(|b| self.vaddr < b.vaddr + b.mem_size) {
            return Err(ElfError::Malformed("its segments overlap or are out of order"));
        }
        Ok(())
    }
}

fn protection(flags: u32) -> Prot {
    let mut prot = Prot::empty();
    prot.set(Prot::EXEC, flags & 1 != 0);
    prot.set(Prot::WRITE, flags & 2 != 0);
    prot.set(Prot::READ, flags & 4 != 0);
    prot
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(class: u8, machine: u16, kind: u16) -> Vec<u8> {
        let mut data = vec![0; HEADER_LEN];
        data[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
        data[16..18].copy_from_slice(&kind.to_le_bytes());
        data[18..20].copy_from_slice(&machine.to_le_bytes());
        data[32..40].copy_from_slice(&64u64.to_le_bytes());
        data[54..56].copy_from_slice(&56u16.to_le_bytes());
        data[56..58].copy_from_slice(&1u16.to_le_bytes());
        data
    }

    fn load(vaddr: u64, offset: u64, file_size: u64, mem_size: u64) -> Vec<u8> {
        let mut data = vec![0; PROGRAM_HEADER_LEN];
        data[..4].copy_from_slice(&PT_LOAD.to_le_bytes());
        data[4] = 5;
        for (at, value) in [(8, offset), (16, vaddr), (32, file_size), (40, mem_size), (48, 0x1000)] {
            data[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        data
    }

    #[test]
    fn refuses_what_it_cannot_run_and_says_why() {
        assert_eq!(ElfHeader::parse(b"hello"), Err(ElfError::NotElf));
        assert_eq!(ElfHeader::parse(&header(1, 3, 2)), Err(ElfError::ThirtyTwoBit));
        assert_eq!(ElfHeader::parse(&header(2, 183, 2)), Err(ElfError::ForeignMachine(183)));
        assert_eq!(ElfHeader::parse(&header(2, 62, 1)), Err(ElfError::NotExecutable(1)));
        assert!(matches!(ElfHeader::parse(b"\x7fELF\x02"), Err(ElfError::Malformed(_))));
        assert_eq!(ElfHeader::parse(&header(2, 62, 3)).map(|h| (h.fixed, h.count())), Ok((false, 1)));
    }

    #[test]
    fn refuses_segments_that_contradict_the_file() {
        assert!(Layout::parse(&load(0x1000, 0x1000, 0x10, 0x2000), 0x2000).is_ok());
        for bad in [
            load(0x1000, 0x1000, 0x10, 0x8),
            load(0x1000, 0x1000, 0x9000, 0x9000),
            load(0x1008, 0x1000, 8, 8),
        ] {
            assert!(matches!(Layout::parse(&bad, 0x2000), Err(ElfError::Malformed(_))));
        }
        let overlapping = [load(0x1000, 0x1000, 8, 0x3000), load(0x2000, 0, 8, 8)].concat();
        assert!(matches!(Layout::parse(&overlapping, 0x9000), Err(ElfError::Malformed(_))));
    }
}
