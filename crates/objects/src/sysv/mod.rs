//! System V shared memory, semaphores and message queues, `sysvipc(7)`.

mod limits;
mod listing;
mod messages;
mod semaphores;
mod shared_memory;
mod table;

pub use limits::{IpcLimits, IpcNumber};
pub use listing::IpcReader;
pub use messages::*;
pub use semaphores::*;
pub use shared_memory::*;
pub use table::{IpcTable, SysvObject};

/// System V IPC objects of a host.
#[derive(Debug, Default)]
pub struct SysvIpc {
    /// Shared memory segments.
    pub segments: IpcTable<SharedSegment>,
    /// Semaphore sets.
    pub semaphores: IpcTable<SemSet>,
    /// Adjustments to apply when processes exit.
    pub undo: Vec<SemUndo>,
    /// Message queues.
    pub queues: IpcTable<SysvQueue>,
    /// Limits of segments and message queues.
    pub limits: IpcLimits,
}
