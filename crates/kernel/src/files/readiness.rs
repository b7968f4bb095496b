//! Readiness: the operations possible on an open file without blocking, in the bits of `poll(2)` and
//! `epoll(7)`.
//!
//! An object that sets one of these bits notifies its waiters with [`Host::notify_events`]: see
//! [`wait`](crate::wait).

use super::Files;
use crate::host::Host;
use crate::ids::{FileKey, WaitQueueId};
use belljar_netstack::readiness::{EPOLLERR, EPOLLPRI, READABLE, WRITABLE};
use belljar_objects::file_kind::FileKind;

/// Readiness of a file that does not support polling.
pub(crate) const ALWAYS: u32 = READABLE | WRITABLE;

/// Events of a mount table that changed since it was last polled.
pub(crate) const MOUNTS_CHANGED: u32 = EPOLLERR | EPOLLPRI;

impl Host {
    /// Readiness of an open file for a poll, which acknowledges changes of mount tables and drops unready
    /// epoll items.
    pub(crate) fn polled(&mut self, file: FileKey) -> u32 {
        self.drop_unready(file);
        let ready = self.readiness(file);
        let Files { open, mounts: table, .. } = &mut self.files;
        if let FileKind::Virtual { mounts: Some((namespace, told)), .. } = &mut open[file.0].kind {
            *told = table.changes(*namespace);
        }
        ready
    }

    /// Readiness of an open file: all bits, requested or not.
    pub(crate) fn readiness(&self, file: FileKey) -> u32 {
        let open = &self.files.open[file.0];
        match &open.kind {
            FileKind::PipeReader(pipe) => self.files.pipes[pipe.0].reader_readiness(open.offset),
            FileKind::PipeWriter(pipe) => self.files.pipes[pipe.0].writer_readiness(),
            FileKind::PipeBoth(pipe) => {
                let pipe = &self.files.pipes[pipe.0];
                pipe.reader_readiness(open.offset) | pipe.writer_readiness()
            }
            FileKind::Epoll(epoll) => self.epoll_readiness(*epoll),
            FileKind::Socket(socket) => self.socket_readiness(*socket),
            FileKind::EventFd(n) => self.files.eventfds[*n].readiness(),
            FileKind::Userfault(n) => self.files.userfaults[*n].readiness(open.is_nonblocking()),
            FileKind::Notify(n) if self.files.notify.has_events(*n) => READABLE,
            FileKind::Notify(_) => 0,
            FileKind::MessageQueue(n) => self.files.mqueues[*n].readiness(),
            FileKind::PidFd(n) => self.files.pidfds[*n].readiness(&self.processes),
            FileKind::Uring(n) => self.urings.instances[*n].readiness(&*self.machine),
            FileKind::Tun { tun, .. } => self.stack(self.network_of_tun(*tun)).tuns[*tun].readiness(),
            FileKind::PtyMaster { pty, .. } => self.files.ptys[*pty].pair.master_readiness(),
            FileKind::Terminal { pty, .. } => self.files.ptys[*pty].pair.slave_readiness(),
            FileKind::TimerFd(n) => self.files.timerfds[*n].readiness(),
            FileKind::SignalFd(n) => self.files.signalfds[*n].readiness(&self.processes, &self.threads),
            FileKind::Virtual { mounts: Some((namespace, told)), .. } => {
                let changed = self.files.mounts.changes(*namespace) != *told;
                READABLE | if changed { MOUNTS_CHANGED } else { 0 }
            }
            _ => ALWAYS,
        }
    }

    /// Wait queue notified when [`readiness`](Self::readiness) changes; `None` for a file that is always
    /// ready.
    pub(crate) fn wait_queue(&self, file: FileKey) -> Option<WaitQueueId> {
        match &self.files.open[file.0].kind {
            FileKind::PipeReader(pipe) | FileKind::PipeWriter(pipe) | FileKind::PipeBoth(pipe) => {
                Some(self.files.pipes[pipe.0].queue)
            }
            FileKind::Epoll(epoll) => Some(self.files.epolls[epoll.0].queue),
            FileKind::Socket(socket) => Some((*socket).into()),
            FileKind::EventFd(n) => Some(self.files.eventfds[*n].queue),
            FileKind::Userfault(n) => Some(self.files.userfaults[*n].queue),
            FileKind::Notify(n) => Some(self.files.notify.queue(*n)),
            FileKind::MessageQueue(n) => Some(self.files.mqueues[*n].queue),
            FileKind::PidFd(n) => Some(self.files.pidfds[*n].queue),
            FileKind::Uring(n) => Some(self.urings.instances[*n].queue),
            FileKind::Tun { tun, .. } => Some(WaitQueueId::Tun(*tun as u32)),
            FileKind::PtyMaster { pty, .. } | FileKind::Terminal { pty, .. } => {
                Some(self.files.ptys[*pty].queue)
            }
            FileKind::TimerFd(n) => Some(self.files.timerfds[*n].queue),
            FileKind::SignalFd(n) => self.files.signalfds[*n].queue(&self.processes),
            FileKind::Virtual { mounts: Some(_), .. } => Some(WaitQueueId::Mounts),
            _ => None,
        }
    }

    /// True if the file can be added to an epoll instance. Files that are always ready, such as regular
    /// files, cannot, except for the simulator's own standard streams, which are pipes or terminals.
    pub(crate) fn can_be_watched(&self, file: FileKey) -> bool {
        matches!(self.files.open[file.0].kind, FileKind::NativeStream(_)) || self.wait_queue(file).is_some()
    }

    /// Closes the object of an open file whose last reference was released, if its kind has a wait queue.
    pub(super) fn close_waitable(&mut self, kind: &FileKind) {
        match kind {
            FileKind::PipeReader(pipe) => self.close_pipe(*pipe, true, false),
            FileKind::PipeWriter(pipe) => self.close_pipe(*pipe, false, true),
            FileKind::PipeBoth(pipe) => self.close_pipe(*pipe, true, true),
            FileKind::Socket(socket) => self.close_socket(*socket),
            FileKind::Epoll(epoll) => self.files.close_epoll(&mut self.waits, *epoll),
            FileKind::EventFd(n) => {
                let event = self.files.eventfds.remove(*n);
                self.waits.destroy(event.queue);
            }
            FileKind::Userfault(n) => super::userfault::close(self, *n),
            FileKind::Notify(n) => self.close_notify(*n),
            FileKind::MessageQueue(n) => self.close_mqueue(*n),
            FileKind::PidFd(n) => self.files.close_pidfd(&mut self.waits, *n),
            FileKind::Uring(n) => self.close_uring(*n),
            FileKind::Tun { tun, .. } => self.close_tun(*tun),
            FileKind::PtyMaster { pty, .. } => self.close_master(*pty),
            FileKind::Terminal { pty, .. } => self.close_slave(*pty),
            FileKind::TimerFd(n) => self.close_timerfd(*n),
            FileKind::SignalFd(n) => {
                self.files.signalfds.remove(*n);
            }
            _ => {}
        }
    }
}
