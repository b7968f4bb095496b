//! Names of UNIX sockets: path names, abstract names, or none.

use super::{PeerRef, UnixAddress};
use crate::call::Call;
use crate::host::Host;
use crate::ids::{ProcessKey, SocketKey};
use crate::net::own::OwnSockets;
use belljar_linux_abi::Errno;
use belljar_linux_abi::landlock::SCOPE_ABSTRACT_UNIX_SOCKET;
use belljar_netstack::Stack;

/// `bind(2)`. An address that consists of the family alone assigns a free abstract name.
pub fn bind(call: &mut Call<'_>, key: SocketKey, raw: &[u8]) -> Result<(), Errno> {
    let address = UnixAddress::parse(raw)?;
    if call.host.own.unix(key).address.is_some() {
        return match address {
            None => Ok(()),
            Some(UnixAddress::Abstract(_)) => Err(Errno::EINVAL),
            // Path errors take precedence (`unix_bind_bsd`).
            Some(UnixAddress::Path(path)) => {
                call.host.may_create_socket_node(call.process, &path).and(Err(Errno::EINVAL))
            }
        };
    }
    let own = PeerRef::to(&call.host.net, key);
    call.host.own.unix_mut(key).restrictions = call.host.processes[call.process.0].restrictions.clone();
    match address {
        None => call.host.own.autobind(&mut call.host.net, key),
        Some(UnixAddress::Abstract(name)) => {
            let (network, type_) = name_space(&call.host.net, key);
            let names = &mut call.host.own.unix_names;
            if names.in_abstract.contains_key(&(network, type_, name.clone())) {
                return Err(Errno::EADDRINUSE);
            }
            names.in_abstract.insert((network, type_, name.clone()), own);
            call.host.own.unix_mut(key).address = Some(UnixAddress::Abstract(name));
        }
        Some(UnixAddress::Path(path)) => {
            let inode = call.host.create_socket_node(call.process, &path)?;
            call.host.own.unix_names.by_inode.insert(inode, own);
            let made = &call.host.files.inodes[inode.0];
            let file = (made.number, made.device);
            let socket = call.host.own.unix_mut(key);
            (socket.inode, socket.file) = (Some(inode), Some(file));
            socket.address = Some(UnixAddress::Path(path));
        }
    }
    Ok(())
}

/// Scope of a socket's abstract name: network and type.
pub(super) fn name_space(net: &Stack, key: SocketKey) -> (u32, i32) {
    let socket = &net.sockets[key.0];
    (socket.network, socket.type_)
}

impl OwnSockets {
    /// Binds an unbound socket to a free abstract name of five hexadecimal digits.
    pub(super) fn autobind(&mut self, net: &mut Stack, key: SocketKey) {
        if self.unix(key).address.is_some() {
            return;
        }
        let own = PeerRef::to(net, key);
        let (network, type_) = name_space(net, key);
        let names = &mut self.unix_names;
        let name = loop {
            let name = format!("{:05x}", names.next_automatic & 0xf_ffff).into_bytes();
            names.next_automatic = names.next_automatic.wrapping_add(1);
            if !names.in_abstract.contains_key(&(network, type_, name.clone())) {
                break name;
            }
        };
        names.in_abstract.insert((network, type_, name.clone()), own);
        self.unix_mut(key).address = Some(UnixAddress::Abstract(name));
    }
}

impl Host {
    /// Finds the socket bound to an address, as seen from `process`, for a socket of the same network and
    /// type. `ECONNREFUSED` if no live socket is bound to it, `EPROTOTYPE` if the type differs, or the error
    /// of the path lookup.
    pub(super) fn find_unix(
        &mut self,
        process: ProcessKey,
        address: &UnixAddress,
        seeker: SocketKey,
    ) -> Result<SocketKey, Errno> {
        let (network, type_) = name_space(&self.net, seeker);
        let bound = match address {
            UnixAddress::Abstract(name) => {
                self.own.unix_names.in_abstract.get(&(network, type_, name.clone())).copied()
            }
            UnixAddress::Path(path) => {
                let inode = self.find_socket_node(process, path)?;
                self.own.unix_names.by_inode.get(&inode).copied()
            }
        };
        let key = bound.and_then(|bound| bound.alive(&self.net)).ok_or(Errno::ECONNREFUSED)?;
        if let (UnixAddress::Abstract(_), Some(domain)) = (address, &self.processes[process.0].restrictions) {
            let other = self.own.unix(key).restrictions.as_deref();
            domain.check_scope(other, SCOPE_ABSTRACT_UNIX_SOCKET)?;
        }
        if self.net.socket(key).type_ != type_ {
            return Err(Errno::EPROTOTYPE);
        }
        Ok(key)
    }
    /// Releases the name of a socket that is closed; its file-system entry remains, as on Linux.
    pub(super) fn forget_name(&mut self, key: SocketKey) {
        let own = PeerRef::to(&self.net, key);
        let (address, inode) = (self.own.unix(key).address.clone(), self.own.unix(key).inode);
        let (network, type_) = name_space(&self.net, key);
        let names = &mut self.own.unix_names;
        // An accepted connection has its listener's name without owning it.
        if let Some(UnixAddress::Abstract(name)) = address {
            let name = (network, type_, name);
            if names.in_abstract.get(&name) == Some(&own) {
                names.in_abstract.remove(&name);
            }
        }
        if let Some(inode) = inode {
            names.by_inode.remove(&inode);
            self.release_socket_node(inode);
        }
    }
}
