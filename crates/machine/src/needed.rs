//! Files named by an ELF image: its interpreter and its shared libraries.

use crate::elf::{ElfHeader, Layout, u64_at};
use std::ops::Range;

const DT_NULL: u64 = 0;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
/// Length of a dynamic section entry in bytes: a tag and a value.
const ENTRY_LEN: usize = 16;

/// Files named by an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needed<'a> {
    /// Path of the interpreter, `PT_INTERP`.
    pub interpreter: Option<&'a [u8]>,
    /// Libraries, `DT_NEEDED`, as named in the image: usually without a folder.
    pub libraries: Vec<&'a [u8]>,
}

/// Extracts the files that an image names. A damaged image yields fewer names or none.
pub fn needed(image: &[u8]) -> Needed<'_> {
    all_needed(image).unwrap_or_default()
}

fn all_needed(image: &[u8]) -> Option<Needed<'_>> {
    let header = ElfHeader::parse(image).ok()?;
    let layout = Layout::parse(part(image, &header.program_headers)?, image.len() as u64).ok()?;
    let interpreter = layout.interpreter.as_ref().and_then(|range| text(part(image, range)?));
    let dynamic = layout.dynamic.as_ref().and_then(|range| part(image, range)).unwrap_or_default();
    let entries = || {
        let entries = dynamic.chunks_exact(ENTRY_LEN).map(|entry| (u64_at(entry, 0), u64_at(entry, 8)));
        entries.take_while(|(tag, _)| *tag != DT_NULL)
    };
    let strings = entries().find(|(tag, _)| *tag == DT_STRTAB);
    let strings = strings.and_then(|(_, address)| image.get(layout.offset_of_address(address)? as usize..));
    let libraries = entries().filter(|(tag, _)| *tag == DT_NEEDED);
    let libraries = libraries.filter_map(|(_, offset)| text(strings?.get(offset as usize..)?));
    Some(Needed { interpreter, libraries: libraries.collect() })
}

fn part<'a>(image: &'a [u8], range: &Range<u64>) -> Option<&'a [u8]> {
    image.get(range.start as usize..range.end as usize)
}

/// Text up to its terminating zero byte.
fn text(bytes: &[u8]) -> Option<&[u8]> {
    bytes.split(|byte| *byte == 0).next().filter(|text| !text.is_empty())
}
