//! Message queues, `msgop(2)`.

use super::{SysvIpc, SysvObject};
use crate::ids::WaitQueueId;
use belljar_linux_abi::ipc::{IpcPerm, MsqidDs};
use belljar_linux_abi::{Errno, c};
use std::collections::VecDeque;

/// System V message queue.
#[derive(Debug)]
pub struct SysvQueue {
    /// `struct msqid_ds`: the state except the messages.
    pub state: MsqidDs,
    /// Messages, oldest first.
    pub messages: VecDeque<SysvMessage>,
    /// Wait queue, notified after every change.
    pub changed: WaitQueueId,
}

/// Message of a queue.
#[derive(Clone, Debug)]
pub struct SysvMessage {
    /// Message type, a positive number.
    pub kind: i64,
    /// Message text.
    pub text: Vec<u8>,
}

/// Selection of a message by `msgrcv(2)`.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// `msgtyp`.
    pub kind: i64,
    /// `MSG_EXCEPT`: a message of another type.
    pub except: bool,
    /// `MSG_NOERROR`: a longer message is truncated.
    pub cut: bool,
    /// Buffer size in bytes.
    pub room: usize,
}

impl SysvObject for SysvQueue {
    fn perm(&self) -> &IpcPerm {
        &self.state.perm
    }
    fn perm_mut(&mut self) -> &mut IpcPerm {
        &mut self.state.perm
    }
}

impl SysvQueue {
    /// Creates an empty queue.
    pub fn new(state: MsqidDs, changed: WaitQueueId) -> SysvQueue {
        SysvQueue { state, messages: VecDeque::new(), changed }
    }
    /// Index of the first message that matches.
    pub fn find(&self, wanted: &Wanted) -> Option<usize> {
        let kinds = self.messages.iter().map(|message| message.kind).enumerate();
        match wanted.kind {
            0 => kinds.map(|(at, _)| at).next(),
            kind if kind > 0 => kinds.filter(|(_, k)| (*k == kind) != wanted.except).map(|(at, _)| at).next(),
            // First message of the lowest type up to the limit.
            kind => {
                let limit = kind.checked_neg().unwrap_or(i64::MAX);
                kinds.filter(|(_, k)| *k <= limit).min_by_key(|(at, k)| (*k, *at)).map(|(at, _)| at)
            }
        }
    }
}

impl SysvIpc {
    /// Copy of the message at an index: `MSG_COPY`. `ENOMSG` if there is none.
    pub fn msg_copy(&mut self, id: i32, place: i64, wanted: &Wanted) -> Result<SysvMessage, Errno> {
        let queue = self.queues.get(id)?;
        let found = usize::try_from(place).ok().and_then(|place| queue.messages.get(place));
        let mut message = found.ok_or(Errno::ENOMSG)?.clone();
        if message.text.len() > wanted.room && !wanted.cut {
            return Err(Errno::E2BIG);
        }
        message.text.truncate(wanted.room);
        Ok(message)
    }
}

/// `MSG_NOERROR` of `msgrcv(2)`.
pub const NOERROR: i32 = c::MSG_NOERROR;
/// `MSG_EXCEPT`.
pub const EXCEPT: i32 = c::MSG_EXCEPT;
/// `MSG_COPY`.
pub const COPY: i32 = c::MSG_COPY;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_by_type() {
        let message = |kind| SysvMessage { kind, text: Vec::new() };
        let messages = [5, 3, 9, 3].map(message).into_iter().collect();
        let queue = SysvQueue { state: MsqidDs::default(), messages, changed: WaitQueueId::default() };
        let find = |kind, except| queue.find(&Wanted { kind, except, cut: false, room: 0 });
        assert_eq!([0, 3, 9, 4].map(|kind| find(kind, false)), [Some(0), Some(1), Some(2), None]);
        assert_eq!([-2, -3, -8, i64::MIN].map(|kind| find(kind, false)), [None, Some(1), Some(1), Some(1)]);
        assert_eq!((find(5, true), find(4, true)), (Some(1), Some(0)));
    }
}
