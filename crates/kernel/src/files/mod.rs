//! Descriptors, open files and what is behind them.

mod descriptors;
mod executable;
mod kinds;
mod lifetime;

pub use descriptors::{FdEntry, FdTable, OpenFile};
pub use executable::Executable;
pub use kinds::FileKind;

use crate::host::HostConfig;
use slab::Slab;

/// All of a host's files.
pub struct Files {
    /// Open file descriptions.
    pub(crate) open: Slab<OpenFile>,
    /// Descriptor tables.
    pub(crate) tables: Slab<FdTable>,
}

impl Files {
    /// No open files.
    pub fn new(_config: &HostConfig) -> Files {
        Files { open: Slab::new(), tables: Slab::new() }
    }
}
