//! Warnings of instructions that read the machine: a run in which one executes is not deterministic.

use crate::space::{AddressSpace, Vma, VmaKind};
use belljar_base::Map;
use belljar_machine::{HardwareRead, NativeRead};

/// The process whose memory contains the instructions.
#[derive(Clone, Copy, Debug)]
pub struct ProcessMemory<'a> {
    /// Name of the process's host.
    pub host: &'a str,
    /// Path of the process's program.
    pub program: &'a [u8],
    /// Address space of the process.
    pub space: &'a AddressSpace,
}

/// Memory object that contains instructions.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Memory<'a> {
    File(&'a [u8]),
    Anonymous,
    Unmapped,
}

/// Counts a warning for each kind of instruction and memory object. It names the first instruction; `found`
/// is in ascending order of kinds and addresses.
pub fn warn(process: &ProcessMemory<'_>, found: &[NativeRead], warnings: &mut Map<String, u64>) {
    let mut groups: Map<(HardwareRead, bool, Memory<'_>), (u64, usize)> = Map::new();
    for read in found {
        let vma = process.space.find(read.addr).filter(|_| !read.is_gone);
        let (memory, at) = located(read, vma);
        groups.entry((read.what, read.is_proven, memory)).or_insert((at, 0)).1 += 1;
    }
    for ((what, is_proven, memory), (at, count)) in groups.iter() {
        *warnings.entry(text(process, (*what, *is_proven, memory), *at, *count)).or_default() += 1;
    }
}

fn located<'a>(read: &NativeRead, vma: Option<&'a Vma>) -> (Memory<'a>, u64) {
    match vma.map(|vma| (vma.start, &vma.kind)) {
        Some((start, VmaKind::File { path, offset, .. })) => {
            (Memory::File(path), offset + (read.addr - start))
        }
        Some((_, VmaKind::Anonymous(_))) => (Memory::Anonymous, read.addr),
        None => (Memory::Unmapped, read.addr),
    }
}

fn text(
    process: &ProcessMemory<'_>,
    (what, is_proven, memory): (HardwareRead, bool, &Memory<'_>),
    at: u64,
    count: usize,
) -> String {
    let (name, result) = (what.name(), what.result());
    let place = match memory {
        Memory::File(path) => format!("{} at {at:#x}", String::from_utf8_lossy(path)),
        Memory::Anonymous => format!("memory without a file at {at:#x}"),
        Memory::Unmapped => format!("memory since unmapped at {at:#x}"),
    };
    let further = match count {
        1 => String::new(),
        _ => format!(" (and {} further)", count - 1),
    };
    let effect = match what {
        HardwareRead::Cpuid => "on another processor the run may differ",
        _ => "the run is not deterministic if it executes",
    };
    let subject = match is_proven {
        true => format!("{name} in {place}{further}"),
        false => format!("what may be {name} in {place}{further}"),
    };
    let (host, program) = (process.host, String::from_utf8_lossy(process.program));
    format!("host {host}, {program}: {subject} {result}: {effect}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Marks;
    use belljar_machine::{Prot, SpaceId};

    fn read(what: HardwareRead, addr: u64, is_proven: bool, is_gone: bool) -> NativeRead {
        NativeRead { what, addr, is_proven, is_gone }
    }

    #[test]
    fn each_kind_of_instruction_is_named_once_for_each_memory_object() {
        let mut space = AddressSpace::new(SpaceId(0), 0, 0x1000..0x10_0000);
        let path = std::sync::Arc::from(&b"/lib/draw.so"[..]);
        let kinds = [
            (0x1_0000, VmaKind::File { path, identity: (1, 2), offset: 0x3000, file: None }),
            (0x2_0000, VmaKind::Anonymous("")),
        ];
        for (start, kind) in kinds {
            let (prot, marks) = (Prot::READ | Prot::EXEC, Marks::empty());
            let end = start + 0x1000;
            space.insert(Vma {
                start,
                end,
                kept_below: 0,
                prot,
                shared: false,
                may_write: true,
                marks,
                kind,
            });
        }
        let found = [
            read(HardwareRead::Rdrand, 0x1_0010, true, false),
            read(HardwareRead::Rdrand, 0x1_0020, true, false),
            read(HardwareRead::Rdrand, 0x1_0030, false, false),
            read(HardwareRead::Rdrand, 0x2_0040, false, false),
            read(HardwareRead::Cpuid, 0x1_0050, true, true),
        ];
        let process = ProcessMemory { host: "alice", program: b"/bin/x", space: &space };
        let mut warnings = Map::new();
        warn(&process, &found, &mut warnings);
        warn(&process, &found, &mut warnings);
        let expected = [
            "host alice, /bin/x: CPUID in memory since unmapped at 0x10050 describes this machine's processor: on \
             another processor the run may differ",
            "host alice, /bin/x: RDRAND in /lib/draw.so at 0x3010 (and 1 further) gives real random bytes: the run is \
             not deterministic if it executes",
            "host alice, /bin/x: what may be RDRAND in /lib/draw.so at 0x3030 gives real random bytes: the run is not \
             deterministic if it executes",
            "host alice, /bin/x: what may be RDRAND in memory without a file at 0x20040 gives real random bytes: the \
             run is not deterministic if it executes",
        ];
        let expected: Map<String, u64> = expected.into_iter().map(|text| (text.to_owned(), 2)).collect();
        assert_eq!(warnings, expected);
    }
}
