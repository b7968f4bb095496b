//! Registrations other than files and buffers: personalities, and ring descriptors of threads.

use crate::host::Host;
use crate::ids::{FileKey, ProcessKey};
use belljar_linux_abi::Errno;
use belljar_objects::file_kind::FileKind;
use belljar_uring::registered::MOST_RINGS;

impl Host {
    /// `IORING_REGISTER_PERSONALITY`: returns the id of the caller's credentials.
    pub(crate) fn register_personality(&mut self, n: usize, process: ProcessKey) -> Result<u64, Errno> {
        let credentials = self.processes[process.0].credentials.clone();
        self.urings.instances[n].add_personality(credentials).map(u64::from)
    }

    /// Registers an instance at index `place`, or at any free one for `u32::MAX`; returns the index. `EBUSY`
    /// if none is free.
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
    /// Drops the registered rings of a thread that has ended or executes a new image.
    pub(crate) fn forget_registered_rings(&mut self, tid: i32) {
        for file in self.urings.of_threads.remove(&tid).into_iter().flatten().flatten() {
            self.release_file(file);
        }
    }
}
