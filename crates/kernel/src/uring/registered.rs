//! Registrations of instances and threads beside files and buffers: identities to act under, restrictions, and
//! instances that need no descriptor.

use super::entry::SubmissionEntry;
use crate::files::FileKind;
use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use crate::uring::Urings;
use belljar_linux_abi::Errno;

/// `IO_RINGFD_REG_MAX`.
pub(crate) const MOST_RINGS: usize = 16;
/// `IORING_MAX_RESTRICTIONS`.
const MOST_RESTRICTIONS: usize = 64;

/// The instances that a thread has registered.
pub(crate) type RingTable = [Option<FileKey>; MOST_RINGS];

/// The operations that an instance allows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Restrictions {
    /// Bit n: operation n of `io_uring_register(2)`, operation n of entries.
    register: u128,
    entries: u128,
    allowed_flags: u8,
    required_flags: u8,
}

impl Restrictions {
    /// From an array of `struct io_uring_restriction`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Restrictions, Errno> {
        if bytes.is_empty() || bytes.len() / 16 > MOST_RESTRICTIONS {
            return Err(Errno::EINVAL);
        }
        let mut restrictions = Restrictions::default();
        for one in bytes.chunks_exact(16) {
            let (kind, value) = (u16::from_ne_bytes([one[0], one[1]]), one[2]);
            let bit = 1u128.checked_shl(u32::from(value)).unwrap_or(0);
            match kind {
                0 if bit == 0 => return Err(Errno::EINVAL),
                0 => restrictions.register |= bit,
                1 if value >= super::OPS => return Err(Errno::EINVAL),
                1 => restrictions.entries |= bit,
                2 => restrictions.allowed_flags = value,
                3 => restrictions.required_flags = value,
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(restrictions)
    }
    pub(super) fn allow_entry(&self, entry: &SubmissionEntry) -> bool {
        let required = self.required_flags;
        self.entries >> entry.op & 1 != 0
            && entry.flags & required == required
            && entry.flags & !(self.allowed_flags | required) == 0
    }
    pub(crate) fn allow_register(&self, operation: u32) -> bool {
        operation < 128 && self.register >> operation & 1 != 0
    }
}

impl Urings {
    /// The instance that a thread has registered at a place.
    pub(crate) fn registered_ring(&self, tid: i32, place: i32) -> Result<FileKey, Errno> {
        let place = usize::try_from(place).ok().filter(|place| *place < MOST_RINGS).ok_or(Errno::EINVAL)?;
        self.of_threads.get(&tid).and_then(|table| table[place]).ok_or(Errno::EBADF)
    }
}

impl Host {
    /// `IORING_REGISTER_PERSONALITY`: the number of the caller's identity.
    pub(crate) fn register_personality(&mut self, n: usize, process: ProcessKey) -> Result<u64, Errno> {
        let credentials = self.processes[process.0].credentials.clone();
        let uring = &mut self.urings.instances[n];
        if uring.personalities.len() == usize::from(u16::MAX) {
            return Err(Errno::EBUSY);
        }
        while uring.next_personality == 0 || uring.personalities.contains_key(&uring.next_personality) {
            uring.next_personality = uring.next_personality.wrapping_add(1);
        }
        let id = uring.next_personality;
        uring.next_personality = id.wrapping_add(1);
        uring.personalities.insert(id, credentials);
        Ok(u64::from(id))
    }

    /// Registers an instance at a place, or at any; which.
    pub(crate) fn register_ring(&mut self, tid: i32, place: u32, file: FileKey) -> Result<u32, Errno> {
        if !matches!(self.files.open[file.0].kind, FileKind::Uring(_)) {
            return Err(Errno::EOPNOTSUPP);
        }
        let places = match place as usize {
            _ if place == u32::MAX => 0..MOST_RINGS,
            place if place >= MOST_RINGS => return Err(Errno::EINVAL),
            place => place..place + 1,
        };
        let table = self.urings.of_threads.entry(tid).or_default();
        let place = places.into_iter().find(|place| table[*place].is_none()).ok_or(Errno::EBUSY)?;
        table[place] = Some(file);
        self.files.retain_file(file);
        Ok(place as u32)
    }
    pub(crate) fn unregister_ring(&mut self, tid: i32, place: u32) -> Result<(), Errno> {
        if place as usize >= MOST_RINGS {
            return Err(Errno::EINVAL);
        }
        let found = self.urings.of_threads.get_mut(&tid).and_then(|table| table[place as usize].take());
        if let Some(file) = found {
            self.release_file(file);
        }
        Ok(())
    }
    /// A thread has gone, or runs another image.
    pub(crate) fn forget_registered_rings(&mut self, tid: i32) {
        for file in self.urings.of_threads.remove(&tid).into_iter().flatten().flatten() {
            self.release_file(file);
        }
    }
}
