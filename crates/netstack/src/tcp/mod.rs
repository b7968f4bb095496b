//! TCP sockets over `belljar_tcp`, tcp(7): the tables of connections and listeners, and the calls.
//!
//! A socket with a connection outlives the close of its last file, as an orphan, until the connection is
//! finished. The socket of a passive connection exists from the arrival of the SYN.

mod broken;
mod calls;
mod connect;
mod cookie;
pub mod fast_open;
mod input;
mod listen;
mod options;
mod pump;
mod socket;
mod syn_data;
mod table;
mod transfer;

pub use broken::{ConnectionEnd, break_connection, break_connections};
pub use calls::{
    close, create, is_at_mark, local_name, never_sent_bytes, peer_name, readable_bytes, readiness,
    unsent_bytes,
};
pub use options::TcpOptions;
pub use socket::{Role, TcpSocket, errno};
pub use table::TcpTable;
