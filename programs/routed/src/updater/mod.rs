//! Changing routes: in this process, or by an updater that has the permission to.
//!
//! The updater is a process of its own, so that the control plane needs no privileges. A client connects to its UNIX
//! socket and writes requests, a line of JSON each; each is answered by a line, `{"ok":true}` or `{"error":"..."}`:
//!
//! ```text
//! {"add":{"destination":"10.0.0.3","bits":32,"gateway":"10.0.0.2","interface":2,"metric":20,"source":null}}
//! {"remove":{...}}
//! {"replace_all":[{...},{...}]}
//! ```
//!
//! Routes of a client go when it does. The updater changes nothing but routes in the main table that carry its number.

mod client;
mod server;

pub use client::RouteSink;
pub use server::run;

use crate::netlink::KernelRoute;
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
}

/// The answer to a request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ok(bool),
    Error(String),
}
