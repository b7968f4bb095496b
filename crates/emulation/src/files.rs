//! File system of a host: that of the machine, below a layer of the host's own.
//!
//! Each directory in the machine's root is the lower directory of an overlay whose upper directory is
//! `fs/DIRECTORY` in the host's folder of the results, which thus holds the files that the host has
//! written. An overlay of the whole root would be one mount less, but in a user namespace the kernel
//! refuses it because of the mounts below the root (`clone_private_mount`). A directory that cannot be
//! overlaid, such as one with mounts of its own, is bound read-only, as it is on the machine. `/tmp`,
//! `/run`, `/var/tmp` and `/dev/shm` start empty; `/dev`, `/proc` and `/sys` are the host's own.
//!
//! A host with a root of its own has one overlay of that directory, below a `skeleton` of mount points and
//! files that every host has.
//!
//! Where the results themselves are on an overlay (in a container), the kernel refuses them as upper
//! directory. The upper directory is then on a tmpfs, and is copied to the results at the end.

use crate::dilation::IN_PROC;
use crate::error::{Doing, Error, Result};
use crate::protocol::{DilatedSetup, HostSetup};
use belljar_platform::dilate::places;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Directories in the root that are not taken from the machine.
const OWN: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];
/// Directories that start empty.
const VOLATILE: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/dev/shm"];
/// Devices of the machine that hosts have.
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "net/tun"];
/// Mode of directories that are writable for all users.
const FOR_ALL: u32 = 0o1777;

/// File system of a host, after [`Files::enter`].
pub struct Files {
    /// Upper directory on a tmpfs, and the folder of the results to which it is copied.
    memory: Option<(File, File)>,
    /// Directories of the host's own root within those that start empty.
    kept: Vec<PathBuf>,
}

impl Files {
    /// Makes the host's root and changes to it. Returns the differences from the description of this
    /// module, for the user.
    pub fn enter(setup: &HostSetup) -> Result<(Files, Vec<String>)> {
        let root = setup.scratch.join("root");
        fs::create_dir_all(&root).doing(format!("making '{}'", root.display()))?;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(None::<&str>, "/", None::<&str>, private, None::<&str>).doing("making mounts private")?;
        let results = setup.directory.join("fs");
        fs::create_dir_all(&results).doing(format!("making '{}'", results.display()))?;
        let mut layers = Layers::choose(setup, &results)?;
        let mut kept = Vec::new();
        let notes = match &setup.root {
            None => machines(&root, &mut layers)?,
            Some(lower) => {
                skeleton(lower, setup)?;
                layers.whole(lower, setup, &root)?;
                let there = |path: &&&str| lower.join(path.trim_start_matches('/')).is_dir();
                for volatile in VOLATILE.iter().filter(there) {
                    let inside = sorted(&lower.join(volatile.trim_start_matches('/')))?;
                    let inside =
                        inside.iter().filter(|path| path.is_dir()).filter_map(|path| path.file_name());
                    kept.extend(inside.map(|name| Path::new(volatile).join(name)));
                }
                Vec::new()
            }
        };
        own_directories(&root, setup, &results)?;
        let exposed = setup.exposed.iter().filter(|_| setup.root.is_none());
        for directory in exposed.filter(|d| VOLATILE.iter().any(|v| d.starts_with(v))) {
            bind_same(&root, directory, true)?;
        }
        for directory in &setup.shared {
            bind_same(&root, directory, false)?;
        }
        bind_same(&root, &setup.directory, false)?;
        if let Some(DilatedSetup { folder, .. }) = &setup.dilated {
            let at = root.join(places::FOLDER.trim_start_matches('/'));
            make(&at, 0o755)?;
            bind(folder, &at, true)?;
            for name in IN_PROC {
                bind(&folder.with_file_name(format!(".{name}")), &root.join("proc").join(name), false)?;
            }
        }
        for (path, content) in setup.files.iter().filter(|_| setup.root.is_none()) {
            place(&root, path, content)?;
        }
        nix::unistd::chdir(&root).doing("entering the host's root")?;
        nix::unistd::pivot_root(".", ".").doing("changing the root")?;
        umount2(".", MntFlags::MNT_DETACH).doing("leaving the machine's root")?;
        nix::unistd::chdir(&setup.directory).doing("entering the host's folder")?;
        Ok((Files { memory: layers.copied, kept }, notes))
    }

    /// Empties the directories that start empty.
    pub fn boot(&self) {
        for directory in VOLATILE {
            for entry in sorted(Path::new(directory)).unwrap_or_default() {
                if self.kept.contains(&entry) {
                    continue;
                }
                // Entries that cannot be removed, such as mounts, stay.
                let is_dir = fs::symlink_metadata(&entry).is_ok_and(|m| m.is_dir());
                let _ = if is_dir { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
            }
        }
        let _ = make(Path::new("/run/lock"), FOR_ALL);
    }

    /// Copies the upper directory to the results, if it is on a tmpfs.
    pub fn finish(&self) -> Result<()> {
        let Some((from, to)) = &self.memory else { return Ok(()) };
        let path = |file: &File| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        copy(&path(from), &path(to)).doing("copying the host's files to the results")
    }
}

/// Mounts overlays of the machine's directories in an empty root. Returns the differences from the
/// description of this module.
fn machines(root: &Path, layers: &mut Layers) -> Result<Vec<String>> {
    memory(root, "0755")?;
    let mut notes = Vec::new();
    for entry in sorted(Path::new("/"))? {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if OWN.contains(&&*name) {
            continue;
        }
        let inside = root.join(&name);
        let kind = fs::symlink_metadata(&entry).doing(format!("looking at '{}'", entry.display()))?;
        if kind.is_symlink() {
            let to = fs::read_link(&entry).doing(format!("reading '{}'", entry.display()))?;
            symlink(to, &inside).doing(format!("making '{}'", inside.display()))?;
        } else if kind.is_dir() {
            make(&inside, 0o755)?;
            if let Err(error) = layers.overlay(&entry, &inside) {
                bind(&entry, &inside, true)?;
                notes.push(format!("'{}' can only be read: {error}", entry.display()));
            }
        }
    }
    Ok(notes)
}

/// Skeleton directory: the overlay layer above a host's own root and below the upper directory.
fn skeleton_of(setup: &HostSetup) -> PathBuf {
    setup.scratch.join("skeleton")
}

/// Makes the skeleton: mount points, and the files that identify the host and configure its names.
fn skeleton(lower: &Path, setup: &HostSetup) -> Result<()> {
    let top = skeleton_of(setup);
    let inside = |path: &Path| top.join(path.strip_prefix("/").unwrap_or(path));
    make(&top, 0o755)?;
    for (name, mode) in [("dev", 0o755), ("proc", 0o555), ("sys", 0o555), ("run/lock", FOR_ALL)] {
        make(&top.join(name), mode)?;
    }
    for name in ["tmp", "var/tmp"] {
        make(&top.join(name), FOR_ALL)?;
    }
    let dilated = setup.dilated.iter().map(|_| Path::new(places::FOLDER));
    for path in setup.shared.iter().map(PathBuf::as_path).chain([&*setup.directory]).chain(dilated) {
        make(&inside(path), 0o755)?;
    }
    for (path, content) in &setup.files {
        let at = inside(Path::new(path));
        if let Some(folder) = at.parent() {
            make(folder, 0o755)?;
        }
        fs::write(&at, content).doing(format!("placing '{path}'"))?;
        fs::set_permissions(&at, Permissions::from_mode(0o644)).doing(format!("placing '{path}'"))?;
    }
    // Directories that exist in the root take its owners and modes.
    like(&top, lower)
}

/// Copies owner and mode from directories below `lower` to those of the same names below `directory`.
fn like(directory: &Path, lower: &Path) -> Result<()> {
    let Ok(meta) = fs::symlink_metadata(lower) else { return Ok(()) };
    if !meta.is_dir() {
        return Ok(());
    }
    // The owner may not be mapped in the user namespace.
    let _ = std::os::unix::fs::chown(directory, Some(meta.uid()), Some(meta.gid()));
    make(directory, meta.mode() & 0o7777)?;
    for entry in sorted(directory)?.iter().filter(|entry| entry.is_dir()) {
        like(entry, &lower.join(entry.file_name().unwrap_or_default()))?;
    }
    Ok(())
}

/// Upper and work directories of overlays.
struct Layers {
    upper: PathBuf,
    work: PathBuf,
    options: &'static str,
    copied: Option<(File, File)>,
    count: usize,
}

impl Layers {
    fn choose(setup: &HostSetup, results: &Path) -> Result<Layers> {
        // In a user namespace overlayfs stores its attributes as user attributes. Files need not survive a
        // crash of the machine: without `volatile` the end of a host waits for the disk.
        let options = if in_user_namespace() { ",volatile,userxattr" } else { ",volatile" };
        let work = setup.scratch.join("work");
        let mut layers = Layers { upper: results.to_owned(), work, options, copied: None, count: 0 };
        let trial = setup.scratch.join("trial");
        fs::create_dir_all(&trial).doing(format!("making '{}'", trial.display()))?;
        let plain = Path::new("/usr");
        if layers.overlay(plain, &trial).is_err() {
            let memory_at = setup.scratch.join("memory");
            fs::create_dir_all(&memory_at).doing(format!("making '{}'", memory_at.display()))?;
            memory(&memory_at, "0755")?;
            layers.upper = memory_at.join("upper");
            layers.work = memory_at.join("work");
            fs::create_dir_all(&layers.upper).doing("making a layer in memory")?;
            layers.overlay(plain, &trial).map_err(|error| {
                Error::new(format!(
                    "hosts cannot have files of their own: {error}; the kernel needs overlayfs (`modprobe overlay`), \
                     and a mount namespace that may use it"
                ))
            })?;
            let open = |path: &Path| File::open(path).doing(format!("opening '{}'", path.display()));
            layers.copied = Some((open(&layers.upper)?, open(results)?));
        }
        umount2(&trial, MntFlags::MNT_DETACH).doing("taking a trial away")?;
        Ok(layers)
    }

    /// Mounts an overlay of `lower` at `at`.
    fn overlay(&mut self, lower: &Path, at: &Path) -> Result<()> {
        let upper = self.upper.join(lower.strip_prefix("/").unwrap_or(lower));
        self.count += 1;
        let work = self.work.join(self.count.to_string());
        let meta = fs::metadata(lower).doing(format!("looking at '{}'", lower.display()))?;
        make(&upper, meta.mode() & 0o7777)?;
        // The owner may not be mapped in the user namespace; the directory then belongs to the user.
        let _ = std::os::unix::fs::chown(&upper, Some(meta.uid()), Some(meta.gid()));
        fs::create_dir_all(&work).doing(format!("making '{}'", work.display()))?;
        if lower == Path::new("/var") {
            self.empty(&upper.join("tmp"));
        }
        let mounted = self.mount(&[lower], &upper, &work, at);
        if mounted.is_err() {
            let _ = fs::remove_dir_all(&work);
            let _ = fs::remove_dir(&upper);
        }
        mounted.doing("it cannot be overlaid")
    }

    /// Mounts an overlay of a host's own root at `at`.
    fn whole(&mut self, lower: &Path, setup: &HostSetup, at: &Path) -> Result<()> {
        let (skeleton, work) = (skeleton_of(setup), self.work.join("root"));
        fs::create_dir_all(&work).doing(format!("making '{}'", work.display()))?;
        like(&self.upper, &skeleton)?;
        let mounted = self.mount(&[&skeleton, lower], &self.upper, &work, at);
        mounted.doing(format!("the root '{}' cannot be overlaid", lower.display()))
    }

    /// Mounts an overlay of these lower directories, topmost first.
    fn mount(&self, lower: &[&Path], upper: &Path, work: &Path, at: &Path) -> nix::Result<()> {
        let escaped = |path: &Path| {
            path.display().to_string().replace('\\', "\\\\").replace(",", "\\,").replace(":", "\\:")
        };
        let lower: Vec<_> = lower.iter().map(|path| escaped(path)).collect();
        let text = format!(
            "lowerdir={},upperdir={},workdir={}{}",
            lower.join(":"),
            escaped(upper),
            escaped(work),
            self.options
        );
        mount(Some("overlay"), at, Some("overlay"), MsFlags::empty(), Some(&*text))
    }

    /// Makes a directory of the upper layer opaque, so that it hides that of the lower layer.
    fn empty(&self, upper: &Path) {
        let name = if !self.options.ends_with("userxattr") {
            "trusted.overlay.opaque"
        } else {
            "user.overlay.opaque"
        };
        if make(upper, FOR_ALL).is_ok() {
            let _ = rustix::fs::setxattr(upper, name, b"y", rustix::fs::XattrFlags::empty());
        }
    }
}

/// True if the user namespace maps fewer than all user ids of the machine.
pub fn in_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
}

/// Makes `/dev`, `/proc`, `/sys`, `/run` and `/tmp`.
fn own_directories(root: &Path, setup: &HostSetup, results: &Path) -> Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let volatile = [("run", 0o755), ("tmp", FOR_ALL)];
    for (name, mode) in volatile.into_iter().filter(|_| setup.root.is_none()) {
        make(&results.join(name), mode)?;
        make(&root.join(name), mode)?;
        bind(&results.join(name), &root.join(name), false)?;
    }
    if setup.root.is_none() {
        make(&root.join("run/lock"), FOR_ALL)?;
    }
    make(&root.join("proc"), 0o555)?;
    mount(Some("proc"), &root.join("proc"), Some("proc"), flags, None::<&str>)
        .doing("mounting /proc: a container that hides parts of /proc does not allow it")?;
    make(&root.join("sys"), 0o555)?;
    let read_only = flags | MsFlags::MS_RDONLY;
    // A container may not allow it; few programs need it.
    let _ = mount(Some("sysfs"), &root.join("sys"), Some("sysfs"), read_only, None::<&str>);
    let dev = root.join("dev");
    make(&dev, 0o755)?;
    memory(&dev, "0755")?;
    for directory in ["net", "pts", "shm"] {
        make(&dev.join(directory), 0o755)?;
    }
    memory(&dev.join("shm"), "1777")?;
    let group = if setup.all_users { ",gid=5" } else { "" };
    let options = format!("newinstance,ptmxmode=0666,mode=0620{group}");
    mount(Some("devpts"), &dev.join("pts"), Some("devpts"), MsFlags::MS_NOSUID, Some(&*options))
        .doing("mounting /dev/pts")?;
    for device in DEVICES {
        let machines = Path::new("/dev").join(device);
        if machines.exists() {
            let at = dev.join(device);
            File::create(&at).doing(format!("making '{}'", at.display()))?;
            bind(&machines, &at, false)?;
        }
    }
    let links = [
        ("ptmx", "pts/ptmx"),
        ("fd", "/proc/self/fd"),
        ("stdin", "fd/0"),
        ("stdout", "fd/1"),
        ("stderr", "fd/2"),
    ];
    for (name, to) in links {
        symlink(to, dev.join(name)).doing(format!("making '/dev/{name}'"))?;
    }
    Ok(())
}

/// Replaces a file of the machine by one with this content.
fn place(root: &Path, path: &str, content: &str) -> Result<()> {
    let at = root.join(path.trim_start_matches('/'));
    let failed = || format!("placing '{path}'");
    if !fs::symlink_metadata(&at).is_ok_and(|m| m.is_file()) {
        // The target of a symbolic link does not exist in the host. The link must not be written through:
        // before the change of the root it resolves to a file of the machine.
        match fs::remove_file(&at) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error).doing(failed()),
            _ => {}
        }
        return fs::write(&at, content).doing(failed());
    }
    let source = root.join(".file");
    fs::write(&source, content).doing(failed())?;
    fs::set_permissions(&source, Permissions::from_mode(0o644)).doing(failed())?;
    bind(&source, &at, false)?;
    fs::remove_file(&source).doing(failed())
}

/// Mounts a tmpfs.
fn memory(at: &Path, mode: &str) -> Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    mount(Some("tmpfs"), at, Some("tmpfs"), flags, Some(&*format!("mode={mode}")))
        .doing(format!("mounting a file system in memory at '{}'", at.display()))
}

/// Binds `from` at the same path in the host's root.
fn bind_same(root: &Path, from: &Path, read_only: bool) -> Result<()> {
    let at = root.join(from.strip_prefix("/").unwrap_or(from));
    fs::create_dir_all(&at).doing(format!("making '{}'", at.display()))?;
    bind(from, &at, read_only)
}

fn bind(from: &Path, at: &Path, read_only: bool) -> Result<()> {
    let failed = || format!("showing '{}' to a host", from.display());
    mount(Some(from), at, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>).doing(failed())?;
    if read_only {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        // In a user namespace a remount must keep the mount's locked flags, and can fail; the user's
        // permissions then apply.
        let _ = mount(None::<&str>, at, None::<&str>, flags, None::<&str>);
    }
    Ok(())
}

/// Makes a directory with this mode, independently of the umask.
fn make(path: &Path, mode: u32) -> Result<()> {
    let failed = || format!("making '{}'", path.display());
    fs::create_dir_all(path).doing(failed())?;
    // An unnecessary change would copy the directory to the upper layer of an overlay.
    if fs::metadata(path).doing(failed())?.mode() & 0o7777 == mode {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).doing(failed())
}

fn sorted(directory: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("reading '{}'", directory.display());
    let entries = fs::read_dir(directory).doing(failed())?;
    let mut all: Vec<PathBuf> =
        entries.map(|entry| entry.map(|e| e.path())).collect::<io::Result<_>>().doing(failed())?;
    all.sort();
    Ok(all)
}

/// Copies files, directories and links below `from`.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let (source, target) = {
            let entry = entry?;
            (entry.path(), to.join(entry.file_name()))
        };
        let meta = fs::symlink_metadata(&source)?;
        if meta.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&source, &target)?;
        } else if meta.is_symlink() {
            symlink(fs::read_link(&source)?, &target)?;
        } else if meta.is_file() {
            fs::copy(&source, &target)?;
        }
    }
    Ok(())
}
