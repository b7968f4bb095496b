//! Namespaces as files, namespaces(7).

use crate::call::Call;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, ProcessKey};
use crate::outcome::{SysResult, done};
use crate::process::Processes;
use crate::rights::AccessIds;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{NAMESPACE, Node, ROOT};
use belljar_objects::mounts::BASE;
use belljar_objects::namespaces::*;
use belljar_objects::open_file::OpenFile;
use belljar_objects::virtual_files::VirtualFile;

impl Files {
    /// Kind and number of an open namespace; `None` for other files.
    pub(crate) fn namespace_of(&self, file: FileKey) -> Option<(NamespaceKind, u32)> {
        let FileKind::Virtual { inode, .. } = self.open[file.0].kind else { return None };
        match self.inodes[inode.0].node {
            Node::Virtual(VirtualFile::Namespace(kind, number)) => Some((kind, number)),
            _ => None,
        }
    }
    /// Number of an open mount namespace; `None` for other files.
    pub(crate) fn mount_namespace_of(&self, file: FileKey) -> Option<u32> {
        self.namespace_of(file).filter(|(kind, _)| *kind == NamespaceKind::Mounts).map(|(_, number)| number)
    }

    /// Namespaces that `setns(2)` enters: an open namespace, or those of `kinds` of an open process. `EINVAL`
    /// for other files, and for a namespace of another kind.
    fn named_namespaces(
        &mut self,
        processes: &Processes,
        by: ProcessKey,
        file: FileKey,
        kinds: i32,
    ) -> Result<Vec<(NamespaceKind, u32)>, Errno> {
        match self.namespace_of(file) {
            Some((kind, number)) if kinds == 0 || kinds == kind.flag() => Ok(vec![(kind, number)]),
            None if matches!(self.open(file), OpenFile { kind: FileKind::PidFd(_), .. }) => {
                let pid = self.pidfd_pid(file)?;
                if kinds == 0 || kinds & !ALL_KINDS != 0 {
                    return Err(Errno::EINVAL);
                }
                let process = processes.numbered(pid).ok_or(Errno::ESRCH)?;
                if processes[process.0].ended.is_some() {
                    return Err(Errno::ESRCH);
                }
                processes.may_access(by, process, AccessIds::Real)?;
                // The user namespace first, since it grants the capabilities for the others.
                let mut named: Vec<_> =
                    NamespaceKind::all().filter(|kind| kinds & kind.flag() != 0).collect();
                named.sort_by_key(|kind| *kind != NamespaceKind::User);
                Ok(named.into_iter().map(|kind| (kind, processes.namespace(process, kind))).collect())
            }
            _ => Err(Errno::EINVAL),
        }
    }
}

impl Host {
    /// Inode of a namespace, created if there is none. Its inode number is the number shown for the
    /// namespace.
    pub(crate) fn namespace_inode(&mut self, kind: NamespaceKind, number: u32) -> InodeKey {
        let shown = kind.shown(number);
        let known = |host: &Host, key: InodeKey| {
            let inode = host.files.inodes.get(key.0);
            inode.is_some_and(|inode| inode.identity() == (NAMESPACE, u64::from(shown)))
        };
        if let Some(key) = self.files.namespaces.get(&shown).copied().filter(|key| known(self, *key)) {
            return key;
        }
        let key = self.new_inode(ROOT, Node::Virtual(VirtualFile::Namespace(kind, number)), 0o444);
        let inode = self.files.inode(key);
        (inode.device, inode.number) = (NAMESPACE, u64::from(shown));
        self.files.namespaces.insert(shown, key);
        key
    }
}

impl Call<'_> {
    /// `setns(2)`: enters all namespaces or none.
    pub(crate) fn enter_namespaces(&mut self, file: FileKey, kinds: i32) -> SysResult {
        let named = self.host.files.named_namespaces(&self.host.processes, self.process, file, kinds)?;
        let process = self.host.process(self.process);
        let (mut who, mut of) = (process.credentials.clone(), process.attributes.namespaces);
        let alone = process.threads.len() == 1;
        for (kind, number) in &named {
            let all = &self.host.processes.namespaces;
            match kind {
                NamespaceKind::User if !alone => return Err(Errno::EINVAL),
                NamespaceKind::Time if !alone => return Err(Errno::EUSERS),
                NamespaceKind::Mounts if !self.host.files.mounts.has_namespace(*number) => {
                    return Err(Errno::EINVAL);
                }
                NamespaceKind::Net if !self.host.networks.has(*number) => return Err(Errno::EINVAL),
                _ => {}
            }
            all.may_enter(&who, *kind, *number)?;
            match kind {
                NamespaceKind::User => all.users.enter(&mut who, *number),
                NamespaceKind::Mounts | NamespaceKind::Time => {}
                _ => all.enter(*kind, *number, &mut of)?,
            }
        }
        let kinds = named.iter().fold(0, |flags, (kind, _)| flags | kind.flag());
        self.host.check_namespaces(kinds, !alone)?;
        self.host.networks.left = true;
        let process = self.host.process(self.process);
        process.credentials = who;
        process.set_namespaces(of);
        for (kind, number) in named {
            match kind {
                NamespaceKind::Mounts => self.host.enter_mounts(self.process, number),
                NamespaceKind::Time => {
                    self.host.process(self.process).attributes.time.of_children = number;
                    self.host.processes.enter_time(self.process);
                }
                _ => {}
            }
        }
        done(0)
    }
    /// Opens a namespace and returns the descriptor.
    pub(crate) fn open_namespace(&mut self, kind: NamespaceKind, number: u32) -> SysResult {
        let inode = self.host.namespace_inode(kind, number);
        if kind == NamespaceKind::Mounts {
            self.host.files.mounts.enter(number);
        }
        let kind = FileKind::Virtual { inode, content: None, mounts: None };
        let file = self.host.files.open_file(kind, c::O_RDONLY);
        self.host.files.opened_in(BASE, file);
        self.host.files.inode(inode).opens += 1;
        self.host.install_fd(self.process, file, true, 0).and_then(done)
    }
    /// `ioctl_ns(2)`.
    pub(crate) fn namespace_ioctl(
        &mut self,
        (kind, number): (NamespaceKind, u32),
        request: u64,
        argument: u64,
    ) -> SysResult {
        match request {
            NS_GET_NSTYPE => done(kind.flag() as u32 as u64),
            NS_GET_USERNS | NS_GET_PARENT => {
                let own = &self.host.processes[self.process.0];
                let who = (&own.credentials, own.attributes.namespaces);
                let all = &self.host.processes.namespaces;
                let (kind, number) = all.related(who, kind, number, request)?;
                self.open_namespace(kind, number)
            }
            NS_GET_OWNER_UID if kind == NamespaceKind::User => {
                let owner = self.host.processes.namespaces.users.owner(number);
                let shown = self.host.processes.shown_id(self.process, IdKind::User, owner);
                self.write(argument, &shown)?;
                done(0)
            }
            NS_GET_OWNER_UID => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTTY),
        }
    }
}
