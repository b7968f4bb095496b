//! HTTP/1.1 as far as programs speak it that fetch and serve: RFC 9112 with bodies by length, in chunks
//! and until the connection closes.

mod client;
mod message;
mod server;

pub use client::HttpClient;
pub use server::HttpResponder;
