//! UNIX sockets as others see them: in `/proc/net/unix` and by sock_diag(7).

use crate::proc::{ESTABLISHED, LISTEN};
use belljar_netstack::SocketKey;
use std::fmt::Write;

/// A UNIX socket as it is listed.
#[derive(Clone, Debug)]
pub struct UnixSocketInfo {
    /// The socket.
    pub key: SocketKey,
    /// `SOCK_STREAM`, `SOCK_DGRAM` or `SOCK_SEQPACKET`.
    pub type_: i32,
    /// The number that TCP has for such a state.
    pub state: u8,
    /// Its inode; 0 for a connection that has not been accepted, which no file stands for.
    pub inode: u64,
    /// Its name: a path with the zero behind it, or an abstract name with the zero before it.
    pub name: Option<Vec<u8>>,
    /// Inode and device of the file that a path names.
    pub file: Option<(u64, u64)>,
    /// The peer's inode.
    pub peer: Option<u64>,
    /// The inodes of those who wait to be accepted.
    pub waiting: Vec<u64>,
    /// Bytes to be read, or how many wait to be accepted.
    pub receive_queue: usize,
    /// Bytes charged for messages that have not been read, or how many may wait to be accepted.
    pub send_queue: usize,
    /// Bits: the receiving end is shut, the sending end is.
    pub shut: u8,
    /// Its owner's user id.
    pub uid: u32,
    /// Number of sockets that have it as their peer.
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
        // A zero before an abstract name, and any in it, is shown as `@`.
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
