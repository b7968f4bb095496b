//! Experiment files: YAML in Shadow's format and Belljar's extensions of it, loaded into a typed
//! [`Experiment`] with resolved units, defaults, addresses and paths.
//!
//! Every error names file, line and column, shows the line, and suggests a correction.
//!
//! * `yaml`: parses text into a tree with positions; resolves anchors and merge keys.
//! * `load`: one file per section of the format, from the tree to the [`model`](Experiment).
//! * `emit`: an [`Experiment`] as text that parses to the same experiment.
#![forbid(unsafe_code)]

mod emit;
mod error;
mod event_kinds;
mod events;
mod exploration;
mod explored;
pub mod import;
mod judged;
mod load;
mod model;
mod overrides;
mod programs;
mod properties;
mod refusal;
mod scheduling;
mod setup;
mod signals;
pub mod topology;
mod yaml;

pub use belljar_machine::{CallFault, CallResult, DiskFault, FAULTY_CALLS, ForcedResult};
pub use error::ConfigError;
pub use events::{
    Action, ClockSettings, CpuShare, CrashFiles, DiskProfile, Event, HostSet, NewRoot, ProcessRef, ResetEnds,
    Target, When,
};
pub use exploration::{DiskFaultKind, Exploration, FaultKind};
pub use load::{Inventory, Machine, STOP_TIME};
pub use model::{
    CaptureFilter, Experiment, Experimental, Extensions, FinalState, General, GraphSource, Host, HostOptions,
    LogLevel, MachineNic, Model, Network, PlacementSetting, Process, Program, Root, StraceMode, WholeMachine,
};
pub use overrides::{Overrides, parse_time};
pub use programs::{GUEST_PATH, PathContext};
pub use properties::{Claim, FileSet, PacketSet, Property};
pub use refusal::Refusal;
pub use scheduling::{Preemption, Scheduling};
pub use signals::Signal;
pub use yaml::Setting;
