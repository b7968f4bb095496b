//! Effects of a host's faulty disk on syncs, reads and writes. Hosts without such faults have none of it.

use crate::call::Call;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey};
use crate::outcome::{Block, IfInterrupted};
use belljar_base::{SimTime, Stream};
use belljar_linux_abi::Errno;
use belljar_machine::{DiskEvent, DiskFault};
use belljar_objects::disk_faults::{DiskFaultCounts, FaultyRead, SyncFate};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{DISK, Node, Store};

/// Lets the disk of a host fail, from an event on.
pub fn begin(host: &mut Host, event: u32, fault: DiskFault) {
    let draw = stream(host, "disk fault", host.net.clock.now(), &[]);
    host.disk_faults.get_or_insert_default().begin(event, fault, draw);
    settle(host);
}

/// Ends the fault of an event, or all faults.
pub fn end(host: &mut Host, event: Option<u32>) {
    host.disk_faults.iter_mut().for_each(|faults| faults.end(event));
    settle(host);
}

/// Keeps the account of a host's disk through a crash, which closes all files.
pub(crate) fn crashed(host: &mut Host) {
    if let Some(faults) = &mut host.disk_faults {
        faults.forget_files();
        faults.counts.no_room += std::mem::take(&mut host.files.no_room);
    }
}

/// Effects of the faults of a host's disk so far.
pub fn counts(host: &Host) -> DiskFaultCounts {
    let counts = host.disk_faults.as_ref().map(|faults| faults.counts).unwrap_or_default();
    DiskFaultCounts { no_room: counts.no_room + host.files.no_room, ..counts }
}

/// Stream of a fault, named after the host and the time at which it begins: other faults do not disturb it.
pub(crate) fn stream(host: &Host, of: &str, at: SimTime, purposes: &[&str]) -> Stream {
    let config = &host.net.config;
    config.seed.stream_for(&["host", &config.name, of, &at.as_picos().to_string()], purposes)
}

/// Makes the files know whether the disk is full, also after a crash.
pub(crate) fn settle(host: &mut Host) {
    host.files.disk_is_full = host.disk_faults.as_ref().is_some_and(|faults| faults.is_full());
}

/// Wait of a sync on a slow disk, of one file or of all; `None` if it does not wait, or has waited.
pub(crate) fn slow_sync(call: &mut Call<'_>, file: Option<FileKey>) -> Option<Block> {
    let host = &mut *call.host;
    let faults = host.disk_faults.as_deref_mut()?;
    if call.resumed.is_some() {
        return None;
    }
    let path = match file.map(|file| host.files.open[file.0].kind.inode()) {
        Some(Some(inode)) if host.files.inodes[inode.0].device == DISK => {
            let path = if faults.knows_paths() { host.files.path_of(inode) } else { None };
            Some(path.unwrap_or_default())
        }
        Some(_) => return None,
        None => None,
    };
    let time = faults.sync_time(path.as_deref())?;
    let until = call.after(time);
    Some(Block::until(Some(until)).interrupted(IfInterrupted::Killable))
}

/// Fails the sync of an open file if the disk does: `EIO`.
pub(crate) fn check_sync(host: &mut Host, file: FileKey) -> Result<(), Errno> {
    let (Some(faults), FileKind::Regular(inode)) =
        (host.disk_faults.as_deref_mut(), &host.files.open[file.0].kind)
    else {
        return Ok(());
    };
    let inode = *inode;
    if host.files.inodes[inode.0].device != DISK {
        return Ok(());
    }
    let path = host.files.path_of(inode).unwrap_or_default();
    let is_other = |(key, open): (usize, &belljar_objects::open_file::OpenFile)| {
        (key != file.0 && matches!(open.kind, FileKind::Regular(of) if of == inode)).then_some(FileKey(key))
    };
    let others: Vec<FileKey> = host.files.open.iter().filter_map(is_other).collect();
    match faults.fails_sync(&path, file, others.into_iter()) {
        SyncFate::Done => return Ok(()),
        SyncFate::Reported => {}
        SyncFate::Lost => {
            if let Ok(Some(path)) = host.content_path(inode) {
                host.machine.disk_event(DiskEvent::SyncFailed { path: &path })?;
            }
        }
    }
    Err(Errno::EIO)
}

/// Lets a read of a file find what the disk gives: fails with `EIO`, or makes a bit wrong before it is read.
#[cold]
pub(crate) fn before_read(host: &mut Host, inode: InodeKey, start: u64, len: u64) -> Result<(), Errno> {
    let Some(faults) = host.disk_faults.as_deref_mut() else { return Ok(()) };
    let found = &host.files.inodes[inode.0];
    let Node::Regular(content) = &found.node else { return Ok(()) };
    if found.device != DISK || content.shared || content.memfd.is_some() {
        return Ok(());
    }
    let is_own = !matches!(content.store, Store::Lower(_));
    let path = if faults.knows_paths() { host.files.path_of(inode) } else { None };
    let path = path.unwrap_or_default();
    match faults.read(&path, is_own, len) {
        None => Ok(()),
        Some(FaultyRead::Error) => Err(Errno::EIO),
        Some(FaultyRead::Rotten { byte, mask }) => {
            host.copy_up(inode, u64::MAX)?;
            let file = host.native_of(inode)?;
            let (offset, mut now) = (start + byte, [0]);
            if host.machine.read_at(file, offset, &mut now)? == 0 {
                return Ok(());
            }
            let byte = now[0] ^ mask;
            match host.machine.is_observed() {
                true => host.machine.disk_event(DiskEvent::Rotted { file, offset, byte }),
                false => host.machine.write_at(file, offset, &[byte]),
            }
        }
    }
}
