//! Client connections of a server, independent of the application protocol.

use crate::Server;
use crate::pipeline::Device;

/// Transport side of a server: received and transmitted bytes of its connections. The owner of the sockets
/// calls these methods, and the server's `poll` after bytes were received or transmitted.
pub trait Connections {
    /// Registers an accepted connection; returns its number for the other methods.
    fn accept(&mut self) -> usize;
    /// Delivers bytes received on a connection, at most [`room`](Self::room).
    fn receive(&mut self, connection: usize, bytes: &[u8]);
    /// Signals that the client has closed its sending direction.
    fn end_input(&mut self, connection: usize);
    /// Number of bytes that [`receive`](Self::receive) accepts now.
    fn room(&self, connection: usize) -> usize;
    /// Takes up to `limit` bytes to be sent on a connection.
    fn transmit(&mut self, connection: usize, limit: usize) -> Vec<u8>;
    /// Number of bytes queued for [`transmit`](Self::transmit).
    fn outgoing(&self, connection: usize) -> usize;
    /// True if a connection is closed; bytes may still be queued for transmission.
    fn is_closed(&self, connection: usize) -> bool;
    /// Releases a connection. Its number may be reused.
    fn close(&mut self, connection: usize);
}

impl<D: Device> Connections for Server<D> {
    fn accept(&mut self) -> usize {
        Server::accept(self)
    }
    fn receive(&mut self, connection: usize, bytes: &[u8]) {
        Server::receive(self, connection, bytes);
    }
    fn end_input(&mut self, connection: usize) {
        Server::end_input(self, connection);
    }
    fn room(&self, connection: usize) -> usize {
        Server::room(self, connection)
    }
    fn transmit(&mut self, connection: usize, limit: usize) -> Vec<u8> {
        Server::transmit(self, connection, limit).to_vec()
    }
    fn outgoing(&self, connection: usize) -> usize {
        Server::outgoing(self, connection)
    }
    fn is_closed(&self, connection: usize) -> bool {
        Server::is_closed(self, connection)
    }
    fn close(&mut self, connection: usize) {
        Server::close(self, connection);
    }
}
