//! The settings of a P4 switch.

use super::Routing;
use belljar_base::{Map, SimDuration};
use belljar_net::InterfaceAddress;
use belljar_p4::{Program, Switch, SwitchConfig};
use belljar_p4files::{commands, runtime};
use belljar_p4json::LoadError;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings of a switch that a P4 program makes.
#[derive(Clone, Debug, PartialEq)]
pub struct P4Switch {
    /// Its program; `None`: a controller brings it.
    pub source: Option<P4Source>,
    /// Its set-up before the start, in order.
    pub setup: Vec<P4Setup>,
    /// Its queues and its speed.
    pub config: SwitchConfig,
    /// Its decisions are written down, packet by packet.
    pub trace: bool,
    /// The server by which controllers reach it.
    pub management: Option<P4Management>,
}

/// A program as an experiment names it.
#[derive(Clone, Debug)]
pub struct P4Source {
    /// Its file: P4_16 source or BMv2's JSON.
    pub path: PathBuf,
    /// Folders searched for `#include`.
    pub include: Vec<PathBuf>,
    /// Macros defined before the program, with their values.
    pub define: Map<String, String>,
    /// The file of its P4Info, where the program is JSON.
    pub p4info: Option<PathBuf>,
    /// Contents of the files.
    pub loaded: Arc<LoadedProgram>,
}

/// A program with what a controller may ask for.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    /// The program.
    pub program: Arc<Program>,
    /// BMv2's JSON.
    pub json: Arc<str>,
    /// The bytes of its P4Info, as text or in binary.
    pub p4info: Option<Vec<u8>>,
}

/// Equal if their files are: what was loaded follows from these.
impl PartialEq for P4Source {
    fn eq(&self, other: &P4Source) -> bool {
        (&self.path, &self.include, &self.define, &self.p4info)
            == (&other.path, &other.include, &other.define, &other.p4info)
    }
}

/// The management interface of a P4 switch and the servers behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct P4Management {
    /// The number of the interface among the switch's.
    pub interface: usize,
    /// The TCP ports on which the P4Runtime server listens.
    pub ports: Vec<u16>,
    /// The TCP port on which the Thrift server listens.
    pub thrift_port: u16,
    /// The device's number in P4Runtime.
    pub device_id: u64,
    /// The time that each update of a write takes, and each call of Thrift that changes something.
    pub control_latency: SimDuration,
    /// Where the servers' answers go: by shortest paths.
    pub routing: Routing,
}

/// A management interface as its section says, before links have numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ManagementAddress {
    /// The name of the interface.
    pub interface: String,
    /// Its address, if the file says so.
    pub address: Option<InterfaceAddress>,
}

/// A file that sets a P4 switch up, or the text of one within the experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum P4Setup {
    /// Entries and groups, as the P4 tutorials write them.
    Runtime(PathBuf, String),
    /// Commands of `simple_switch_CLI`.
    Commands(PathBuf, String),
}

impl P4Switch {
    /// The P4 port of an interface: the number at the end of its name.
    pub fn port(interface: &str) -> Option<u16> {
        let stem = interface.trim_end_matches(|letter: char| letter.is_ascii_digit());
        interface[stem.len()..].parse().ok().filter(|port| *port <= 510)
    }

    /// The P4 port of each of its interfaces; `None` for the management interface.
    pub fn ports(&self, interfaces: &[super::Interface]) -> Vec<Option<u16>> {
        let managed = self.management.as_ref().map(|management| management.interface);
        let port = |(n, interface): (usize, &super::Interface)| {
            (Some(n) != managed).then(|| P4Switch::port(&interface.name).unwrap_or(0))
        };
        interfaces.iter().enumerate().map(port).collect()
    }

    /// A switch with the program and the entries of its files, or the number of the first file that cannot be carried out,
    /// and why; `None` without a program.
    pub fn try_switch(&self, config: SwitchConfig) -> Option<Result<Switch, (usize, LoadError)>> {
        let source = self.source.as_ref()?;
        let mut switch = Switch::new(source.loaded.program.clone(), config);
        for (n, setup) in self.setup.iter().enumerate() {
            if let Err(error) = setup.apply(&mut switch) {
                return Some(Err((n, error)));
            }
        }
        Some(Ok(switch))
    }
}

impl P4Setup {
    /// Its file; empty if its text stands in the experiment.
    pub fn path(&self) -> &Path {
        match self {
            P4Setup::Runtime(path, _) | P4Setup::Commands(path, _) => path,
        }
    }

    /// Its text.
    pub fn text(&self) -> &str {
        match self {
            P4Setup::Runtime(_, text) | P4Setup::Commands(_, text) => text,
        }
    }

    /// Carries it out on a switch.
    pub fn apply(&self, switch: &mut Switch) -> Result<(), LoadError> {
        let done = match self {
            P4Setup::Runtime(_, text) => runtime::apply(switch, text),
            P4Setup::Commands(_, text) => commands::apply(switch, text).map(|_| ()),
        };
        let named = !self.path().as_os_str().is_empty();
        done.map_err(|error| if named { error.in_file(self.path()) } else { error })
    }
}
