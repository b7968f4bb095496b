//! Table of System V IPC objects, by key and by identifier.

use belljar_linux_abi::ipc::IpcPerm;
use belljar_linux_abi::{Errno, c};

/// Number of indices. An identifier is an index plus this number times the sequence number, which counts
/// reuses.
const PLACES: i32 = 32_768;

/// Object of an IPC table.
pub trait SysvObject {
    /// Ownership, mode, key and sequence number.
    fn perm(&self) -> &IpcPerm;
    /// Mutable access to the permissions.
    fn perm_mut(&mut self) -> &mut IpcPerm;
}

/// Objects of one kind.
#[derive(Debug)]
pub struct IpcTable<T> {
    places: Vec<Option<T>>,
    last: Option<usize>,
    sequence: u16,
    /// Identifier requested for the next object.
    pub next_id: Option<i32>,
}

impl<T> Default for IpcTable<T> {
    fn default() -> IpcTable<T> {
        IpcTable { places: Vec::new(), last: None, sequence: 0, next_id: None }
    }
}

impl<T: SysvObject> IpcTable<T> {
    /// Looks an object up by the key and flags of `shmget(2)` and related calls in a namespace; `None` if one
    /// must be created. `ENOENT`, `EEXIST`.
    pub fn lookup(&self, namespace: u32, key: i32, flags: i32) -> Result<Option<i32>, Errno> {
        if key == c::IPC_PRIVATE {
            return Ok(None);
        }
        match self.iter_in(namespace).find(|(_, object)| object.perm().key == key) {
            Some(_) if flags & c::IPC_CREAT != 0 && flags & c::IPC_EXCL != 0 => Err(Errno::EEXIST),
            Some((id, _)) => Ok(Some(id)),
            None if flags & c::IPC_CREAT == 0 => Err(Errno::ENOENT),
            None => Ok(None),
        }
    }
    /// Adds an object and returns its identifier. `ENOSPC` if there are `limit` objects.
    pub fn insert(&mut self, mut object: T, limit: usize) -> Result<i32, Errno> {
        if self.places.iter().flatten().count() >= limit {
            return Err(Errno::ENOSPC);
        }
        let wanted = self.next_id.take();
        let from = wanted.map_or(0, |id| (id % PLACES) as usize);
        let free = |place: &usize| self.places.get(*place).is_none_or(Option::is_none);
        let place = (from..PLACES as usize).find(free).ok_or(Errno::ENOSPC)?;
        object.perm_mut().seq = match wanted {
            Some(id) => (id / PLACES) as u16,
            None => {
                if self.last.is_some_and(|last| place <= last) {
                    self.sequence = (self.sequence + 1) % (i32::MAX / PLACES) as u16;
                }
                self.last = Some(place);
                self.sequence
            }
        };
        if place >= self.places.len() {
            self.places.resize_with(place + 1, || None);
        }
        self.places[place] = Some(object);
        Ok(self.id_at(place))
    }
    /// Object by identifier, `EINVAL` if there is none.
    pub fn get(&mut self, id: i32) -> Result<&mut T, Errno> {
        let place = self.place_of(id)?;
        self.places[place].as_mut().ok_or(Errno::EINVAL)
    }
    /// Identifier of the object at an index, `EINVAL` if there is none in the namespace: `SHM_STAT`.
    pub fn id_of_place(&self, namespace: u32, place: i32) -> Result<i32, Errno> {
        let place = usize::try_from(place).map_err(|_| Errno::EINVAL)?;
        let found = self.places.get(place).and_then(Option::as_ref);
        found.filter(|object| object.perm().unused[0] == u64::from(namespace)).ok_or(Errno::EINVAL)?;
        Ok(self.id_at(place))
    }
    /// Removes an object.
    pub fn remove(&mut self, id: i32) -> Option<T> {
        let place = self.place_of(id).ok()?;
        self.places[place].take()
    }
    /// Objects with their identifiers.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &T)> {
        self.places.iter().enumerate().filter_map(|(n, object)| Some((self.id_at(n), object.as_ref()?)))
    }
    /// Objects of a namespace, whose number is in a field that Linux does not use.
    pub fn iter_in(&self, namespace: u32) -> impl Iterator<Item = (i32, &T)> {
        self.iter().filter(move |(_, object)| object.perm().unused[0] == u64::from(namespace))
    }
    /// Highest index in use, 0 if there is none: the result of the `*_INFO` operations.
    pub fn highest_place(&self) -> i32 {
        self.places.iter().rposition(Option::is_some).unwrap_or(0) as i32
    }

    fn id_at(&self, place: usize) -> i32 {
        let sequence = self.places[place].as_ref().map_or(0, |object| object.perm().seq);
        i32::from(sequence) * PLACES + place as i32
    }
    fn place_of(&self, id: i32) -> Result<usize, Errno> {
        let place = usize::try_from(id).map_err(|_| Errno::EINVAL)? % PLACES as usize;
        match self.places.get(place) {
            Some(Some(_)) if self.id_at(place) == id => Ok(place),
            _ => Err(Errno::EINVAL),
        }
    }
}
