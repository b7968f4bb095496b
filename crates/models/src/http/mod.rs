//! HTTP/1.1 client and server for simple fetching and serving: RFC 9112 with bodies by length, in chunks and
//! until the connection closes.

mod client;
mod message;
mod server;

pub use client::HttpClient;
pub use server::HttpResponder;
