//! Keys and keyrings, `keyrings(7)`: secrets that the kernel keeps for programs.
//!
//! [`KeyTable`] is all keys of a host. A key lives as long as a keyring links to it, a task has it for a keyring, or it is one
//! of a user's. Each thread has [`TaskKeyrings`], from which every search starts: what is found from there is *possessed*, which gives
//! rights of its own (`search.rs`). The operations of `keyctl(2)` are methods of [`KeyCaller`] (`calls.rs`), which is the table as
//! one thread sees it.
//!
//! No program is started to make a key that `request_key(2)` does not find, as on a machine without `/sbin/request-key`: the
//! key is there for a minute as one that is known not to exist.

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

/// Bytes of quota that a link in a keyring costs.
const LINK_BYTES: u64 = 4;
/// Seconds for which a key that could not be made is known not to exist.
const NEGATIVE_SECONDS: i64 = 60;
/// The group of keyrings that belong to users: none.
const NO_GROUP: u32 = 65_534;
/// The least number of a key.
const FIRST_SERIAL: i32 = 3;

/// Type of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyType {
    /// Links to other keys.
    Keyring,
    /// A payload of programs.
    User,
    /// A payload that programs can write and not read.
    Logon,
    /// A payload of up to 1 MiB.
    BigKey,
}

impl KeyType {
    /// The type of this name.
    fn named(name: &[u8]) -> Option<KeyType> {
        let all = [KeyType::Keyring, KeyType::User, KeyType::Logon, KeyType::BigKey];
        all.into_iter().find(|kind| kind.name().as_bytes() == name)
    }
    /// Its name.
    fn name(self) -> &'static str {
        match self {
            KeyType::Keyring => "keyring",
            KeyType::User => "user",
            KeyType::Logon => "logon",
            KeyType::BigKey => "big_key",
        }
    }
    /// `EINVAL` for a payload that such a key cannot have.
    fn check(self, payload: &[u8]) -> Result<(), Errno> {
        let valid = match self {
            KeyType::Keyring => payload.is_empty(),
            KeyType::User | KeyType::Logon => (1..=32_767).contains(&payload.len()),
            KeyType::BigKey => !payload.is_empty(),
        };
        if valid { Ok(()) } else { Err(Errno::EINVAL) }
    }
    /// Bytes of quota that a payload of this length costs.
    fn charge(self, len: usize) -> u64 {
        match self {
            KeyType::BigKey => 16,
            _ => len as u64,
        }
    }
    /// Permissions of a new key whose maker has said nothing.
    fn default_permissions(self) -> u32 {
        let all = KEY_POS_ALL | KEY_USR_VIEW;
        if self == KeyType::Logon { all & !KEY_POS_READ } else { all }
    }
}

/// The place of a key in a keyring: there is at most one of a type and description.
type Index = (KeyType, Vec<u8>);

/// One key.
#[derive(Debug)]
struct Entry {
    kind: KeyType,
    description: Vec<u8>,
    uid: u32,
    gid: u32,
    perm: u32,
    /// An error for a key that is known not to exist, which everybody gets who looks for it.
    state: Result<(), Errno>,
    revoked_at: Option<i64>,
    invalidated: bool,
    expiry: Option<i64>,
    in_quota: bool,
    /// The user whose quota it counts against.
    payer: u32,
    /// Bytes of quota, of its name and of what it holds.
    name_bytes: u64,
    held_bytes: u64,
    /// Links to it, tasks that have it for a keyring, and its user.
    users: u32,
    /// True for a keyring of a user.
    of_user: bool,
    /// True for a keyring that takes no further links.
    restricted: bool,
    payload: Vec<u8>,
    links: Map<Index, i32>,
    /// Its turn among the keys made.
    turn: u64,
}

impl Entry {
    fn index(&self) -> Index {
        (self.kind, self.description.clone())
    }
    /// `ENOKEY`, `EKEYREVOKED` or `EKEYEXPIRED` for a key that is not to be used any more.
    fn validate(&self, now: i64) -> Result<(), Errno> {
        match self {
            _ if self.invalidated => Err(Errno::ENOKEY),
            _ if self.revoked_at.is_some() => Err(Errno::EKEYREVOKED),
            _ if self.expiry.is_some_and(|expiry| now >= expiry) => Err(Errno::EKEYEXPIRED),
            _ => Ok(()),
        }
    }
    /// The time at which it is collected, `delay` seconds after it was revoked or expired.
    fn collected_at(&self, delay: i64) -> Option<i64> {
        self.revoked_at.into_iter().chain(self.expiry).min().map(|dead| dead.saturating_add(delay))
    }
}

/// The quota that a user has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Quota {
    keys: u64,
    bytes: u64,
}

/// The effect of a new key on its user's quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Charge {
    /// It counts, and is refused beyond it.
    Within,
    /// It counts, and is made all the same.
    Beyond,
    /// It does not count.
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

/// The keyrings of one user, which stay once they have been asked for.
#[derive(Debug, Default)]
struct UserKeyrings {
    /// `_uid` and `_uid_ses`.
    own: Option<(i32, i32)>,
    persistent: Option<i32>,
}

/// The keyrings of a thread.
#[derive(Debug, Default)]
pub struct TaskKeyrings {
    thread: Option<i32>,
    process: Option<i32>,
    session: Option<i32>,
    /// `KEYCTL_SET_REQKEY_KEYRING`.
    default: i32,
}

/// All keys of a host.
#[derive(Debug)]
pub struct KeyTable {
    /// Draws the keys' numbers.
    stream: Stream,
    keys: Map<i32, Entry>,
    quotas: Map<u32, Quota>,
    users: Map<u32, UserKeyrings>,
    limits: [i64; 6],
    /// No key has to be collected before.
    next_collection: i64,
    made: u64,
}

impl KeyTable {
    /// A table without keys. The stream gives them their numbers.
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

    /// All keys go, and settings are what they were: the host has lost its memory.
    pub fn reset(&mut self) {
        *self = KeyTable::new(self.stream.clone());
    }

    /// A setting, to be read or changed.
    pub fn limit(&mut self, which: KeyLimit) -> &mut i64 {
        self.next_collection = i64::MIN;
        &mut self.limits[which as usize]
    }

    /// The keyrings of a thread that a thread with `parent` makes, in the same process or in a new one.
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

    /// A thread executes another program: its own and its process's keyrings go.
    pub fn executed(&mut self, rings: &mut TaskKeyrings) {
        for ring in rings.thread.take().into_iter().chain(rings.process.take()) {
            self.release(ring);
        }
    }

    /// A thread has ended.
    pub fn ended(&mut self, mut rings: TaskKeyrings) {
        self.executed(&mut rings);
        if let Some(session) = rings.session {
            self.release(session);
        }
    }

    /// A thread uses files as another user or group: its keyring is that one's now.
    pub fn ids_changed(&mut self, rings: &TaskKeyrings, who: &Credentials) {
        if let Some(entry) = rings.thread.and_then(|ring| self.keys.get_mut(&ring)) {
            (entry.uid, entry.gid) = (who.fsuid, who.fsgid);
        }
    }

    /// Gives the parent of a process the process's session keyring: `KEYCTL_SESSION_TO_PARENT`. `EPERM` if they do not act as
    /// the same user and group, or a keyring is another's.
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

    /// Makes a key that nobody uses yet: whoever asks for it uses it or [discards](Self::discard) it.
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

    /// Makes a keyring that its caller uses.
    fn make_ring(&mut self, name: &[u8], owner: (u32, u32), perm: u32, charge: Charge) -> Result<i32, Errno> {
        let ring = self.make((KeyType::Keyring, name.to_vec()), owner, perm, charge)?;
        self.hold(ring);
        Ok(ring)
    }

    /// Makes a keyring for a thread, whatever its quota.
    fn make_task_ring(&mut self, name: &[u8], perm: u32, who: &Credentials) -> i32 {
        let perm = perm | KEY_POS_ALL | KEY_USR_VIEW;
        self.make_ring(name, (who.ruid, who.rgid), perm, Charge::Beyond).expect("no quota is asked")
    }

    /// The keyring and the session keyring of a user, made if they are not there.
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

    /// Lets a key go, and with its last use all that it links to.
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

    /// Takes back a key that nobody uses, and that links to nothing.
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

    /// The most keys and bytes that a user may have.
    fn quota_of(&self, uid: u32) -> (u64, u64) {
        let at = if uid == 0 { KeyLimit::RootMaxKeys as usize } else { KeyLimit::MaxKeys as usize };
        let limit = |at: usize| u64::try_from(self.limits[at]).unwrap_or(0);
        (limit(at), limit(at + 1))
    }

    /// `EDQUOT` unless a user may have so many more keys and bytes.
    fn check_quota(&self, uid: u32, keys: u64, bytes: u64) -> Result<(), Errno> {
        let (used, (max_keys, max_bytes)) =
            (self.quotas.get(&uid).copied().unwrap_or_default(), self.quota_of(uid));
        let beyond = keys > 0 && used.keys + keys > max_keys || bytes > 0 && used.bytes + bytes > max_bytes;
        if beyond { Err(Errno::EDQUOT) } else { Ok(()) }
    }

    /// Charges a key's user for so many bytes instead of those that it holds. `EDQUOT`.
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

    /// Gives a key another owner, who has to have room for it.
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

    /// Checks that a keyring can link to a key of this place: `ENOTDIR`, `EDQUOT`, `EPERM`.
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

    /// Links a key to a keyring, where it takes the place of another of its type and description.
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

    /// Removes what a keyring has in a place: `ENOENT` if there is nothing.
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

    /// Empties a key or keyring.
    fn clear(&mut self, serial: i32) {
        let entry = self.entry_mut(serial);
        entry.payload.clear();
        let links = std::mem::take(&mut entry.links);
        self.charge(serial, 0).expect("less needs no quota");
        links.into_values().for_each(|key| self.release(key));
    }

    /// Removes the links to a key from all keyrings.
    fn unlink_everywhere(&mut self, serial: i32) {
        let at = self.entry(serial).index();
        let holds = |entry: &Entry| entry.links.get(&at) == Some(&serial);
        let rings: Vec<i32> =
            self.keys.iter().filter(|&(_, entry)| holds(entry)).map(|(ring, _)| *ring).collect();
        for ring in rings {
            // A ring may have gone with one before it.
            if self.keys.get(&ring).is_some_and(holds) {
                self.unlink(ring, &at).expect("it is linked there");
            }
        }
    }

    /// Removes the keys whose time has passed, once it has.
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

    /// A key will be collected at some time: see [`collect`](Self::collect).
    fn plan_collection(&mut self, serial: i32) {
        let delay = self.limits[KeyLimit::GcDelay as usize];
        if let Some(at) = self.entry(serial).collected_at(delay) {
            self.next_collection = self.next_collection.min(at);
        }
    }
}
