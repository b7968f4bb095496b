//! UNIX sockets in sock_diag(7) (`include/uapi/linux/unix_diag.h`), as `ss -x` queries them.

use super::diag::{BY_FAMILY, words};
use super::message::{MULTI, Message, Request, To};
use crate::Admin;
use crate::proc::LISTEN;
use crate::unix::UnixSocketInfo;
use belljar_linux_abi::{Errno, c};

/// Length of `struct unix_diag_req` in bytes.
const REQUEST: usize = 24;
/// Attributes by the bit that selects them, `UDIAG_SHOW_*`, and their type, `UNIX_DIAG_*`.
const NAME: (u32, u16) = (1, 0);
const VFS: (u32, u16) = (2, 1);
const PEER: (u32, u16) = (4, 2);
const ICONS: (u32, u16) = (8, 3);
const RQLEN: (u32, u16) = (0x10, 4);
const MEMINFO: (u32, u16) = (0x20, 5);
const UID: (u32, u16) = (0x40, 7);
/// Attribute that is always present.
const SHUTDOWN: u16 = 6;

impl Admin<'_> {
    /// Answers a dump of the sockets in the requested states, or a request for one inode.
    pub(crate) fn unix_diag(
        &self,
        request: &Request<'_>,
        dump: bool,
        port: u32,
    ) -> Result<Vec<Vec<u8>>, Errno> {
        if request.body.len() < REQUEST {
            return Err(Errno::EINVAL);
        }
        let (states, inode, show) = (request.word(4)?, request.word(8)?, request.word(12)?);
        // A connection that has not been accepted has no inode and is not reported.
        let sockets = self.listeners.unix_sockets(self.net).into_iter().filter(|socket| socket.inode != 0);
        if dump {
            let wanted = sockets.filter(|socket| states & (1 << socket.state) != 0);
            return Ok(wanted
                .map(|socket| self.unix_diag_message(&socket, show, (request.sequence, MULTI, port)))
                .collect());
        }
        if inode == 0 {
            return Err(Errno::EINVAL);
        }
        let socket =
            sockets.into_iter().find(|socket| socket.inode == u64::from(inode)).ok_or(Errno::ENOENT)?;
        let cookie = [request.word(16)?, request.word(20)?];
        let own = [socket.serial, 0];
        if cookie != [u32::MAX; 2] && cookie != own {
            return Err(Errno::ESTALE);
        }
        Ok(vec![self.unix_diag_message(&socket, show, (request.sequence, 0, port))])
    }

    /// `struct unix_diag_msg` with the selected attributes.
    fn unix_diag_message(&self, socket: &UnixSocketInfo, show: u32, to: To) -> Vec<u8> {
        let (sequence, flags, port) = to;
        let asked = |what: (u32, u16)| show & what.0 != 0;
        let mut message = Message::new(BY_FAMILY, flags, sequence, port)
            .put(&[c::AF_UNIX as u8, socket.type_ as u8, socket.state, 0])
            .put(&words(&[socket.inode as u32, socket.serial, 0]));
        if let Some(name) = socket.name.as_ref().filter(|_| asked(NAME)) {
            message = message.attribute(NAME.1, name);
        }
        if let Some((inode, device)) = socket.file.filter(|_| asked(VFS)) {
            message = message.attribute(VFS.1, &words(&[inode as u32, kernel_device(device)]));
        }
        if let Some(peer) = socket.peer.filter(|_| asked(PEER)) {
            message = message.attribute(PEER.1, &words(&[peer as u32]));
        }
        if asked(ICONS) && socket.state == LISTEN && !socket.waiting.is_empty() {
            let waiting: Vec<u32> = socket.waiting.iter().map(|inode| *inode as u32).collect();
            message = message.attribute(ICONS.1, &words(&waiting));
        }
        if asked(RQLEN) {
            let queues = [socket.receive_queue as u32, socket.send_queue as u32];
            message = message.attribute(RQLEN.1, &words(&queues));
        }
        if asked(MEMINFO) {
            let sent = if socket.state == LISTEN { 0 } else { socket.send_queue as u32 };
            let (receive_buffer, send_buffer) = socket.buffers;
            let values = [0, receive_buffer, sent, send_buffer, 0, 0, 0, 0, 0];
            message = message.attribute(MEMINFO.1, &words(&values));
        }
        message = message.attribute(SHUTDOWN, &[socket.shut]);
        if asked(UID) {
            message = message.attribute(UID.1, &words(&[socket.uid]));
        }
        message.finish()
    }
}

/// Kernel encoding of a device number, 12 bits major and 20 bits minor, from the encoding of stat(2).
fn kernel_device(device: u64) -> u32 {
    let (major, minor) = (c::major(device), c::minor(device));
    major << 20 | minor & 0xf_ffff
}
