//! Snapshots of submitted entries: see `belljar_uring::snapshot`.

use crate::guest::PATH_MAX;
use crate::host::Host;
use belljar_linux_abi::Errno;
use belljar_uring::entry::SubmissionEntry;
use belljar_uring::snapshot::Snapshot;
use std::sync::Arc;

impl Host {
    /// Reads memory referenced by an entry, from its snapshot if that covers the range.
    pub(super) fn read_submitted(
        &self,
        entry: &SubmissionEntry,
        addr: u64,
        out: &mut [u8],
    ) -> Result<(), Errno> {
        match &entry.snapshot {
            Some(snapshot) if snapshot.copy_to(addr, out) => Ok(()),
            _ => self.read_guest(entry.by.process, addr, out),
        }
    }

    /// Takes the snapshots of entries that have not started or that wait.
    pub(super) fn snapshot_waiting(&mut self, n: usize) {
        for number in self.urings.instances[n].take_fresh() {
            let mut links = std::mem::take(&mut self.urings.instances[n].requests[number].links);
            links.iter_mut().for_each(|entry| self.take_snapshot(entry));
            let mut entry = self.urings.instances[n].requests[number].entry.clone();
            self.take_snapshot(&mut entry);
            let request = &mut self.urings.instances[n].requests[number];
            (request.entry, request.links) = (entry, links);
        }
        let mut deferred = std::mem::take(&mut self.urings.instances[n].deferred);
        deferred.iter_mut().flatten().for_each(|entry| self.take_snapshot(entry));
        self.urings.instances[n].deferred = deferred;
    }
    fn take_snapshot(&self, entry: &mut SubmissionEntry) {
        if entry.snapshot.is_some() {
            return;
        }
        let process = entry.by.process;
        let read = |addr: u64, out: &mut [u8]| self.read_guest(process, addr, out);
        let path_len = |path: u64| {
            let text = self.read_guest_string(process, path, PATH_MAX, Errno::ENAMETOOLONG);
            text.map_or(0, |text| text.len() as u64 + 1)
        };
        entry.snapshot = Some(Arc::new(Snapshot::of(entry, read, path_len)));
    }
}
