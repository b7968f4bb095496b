//! landlock_create_ruleset(2), landlock_add_rule(2) and landlock_restrict_self(2).

use crate::call::Call;
use crate::credentials::capability;
use crate::ids::SocketKey;
use crate::outcome::{SysResult, done};
use belljar_linux_abi::landlock::*;
use belljar_linux_abi::{Errno, c};
use belljar_objects::file_kind::FileKind;
use belljar_objects::landlock::{ABI, Ruleset};
use std::sync::Arc;

/// Size of the first version of `struct landlock_ruleset_attr` in bytes.
const LEAST_ATTRIBUTES: usize = 8;

/// landlock_create_ruleset(2).
pub fn sys_landlock_create_ruleset(call: &mut Call<'_>) -> SysResult {
    let [addr, len, ..] = call.args;
    match call.uint(2) {
        0 => {}
        LANDLOCK_CREATE_RULESET_VERSION if addr == 0 && len == 0 => return done(ABI),
        _ => return Err(Errno::EINVAL),
    }
    if addr == 0 {
        return Err(Errno::EFAULT);
    }
    let [files, ports, scopes]: [u64; 3] = call.read_extensible(addr, len, LEAST_ATTRIBUTES)?;
    let ruleset = Ruleset::new(files, ports, scopes)?;
    let file = call.host.files.open_file(FileKind::Ruleset(Arc::new(ruleset)), c::O_RDWR);
    done(call.host.install_fd(call.process, file, true, 0)?)
}

impl Call<'_> {
    /// Ruleset of a descriptor: `EBADF` if it is not open, `EBADFD` if it is another file.
    fn ruleset(&mut self, fd: i32) -> Result<&mut Arc<Ruleset>, Errno> {
        let file = self.host.file_of(self.process, fd)?;
        match &mut self.host.files.open(file).kind {
            FileKind::Ruleset(ruleset) => Ok(ruleset),
            _ => Err(Errno::EBADFD),
        }
    }
    /// `EACCES` if the process's Landlock domain does not allow it to bind or connect a TCP socket to a port.
    pub(super) fn check_restricted_port(&self, key: SocketKey, name: &[u8], right: u64) -> Result<(), Errno> {
        let Some(domain) = &self.host.processes[self.process.0].restrictions else { return Ok(()) };
        let socket = &self.host.stack_of(key).sockets[key.0];
        let least = if socket.domain == c::AF_INET { 16 } else { 24 };
        let of_tcp = matches!(socket.domain, c::AF_INET | c::AF_INET6) && socket.type_ == c::SOCK_STREAM;
        // Addresses of another family fail later by themselves; `AF_UNSPEC` disconnects the socket.
        if !of_tcp || name.len() < least || i32::from(u16::from_ne_bytes([name[0], name[1]])) != socket.domain
        {
            return Ok(());
        }
        domain.check_port(u16::from_be_bytes([name[2], name[3]]), right)
    }
}

/// landlock_add_rule(2).
pub fn sys_landlock_add_rule(call: &mut Call<'_>) -> SysResult {
    let (fd, addr) = (call.int(0), call.args[2]);
    if call.uint(3) != 0 {
        return Err(Errno::EINVAL);
    }
    call.ruleset(fd)?;
    match call.int(1) {
        LANDLOCK_RULE_PATH_BENEATH => {
            // Packed structure: access rights and a descriptor.
            let (rights, parent): (u64, i32) = (call.read(addr)?, call.read(addr.wrapping_add(8))?);
            call.ruleset(fd)?.check_file_rights(rights)?;
            let file = call.host.file_of(call.process, parent)?;
            let inode = call.host.files.open(file).kind.inode().ok_or(Errno::EBADFD)?;
            let (identity, is_directory) = {
                let inode = call.host.files.inode(inode);
                (inode.identity(), inode.node.is_directory())
            };
            Arc::make_mut(call.ruleset(fd)?).allow_file(identity, is_directory, rights)?;
        }
        LANDLOCK_RULE_NET_PORT => {
            let [rights, port]: [u64; 2] = call.read(addr)?;
            Arc::make_mut(call.ruleset(fd)?).allow_port(port, rights)?;
        }
        _ => return Err(Errno::EINVAL),
    }
    done(0)
}

/// landlock_restrict_self(2).
pub fn sys_landlock_restrict_self(call: &mut Call<'_>) -> SysResult {
    if !call.host.process(call.process).attributes.no_new_privs {
        call.host.processes.require_own(call.process, capability::SYS_ADMIN)?;
    }
    if call.uint(1) != 0 {
        return Err(Errno::EINVAL);
    }
    let ruleset = call.ruleset(call.int(0))?.clone();
    let restrictions = &mut call.host.process(call.process).restrictions;
    *restrictions = Some(Arc::new(restrictions.as_deref().cloned().unwrap_or_default().with(&ruleset)?));
    done(0)
}

/// lsm_list_modules(2): reports capability and Landlock.
pub fn sys_lsm_list_modules(call: &mut Call<'_>) -> SysResult {
    const MODULES: [u64; 2] = [100, 110];
    let [ids, size, flags, ..] = call.args;
    if flags as u32 != 0 {
        return Err(Errno::EINVAL);
    }
    let room: u32 = call.read(size)?;
    let needed = size_of::<[u64; 2]>() as u32;
    call.write(size, &needed)?;
    if room < needed {
        return Err(Errno::E2BIG);
    }
    call.write(ids, &MODULES)?;
    done(MODULES.len() as u64)
}
