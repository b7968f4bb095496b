//! Namespaces as files, namespaces(7): but for mounts and time there is one of each kind, in which all processes of a host are.

use super::VirtualFile;
use crate::call::Call;
use crate::files::Files;
use crate::files::tree::{NAMESPACE, Node, ROOT};
use crate::files::{FileKind, OpenFile};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::{Errno, c};

/// The requests of `ioctl_ns(2)`.
const NS_GET_USERNS: u64 = 0xb701;
const NS_GET_PARENT: u64 = 0xb702;
const NS_GET_NSTYPE: u64 = 0xb703;
const NS_GET_OWNER_UID: u64 = 0xb704;

/// The flag of `clone(2)` that makes a namespace of this kind.
fn flag_of(kind: &str) -> i32 {
    match kind {
        "cgroup" => c::CLONE_NEWCGROUP,
        "ipc" => c::CLONE_NEWIPC,
        "mnt" => c::CLONE_NEWNS,
        "net" => c::CLONE_NEWNET,
        "pid" => c::CLONE_NEWPID,
        "time" => c::CLONE_NEWTIME,
        "user" => c::CLONE_NEWUSER,
        _ => c::CLONE_NEWUTS,
    }
}

impl Files {
    /// The kind and number of the namespace that an open file is, if it is one.
    pub(crate) fn namespace_of(&mut self, file: FileKey) -> Option<(&'static str, u32)> {
        let FileKind::Virtual { inode, .. } = self.open(file).kind else { return None };
        match self.inode(inode).node {
            Node::Virtual(VirtualFile::Namespace(kind, number)) => Some((kind, number)),
            _ => None,
        }
    }
}

/// The first mount namespace's number, and what those that programs make begin behind.
const FIRST_MOUNTS: u32 = 0xefff_fff8;
const LATER_MOUNTS: u32 = 0xf000_0000;
/// The same of time namespaces.
const FIRST_TIME: u32 = 0xefff_fffa;
const LATER_TIMES: u32 = 0xf100_0000;

impl VirtualFile {
    /// The mount namespace that it is, if it is one.
    pub(crate) fn mount_namespace(&self) -> Option<u32> {
        match self {
            VirtualFile::Namespace("mnt", number) => Some(number.checked_sub(LATER_MOUNTS).unwrap_or(0)),
            _ => None,
        }
    }
}

impl Files {
    /// The mount namespace that an open file holds, if it is one.
    pub(crate) fn mount_namespace_of(&self, file: FileKey) -> Option<u32> {
        let open = &self.open[file.0];
        let FileKind::Virtual { inode, .. } = open.kind else { return None };
        match &self.inodes[inode.0].node {
            Node::Virtual(file) => file.mount_namespace(),
            _ => None,
        }
    }
}

impl Host {
    /// Kind and number of the namespace that a link of a process leads to, of the kinds of which there may be several.
    pub(super) fn namespace_behind(&self, pid: i32, link: &str) -> Result<(&'static str, u32), Errno> {
        let process = match pid {
            super::init::INIT => None,
            pid => Some(&self.processes[self.living(pid).ok_or(Errno::ENOENT)?.0]),
        };
        let (mounts, time) =
            process.map_or_else(Default::default, |of| (of.mount_namespace, of.attributes.time));
        let later = |first, later, number| if number == 0 { first } else { later + number };
        Ok(match link {
            "mnt" => ("mnt", later(FIRST_MOUNTS, LATER_MOUNTS, mounts)),
            "time" => ("time", later(FIRST_TIME, LATER_TIMES, time.own)),
            _ => ("time", later(FIRST_TIME, LATER_TIMES, time.of_children)),
        })
    }
    /// The inode of a namespace, whose number it has.
    pub(crate) fn namespace_inode(&mut self, kind: &'static str, number: u32) -> InodeKey {
        let known = |host: &Host, key: InodeKey| {
            let inode = host.files.inodes.get(key.0);
            inode.is_some_and(|inode| inode.identity() == (NAMESPACE, u64::from(number)))
        };
        if let Some(key) = self.files.namespaces.get(&number).copied().filter(|key| known(self, *key)) {
            return key;
        }
        let key = self.new_inode(ROOT, Node::Virtual(VirtualFile::Namespace(kind, number)), 0o444);
        let inode = self.files.inode(key);
        (inode.device, inode.number) = (NAMESPACE, u64::from(number));
        self.files.namespaces.insert(number, key);
        key
    }
    /// The namespaces of mounts and of time that `setns(2)` moves a process to, if it moves it; it is in all others
    /// already. `EINVAL` for what is no namespace or not of the kind that is asked for, and for the user namespace that
    /// the process is in.
    pub(crate) fn check_setns(
        &mut self,
        file: FileKey,
        kinds: i32,
    ) -> Result<(Option<u32>, Option<u32>), Errno> {
        const ALL: i32 = c::CLONE_NEWCGROUP
            | c::CLONE_NEWIPC
            | c::CLONE_NEWNS
            | c::CLONE_NEWNET
            | c::CLONE_NEWPID
            | c::CLONE_NEWTIME
            | c::CLONE_NEWUSER
            | c::CLONE_NEWUTS;
        let entered = match self.files.namespace_of(file) {
            Some((kind, _)) if kinds == 0 || kinds == flag_of(kind) => flag_of(kind),
            None if matches!(self.files.open(file), OpenFile { kind: FileKind::PidFd(_), .. }) => {
                let pid = self.files.pidfd_pid(file)?;
                if kinds == 0 || kinds & !ALL != 0 {
                    return Err(Errno::EINVAL);
                }
                if !self.pids.contains_key(&pid) {
                    return Err(Errno::ESRCH);
                }
                kinds
            }
            _ => return Err(Errno::EINVAL),
        };
        if entered & c::CLONE_NEWUSER != 0 {
            return Err(Errno::EINVAL);
        }
        let (mut mounts, mut time) = (None, None);
        if entered & c::CLONE_NEWNS != 0 {
            let number = self.namespace_named(file, "mnt")?;
            mounts = Some(VirtualFile::Namespace("mnt", number).mount_namespace().unwrap_or(0));
        }
        if entered & c::CLONE_NEWTIME != 0 {
            time = Some(self.namespace_named(file, "time")?.saturating_sub(LATER_TIMES));
        }
        let has_mounts = mounts.is_none_or(|number| self.files.mounts.has_namespace(number));
        let has_time = time.is_none_or(|number| self.processes.time_namespaces.contains(number));
        if has_mounts && has_time { Ok((mounts, time)) } else { Err(Errno::EINVAL) }
    }
    /// The number of the namespace that an open file is, or of the one that a link of its process leads to.
    fn namespace_named(&mut self, file: FileKey, link: &str) -> Result<u32, Errno> {
        match self.files.namespace_of(file) {
            Some((_, number)) => Ok(number),
            None => Ok(self.namespace_behind(self.files.pidfd_pid(file)?, link)?.1),
        }
    }
}

impl Call<'_> {
    /// `ioctl_ns(2)`. `EPERM` for the parent, which is out of reach.
    pub(crate) fn namespace_ioctl(&mut self, kind: &str, request: u64) -> SysResult {
        match request {
            NS_GET_NSTYPE => done(flag_of(kind) as u32 as u64),
            NS_GET_USERNS if kind == "user" => Err(Errno::EPERM),
            NS_GET_PARENT if matches!(kind, "user" | "pid") => Err(Errno::EPERM),
            NS_GET_PARENT | NS_GET_OWNER_UID if kind != "user" => Err(Errno::EINVAL),
            _ => Err(Errno::ENOTTY),
        }
    }
}
