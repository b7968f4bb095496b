//! A process with the content of a near space, at the same addresses: what a fork of a near guest
//! becomes. Its mappings are made again, from their files where those still are what was mapped, and
//! the pages that hold something of their own are copied.

use super::Shim;
use super::pages::{Mapping, PageMap, mappings};
use belljar_linux_abi::Errno;
use belljar_shim::protocol::NativeCall;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};

/// How many ranges one `process_vm_writev` takes.
const IOV_MAX: usize = 1024;

/// A shared mapping of a space and the file behind it, which no path leads to again.
pub struct SharedSource<'a> {
    /// Its addresses.
    pub range: Range<u64>,
    /// Its file.
    pub file: &'a File,
    /// Where in the file it starts.
    pub offset: u64,
}

/// What has been mapped and what remains to be done.
struct Copy<'a> {
    shim: &'a Shim,
    /// Pages to copy.
    content: Vec<Range<u64>>,
    /// Mappings that are writable only until they have their content.
    protect: Vec<NativeCall>,
    /// Mappings without a file, gathered to be made together.
    anonymous: Vec<NativeCall>,
}

/// Fills `shim` with what this process has in `ranges`.
pub fn replicate(shim: &Shim, ranges: &[Range<u64>], shared: &[SharedSource<'_>]) -> Result<(), Errno> {
    let pages = PageMap::open().ok();
    let mut copy = Copy { shim, content: Vec::new(), protect: Vec::new(), anonymous: Vec::new() };
    for mapping in mappings(ranges)? {
        if mapping.shared {
            copy.map_shared(&mapping, shared)?;
            continue;
        }
        let file = same_file(&mapping);
        let own = match &pages {
            Some(pages) if file.is_some() || mapping.identity.2 == 0 => {
                pages.private_pages(&mapping.range)?
            }
            _ => vec![mapping.range.clone()],
        };
        copy.map_private(&mapping, file.as_ref(), !own.is_empty())?;
        copy.content.extend(own);
    }
    copy.finish()
}

/// The file behind a private mapping, if its path still leads to it.
fn same_file(mapping: &Mapping) -> Option<File> {
    if mapping.identity.2 == 0 || !mapping.path.starts_with('/') {
        return None;
    }
    let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_NOCTTY | libc::O_PATH;
    // Not opened before it is known to be the file: it might be a device by now.
    let place = File::options().read(true).custom_flags(flags).open(&mapping.path).ok()?;
    let found = place.metadata().ok()?;
    let device = (libc::major(found.dev()), libc::minor(found.dev()));
    if !found.is_file() || (device.0, device.1, found.ino()) != mapping.identity {
        return None;
    }
    File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()
}

const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
const READ_WRITE: i32 = libc::PROT_READ | libc::PROT_WRITE;

fn call(nr: libc::c_long, args: [u64; 6]) -> NativeCall {
    NativeCall { number: nr as u32, received_fd: 0, args }
}

impl Copy<'_> {
    fn map_shared(&mut self, mapping: &Mapping, shared: &[SharedSource<'_>]) -> Result<(), Errno> {
        let Range { start, end } = mapping.range;
        let holds = |source: &&SharedSource<'_>| source.range.start <= start && end <= source.range.end;
        let source = shared.iter().find(holds).ok_or(Errno::ENOMEM)?;
        let offset = source.offset + (start - source.range.start);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        self.shim.mmap(start, end - start, mapping.prot, flags, source.file.as_raw_fd(), offset)
    }

    fn map_private(
        &mut self,
        mapping: &Mapping,
        file: Option<&File>,
        has_content: bool,
    ) -> Result<(), Errno> {
        let Range { start, end } = mapping.range;
        let prot = if has_content { READ_WRITE } else { mapping.prot };
        if has_content && mapping.prot != READ_WRITE {
            let args = [start, end - start, mapping.prot as u64, 0, 0, 0];
            self.protect.push(call(libc::SYS_mprotect, args));
        }
        match file {
            Some(file) => self.shim.mmap(start, end - start, prot, PRIVATE, file.as_raw_fd(), mapping.offset),
            None => {
                let flags = PRIVATE | libc::MAP_ANONYMOUS;
                let args = [start, end - start, prot as u64, flags as u64, u64::MAX, 0];
                self.anonymous.push(call(libc::SYS_mmap, args));
                Ok(())
            }
        }
    }

    fn finish(self) -> Result<(), Errno> {
        self.shim.calls(&self.anonymous)?;
        for part in self.content.chunks(IOV_MAX) {
            if !self.copy_at_once(part) {
                part.iter().try_for_each(|range| self.copy_slowly(range))?;
            }
        }
        self.shim.calls(&self.protect)?;
        Ok(())
    }

    /// One native call for many ranges; false if it has not copied them all.
    fn copy_at_once(&self, ranges: &[Range<u64>]) -> bool {
        let vectors: Vec<libc::iovec> = ranges
            .iter()
            .map(|r| libc::iovec {
                iov_base: r.start as *mut libc::c_void,
                iov_len: (r.end - r.start) as usize,
            })
            .collect();
        let (at, count) = (vectors.as_ptr(), vectors.len() as libc::c_ulong);
        let wanted: u64 = ranges.iter().map(|r| r.end - r.start).sum();
        // SAFETY: the same addresses here and there; here they are only read.
        let put = unsafe { libc::process_vm_writev(self.shim.pid, at, count, at, count, 0) };
        put == wanted as isize
    }

    /// Page by page, through `/proc/self/mem`, which reads what its protection hides as well.
    fn copy_slowly(&self, range: &Range<u64>) -> Result<(), Errno> {
        let memory = File::open("/proc/self/mem")?;
        let mut page = vec![0; belljar_shim::layout::PAGE as usize];
        let mut at = range.start;
        while at < range.end {
            // A page that lies behind the end of its file has no content.
            if memory.read_exact_at(&mut page, at).is_ok() {
                self.shim.write(at, &page)?;
            }
            at += page.len() as u64;
        }
        Ok(())
    }
}
