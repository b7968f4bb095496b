//! Controllers' connections to a server.

use crate::failure::Failure;
use belljar_p4::servers::Connections;
use rustix::event::{PollFd, PollFlags};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;

/// Upper bound on simultaneous connections; further ones are closed at once.
const MAX_CONNECTIONS: usize = 256;

struct Connection {
    /// Number of the connection at the server.
    number: usize,
    stream: TcpStream,
    /// Output of the server that is not yet written to the socket.
    rest: Vec<u8>,
    input_ended: bool,
    broken: bool,
}

/// Listening sockets and connections.
pub struct Controllers {
    listeners: Vec<TcpListener>,
    /// Local address of the first listening socket.
    address: SocketAddr,
    connections: Vec<Connection>,
}

impl Controllers {
    /// Listens on addresses, of which there is at least one.
    pub fn listen(addresses: &[SocketAddr]) -> Result<Self, Failure> {
        let listen = |address: &SocketAddr| {
            let failed = |error| Failure::run(format!("listening on {address} for controllers: {error}"));
            let listener = TcpListener::bind(address).map_err(failed)?;
            listener.set_nonblocking(true).map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?;
            Ok((listener, address))
        };
        let (listeners, bound): (Vec<_>, Vec<_>) =
            addresses.iter().map(listen).collect::<Result<Vec<_>, Failure>>()?.into_iter().unzip();
        Ok(Self { listeners, address: bound[0], connections: Vec::new() })
    }

    /// First local address, with the port chosen by the system if none was given.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds the descriptors to poll: the listeners, then one per connection.
    pub fn polled<'a>(&'a self, server: &impl Connections, polled: &mut Vec<PollFd<'a>>) {
        let listeners = self.listeners.iter();
        polled.extend(listeners.map(|listener| PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)));
        polled.extend(self.connections.iter().map(|connection| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !connection.input_ended && server.room(connection.number) > 0);
            flags.set(PollFlags::OUT, !connection.rest.is_empty() || server.outgoing(connection.number) > 0);
            PollFd::from_borrowed_fd(connection.stream.as_fd(), flags)
        }));
    }

    /// Number of descriptors that [`polled`](Self::polled) adds.
    pub fn len(&self) -> usize {
        self.listeners.len() + self.connections.len()
    }

    /// Passes received bytes to the server, and accepts new connections.
    pub fn receive(&mut self, ready: &[PollFlags], server: &mut impl Connections) {
        for (connection, ready) in self.connections.iter_mut().zip(&ready[self.listeners.len()..]) {
            if !ready.is_empty() {
                connection.receive(server);
            }
        }
        while let Some((stream, _)) = self.listeners.iter().find_map(|listener| listener.accept().ok()) {
            // Small messages are sent at once.
            let ready = stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true));
            if ready.is_ok() && self.connections.len() < MAX_CONNECTIONS {
                let number = server.accept();
                self.connections.push(Connection {
                    number,
                    stream,
                    rest: Vec::new(),
                    input_ended: false,
                    broken: false,
                });
            }
        }
    }

    /// Writes the server's output to the controllers, and removes closed connections.
    pub fn transmit(&mut self, server: &mut impl Connections) {
        for connection in &mut self.connections {
            connection.transmit(server);
        }
        self.connections.retain(|connection| {
            let over = server.is_closed(connection.number) && server.outgoing(connection.number) == 0;
            if connection.broken || over && connection.rest.is_empty() {
                server.close(connection.number);
                return false;
            }
            true
        });
    }
}

impl Connection {
    fn receive(&mut self, server: &mut impl Connections) {
        let mut buffer = [0; 64 * 1024];
        let room = server.room(self.number).min(buffer.len());
        if room == 0 || self.input_ended {
            return;
        }
        match self.stream.read(&mut buffer[..room]) {
            Ok(0) => {
                self.input_ended = true;
                server.end_input(self.number);
            }
            Ok(length) => server.receive(self.number, &buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => self.broken = true,
        }
    }

    fn transmit(&mut self, server: &mut impl Connections) {
        loop {
            if self.rest.is_empty() {
                self.rest = server.transmit(self.number, 64 * 1024);
            }
            if self.rest.is_empty() || self.broken {
                return;
            }
            match self.stream.write(&self.rest) {
                Ok(length) => drop(self.rest.drain(..length)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.broken = true,
            }
        }
    }
}
