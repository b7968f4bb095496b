//! Nodes of UNIX sockets in the file tree.

use super::permission::WRITE;
use super::tree::{Found, Walk};
use crate::host::Host;
use crate::ids::{InodeKey, ProcessKey};
use belljar_linux_abi::Errno;
use belljar_linux_abi::landlock::ACCESS_FS_MAKE_SOCK;
use belljar_objects::inode::Node;

impl Host {
    /// Creates the node for `bind(2)`; it is held until [`release_socket_node`](Self::release_socket_node).
    /// `EADDRINUSE` if the path exists.
    pub(crate) fn create_socket_node(&mut self, process: ProcessKey, path: &[u8]) -> Result<InodeKey, Errno> {
        let found = self.may_create_socket_node(process, path)?;
        let mode = 0o777 & !self.processes[process.0].umask;
        let inode = self.new_inode_at(&found, Node::Socket, mode);
        self.files.add_name(found.parent, &found.name, inode);
        self.content_changed(found.parent);
        self.files.inode(inode).opens += 1;
        Ok(inode)
    }
    /// Resolves a path at which a socket node can be created. `EADDRINUSE` if it exists.
    pub(crate) fn may_create_socket_node(
        &mut self,
        process: ProcessKey,
        path: &[u8],
    ) -> Result<Found, Errno> {
        let found = self.resolve_here(process, path, Walk::empty())?;
        if found.target.is_some() {
            return Err(Errno::EADDRINUSE);
        }
        self.files.check_can_create(&self.processes, &found, ACCESS_FS_MAKE_SOCK)?;
        Ok(found)
    }
    /// Resolves a path to a socket node that the process may write. `ECONNREFUSED` if it is another file.
    pub(crate) fn find_socket_node(&mut self, process: ProcessKey, path: &[u8]) -> Result<InodeKey, Errno> {
        let inode = self.resolve_here(process, path, Walk::FOLLOW)?.inode()?;
        match self.files.inode(inode).node {
            Node::Socket => {
                self.files.check_permission(&self.processes, process, inode, WRITE).map(|()| inode)
            }
            _ => Err(Errno::ECONNREFUSED),
        }
    }
    /// Releases the node of a bound socket that was closed.
    pub(crate) fn release_socket_node(&mut self, inode: InodeKey) {
        self.files.inode(inode).opens -= 1;
        self.forget_if_unused(inode);
    }
}
