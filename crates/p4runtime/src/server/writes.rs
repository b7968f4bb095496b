//! Writes that take their time: each waits until those before it are done, then for as long as its updates take.

use super::arbitration::SessionId;
use super::calls::Method;
use crate::proto::WriteRequest;
use belljar_base::{SimDuration, SimTime};
use bytes::Bytes;
use prost::Message;
use std::collections::VecDeque;

struct Waiting {
    done: SimTime,
    of: SessionId,
    method: Method,
    message: Bytes,
}

/// The writes of a device that are not carried out yet, in their order.
#[derive(Default)]
pub struct Writes {
    /// Time of each update.
    pub time: SimDuration,
    waiting: VecDeque<Waiting>,
    /// When the last one is done.
    busy_until: SimTime,
}

impl Writes {
    /// Keeps a write until its time is over; gives back what takes none.
    pub fn delay(
        &mut self,
        now: SimTime,
        of: SessionId,
        method: Method,
        message: Bytes,
    ) -> Option<(Method, Bytes)> {
        let updates = match method {
            Method::Write => {
                // One that cannot be read is refused after the time of one.
                WriteRequest::decode(message.clone()).map_or(1, |request| request.updates.len().max(1))
            }
            Method::SetConfig => 1,
            _ => return Some((method, message)),
        };
        if self.time.is_zero() {
            return Some((method, message));
        }
        let time = SimDuration::from_picos(self.time.as_picos().saturating_mul(updates as u64));
        self.busy_until = self.busy_until.max(now) + time;
        self.waiting.push_back(Waiting { done: self.busy_until, of, method, message });
        None
    }

    /// The next write whose time is over.
    pub fn pop(&mut self, now: SimTime) -> Option<(SessionId, Method, Bytes)> {
        self.waiting.front().filter(|first| first.done <= now)?;
        let first = self.waiting.pop_front()?;
        Some((first.of, first.method, first.message))
    }

    /// When the next one is done.
    pub fn next(&self) -> Option<SimTime> {
        self.waiting.front().map(|first| first.done)
    }

    /// Forgets the writes of calls that are no more.
    pub fn forget(&mut self, gone: impl Fn(SessionId) -> bool) {
        self.waiting.retain(|waiting| !gone(waiting.of));
    }
}
