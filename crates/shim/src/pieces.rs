//! Pieces of guest memory in a channel: reads that the process has staged for the simulator, and writes that
//! the simulator has deferred to the process.

/// Upper bound on the number of pieces.
pub const MAX_PIECES: usize = 16;
/// Upper bound on the total bytes of all pieces: one of the largest, and the smaller ones of the same call.
pub const ROOM: usize = 80 << 10;
/// Upper bound on the bytes of a piece. Up to this size two copies by programs are cheaper than one by Linux,
/// which has to find and pin the other process's pages first.
pub const LARGEST: usize = 64 << 10;

/// Location of a piece.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Piece {
    /// Address in the guest.
    addr: u64,
    len: u32,
    /// Offset in [`Pieces::bytes`].
    at: u32,
}

impl Piece {
    fn end(&self) -> u64 {
        self.addr + u64::from(self.len)
    }
    fn overlaps(&self, addr: u64, len: usize) -> bool {
        self.addr < addr.saturating_add(len as u64) && addr < self.end()
    }
}

/// Pieces of one guest's memory in order of insertion. All zero bytes are an empty list.
#[derive(Debug)]
#[repr(C)]
pub struct Pieces {
    count: u32,
    used: u32,
    list: [Piece; MAX_PIECES],
    bytes: [u8; ROOM],
}

impl Pieces {
    /// Removes all pieces.
    pub fn clear(&mut self) {
        self.count = 0;
        self.used = 0;
    }

    /// True if there are no pieces.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Space for another piece of `len` bytes at `addr`, to be added by [`keep`](Self::keep). `None` if the
    /// length is 0 or too large, the buffer is full, or `addr` is not a user address.
    pub fn room(&mut self, addr: u64, len: usize) -> Option<&mut [u8]> {
        let is_address = addr.checked_add(len as u64).is_some_and(|end| end < 1 << 47);
        if len == 0 || len > LARGEST || !is_address || self.count as usize >= MAX_PIECES {
            return None;
        }
        self.bytes.get_mut(self.used as usize..self.used as usize + len)
    }

    /// Adds the piece for which [`room`](Self::room) has just returned space; returns its index.
    pub fn keep(&mut self, addr: u64, len: usize) -> usize {
        let number = self.count as usize;
        self.list[number] = Piece { addr, len: len as u32, at: self.used };
        self.count += 1;
        // Aligns the next piece like the guest's own structures.
        self.used = (self.used + len as u32).next_multiple_of(8);
        number
    }

    fn known(&self) -> &[Piece] {
        &self.list[..(self.count as usize).min(MAX_PIECES)]
    }

    fn bytes_of(&self, piece: &Piece) -> &[u8] {
        &self.bytes[piece.at as usize..][..piece.len as usize]
    }

    /// The bytes of a piece by its index.
    pub fn get(&self, number: usize) -> &[u8] {
        self.known().get(number).map_or(&[], |piece| self.bytes_of(piece))
    }

    /// All pieces, with their addresses.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.known().iter().map(|piece| (piece.addr, self.bytes_of(piece)))
    }

    /// True if any piece overlaps the range.
    pub fn overlaps(&self, addr: u64, len: usize) -> bool {
        self.known().iter().any(|piece| piece.overlaps(addr, len))
    }

    /// The bytes of the range, if the last piece that overlaps it contains all of it.
    pub fn find(&self, addr: u64, len: usize) -> Option<&[u8]> {
        let piece = self.known().iter().rev().find(|piece| piece.overlaps(addr, len))?;
        let is_whole = piece.addr <= addr && addr.saturating_add(len as u64) <= piece.end();
        is_whole.then(|| &self.bytes_of(piece)[(addr - piece.addr) as usize..][..len])
    }

    /// Overwrites the range in all pieces that overlap it.
    pub fn lay_over(&mut self, addr: u64, data: &[u8]) {
        for number in 0..(self.count as usize).min(MAX_PIECES) {
            let piece = self.list[number];
            if piece.overlaps(addr, data.len()) {
                let (from, to) = (addr.max(piece.addr), (addr + data.len() as u64).min(piece.end()));
                let at = piece.at as usize + (from - piece.addr) as usize;
                let part = &data[(from - addr) as usize..(to - addr) as usize];
                self.bytes[at..at + part.len()].copy_from_slice(part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Pieces {
        Pieces { count: 0, used: 0, list: [Piece::default(); MAX_PIECES], bytes: [0; ROOM] }
    }

    fn put(pieces: &mut Pieces, addr: u64, data: &[u8]) -> bool {
        let Some(room) = pieces.room(addr, data.len()) else { return false };
        room.copy_from_slice(data);
        pieces.keep(addr, data.len());
        true
    }

    #[test]
    fn the_last_piece_counts_and_only_as_a_whole() {
        let mut pieces = none();
        assert!(put(&mut pieces, 1000, b"abcdefgh"));
        assert_eq!(pieces.find(1002, 3), Some(&b"cde"[..]));
        assert_eq!(pieces.find(1006, 3), None);
        assert_eq!(pieces.find(999, 2), None);
        assert_eq!(pieces.find(1008, 1), None);
        assert_eq!(pieces.find(u64::MAX, 8), None);
        assert!(put(&mut pieces, 1004, b"XY"));
        assert_eq!(pieces.find(1004, 2), Some(&b"XY"[..]));
        assert_eq!(pieces.find(1002, 4), None, "half of it is older");
        assert_eq!(pieces.find(1000, 4), Some(&b"abcd"[..]));
        assert!(pieces.overlaps(1007, 1) && pieces.overlaps(0, 1001) && !pieces.overlaps(1008, 8));
        assert!(pieces.iter().map(|(addr, bytes)| (addr, bytes.len())).eq([(1000, 8), (1004, 2)]));
        pieces.clear();
        assert!(pieces.is_empty() && pieces.find(1000, 1).is_none());
    }

    #[test]
    fn what_is_laid_over_shows_in_every_piece() {
        let mut pieces = none();
        assert!(put(&mut pieces, 1000, b"abcdefgh") && put(&mut pieces, 1006, b"ghij"));
        pieces.lay_over(1005, b"1234");
        assert_eq!((pieces.get(0), pieces.get(1)), (&b"abcde123"[..], &b"234j"[..]));
        pieces.lay_over(996, b"01234");
        pieces.lay_over(1009, b"end");
        assert_eq!((pieces.get(0), pieces.get(1)), (&b"4bcde123"[..], &b"234e"[..]));
        assert_eq!(pieces.get(2), b"");
    }

    #[test]
    fn what_has_no_room_is_not_kept() {
        let mut pieces = none();
        assert!(pieces.room(1000, 0).is_none());
        assert!(pieces.room(1000, LARGEST + 1).is_none());
        assert!(pieces.room((1 << 47) - 4, 4).is_none() && pieces.room(u64::MAX, 2).is_none());
        assert!(put(&mut pieces, 1000, &[1; LARGEST]) && put(&mut pieces, 100_000, &[2; ROOM - LARGEST]));
        assert!(!put(&mut pieces, 2000, b"x"));
        pieces.clear();
        for at in 0..MAX_PIECES as u64 {
            assert!(put(&mut pieces, 1000 * at, b"xyz"));
        }
        assert!(!put(&mut pieces, 1000, b"x"));
    }
}
