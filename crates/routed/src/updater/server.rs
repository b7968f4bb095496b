//! `belljar-routed updater`.

use super::{Answer, Loan, MOST_BYTES, Reactive, Request, descriptors};
use crate::cli;
use crate::control::listen;
use crate::daemon::{PROTOCOL_PORTS, bind_port};
use crate::error::{Doing, Error, warn};
use crate::netlink::{Kernel, KernelRoute};
use crate::plane::Plane;
use crate::redirects::Redirects;
use crate::signals::Signals;
use belljar_base::Map;
use belljar_packetio::Namespace;
use belljar_routing::Prefix;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Route protocol number of the updater's routes (`rtm_protocol`).
pub const PROTOCOL: u8 = 152;
/// Largest number of concurrent clients.
const MOST_CLIENTS: usize = 64;
/// Timeout for a client to read a reply.
const PATIENCE: Duration = Duration::from_millis(500);

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// Network namespace of its routes; the updater's own if `None`.
    namespace: Option<String>,
    routes: Map<Prefix, KernelRoute>,
    redirects: Redirects,
}

/// State shared by all clients.
struct Shared {
    kernel: Kernel,
    /// Keyed by the name of the namespace.
    kernels: Map<String, Kernel>,
    plane: Plane,
    lend: bool,
}

impl Shared {
    fn kernel(&mut self, namespace: Option<&String>) -> &mut Kernel {
        namespace.and_then(|name| self.kernels.get_mut(name)).unwrap_or(&mut self.kernel)
    }
}

/// Opens a netlink socket in the calling thread's namespace, and removes the routes left by an earlier
/// updater.
fn open_kernel() -> Result<Kernel, Error> {
    let mut kernel = Kernel::open(PROTOCOL).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => {
            Error::Permission { doing: "change routes".to_owned(), capability: "CAP_NET_ADMIN" }
        }
        _ => Error::Io { doing: "ask the kernel by netlink".to_owned(), source: error },
    })?;
    kernel.remove_all().doing("read the routing table")?;
    Ok(kernel)
}

/// Runs a function in a network namespace, or in the updater's own.
fn inside<T: Send>(
    namespace: Option<&String>,
    open: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    match namespace {
        None => open(),
        Some(name) => Namespace::Name(name.clone()).run(|| Ok(open()))?,
    }
}

/// Serves clients until a signal arrives.
pub fn run(options: &cli::Updater) -> Result<(), Error> {
    let (path, owner) = (&options.socket, options.owner);
    let signals = Signals::open()?;
    let mut kernels = Map::new();
    for name in &options.namespace {
        kernels.insert(name.clone(), inside(Some(name), open_kernel)?);
    }
    let plane = Plane::start(options.data_plane, &options.interfaces)?;
    let mut shared = Shared { kernel: open_kernel()?, kernels, plane, lend: options.lend };
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
            let stays = !ready.get(index).copied().unwrap_or(false) || client.serve(&mut shared).is_ok();
            index += 1;
            if !stays {
                withdraw(&mut shared, client);
            }
            stays
        });
        if ready[1]
            && let Some(stream) = listener.accept()
        {
            if clients.len() < MOST_CLIENTS {
                // A client that does not read its replies must not block the others.
                let _ = stream.set_write_timeout(Some(PATIENCE));
                clients.push(Client::new(stream));
            } else {
                warn(format_args!("more than {MOST_CLIENTS} clients: one is turned away"));
            }
        }
    }
    clients.iter_mut().for_each(|client| withdraw(&mut shared, client));
    Ok(())
}

/// Undoes a client's changes.
fn withdraw(shared: &mut Shared, client: &mut Client) {
    let kernel = shared.kernel(client.namespace.as_ref());
    for route in client.routes.values() {
        if let Err(error) = kernel.remove(route) {
            warn(format_args!("route to {} not removed: {error}", route.prefix()));
        }
    }
    let Client { namespace, redirects, .. } = client;
    let restored = inside(namespace.as_ref(), || {
        redirects.restore();
        Ok(())
    });
    if let Err(error) = restored {
        warn(format_args!("ICMP redirects stay off: {error}"));
    }
}

impl Client {
    fn new(stream: UnixStream) -> Client {
        Client {
            stream,
            input: Vec::new(),
            namespace: None,
            routes: Map::new(),
            redirects: Redirects::default(),
        }
    }

    /// Reads from the client and replies to all complete lines. An error disconnects the client.
    fn serve(&mut self, shared: &mut Shared) -> io::Result<()> {
        let mut buffer = [0; 65_536];
        let len = self.stream.read(&mut buffer)?;
        if len == 0 || self.input.len() + len > MOST_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.input.extend(&buffer[..len]);
        while let Some(end) = self.input.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.input.drain(..=end).collect();
            let done = match serde_json::from_slice(&line) {
                Ok(Request::Lend(loan)) => match self.lend(shared, &loan) {
                    Ok(fds) => {
                        descriptors::send(&self.stream, b"{\"ok\":true}\n", &fds)?;
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Ok(request) => self.carry_out(shared, request).map_err(|error| error.to_string()),
                Err(error) => Err(format!("not a request: {error}")),
            };
            let mut line = serde_json::to_vec(&done.unwrap_or_else(Answer::Error))?;
            line.push(b'\n');
            self.stream.write_all(&line)?;
        }
        Ok(())
    }

    fn carry_out(&mut self, shared: &mut Shared, request: Request) -> io::Result<Answer> {
        let kernel = shared.kernel(self.namespace.as_ref());
        match request {
            Request::Add(route) => self.add(kernel, route)?,
            Request::Remove(route) => {
                // Only routes that the client has set.
                if let Some(route) = self.routes.remove(&route.prefix()) {
                    kernel.remove(&route)?;
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
                next.into_iter().try_for_each(|route| self.add(kernel, route))?;
            }
            Request::Namespace(name) => self.enter(shared, name)?,
            Request::RedirectsOff(interface) => {
                let Client { namespace, redirects, .. } = self;
                inside(namespace.as_ref(), || redirects.switch_off(&interface)).map_err(io::Error::other)?;
            }
            Request::Flows => {
                let counts = shared.plane.counts() && self.namespace.is_none();
                let flows = || shared.plane.take_flows().into_iter().map(|(flow, _)| flow).collect();
                return Ok(Answer::Flows(counts.then(flows)));
            }
            // Descriptors are sent by the caller, which has the socket.
            Request::Lend(_) => {}
        }
        Ok(Answer::Ok(true))
    }

    fn enter(&mut self, shared: &Shared, name: String) -> io::Result<()> {
        if !self.routes.is_empty() || self.redirects.are_off() {
            return Err(io::Error::other("the namespace is chosen before anything is changed"));
        }
        if !shared.kernels.contains_key(&name) {
            let text = format!("'{name}' is not served: start the updater with --namespace {name}");
            return Err(io::Error::other(text));
        }
        self.namespace = Some(name);
        Ok(())
    }

    fn lend(&self, shared: &Shared, loan: &Loan) -> Result<Vec<OwnedFd>, String> {
        if !shared.lend {
            return Err("it lends nothing: start it with --lend".to_owned());
        }
        let opened = inside(self.namespace.as_ref(), || match loan {
            Loan::Port(port) if PROTOCOL_PORTS.contains(port) => bind_port(*port).map(|fd| vec![fd]),
            Loan::Port(port) => Err(Error::Refused(format!("UDP port {port} is none of the protocols'"))),
            Loan::Reactive(tun) => Reactive::open(tun).map(Reactive::into_fds),
        });
        opened.map_err(|error| error.to_string())
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
