//! `/proc/<pid>/mounts`, `mountinfo` and `mountstats`: the mounts that a process sees.

use crate::files::Files;
use crate::files::mounts::SEEDS;
use crate::host::Host;
use crate::ids::{MountKey, ProcessKey};
use belljar_objects::mounts::text::MountLine;
pub use belljar_objects::mounts::text::MountsForm;

impl Files {
    /// A place's path in its own file system.
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
    fn lines(&self, namespace: u32) -> Vec<MountLine<'_>> {
        let root = self.mounts.root_of(namespace);
        let mut lines = Vec::new();
        for key in self.mounts.tree(root) {
            let mount = self.mounts.get(key);
            let Some(system) = self.mounts.system(mount.device) else { continue };
            let peers = [("shared", mount.group), ("master", mount.master)];
            let mut peers: String = peers
                .iter()
                .filter_map(|(name, group)| group.map(|group| format!("{name}:{group} ")))
                .collect();
            if mount.unbindable {
                peers.push_str("unbindable ");
            }
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
                peers,
                system,
            });
        }
        let first = self.mounts.get(root);
        // They lie in the first file system, wherever that is now.
        if first.device == SEEDS[0].1 {
            let seeds = SEEDS.iter().enumerate().skip(1);
            let shown = seeds.filter_map(|(n, (path, device, _, source))| {
                let system = self.mounts.system(*device)?;
                let parent = if path[1..].contains('/') { 2 } else { 1 };
                Some(MountLine {
                    id: n as u32 + 1,
                    parent,
                    device: *device,
                    root: b"/".to_vec(),
                    path: path.as_bytes().to_vec(),
                    source: source.as_bytes(),
                    flags: system.flags,
                    peers: String::new(),
                    system,
                })
            });
            let shown: Vec<MountLine<'_>> = shown.collect();
            lines.splice(1..1, shown);
        }
        lines
    }
}

impl Host {
    /// The mounts that a process sees.
    pub(super) fn mounts_text(&self, process: ProcessKey, form: MountsForm) -> Vec<u8> {
        let process = &self.processes[process.0];
        self.mounts_seen(process.mount_namespace, &process.root, form)
    }
    /// The mounts of a namespace below a root, whose paths begin there.
    pub(super) fn mounts_seen(&self, namespace: u32, root: &[u8], form: MountsForm) -> Vec<u8> {
        let mut text = String::new();
        for mut line in self.files.lines(namespace) {
            if root != b"/" && !root.is_empty() {
                match line.path.strip_prefix(root) {
                    Some([]) => line.path = b"/".to_vec(),
                    Some(rest) if rest[0] == b'/' => line.path = rest.to_vec(),
                    _ => continue,
                }
            }
            line.put(form, &mut text);
        }
        text.into_bytes()
    }
}
