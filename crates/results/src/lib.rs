//! What a run leaves behind, in Shadow's layout: the results folder, captures, system-call logs,
//! statistics and the summary shown at the end.
#![forbid(unsafe_code)]

mod capture;
mod folder;
mod statistics;
mod summary;

pub use capture::CaptureWriter;
pub use folder::{ResultsError, ResultsFolder};
pub use statistics::{HostStatistics, ProcessStatistics, Statistics};
pub use summary::Summary;
