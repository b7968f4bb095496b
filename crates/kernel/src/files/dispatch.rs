//! Reads, writes and `ioctl(2)` of open files of every kind, dispatched to the subsystems.

use super::{devices, regular, streams};
use crate::call::Call;
use crate::guest::GuestBuffers;
use crate::ids::FileKey;
use crate::outcome::{SysResult, done};
use crate::syscall::ptp;
use crate::syscall::{file_flags, socket_io};
use belljar_linux_abi::{Errno, c};
use belljar_objects::devices::Device;
use belljar_objects::file_kind::FileKind;

/// Requests of the random device (entropy count) and of `/proc/<pid>/maps`; the entropy count reported, in
/// bits.
const RNDGETENTCNT: u64 = 0x8004_5200;
const PROCMAP_QUERY: u64 = 0xc068_6611;
const ENTROPY_BITS: i32 = 256;

impl Call<'_> {
    /// `read(2)` and its relatives; with an `offset`, `pread(2)`. `EBADF` if not open for reading, `ESPIPE`
    /// for an offset in a file that is not seekable.
    pub(crate) fn file_read(
        &mut self,
        file: FileKey,
        buffers: &GuestBuffers,
        offset: Option<u64>,
    ) -> SysResult {
        let open = self.host.files.open(file);
        if open.flags & c::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        if offset.is_some() && !open.kind.has_position() {
            return Err(Errno::ESPIPE);
        }
        if !open.is_readable() {
            return Err(Errno::EBADF);
        }
        match open.kind.clone() {
            FileKind::Regular(inode) => regular::read(self, file, inode, buffers, offset),
            // At the end offset of a directory the count check fails before `EISDIR`.
            FileKind::Directory { .. }
                if offset.unwrap_or(self.host.files.open(file).offset) == i64::MAX as u64 =>
            {
                Err(Errno::EINVAL)
            }
            FileKind::Directory { .. } => Err(Errno::EISDIR),
            FileKind::Device { device: Device::Block(device), .. } => {
                self.read_block(file, device, buffers, offset)
            }
            FileKind::Device { device, .. } => devices::read(device, self, buffers),
            FileKind::Virtual { inode, content, .. } => {
                self.read_virtual(file, inode, content, buffers, offset)
            }
            FileKind::Path(_) => Err(Errno::EBADF),
            FileKind::NativeStream(stream) => streams::read(self, stream, buffers),
            FileKind::PipeReader(pipe) | FileKind::PipeWriter(pipe) | FileKind::PipeBoth(pipe) => {
                self.read_pipe(file, pipe, buffers)
            }
            FileKind::Socket(socket) => socket_io::read_socket(self, file, socket, buffers),
            FileKind::Notify(n) => self.read_notify(file, n, buffers),
            FileKind::Tun { tun, .. } => self.read_tun(file, tun, buffers),
            FileKind::PtyMaster { pty, .. } => self.read_master(file, pty, buffers),
            FileKind::Terminal { pty, .. } => self.read_terminal(file, pty, buffers),
            FileKind::EventFd(n) => self.read_eventfd(file, n, buffers),
            FileKind::Userfault(n) => self.read_userfault(file, n, buffers),
            FileKind::TimerFd(n) => self.read_timerfd(file, n, buffers),
            FileKind::SignalFd(n) => self.read_signalfd(file, n, buffers),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `write(2)` and its relatives; with an `offset`, `pwrite(2)`. Errors as for
    /// [`file_read`](Self::file_read).
    pub(crate) fn file_write(
        &mut self,
        file: FileKey,
        buffers: &GuestBuffers,
        offset: Option<u64>,
    ) -> SysResult {
        let open = self.host.files.open(file);
        if open.flags & c::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        if offset.is_some() && !open.kind.has_position() {
            return Err(Errno::ESPIPE);
        }
        if !open.is_writable() {
            return Err(Errno::EBADF);
        }
        match open.kind.clone() {
            FileKind::Regular(inode) => regular::write(self, file, inode, buffers, offset),
            FileKind::Directory { .. } => Err(Errno::EISDIR),
            FileKind::Device { device: Device::Block(device), .. } => {
                self.write_block(file, device, buffers, offset)
            }
            FileKind::Device { device, .. } => devices::write(device, buffers),
            FileKind::Virtual { inode, .. } => self.write_virtual(file, inode, buffers, offset),
            FileKind::Path(_) => Err(Errno::EBADF),
            FileKind::NativeStream(stream) => streams::write(self, stream, buffers),
            FileKind::PipeReader(pipe) | FileKind::PipeWriter(pipe) | FileKind::PipeBoth(pipe) => {
                self.write_pipe(file, pipe, buffers)
            }
            FileKind::Socket(socket) => socket_io::write_socket(self, file, socket, buffers),
            FileKind::Tun { tun, .. } => self.write_tun(tun, buffers),
            FileKind::PtyMaster { pty, .. } => self.write_master(file, pty, buffers),
            FileKind::Terminal { pty, .. } => self.write_terminal(file, pty, buffers),
            FileKind::EventFd(n) => self.write_eventfd(file, n, buffers),
            FileKind::Notify(n) => self.write_notify(n, buffers),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `ioctl(2)` of an open file, by its kind. `ENOTTY` for unknown requests, which is how `TCGETS`
    /// identifies a file as no terminal.
    pub(crate) fn file_ioctl(&mut self, file: FileKey, request: u64, argument: u64) -> SysResult {
        match (self.host.files.open(file).kind.clone(), request) {
            (FileKind::Regular(inode), c::FIONREAD) => {
                let size = self.host.files.inode(inode).content().map_or(0, |content| content.size);
                // Negative beyond the end of the file; truncated to 32 bits.
                let left = size.wrapping_sub(self.host.files.open(file).offset);
                self.write(argument, &(left as i32))?;
                done(0)
            }
            (FileKind::Regular(inode) | FileKind::Directory { inode, .. }, _) => {
                file_flags::ioctl(self, file, inode, request, argument)
            }
            (FileKind::PipeReader(_) | FileKind::PipeWriter(_) | FileKind::PipeBoth(_), c::FIONREAD) => {
                let len = self.host.files.pipe_of(file).map_or(0, |pipe| pipe.len());
                self.write(argument, &(len as i32))?;
                done(0)
            }
            (FileKind::Notify(n), c::FIONREAD) => {
                let len = self.host.files.notify.queued_bytes(n);
                self.write(argument, &(len as i32))?;
                done(0)
            }
            // The random device always has full entropy, random(4).
            (FileKind::Device { device: Device::Random | Device::Urandom, .. }, RNDGETENTCNT) => {
                self.write(argument, &ENTROPY_BITS)?;
                done(0)
            }
            (FileKind::Device { device: Device::Block(device), .. }, _) => {
                self.block_ioctl(file, device, request, argument)
            }
            (FileKind::Device { device: Device::LoopControl, .. }, _) => self.loop_control(request, argument),
            (FileKind::Device { device: Device::Ptp(number), .. }, _) => {
                ptp::ioctl(self, number, request, argument)
            }
            (FileKind::Userfault(n), _) => self.userfault_ioctl(n, request, argument),
            // The only requests of epoll are busy-polling parameters, which are not supported.
            (FileKind::Epoll(_), _) => Err(Errno::EINVAL),
            (FileKind::PtyMaster { .. } | FileKind::Terminal { .. }, _) => {
                self.terminal_ioctl(file, request, argument)
            }
            (FileKind::Tun { tun, .. }, _) => self.tun_ioctl(tun, request, argument),
            (FileKind::Virtual { .. }, _) => match self.host.files.namespace_of(file) {
                Some(namespace) => self.namespace_ioctl(namespace, request, argument),
                None => {
                    let inode = self.host.files.open(file).kind.inode().ok_or(Errno::ENOTTY)?;
                    if request == PROCMAP_QUERY && self.host.files.inode(inode).node.is_map() {
                        return self.query_mapping(inode, argument);
                    }
                    file_flags::ioctl(self, file, inode, request, argument)
                }
            },
            (FileKind::PidFd(n), _) => self.pidfd_ioctl(n, request, argument),
            (FileKind::Socket(socket), _) => crate::net::socket_ioctl(self, socket, request, argument),
            _ => Err(Errno::ENOTTY),
        }
    }
}
