//! System V IPC settings in `/proc/sys/kernel`: limits and next identifiers.

use super::{IpcTable, SysvIpc, SysvObject};
use belljar_linux_abi::Errno;

/// `IPCMNI`, the maximum number of objects of a kind.
const IPCMNI: u64 = 32_768;

/// Limits, by default those of Linux.
#[derive(Clone, Copy, Debug)]
pub struct IpcLimits {
    /// `SHMMAX`, bytes in a segment.
    pub segment_bytes: u64,
    /// `SHMMNI`, segments on a host.
    pub segments: u64,
    /// `MSGMAX`, bytes in a message.
    pub message_bytes: u64,
    /// `MSGMNB`, bytes in a queue.
    pub queue_bytes: u64,
    /// `MSGMNI`, queues on a host.
    pub queues: u64,
}

impl Default for IpcLimits {
    fn default() -> IpcLimits {
        IpcLimits {
            segment_bytes: u64::MAX - (1 << 24),
            segments: 4_096,
            message_bytes: 8_192,
            queue_bytes: 16_384,
            queues: 32_000,
        }
    }
}

/// Setting in `/proc/sys/kernel`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum IpcNumber {
    ShmMax,
    ShmMni,
    MsgMax,
    MsgMnb,
    MsgMni,
    NextShm,
    NextMsg,
    NextSem,
}

impl SysvIpc {
    /// Text of a setting.
    pub fn number(&self, which: IpcNumber) -> String {
        let limits = &self.limits;
        let limit = match which {
            IpcNumber::ShmMax => limits.segment_bytes,
            IpcNumber::ShmMni => limits.segments,
            IpcNumber::MsgMax => limits.message_bytes,
            IpcNumber::MsgMnb => limits.queue_bytes,
            IpcNumber::MsgMni => limits.queues,
            IpcNumber::NextShm => return next_text(&self.segments),
            IpcNumber::NextMsg => return next_text(&self.queues),
            IpcNumber::NextSem => return next_text(&self.semaphores),
        };
        format!("{limit}\n")
    }

    /// Changes a setting. `EINVAL` if the value is out of range.
    pub fn set_number(&mut self, which: IpcNumber, value: u64) -> Result<(), Errno> {
        let most = match which {
            IpcNumber::ShmMax => u64::MAX,
            IpcNumber::ShmMni | IpcNumber::MsgMni => IPCMNI,
            _ => i32::MAX as u64,
        };
        if value > most {
            return Err(Errno::EINVAL);
        }
        let limits = &mut self.limits;
        match which {
            IpcNumber::ShmMax => limits.segment_bytes = value,
            IpcNumber::ShmMni => limits.segments = value,
            IpcNumber::MsgMax => limits.message_bytes = value,
            IpcNumber::MsgMnb => limits.queue_bytes = value,
            IpcNumber::MsgMni => limits.queues = value,
            IpcNumber::NextShm => self.segments.next_id = Some(value as i32),
            IpcNumber::NextMsg => self.queues.next_id = Some(value as i32),
            IpcNumber::NextSem => self.semaphores.next_id = Some(value as i32),
        }
        Ok(())
    }
}

/// Identifier requested for the next object, -1 if the kernel chooses.
fn next_text<T: SysvObject>(table: &IpcTable<T>) -> String {
    format!("{}\n", table.next_id.unwrap_or(-1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysv::SysvQueue;
    use belljar_linux_abi::ipc::MsqidDs;

    #[test]
    fn the_next_identifier_is_taken_once_and_never_twice() {
        let mut ipc = SysvIpc::default();
        let queue = |ipc: &mut SysvIpc| {
            ipc.queues.insert(SysvQueue::new(MsqidDs::default(), Default::default()), 32_000).unwrap()
        };
        assert_eq!(queue(&mut ipc), 0);
        ipc.set_number(IpcNumber::NextMsg, 32_768 * 3 + 5).unwrap();
        assert_eq!(ipc.number(IpcNumber::NextMsg), "98309\n");
        assert_eq!((queue(&mut ipc), ipc.number(IpcNumber::NextMsg)), (32_768 * 3 + 5, "-1\n".into()));
        ipc.set_number(IpcNumber::NextMsg, 32_768 * 3 + 5).unwrap();
        assert_eq!(queue(&mut ipc), 32_768 * 3 + 6);
        assert_eq!(ipc.set_number(IpcNumber::NextMsg, 1 << 31), Err(Errno::EINVAL));
        assert_eq!(ipc.number(IpcNumber::NextSem), "-1\n");
    }

    #[test]
    fn limits_are_kept_within_what_there_can_be() {
        let mut ipc = SysvIpc::default();
        assert_eq!(ipc.number(IpcNumber::ShmMax), "18446744073692774399\n");
        assert_eq!(ipc.set_number(IpcNumber::MsgMni, 32_769), Err(Errno::EINVAL));
        ipc.set_number(IpcNumber::MsgMni, 2).unwrap();
        assert_eq!(ipc.limits.queues, 2);
    }
}
