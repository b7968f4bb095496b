//! Data planes: forwarding of packets by the kernel's routing table, regardless of the origin of its routes.
//!
//! | plane | path of packets |
//! |---|---|
//! | kernel | the kernel's stack |
//! | tc-bpf | a program at the interfaces' ingress hook (`belljar_packetio::TcForwarder`) |
//! | af-xdp | a thread of this process ([`userspace`]) |
//!
//! Packets that a plane does not forward take the kernel's stack: packets for this machine, those without a
//! route or with an expired TTL, and those that are too long.

mod table;
mod userspace;

use crate::cli;
use crate::error::{Doing, Error};
use crate::signals::Signals;
use belljar_packetio::{Flow, TcForwarder};
use clap::ValueEnum;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use userspace::Userspace;

/// Interval between two reports of flows.
const REPORT_MS: u16 = 1000;

/// Choice of a data plane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// The kernel's own forwarding
    #[default]
    Kernel,
    /// A BPF program at the ingress of the interfaces; root, Linux 6.6
    TcBpf,
    /// A thread of this process, with AF_XDP sockets; root
    AfXdp,
}

impl Kind {
    /// The option's value for this plane.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::TcBpf => "tc-bpf",
            Kind::AfXdp => "af-xdp",
        }
    }
}

/// A running data plane. Dropping it restores the interfaces.
pub enum Plane {
    Kernel,
    TcBpf(TcForwarder),
    AfXdp(Userspace),
}

impl Plane {
    /// Starts a plane on interfaces.
    pub fn start(kind: Kind, names: &[String]) -> Result<Plane, Error> {
        let started = match kind {
            Kind::Kernel => Ok(Plane::Kernel),
            Kind::TcBpf => TcForwarder::attach(names).map(Plane::TcBpf).map_err(Error::Frames),
            Kind::AfXdp => Userspace::start(names).map(Plane::AfXdp),
        };
        started.map_err(|source| Error::Plane { option: kind.name(), source: Box::new(source) })
    }

    /// True if the plane counts the flows that it forwards.
    pub fn counts(&self) -> bool {
        !matches!(self, Plane::Kernel)
    }

    /// The flows forwarded since the last call, with their numbers of packets.
    pub fn take_flows(&mut self) -> Vec<(Flow, u64)> {
        match self {
            Plane::Kernel => Vec::new(),
            Plane::TcBpf(forwarder) => forwarder.take_flows(),
            Plane::AfXdp(forwarder) => forwarder.take_flows(),
        }
    }
}

/// `belljar-routed forward`: runs a plane until a signal arrives.
pub fn forward(options: &cli::Forward) -> Result<(), Error> {
    let signals = Signals::open()?;
    let mut plane = Plane::start(options.data_plane, &options.interfaces)?;
    let timeout = if options.log_flows { PollTimeout::from(REPORT_MS) } else { PollTimeout::NONE };
    loop {
        let mut fds = [PollFd::new(signals.fd(), PollFlags::POLLIN)];
        match poll(&mut fds, timeout) {
            Ok(0) => {
                for ((source, destination), packets) in plane.take_flows() {
                    println!("{source} -> {destination}: {packets}");
                }
            }
            Ok(_) => return Ok(()),
            Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error).doing("wait"),
        }
    }
}
