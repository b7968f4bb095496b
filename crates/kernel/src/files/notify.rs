//! Telling of file events, and reading them: the descriptors of `inotify(7)` and `fanotify(7)`.
//!
//! Whoever does something to a file says so with [`Host::file_event`] or, by an open file, [`Host::open_file_event`] (the
//! file itself and, with its name, the directory that it is in), or [`Host::name_event`] (a name in a directory). Each
//! costs one comparison while nobody wants to hear. [`belljar_objects::notify`] knows who does.

use super::FileKind;
use super::readiness::READABLE;
use super::tree::{FormerEntry, Node};
use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey, WaitQueueId};
use crate::outcome::{Block, IfInterrupted, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_objects::notify::fanotify::{EventDescriptors, FanotifyEvent};
use belljar_objects::notify::{Happening, NotifiedFile, NotifiedName, NotifyEffect};
use belljar_tasks::waits::WaitTable;

/// The mount by which a file was reached; inside, `None` for a file that is in none.
type Reached = Option<Option<MountKey>>;

impl Files {
    /// The instance behind an open file, of fanotify or of inotify. `EINVAL` if it is none.
    pub(crate) fn notify_of(&self, file: FileKey, fanotify: bool) -> Result<usize, Errno> {
        match self.open[file.0].kind {
            FileKind::Notify(n) if self.notify.is_fanotify(n) == fanotify => Ok(n),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The directory and the name of an entry that is no more, if the directory is still there.
    fn present(&self, former: FormerEntry) -> Option<(InodeKey, Box<[u8]>)> {
        let (directory, number) = former.directory;
        let there = self.inodes.get(directory.0).is_some_and(|inode| inode.number == number);
        there.then_some((directory, former.name))
    }

    /// A number that ties the two events of a rename together.
    pub(crate) fn next_rename_cookie(&mut self) -> u32 {
        self.last_rename = self.last_rename.wrapping_add(1);
        self.last_rename
    }

    /// The marks of an instance as `/proc/PID/fdinfo` shows them.
    pub(crate) fn shown_marks(&self, file: FileKey) -> String {
        match self.open[file.0].kind {
            FileKind::Notify(n) => self.notify.shown_marks(n, |inode| self.inodes[inode.0].identity()),
            _ => String::new(),
        }
    }

    pub(crate) fn notified(&self, inode: InodeKey) -> NotifiedFile {
        NotifiedFile { inode, identity: self.inodes[inode.0].identity() }
    }
    pub(crate) fn notified_name(&self, directory: InodeKey, name: &[u8]) -> NotifiedName {
        NotifiedName { directory: self.notified(directory), name: name.into() }
    }

    /// A new instance of inotify as an open file.
    pub(crate) fn create_inotify(&mut self, waits: &mut WaitTable, flags: i32) -> FileKey {
        let n = self.notify.add_inotify(waits.create());
        self.open_file(FileKind::Notify(n), c::O_RDONLY | flags)
    }
}

impl Host {
    /// The last open file of an instance is closed: who waits for its permission may go on.
    pub(super) fn close_notify(&mut self, n: usize) {
        let queues = [Some(self.files.notify.queue(n)), self.files.notify.permission_queue(n)];
        let held = self.files.notify.close(n);
        for queue in queues.into_iter().flatten() {
            self.notify(queue);
            self.waits.destroy(queue);
        }
        for file in held {
            self.release_file(file);
        }
    }

    /// Something that the present call does to a file.
    pub(crate) fn happening(&self, inode: InodeKey, mask: u32) -> Happening {
        let caller = self.caller.and_then(|(thread, _)| self.threads.get(thread.0));
        let (tid, process) =
            caller.map_or((0, None), |thread| (thread.tid, self.processes.get(thread.process.0)));
        let node = &self.files.inodes[inode.0].node;
        Happening {
            mask: u64::from(mask) | if node.is_directory() { c::FAN_ONDIR } else { 0 },
            file: self.files.notified(inode),
            entry: None,
            moved: None,
            mount: None,
            openable: matches!(node, Node::Regular(_) | Node::Directory(_) | Node::Virtual(_)),
            unlinked: false,
            cookie: 0,
            pid: process.map_or(0, |process| process.pid),
            tid,
        }
    }
    /// The same with the file's directory and name: of one opened without a name, those that it never had.
    fn happening_at(
        &mut self,
        unnamed: Option<FormerEntry>,
        reached: Reached,
        inode: InodeKey,
        mask: u32,
    ) -> Option<Happening> {
        let found = self.files.inodes.get(inode.0)?;
        let entry = if unnamed.is_none() { found.links.first().cloned() } else { None };
        let unlinked = entry.is_none();
        let former = unnamed.or_else(|| found.former_entry.clone());
        let entry = entry.or_else(|| former.and_then(|former| self.files.present(former)));
        let mut happening = self.happening(inode, mask);
        // A directory that has been removed behind the host's back hears nothing.
        let entry = entry.filter(|(directory, _)| self.files.inodes.contains(directory.0));
        happening.entry = entry.map(|(directory, name)| self.files.notified_name(directory, &name));
        happening.unlinked = unlinked;
        happening.mount =
            reached.map(|mount| mount.map_or(0, |mount| self.files.shown_mount((mount, inode))));
        Some(happening)
    }

    /// Something has happened to a file: its directory learns it with the file's name, then those
    /// who watch the file itself.
    pub(crate) fn file_event(&mut self, inode: InodeKey, mask: u32) {
        self.file_event_under(None, None, inode, mask);
    }

    /// The same for what is done by an open file.
    pub(crate) fn open_file_event(&mut self, file: FileKey, inode: InodeKey, mask: u32) {
        if !self.files.notify.is_idle() && !self.files.open(file).silent {
            let (unnamed, mount) = (self.files.open(file).unnamed.clone(), self.files.open(file).mount);
            self.file_event_under(unnamed, Some(mount), inode, mask);
        }
    }

    /// The same by the entry of [`OpenFile::unnamed`](super::OpenFile::unnamed), and the mount.
    pub(crate) fn file_event_under(
        &mut self,
        unnamed: Option<FormerEntry>,
        reached: Reached,
        inode: InodeKey,
        mask: u32,
    ) {
        if !self.files.notify.is_idle()
            && let Some(happening) = self.happening_at(unnamed, reached, inode, mask)
        {
            self.tell(&happening, reached.flatten());
        }
    }

    /// Something has happened to the file itself that its directory does not learn.
    pub(crate) fn self_event(&mut self, inode: InodeKey, mask: u32) {
        if !self.files.notify.is_idle() {
            self.tell(&self.happening(inode, mask), None);
        }
    }

    /// A name in a directory, that of `file`, has come or gone. `happening` is made before the file can go.
    pub(crate) fn name_event(&mut self, happening: Option<Happening>, directory: InodeKey, name: &[u8]) {
        if let Some(mut happening) = happening {
            happening.entry = Some(self.files.notified_name(directory, name));
            self.tell(&happening, None);
        }
    }
    /// A new name in a directory.
    pub(crate) fn created_event(&mut self, directory: InodeKey, name: &[u8], inode: InodeKey) {
        if !self.files.notify.is_idle() {
            self.name_event(Some(self.happening(inode, c::IN_CREATE)), directory, name);
        }
    }

    /// An inode goes: its marks go with it.
    pub(crate) fn forget_watches(&mut self, inode: InodeKey) {
        if !self.files.notify.is_idle() {
            let told = self.files.notify.end_inode(&self.happening(inode, c::IN_DELETE_SELF));
            self.carry_out_notification(told, None);
        }
    }

    /// The file system of a file that may be watched has gone.
    pub(crate) fn unmounted_watches(&mut self, inode: InodeKey) {
        if self.files.notify.is_marked(inode) {
            let told = self.files.notify.end_inode(&self.happening(inode, c::IN_UNMOUNT));
            self.carry_out_notification(told, None);
        }
    }

    fn tell(&mut self, happening: &Happening, mount: Option<MountKey>) {
        let told = self.files.notify.tell(happening);
        self.carry_out_notification(told, Some((mount, happening.file.inode)));
    }
    /// Wakes who has been told; the file and its mount are kept for those who are to be given it.
    pub(crate) fn carry_out_notification(
        &mut self,
        effects: Vec<NotifyEffect>,
        file: Option<(Option<MountKey>, InodeKey)>,
    ) {
        for effect in effects {
            match effect {
                NotifyEffect::Queued(queue) => self.notify_events(queue, READABLE),
                NotifyEffect::QueuedFile(group, queue) => {
                    if let Some((mount, inode)) = file {
                        let held = self.open_inode_file(FileKind::Path(inode), mount, inode, c::O_PATH);
                        self.files.notify.hold(group, held);
                    }
                    self.notify_events(queue, READABLE);
                }
                NotifyEffect::Signal(file, fd) if self.files.open.contains(file.0) => {
                    self.tell_directory_owner(file, fd);
                }
                NotifyEffect::Signal(..) => {}
            }
        }
    }

    /// Asks those who may forbid what is done to a file in a mount (`FAN_OPEN_PERM`...): `EPERM`, or the call to be continued
    /// when they have answered.
    pub(crate) fn ask_permission(
        &mut self,
        mount: Option<MountKey>,
        inode: InodeKey,
        mask: u64,
    ) -> Result<Option<WaitQueueId>, Errno> {
        // Nobody is asked about what the experiment opens: no thread could wait.
        if self.caller.is_none() || !self.files.notify.may_forbid() {
            return Ok(None);
        }
        let Some(happening) = self.happening_at(None, Some(mount), inode, mask as u32) else {
            return Ok(None);
        };
        let mut effects = Vec::new();
        let waits = self.files.notify.ask(&happening, &mut effects);
        self.carry_out_notification(effects, Some((mount, inode)));
        waits
    }
}

impl Call<'_> {
    /// Asks whether an open file may be read, `FAN_ACCESS_PERM`; what moves bytes between files has asked before.
    pub(crate) fn ask_to_read(&mut self, file: FileKey, inode: InodeKey) -> Result<Option<Block>, Errno> {
        let open = self.host.files.open(file);
        if open.silent || self.staged.is_some() {
            return Ok(None);
        }
        let mount = open.mount;
        let queue = self.host.ask_permission(mount, inode, c::FAN_ACCESS_PERM)?;
        Ok(queue.map(|queue| Block::on(queue).interrupted(IfInterrupted::Killable)))
    }

    /// `read(2)`: as many whole events as fit. `EINVAL` if not even the first one does.
    pub(crate) fn read_notify(&mut self, file: FileKey, n: usize, buffers: &GuestBuffers) -> SysResult {
        let nonblocking = self.host.files.open(file).is_nonblocking();
        let room = total_len(buffers) as usize;
        let events = match self.host.files.notify.is_fanotify(n) {
            true => self.take_fanotify_events(n, room)?,
            false => self.host.files.notify.take_inotify_events(n, room)?,
        };
        match events {
            Some(data) => {
                self.scatter(buffers, &data)?;
                done(data.len() as u64)
            }
            None if nonblocking => Err(Errno::EAGAIN),
            None => Block::on(self.host.files.notify.queue(n)).into(),
        }
    }
    fn take_fanotify_events(&mut self, n: usize, room: usize) -> Result<Option<Vec<u8>>, Errno> {
        let mut data = Vec::new();
        loop {
            let event = match self.host.files.notify.take_event(n, room - data.len()) {
                Ok(Some(event)) => event,
                Err(errno) if data.is_empty() => return Err(errno),
                Ok(None) | Err(_) => return Ok((!data.is_empty()).then_some(data)),
            };
            let told = self.tell_reader(n, &event);
            event.file().into_iter().for_each(|held| self.host.release_file(held));
            match told {
                Ok(bytes) => data.extend(bytes),
                Err(errno) => {
                    self.host.files.notify.answer(&event, false);
                    self.wake_askers(n);
                    return if data.is_empty() { Err(errno) } else { Ok(Some(data)) };
                }
            }
        }
    }
    /// An event as it is read, with the descriptors that go with it; nothing for one whose process has ended asking.
    fn tell_reader(&mut self, n: usize, event: &FanotifyEvent) -> Result<Vec<u8>, Errno> {
        if event.waiter().is_some_and(|tid| !self.host.threads.by_tid.contains_key(&tid)) {
            return Ok(Vec::new());
        }
        let (flags, names_process) = self.host.files.notify.file_flags(n)?;
        let mut fds = EventDescriptors { file: c::FAN_NOFD, process: c::FAN_NOPIDFD };
        if let Some(held) = event.file() {
            let file = self.host.open_silently(held, flags)?;
            fds.file = self.host.install_fd(self.process, file, flags & c::O_CLOEXEC != 0, 0)? as i32;
        }
        if let Some(process) = self.host.processes.by_pid.get(&event.pid()).copied().filter(|_| names_process)
        {
            let file = self.host.create_pidfd(process, 0);
            let installed = self.host.install_fd(self.process, file, true, 0);
            fds.process = installed.map_or(c::FAN_EPIDFD, |fd| fd as i32);
        }
        let reader = self.host.processes[self.process.0].pid;
        let shown = self.host.processes.shown_pid(self.process, event.pid());
        self.host.files.notify.told(n, event, (reader, shown), fds)
    }

    /// Those who wait for a group's permission see whether it has answered.
    fn wake_askers(&mut self, n: usize) {
        if let Some(queue) = self.host.files.notify.permission_queue(n) {
            self.host.notify(queue);
        }
    }

    /// `write(2)`: an answer to who asks for permission, `struct fanotify_response`.
    pub(crate) fn write_notify(&mut self, n: usize, buffers: &GuestBuffers) -> SysResult {
        if total_len(buffers) < 8 {
            return Err(Errno::EINVAL);
        }
        let bytes = self.gather(buffers, 0, 8)?;
        let answer = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        self.host.files.notify.respond(n, answer as i32, (answer >> 32) as u32)?;
        self.wake_askers(n);
        done(total_len(buffers))
    }
}
