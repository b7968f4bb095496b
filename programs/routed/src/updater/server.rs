//! `belljar-routed updater`.

use super::{Answer, MOST_BYTES, Request};
use crate::control::listen;
use crate::error::{Doing, Error, warn};
use crate::netlink::{Kernel, KernelRoute};
use crate::signals::Signals;
use belljar_base::Map;
use belljar_routing::Prefix;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The number that the updater's routes carry (`rtm_protocol`).
pub const PROTOCOL: u8 = 152;
/// Clients at a time.
const MOST_CLIENTS: usize = 64;

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    routes: Map<Prefix, KernelRoute>,
}

/// Serves until a signal comes.
pub fn run(path: &Path, owner: Option<u32>) -> Result<(), Error> {
    let signals = Signals::open()?;
    let mut kernel = Kernel::open(PROTOCOL).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Error::Permission { doing: "change routes".to_owned(), capability: "CAP_NET_ADMIN" }
        }
        _ => Error::Io { doing: "ask the kernel by netlink".to_owned(), source: error },
    })?;
    kernel.remove_all().doing("read the routing table")?;
    let listener = listen(path, "--socket")?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).doing("protect the socket")?;
    if let Some(owner) = owner {
        chown(path, Some(owner), None).doing(format!("give the socket to user {owner}"))?;
    }
    let mut clients: Vec<Client> = Vec::new();
    loop {
        let mut fds =
            vec![PollFd::new(signals.fd(), PollFlags::POLLIN), PollFd::new(listener.fd(), PollFlags::POLLIN)];
        fds.extend(clients.iter().map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).doing("wait for requests"),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if ready[0] {
            break;
        }
        let mut index = 2;
        clients.retain_mut(|client| {
            let stays = !ready.get(index).copied().unwrap_or(false) || client.serve(&mut kernel).is_ok();
            index += 1;
            if !stays {
                withdraw(&mut kernel, client);
            }
            stays
        });
        if ready[1]
            && let Some(stream) = listener.accept()
        {
            if clients.len() < MOST_CLIENTS {
                clients.push(Client { stream, input: Vec::new(), routes: Map::new() });
            } else {
                warn(format_args!("more than {MOST_CLIENTS} clients: one is turned away"));
            }
        }
    }
    clients.iter().for_each(|client| withdraw(&mut kernel, client));
    Ok(())
}

fn withdraw(kernel: &mut Kernel, client: &Client) {
    for route in client.routes.values() {
        if let Err(error) = kernel.remove(route) {
            warn(format_args!("route to {} not removed: {error}", route.prefix()));
        }
    }
}

impl Client {
    /// Reads what has come and answers the whole lines in it. An error ends the client.
    fn serve(&mut self, kernel: &mut Kernel) -> io::Result<()> {
        let mut buffer = [0; 65_536];
        let len = self.stream.read(&mut buffer)?;
        if len == 0 || self.input.len() + len > MOST_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend(&buffer[..len]);
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let done = match serde_json::from_slice(&line) {
                Ok(request) => self.carry_out(kernel, request).map_err(|error| error.to_string()),
                Err(error) => Err(format!("not a request: {error}")),
            };
            let answer = done.map_or_else(Answer::Error, |()| Answer::Ok(true));
            let mut line = serde_json::to_vec(&answer)?;
            line.push(b'\n');
            self.stream.write_all(&line)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, kernel: &mut Kernel, request: Request) -> io::Result<()> {
        match request {
            Request::Add(route) => self.add(kernel, route),
            Request::Remove(route) => {
                // Only what the client has set itself.
                match self.routes.remove(&route.prefix()) {
                    Some(route) => kernel.remove(&route),
                    None => Ok(()),
                }
            }
            Request::ReplaceAll(next) => {
                let gone: Vec<_> = self
                    .routes
                    .keys()
                    .filter(|old| !next.iter().any(|route| route.prefix() == **old))
                    .copied()
                    .collect();
                for prefix in gone {
                    if let Some(route) = self.routes.remove(&prefix) {
                        kernel.remove(&route)?;
                    }
                }
                next.into_iter().try_for_each(|route| self.add(kernel, route))
            }
        }
    }

    fn add(&mut self, kernel: &mut Kernel, route: KernelRoute) -> io::Result<()> {
        if route.bits > 32 {
            return Err(io::Error::other(format!("{} network bits, of 32", route.bits)));
        }
        kernel.set(&route)?;
        self.routes.insert(route.prefix(), route);
        Ok(())
    }
}
