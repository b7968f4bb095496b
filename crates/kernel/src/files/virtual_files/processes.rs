//! Directories and symbolic links of procfs.

use crate::credentials::capability;
use crate::files::Files;
use crate::files::tree::{Step, Target};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, ProcessKey};
use crate::process::Processes;
use crate::rights::AccessIds;
use belljar_linux_abi::{Errno, c, interface_settings};
use belljar_linux_net::proc::{bond_named, bond_names};
use belljar_linux_net::socket_inode;
use belljar_netstack::conf::{InterfaceFileSetting, Scope};
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{Directory, DirectorySource, Meta, Node, PROC, Times};
use belljar_objects::mounts::BASE;
use belljar_objects::namespaces::LINKS;
use belljar_objects::open_file::FdTable;
use belljar_objects::process_files::{INIT, PROCESS_FILES};
use belljar_objects::processors::SystemDirectory;
use belljar_objects::virtual_files::entries::{
    device_entry, number, proc_directory, process_entry, system_entry,
};
use belljar_objects::virtual_files::table::system_names;
use belljar_objects::virtual_files::{MagicLink, VirtualFile};

impl Files {
    /// PID namespace that a file of `/proc` shows: that of its mount.
    pub(super) fn shown_namespace(&self, inode: InodeKey) -> u32 {
        let mut at = inode;
        loop {
            if let Node::Directory(Directory { source: DirectorySource::Processes(namespace), .. }) =
                self.inodes[at.0].node
            {
                return namespace;
            }
            match self.inodes[at.0].links.first() {
                Some((parent, _)) if self.inodes.contains(parent.0) => at = *parent,
                _ => return 0,
            }
        }
    }
    /// Root of `/proc` as processes of a PID namespace mount it.
    pub(crate) fn proc_root(&mut self, namespace: u32, now: i64) -> InodeKey {
        if let Some(root) = self.proc_roots.get(&namespace) {
            return *root;
        }
        let source = DirectorySource::Processes(namespace);
        let directory = Directory { source, is_root: true, ..Directory::default() };
        let meta = Meta { mode: 0o555, times: Times::all(now), ..Meta::default() };
        let root = self.add_inode(PROC, Node::Directory(directory), meta);
        self.directory(root).parent = root;
        // The root is kept, mounted or not.
        self.inode(root).opens = 1;
        self.proc_roots.insert(namespace, root);
        root
    }
    /// Process whose `/proc` directory is open as `file`.
    pub(crate) fn process_directory(&self, file: FileKey) -> Option<i32> {
        let FileKind::Directory { inode, .. } = self.open[file.0].kind else { return None };
        match &self.inodes[inode.0].node {
            Node::Directory(Directory { source: DirectorySource::Process(pid), .. }) => Some(*pid),
            _ => None,
        }
    }

    fn fd_table_of(&self, processes: &Processes, pid: i32) -> Option<&FdTable> {
        let table = processes[processes.numbered(pid)?.0].fds?;
        self.tables.get(table.0)
    }

    fn descriptor(&self, processes: &Processes, pid: i32, fd: i32) -> Option<FileKey> {
        let table = self.fd_table_of(processes, pid)?;
        Some(table.entries.get(usize::try_from(fd).ok()?)?.as_ref()?.file)
    }

    /// `/proc/<pid>/fdinfo/<fd>`.
    pub(super) fn descriptor_info(
        &mut self,
        processes: &Processes,
        namespace: u32,
        pid: i32,
        fd: i32,
    ) -> Result<Vec<u8>, Errno> {
        let file = self.descriptor(processes, pid, fd).ok_or(Errno::ENOENT)?;
        let table = self.fd_table_of(processes, pid).ok_or(Errno::ENOENT)?;
        let on_exec = table.entries[fd as usize].is_some_and(|entry| entry.close_on_exec);
        let open = self.open(file);
        let (position, mut flags) = (open.offset, open.flags);
        if on_exec {
            flags |= c::O_CLOEXEC;
        }
        let number = self.open(file).kind.inode().map_or(0, |inode| self.inode(inode).number);
        let more = match self.pidfd_pid(file) {
            Ok(pid) => {
                let pids = &processes.namespaces.pids;
                match processes.by_pid.get(&pid) {
                    Some(process) => {
                        let own = processes[process.0].attributes.namespaces.pid;
                        let shown = pids.shown(namespace, pid);
                        format!("Pid:\t{shown}\nNSpid:{}\n", pids.all_shown(namespace, own, pid))
                    }
                    None => "Pid:\t-1\nNSpid:\t-1\n".to_owned(),
                }
            }
            Err(_) => self.shown_marks(file),
        };
        let mount = self.shown_mount_of(file);
        let text = format!("pos:\t{position}\nflags:\t0{flags:o}\nmnt_id:\t{mount}\nino:\t{number}\n{more}");
        Ok(text.into_bytes())
    }
}

/// True if a virtual file is that of an interface, or a directory of such files.
pub(crate) fn is_of_interfaces(node: &Node) -> bool {
    match node {
        Node::Directory(directory) => {
            matches!(directory.source, DirectorySource::SettingsOf { .. } | DirectorySource::Bonds)
        }
        node => matches!(node, Node::Virtual(VirtualFile::Bond(_))),
    }
}

fn has_bonds(host: &Host) -> bool {
    !bond_names(host.stack(host.network_of_caller())).is_empty()
}

impl Host {
    /// True if a file known to the tree still exists: those of processes, descriptors and interfaces
    /// disappear.
    pub(crate) fn still_there(&self, inode: InodeKey) -> bool {
        match &self.files.inodes[inode.0].node {
            Node::Directory(directory) => match directory.source {
                DirectorySource::Process(pid) => self.processes.is_shown(pid),
                DirectorySource::Thread(pid, tid) => self.threads.is_thread_of(&self.processes, pid, tid),
                DirectorySource::Bonds => has_bonds(self),
                DirectorySource::SettingsOf { scope: Scope::Interface(number), .. } => {
                    let there = self
                        .stack(self.network_of_caller())
                        .interfaces
                        .get(number)
                        .filter(|interface| interface.exists());
                    let name = self.files.inodes[inode.0].links.first().map(|(_, name)| &name[..]);
                    there.is_some_and(|there| name.is_none_or(|name| name == there.name.as_bytes()))
                }
                _ => true,
            },
            Node::Virtual(VirtualFile::Bond(number)) => {
                let name = self.files.inodes[inode.0].links.first().map(|(_, name)| &name[..]);
                let stack = self.stack(self.network_of_caller());
                name.is_none_or(|name| bond_named(stack, name) == Some(*number))
            }
            Node::Magic(MagicLink::Descriptor(pid, fd)) => {
                self.files.descriptor(&self.processes, *pid, *fd).is_some()
            }
            Node::Virtual(VirtualFile::DescriptorInfo(pid, fd)) => {
                self.files.descriptor(&self.processes, *pid, *fd).is_some()
            }
            _ => true,
        }
    }

    /// Looks up an entry of a virtual directory that is not in memory yet.
    pub(crate) fn lookup_made_up(
        &mut self,
        directory: InodeKey,
        name: &[u8],
    ) -> Result<Option<InodeKey>, Errno> {
        let (node, mode) = match self.files.directory(directory).source {
            DirectorySource::Processes(namespace) => match (name, number(name)) {
                (b"self", _) => (Node::Magic(MagicLink::Own(namespace)), 0o777),
                (b"thread-self", _) => (Node::Magic(MagicLink::OwnThread(namespace)), 0o777),
                (_, Some(number)) => {
                    let pid = self.processes.namespaces.pids.found(namespace, number);
                    let Some(pid) = pid.filter(|pid| self.processes.is_shown(*pid)) else { return Ok(None) };
                    proc_directory(directory, DirectorySource::Process(pid))
                }
                _ => match system_entry(directory, "/proc", name) {
                    Some(entry) => entry,
                    None => return Ok(None),
                },
            },
            DirectorySource::Table("/sys") if name == b"devices" => {
                proc_directory(directory, DirectorySource::Devices(SystemDirectory::Devices))
            }
            DirectorySource::Devices(of) => {
                let name = std::str::from_utf8(name).ok();
                let entry = name.and_then(|name| self.config.processors.entry(of, name));
                let Some(entry) = entry else { return Ok(None) };
                device_entry(entry, directory)
            }
            // It is there while there are bonds.
            DirectorySource::Table("/proc/net") if name == b"bonding" => {
                if !has_bonds(self) {
                    return Ok(None);
                }
                proc_directory(directory, DirectorySource::Bonds)
            }
            DirectorySource::Bonds => match bond_named(self.stack(self.network_of_caller()), name) {
                Some(number) => (Node::Virtual(VirtualFile::Bond(number)), 0o444),
                None => return Ok(None),
            },
            DirectorySource::Table(path) => match system_entry(directory, path, name) {
                Some(entry) => entry,
                None => return Ok(None),
            },
            DirectorySource::InterfaceSettings { v6 } => {
                let stack = self.stack(self.network_of_caller());
                let scope =
                    std::str::from_utf8(name).ok().and_then(|name| stack.interfaces.setting_scope(name));
                let Some(scope) = scope else { return Ok(None) };
                proc_directory(directory, DirectorySource::SettingsOf { v6, scope })
            }
            DirectorySource::SettingsOf { v6, scope } => {
                let settings = interface_settings::table(v6);
                let found = settings.iter().position(|setting| setting.name.as_bytes() == name);
                let Some(setting) = found else { return Ok(None) };
                let setting = InterfaceFileSetting { v6, setting, scope };
                (Node::Virtual(VirtualFile::InterfaceSetting(setting)), 0o644)
            }
            DirectorySource::Process(pid) => match process_entry(directory, pid, None, name) {
                Some(entry) => entry,
                None => return Ok(None),
            },
            DirectorySource::Thread(pid, tid) => match process_entry(directory, pid, Some(tid), name) {
                Some(entry) => entry,
                None => return Ok(None),
            },
            DirectorySource::Descriptors { pid, info } => match number(name) {
                Some(fd) if self.files.descriptor(&self.processes, pid, fd).is_some() => {
                    if info {
                        (Node::Virtual(VirtualFile::DescriptorInfo(pid, fd)), 0o400)
                    } else {
                        (Node::Magic(MagicLink::Descriptor(pid, fd)), 0o700)
                    }
                }
                _ => return Ok(None),
            },
            DirectorySource::Tasks(pid) => match number(name).and_then(|tid| {
                self.processes.namespaces.pids.found(self.files.shown_namespace(directory), tid)
            }) {
                Some(tid) if self.threads.is_thread_of(&self.processes, pid, tid) => {
                    proc_directory(directory, DirectorySource::Thread(pid, tid))
                }
                _ => return Ok(None),
            },
            DirectorySource::Namespaces(pid) => {
                match LINKS.iter().find(|(link, _)| link.as_bytes() == name) {
                    Some((link, _)) => (Node::Magic(MagicLink::Namespace(pid, link)), 0o777),
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        };
        let inode = self.new_inode(directory, node, mode);
        self.files.add_name(directory, name, inode);
        Ok(Some(inode))
    }

    /// Content of a file of `/proc/<pid>`, or of one of its threads, for a debugger. The file tree is not
    /// changed.
    pub fn debug_proc_file(&mut self, path: &str) -> Option<Vec<u8>> {
        let mut parts = path.strip_prefix("/proc/")?.split('/');
        let pid = number(parts.next()?.as_bytes())?;
        let (tid, name) = match (parts.next()?, parts.next(), parts.next()) {
            ("task", Some(tid), Some(name)) => (Some(number(tid.as_bytes())?), name),
            (name, None, None) => (None, name),
            _ => return None,
        };
        let (.., file) = PROCESS_FILES.iter().find(|(known, ..)| *known == name)?;
        self.process_file(0, pid, tid, *file).ok()
    }

    /// Looks up every entry of a virtual directory, so that it can be listed.
    pub(crate) fn complete_made_up(&mut self, directory: InodeKey) -> Result<(), Errno> {
        let links = ["exe", "cwd", "root", "net", "fd", "fdinfo", "ns"];
        let names: Vec<String> = match self.files.directory(directory).source {
            DirectorySource::Processes(namespace) => {
                let own = ["self", "thread-self"].map(String::from).into_iter();
                let system = system_names("/proc").into_iter().map(String::from);
                let init = if namespace == 0 { Some(INIT) } else { None };
                let shown = |pid: &i32| self.processes.namespaces.pids.shown(namespace, *pid);
                let processes = self.processes.by_pid.keys().map(shown).filter(|pid| *pid != 0);
                let processes = init.into_iter().chain(processes).map(|pid| pid.to_string());
                own.chain(system).chain(processes).collect()
            }
            DirectorySource::Devices(of) => self.config.processors.names(of),
            DirectorySource::Table(path) => {
                let more = match path {
                    "/proc/sys/net/ipv4" | "/proc/sys/net/ipv6" => Some("conf"),
                    "/sys" => Some("devices"),
                    "/proc/net" if has_bonds(self) => Some("bonding"),
                    _ => None,
                };
                system_names(path).into_iter().chain(more).map(String::from).collect()
            }
            DirectorySource::Bonds => bond_names(self.stack(self.network_of_caller())),
            DirectorySource::InterfaceSettings { .. } => {
                let stack = self.stack(self.network_of_caller());
                let interfaces = stack.interfaces.iter().filter(|interface| interface.exists());
                let names = interfaces.map(|interface| interface.name.to_string());
                ["all", "default"].map(String::from).into_iter().chain(names).collect()
            }
            DirectorySource::SettingsOf { v6, .. } => {
                interface_settings::table(v6).iter().map(|setting| setting.name.to_owned()).collect()
            }
            DirectorySource::Process(_) | DirectorySource::Thread(..) => {
                let files = PROCESS_FILES.iter().map(|(name, ..)| *name);
                files.chain(links).chain(["task"]).map(String::from).collect()
            }
            DirectorySource::Descriptors { pid, .. } => {
                if pid == INIT {
                    return Ok(());
                }
                let table = self.files.fd_table_of(&self.processes, pid).ok_or(Errno::ENOENT)?;
                let open = table.entries.iter().enumerate().filter(|(_, entry)| entry.is_some());
                open.map(|(fd, _)| fd.to_string()).collect()
            }
            DirectorySource::Tasks(pid) => {
                if pid == INIT {
                    return Ok(());
                }
                let process = self.processes.numbered(pid).ok_or(Errno::ENOENT)?;
                let threads = self.processes[process.0].threads.iter();
                let namespace = self.files.shown_namespace(directory);
                let shown = |tid| self.processes.namespaces.pids.shown(namespace, tid);
                threads.map(|key| shown(self.threads[key.0].tid).to_string()).collect()
            }
            DirectorySource::Namespaces(_) => LINKS.iter().map(|(name, ..)| name.to_string()).collect(),
            _ => Vec::new(),
        };
        for name in names {
            self.lookup(directory, name.as_bytes())?;
        }
        Ok(())
    }

    /// Follows a magic link of procfs for `process`.
    pub(crate) fn follow_magic(&mut self, process: ProcessKey, link: MagicLink) -> Result<Step, Errno> {
        self.may_follow(process, link)?;
        if let MagicLink::Descriptor(pid, fd) = link {
            let file = self.files.descriptor(&self.processes, pid, fd).ok_or(Errno::ENOENT)?;
            let target = self.files.open(file).kind.inode().map_or(Target::File(file), Target::Inode);
            return Ok(Step::Target(target, self.files.open(file).mount_key()));
        }
        if let MagicLink::Namespace(pid, link) = link {
            let (kind, number) = self.processes.namespace_behind(pid, link)?;
            let inode = self.namespace_inode(kind, number);
            return Ok(Step::Target(Target::Inode(inode), BASE));
        }
        let text = self.magic_text(process, link)?;
        let held = match link {
            MagicLink::WorkingDirectory(pid) | MagicLink::Root(pid) | MagicLink::Executable(pid) => {
                self.processes.numbered(pid)
            }
            _ => None,
        };
        // A file that a process holds is reached directly, without permission checks on the directories
        // above.
        if let Some(holder) = held
            && let Ok((mount, inode)) = self.resolve_absolute(holder, &text)
        {
            return Ok(Step::Target(Target::Inode(inode), mount));
        }
        Ok(Step::Text(text))
    }

    /// `EACCES` unless a process may follow a magic link of another (`proc_fd_access_allowed`).
    pub(crate) fn may_follow(&self, process: ProcessKey, link: MagicLink) -> Result<(), Errno> {
        let (MagicLink::Executable(pid)
        | MagicLink::WorkingDirectory(pid)
        | MagicLink::Root(pid)
        | MagicLink::Namespace(pid, _)
        | MagicLink::Descriptor(pid, _)) = link
        else {
            return Ok(());
        };
        if pid == INIT {
            return self.processes.require(process, capability::SYS_PTRACE).map_err(|_| Errno::EACCES);
        }
        let target = self.processes.numbered(pid).ok_or(Errno::ENOENT)?;
        self.processes.may_access(process, target, AccessIds::File).map_err(|_| Errno::EACCES)
    }

    /// Text of a magic link of procfs, `readlink(2)`.
    pub(crate) fn magic_text(&mut self, process: ProcessKey, link: MagicLink) -> Result<Vec<u8>, Errno> {
        // A process that has exited has no directories and no program.
        let is_alive = |host: &Host, key: &ProcessKey| host.processes[key.0].ended.is_none();
        let of = |host: &Host, pid| {
            host.processes.numbered(pid).filter(|key| is_alive(host, key)).ok_or(Errno::ENOENT)
        };
        Ok(match link {
            MagicLink::Own(namespace) => {
                self.processes.shown_in(namespace, self.processes[process.0].pid)?.into_bytes()
            }
            MagicLink::OwnThread(namespace) => {
                let pid = self.processes[process.0].pid;
                let caller = self.caller.and_then(|(key, _)| self.threads.get(key.0));
                let tid = caller.filter(|caller| caller.process == process).map_or(pid, |caller| caller.tid);
                format!(
                    "{}/task/{}",
                    self.processes.shown_in(namespace, pid)?,
                    self.processes.shown_in(namespace, tid)?
                )
                .into_bytes()
            }
            MagicLink::Namespace(pid, link) => {
                let (kind, number) = self.processes.namespace_behind(pid, link)?;
                format!("{}:[{}]", kind.name(), kind.shown(number)).into_bytes()
            }
            MagicLink::Executable(INIT) => b"/init".to_vec(),
            MagicLink::WorkingDirectory(INIT) | MagicLink::Root(INIT) => b"/".to_vec(),
            MagicLink::Executable(pid) => self.processes[of(self, pid)?.0].exe.clone(),
            MagicLink::WorkingDirectory(pid) => self.processes[of(self, pid)?.0].cwd.clone(),
            MagicLink::Root(pid) => self.processes[of(self, pid)?.0].root.clone(),
            MagicLink::Descriptor(pid, fd) => {
                let file = self.files.descriptor(&self.processes, pid, fd).ok_or(Errno::ENOENT)?;
                self.open_file_name(file)
            }
        })
    }

    /// Name of an open file in `/proc/<pid>/fd`.
    fn open_file_name(&mut self, file: FileKey) -> Vec<u8> {
        if let Some((kind, number)) = self.files.namespace_of(file) {
            return format!("{}:[{}]", kind.name(), kind.shown(number)).into_bytes();
        }
        let anonymous = |name: &str| format!("anon_inode:[{name}]").into_bytes();
        match &self.files.open[file.0].kind {
            FileKind::PipeReader(n) | FileKind::PipeWriter(n) | FileKind::PipeBoth(n) => {
                format!("pipe:[{}]", n.0).into_bytes()
            }
            FileKind::Socket(n) => format!("socket:[{}]", socket_inode(self.stack_of(*n), *n)).into_bytes(),
            FileKind::Epoll(_) => anonymous("eventpoll"),
            FileKind::EventFd(_) => anonymous("eventfd"),
            FileKind::Userfault(_) => anonymous("userfaultfd"),
            FileKind::MessageQueue(n) => {
                let name = self.files.mqueues[*n].name.as_deref();
                name.map_or_else(|| b"/ (deleted)".to_vec(), |name| [b"/", name].concat())
            }
            FileKind::TimerFd(_) => anonymous("timerfd"),
            FileKind::SignalFd(_) => anonymous("signalfd"),
            FileKind::PidFd(_) => anonymous("pidfd"),
            FileKind::MountContext(_) => anonymous("fscontext"),
            FileKind::Ruleset(_) => anonymous("landlock-ruleset"),
            FileKind::Uring(_) => anonymous("io_uring"),
            FileKind::Notify(n) if self.files.notify.is_fanotify(*n) => anonymous("fanotify"),
            FileKind::Notify(_) => b"anon_inode:inotify".to_vec(),
            FileKind::NativeStream(n) => format!("pipe:[{}]", 9_000_000 + u32::from(*n)).into_bytes(),
            kind => match kind.inode() {
                Some(inode) => {
                    let place = (self.files.open[file.0].mount.unwrap_or(BASE), inode);
                    self.files.path_of_place(place).unwrap_or_else(|| self.files.shown_path(inode))
                }
                None => anonymous("file"),
            },
        }
    }
}
