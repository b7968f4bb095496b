//! Settings of a P4 switch.

use super::Routing;
use belljar_base::{Map, SimDuration};
use belljar_net::InterfaceAddress;
use belljar_p4::{Program, Switch, SwitchConfig};
use belljar_p4files::{commands, runtime};
use belljar_p4json::LoadError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of a switch that runs a P4 program.
#[derive(Clone, Debug, PartialEq)]
pub struct P4Switch {
    /// Program of the switch; `None` if a controller provides it.
    pub source: Option<P4Source>,
    /// Files applied before the start, in order.
    pub setup: Vec<P4Setup>,
    /// Queues and rates.
    pub config: SwitchConfig,
    /// True to log its decisions for each packet.
    pub trace: bool,
    /// Management interface for controllers.
    pub management: Option<P4Management>,
}

/// A program and its files as specified in an experiment.
#[derive(Clone, Debug)]
pub struct P4Source {
    /// Path of the P4_16 source or of BMv2's JSON.
    pub path: PathBuf,
    /// Folders searched for `#include`.
    pub include: Vec<PathBuf>,
    /// Macros defined before the program, with their values.
    pub define: Map<String, String>,
    /// Path of the P4Info, for a program in JSON.
    pub p4info: Option<PathBuf>,
    /// Content of the files.
    pub loaded: Arc<LoadedProgram>,
}

/// A loaded program, with the forms that controllers can request.
#[derive(Clone, Debug)]
pub struct LoadedProgram {
    /// The executable program.
    pub program: Arc<Program>,
    /// P4Info of the program, in text or binary format.
    pub p4info: Option<Vec<u8>>,
}

/// Sources are equal if their files are, from which the content is loaded.
impl PartialEq for P4Source {
    fn eq(&self, other: &P4Source) -> bool {
        (&self.path, &self.include, &self.define, &self.p4info)
            == (&other.path, &other.include, &other.define, &other.p4info)
    }
}

/// Management interface of a P4 switch, and its servers.
#[derive(Clone, Debug, PartialEq)]
pub struct P4Management {
    /// Index of the interface.
    pub interface: usize,
    /// TCP ports of the P4Runtime server.
    pub ports: Vec<u16>,
    /// TCP port of the Thrift server.
    pub thrift_port: u16,
    /// P4Runtime device id.
    pub device_id: u64,
    /// Duration of each update of a write, and of each Thrift call that changes state.
    pub control_latency: SimDuration,
    /// Routes of the servers' replies: shortest paths.
    pub routing: Routing,
}

/// A management interface in the file, before links have indices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ManagementAddress {
    /// The name of the interface.
    pub interface: String,
    /// Address of the interface, if specified.
    pub address: Option<InterfaceAddress>,
}

/// A file that configures a P4 switch, or such a text within the experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum P4Setup {
    /// Entries and groups, in the format of the P4 tutorials.
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

    /// The P4 port of each interface; `None` for the management interface.
    pub fn ports(&self, interfaces: &[super::Interface]) -> Vec<Option<u16>> {
        let managed = self.management.as_ref().map(|management| management.interface);
        let port = |(n, interface): (usize, &super::Interface)| {
            (Some(n) != managed).then(|| P4Switch::port(&interface.name).unwrap_or(0))
        };
        interfaces.iter().enumerate().map(port).collect()
    }

    /// A switch with the program and the entries of its files, or the index and the error of the first file
    /// that fails; `None` without a program.
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
    /// Path of the file; empty for a text within the experiment.
    pub fn path(&self) -> &Path {
        match self {
            P4Setup::Runtime(path, _) | P4Setup::Commands(path, _) => path,
        }
    }

    /// Content of the file.
    pub fn text(&self) -> &str {
        match self {
            P4Setup::Runtime(_, text) | P4Setup::Commands(_, text) => text,
        }
    }

    /// Applies the files of an event to a switch, up to the first that fails. `None` is a switch without a
    /// program. The error is a message for the user.
    pub fn apply_event(files: &[P4Setup], switch: Option<&mut Switch>) -> Result<(), String> {
        let switch = switch.ok_or("there is no program yet")?;
        files.iter().try_for_each(|file| file.apply(switch)).map_err(|error| error.to_string())
    }

    /// Applies the file to a switch.
    pub fn apply(&self, switch: &mut Switch) -> Result<(), LoadError> {
        let done = match self {
            P4Setup::Runtime(_, text) => runtime::apply(switch, text),
            P4Setup::Commands(_, text) => commands::apply(switch, text).map(|_| ()),
        };
        let named = !self.path().as_os_str().is_empty();
        done.map_err(|error| if named { error.in_file(self.path()) } else { error })
    }
}
