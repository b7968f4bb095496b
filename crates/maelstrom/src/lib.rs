//! Maelstrom's protocol over a network: nodes that speak JSON lines on standard input and output become hosts.
//!
//! [`main`] is the program `belljar-maelstrom`, an ordinary Linux program of sockets and clocks. It does not know whether
//! its host is simulated. On the host of a node it starts the node and carries its messages as datagrams; on others it is a service (`lin-kv`, ...), or the
//! clients of a workload, which note their operations as a history.
//!
//! | module | content |
//! |---|---|
//! | `cli` | the command line |
//! | `message` | messages, their errors |
//! | `datagram` | messages as datagrams and back |
//! | `post` | the socket that carries messages, by names of hosts |
//! | `node` | a node as a child process: its lines and its messages |
//! | `services` | the services as state machines, and the program around them |
//! | `workload` | workloads: requests drawn, replies as results of operations |
//! | `client` | clients that send requests at a rate and note the history |
//! | `topology` | neighbours of nodes, for `broadcast` |
#![forbid(unsafe_code)]

mod cli;
mod client;
mod clock;
mod datagram;
mod message;
mod node;
mod post;
mod services;
mod topology;
mod workload;

pub use cli::Workload;
pub use services::Service;
pub use topology::Topology;

use clap::Parser;
use std::process::ExitCode;

/// The program `belljar-maelstrom`.
pub fn main() -> ExitCode {
    let done = match cli::Cli::parse().command {
        cli::Command::Node(options) => node::run(&options),
        cli::Command::Service(options) => services::run(&options),
        cli::Command::Client(options) => client::run(&options),
    };
    done.unwrap_or_else(|error| {
        eprintln!("belljar-maelstrom: {error}");
        ExitCode::FAILURE
    })
}
