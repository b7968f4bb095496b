//! Traffic models: programs that are part of the simulator. Each sends and receives over the same
//! sockets as real programs, through [`Network`], but has no memory of a guest, no image and no
//! process, so that thousands of modelled hosts can surround the real ones.
//!
//! A model is a state machine. The kernel calls it when it starts, when a socket has changed and when
//! a time it asked for has come; the model makes non-blocking calls and returns. Everything random is
//! drawn from the model's own stream ([`Network::random`]).
//!
//! [`Spec`] is what an experiment says of a model; [`Spec::build`] makes the model of it.
#![forbid(unsafe_code)]

mod bulk;
mod datagrams;
mod dns;
mod draw;
mod flow;
mod http;
mod network;
mod pace;
mod sink;
mod source;
mod spec;

pub use draw::Draw;
pub use flow::{FlowOutcome, FlowRecord};
pub use network::{Failure, ModelSocket, Network, Received};
pub use pace::{Pace, Spacing};
pub use spec::{Bulk, Datagrams, Direction, Dns, Endpoint, Http, HttpServer, Kind, Spec};

/// A running model. After every call it has done all that it can do at that time.
pub trait Model: Send {
    /// It begins. A failure means that it cannot run at all.
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure>;
    /// A socket may have changed.
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network);
    /// A time that it asked for with [`Network::wake_at`] has come.
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        let _ = (token, net);
    }
    /// True if the model has done all that it was to do. Servers never have.
    fn is_finished(&self) -> bool;
    /// It is ended from outside: it records what is under way. Its sockets are closed by the caller.
    fn stop(&mut self, net: &mut dyn Network);
}
