//! A sans-IO TCP that behaves as Linux's does. Its inputs are segments, timers and the program's calls; its
//! outputs are segments and events. It has no clock (`now` is an argument), no sockets and no random numbers
//! (the caller supplies the initial sequence number), and its memory is bounded by the buffer sizes of its
//! [`Config`].
//!
//! # Contract
//!
//! One [`Connection`] is one end of one connection. After **every** call that may change it
//! ([`on_segment`](Connection::on_segment), [`on_timer`](Connection::on_timer),
//! [`send`](Connection::send), [`recv`](Connection::recv), [`close`](Connection::close), the option
//! setters, and when the device has sent queued bytes) the caller
//!
//! 1. calls [`poll_transmit`](Connection::poll_transmit) until it returns `None`, and wraps each segment in
//!    IP. A caller that exposes the segment outside the emulation computes its checksum first
//!    ([`belljar_wire::tcp::fill_checksum`]).
//! 2. takes [`take_events`](Connection::take_events) and wakes the waiters,
//! 3. sets its timer to [`next_timer`](Connection::next_timer) and calls `on_timer` then,
//! 4. forgets the connection when [`is_finished`](Connection::is_finished).
//!
//! # Opening
//!
//! Active: [`Connection::connect`]. Passive: a [`Listener`] decides about a SYN that matches no connection.
//! The caller keeps the table of connections by address and port.
//!
//! ```text
//! SYN for a listening socket:   match listener.on_syn() {
//!                                   Admission::Accept => { c = Connection::accept_syn(..); listener.started(key) }
//!                                   Admission::Drop   => {}                     // Linux: silently, the peer retries
//!                                   Admission::Crowded => {}                    // the same, or a cookie: Connection::accept_cookie
//!                               }
//! segment for c, c.state() == SynReceived, and !listener.has_room():            // accept queue is full
//!                               drop it (unless RST): the peer retries           // tcp_abort_on_overflow = 0
//! Events::CONNECTED from c:     listener.established(key) -> wake accept(2)
//! c.is_finished() before that:  listener.abandoned(key)
//! accept(2):                    listener.accept() -> Option<key>
//! ```
//!
//! A segment that matches neither a connection nor a listener is answered with [`reset_for`]. A SYN that may
//! start a new connection while the old one is in TIME-WAIT results in [`Disposition::Reopen`]: the caller
//! discards the old connection and processes the SYN as a segment for no connection.
//!
//! # Readiness
//!
//! [`readiness`](Connection::readiness) is Linux's `tcp_poll`:
//!
//! | [`Readiness`] | epoll | when |
//! |---|---|---|
//! | `READABLE` | `EPOLLIN \| EPOLLRDNORM` | bytes to read (at least `SO_RCVLOWAT`), or the peer's FIN was read up to |
//! | `WRITABLE` | `EPOLLOUT \| EPOLLWRNORM` | at least a third of the send buffer is free, or writing would fail at once (shut down, error) |
//! | `READ_CLOSED` | `EPOLLRDHUP` | the peer's FIN arrived or `shutdown(SHUT_RD)` |
//! | `HANG_UP` | `EPOLLHUP` | both directions are shut down, or the state is CLOSED |
//! | `ERROR` | `EPOLLERR` | [`take_error`](Connection::take_error) would give an error |
//!
//! SYN-SENT and SYN-RECEIVED set neither `READABLE` nor `WRITABLE`. A listening socket is readable when
//! [`Listener::is_ready`] is true. `shutdown(SHUT_RD)` is [`Connection::shutdown_read`].
//!
//! # System calls
//!
//! | call | here |
//! |---|---|
//! | `connect` | [`Connection::connect`]; done at `Events::CONNECTED`; failed when `take_error` is `Some` |
//! | `send` | [`send`](Connection::send); 0 means would block (wait for `Events::WRITABLE`), also before the handshake is complete; `EPIPE` when [`can_send`](Connection::can_send) is false and there is no error |
//! | `recv` | [`recv`](Connection::recv); 0 means would block, or end of file when [`is_read_closed`](Connection::is_read_closed) |
//! | `shutdown(SHUT_WR)` | [`shutdown_write`](Connection::shutdown_write) |
//! | `close` | [`close`](Connection::close), then keep feeding the orphan until `is_finished`; `SO_LINGER` 0 is [`abort`](Connection::abort); a linger time waits for [`all_sent_acknowledged`](Connection::all_sent_acknowledged) |
//! | `SIOCINQ`, `SIOCOUTQ` | [`readable_bytes`](Connection::readable_bytes), [`unacknowledged_bytes`](Connection::unacknowledged_bytes) |
//! | `MSG_OOB` | [`mark_urgent`](Connection::mark_urgent) after `send`; [`take_urgent`](Connection::take_urgent); other reads ask [`readable_to_mark`](Connection::readable_to_mark) first |
//! | `TCP_INFO` | [`info`](Connection::info) |
//!
//! # Not covered
//!
//! Accurate ECN, MD5 and AO signatures.
#![forbid(unsafe_code)]

mod accept;
mod ack;
mod bbr;
mod chrono;
mod close;
mod config;
pub mod congestion;
mod connect;
mod connection;
mod counts;
mod cubic;
mod cwnd_use;
mod dctcp;
mod delack;
mod ecn;
mod error;
mod fast_open;
mod info;
mod input;
mod listen;
mod mtu_probe;
mod output;
mod pacing;
mod query;
mod rate;
mod rcv;
mod readiness;
mod received;
mod recovery;
mod reno;
mod reset;
mod rtt;
mod scoreboard;
mod sender;
mod seq64;
mod settings;
mod snd;
mod state;
mod timers;
mod tso;
mod urgent;

pub use belljar_wire::Ecn;
pub use belljar_wire::tcp::{FastOpen, Flags, Repr, Seq};
pub use config::{Config, CongestionAlgorithm, EcnPolicy, Keepalive};
pub use connection::{Connection, Disposition, SegmentMeta};
pub use counts::{COUNT_NAMES, COUNTS};
pub use error::TcpError;
pub use fast_open::{FastOpenAnswer, FastOpenFailure};
pub use info::Info;
pub use listen::{Admission, Listener};
pub use mtu_probe::MtuProbing;
pub use readiness::{Events, Readiness};
pub use received::Payload;
pub use reset::reset_for;
pub use state::State;
pub use urgent::UrgentByte;

#[cfg(test)]
mod tests;
