//! Connections of clients to a server, whatever it speaks.

use crate::Server;
use crate::pipeline::Device;

/// Transport side of a server: bytes of its connections in and out. Whoever owns sockets calls these, and the server's `poll`
/// after bytes have come or gone.
pub trait Connections {
    /// A connection was accepted. The number is for the other methods.
    fn accept(&mut self) -> usize;
    /// Takes bytes from a connection, at most [`room`](Self::room) of them.
    fn receive(&mut self, connection: usize, bytes: &[u8]);
    /// The client has closed its side of a connection.
    fn end_input(&mut self, connection: usize);
    /// The number of bytes that can be received now.
    fn room(&self, connection: usize) -> usize;
    /// Takes up to `limit` bytes for a connection.
    fn transmit(&mut self, connection: usize, limit: usize) -> Vec<u8>;
    /// The number of bytes that wait for [`transmit`](Self::transmit).
    fn outgoing(&self, connection: usize) -> usize;
    /// True if a connection is over, but for what waits to be transmitted.
    fn is_closed(&self, connection: usize) -> bool;
    /// Forgets a connection. The number may be used again.
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
