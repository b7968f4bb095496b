//! The post: a socket that carries messages between hosts, addressed by names.

use crate::cli::PORT;
use crate::clock::Clock;
use crate::datagram::{Assembly, LARGEST, pieces};
use crate::message::Message;
use belljar_base::Map;
use serde_json::json;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Duration;

/// File of the messages that the host has sent.
const SENT: &str = "messages.jsonl";

/// Outgoing half.
pub struct Sender {
    socket: UdpSocket,
    clients: String,
    addresses: Map<String, SocketAddr>,
    number: u64,
    sent: File,
    clock: Clock,
}

/// Incoming half.
pub struct Receiver {
    socket: UdpSocket,
    assembly: Assembly<SocketAddr>,
}

/// Opens the socket. Names of clients stand for the host `clients`.
///
/// # Errors
/// The socket cannot be opened, or the file of messages cannot be written.
pub fn open(clients: &str, clock: Clock) -> Result<(Sender, Receiver), String> {
    let failed = |error: io::Error| format!("UDP port {PORT} cannot be used: {error}");
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, PORT)).map_err(failed)?;
    let other = socket.try_clone().map_err(failed)?;
    let sent = File::options().create(true).append(true).open(SENT);
    let sent = sent.map_err(|error| format!("{SENT} cannot be written: {error}"))?;
    // Numbers of a program that is started again differ from those of the one before.
    let number = u64::from(std::process::id()) << 32;
    let sender = Sender { socket, clients: clients.to_owned(), addresses: Map::new(), number, sent, clock };
    Ok((sender, Receiver { socket: other, assembly: Assembly::new() }))
}

impl Sender {
    /// Sends a message, and notes it.
    ///
    /// # Errors
    /// There is no host of the receiver's name, or the message is too large. A network that is down loses the message.
    pub fn send(&mut self, message: &Message) -> Result<(), String> {
        let line = message.line();
        if line.len() > LARGEST {
            return Err(format!("a message to {} has more than {LARGEST} bytes", message.dest));
        }
        let note = json!({"time": self.clock.now().as_nanos() as u64, "src": message.src, "dest": message.dest, "body": message.body});
        writeln!(self.sent, "{note}").map_err(|error| format!("{SENT} cannot be written: {error}"))?;
        let address = self.address(&message.dest)?;
        self.number += 1;
        for datagram in pieces(self.number, line.as_bytes()) {
            // The network may be down at the moment: the message is lost then.
            let _ = self.socket.send_to(&datagram, address);
        }
        Ok(())
    }

    /// Address of a node, service or client.
    fn address(&mut self, name: &str) -> Result<SocketAddr, String> {
        let host = if is_client(name) { &self.clients } else { name };
        if let Some(address) = self.addresses.get(host) {
            return Ok(*address);
        }
        let unknown = || format!("there is no node or service {name}");
        if host.is_empty() || host.contains(['.', ':', ' ']) {
            return Err(unknown());
        }
        let found = (host, PORT).to_socket_addrs().map_err(|_| unknown())?.find(SocketAddr::is_ipv4);
        let address = found.ok_or_else(unknown)?;
        self.addresses.insert(host.to_owned(), address);
        Ok(address)
    }
}

/// True for names of clients: c1, c2 and so on.
pub(crate) fn is_client(name: &str) -> bool {
    name.strip_prefix('c')
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

impl Receiver {
    /// Waits for a message, for a time if one is given.
    ///
    /// # Errors
    /// The socket fails.
    pub fn receive(&mut self, wait: Option<Duration>) -> Result<Option<Message>, String> {
        let failed = |error: io::Error| format!("messages cannot be received: {error}");
        // A time-out of zero would be none.
        self.socket.set_read_timeout(wait.map(|wait| wait.max(Duration::from_micros(1)))).map_err(failed)?;
        let mut buffer = [0; 2048];
        loop {
            let (length, sender) = match self.socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                // A host that is down has refused an earlier message.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::ConnectionRefused | io::ErrorKind::Interrupted
                    ) =>
                {
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            let Some(whole) = self.assembly.take(&sender, &buffer[..length]) else {
                if wait.is_some() {
                    return Ok(None);
                }
                continue;
            };
            if let Some(message) = String::from_utf8(whole).ok().and_then(|line| Message::parse(&line).ok()) {
                return Ok(Some(message));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_client;

    #[test]
    fn clients_have_numbers() {
        assert!(is_client("c0") && is_client("c17"));
        assert!(!is_client("c") && !is_client("n1") && !is_client("clients") && !is_client("c1x"));
    }
}
