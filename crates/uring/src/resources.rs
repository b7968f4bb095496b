//! Registered buffers, and the tags of registered resources: a completion with the tag is posted when a resource
//! has been removed and no request uses it any more.

use crate::entry::{NOP, READV_FIXED, SENDMSG_ZC, SubmissionEntry, WRITEV_FIXED};
use crate::instance::{Uring, WaitingRequest};
use belljar_linux_abi::Errno;
use smallvec::SmallVec;

/// `IORING_MAX_REG_BUFFERS`.
pub const MOST_BUFFERS: usize = 1 << 14;

/// Registered buffer; empty with length 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct FixedBuffer {
    /// Address.
    pub addr: u64,
    /// Length in bytes.
    pub len: u64,
    /// Tag, or 0 for none.
    pub tag: u64,
}

impl FixedBuffer {
    /// True if the buffer contains `len` bytes at `addr`.
    pub fn contains(&self, addr: u64, len: u64) -> bool {
        let end = addr.checked_add(len);
        self.len > 0 && addr >= self.addr && end.is_some_and(|end| end <= self.addr + self.len)
    }
    /// Checks that the memory of a request lies in the buffer; `read` reads memory of the request's process.
    pub fn check(
        &self,
        entry: &SubmissionEntry,
        read: impl Fn(u64, &mut [u8]) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if self.len == 0 {
            return Err(Errno::EFAULT);
        }
        let long =
            |bytes: &[u8], at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let (at, count) = match entry.op {
            SENDMSG_ZC => {
                let mut header = [0; 56];
                read(entry.addr, &mut header)?;
                (long(&header, 16), long(&header, 24))
            }
            NOP => return Ok(()),
            READV_FIXED | WRITEV_FIXED => (entry.addr, u64::from(entry.len)),
            _ if entry.sends_vector() => (entry.addr, u64::from(entry.len)),
            _ if self.contains(entry.addr, u64::from(entry.len)) => return Ok(()),
            _ => return Err(Errno::EFAULT),
        };
        if count > 1_024 {
            return Err(Errno::EINVAL);
        }
        let mut vectors = vec![0; count as usize * 16];
        read(at, &mut vectors)?;
        let inside = |vector: &[u8]| self.contains(long(vector, 0), long(vector, 8));
        if vectors.chunks_exact(16).all(inside) { Ok(()) } else { Err(Errno::EFAULT) }
    }
    /// Buffer of a `struct iovec`, whose memory is to be checked unless it is empty.
    pub fn parse(vector: [u8; 16], tag: u64) -> Result<FixedBuffer, Errno> {
        /// Maximum length of a buffer in bytes.
        const MOST_BYTES: u64 = 1 << 30;
        let long = |at: usize| u64::from_ne_bytes(vector[at..at + 8].try_into().expect("eight bytes"));
        let (addr, len) = (long(0), long(8));
        if addr == 0 && len == 0 {
            // An empty buffer has no tag.
            return if tag == 0 { Ok(FixedBuffer::default()) } else { Err(Errno::EINVAL) };
        }
        if addr == 0 || len == 0 || len > MOST_BYTES {
            return Err(Errno::EFAULT);
        }
        addr.checked_add(len).ok_or(Errno::EOVERFLOW)?;
        Ok(FixedBuffer { addr, len, tag })
    }
}

/// Registered resource of an instance.
#[derive(Clone, Copy, Debug)]
pub enum Resource {
    /// File at an index.
    File(usize),
    /// Buffer at an index.
    Buffer(usize),
}

impl Resource {
    fn is_used_by(self, request: &WaitingRequest) -> bool {
        let entry = &request.entry;
        match self {
            Resource::File(at) => entry.uses_fixed_file() && entry.fd as usize == at,
            Resource::Buffer(at) => entry.has_fixed_buffer() && usize::from(entry.buffer) == at,
        }
    }
}

/// Removed resources with a tag that requests still use: the tag, and the serial numbers of the requests.
#[derive(Debug, Default)]
pub struct Retired(Vec<(u64, Vec<u64>)>);

impl Retired {
    /// Ends the use of resources by a request; returns the tags of those that are no longer used.
    pub fn end_use(&mut self, serial: u64) -> SmallVec<[u64; 1]> {
        let mut unused = SmallVec::new();
        self.0.retain_mut(|(tag, users)| {
            users.retain(|user| *user != serial);
            if users.is_empty() {
                unused.push(*tag);
            }
            !users.is_empty()
        });
        unused
    }
}

impl Uring {
    /// Removes a resource; true if its tag is to be posted now.
    pub fn retire(&mut self, resource: Resource, tag: u64) -> bool {
        if tag == 0 {
            return false;
        }
        let users: Vec<u64> = self
            .requests
            .iter()
            .filter(|(_, request)| resource.is_used_by(request))
            .map(|(_, request)| request.serial)
            .collect();
        if !users.is_empty() {
            self.retired.0.push((tag, users));
            return false;
        }
        true
    }

    /// `IORING_REGISTER_CLONE_BUFFERS`: puts `count` buffers of another instance, from `from` on, at `to`; 0
    /// takes all. Returns the tags of buffers that were replaced.
    pub fn clone_buffers(
        &mut self,
        source: &[FixedBuffer],
        (from, to, count): (usize, usize, usize),
    ) -> Result<Vec<u64>, Errno> {
        if count == 0 && (from, to) != (0, 0) {
            return Err(Errno::EINVAL);
        }
        if source.is_empty() {
            return Err(Errno::ENXIO);
        }
        if count > source.len() {
            return Err(Errno::EINVAL);
        }
        let count = if count == 0 { source.len() } else { count };
        let taken = source.get(from..from.saturating_add(count)).ok_or(Errno::EOVERFLOW)?.to_vec();
        let end = to.checked_add(count).filter(|end| *end <= u32::MAX as usize).ok_or(Errno::EOVERFLOW)?;
        if end > MOST_BUFFERS {
            return Err(Errno::EINVAL);
        }
        if self.buffers.len() < end {
            self.buffers.resize(end, FixedBuffer::default());
        }
        let mut tags = Vec::new();
        for (at, buffer) in taken.into_iter().enumerate() {
            let old = std::mem::replace(&mut self.buffers[to + at], FixedBuffer { tag: 0, ..buffer });
            if self.retire(Resource::Buffer(to + at), old.tag) {
                tags.push(old.tag);
            }
        }
        Ok(tags)
    }
}
