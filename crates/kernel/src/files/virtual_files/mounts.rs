//! `/proc/<pid>/mounts`, `mountinfo` and `mountstats`: the mounts that a process sees.

use crate::files::Files;
use crate::files::mounts::SEEDS;
use crate::host::Host;
use crate::ids::{MountKey, ProcessKey};
use belljar_linux_abi::c;
use belljar_objects::mounts::{FileSystem, MountFlags};
use std::fmt::Write;

/// The file that shows mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountsForm {
    /// `mounts`.
    Mounts,
    /// `mountinfo`.
    Mountinfo,
    /// `mountstats`.
    Mountstats,
}

/// One line's content.
struct Line<'a> {
    id: u32,
    parent: u32,
    device: u64,
    root: Vec<u8>,
    path: Vec<u8>,
    source: &'a [u8],
    flags: MountFlags,
    /// What `mountinfo` says of peers.
    peers: String,
    system: &'a FileSystem,
}

/// As seq_file(9) writes names into such lines.
fn mangled(bytes: &[u8]) -> String {
    let mut text = Vec::new();
    for byte in bytes {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' | b'#' => {
                text.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            }
            byte => text.push(*byte),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

impl Line<'_> {
    fn put(&self, form: MountsForm, text: &mut String) {
        let ro = |flags: MountFlags| if flags.contains(MountFlags::READ_ONLY) { "ro" } else { "rw" };
        let (path, kind) = (mangled(&self.path), self.system.kind);
        let source = if self.source.is_empty() { "none".into() } else { mangled(self.source) };
        let of_system = self.system.flags & MountFlags::OF_FILE_SYSTEM;
        let of_system = if self.system.seed { MountFlags::empty() } else { of_system };
        let both = self.flags | of_system;
        let options = &self.system.options;
        let _ = match form {
            MountsForm::Mounts => {
                writeln!(text, "{source} {path} {kind} {}{}{options} 0 0", ro(both), both.shown())
            }
            MountsForm::Mountinfo => writeln!(
                text,
                "{} {} {}:{} {} {path} {}{} {}- {kind} {source} {}{}{options}",
                self.id,
                self.parent,
                c::major(self.device),
                c::minor(self.device),
                mangled(&self.root),
                ro(self.flags),
                (self.flags & MountFlags::OF_MOUNT).shown(),
                self.peers,
                ro(of_system),
                of_system.shown(),
            ),
            MountsForm::Mountstats => writeln!(text, "device {source} mounted on {path} with fstype {kind}"),
        };
    }
}

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
    fn lines(&self, namespace: u32) -> Vec<Line<'_>> {
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
            lines.push(Line {
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
                Some(Line {
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
            let shown: Vec<Line<'_>> = shown.collect();
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
