//! File event notification, `inotify(7)` and `fanotify(7)`: reporting events and reading them.
//!
//! Operations report events with [`Host::file_event`] or, for an open file, [`Host::open_file_event`] (the
//! file itself and, with its name, its directory), or with [`Host::name_event`] (an entry of a directory).
//! Each costs one comparison while there are no marks. [`belljar_objects::notify`] holds the marks and
//! matches events.

use crate::call::Call;
use crate::files::Files;
use crate::guest::{GuestBuffers, total_len};
use crate::host::Host;
use crate::ids::{FileKey, InodeKey, MountKey, WaitQueueId};
use crate::outcome::{Block, IfInterrupted, SysResult, done};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::readiness::READABLE;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{FormerEntry, Node};
use belljar_objects::notify::fanotify::{EventDescriptors, FanotifyEvent};
use belljar_objects::notify::{Happening, NotifiedFile, NotifiedName, NotifyEffect};
use belljar_tasks::waits::WaitTable;

/// Mount through which a file was reached; the inner `None` stands for a file without a mount.
type Reached = Option<Option<MountKey>>;

impl Files {
    /// Instance of fanotify or inotify of an open file. `EINVAL` for any other file.
    pub(crate) fn notify_of(&self, file: FileKey, fanotify: bool) -> Result<usize, Errno> {
        match self.open[file.0].kind {
            FileKind::Notify(n) if self.notify.is_fanotify(n) == fanotify => Ok(n),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Directory and name of a former entry, if the directory still exists.
    fn present(&self, former: FormerEntry) -> Option<(InodeKey, Box<[u8]>)> {
        let (directory, number) = former.directory;
        let there = self.inodes.get(directory.0).is_some_and(|inode| inode.number == number);
        there.then_some((directory, former.name))
    }

    /// Cookie that connects the two events of a rename.
    pub(crate) fn next_rename_cookie(&mut self) -> u32 {
        self.last_rename = self.last_rename.wrapping_add(1);
        self.last_rename
    }

    /// Marks of an instance as `/proc/<pid>/fdinfo` shows them.
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

    /// Creates an inotify instance and its open file.
    pub(crate) fn create_inotify(&mut self, waits: &mut WaitTable, flags: i32) -> FileKey {
        let n = self.notify.add_inotify(waits.create());
        self.open_file(FileKind::Notify(n), c::O_RDONLY | flags)
    }
}

impl Host {
    /// Closes an instance with its last open file: calls that wait for its permission continue.
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

    /// Event that the present call causes on a file.
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
    /// Event with the file's directory and name; for a file opened without a name, the entry in `unnamed`.
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
        // Events are not reported to a directory that was removed on the machine itself.
        let entry = entry.filter(|(directory, _)| self.files.inodes.contains(directory.0));
        happening.entry = entry.map(|(directory, name)| self.files.notified_name(directory, &name));
        happening.unlinked = unlinked;
        happening.mount =
            reached.map(|mount| mount.map_or(0, |mount| self.files.shown_mount((mount, inode))));
        Some(happening)
    }

    /// Reports an event on a file to its directory's marks, with the file's name, and then to the file's own
    /// marks.
    pub(crate) fn file_event(&mut self, inode: InodeKey, mask: u32) {
        self.file_event_under(None, None, inode, mask);
    }

    /// Reports an event caused through an open file.
    pub(crate) fn open_file_event(&mut self, file: FileKey, inode: InodeKey, mask: u32) {
        if !self.files.notify.is_idle() && !self.files.open(file).silent {
            let (unnamed, mount) = (self.files.open(file).unnamed.clone(), self.files.open(file).mount);
            self.file_event_under(unnamed, Some(mount), inode, mask);
        }
    }

    /// Reports an event under the entry of [`OpenFile::unnamed`](super::OpenFile::unnamed), and with the
    /// mount.
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

    /// Reports an event on the file itself that its directory is not notified of.
    pub(crate) fn self_event(&mut self, inode: InodeKey, mask: u32) {
        if !self.files.notify.is_idle() {
            self.tell(&self.happening(inode, mask), None);
        }
    }

    /// Reports an event on an entry of a directory: created, removed or moved. The caller builds `happening`
    /// before the file can be freed.
    pub(crate) fn name_event(&mut self, happening: Option<Happening>, directory: InodeKey, name: &[u8]) {
        if let Some(mut happening) = happening {
            happening.entry = Some(self.files.notified_name(directory, name));
            self.tell(&happening, None);
        }
    }
    /// Reports that an entry of a directory was created.
    pub(crate) fn created_event(&mut self, directory: InodeKey, name: &[u8], inode: InodeKey) {
        if !self.files.notify.is_idle() {
            self.name_event(Some(self.happening(inode, c::IN_CREATE)), directory, name);
        }
    }

    /// Removes the marks of an inode that is freed.
    pub(crate) fn forget_watches(&mut self, inode: InodeKey) {
        if !self.files.notify.is_idle() {
            let told = self.files.notify.end_inode(&self.happening(inode, c::IN_DELETE_SELF));
            self.carry_out_notification(told, None);
        }
    }

    /// Removes the marks of a file whose file system was unmounted.
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
    /// Notifies the readers of queued events. The file and its mount are held for events that carry a
    /// descriptor.
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

    /// Requests permission for an access to a file in a mount (`FAN_OPEN_PERM`...) from fanotify listeners:
    /// `EPERM`, or the wait queue on which the call blocks until they have answered.
    pub(crate) fn ask_permission(
        &mut self,
        mount: Option<MountKey>,
        inode: InodeKey,
        mask: u64,
    ) -> Result<Option<WaitQueueId>, Errno> {
        // Files that the experiment opens need no permission: there is no thread to block.
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
    /// Requests `FAN_ACCESS_PERM` for an open file. Transfers between files have requested it before.
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
    /// Encodes an event for its reader and installs the descriptors that belong to it; empty for a permission
    /// event whose thread has exited.
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

    /// Wakes the calls that wait for a group's permission, so that they check for an answer.
    fn wake_askers(&mut self, n: usize) {
        if let Some(queue) = self.host.files.notify.permission_queue(n) {
            self.host.notify(queue);
        }
    }

    /// `write(2)`: an answer to a permission event, `struct fanotify_response`.
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
