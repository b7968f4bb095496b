//! UNIX sockets as shown by `/proc/net/unix` and sock_diag(7).

use crate::net::own::{OwnKind, OwnSockets};
use belljar_linux_abi::c;
use belljar_linux_net::proc::{CLOSE, ESTABLISHED, LISTEN};
use belljar_linux_net::socket_inode;
use belljar_linux_net::unix::UnixSocketInfo;
use belljar_linux_net::unix_address::UnixAddress;
use belljar_netstack::{SocketKey, Stack};
use belljar_objects::unix_sockets::UnixRole;

impl OwnSockets {
    /// All UNIX sockets of a network.
    pub(crate) fn unix_shown(&self, net: &Stack, network: u32) -> Vec<UnixSocketInfo> {
        let here = |key: SocketKey| net.sockets[key.0].network == network;
        let keys = self.iter().filter(|(key, kind)| here(*key) && matches!(kind, OwnKind::Unix(_)));
        let keys: Vec<SocketKey> = keys.map(|(key, _)| key).collect();
        let embryos: Vec<SocketKey> = keys.iter().flat_map(|key| self.unix(*key).waiting()).collect();
        keys.into_iter().map(|key| self.unix_shown_one(net, key, &embryos)).collect()
    }

    fn unix_shown_one(&self, net: &Stack, key: SocketKey, embryos: &[SocketKey]) -> UnixSocketInfo {
        let common = &net.sockets[key.0];
        let socket = self.unix(key);
        let datagrams = common.type_ == c::SOCK_DGRAM;
        let inode = |key: SocketKey| if embryos.contains(&key) { 0 } else { socket_inode(net, key) };
        let peer = self.unix_peer(net, key);
        let state = match &socket.role {
            UnixRole::Listening { .. } => LISTEN,
            UnixRole::Connected => ESTABLISHED,
            UnixRole::Unconnected if datagrams && (peer.is_some() || !socket.connected_from.is_empty()) => {
                ESTABLISHED
            }
            UnixRole::Unconnected => CLOSE,
        };
        let waiting = socket.waiting();
        let clients = waiting.iter().map(|embryo| self.unix_peer(net, *embryo).map_or(0, inode)).collect();
        let (receive_queue, send_queue) = match &socket.role {
            UnixRole::Listening { backlog, waiting } => (waiting.len(), *backlog),
            _ => (socket.readable(datagrams).unwrap_or(0), socket.charged),
        };
        UnixSocketInfo {
            serial: common.serial,
            buffers: (common.options.receive_buffer, common.options.send_buffer),
            type_: common.type_,
            state,
            inode: inode(key),
            name: socket.address.as_ref().map(|address| UnixAddress::raw(Some(address))[2..].to_vec()),
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
}
