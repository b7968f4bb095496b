//! Accounting of what limits sending, and for how long: `tcpi_busy_time` and its parts.

use crate::sender::Sender;
use belljar_base::{SimDuration, SimTime};

/// Reason for which a connection does not send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Limit {
    /// Nothing to send.
    #[default]
    Idle,
    /// The congestion window or the path.
    Path,
    /// The peer's window.
    Window,
    /// The send buffer: all of it has been sent, and the program waits for space.
    Buffer,
}

/// Time spent under each limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chrono {
    limit: Limit,
    since: SimTime,
    spent: [SimDuration; 4],
}

impl Chrono {
    fn switch(&mut self, limit: Limit, now: SimTime) {
        if limit != self.limit {
            self.spent[self.limit as usize] += now.since(self.since);
            self.limit = limit;
            self.since = now;
        }
    }

    /// True if there was nothing to send at the last `note_limit`.
    pub(crate) fn is_idle(&self) -> bool {
        self.limit == Limit::Idle
    }

    /// Time spent under `limit` until `now`.
    pub(crate) fn of(&self, limit: Limit, now: SimTime) -> SimDuration {
        let running = if self.limit == limit { now.since(self.since) } else { SimDuration::ZERO };
        self.spent[limit as usize] + running
    }

    /// Time with data to send or unacknowledged, until `now`.
    pub(crate) fn total(&self, now: SimTime) -> SimDuration {
        [Limit::Path, Limit::Window, Limit::Buffer]
            .into_iter()
            .fold(SimDuration::ZERO, |sum, limit| sum + self.of(limit, now))
    }
}

impl Sender {
    /// Records the reason when no more can be sent now. `windowed` is true if the peer's window is the limit.
    pub(crate) fn note_limit(&mut self, windowed: bool, now: SimTime) {
        let unsent = self.snd.unsent() > 0;
        let room = self.in_flight() < self.window.cwnd;
        let limit = if self.snd.queued() == 0 {
            Limit::Idle
        } else if windowed {
            Limit::Window
        } else if !unsent && room && self.write_waiting {
            Limit::Buffer
        } else {
            Limit::Path
        };
        self.chrono.switch(limit, now);
    }
}
