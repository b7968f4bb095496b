//! Errors that end the daemon, each with its remedy.

use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// An error that ends a command.
#[derive(Debug, Error)]
pub enum Error {
    #[error("there is no interface '{0}': `ip link` lists those that there are")]
    NoInterface(String),
    #[error("interface '{0}' has no IPv4 address: give it one with `ip address add ADDRESS/BITS dev {0}`")]
    NoAddress(String),
    #[error("interface '{0}' is named twice")]
    Twice(String),
    #[error("--main-address {0} is not the address of any of the interfaces")]
    NotOwn(std::net::Ipv4Addr),
    #[error(
        "no permission to change routes, which takes CAP_NET_ADMIN: run as root, or start `belljar-routed updater \
         --socket PATH` as root and name its socket here with --updater PATH"
    )]
    NoRoutes,
    #[error("no permission to {doing}, which takes {capability}: run as root")]
    Permission { doing: String, capability: &'static str },
    #[error(
        "no permission to use UDP port {port}: run as root, allow it with `sysctl net.ipv4.ip_unprivileged_port_start={port}`, \
         choose a port from 1024 on with --port on all nodes, or use an updater that was started with --lend (--updater PATH)"
    )]
    Port { port: u16 },
    #[error(
        "UDP port {port} is in use: another routing daemon runs here; end it, or choose another port on all nodes with --port"
    )]
    PortInUse { port: u16 },
    #[error("the socket {0} is in use by another process: choose another path with {1}")]
    SocketInUse(PathBuf, &'static str),
    #[error(
        "nothing answers at {path} ({source}): is the daemon running, and is this the path that it was started with?"
    )]
    NobodyThere { path: PathBuf, source: io::Error },
    #[error("{path}:{line}: {text}")]
    Settings { path: PathBuf, line: usize, text: String },
    #[error("--data-plane {option}: {source}")]
    Plane { option: &'static str, source: Box<Error> },
    #[error(
        "--data-plane {0} and --updater do not go together: the data plane needs root, so give it to the updater, with its interfaces"
    )]
    PlaneHere(&'static str),
    #[error("the updater refused: {0}")]
    Refused(String),
    #[error("the updater has gone away: routes can no longer be changed")]
    UpdaterGone,
    #[error("{0}")]
    Frames(#[from] belljar_packetio::Error),
    #[error("cannot {doing}: {source}")]
    Io { doing: String, source: io::Error },
}

/// Adds the failed operation to an error.
pub trait Doing<T> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|error| Error::Io { doing: what.into(), source: error.into() })
    }
}

/// Writes a warning to standard error.
pub fn warn(text: impl std::fmt::Display) {
    eprintln!("belljar-routed: {text}");
}
