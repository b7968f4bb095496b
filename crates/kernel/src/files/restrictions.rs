//! Access restrictions of processes, `landlock(7)`: rights to files are granted by rules for them or for a
//! directory above, up to the root of the tree.

use super::tree::{Found, Target};
use crate::files::Files;
use crate::ids::{InodeKey, ProcessKey};
use crate::process::Processes;
use belljar_linux_abi::Errno;
use belljar_objects::inode::MEMORY;
use belljar_objects::landlock::{Denied, Domain, Refer, denies};
use belljar_objects::mounts::Place;

impl Files {
    /// Rights that a domain denies in a directory, by layer.
    fn denied_in(&mut self, domain: &Domain, mut at: Place) -> Denied {
        let mut denied = domain.denied();
        loop {
            domain.grant(self.inode(at.1).identity(), &mut denied);
            let above = self.place_above(at);
            if above == at {
                return denied;
            }
            at = above;
        }
    }
    /// Rights that a domain denies to the target of a path, by layer.
    fn denied_to(&mut self, domain: &Domain, found: &Found) -> Denied {
        let Some(Target::Inode(inode)) = found.target else {
            return self.denied_in(domain, (found.mount, found.parent));
        };
        if self.inode(inode).node.is_directory() {
            return self.denied_in(domain, (found.target_mount, inode));
        }
        // Files on no mountable file system (memfd) are not restricted.
        if self.inode(inode).device == MEMORY {
            return Denied::new();
        }
        // The target of a magic link of procfs lies in another directory.
        let is_here = self.inode(inode).links.iter().any(|(parent, _)| *parent == found.parent);
        let parent = if is_here { found.parent } else { self.parent_of(inode) };
        let mut denied = self.denied_in(domain, (found.target_mount, parent));
        domain.grant(self.inode(inode).identity(), &mut denied);
        denied
    }
}

impl Files {
    /// Checks that a restricted process has `rights` to the target of a path: `EACCES` if not. Returns the
    /// rights that it lacks.
    pub(crate) fn check_restricted(
        &mut self,
        processes: &Processes,
        found: &Found,
        rights: u64,
    ) -> Result<u64, Errno> {
        let Some(domain) = processes[found.process.0].restrictions.clone() else { return Ok(0) };
        let denied = self.denied_to(&domain, found);
        if denies(&denied, rights) {
            Err(Errno::EACCES)
        } else {
            Ok(denied.iter().fold(0, |all, layer| all | layer))
        }
    }

    /// Checks that a restricted process may create or remove an entry in the directory of a path: `EACCES` if
    /// not.
    pub(crate) fn check_restricted_in(
        &mut self,
        processes: &Processes,
        found: &Found,
        rights: u64,
    ) -> Result<(), Errno> {
        let Some(domain) = processes[found.process.0].restrictions.clone() else { return Ok(()) };
        let denied = self.denied_in(&domain, (found.mount, found.parent));
        if denies(&denied, rights) { Err(Errno::EACCES) } else { Ok(()) }
    }

    /// Checks that a restricted process may link or rename a file: `EACCES`, `EXDEV`. `replaced` is the file
    /// that has the new name, or with which it is exchanged.
    pub(super) fn check_refer(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
        [from, to]: [Place; 2],
        (moved, replaced): (InodeKey, Option<InodeKey>),
        (removes, exchanges): (bool, bool),
    ) -> Result<(), Errno> {
        let Some(domain) = processes[process.0].restrictions.clone() else { return Ok(()) };
        let files = self;
        let mut wanted = [0, files.inode(moved).node.right_to_make()];
        if removes {
            wanted[0] |= files.inode(moved).node.right_to_remove();
        }
        if let Some(replaced) = replaced {
            let node = &files.inode(replaced).node;
            wanted[0] |= if exchanges { node.right_to_make() } else { 0 };
            wanted[1] |= if removes { node.right_to_remove() } else { 0 };
        }
        let denied = [from, to].map(|place| files.denied_in(&domain, place));
        if from == to {
            let refused = denies(&denied[0], wanted[0] | wanted[1]);
            return if refused { Err(Errno::EACCES) } else { Ok(()) };
        }
        let mut own = |inode: InodeKey| {
            let mut denied = domain.denied();
            domain.grant(files.inode(inode).identity(), &mut denied);
            (denied, files.inode(inode).node.is_directory())
        };
        let moved = [Some(own(moved)), replaced.filter(|_| exchanges).map(own)];
        Refer { wanted, denied, moved }.check()
    }
}
