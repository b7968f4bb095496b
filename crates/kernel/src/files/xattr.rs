//! Extended attributes, `xattr(7)`, of the user, trusted and security classes. Access control lists and file
//! capabilities are not supported.

use super::permission::{READ, WRITE};
use crate::credentials::capability;
use crate::files::Files;
use crate::host::Host;
use crate::ids::{InodeKey, ProcessKey};
use crate::process::Processes;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_flags::FileFlags;
use belljar_objects::inode::Node;

const USER: &[u8] = b"user.";
const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";
const CAPABILITY: &[u8] = b"security.capability";

impl Files {
    /// Names of all attributes that the process may see, each terminated by a zero byte.
    pub(crate) fn attribute_names(
        &mut self,
        processes: &Processes,
        process: ProcessKey,
        inode: InodeKey,
    ) -> Vec<u8> {
        let superuser = processes.is_capable(process, capability::SYS_ADMIN);
        let mut names = Vec::new();
        for name in self.inode(inode).attributes.iter().flat_map(|all| all.keys()) {
            if superuser || !name.starts_with(TRUSTED) {
                names.extend_from_slice(name);
                names.push(0);
            }
        }
        names
    }
}

impl Host {
    /// Checks that a process may read or, with `WRITE`, change an attribute: `EOPNOTSUPP` for unsupported
    /// classes.
    fn check_attribute(
        &mut self,
        process: ProcessKey,
        inode: InodeKey,
        name: &[u8],
        access: u32,
    ) -> Result<(), Errno> {
        if access == WRITE {
            self.files.inode(inode).check_flags(FileFlags::FIXED)?;
        }
        let refused = if access == READ { Errno::ENODATA } else { Errno::EPERM };
        if name.starts_with(TRUSTED) {
            return self.processes.require(process, capability::SYS_ADMIN).map_err(|_| refused);
        }
        // Security labels can be read by all. File capabilities are refused, since they would have no effect.
        if name.starts_with(SECURITY) && name != CAPABILITY && name != SECURITY {
            let made_up = matches!(self.files.inode(inode).node, Node::Virtual(_) | Node::Magic(_));
            return match access {
                _ if made_up && !self.files.is_made_up_on_disk(inode) => Err(Errno::EOPNOTSUPP),
                READ => Ok(()),
                _ => self.processes.require(process, capability::SYS_ADMIN),
            };
        }
        if name == CAPABILITY && access != READ {
            self.warn("file capabilities (the attribute security.capability) are not supported");
        }
        if !name.starts_with(USER) {
            return Err(Errno::EOPNOTSUPP);
        }
        if name == USER {
            return Err(Errno::EINVAL);
        }
        let on_disk = self.files.is_made_up_on_disk(inode);
        match self.files.inode(inode).node {
            Node::Regular(_) | Node::Directory(_) => {}
            Node::Virtual(_) if on_disk => {}
            Node::Virtual(_) => return Err(Errno::EOPNOTSUPP),
            _ => return Err(refused),
        }
        self.files.check_permission(&self.processes, process, inode, access)
    }
    /// Value of an attribute; `ENODATA` if it does not exist.
    pub(crate) fn attribute(
        &mut self,
        process: ProcessKey,
        inode: InodeKey,
        name: &[u8],
    ) -> Result<Vec<u8>, Errno> {
        self.check_attribute(process, inode, name, READ)?;
        let attributes = self.files.inode(inode).attributes.as_ref();
        attributes.and_then(|all| all.get(name)).map(|value| value.to_vec()).ok_or(Errno::ENODATA)
    }
    /// `setxattr(2)`.
    pub(crate) fn set_attribute(
        &mut self,
        process: ProcessKey,
        inode: InodeKey,
        name: Vec<u8>,
        value: Vec<u8>,
        flags: i32,
    ) -> Result<(), Errno> {
        self.check_attribute(process, inode, &name, WRITE)?;
        self.take_over(inode)?;
        let attributes = self.files.inode(inode).attributes.get_or_insert_default();
        match attributes.contains_key(&name[..]) {
            true if flags & c::XATTR_CREATE != 0 => return Err(Errno::EEXIST),
            false if flags & c::XATTR_REPLACE != 0 => return Err(Errno::ENODATA),
            _ => {}
        }
        attributes.insert(name.into(), value.into());
        self.inode_changed(inode);
        Ok(())
    }
    /// `removexattr(2)`.
    pub(crate) fn remove_attribute(
        &mut self,
        process: ProcessKey,
        inode: InodeKey,
        name: &[u8],
    ) -> Result<(), Errno> {
        self.check_attribute(process, inode, name, WRITE)?;
        let attributes = self.files.inode(inode).attributes.as_mut();
        attributes.and_then(|all| all.remove(name)).ok_or(Errno::ENODATA)?;
        self.inode_changed(inode);
        Ok(())
    }
}
