//! The settings of a P4 switch.

use belljar_p4::files::{commands, runtime};
use belljar_p4::{LoadError, Program, Switch, SwitchConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The settings of a switch that a P4 program makes.
#[derive(Clone, Debug)]
pub struct P4Switch {
    /// The file of its program, as BMv2 JSON.
    pub path: PathBuf,
    /// The program.
    pub program: Arc<Program>,
    /// Its set-up before the start, in order.
    pub setup: Vec<P4Setup>,
    /// Its queues and its speed.
    pub config: SwitchConfig,
}

/// A file that sets a P4 switch up, with its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum P4Setup {
    /// Entries and groups, as the P4 tutorials write them.
    Runtime(PathBuf, String),
    /// Commands of `simple_switch_CLI`.
    Commands(PathBuf, String),
}

/// The program follows from its file.
impl PartialEq for P4Switch {
    fn eq(&self, other: &P4Switch) -> bool {
        (&self.path, &self.setup, &self.config) == (&other.path, &other.setup, &other.config)
    }
}

impl P4Switch {
    /// The P4 port of an interface: the number at the end of its name.
    pub fn port(interface: &str) -> Option<u16> {
        let stem = interface.trim_end_matches(|letter: char| letter.is_ascii_digit());
        interface[stem.len()..].parse().ok().filter(|port| *port <= 510)
    }

    /// The switch as it is at the start.
    pub fn switch(&self, config: SwitchConfig) -> Switch {
        // The files were tried when the experiment was read.
        self.try_switch(config.clone()).unwrap_or_else(|_| Switch::new(self.program.clone(), config))
    }

    /// The switch as it is at the start, or the number of the first set-up file that cannot be carried out, and why.
    pub fn try_switch(&self, config: SwitchConfig) -> Result<Switch, (usize, LoadError)> {
        let mut switch = Switch::new(self.program.clone(), config);
        for (n, setup) in self.setup.iter().enumerate() {
            let done = match setup {
                P4Setup::Runtime(_, text) => runtime::apply(&mut switch, text),
                P4Setup::Commands(_, text) => commands::apply(&mut switch, text).map(|_| ()),
            };
            done.map_err(|error| (n, error.in_file(setup.path())))?;
        }
        Ok(switch)
    }
}

impl P4Setup {
    /// Its file.
    pub fn path(&self) -> &Path {
        match self {
            P4Setup::Runtime(path, _) | P4Setup::Commands(path, _) => path,
        }
    }
}
