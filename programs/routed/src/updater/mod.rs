//! Changing routes: in this process, or by an updater that has the permission to.
//!
//! The updater is a process of its own, so that the control plane needs no privileges. A client connects to its UNIX
//! socket and writes requests, a line of JSON each; each is answered by a line, `{"ok":true}` or `{"error":"..."}`:
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
//! `namespace` says where the client's routes are from then on. `lend` asks for descriptors, which come with the answer
//! (`SCM_RIGHTS`): a UDP socket at one of the protocols' ports; a TUN interface of that name, a raw and a packet socket.
//! `flows` asks for the flows that the updater's data plane has forwarded since the last time: `{"flows":[["10.0.0.1",
//! "10.0.0.2"],...]}`, `{"flows":null}` if it does not count them.
//!
//! `redirects_off` has the kernel send no ICMP redirects on an interface, until the client goes.
//!
//! Routes of a client go when it does. The updater changes nothing else than these redirects, and routes in the main table that carry its
//! number.

mod client;
mod descriptors;
mod server;

pub use client::{RouteSink, TableChange};
pub use descriptors::Reactive;
pub use server::run;

use crate::netlink::KernelRoute;
use belljar_packetio::Flow;
use serde::{Deserialize, Serialize};

/// The longest request.
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

/// Descriptors that a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Loan {
    Port(u16),
    /// By the name of the TUN interface.
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
