//! Results of a run, in Shadow's layout, and their evaluation: reports, tables, comparisons.
//!
//! Writing: the results `folder`, growing files (`writer`), `capture`s and the `pipe` of a live one, time series (`metrics`), the drawn
//! network (`topology`), its `connectivity` for the analysis of `routing`, `statistics` with the accounts of `packets`, and the `summary` at the end. `scratch` has temporary folders elsewhere. `read` opens results again; based on it,
//! `diff` compares two runs, `tables` and `report` show one, `trace` converts one.
#![forbid(unsafe_code)]

mod capture;
mod connectivity;
mod coverage;
mod diff;
mod flow_monitor;
mod folder;
mod merge;
pub mod names;
mod packets;
mod pipe;
pub mod read;
mod report;
pub mod routing;
mod scratch;
mod statistics;
mod summary;
mod tables;
mod topology;
mod trace;
mod writer;

pub use capture::CaptureWriter;
pub use connectivity::{
    Connectivity, ConnectivityLink, ConnectivityNode, ConnectivityPartition, ConnectivityRadio,
};
pub use coverage::Coverage;
pub use diff::{Comparison, Difference, compare};
pub use flow_monitor::flow_monitor;
pub use folder::{ResultsError, ResultsFolder};
pub use merge::{MergeError, merge};
pub use packets::{Dropped, LocationAccount};
pub use pipe::PacketPipe;
pub use report::{DRAWING_SCRIPT, DRAWING_STYLE, report};
pub use scratch::{Scratch, lock_new};
pub use statistics::{
    AttendedProgram, CoverageStatistics, CpuStatistics, DirectionStatistics, GatewayStatistics,
    HostStatistics, ModelStatistics, P4PortStatistics, P4Statistics, P4TableStatistics, ProcessStatistics,
    PropertyStatistics, Quantiles, RadioStatistics, RouterStatistics, StationStatistics, Statistics,
    Unreached, add_counts,
};
pub use summary::{Summary, UNFORCED};
pub use tables::{Section, table};
pub use topology::{Topology, TopologyEdge, TopologyHost, TopologyNode, TopologyRadio, TopologyStation};
pub use trace::{TraceError, trace};
pub use writer::{Growing, Writer};
