//! add_key(2), request_key(2) and keyctl(2).

use crate::call::Call;
use crate::host::Host;
use crate::ids::{ProcessKey, ThreadKey};
use crate::outcome::{SysResult, done};
use belljar_linux_abi::Errno;
use belljar_linux_abi::keys::*;
use belljar_objects::keys::KeyCaller;

/// Maximum payload in bytes.
const MAX_PAYLOAD: u64 = (1 << 20) - 1;
/// Maximum payload of an update in bytes.
const MAX_UPDATE: u64 = 4_096;
/// Maximum lengths of a type name and of a description, in bytes including the terminating NUL.
const TYPE_ROOM: usize = 32;
const NAME_ROOM: usize = 4_096;
/// `MAX_ERRNO`.
const MAX_ERRNO: u32 = 4_095;
/// Result of `KEYCTL_CAPABILITIES`: persistent keyrings, big keys, invalidation, restriction, moves, and
/// namespaced names and keys.
const CAPABILITIES: [u8; 2] = [0xf3, 0x03];

impl Host {
    /// Key operations on behalf of a thread.
    pub(crate) fn keys_of(&mut self, thread: ThreadKey, process: ProcessKey) -> KeyCaller<'_> {
        let now = self.seconds();
        let rings = self.threads[thread.0].keyrings.get_or_insert_default();
        KeyCaller::new(&mut self.keys, rings, &self.processes[process.0].credentials, now)
    }
}

impl Call<'_> {
    fn keys(&mut self) -> KeyCaller<'_> {
        self.host.keys_of(self.thread, self.process)
    }
    fn text(&self, addr: u64, room: usize) -> Result<Vec<u8>, Errno> {
        self.host.read_guest_string(self.process, addr, room - 1, Errno::EINVAL)
    }
    /// Reads the name of a key type. `EPERM` for names with a leading dot, which are internal to the kernel.
    fn key_type(&self, addr: u64) -> Result<Vec<u8>, Errno> {
        let name = self.text(addr, TYPE_ROOM)?;
        match name.first() {
            None => Err(Errno::EINVAL),
            Some(b'.') => Err(Errno::EPERM),
            Some(_) => Ok(name),
        }
    }
    /// Returns the length of `data`, and stores it if the buffer is large enough.
    fn give(&mut self, data: &[u8], (addr, room): (u64, u64)) -> SysResult {
        if addr != 0 && room >= data.len() as u64 {
            self.write_bytes(addr, data)?;
        }
        done(data.len() as u64)
    }
}

/// add_key(2).
pub fn sys_add_key(call: &mut Call<'_>) -> SysResult {
    let [kind, name, payload, len, ring, _] = call.args;
    if len > MAX_PAYLOAD {
        return Err(Errno::EINVAL);
    }
    let kind = call.key_type(kind)?;
    let name = if name == 0 { Vec::new() } else { call.text(name, NAME_ROOM)? };
    if name.starts_with(b".") && kind.starts_with(b"keyring") {
        return Err(Errno::EPERM);
    }
    let payload = call.read_vec(payload, len as usize)?;
    done(call.keys().add(&kind, name, payload, ring as i32)? as u64)
}

/// request_key(2).
pub fn sys_request_key(call: &mut Call<'_>) -> SysResult {
    let [kind, name, callout, ring, ..] = call.args;
    let (kind, name) = (call.key_type(kind)?, call.text(name, NAME_ROOM)?);
    let callout = if callout == 0 { None } else { Some(call.text(callout, NAME_ROOM)?) };
    done(call.keys().request(&kind, name, callout, ring as i32)? as u64)
}

/// keyctl(2).
pub fn sys_keyctl(call: &mut Call<'_>) -> SysResult {
    let [_, first, second, third, fourth, _] = call.args;
    let (id, ring) = (first as i32, second as i32);
    let number = |number: i32| number as u64;
    let value = match call.int(0) {
        KEYCTL_GET_KEYRING_ID => number(call.keys().ring_number(id, ring != 0)?),
        KEYCTL_JOIN_SESSION_KEYRING => {
            let name = if first == 0 { None } else { Some(call.text(first, NAME_ROOM)?) };
            if name.as_ref().is_some_and(|name| name.starts_with(b".")) {
                return Err(Errno::EPERM);
            }
            number(call.keys().join_session(name)?)
        }
        KEYCTL_UPDATE if third > MAX_UPDATE => return Err(Errno::EINVAL),
        KEYCTL_UPDATE => {
            let payload = call.read_vec(second, third as usize)?;
            call.keys().update(id, payload).map(|()| 0)?
        }
        KEYCTL_REVOKE => call.keys().revoke(id).map(|()| 0)?,
        KEYCTL_CHOWN => {
            let given = |id: u64| Some(id as u32).filter(|id| *id != u32::MAX);
            call.keys().change_owner(id, given(second), given(third)).map(|()| 0)?
        }
        KEYCTL_SETPERM => call.keys().set_permissions(id, second as u32).map(|()| 0)?,
        KEYCTL_DESCRIBE => {
            let text = call.keys().describe(id)?;
            return call.give(&text, (second, third));
        }
        KEYCTL_CLEAR => call.keys().clear(id).map(|()| 0)?,
        KEYCTL_LINK => call.keys().link(id, ring).map(|()| 0)?,
        KEYCTL_UNLINK => call.keys().unlink(id, ring).map(|()| 0)?,
        KEYCTL_SEARCH => {
            let (kind, name) = (call.key_type(second)?, call.text(third, NAME_ROOM)?);
            number(call.keys().search(id, &kind, name, fourth as i32)?)
        }
        KEYCTL_READ => {
            let room = if second == 0 { 0 } else { third };
            let data = call.keys().read(id, room)?;
            return call.give(&data, (second, room));
        }
        KEYCTL_INSTANTIATE if third > MAX_PAYLOAD => return Err(Errno::EINVAL),
        KEYCTL_REJECT if !(1..MAX_ERRNO).contains(&(third as u32)) => return Err(Errno::EINVAL),
        // No program is ever asked to instantiate a key, so none has the authority.
        KEYCTL_INSTANTIATE | KEYCTL_INSTANTIATE_IOV | KEYCTL_NEGATE | KEYCTL_REJECT => {
            return Err(Errno::EPERM);
        }
        KEYCTL_ASSUME_AUTHORITY if id < 0 => return Err(Errno::EINVAL),
        KEYCTL_ASSUME_AUTHORITY if id > 0 => return Err(Errno::ENOKEY),
        KEYCTL_ASSUME_AUTHORITY => 0,
        KEYCTL_SET_REQKEY_KEYRING => number(call.keys().set_default_ring(id)?),
        KEYCTL_SET_TIMEOUT => call.keys().set_timeout(id, second as u32).map(|()| 0)?,
        KEYCTL_GET_SECURITY => {
            call.keys().check_view(id)?;
            return call.give(b"\0", (second, third));
        }
        KEYCTL_SESSION_TO_PARENT => session_to_parent(call).map(|()| 0)?,
        KEYCTL_INVALIDATE => call.keys().invalidate(id).map(|()| 0)?,
        KEYCTL_GET_PERSISTENT => {
            number(call.keys().persistent(Some(first as u32).filter(|uid| *uid != u32::MAX), ring)?)
        }
        KEYCTL_RESTRICT_KEYRING if (second == 0) != (third == 0) => return Err(Errno::EINVAL),
        KEYCTL_RESTRICT_KEYRING => {
            let kind = if second == 0 { None } else { Some(call.key_type(second)?) };
            call.keys().restrict(id, kind.as_deref()).map(|()| 0)?
        }
        KEYCTL_MOVE if fourth as u32 & !KEYCTL_MOVE_EXCL != 0 => return Err(Errno::EINVAL),
        KEYCTL_MOVE => call.keys().relink(id, ring, third as i32, fourth != 0).map(|()| 0)?,
        KEYCTL_CAPABILITIES => {
            let mut told = CAPABILITIES.to_vec();
            told.resize((second as usize).min(MAX_UPDATE as usize), 0);
            call.write_bytes(first, &told)?;
            CAPABILITIES.len() as u64
        }
        _ => return Err(Errno::EOPNOTSUPP),
    };
    done(value)
}

/// `KEYCTL_SESSION_TO_PARENT`: the parent must be single-threaded and have the same user and group.
fn session_to_parent(call: &mut Call<'_>) -> Result<(), Errno> {
    let session = call.keys().session_to_give()?;
    let host = &mut *call.host;
    let parent = host.processes[call.process.0].parent.ok_or(Errno::EPERM)?;
    let (who, other) = (&host.processes[call.process.0].credentials, &host.processes[parent.0]);
    let [thread] = other.threads[..] else { return Err(Errno::EPERM) };
    let rings = host.threads[thread.0].keyrings.get_or_insert_default();
    host.keys.give_session(session, rings, (who, &other.credentials))
}
