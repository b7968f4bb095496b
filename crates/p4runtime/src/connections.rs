//! Client connections of a server, independent of the application protocol.

use crate::Server;
use crate::pipeline::Device;
use belljar_p4::servers::Connections;

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
