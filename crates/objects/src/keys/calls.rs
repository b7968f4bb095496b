//! The operations of `add_key(2)`, `request_key(2)` and `keyctl(2)`.

use super::search::{Found, LINK, READ, SEARCH, SETATTR, Search, VIEW, WRITE};
use super::*;
use crate::credentials::capability;

/// Largest read buffer in bytes whose size is checked before the payload is read.
const READ_AT_ONCE: u64 = 4_096;

/// Key table as seen by one thread.
#[derive(Debug)]
pub struct KeyCaller<'a> {
    pub(super) table: &'a mut KeyTable,
    pub(super) rings: &'a mut TaskKeyrings,
    pub(super) who: &'a Credentials,
    pub(super) now: i64,
}

/// Access for which a key is looked up.
#[derive(Clone, Copy, Default)]
struct Use {
    /// True if a missing keyring of the thread is created.
    create: bool,
    /// True if a negative key is acceptable.
    partial: bool,
    /// Right that the access needs.
    right: u32,
}

impl Use {
    const fn of(right: u32) -> Use {
        Use { create: false, partial: false, right }
    }
    const fn creating(self) -> Use {
        Use { create: true, ..self }
    }
    const fn partial(self) -> Use {
        Use { partial: true, ..self }
    }
}

/// Access to a keyring for writing; the keyring is created if it is missing.
const RING: Use = Use::of(WRITE).creating();

impl<'a> KeyCaller<'a> {
    /// View of the table for a thread with these keyrings and credentials; `now` is in seconds since 1970.
    pub fn new(
        table: &'a mut KeyTable,
        rings: &'a mut TaskKeyrings,
        who: &'a Credentials,
        now: i64,
    ) -> KeyCaller<'a> {
        table.collect(now);
        KeyCaller { table, rings, who, now }
    }

    /// Resolves a key serial number or a `KEY_SPEC_*_KEYRING` constant.
    fn find(&mut self, id: i32, create: bool) -> Result<Found, Errno> {
        let ring = match id {
            KEY_SPEC_THREAD_KEYRING if create => self.thread_ring(),
            KEY_SPEC_THREAD_KEYRING => self.rings.thread.ok_or(Errno::ENOKEY)?,
            KEY_SPEC_PROCESS_KEYRING if create => self.process_ring(),
            KEY_SPEC_PROCESS_KEYRING => self.rings.process.ok_or(Errno::ENOKEY)?,
            KEY_SPEC_SESSION_KEYRING => self.session_ring(create)?,
            KEY_SPEC_USER_KEYRING => self.table.user_rings(self.who.ruid)?.0,
            KEY_SPEC_USER_SESSION_KEYRING => self.table.user_rings(self.who.ruid)?.1,
            KEY_SPEC_REQKEY_AUTH_KEY | KEY_SPEC_REQUESTOR_KEYRING => return Err(Errno::ENOKEY),
            ..=0 => return Err(Errno::EINVAL),
            key if !self.table.keys.contains_key(&key) => return Err(Errno::ENOKEY),
            key => {
                let possessed = self.table.is_possessed(key, self.rings, self.who);
                return Ok(Found { key, possessed });
            }
        };
        Ok(Found { key: ring, possessed: true })
    }

    /// Resolves a key and checks that it permits the access.
    fn lookup(&mut self, id: i32, wanted: Use) -> Result<Found, Errno> {
        let found = self.find(id, wanted.create)?;
        let entry = self.table.entry(found.key);
        if !wanted.partial {
            entry.state?;
        }
        entry.validate(self.now)?;
        self.table.check_right(found, self.who, wanted.right)?;
        Ok(found)
    }

    fn thread_ring(&mut self) -> i32 {
        *self.rings.thread.get_or_insert_with(|| self.table.make_task_ring(b"_tid", 0, self.who))
    }
    fn process_ring(&mut self) -> i32 {
        *self.rings.process.get_or_insert_with(|| self.table.make_task_ring(b"_pid", 0, self.who))
    }
    fn session_ring(&mut self, create: bool) -> Result<i32, Errno> {
        match self.rings.session {
            Some(ring) if !(create && self.table.entry(ring).of_user) => Ok(ring),
            None if !create => {
                let (_, session) = self.table.user_rings(self.who.ruid)?;
                self.table.hold(session);
                self.rings.session = Some(session);
                Ok(session)
            }
            _ => self.new_session(),
        }
    }

    /// Creates an anonymous session keyring and installs it.
    fn new_session(&mut self) -> Result<i32, Errno> {
        let charge = if self.rings.session.is_some() { Charge::Within } else { Charge::Beyond };
        let perm = KEY_POS_ALL | KEY_USR_VIEW | KEY_USR_READ;
        let ring = self.table.make_ring(b"_ses", (self.who.ruid, self.who.rgid), perm, charge)?;
        self.take_session(ring);
        Ok(ring)
    }

    /// Installs a keyring, whose reference passes to the thread, as the session keyring.
    fn take_session(&mut self, ring: i32) {
        if let Some(former) = self.rings.session.replace(ring) {
            self.table.release(former);
        }
    }

    /// `add_key(2)`.
    pub fn add(
        &mut self,
        kind: &[u8],
        description: Vec<u8>,
        payload: Vec<u8>,
        ring: i32,
    ) -> Result<i32, Errno> {
        let ring = self.lookup(ring, RING)?;
        let kind = KeyType::named(kind).ok_or(Errno::ENODEV)?;
        if description.is_empty() {
            return Err(Errno::EINVAL);
        }
        if self.table.entry(ring.key).kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        kind.check(&payload)?;
        let at = (kind, description);
        self.table.check_link(ring.key, &at)?;
        if let Some(key) = self.to_update(ring.key, &at) {
            self.table.check_right(Found { key, ..ring }, self.who, WRITE)?;
            self.write(key, payload)?;
            return Ok(key);
        }
        let owner = (self.who.fsuid, self.who.fsgid);
        let key = self.table.make(at, owner, kind.default_permissions(), Charge::Within)?;
        let linked = self.write(key, payload).and_then(|()| self.table.link(ring.key, key));
        self.table.discard(key);
        linked.map(|()| key)
    }

    /// Key linked in a keyring under `at` that is to be updated instead of replaced.
    fn to_update(&self, ring: i32, at: &Index) -> Option<i32> {
        let key = *self.table.entry(ring).links.get(at)?;
        let entry = self.table.entry(key);
        let usable = at.0 != KeyType::Keyring && !entry.invalidated && entry.revoked_at.is_none();
        usable.then_some(key)
    }

    /// Writes a payload to a key, which instantiates it.
    fn write(&mut self, key: i32, payload: Vec<u8>) -> Result<(), Errno> {
        self.table.charge(key, self.table.entry(key).kind.charge(payload.len()))?;
        let entry = self.table.entry_mut(key);
        (entry.payload, entry.expiry, entry.state) = (payload, None, Ok(()));
        Ok(())
    }

    /// `request_key(2)`. `callout` is the callout information for the request-key program.
    pub fn request(
        &mut self,
        kind: &[u8],
        description: Vec<u8>,
        callout: Option<Vec<u8>>,
        ring: i32,
    ) -> Result<i32, Errno> {
        let ring = if ring == 0 { None } else { Some(self.lookup(ring, RING)?.key) };
        let kind = KeyType::named(kind).ok_or(Errno::ENOKEY)?;
        let at = (kind, description);
        let search = || Search::usable(&at, self.who, self.now).forgiving_expired();
        match self.table.search_task(self.rings, self.who.ruid, search) {
            Ok(found) => {
                if let Some(ring) = ring {
                    self.table.check_right(found, self.who, LINK)?;
                    self.table.link(ring, found.key)?;
                }
                self.table.entry(found.key).validate(self.now)?;
                Ok(found.key)
            }
            Err(Errno::EAGAIN) => {
                callout.ok_or(Errno::ENOKEY)?;
                self.negate(at, ring)?;
                Err(Errno::ENOENT)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Creates a negative key.
    fn negate(&mut self, at: Index, ring: Option<i32>) -> Result<(), Errno> {
        if at.0 == KeyType::Keyring {
            return Err(Errno::EPERM);
        }
        let ring = match ring {
            Some(ring) => ring,
            None => {
                let ring = self.default_ring()?;
                self.table.check_right(Found { key: ring, possessed: true }, self.who, WRITE)?;
                ring
            }
        };
        let (owner, perm) = ((self.who.fsuid, self.who.fsgid), at.0.default_permissions());
        let key = self.table.make(at, owner, perm, Charge::Within)?;
        let entry = self.table.entry_mut(key);
        (entry.state, entry.expiry) = (Err(Errno::ENOKEY), Some(self.now + NEGATIVE_SECONDS));
        self.table.plan_collection(key);
        let linked = self.table.link(ring, key);
        self.table.discard(key);
        linked
    }

    /// Destination keyring of a requested key if the request names none.
    fn default_ring(&mut self) -> Result<i32, Errno> {
        let (thread, process, session) = (self.rings.thread, self.rings.process, self.rings.session);
        let own = match self.rings.default {
            KEY_REQKEY_DEFL_PROCESS_KEYRING => process.or(session),
            KEY_REQKEY_DEFL_SESSION_KEYRING => session,
            KEY_REQKEY_DEFL_USER_SESSION_KEYRING => None,
            KEY_REQKEY_DEFL_USER_KEYRING => return Ok(self.table.user_rings(self.who.ruid)?.0),
            _ => thread.or(process).or(session),
        };
        match own {
            Some(ring) => Ok(ring),
            None => Ok(self.table.user_rings(self.who.ruid)?.1),
        }
    }

    /// `KEYCTL_GET_KEYRING_ID`.
    pub fn ring_number(&mut self, id: i32, create: bool) -> Result<i32, Errno> {
        Ok(self.lookup(id, Use { create, ..Use::of(SEARCH) })?.key)
    }

    /// `KEYCTL_JOIN_SESSION_KEYRING`: joins a new anonymous keyring, or one by name. Returns 0 if the thread
    /// is in it already.
    pub fn join_session(&mut self, name: Option<Vec<u8>>) -> Result<i32, Errno> {
        let Some(name) = name else { return self.new_session() };
        match self.table.ring_named(&name, self.who) {
            Some(ring) if self.rings.session == Some(ring) => return Ok(0),
            Some(ring) => {
                self.table.hold(ring);
                self.take_session(ring);
            }
            None => {
                let perm = KEY_POS_ALL | KEY_USR_VIEW | KEY_USR_READ | KEY_USR_LINK;
                let owner = (self.who.ruid, self.who.rgid);
                let ring = self.table.make_ring(&name, owner, perm, Charge::Within)?;
                self.take_session(ring);
            }
        }
        self.rings.session.ok_or(Errno::ENOKEY)
    }

    /// `KEYCTL_UPDATE`.
    pub fn update(&mut self, id: i32, payload: Vec<u8>) -> Result<(), Errno> {
        let key = self.lookup(id, Use::of(WRITE))?.key;
        let kind = self.table.entry(key).kind;
        if kind == KeyType::Keyring {
            return Err(Errno::EOPNOTSUPP);
        }
        kind.check(&payload)?;
        self.write(key, payload)
    }

    /// `KEYCTL_REVOKE`.
    pub fn revoke(&mut self, id: i32) -> Result<(), Errno> {
        let found = match self.lookup(id, Use::of(WRITE)) {
            Err(Errno::EACCES) => self.lookup(id, Use::of(SETATTR)),
            found => found,
        };
        let key = found?.key;
        self.table.entry_mut(key).revoked_at = Some(self.now);
        self.table.clear(key);
        self.table.plan_collection(key);
        Ok(())
    }

    /// `KEYCTL_INVALIDATE`.
    pub fn invalidate(&mut self, id: i32) -> Result<(), Errno> {
        let key = self.lookup(id, Use::of(SEARCH))?.key;
        self.table.entry_mut(key).invalidated = true;
        self.table.unlink_everywhere(key);
        Ok(())
    }

    /// `KEYCTL_SET_TIMEOUT`; 0 clears the timeout.
    pub fn set_timeout(&mut self, id: i32, seconds: u32) -> Result<(), Errno> {
        let key = self.lookup(id, Use::of(SETATTR).creating().partial())?.key;
        self.expire(key, i64::from(seconds));
        Ok(())
    }

    fn expire(&mut self, key: i32, seconds: i64) {
        self.table.entry_mut(key).expiry = (seconds > 0).then_some(self.now + seconds);
        self.table.plan_collection(key);
    }

    /// `KEYCTL_CHOWN`; `None` leaves an id unchanged.
    pub fn change_owner(&mut self, id: i32, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        let key = self.lookup(id, Use::of(SETATTR).creating().partial())?.key;
        let entry = self.table.entry(key);
        let own_group = |gid| gid == self.who.fsgid || self.who.groups.binary_search(&gid).is_ok();
        let privileged = uid.is_some_and(|uid| uid != entry.uid)
            || gid.is_some_and(|gid| gid != entry.gid && !own_group(gid));
        if privileged && !self.who.has(capability::SYS_ADMIN) {
            return Err(Errno::EACCES);
        }
        if let Some(uid) = uid.filter(|uid| *uid != entry.uid) {
            self.table.change_owner(key, uid)?;
        }
        if let Some(gid) = gid {
            self.table.entry_mut(key).gid = gid;
        }
        Ok(())
    }

    /// `KEYCTL_SETPERM`.
    pub fn set_permissions(&mut self, id: i32, perm: u32) -> Result<(), Errno> {
        if perm & !(KEY_POS_ALL | KEY_USR_ALL | KEY_GRP_ALL | KEY_OTH_ALL) != 0 {
            return Err(Errno::EINVAL);
        }
        let key = self.lookup(id, Use::of(SETATTR).creating().partial())?.key;
        let entry = self.table.entry_mut(key);
        if entry.uid != self.who.fsuid && !self.who.has(capability::SYS_ADMIN) {
            return Err(Errno::EACCES);
        }
        entry.perm = perm;
        Ok(())
    }

    /// `KEYCTL_DESCRIBE`: type, owner, group, permissions and description, NUL-terminated.
    pub fn describe(&mut self, id: i32) -> Result<Vec<u8>, Errno> {
        let key = self.lookup(id, Use::of(VIEW).partial())?.key;
        let entry = self.table.entry(key);
        let head = format!("{};{};{};{:08x};", entry.kind.name(), entry.uid, entry.gid, entry.perm);
        Ok([head.as_bytes(), &entry.description, b"\0"].concat())
    }

    /// `KEYCTL_GET_SECURITY`: checks the view right; keys have no security labels.
    pub fn check_view(&mut self, id: i32) -> Result<(), Errno> {
        self.lookup(id, Use::of(VIEW).partial()).map(|_| ())
    }

    /// `KEYCTL_CLEAR`.
    pub fn clear(&mut self, ring: i32) -> Result<(), Errno> {
        let ring = self.lookup(ring, RING)?.key;
        if self.table.entry(ring).kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        self.table.clear(ring);
        Ok(())
    }

    /// `KEYCTL_LINK`.
    pub fn link(&mut self, id: i32, ring: i32) -> Result<(), Errno> {
        let ring = self.lookup(ring, RING)?.key;
        let key = self.lookup(id, Use::of(LINK).creating())?.key;
        self.table.link(ring, key)
    }

    /// `KEYCTL_UNLINK`.
    pub fn unlink(&mut self, id: i32, ring: i32) -> Result<(), Errno> {
        let ring = self.lookup(ring, Use::of(WRITE))?.key;
        let key = self.find(id, false)?.key;
        let at = self.table.entry(key).index();
        self.table.unlink(ring, &at)
    }

    /// `KEYCTL_MOVE`; with `exclusive`, it does not replace a key.
    pub fn relink(&mut self, id: i32, from: i32, to: i32, exclusive: bool) -> Result<(), Errno> {
        let key = self.lookup(id, Use::of(LINK).creating())?.key;
        let from = self.lookup(from, Use::of(WRITE))?.key;
        let to = self.lookup(to, RING)?.key;
        if from == to {
            return Ok(());
        }
        let at = self.table.entry(key).index();
        if self.table.entry(from).kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        if !self.table.entry(from).links.contains_key(&at) {
            return Err(Errno::ENOENT);
        }
        self.table.check_link(to, &at)?;
        if exclusive && self.table.entry(to).links.contains_key(&at) {
            return Err(Errno::EEXIST);
        }
        // The key replaced in `to` may hold the last reference to `from`.
        self.table.hold(from);
        let moved = self.table.link(to, key).and_then(|()| self.table.unlink(from, &at));
        self.table.release(from);
        moved
    }

    /// `KEYCTL_SEARCH` below one keyring. The key found is linked to `ring` unless that is 0.
    pub fn search(&mut self, from: i32, kind: &[u8], description: Vec<u8>, ring: i32) -> Result<i32, Errno> {
        let from = self.lookup(from, Use::of(SEARCH))?;
        let ring = if ring == 0 { None } else { Some(self.lookup(ring, RING)?.key) };
        let at = (KeyType::named(kind).ok_or(Errno::ENOKEY)?, description);
        let found = self.table.search(from, Search::usable(&at, self.who, self.now));
        let found = found.map_err(|errno| if errno == Errno::EAGAIN { Errno::ENOKEY } else { errno })?;
        if let Some(ring) = ring {
            self.table.check_right(found, self.who, LINK)?;
            self.table.link(ring, found.key)?;
        }
        Ok(found.key)
    }

    /// `KEYCTL_READ`: the payload, or the serial numbers in a keyring. `room` is the size of the caller's
    /// buffer.
    pub fn read(&mut self, id: i32, room: u64) -> Result<Vec<u8>, Errno> {
        let found = self.find(id, false).map_err(|_| Errno::ENOKEY)?;
        self.table.entry(found.key).state?;
        // A possessor may read a key that it can find by a search.
        match self.table.check_right(found, self.who, READ) {
            Err(_) if found.possessed => {}
            right => right?,
        }
        let entry = self.table.entry(found.key);
        if entry.kind == KeyType::Logon {
            return Err(Errno::EOPNOTSUPP);
        }
        entry.validate(self.now)?;
        match entry.kind {
            KeyType::Keyring if room <= READ_AT_ONCE && !room.is_multiple_of(4) => Err(Errno::EINVAL),
            KeyType::Keyring => Ok(entry.links.values().flat_map(|key| key.to_le_bytes()).collect()),
            _ => Ok(entry.payload.clone()),
        }
    }

    /// `KEYCTL_SET_REQKEY_KEYRING`; returns the former setting.
    pub fn set_default_ring(&mut self, default: i32) -> Result<i32, Errno> {
        let former = self.rings.default;
        match default {
            KEY_REQKEY_DEFL_NO_CHANGE => return Ok(former),
            KEY_REQKEY_DEFL_THREAD_KEYRING => {
                self.thread_ring();
            }
            KEY_REQKEY_DEFL_PROCESS_KEYRING => {
                self.process_ring();
            }
            KEY_REQKEY_DEFL_DEFAULT
            | KEY_REQKEY_DEFL_SESSION_KEYRING
            | KEY_REQKEY_DEFL_USER_KEYRING
            | KEY_REQKEY_DEFL_USER_SESSION_KEYRING
            | KEY_REQKEY_DEFL_REQUESTOR_KEYRING => {}
            _ => return Err(Errno::EINVAL),
        }
        self.rings.default = default;
        Ok(former)
    }

    /// Session keyring that `KEYCTL_SESSION_TO_PARENT` passes on.
    pub fn session_to_give(&mut self) -> Result<i32, Errno> {
        Ok(self.lookup(KEY_SPEC_SESSION_KEYRING, Use::of(LINK))?.key)
    }

    /// `KEYCTL_GET_PERSISTENT`: links a user's keyring that outlives sessions to `ring`; `None` stands for
    /// the caller's user.
    pub fn persistent(&mut self, uid: Option<u32>, ring: i32) -> Result<i32, Errno> {
        let uid = uid.unwrap_or(self.who.ruid);
        if uid != self.who.ruid && uid != self.who.euid && !self.who.has(capability::SETUID) {
            return Err(Errno::EPERM);
        }
        let ring = self.lookup(ring, RING)?.key;
        if self.table.entry(ring).kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        let key = match self.table.users.get(&uid).and_then(|rings| rings.persistent) {
            Some(key) => key,
            None => {
                let perm = KEY_POS_ALL & !KEY_POS_SETATTR | KEY_USR_VIEW | KEY_USR_READ;
                let name = format!("_persistent.{uid}");
                let key = self.table.make_ring(name.as_bytes(), (uid, NO_GROUP), perm, Charge::Free)?;
                self.table.users.entry(uid).or_default().persistent = Some(key);
                key
            }
        };
        self.table.check_right(Found { key, possessed: true }, self.who, LINK)?;
        self.table.link(ring, key)?;
        self.expire(key, self.table.limits[KeyLimit::PersistentExpiry as usize]);
        Ok(key)
    }

    /// `KEYCTL_RESTRICT_KEYRING`: rejects further links. A restriction by key type is unsupported, since no
    /// key type here defines one.
    pub fn restrict(&mut self, id: i32, kind: Option<&[u8]>) -> Result<(), Errno> {
        let key = self.lookup(id, Use::of(SETATTR))?.key;
        let entry = self.table.entry_mut(key);
        if entry.kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        match kind.map(KeyType::named) {
            Some(None) => return Err(Errno::ENOKEY),
            Some(Some(_)) => return Err(Errno::ENOENT),
            None if entry.restricted => return Err(Errno::EEXIST),
            None => entry.restricted = true,
        }
        Ok(())
    }
}
