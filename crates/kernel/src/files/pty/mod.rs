//! Pseudo-terminals, `pty(7)`: pairs of a master, held by a terminal emulator or `sshd`, and a slave, which
//! programs use as a terminal.
//!
//! `belljar_terminal` implements the pair and its line discipline; `io` reading and writing, `ioctl` the
//! settings, `session` controlling terminals, `state` what the kernel keeps of a pair.

mod io;
mod ioctl;
mod session;
mod state;

pub use state::Pty;

use crate::files::Files;
use crate::host::Host;
use crate::ids::{InodeKey, ProcessKey};
use crate::process::Processes;
use belljar_linux_abi::{Errno, c};
use belljar_objects::devices::Device;
use belljar_objects::file_kind::FileKind;
use belljar_objects::inode::{Node, ROOT};
use belljar_tasks::waits::WaitTable;
use belljar_terminal::Pair;

/// Group of the slaves, as Debian mounts `/dev/pts`.
const TTY_GROUP: u32 = 5;
const SLAVE_MODE: u32 = 0o620;
/// Directory of the slaves.
const PTS: &[u8] = b"/dev/pts";

impl Files {
    /// Counts another open slave; returns the slave's inode.
    fn attach_slave(&mut self, pty: usize) -> InodeKey {
        let pty = &mut self.ptys[pty];
        pty.pair.slave_opened();
        pty.slave_inode
    }

    fn forget_pty_if_unused(&mut self, waits: &mut WaitTable, key: usize) {
        if self.ptys[key].pair.is_unused() {
            let pty = self.ptys.remove(key);
            waits.destroy(pty.queue);
        }
    }

    /// Opens `/dev/tty`, the controlling terminal. `ENXIO` if the process has none.
    pub(crate) fn open_controlling_terminal(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
    ) -> Result<FileKind, Errno> {
        let pty = processes[process.0].terminal.ok_or(Errno::ENXIO)?;
        let inode = self.attach_slave(pty);
        Ok(FileKind::Terminal { inode, pty })
    }

    /// Terminal fields of `/proc/<pid>/stat`: device number and foreground process group; 0 and -1 without a
    /// terminal.
    pub(crate) fn terminal_numbers(&self, processes: &Processes, process: ProcessKey) -> (u64, i32) {
        match processes[process.0].terminal.map(|pty| &self.ptys[pty]) {
            Some(pty) => (Device::Pts(0, pty.number).number(), pty.foreground),
            None => (0, -1),
        }
    }
}

impl Files {
    /// Opens the slave of a pair. Without `O_NOCTTY` it becomes the controlling terminal of a session leader
    /// that has none. `EIO` while the slave is locked or once the master is closed, `EBUSY` in exclusive
    /// mode.
    pub(crate) fn open_slave(
        &mut self,
        processes: &mut Processes,
        process: ProcessKey,
        pty: usize,
        number: u32,
        flags: i32,
    ) -> Result<FileKind, Errno> {
        let found = self.ptys.get_mut(pty).filter(|pty| pty.number == number).ok_or(Errno::EIO)?;
        if !found.pair.master_open || found.pair.locked {
            return Err(Errno::EIO);
        }
        if found.pair.exclusive && processes[process.0].credentials.euid != 0 {
            return Err(Errno::EBUSY);
        }
        let inode = self.attach_slave(pty);
        if flags & c::O_NOCTTY == 0 {
            self.acquire_terminal(processes, process, pty);
        }
        Ok(FileKind::Terminal { inode, pty })
    }
}

impl Host {
    /// Opens `/dev/ptmx`: creates a pair and returns its master.
    pub(crate) fn open_ptmx(&mut self, process: ProcessKey, inode: InodeKey) -> Result<FileKind, Errno> {
        let numbers: Vec<u32> = self.files.ptys.iter().map(|(_, pty)| pty.number).collect();
        let number = (0..).find(|number| !numbers.contains(number)).unwrap_or(0);
        let slave_inode = self.make_slave_node(process, number)?;
        let pty = Pty {
            number,
            queue: self.waits.create(),
            session: None,
            foreground: 0,
            pair: Pair::default(),
            slave_inode,
        };
        let pty = self.files.ptys.insert(pty);
        if let Node::Device(device) = &mut self.files.inode(slave_inode).node {
            *device = Device::Pts(pty as u32, number);
        }
        Ok(FileKind::PtyMaster { inode, pty })
    }

    fn make_slave_node(&mut self, process: ProcessKey, number: u32) -> Result<InodeKey, Errno> {
        let directory = self.resolve_path(PTS)?;
        let node = Node::Device(Device::Pts(0, number));
        let inode = self.new_inode(directory, node, SLAVE_MODE);
        let uid = self.processes[process.0].credentials.fsuid;
        let meta = &mut self.files.inode(inode).meta;
        (meta.uid, meta.gid) = (uid, TTY_GROUP);
        self.files.add_name(directory, number.to_string().as_bytes(), inode);
        Ok(inode)
    }

    fn resolve_path(&mut self, path: &[u8]) -> Result<InodeKey, Errno> {
        let mut at = ROOT;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            at = self.lookup(at, name)?.ok_or(Errno::ENOENT)?;
        }
        Ok(at)
    }

    /// Closes the master: hangs up the session and removes the slave's node.
    pub(crate) fn close_master(&mut self, key: usize) {
        let pty = &mut self.files.ptys[key];
        pty.pair.master_open = false;
        let (number, inode) = (pty.number, pty.slave_inode);
        let queue = pty.queue;
        self.hang_up_terminal(key);
        if let Ok(directory) = self.resolve_path(PTS) {
            self.files.remove_name(directory, number.to_string().as_bytes());
            self.forget_if_unused(inode);
        }
        self.notify(queue);
        self.files.forget_pty_if_unused(&mut self.waits, key);
    }

    /// Closes a slave; after the last one, reads of the master fail with `EIO`.
    pub(crate) fn close_slave(&mut self, key: usize) {
        let pty = &mut self.files.ptys[key];
        if pty.pair.slave_closed() {
            let queue = pty.queue;
            self.notify(queue);
        }
        self.files.forget_pty_if_unused(&mut self.waits, key);
    }

    /// Passes input from the master through the line discipline while there is space.
    pub(crate) fn pump_typed(&mut self, key: usize) {
        while let Some(event) = self.files.ptys[key].pair.pump() {
            if event.stopped_or_started {
                let queue = self.files.ptys[key].queue;
                self.notify(queue);
            }
            if let Some(signal) = event.signal {
                self.signal_foreground(key, signal);
            }
        }
    }

    fn set_terminal_stopped(&mut self, key: usize, stopped: bool) {
        let pty = &mut self.files.ptys[key];
        if pty.pair.set_stopped(stopped) {
            let queue = pty.queue;
            self.notify(queue);
        }
    }
}
