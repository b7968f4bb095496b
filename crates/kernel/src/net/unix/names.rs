//! Names of UNIX sockets: path names, abstract names, or none.

use crate::call::Call;
use crate::host::Host;
use crate::ids::{ProcessKey, SocketKey};
use crate::net::own::OwnSockets;
use belljar_linux_abi::Errno;
use belljar_linux_abi::landlock::SCOPE_ABSTRACT_UNIX_SOCKET;
use belljar_linux_net::unix_address::UnixAddress;
use belljar_netstack::Stack;
use belljar_objects::unix_sockets::{PeerRef, UnixScope};

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
            let scope = name_space(&call.host.net, key);
            call.host.own.unix_names.bind_abstract(scope, &name, own)?;
            call.host.own.unix_mut(key).address = Some(UnixAddress::Abstract(name));
        }
        Some(UnixAddress::Path(path)) => {
            let inode = call.host.create_socket_node(call.process, &path)?;
            call.host.own.unix_names.bind_inode(inode, own);
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
pub(super) fn name_space(net: &Stack, key: SocketKey) -> UnixScope {
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
        let name = self.unix_names.bind_free(name_space(net, key), own);
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
        let scope = name_space(&self.net, seeker);
        let bound = match address {
            UnixAddress::Abstract(name) => self.own.unix_names.in_abstract(scope, name),
            UnixAddress::Path(path) => {
                let inode = self.find_socket_node(process, path)?;
                self.own.unix_names.at_inode(inode)
            }
        };
        let key = bound.and_then(|bound| bound.alive(&self.net)).ok_or(Errno::ECONNREFUSED)?;
        if let (UnixAddress::Abstract(_), Some(domain)) = (address, &self.processes[process.0].restrictions) {
            let other = self.own.unix(key).restrictions.as_deref();
            domain.check_scope(other, SCOPE_ABSTRACT_UNIX_SOCKET)?;
        }
        if self.net.socket(key).type_ != scope.1 {
            return Err(Errno::EPROTOTYPE);
        }
        Ok(key)
    }
    /// Releases the name of a socket that is closed; its file-system entry remains, as on Linux.
    pub(super) fn forget_name(&mut self, key: SocketKey) {
        let own = PeerRef::to(&self.net, key);
        let (address, inode) = (self.own.unix(key).address.clone(), self.own.unix(key).inode);
        let scope = name_space(&self.net, key);
        let names = &mut self.own.unix_names;
        if let Some(UnixAddress::Abstract(name)) = address {
            names.release_abstract(scope, &name, own);
        }
        if let Some(inode) = inode {
            names.release_inode(inode);
            self.release_socket_node(inode);
        }
    }
}
