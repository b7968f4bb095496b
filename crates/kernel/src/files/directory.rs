//! Directory reading, `getdents(2)`.

use crate::host::Host;
use crate::ids::{FileKey, InodeKey};
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{DISK, Node};
use belljar_objects::listing::{DirentLayout, ListedEntry, Listing, put_entry};
use std::sync::Arc;

/// End offset of a directory on a disk file system, where offsets are hashes: ext4's `EXT4_HTREE_EOF_64BIT`.
const END: u64 = i64::MAX as u64;

impl Host {
    /// Returns the records from the file offset on that fit into `room` bytes, and advances the offset.
    /// `EINVAL` if not even one fits; `ENOENT` if the directory was removed, whatever the offset.
    pub(crate) fn read_directory(
        &mut self,
        file: FileKey,
        room: usize,
        layout: DirentLayout,
    ) -> Result<Vec<u8>, Errno> {
        let open = self.files.open(file);
        let FileKind::Directory { inode, listing } = &open.kind else { return Err(Errno::ENOTDIR) };
        let (inode, listing, start) = (*inode, listing.clone(), open.offset);
        if self.files.inode(inode).is_nameless() {
            return Err(Errno::ENOENT);
        }
        if start == END {
            self.open_file_event(file, inode, c::IN_ACCESS);
            return Ok(Vec::new());
        }
        let has_hashes = self.files.inode(inode).device == DISK;
        let listing = match listing {
            Some(listing) if start > 0 => listing,
            _ => {
                let listing = Arc::new(self.make_listing(inode)?);
                if let FileKind::Directory { listing: kept, .. } = &mut self.files.open(file).kind {
                    *kept = Some(listing.clone());
                }
                listing
            }
        };
        let mut out = Vec::new();
        let mut at = start;
        for entry in listing.entries.iter().skip(start as usize) {
            let before = out.len();
            let is_last = at + 1 == listing.entries.len() as u64;
            put_entry(&mut out, entry, if is_last && has_hashes { END } else { at + 1 }, layout);
            if out.len() > room {
                out.truncate(before);
                break;
            }
            at += 1;
        }
        if out.is_empty() && at < listing.entries.len() as u64 {
            return Err(Errno::EINVAL);
        }
        let ended = has_hashes && at >= listing.entries.len() as u64;
        self.files.open(file).offset = if ended { END } else { at };
        let now = self.net.clock.realtime_ns() as i64;
        self.files.accessed(file, inode, now);
        self.open_file_event(file, inode, c::IN_ACCESS);
        Ok(out)
    }

    fn make_listing(&mut self, inode: InodeKey) -> Result<Listing, Errno> {
        let own = self.files.inode(inode).number;
        let parent = match &self.files.inode(inode).node {
            Node::Directory(directory) => directory.parent,
            _ => return Err(Errno::ENOTDIR),
        };
        let parent = self.files.inode(parent).number;
        let dots = |name: &[u8], number| ListedEntry { name: name.into(), number, format: c::S_IFDIR };
        let mut entries = vec![dots(b".", own), dots(b"..", parent)];
        entries.extend(self.list(inode)?);
        Ok(Listing { entries })
    }
}
