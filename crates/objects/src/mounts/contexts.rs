//! File system contexts, `fsopen(2)` and `fspick(2)`.

use super::{MountFlags, Place};
use crate::ids::InodeKey;

/// File system context, configured step by step: `fsopen(2)`, `fspick(2)`.
#[derive(Clone, Debug, Default)]
pub struct FileSystemContext {
    /// File system type.
    pub kind: Vec<u8>,
    /// Source, if it was set.
    pub source: Option<Vec<u8>>,
    /// Mount flags.
    pub flags: MountFlags,
    /// Other options, each preceded by a comma.
    pub options: Vec<u8>,
    /// Root of the mount whose file system is reconfigured, `fspick(2)`.
    pub picked: Option<Place>,
    /// Device number and root of the file system, once created.
    pub created: Option<(u64, InodeKey)>,
    /// True once the file system has been mounted.
    pub mounted: bool,
}
