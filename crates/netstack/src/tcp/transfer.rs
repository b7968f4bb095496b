//! Sending and receiving on a connection.

use super::errno;
use crate::SocketKey;
use crate::Stack;
use crate::buffers;
use crate::interface::Attachment;
use crate::ip::route::Through;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use belljar_tcp::Connection;

impl Stack {
    /// Writes data to a connection. Returns the number of bytes accepted.
    pub fn tcp_write(&mut self, key: SocketKey, data: &[u8]) -> Result<usize, Errno> {
        let connection = self.sockets.tcp(key).connection().ok_or(Errno::EPIPE)?;
        if !connection.can_send() {
            return Err(connection.take_error().map_or(Errno::EPIPE, errno));
        }
        let sent = self.tcp_put(key, data);
        self.tcp_pump(key);
        self.flush_network();
        Ok(sent)
    }

    /// Writes the data that fits the send buffer, and transmits in between. Returns the number of bytes
    /// accepted.
    pub fn tcp_put(&mut self, key: SocketKey, data: &[u8]) -> usize {
        let now = self.clock.local();
        let mut sent = 0;
        while sent < data.len() {
            let Some(connection) = self.sockets.tcp(key).connection() else { break };
            let n = connection.send(&data[sent..], now);
            if n == 0 {
                break;
            }
            sent += n;
            if sent < data.len() {
                self.tcp_pump(key);
            }
        }
        sent
    }

    /// Reads up to `len` bytes of a connection by `take`. Returns the number of bytes read, `None` at the end
    /// of the stream.
    pub fn tcp_read(
        &mut self,
        key: SocketKey,
        len: usize,
        take: impl FnOnce(&mut Connection, SimTime) -> usize,
    ) -> Result<Option<usize>, Errno> {
        let now = self.clock.local();
        let connection = self.sockets.tcp(key).connection().ok_or(Errno::ENOTCONN)?;
        if len.min(connection.readable_bytes()) == 0 {
            let error = if connection.is_ended_by_peer() { None } else { connection.take_error() };
            if let Some(error) = error {
                return Err(errno(error));
            }
            return Ok(if connection.is_read_closed() { None } else { Some(0) });
        }
        let taken = take(connection, now);
        while let Some(spent) = connection.take_spent() {
            buffers::recycle(spent);
        }
        self.tcp_was_read(key);
        Ok(Some(taken))
    }

    /// Records that `len` bytes of a `MSG_ZEROCOPY` send were written to a connection. `before` holds the end of
    /// its stream before the write, and the number of its unsent bytes.
    pub fn zero_copy_written(&mut self, key: SocketKey, len: usize, first: bool, before: (u64, usize)) {
        let socket = &self.sockets[key.0];
        let through = Through::of(socket, socket.options.bound_device);
        let Some(connection) = self.sockets.tcp(key).connection() else { return };
        let (until, local, remote) =
            (connection.written_until(), connection.local().ip(), connection.remote().ip());
        let route = self.route(remote, Some(local), through);
        let medium = route.map(|route| self.interfaces[route.interface].attachment);
        let copied = medium.is_ok_and(Attachment::copies_zero_copy);
        let Some(state) = &mut self.socket(key).zero_copy else { return };
        state.written(len, first, before, (until, copied));
        self.zero_copy_settle(key);
    }
}
