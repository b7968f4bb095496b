//! Destination of routes: the kernel's table, by netlink or by an updater.

use super::{Answer, Loan, Reactive, Request, descriptors};
use crate::error::{Doing, Error, warn};
use crate::netlink::{Kernel, KernelRoute, RouteRequest};
use crate::redirects::Redirects;
use belljar_base::{Map, Set};
use belljar_packetio::Flow;
use belljar_routing::Prefix;
use nix::errno::Errno;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Timeout for an updater's reply.
const PATIENCE: Duration = Duration::from_secs(10);

enum Way {
    Kernel { kernel: Kernel, redirects: Redirects },
    Updater { reader: BufReader<UnixStream>, writer: UnixStream },
}

/// Change of the table.
#[derive(Clone, Copy, Debug)]
pub enum TableChange {
    /// Adds a route, or replaces the one to the same destination.
    Set(KernelRoute),
    /// Removes the route to a destination.
    Remove(Prefix),
}

impl TableChange {
    fn prefix(&self) -> Prefix {
        match self {
            TableChange::Set(route) => route.prefix(),
            TableChange::Remove(destination) => *destination,
        }
    }
}

/// The kernel's table, accessed by netlink or by an updater, and the routes that were set in it.
pub struct RouteSink {
    way: Way,
    set: Map<Prefix, KernelRoute>,
}

impl RouteSink {
    /// Opens the kernel's table, and removes the routes left by an earlier daemon of the same protocol.
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
        Ok(RouteSink { way: Way::Kernel { kernel, redirects: Redirects::default() }, set: Map::new() })
    }

    /// Connects to an updater, for routes in its own network namespace or in another one that it serves.
    pub fn updater(path: &Path, namespace: Option<&str>) -> Result<RouteSink, Error> {
        let gone = |source| Error::NobodyThere { path: path.to_owned(), source };
        let writer = crate::control::connect(path).map_err(gone)?;
        writer.set_read_timeout(Some(PATIENCE)).doing("set a time limit")?;
        let reader = BufReader::new(writer.try_clone().doing("use the updater's socket")?);
        let mut sink = RouteSink { way: Way::Updater { reader, writer }, set: Map::new() };
        if let Some(name) = namespace {
            sink.ask(&Request::Namespace(name.to_owned()))?;
        }
        sink.ask(&Request::ReplaceAll(Vec::new()))?;
        Ok(sink)
    }

    /// Requests a UDP socket on a protocol's port from the updater; `None` without an updater or if it does
    /// not lend descriptors.
    pub fn lend_port(&mut self, port: u16) -> Option<OwnedFd> {
        self.lend(Loan::Port(port)).ok()?.pop()
    }

    /// The descriptors of a reactive protocol: opened here, or lent by the updater.
    pub fn reactive(&mut self, tun: &str) -> Result<Reactive, Error> {
        match self.way {
            Way::Kernel { .. } => Reactive::open(tun),
            Way::Updater { .. } => {
                let lent = self.lend(Loan::Reactive(tun.to_owned()))?;
                Reactive::from_fds(lent).ok_or(Error::UpdaterGone)
            }
        }
    }

    /// The flows forwarded by the updater's data plane since the last call; `None` if it does not count them,
    /// or without an updater.
    pub fn flows(&mut self) -> Result<Option<Vec<Flow>>, Error> {
        match self.way {
            Way::Kernel { .. } => Ok(None),
            Way::Updater { .. } => match self.answer(&Request::Flows)? {
                Answer::Flows(flows) => Ok(flows),
                _ => Ok(None),
            },
        }
    }

    fn lend(&mut self, loan: Loan) -> Result<Vec<OwnedFd>, Error> {
        let Way::Updater { writer, .. } = &mut self.way else { return Ok(Vec::new()) };
        write_request(writer, &Request::Lend(loan))?;
        // The buffered reader is empty: each request waits for its reply.
        let (answer, fds) = descriptors::receive(writer).map_err(|_| Error::UpdaterGone)?;
        match serde_json::from_slice(&answer) {
            Ok(Answer::Error(error)) => Err(Error::Refused(error)),
            Ok(_) => Ok(fds),
            Err(_) => Err(Error::UpdaterGone),
        }
    }

    /// Sets a route. A refusal by the kernel is reported as a warning and is not an error.
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

    /// Carries out changes in order, by one call for the local kernel. Of several changes for one destination
    /// only the last one is made.
    pub fn carry_out(&mut self, changes: &[TableChange]) -> Result<(), Error> {
        let mut told = Set::new();
        let last = |change: &&TableChange| told.insert(change.prefix());
        let mut changes: Vec<_> = changes.iter().rev().filter(last).collect();
        changes.reverse();
        if !matches!(self.way, Way::Kernel { .. }) {
            return changes.into_iter().try_for_each(|change| match change {
                TableChange::Set(route) => self.set(*route),
                TableChange::Remove(destination) => self.remove(*destination),
            });
        }
        // Each with the route that it replaces.
        let mut requests = Vec::with_capacity(changes.len());
        for change in changes {
            match change {
                TableChange::Set(route) => {
                    requests.push((RouteRequest::Set(*route), self.set.insert(route.prefix(), *route)))
                }
                TableChange::Remove(destination) => {
                    let route = self.set.remove(destination);
                    requests.extend(route.map(|route| (RouteRequest::Remove(route), None)));
                }
            }
        }
        let Way::Kernel { kernel, .. } = &mut self.way else { return Ok(()) };
        let asked: Vec<_> = requests.iter().map(|(request, _)| *request).collect();
        let refused = kernel.carry_out(&asked).unwrap_or_else(|error| {
            warn(format_args!("routes not changed: {}", refusal(error)));
            Vec::new()
        });
        for (place, error) in refused {
            let error = refusal(error);
            match requests[place] {
                (RouteRequest::Set(route), before) => {
                    warn(format_args!("route to {} not set: {error}", route.prefix()));
                    // The replaced route still exists.
                    self.set.remove(&route.prefix());
                    self.set.extend(before.map(|before| (before.prefix(), before)));
                }
                (RouteRequest::Remove(route), _) => {
                    warn(format_args!("route to {} not removed: {error}", route.prefix()))
                }
            }
        }
        Ok(())
    }

    /// Disables ICMP redirects on an interface for the lifetime of this sink. A refusal is reported as a
    /// warning and is not an error.
    pub fn switch_redirects_off(&mut self, interface: &str) -> Result<(), Error> {
        match self.change(&Request::RedirectsOff(interface.to_owned())) {
            Err(Error::UpdaterGone) => Err(Error::UpdaterGone),
            Err(error) => {
                warn(format_args!("ICMP redirects of '{interface}' are not switched off: {error}"));
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

    /// Number of routes that are set.
    pub fn len(&self) -> usize {
        self.set.len()
    }

    fn change(&mut self, request: &Request) -> Result<(), Error> {
        let Way::Kernel { kernel, redirects } = &mut self.way else { return self.ask(request) };
        let done = match request {
            Request::Add(route) => kernel.set(route),
            Request::Remove(route) => kernel.remove(route),
            Request::RedirectsOff(interface) => return redirects.switch_off(interface),
            Request::ReplaceAll(_) | Request::Namespace(_) | Request::Lend(_) | Request::Flows => Ok(()),
        };
        done.map_err(refusal)
    }

    fn ask(&mut self, request: &Request) -> Result<(), Error> {
        self.answer(request).map(|_| ())
    }

    fn answer(&mut self, request: &Request) -> Result<Answer, Error> {
        let Way::Updater { reader, writer } = &mut self.way else { return Ok(Answer::Ok(true)) };
        write_request(writer, request)?;
        let mut answer = String::new();
        let read = reader.read_line(&mut answer);
        match read.ok().filter(|len| *len > 0).and_then(|_| serde_json::from_str(&answer).ok()) {
            Some(Answer::Error(error)) => Err(Error::Refused(error)),
            Some(answer) => Ok(answer),
            None => Err(Error::UpdaterGone),
        }
    }
}

/// The kernel's reason for refusing a route.
fn refusal(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(code) if code == Errno::EPERM as i32 => Error::NoRoutes,
        _ => Error::Io { doing: "change the route".to_owned(), source: error },
    }
}

fn write_request(writer: &mut UnixStream, request: &Request) -> Result<(), Error> {
    let mut line = serde_json::to_vec(request).map_err(io::Error::from).doing("write a request")?;
    line.push(b'\n');
    writer.write_all(&line).map_err(|_| Error::UpdaterGone)
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
