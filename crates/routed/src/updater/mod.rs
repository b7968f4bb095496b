//! Changes of routes: in this process, or by a privileged updater.
//!
//! The updater is a process of its own, so that the control plane needs no privileges. A client connects to
//! its UNIX socket and writes requests, a line of JSON each; the reply is a line, `{"ok":true}` or
//! `{"error":"..."}`:
//!
//! ```text
//! {"add":{"destination":"10.0.0.3","bits":32,"gateway":"10.0.0.2","interface":2,"metric":20,"source":null}}
//! {"remove":{...}}
//! {"replace_all":[{...},{...}]}
//! {"namespace":"n1"}
//! {"redirects_off":"eth0"}
//! {"lend":{"port":698}}
//! {"lend":{"reactive":"aodv0"}}
//! "flows"
//! ```
//!
//! `namespace` selects the network namespace of the client's later routes. `lend` requests descriptors, which
//! accompany the reply (`SCM_RIGHTS`): a UDP socket on one of the protocols' ports; or a TUN interface of
//! that name, a raw and a packet socket. `flows` requests the flows that the updater's data plane has
//! forwarded since the last such request: `{"flows":[["10.0.0.1", "10.0.0.2"],...]}`, or `{"flows":null}` if
//! it does not count them.
//!
//! `redirects_off` disables ICMP redirects on an interface until the client disconnects.
//!
//! When a client disconnects, the updater removes its routes. It changes nothing but these redirects, and
//! routes in the main table with its own protocol number.

mod client;
mod descriptors;
mod server;

pub use client::{RouteSink, TableChange};
pub use descriptors::Reactive;
pub use server::run;

use crate::netlink::KernelRoute;
use belljar_packetio::Flow;
use serde::{Deserialize, Serialize};

/// Length of the longest request.
const MOST_BYTES: usize = 16 << 20;

/// A request to the updater.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    Add(KernelRoute),
    Remove(KernelRoute),
    ReplaceAll(Vec<KernelRoute>),
    Namespace(String),
    RedirectsOff(String),
    Lend(Loan),
    Flows,
}

/// Descriptors that a client can request.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Loan {
    Port(u16),
    /// With the name of the TUN interface.
    Reactive(String),
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(bool),
    Flows(Option<Vec<Flow>>),
    Error(String),
}
