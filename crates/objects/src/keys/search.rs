//! Rights to keys, and searches from a thread's keyrings.

use super::*;
use belljar_base::Set;

/// Rights that an operation needs, as bits of one permission byte.
pub(super) const VIEW: u32 = 0x01;
pub(super) const READ: u32 = 0x02;
pub(super) const WRITE: u32 = 0x04;
pub(super) const SEARCH: u32 = 0x08;
pub(super) const LINK: u32 = 0x10;
pub(super) const SETATTR: u32 = 0x20;

/// Maximum depth of a search below its first keyring.
const MAX_DEPTH: usize = 6;

/// Result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub key: i32,
    /// True if the search began in a keyring of the thread.
    pub possessed: bool,
}

/// Search for the key with one index.
pub(super) struct Search<'a> {
    at: &'a Index,
    /// Serial number that the key must have.
    only: Option<i32>,
    /// Credentials of the searcher. `None` for the kernel, which needs no rights and gets an error for
    /// keyrings nested too deeply.
    who: Option<&'a Credentials>,
    possessed: bool,
    /// True if unusable keys are skipped and determine the error.
    checks_state: bool,
    /// True if expired keys are skipped without an error.
    forgives_expired: bool,
    now: i64,
    /// Error if nothing is found.
    error: Errno,
    /// Keyrings searched, with their depths; several paths may lead to one keyring.
    seen: Set<(i32, usize)>,
}

impl<'a> Search<'a> {
    /// Search for a usable key.
    pub fn usable(at: &'a Index, who: &'a Credentials, now: i64) -> Search<'a> {
        Search {
            at,
            only: None,
            who: Some(who),
            possessed: true,
            checks_state: true,
            forgives_expired: false,
            now,
            error: Errno::EAGAIN,
            seen: Set::new(),
        }
    }
    /// Search of `request_key(2)`.
    pub fn forgiving_expired(self) -> Search<'a> {
        Search { forgives_expired: true, ..self }
    }
    /// Search for one key in any state.
    fn only(at: &'a Index, key: i32, who: Option<&'a Credentials>) -> Search<'a> {
        Search {
            at,
            only: Some(key),
            who,
            possessed: true,
            checks_state: false,
            forgives_expired: false,
            now: 0,
            error: Errno::EAGAIN,
            seen: Set::new(),
        }
    }
}

/// Outcome of a search below one keyring.
enum End {
    Found(i32),
    Failed(Errno),
}

impl KeyTable {
    /// Checks that the credentials grant a right to a key: `EACCES`.
    pub(super) fn check_right(&self, found: Found, who: &Credentials, right: u32) -> Result<(), Errno> {
        let entry = self.entry(found.key);
        let in_group = || who.fsgid == entry.gid || who.groups.binary_search(&entry.gid).is_ok();
        let shift = if entry.uid == who.fsuid {
            16
        } else if entry.gid != NO_GROUP && entry.perm & KEY_GRP_ALL != 0 && in_group() {
            8
        } else {
            0
        };
        let possessor = if found.possessed { entry.perm >> 24 } else { 0 };
        if (entry.perm >> shift | possessor) & right == right { Ok(()) } else { Err(Errno::EACCES) }
    }

    /// Compares one key with the search; `Ok(None)` if it is not the key sought.
    fn consider(&self, key: i32, search: &Search<'_>) -> Result<Option<i32>, Option<Errno>> {
        let entry = self.entry(key);
        if search.checks_state {
            match entry.validate(search.now) {
                Err(Errno::EKEYEXPIRED) if search.forgives_expired => return Err(None),
                Err(Errno::EKEYEXPIRED) => return Err(Some(Errno::EKEYEXPIRED)),
                Err(_) => return Err(Some(Errno::EKEYREVOKED)),
                Ok(()) => {}
            }
        }
        if search.only.is_some_and(|only| only != key) {
            return Ok(None);
        }
        if let Some(who) = search.who {
            let found = Found { key, possessed: search.possessed };
            self.check_right(found, who, SEARCH).map_err(Some)?;
        }
        if search.checks_state {
            entry.state.map_err(Some)?;
        }
        Ok(Some(key))
    }

    /// Searches a keyring and the keyrings below it.
    pub(super) fn search(&self, from: Found, mut search: Search<'_>) -> Result<Found, Errno> {
        if self.entry(from.key).kind != KeyType::Keyring {
            return Err(Errno::ENOTDIR);
        }
        if let Some(who) = search.who {
            self.check_right(from, who, SEARCH)?;
        }
        search.possessed = from.possessed;
        let found = |key| Ok(Found { key, possessed: from.possessed });
        // The first keyring itself may match.
        if self.entry(from.key).index() == *search.at {
            match self.consider(from.key, &search) {
                Ok(Some(key)) => return found(key),
                Ok(None) => {}
                Err(error) => return Err(error.unwrap_or(Errno::EAGAIN)),
            }
        }
        match self.descend(from.key, 0, &mut search) {
            Some(End::Found(key)) => found(key),
            Some(End::Failed(errno)) => Err(errno),
            None => Err(search.error),
        }
    }

    fn descend(&self, ring: i32, depth: usize, search: &mut Search<'_>) -> Option<End> {
        let entry = self.entry(ring);
        if entry.invalidated || entry.revoked_at.is_some() || !search.seen.insert((ring, depth)) {
            return None;
        }
        if let Some(key) = entry.links.get(search.at) {
            match self.consider(*key, search) {
                Ok(Some(key)) => return Some(End::Found(key)),
                Err(Some(errno)) => search.error = errno,
                Ok(None) | Err(None) => {}
            }
        }
        let rings = entry.links.iter().filter(|((kind, _), _)| *kind == KeyType::Keyring);
        for ring in rings.map(|(_, ring)| *ring) {
            if depth >= MAX_DEPTH {
                match search.who {
                    None => return Some(End::Failed(Errno::ELOOP)),
                    Some(_) => break,
                }
            }
            let found = Found { key: ring, possessed: search.possessed };
            if search.who.is_some_and(|who| self.check_right(found, who, SEARCH).is_err()) {
                continue;
            }
            if let Some(end) = self.descend(ring, depth + 1, search) {
                return Some(end);
            }
        }
        None
    }

    /// Checks a link from one keyring to another: `EDEADLK` for a cycle, `ELOOP` if the nesting is too deep.
    pub(super) fn check_cycle(&self, ring: i32, below: i32) -> Result<(), Errno> {
        let at = self.entry(ring).index();
        let from = Found { key: below, possessed: true };
        match self.search(from, Search::only(&at, ring, None)) {
            Ok(_) => Err(Errno::EDEADLK),
            Err(Errno::EAGAIN) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Searches the keyrings of a thread: the thread keyring, the process keyring, and the session keyring or
    /// else the user session keyring. A negative key takes precedence over a missing one, and that over
    /// keyrings that could not be searched.
    pub(super) fn search_task<'a>(
        &self,
        rings: &TaskKeyrings,
        uid: u32,
        search: impl Fn() -> Search<'a>,
    ) -> Result<Found, Errno> {
        let session = rings.session.or_else(|| self.existing_user_rings(uid).map(|(_, session)| session));
        let (mut absent, mut other) = (None, Errno::EAGAIN);
        for ring in [rings.thread, rings.process, session].into_iter().flatten() {
            match self.search(Found { key: ring, possessed: true }, search()) {
                Ok(found) => return Ok(found),
                Err(Errno::ENOKEY) => absent = Some(Errno::ENOKEY),
                Err(Errno::EAGAIN) => absent = absent.or(Some(Errno::EAGAIN)),
                Err(errno) => other = errno,
            }
        }
        Err(absent.unwrap_or(other))
    }

    /// True if a search from the thread's keyrings finds the key.
    pub(super) fn is_possessed(&self, key: i32, rings: &TaskKeyrings, who: &Credentials) -> bool {
        let at = self.entry(key).index();
        self.search_task(rings, who.ruid, || Search::only(&at, key, Some(who))).is_ok()
    }

    /// Oldest keyring with this name that the credentials may join.
    pub(super) fn ring_named(&self, name: &[u8], who: &Credentials) -> Option<i32> {
        let joinable = |serial: i32, entry: &Entry| {
            entry.kind == KeyType::Keyring
                && entry.description == name
                && entry.revoked_at.is_none()
                && self.check_right(Found { key: serial, possessed: false }, who, SEARCH).is_ok()
        };
        let rings = self.keys.iter().filter(|&(serial, entry)| joinable(*serial, entry));
        rings.min_by_key(|(_, entry)| entry.turn).map(|(serial, _)| *serial)
    }
}
