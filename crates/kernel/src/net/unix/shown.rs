//! UNIX sockets as others see them: in `/proc/net/unix` and by sock_diag(7).

use super::{Address, Role};
use crate::host::Host;
use crate::ids::SocketKey;
use crate::net::OwnKind;
use crate::net::proc::{CLOSE, ESTABLISHED, LISTEN};
use belljar_linux_abi::c;
use std::fmt::Write;

/// A UNIX socket as `/proc/net/unix` and sock_diag show it.
#[derive(Clone, Debug)]
pub struct ShownUnix {
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
    /// Bytes charged for messages that have not been read, or the greatest length of the accept queue.
    pub send_queue: usize,
    /// Bits: the receiving end is shut, the sending end is.
    pub shut: u8,
    /// Its owner's user id.
    pub uid: u32,
    /// Number of sockets that have it as their peer.
    peers: usize,
}

impl Host {
    /// All UNIX sockets.
    pub(in crate::net) fn unix_shown(&self) -> Vec<ShownUnix> {
        let keys = self.own.iter().filter(|(_, kind)| matches!(kind, OwnKind::Unix(_)));
        let keys: Vec<SocketKey> = keys.map(|(key, _)| key).collect();
        let embryos: Vec<SocketKey> = keys.iter().flat_map(|key| self.unix_waiting(*key)).collect();
        keys.into_iter().map(|key| self.unix_shown_one(key, &embryos)).collect()
    }

    fn unix_waiting(&self, key: SocketKey) -> Vec<SocketKey> {
        match &self.unix(key).role {
            Role::Listening { waiting, .. } => waiting.iter().copied().collect(),
            _ => Vec::new(),
        }
    }

    fn unix_shown_one(&self, key: SocketKey, embryos: &[SocketKey]) -> ShownUnix {
        let common = &self.net.sockets[key.0];
        let socket = self.unix(key);
        let datagrams = common.type_ == c::SOCK_DGRAM;
        let inode = |key: SocketKey| if embryos.contains(&key) { 0 } else { self.socket_inode(key) };
        let peer = self.unix_peer(key);
        let state = match &socket.role {
            Role::Listening { .. } => LISTEN,
            Role::Connected => ESTABLISHED,
            Role::Unconnected if datagrams && (peer.is_some() || !socket.connected_from.is_empty()) => {
                ESTABLISHED
            }
            Role::Unconnected => CLOSE,
        };
        let waiting = self.unix_waiting(key);
        let clients = waiting.iter().map(|embryo| self.unix_peer(*embryo).map_or(0, inode)).collect();
        let (receive_queue, send_queue) = match &socket.role {
            Role::Listening { backlog, waiting } => (waiting.len(), *backlog),
            _ => (super::readable_bytes(self, key).unwrap_or(0), socket.charged),
        };
        ShownUnix {
            key,
            type_: common.type_,
            state,
            inode: inode(key),
            name: socket.address.as_ref().map(|address| Address::raw(Some(address))[2..].to_vec()),
            file: socket.file,
            peer: peer.map(inode),
            waiting: clients,
            receive_queue,
            send_queue,
            shut: u8::from(socket.shut_read) | u8::from(socket.shut_write) << 1,
            uid: common.uid,
            peers: if datagrams { socket.connected_from.len() } else { usize::from(peer.is_some()) },
        }
    }

    /// `/proc/net/unix`.
    pub(crate) fn proc_net_unix(&self) -> String {
        // `SS_*`.
        const UNCONNECTED: u8 = 1;
        const CONNECTING: u8 = 2;
        const CONNECTED: u8 = 3;
        const ACCEPTS: u32 = 0x10000;
        let mut text = b"Num       RefCount Protocol Flags    Type St Inode Path\n".to_vec();
        for socket in self.unix_shown() {
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
            if let Some(name) = socket.name {
                let path = name.first() != Some(&0);
                let shown = if path { &name[..name.len() - 1] } else { &name[..] };
                text.push(b' ');
                text.extend(shown.iter().map(|byte| if *byte == 0 { b'@' } else { *byte }));
            }
            text.push(b'\n');
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}
