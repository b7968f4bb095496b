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

/// All such objects of a host.
#[derive(Debug, Default)]
pub struct SysvIpc {
    /// Shared memory.
    pub segments: IpcTable<SharedSegment>,
    /// Sets of semaphores.
    pub semaphores: IpcTable<SemSet>,
    /// What processes have asked to have undone when they end.
    pub undo: Vec<SemUndo>,
    /// Message queues.
    pub queues: IpcTable<SysvQueue>,
    /// Limits of segments and queues.
    pub limits: IpcLimits,
}
