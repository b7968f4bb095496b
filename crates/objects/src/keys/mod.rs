//! Kernel key management, `keyrings(7)`: keys and keyrings that the kernel holds for programs.
//!
//! [`KeyTable`] holds all keys of a host. A key is freed when no keyring, task or user refers to it. Each
//! thread has [`TaskKeyrings`], where every search starts: a key found from there is *possessed*, which
//! grants separate rights (`search.rs`). The operations of `keyctl(2)` are methods of [`KeyCaller`]
//! (`calls.rs`), the table as seen by one thread.
//!
//! There is no `/sbin/request-key`: if `request_key(2)` finds no key, a negative key is created that lasts
//! one minute.

mod calls;
mod listing;
mod search;
#[cfg(test)]
mod tests;

use crate::credentials::Credentials;
use belljar_base::{Map, Stream};
use belljar_linux_abi::Errno;
use belljar_linux_abi::keys::*;

pub use calls::KeyCaller;

/// Quota in bytes charged for a link.
const LINK_BYTES: u64 = 4;
/// Lifetime of a negative key in seconds.
const NEGATIVE_SECONDS: i64 = 60;
/// Group id of user keyrings, which belong to no group.
const NO_GROUP: u32 = 65_534;
/// Lowest serial number.
const FIRST_SERIAL: i32 = 3;

/// Key type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyType {
    /// Keyring: links to other keys.
    Keyring,
    /// Payload that user space can read and write.
    User,
    /// Payload that user space can write but not read.
    Logon,
    /// Payload of up to 1 MiB.
    BigKey,
}

impl KeyType {
    /// Key type by name.
    fn named(name: &[u8]) -> Option<KeyType> {
        let all = [KeyType::Keyring, KeyType::User, KeyType::Logon, KeyType::BigKey];
        all.into_iter().find(|kind| kind.name().as_bytes() == name)
    }
    /// Name of the type.
    fn name(self) -> &'static str {
        match self {
            KeyType::Keyring => "keyring",
            KeyType::User => "user",
            KeyType::Logon => "logon",
            KeyType::BigKey => "big_key",
        }
    }
    /// Checks a payload; `EINVAL` if the type does not accept it.
    fn check(self, payload: &[u8]) -> Result<(), Errno> {
        let valid = match self {
            KeyType::Keyring => payload.is_empty(),
            KeyType::User | KeyType::Logon => (1..=32_767).contains(&payload.len()),
            KeyType::BigKey => !payload.is_empty(),
        };
        if valid { Ok(()) } else { Err(Errno::EINVAL) }
    }
    /// Quota in bytes charged for a payload of `len` bytes.
    fn charge(self, len: usize) -> u64 {
        match self {
            KeyType::BigKey => 16,
            _ => len as u64,
        }
    }
    /// Default permissions of a new key.
    fn default_permissions(self) -> u32 {
        let all = KEY_POS_ALL | KEY_USR_VIEW;
        if self == KeyType::Logon { all & !KEY_POS_READ } else { all }
    }
}

/// Index of a key in a keyring, which links at most one key of a type and description.
type Index = (KeyType, Vec<u8>);

/// One key.
#[derive(Debug)]
struct Entry {
    kind: KeyType,
    description: Vec<u8>,
    uid: u32,
    gid: u32,
    perm: u32,
    /// Error of a negative key, returned by every lookup.
    state: Result<(), Errno>,
    revoked_at: Option<i64>,
    invalidated: bool,
    expiry: Option<i64>,
    in_quota: bool,
    /// User whose quota is charged.
    payer: u32,
    /// Bytes charged for the description and for the payload or links.
    name_bytes: u64,
    held_bytes: u64,
    /// Reference count: links, tasks that use it as a keyring, and its user.
    users: u32,
    /// True for a user keyring.
    of_user: bool,
    /// True for a keyring that rejects further links.
    restricted: bool,
    payload: Vec<u8>,
    links: Map<Index, i32>,
    /// Creation sequence number.
    turn: u64,
}

impl Entry {
    fn index(&self) -> Index {
        (self.kind, self.description.clone())
    }
    /// Checks that the key is usable: `ENOKEY`, `EKEYREVOKED` or `EKEYEXPIRED`.
    fn validate(&self, now: i64) -> Result<(), Errno> {
        match self {
            _ if self.invalidated => Err(Errno::ENOKEY),
            _ if self.revoked_at.is_some() => Err(Errno::EKEYREVOKED),
            _ if self.expiry.is_some_and(|expiry| now >= expiry) => Err(Errno::EKEYEXPIRED),
            _ => Ok(()),
        }
    }
    /// Time of garbage collection, `delay` seconds after revocation or expiry.
    fn collected_at(&self, delay: i64) -> Option<i64> {
        self.revoked_at.into_iter().chain(self.expiry).min().map(|dead| dead.saturating_add(delay))
    }
}

/// Quota usage of a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Quota {
    keys: u64,
    bytes: u64,
}

/// Quota accounting of a new key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    /// Charged; refused beyond the quota.
    Within,
    /// Charged, and created even beyond the quota.
    Beyond,
    /// Not charged.
    Free,
}

/// Files of `/proc/sys/kernel/keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum KeyLimit {
    MaxKeys,
    MaxBytes,
    RootMaxKeys,
    RootMaxBytes,
    GcDelay,
    PersistentExpiry,
}

/// Keyrings of a user, created on first use and then kept.
#[derive(Debug, Default)]
struct UserKeyrings {
    /// `_uid` and `_uid_ses`.
    own: Option<(i32, i32)>,
    persistent: Option<i32>,
}

/// Keyrings of a thread.
#[derive(Debug, Default)]
pub struct TaskKeyrings {
    thread: Option<i32>,
    process: Option<i32>,
    session: Option<i32>,
    /// `KEYCTL_SET_REQKEY_KEYRING`.
    default: i32,
}

/// Key table of a host.
#[derive(Debug)]
pub struct KeyTable {
    /// Random stream of the serial numbers.
    stream: Stream,
    keys: Map<i32, Entry>,
    quotas: Map<u32, Quota>,
    users: Map<u32, UserKeyrings>,
    limits: [i64; 6],
    /// Earliest time at which a key is due for collection.
    next_collection: i64,
    made: u64,
}

impl KeyTable {
    /// Creates an empty table; the stream draws the serial numbers.
    pub fn new(stream: Stream) -> KeyTable {
        KeyTable {
            stream,
            keys: Map::new(),
            quotas: Map::new(),
            users: Map::new(),
            limits: [200, 20_000, 1_000_000, 25_000_000, 300, 259_200],
            next_collection: i64::MAX,
            made: 0,
        }
    }

    /// Removes all keys and restores the default settings, for a restart of the host.
    pub fn reset(&mut self) {
        *self = KeyTable::new(self.stream.clone());
    }

    /// Setting for reading or writing; schedules a collection, since `gc_delay` may change.
    pub fn limit(&mut self, which: KeyLimit) -> &mut i64 {
        self.next_collection = i64::MIN;
        &mut self.limits[which as usize]
    }

    /// Keyrings of a new thread, child of `parent`, in the same process or a new one.
    pub fn inherit(&mut self, parent: &TaskKeyrings, same_process: bool, who: &Credentials) -> TaskKeyrings {
        let own_ring = parent.thread.is_some() && same_process;
        let child = TaskKeyrings {
            thread: own_ring.then(|| self.make_task_ring(b"_tid", 0, who)),
            process: parent.process.filter(|_| same_process),
            session: parent.session,
            default: parent.default,
        };
        for ring in child.process.into_iter().chain(child.session) {
            self.hold(ring);
        }
        child
    }

    /// Drops the thread and process keyrings at `execve(2)`.
    pub fn executed(&mut self, rings: &mut TaskKeyrings) {
        for ring in rings.thread.take().into_iter().chain(rings.process.take()) {
            self.release(ring);
        }
    }

    /// Drops the keyrings of a thread that has exited.
    pub fn ended(&mut self, mut rings: TaskKeyrings) {
        self.executed(&mut rings);
        if let Some(session) = rings.session {
            self.release(session);
        }
    }

    /// Changes the owner of the thread keyring after a change of the file-system ids.
    pub fn ids_changed(&mut self, rings: &TaskKeyrings, who: &Credentials) {
        if let Some(entry) = rings.thread.and_then(|ring| self.keys.get_mut(&ring)) {
            (entry.uid, entry.gid) = (who.fsuid, who.fsgid);
        }
    }

    /// `KEYCTL_SESSION_TO_PARENT`: installs the session keyring of a process in its parent. `EPERM` if their
    /// ids differ or a keyring has another owner.
    pub fn give_session(
        &mut self,
        session: i32,
        parent: &mut TaskKeyrings,
        (who, other): (&Credentials, &Credentials),
    ) -> Result<(), Errno> {
        if parent.session == Some(session) {
            return Ok(());
        }
        let same = other.uids() == [who.euid; 3] && [other.rgid, other.egid, other.sgid] == [who.egid; 3];
        if !same {
            return Err(Errno::EPERM);
        }
        let rings = [Some(session), parent.session].into_iter().flatten();
        if rings.filter_map(|ring| self.keys.get(&ring)).any(|ring| ring.uid != who.euid) {
            return Err(Errno::EPERM);
        }
        self.hold(session);
        if let Some(former) = parent.session.replace(session) {
            self.release(former);
        }
        Ok(())
    }

    fn entry(&self, serial: i32) -> &Entry {
        &self.keys[&serial]
    }
    fn entry_mut(&mut self, serial: i32) -> &mut Entry {
        self.keys.get_mut(&serial).expect("a key that is there")
    }

    /// Creates a key without references. The caller takes one or [discards](Self::discard) the key.
    fn make(
        &mut self,
        (kind, description): Index,
        (uid, gid): (u32, u32),
        perm: u32,
        charge: Charge,
    ) -> Result<i32, Errno> {
        let colon = description.iter().position(|byte| *byte == b':');
        if description.is_empty() || kind == KeyType::Logon && matches!(colon, None | Some(0)) {
            return Err(Errno::EINVAL);
        }
        let name_bytes = description.len() as u64 + 1;
        if charge == Charge::Within {
            self.check_quota(uid, 1, name_bytes)?;
        }
        if charge != Charge::Free {
            let quota = self.quotas.entry(uid).or_default();
            (quota.keys, quota.bytes) = (quota.keys + 1, quota.bytes + name_bytes);
        }
        let mut serial = ((self.stream.next_u32() >> 1) as i32).max(FIRST_SERIAL);
        while self.keys.contains_key(&serial) {
            serial = serial.checked_add(1).unwrap_or(FIRST_SERIAL);
        }
        self.made += 1;
        let entry = Entry {
            kind,
            description,
            uid,
            gid,
            perm,
            state: Ok(()),
            revoked_at: None,
            invalidated: false,
            expiry: None,
            in_quota: charge != Charge::Free,
            payer: uid,
            name_bytes,
            held_bytes: 0,
            users: 0,
            of_user: false,
            restricted: false,
            payload: Vec::new(),
            links: Map::new(),
            turn: self.made,
        };
        self.keys.insert(serial, entry);
        Ok(serial)
    }

    /// Creates a keyring with a reference for the caller.
    fn make_ring(&mut self, name: &[u8], owner: (u32, u32), perm: u32, charge: Charge) -> Result<i32, Errno> {
        let ring = self.make((KeyType::Keyring, name.to_vec()), owner, perm, charge)?;
        self.hold(ring);
        Ok(ring)
    }

    /// Creates a keyring for a thread, even beyond its quota.
    fn make_task_ring(&mut self, name: &[u8], perm: u32, who: &Credentials) -> i32 {
        let perm = perm | KEY_POS_ALL | KEY_USR_VIEW;
        self.make_ring(name, (who.ruid, who.rgid), perm, Charge::Beyond).expect("no quota is asked")
    }

    /// User keyring and user session keyring of `uid`, created if missing.
    fn user_rings(&mut self, uid: u32) -> Result<(i32, i32), Errno> {
        if let Some(rings) = self.existing_user_rings(uid) {
            return Ok(rings);
        }
        let perm = KEY_POS_ALL & !KEY_POS_SETATTR | KEY_USR_ALL;
        let owner = (uid, NO_GROUP);
        let ring = self.make_ring(format!("_uid.{uid}").as_bytes(), owner, perm, Charge::Within)?;
        let session = self.make_ring(format!("_uid_ses.{uid}").as_bytes(), owner, perm, Charge::Within);
        let session = session.and_then(|session| match self.link(session, ring) {
            Ok(()) => Ok(session),
            Err(errno) => {
                self.release(session);
                Err(errno)
            }
        });
        let session = match session {
            Ok(session) => session,
            Err(errno) => {
                self.release(ring);
                return Err(errno);
            }
        };
        for made in [ring, session] {
            self.entry_mut(made).of_user = true;
        }
        self.users.entry(uid).or_default().own = Some((ring, session));
        Ok((ring, session))
    }

    fn existing_user_rings(&self, uid: u32) -> Option<(i32, i32)> {
        self.users.get(&uid).and_then(|rings| rings.own)
    }

    fn hold(&mut self, serial: i32) {
        self.entry_mut(serial).users += 1;
    }

    /// Drops a reference; with the last one, the key is freed and its links are dropped.
    fn release(&mut self, serial: i32) {
        let mut waiting = vec![serial];
        while let Some(serial) = waiting.pop() {
            let entry = self.entry_mut(serial);
            entry.users -= 1;
            if entry.users == 0 {
                waiting.extend(entry.links.values());
                self.forget(serial);
            }
        }
    }

    /// Frees a key without references or links.
    fn discard(&mut self, serial: i32) {
        if self.entry(serial).users == 0 {
            self.forget(serial);
        }
    }

    fn forget(&mut self, serial: i32) {
        let Some(gone) = self.keys.remove(&serial) else { return };
        if gone.in_quota {
            self.uncharge(gone.payer, 1, gone.name_bytes + gone.held_bytes);
        }
    }

    fn uncharge(&mut self, uid: u32, keys: u64, bytes: u64) {
        if let Some(quota) = self.quotas.get_mut(&uid) {
            (quota.keys, quota.bytes) = (quota.keys - keys, quota.bytes - bytes);
            if *quota == Quota::default() {
                self.quotas.remove(&uid);
            }
        }
    }

    /// Limits of a user's keys and bytes.
    fn quota_of(&self, uid: u32) -> (u64, u64) {
        let at = if uid == 0 { KeyLimit::RootMaxKeys as usize } else { KeyLimit::MaxKeys as usize };
        let limit = |at: usize| u64::try_from(self.limits[at]).unwrap_or(0);
        (limit(at), limit(at + 1))
    }

    /// Checks that a user's quota has room for more keys and bytes: `EDQUOT`.
    fn check_quota(&self, uid: u32, keys: u64, bytes: u64) -> Result<(), Errno> {
        let (used, (max_keys, max_bytes)) =
            (self.quotas.get(&uid).copied().unwrap_or_default(), self.quota_of(uid));
        let beyond = keys > 0 && used.keys + keys > max_keys || bytes > 0 && used.bytes + bytes > max_bytes;
        if beyond { Err(Errno::EDQUOT) } else { Ok(()) }
    }

    /// Changes the bytes charged for a key's content to `bytes`. `EDQUOT`.
    fn charge(&mut self, serial: i32, bytes: u64) -> Result<(), Errno> {
        let entry = self.entry(serial);
        let (payer, held) = (entry.payer, entry.held_bytes);
        if entry.in_quota {
            match bytes.checked_sub(held) {
                Some(more) => {
                    self.check_quota(payer, 0, more)?;
                    self.quotas.entry(payer).or_default().bytes += more;
                }
                None => self.uncharge(payer, 0, held - bytes),
            }
        }
        self.entry_mut(serial).held_bytes = bytes;
        Ok(())
    }

    /// Changes a key's owner, whose quota must have room for it.
    fn change_owner(&mut self, serial: i32, uid: u32) -> Result<(), Errno> {
        let entry = self.entry(serial);
        let (former, bytes) = (entry.payer, entry.name_bytes + entry.held_bytes);
        if entry.in_quota {
            self.check_quota(uid, 1, bytes)?;
            self.uncharge(former, 1, bytes);
            let quota = self.quotas.entry(uid).or_default();
            (quota.keys, quota.bytes) = (quota.keys + 1, quota.bytes + bytes);
        }
        let entry = self.entry_mut(serial);
        (entry.uid, entry.payer) = (uid, uid);
        Ok(())
    }

    /// Checks that a keyring accepts a link at `at`: `ENOTDIR`, `EDQUOT`, `EPERM`.
    fn check_link(&self, ring: i32, at: &Index) -> Result<(), Errno> {
        let entry = self.entry(ring);
        if entry.kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        if entry.in_quota && !entry.links.contains_key(at) {
            self.check_quota(entry.payer, 0, LINK_BYTES)?;
        }
        if entry.restricted { Err(Errno::EPERM) } else { Ok(()) }
    }

    /// Links a key to a keyring, replacing a key of the same type and description.
    fn link(&mut self, ring: i32, key: i32) -> Result<(), Errno> {
        let at = self.entry(key).index();
        self.check_link(ring, &at)?;
        if self.entry(key).kind == KeyType::Keyring {
            self.check_cycle(ring, key)?;
        }
        self.hold(key);
        match self.entry_mut(ring).links.insert(at, key) {
            Some(former) => self.release(former),
            None => self.charge(ring, self.entry(ring).held_bytes + LINK_BYTES)?,
        }
        Ok(())
    }

    /// Removes the link at `at` from a keyring; `ENOENT` if there is none.
    fn unlink(&mut self, ring: i32, at: &Index) -> Result<(), Errno> {
        let entry = self.entry_mut(ring);
        if entry.kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        let former = entry.links.remove(at).ok_or(Errno::ENOENT)?;
        self.charge(ring, self.entry(ring).held_bytes - LINK_BYTES)?;
        self.release(former);
        Ok(())
    }

    /// Clears the payload and the links of a key.
    fn clear(&mut self, serial: i32) {
        let entry = self.entry_mut(serial);
        entry.payload.clear();
        let links = std::mem::take(&mut entry.links);
        self.charge(serial, 0).expect("less needs no quota");
        links.into_values().for_each(|key| self.release(key));
    }

    /// Removes all links to a key.
    fn unlink_everywhere(&mut self, serial: i32) {
        let at = self.entry(serial).index();
        let holds = |entry: &Entry| entry.links.get(&at) == Some(&serial);
        let rings: Vec<i32> =
            self.keys.iter().filter(|&(_, entry)| holds(entry)).map(|(ring, _)| *ring).collect();
        for ring in rings {
            // An earlier removal may have freed the keyring.
            if self.keys.get(&ring).is_some_and(holds) {
                self.unlink(ring, &at).expect("it is linked there");
            }
        }
    }

    /// Collects the keys that are due.
    fn collect(&mut self, now: i64) {
        if now < self.next_collection {
            return;
        }
        let delay = self.limits[KeyLimit::GcDelay as usize];
        let due = |entry: &Entry| entry.collected_at(delay);
        let dead = |entry: &Entry| due(entry).is_some_and(|at| at <= now);
        let gone: Vec<i32> =
            self.keys.iter().filter(|&(_, entry)| dead(entry)).map(|(serial, _)| *serial).collect();
        for serial in gone {
            if self.keys.contains_key(&serial) {
                self.unlink_everywhere(serial);
            }
        }
        let forgotten: Vec<i32> = self.users.values().filter_map(|rings| rings.persistent).collect();
        for ring in forgotten.into_iter().filter(|ring| dead(self.entry(*ring))).collect::<Vec<_>>() {
            self.users
                .values_mut()
                .filter(|rings| rings.persistent == Some(ring))
                .for_each(|rings| rings.persistent = None);
            self.release(ring);
        }
        let next = self.keys.values().filter_map(due).filter(|at| *at > now).min();
        self.next_collection = next.unwrap_or(i64::MAX);
    }

    /// Schedules the [collection](Self::collect) of a revoked or expiring key.
    fn plan_collection(&mut self, serial: i32) {
        let delay = self.limits[KeyLimit::GcDelay as usize];
        if let Some(at) = self.entry(serial).collected_at(delay) {
            self.next_collection = self.next_collection.min(at);
        }
    }
}
