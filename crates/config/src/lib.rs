//! Experiment files: YAML in Shadow's format and Belljar's extensions of it, read into a typed
//! [`Experiment`] in which units, defaults, addresses and paths are resolved.
//!
//! Every error names file, line and column, shows the line, and says what to write instead.
//!
//! * `yaml`: text into a tree with positions; anchors and merge keys are resolved there.
//! * `load`: one file per section of the format, tree into [`model`](Experiment).
//! * `emit`: an [`Experiment`] as text that reads back as the same experiment.
#![forbid(unsafe_code)]

mod emit;
mod error;
mod events;
pub mod import;
mod load;
mod model;
mod overrides;
mod programs;
mod signals;
pub mod topology;
mod yaml;

pub use error::ConfigError;
pub use events::{Action, ClockSettings, Event, HostSet, LineChange, PathChange, ProcessRef, Target, When};
pub use load::{Inventory, Machine};
pub use model::{
    CaptureFilter, Experiment, Experimental, Extensions, FinalState, General, GraphSource, Host, HostOptions,
    LogLevel, MachineNic, Model, Network, PlacementSetting, Process, StraceMode, WholeMachine,
};
pub use overrides::{Overrides, parse_time};
pub use programs::{GUEST_PATH, PathContext};
pub use signals::Signal;
pub use yaml::Setting;
