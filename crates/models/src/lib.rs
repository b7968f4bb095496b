//! Traffic models: programs built into the simulator. They send and receive over the same sockets as real
//! programs, through [`Network`], but have no guest memory, image or process, so that thousands of modelled
//! hosts can surround the real ones.
//!
//! A model is a state machine. Its host calls it when it starts, when a socket has changed and when a
//! requested time is reached; the model makes non-blocking calls and returns. All random numbers come from
//! the model's own stream ([`Network::random`]).
//!
//! [`Spec`] is the specification of a model in an experiment; [`Spec::build`] creates the model.
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

/// Running model. Each call does everything that is possible at that time.
pub trait Model: Send {
    /// Starts the model. A failure means that it cannot run at all.
    fn start(&mut self, net: &mut dyn Network) -> Result<(), Failure>;
    /// Notifies the model that a socket may have changed.
    fn ready(&mut self, socket: ModelSocket, net: &mut dyn Network);
    /// Notifies the model that a time requested by [`Network::wake_at`] has come.
    fn wake(&mut self, token: u64, net: &mut dyn Network) {
        let _ = (token, net);
    }
    /// True if the model has completed its task. Servers never finish.
    fn is_finished(&self) -> bool;
    /// Stops the model, which records its unfinished flows. The caller closes its sockets.
    fn stop(&mut self, net: &mut dyn Network);
}
