//! `/proc/<pid>/mounts`, `mountinfo` and `mountstats`: the mounts that a process sees.

use crate::files::Files;
use crate::ids::{InodeKey, MountKey};
use crate::process::Processes;
use belljar_objects::inode::Node;
use belljar_objects::mounts::SEEDS;
use belljar_objects::mounts::text::{MountLine, MountsForm};
use belljar_objects::virtual_files::VirtualFile;

impl Files {
    /// Path of a mount's root in its file system.
    fn path_in_system(&self, mount: MountKey) -> Vec<u8> {
        let (mut at, mut path) = (self.mounts.get(mount).root, Vec::new());
        let device = self.inodes[at.0].device;
        while let Some((parent, name)) = self.inodes[at.0].links.first()
            && self.mounts.system(device).is_none_or(|system| system.root != at)
        {
            path = [b"/", &name[..], &path[..]].concat();
            at = *parent;
        }
        if path.is_empty() { b"/".to_vec() } else { path }
    }
    /// Mounts of a namespace at or below `root`, with paths relative to it.
    pub(crate) fn shown_mounts(&self, namespace: u32, root: &[u8]) -> Vec<MountLine<'_>> {
        let mut shown = self.lines(namespace);
        if root != b"/" && !root.is_empty() {
            shown.retain_mut(|line| {
                let rest = line.path.strip_prefix(root).map(<[u8]>::to_vec);
                match rest {
                    Some(rest) if rest.is_empty() => line.path = b"/".to_vec(),
                    Some(rest) if rest[0] == b'/' => line.path = rest,
                    _ => return false,
                }
                true
            });
        }
        shown
    }
    /// Mounts of a namespace at or below `root` as text.
    pub(crate) fn mounts_text(&self, namespace: u32, root: &[u8], form: MountsForm) -> Vec<u8> {
        let mut text = String::new();
        for line in self.shown_mounts(namespace, root) {
            line.put(form, &mut text);
        }
        text.into_bytes()
    }
    fn lines(&self, namespace: u32) -> Vec<MountLine<'_>> {
        let root = self.mounts.root_of(namespace);
        let mut lines = Vec::new();
        for key in self.mounts.tree(root) {
            let mount = self.mounts.get(key);
            let Some(system) = self.mounts.system(mount.device) else { continue };
            lines.push(MountLine {
                id: mount.id,
                parent: mount.at.map_or(0, |at| self.shown_mount(at)),
                device: mount.device,
                root: self.path_in_system(key),
                path: match mount.at {
                    Some(at) => self.path_of_place(at).unwrap_or_default(),
                    None => b"/".to_vec(),
                },
                source: &mount.source,
                flags: mount.flags,
                group: mount.group,
                master: mount.master,
                unbindable: mount.unbindable,
                system,
            });
        }
        let first = self.mounts.get(root);
        // In the initial namespace the seeds are listed after the root mount, while that is the first file
        // system. In later namespaces they are ordinary mounts.
        if namespace == 0 && first.device == SEEDS[0].1 {
            let seeds = SEEDS.iter().enumerate().skip(1);
            let shown = seeds.filter_map(|(n, (path, device, _, source))| {
                let system = self.mounts.system(*device)?;
                let parent = if path[1..].contains('/') { 2 } else { first.id };
                Some(MountLine {
                    id: n as u32 + 1,
                    parent,
                    device: *device,
                    root: b"/".to_vec(),
                    path: path.as_bytes().to_vec(),
                    source: source.as_bytes(),
                    flags: system.flags,
                    group: None,
                    master: None,
                    unbindable: false,
                    system,
                })
            });
            let shown: Vec<MountLine<'_>> = shown.collect();
            lines.splice(1..1, shown);
        }
        lines
    }

    /// Namespace of a file that lists mounts, and its number of changes so far; `None` for other files.
    pub(crate) fn watched_mounts(&self, processes: &Processes, inode: InodeKey) -> Option<(u32, u64)> {
        let Node::Virtual(VirtualFile::Process(pid, file) | VirtualFile::Thread(pid, _, file)) =
            &self.inodes[inode.0].node
        else {
            return None;
        };
        let process = processes.by_pid.get(pid).map(|process| &processes[process.0]);
        let namespace = process.map_or(0, |process| process.mount_namespace);
        MountsForm::of(*file).map(|_| (namespace, self.mounts.changes(namespace)))
    }
}
