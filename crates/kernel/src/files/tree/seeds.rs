//! Initial content of the tree, where it differs from the machine.

use crate::config::HostConfig;
use crate::files::Files;
use crate::ids::InodeKey;
use belljar_linux_abi::c;
use belljar_machine::Machine;
use belljar_netstack::StackConfig;
use belljar_objects::devices::{DEVICES, Device};
use belljar_objects::inode::{
    Child, Content, DEV, DISK, Directory, DirectorySource, Meta, Node, PROC, PTS, ROOT, RUN, SHM, SYS, Store,
    Times,
};
use belljar_objects::loops::{LOOP_MODE, LOOPS_AT_START, MAJOR};
use belljar_objects::sdk::{LIBRARY, SdkFiles};
use belljar_objects::system_files::SystemText;
use belljar_objects::virtual_files::table::{ETC_FILES, LINKS};
use belljar_objects::virtual_files::{InterfaceFile, VirtualFile};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories that start without the machine's files: path, device number and mode.
const DIRECTORIES: &[(&str, u64, u32)] = &[
    ("/dev", DEV, 0o755),
    ("/dev/net", DEV, 0o755),
    ("/dev/pts", PTS, 0o755),
    ("/dev/shm", SHM, 0o1777),
    ("/proc", PROC, 0o555),
    ("/run", RUN, 0o755),
    ("/run/lock", RUN, 0o1777),
    ("/sys", SYS, 0o555),
    ("/sys/fs/cgroup", SYS, 0o555),
    ("/tmp", DISK, 0o1777),
    ("/var/tmp", DISK, 0o1777),
];

/// Files of a PTP hardware clock in `/sys/class/ptp/ptp<n>`, besides `dev`.
const PTP_FILES: &[(&str, &str)] = &[
    ("clock_name", "belljar\n"),
    ("max_adjustment", "62499999\n"),
    ("max_phase_adjustment", "0\n"),
    ("n_alarms", "0\n"),
    ("n_external_timestamps", "0\n"),
    ("n_periodic_outputs", "0\n"),
    ("n_programmable_pins", "0\n"),
    ("pps_available", "0\n"),
];

/// Fills the tree of a new host.
pub fn new_tree(files: &mut Files, config: &HostConfig, network: &StackConfig, machine: &mut dyn Machine) {
    let now = config.epoch_secs as i64 * 1_000_000_000;
    let mut tree = Seeds { files, machine, now, hiding: false };
    let machines = config.root == Path::new("/");
    tree.add(
        DISK,
        0o755,
        Node::Directory(Directory {
            source: DirectorySource::Lower(config.root.clone()),
            own_root: Some(config.directory.join("fs")),
            is_root: true,
            ..Directory::default()
        }),
    );
    for (path, device, mode) in DIRECTORIES {
        let source = match *path {
            "/proc" => DirectorySource::Processes(0),
            "/sys" => DirectorySource::Table("/sys"),
            // The image's own files are kept.
            "/run" | "/tmp" | "/var/tmp" if !machines => tree.lower(Path::new(path)),
            _ => DirectorySource::None,
        };
        let directory = Directory { source, ..Directory::default() };
        tree.mount(Path::new(path), *device, *mode, directory);
    }
    for (path, mode, file) in ETC_FILES {
        tree.leaf(path, *mode, Node::Virtual(file.clone()));
    }
    for (path, device) in DEVICES {
        tree.leaf(path, 0o666, Node::Device(*device));
    }
    for number in 0..LOOPS_AT_START {
        let device = Device::Block(MAJOR << 8 | number);
        tree.leaf(&format!("/dev/loop{number}"), LOOP_MODE, Node::Device(device));
    }
    if !network.links.is_empty() || !network.on_graph {
        let table = |path| Directory { source: DirectorySource::Table(path), ..Directory::default() };
        tree.mount(Path::new("/sys/class"), SYS, 0o755, table("/sys/class"));
        tree.mount(Path::new("/sys/class/net"), SYS, 0o755, Directory::default());
        let graph = network.on_graph.then_some("eth0");
        let links = network.links.iter().map(|link| &*link.name);
        for (number, name) in ["lo"].into_iter().chain(graph).chain(links).enumerate() {
            for (file, kind) in InterfaceFile::all() {
                let path = format!("/sys/class/net/{name}/{file}");
                tree.leaf(&path, 0o444, Node::Virtual(VirtualFile::Interface(number, kind)));
            }
        }
    }
    let names = network.links.iter().filter(|link| link.ptp.is_some()).map(|link| &*link.name);
    for (number, name) in names.enumerate() {
        tree.leaf(&format!("/dev/ptp{number}"), 0o600, Node::Device(Device::Ptp(number as u32)));
        let folder = format!("/sys/class/ptp/ptp{number}");
        for (file, text) in PTP_FILES {
            let text = VirtualFile::System(SystemText::Text(text));
            tree.leaf(&format!("{folder}/{file}"), 0o444, Node::Virtual(text));
        }
        let dev = VirtualFile::Written(format!("248:{number}\n").into_bytes());
        tree.leaf(&format!("{folder}/dev"), 0o444, Node::Virtual(dev));
        let link = Node::Symlink { target: folder.into_bytes(), own: false };
        tree.leaf(&format!("/sys/class/net/{name}/device/ptp/ptp{number}"), 0o777, link);
    }
    for (path, target) in LINKS {
        tree.leaf(path, 0o777, Node::Symlink { target: target.as_bytes().to_vec(), own: false });
    }
    tree.hiding = true;
    let directory = Directory {
        source: DirectorySource::Own,
        own: true,
        hidden: true,
        own_root: Some(config.directory.clone()),
        ..Directory::default()
    };
    // Processes start in this directory, whatever their user, and must be able to write to it.
    let mode = if config.processes.iter().any(|process| process.user.is_some()) { 0o1777 } else { 0o755 };
    tree.mount(&config.directory, DISK, mode, directory);
    tree.hiding = false;
    if let Some(sdk) = &config.sdk {
        tree.add_sdk(sdk);
    }
    for path in &config.shared {
        let directory = Directory {
            source: DirectorySource::Own,
            own: true,
            shared: true,
            own_root: Some(path.clone()),
            ..Directory::default()
        };
        tree.mount(path, DISK, 0o755, directory);
    }
    if !machines {
        return;
    }
    // Files named by the experiment must be found at any path.
    tree.expose(&config.working_directory);
    for path in &config.exposed {
        tree.expose(path);
    }
    for process in &config.processes {
        tree.expose(Path::new(&process.path));
    }
}

struct Seeds<'a> {
    files: &'a mut Files,
    machine: &'a mut dyn Machine,
    now: i64,
    /// True if intermediate directories are created hidden.
    hiding: bool,
}

impl Seeds<'_> {
    fn add(&mut self, device: u64, mode: u32, node: Node) -> InodeKey {
        let meta = Meta { mode, uid: 0, gid: 0, times: Times::all(self.now), ..Meta::default() };
        self.files.add_inode(device, node, meta)
    }
    fn directory(&mut self, key: InodeKey) -> &mut Directory {
        match &mut self.files.inodes[key.0].node {
            Node::Directory(directory) => directory,
            other => unreachable!("a seed below something that is no directory: {other:?}"),
        }
    }
    /// Source for a directory at this path of the host's root; none if it is not a directory there. A
    /// symbolic link is not followed, since its target may be outside the root.
    fn lower(&mut self, path: &Path) -> DirectorySource {
        if self.files.root == Path::new("/") {
            return DirectorySource::Lower(path.to_owned());
        }
        let native = self.files.root.join(path.strip_prefix("/").unwrap_or(path));
        match self.machine.stat(&native) {
            Ok(stat) if stat.mode & c::S_IFMT == c::S_IFDIR => DirectorySource::Lower(native),
            _ => DirectorySource::None,
        }
    }
    fn name(&mut self, parent: InodeKey, name: &[u8], inode: InodeKey) {
        self.directory(parent).entries.insert(name.into(), Child::Known(inode));
        self.files.inodes[inode.0].links.push((parent, name.into()));
    }
    /// Directory at `path`; missing ones are created, with the machine's directory as source where there is
    /// one.
    fn directory_at(&mut self, path: &Path) -> InodeKey {
        let mut at = ROOT;
        let mut seen = PathBuf::from("/");
        for part in path.components().skip(1) {
            let name = part.as_os_str().as_bytes();
            seen.push(part);
            let device = self.files.inodes[at.0].device;
            let lower = matches!(self.directory(at).source, DirectorySource::Lower(_));
            at = match self.directory(at).entries.get(name) {
                Some(Child::Known(inode)) => *inode,
                _ => {
                    let source = if lower { self.lower(&seen) } else { DirectorySource::None };
                    let hidden = self.hiding && !lower;
                    let directory = Directory { parent: at, source, hidden, ..Directory::default() };
                    let inode = self.add(device, 0o755, Node::Directory(directory));
                    self.name(at, name, inode);
                    inode
                }
            };
        }
        at
    }
    fn mount(&mut self, path: &Path, device: u64, mode: u32, mut directory: Directory) {
        let parent = self.directory_at(path.parent().unwrap_or(Path::new("/")));
        directory.parent = parent;
        let inode = self.add(device, mode, Node::Directory(directory));
        let name = path.file_name().map_or(&b""[..], |name| name.as_bytes());
        self.name(parent, name, inode);
    }
    fn leaf(&mut self, path: &str, mode: u32, node: Node) {
        let path = Path::new(path);
        let parent = self.directory_at(path.parent().unwrap_or(Path::new("/")));
        let device = self.files.inodes[parent.0].device;
        let inode = self.add(device, mode, node);
        let name = path.file_name().map_or(&b""[..], |name| name.as_bytes());
        self.name(parent, name, inode);
    }
    /// Files for Antithesis' SDKs.
    fn add_sdk(&mut self, sdk: &SdkFiles) {
        let library = Content::new(Store::Lower(sdk.library.clone()), sdk.size);
        self.leaf(LIBRARY, 0o755, Node::Regular(library));
        let directory = Directory {
            source: DirectorySource::Own,
            own: true,
            shared: true,
            hidden: true,
            own_root: Some(sdk.counts.clone()),
            ..Directory::default()
        };
        self.hiding = true;
        self.mount(&sdk.counts, DISK, 0o1777, directory);
        self.hiding = false;
    }
    /// Exposes a file of the machine below a directory that otherwise starts empty.
    fn expose(&mut self, path: &Path) {
        let (mut at, mut native) = (ROOT, PathBuf::from("/"));
        for part in path.components().skip(1) {
            native.push(part);
            let device = self.files.inodes[at.0].device;
            let Node::Directory(directory) = &mut self.files.inodes[at.0].node else { return };
            match directory.entries.get(part.as_os_str().as_bytes()) {
                Some(Child::Known(inode)) => at = *inode,
                Some(_) => return,
                None => {
                    if directory.source == DirectorySource::None && [DISK, RUN, SHM].contains(&device) {
                        directory.entries.insert(part.as_os_str().as_bytes().into(), Child::Lower(native));
                    }
                    return;
                }
            }
        }
        // The directory was created hidden as a parent of the results directory.
        let directory = self.directory(at);
        if directory.hidden && directory.source == DirectorySource::None {
            directory.source = DirectorySource::Lower(native);
        }
    }
}
