//! UNIX sockets as listed in `/proc/net/unix` and by sock_diag(7).

use crate::proc::{ESTABLISHED, LISTEN};
use std::fmt::Write;

/// UNIX socket as listed.
#[derive(Clone, Debug)]
pub struct UnixSocketInfo {
    /// Serial number of the socket.
    pub serial: u32,
    /// `SO_RCVBUF` and `SO_SNDBUF`.
    pub buffers: (u32, u32),
    /// `SOCK_STREAM`, `SOCK_DGRAM` or `SOCK_SEQPACKET`.
    pub type_: i32,
    /// State number of the corresponding TCP state.
    pub state: u8,
    /// Inode number; 0 for a connection that has not been accepted.
    pub inode: u64,
    /// Name: a path with its NUL byte, or an abstract name with its leading NUL byte.
    pub name: Option<Vec<u8>>,
    /// Inode and device of the file that the path names.
    pub file: Option<(u64, u64)>,
    /// Inode number of the peer.
    pub peer: Option<u64>,
    /// Inode numbers of the sockets that wait to be accepted.
    pub waiting: Vec<u64>,
    /// Unread bytes, or the number of connections that wait to be accepted.
    pub receive_queue: usize,
    /// Bytes charged for unread messages, or the backlog.
    pub send_queue: usize,
    /// Shutdown bits: 1 for receiving, 2 for sending.
    pub shut: u8,
    /// User id of the owner.
    pub uid: u32,
    /// Number of sockets whose peer it is.
    pub peers: usize,
}

/// `/proc/net/unix`.
pub fn proc_net_unix(sockets: &[UnixSocketInfo]) -> String {
    // `SS_*`.
    const UNCONNECTED: u8 = 1;
    const CONNECTING: u8 = 2;
    const CONNECTED: u8 = 3;
    const ACCEPTS: u32 = 0x10000;
    let mut text = b"Num       RefCount Protocol Flags    Type St Inode Path\n".to_vec();
    for socket in sockets {
        let flags = if socket.state == LISTEN { ACCEPTS } else { 0 };
        let state = match (socket.state == ESTABLISHED, socket.inode) {
            (true, 0) => CONNECTING,
            (true, _) => CONNECTED,
            (false, _) => UNCONNECTED,
        };
        let mut line = String::new();
        let _ = write!(
            line,
            "0000000000000000: {:08X} 00000000 {flags:08X} {:04X} {state:02X} {:5}",
            2 + socket.peers,
            socket.type_,
            socket.inode
        );
        text.extend(line.into_bytes());
        // The NUL bytes of an abstract name are shown as `@`.
        if let Some(name) = &socket.name {
            let path = name.first() != Some(&0);
            let shown = if path { &name[..name.len() - 1] } else { &name[..] };
            text.push(b' ');
            text.extend(shown.iter().map(|byte| if *byte == 0 { b'@' } else { *byte }));
        }
        text.push(b'\n');
    }
    String::from_utf8_lossy(&text).into_owned()
}
