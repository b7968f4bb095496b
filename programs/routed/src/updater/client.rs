//! The place that routes go to.

use super::{Answer, Request};
use crate::error::{Doing, Error, warn};
use crate::netlink::{Kernel, KernelRoute};
use belljar_base::Map;
use belljar_routing::Prefix;
use nix::errno::Errno;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The longest wait for an updater's answer.
const PATIENCE: Duration = Duration::from_secs(10);

enum Way {
    Kernel(Kernel),
    Updater { reader: BufReader<UnixStream>, writer: UnixStream },
}

/// The kernel's table, by netlink or by an updater, with the routes that were set in it.
pub struct RouteSink {
    way: Way,
    set: Map<Prefix, KernelRoute>,
}

impl RouteSink {
    /// Opens the kernel's table, without what an earlier daemon of the same protocol left in it.
    pub fn kernel(protocol: u8) -> Result<RouteSink, Error> {
        let opened = Kernel::open(protocol).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => Error::NoRoutes,
            _ => Error::Io { doing: "ask the kernel by netlink".to_owned(), source: error },
        });
        let mut kernel = opened?;
        let left = kernel.remove_all().doing("read the routing table")?;
        if left > 0 {
            warn(format_args!("removed {left} routes that an earlier run left behind"));
        }
        Ok(RouteSink { way: Way::Kernel(kernel), set: Map::new() })
    }

    /// Connects to an updater.
    pub fn updater(path: &Path) -> Result<RouteSink, Error> {
        let gone = |source| Error::NobodyThere { path: path.to_owned(), source };
        let writer = UnixStream::connect(path).map_err(gone)?;
        writer.set_read_timeout(Some(PATIENCE)).doing("set a time limit")?;
        let reader = BufReader::new(writer.try_clone().doing("use the updater's socket")?);
        let mut sink = RouteSink { way: Way::Updater { reader, writer }, set: Map::new() };
        sink.ask(&Request::ReplaceAll(Vec::new()))?;
        Ok(sink)
    }

    /// Sets a route. A kernel that refuses it is reported, and the daemon goes on.
    pub fn set(&mut self, route: KernelRoute) -> Result<(), Error> {
        match self.change(&Request::Add(route)) {
            Ok(()) => {
                self.set.insert(route.prefix(), route);
                Ok(())
            }
            Err(Error::UpdaterGone) => Err(Error::UpdaterGone),
            Err(error) => {
                warn(format_args!("route to {} not set: {error}", route.prefix()));
                Ok(())
            }
        }
    }

    /// Removes a route that was set.
    pub fn remove(&mut self, destination: Prefix) -> Result<(), Error> {
        let Some(route) = self.set.remove(&destination) else { return Ok(()) };
        match self.change(&Request::Remove(route)) {
            Err(Error::UpdaterGone) => Err(Error::UpdaterGone),
            Err(error) => {
                warn(format_args!("route to {destination} not removed: {error}"));
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Removes all routes that were set.
    pub fn clear(&mut self) {
        let all: Vec<Prefix> = self.set.keys().copied().collect();
        for destination in all {
            if self.remove(destination).is_err() {
                return;
            }
        }
    }

    /// The number of routes that are set.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    fn change(&mut self, request: &Request) -> Result<(), Error> {
        let Way::Kernel(kernel) = &mut self.way else { return self.ask(request) };
        let done = match request {
            Request::Add(route) => kernel.set(route),
            Request::Remove(route) => kernel.remove(route),
            Request::ReplaceAll(_) => Ok(()),
        };
        done.map_err(|error| match error.raw_os_error() {
            Some(code) if code == Errno::EPERM as i32 => Error::NoRoutes,
            _ => Error::Io { doing: "change the route".to_owned(), source: error },
        })
    }

    fn ask(&mut self, request: &Request) -> Result<(), Error> {
        let Way::Updater { reader, writer } = &mut self.way else { return Ok(()) };
        let mut line = serde_json::to_vec(request).map_err(io::Error::from).doing("write a request")?;
        line.push(b'\n');
        let mut answer = String::new();
        let read = writer.write_all(&line).and_then(|()| reader.read_line(&mut answer));
        match read.ok().filter(|len| *len > 0).and_then(|_| serde_json::from_str(&answer).ok()) {
            Some(Answer::Ok(_)) => Ok(()),
            Some(Answer::Error(error)) => Err(Error::Refused(error)),
            None => Err(Error::UpdaterGone),
        }
    }
}
