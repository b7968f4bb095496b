//! A guest's address space: a slot, claims of fixed addresses, the mappings, and the rewritten call sites.

use crate::far::Shim;
use crate::layout::{self, PAGE, Slot};
use crate::mappings;
use crate::mappings::{Kind, Mappings};
use crate::native::Native;
use crate::registry;
use crate::rewrite::{Rewriter, reads};
use belljar_base::activity::CallWays;
use belljar_linux_abi::Errno;
use belljar_machine::{Backing, NativeRead, Prot};
use std::ops::Range;

/// Length of an image's data in bytes up to which nearly all of it is assumed to be written.
const SMALL_DATA: u64 = 64 << 10;
/// Number of instructions in unmapped memory that are remembered: one is enough for a warning.
const MOST_UNMAPPED_READS: usize = 16;

/// One address space.
#[derive(Debug)]
#[repr(C)] // Frequently read fields come first: see `belljar_base::Footprint`.
pub struct Space {
    /// Process that holds the memory of the space.
    pub native: Native,
    /// Slot of the space.
    pub slot: Slot,
    /// Counts of system calls, trapped and rewritten.
    pub counts: CallWays,
    /// Claimed ranges outside the slot.
    claims: Vec<Range<u64>>,
    /// Mappings of the space.
    mappings: Mappings,
    /// Rewritten call sites of the space.
    pub rewriter: Rewriter,
    /// Instructions that read the machine, in executable memory that has been unmapped.
    unmapped_reads: Vec<NativeRead>,
}

/// The whole pages covered by `len` bytes at `addr`, a page's start.
fn pages(addr: u64, len: u64) -> Range<u64> {
    addr..addr + len.next_multiple_of(PAGE)
}

impl Space {
    /// Claims `slot` in this process if the mapping budget allows one more program, otherwise creates a far
    /// space.
    pub fn near(slot: Slot) -> Result<Space, Errno> {
        if !mappings::has_room(mappings::OF_A_PROGRAM) {
            return Space::far(slot);
        }
        registry::take_slot(&slot.whole).map_err(|_| Errno::ENOMEM)?;
        Ok(Space::with(Native::Near, slot))
    }

    /// Creates a far space.
    pub fn far(slot: Slot) -> Result<Space, Errno> {
        Ok(Space::with(Native::Far(Box::new(Shim::spawn()?)), slot))
    }

    /// Creates a far space with Linux's own layout.
    pub fn linux() -> Result<Space, Errno> {
        let mut space = Space::far(Slot::linux())?;
        space.claims = Slot::linux_claims();
        Ok(space)
    }

    fn with(native: Native, slot: Slot) -> Space {
        let (rewriter, counts) = (Rewriter::default(), CallWays::default());
        let mappings = Mappings::none(matches!(native, Native::Near));
        Space { native, slot, claims: Vec::new(), mappings, rewriter, counts, unmapped_reads: Vec::new() }
    }

    /// See `Platform::fork_space`.
    pub fn fork(&self) -> Result<Space, Errno> {
        let shim = match &self.native {
            Native::Far(shim) => shim.fork()?,
            Native::Near => Shim::of_near(self.ranges().collect())?,
        };
        let mut copy = Space::with(Native::Far(Box::new(shim)), self.slot.clone());
        copy.claims.clone_from(&self.claims);
        copy.rewriter = self.rewriter.clone();
        copy.mappings = self.mappings.copied_far();
        copy.unmapped_reads.clone_from(&self.unmapped_reads);
        copy.tell_cpuids();
        Ok(copy)
    }

    /// Turns a near space into a far one: the same content at the same addresses.
    fn become_far(&mut self) -> Result<(), Errno> {
        let shim = Shim::of_near(self.ranges().collect())?;
        let mappings = self.mappings.copied_far();
        self.leave_simulator();
        self.mappings = mappings;
        self.native = Native::Far(Box::new(shim));
        self.tell_cpuids();
        Ok(())
    }

    /// Passes the addresses of replaced `cpuid` instructions to a newly created far process.
    fn tell_cpuids(&self) {
        if let Native::Far(shim) = &self.native {
            shim.answer_cpuids(self.rewriter.cpuids());
        }
    }

    /// Carries out an action that may exceed the mapping budget of near spaces; if it does, the space becomes
    /// far first.
    fn carry_out(&mut self, action: impl Fn(&Native) -> Result<(), Errno>) -> Result<(), Errno> {
        if self.is_near() && !mappings::has_room(mappings::OF_A_CALL) {
            // If this fails too, the action may still succeed near.
            let _ = self.become_far();
        }
        match action(&self.native) {
            Err(Errno::ENOMEM) if self.is_near() && self.become_far().is_ok() => action(&self.native),
            result => result,
        }
    }

    /// Unmaps a near space's memory in the simulator and releases its claims.
    fn leave_simulator(&mut self) {
        for range in self.ranges() {
            // No guest runs in the space any more, and the ranges belong to it.
            let _ = self.native.munmap(range.start, range.end - range.start);
        }
        self.rewriter.low_chunks().for_each(|chunk| registry::release_stubs(chunk.start));
        registry::release(self.slot.whole.start);
        self.mappings = Mappings::none(true);
    }

    /// All ranges in which the space may have mappings.
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.claims.iter().cloned().chain([self.slot.whole.clone()]).chain(self.rewriter.low_chunks())
    }

    /// True if the space lies in the simulator's process.
    pub fn is_near(&self) -> bool {
        matches!(self.native, Native::Near)
    }

    /// True if the far process has ended.
    pub fn has_ended(&self) -> bool {
        matches!(&self.native, Native::Far(shim) if shim.has_hung_up())
    }
    /// The readable guest memory at `address`, up to the length of `buffer`, copied into it.
    pub fn bytes_at<'b>(&self, address: u64, buffer: &'b mut [u8]) -> &'b [u8] {
        let mut len = buffer.len();
        while len > 0
            && !(self.owns(address, len as u64) && self.native.read(address, &mut buffer[..len]).is_ok())
        {
            len -= 1;
        }
        &buffer[..len]
    }

    /// True if `len` bytes at `addr` lie in the space's usable range or in one claim.
    #[inline]
    pub fn owns(&self, addr: u64, len: u64) -> bool {
        let Some(end) = addr.checked_add(len) else { return false };
        let range = addr..end;
        layout::contains(&self.slot.usable, &range) || self.claims.iter().any(|c| layout::contains(c, &range))
    }

    /// True if guest code may run at `rip`: the slot with its stubs, and the claims.
    pub fn may_run_at(&self, rip: u64) -> bool {
        self.slot.whole.contains(&rip) || self.claims.iter().any(|c| c.contains(&rip))
    }

    /// See `Platform::claim_fixed`.
    pub fn claim(&mut self, range: Range<u64>) -> Result<(), Errno> {
        if self.claims.iter().any(|claim| layout::contains(claim, &range)) {
            return Ok(());
        }
        registry::check_claim(&self.slot.whole, &range)?;
        if self.is_near() && registry::claim(self.slot.whole.start, &range).is_err() {
            self.become_far()?;
        }
        let low = self.rewriter.low_chunks().filter(|_| !self.is_near());
        // In Linux's layout the lower room for stubs lies outside the slot, and guests must not claim it.
        if low.chain(self.slot.stub_rooms()).any(|stubs| layout::overlap(&stubs, &range)) {
            return Err(Errno::EBUSY);
        }
        // Adjacent claims merge, so that accesses may cross their boundary.
        let mut merged = range;
        self.claims.retain(|c| {
            let touches = c.start <= merged.end && merged.start <= c.end;
            if touches {
                merged = merged.start.min(c.start)..merged.end.max(c.end);
            }
            !touches
        });
        self.claims.push(merged);
        Ok(())
    }

    /// Copies from guest memory. `staged` states that memory staged by a far process is still valid.
    #[inline(always)]
    pub fn read(&self, addr: u64, out: &mut [u8], staged: bool) -> Result<(), Errno> {
        if let Native::Far(shim) = &self.native
            && staged
            && self.mappings.are_own(addr, out.len() as u64)
            && shim.read_staged(addr, out)
        {
            return Ok(());
        }
        self.native.read(addr, out)
    }

    /// Copies to guest memory.
    #[inline(always)]
    pub fn write(&self, addr: u64, data: &[u8]) -> Result<(), Errno> {
        if let Native::Far(shim) = &self.native
            && self.mappings.take_writes(addr, data.len() as u64)
            && shim.answer(addr, data)
        {
            return Ok(());
        }
        self.native.write(addr, data)
    }

    /// See `GuestMemory::compare_exchange_u32`.
    pub fn compare_exchange(&self, addr: u64, old: u32, new: u32, staged: bool) -> Result<u32, Errno> {
        if let Some(done) = self.native.compare_exchange(addr, old, new) {
            return done;
        }
        if !addr.is_multiple_of(4) {
            return Err(Errno::EINVAL);
        }
        // No other thread that maps the word runs meanwhile: it belongs to this guest or is shared by guests
        // of one host.
        let mut word = [0; 4];
        self.read(addr, &mut word, staged)?;
        let found = u32::from_le_bytes(word);
        if found == old {
            self.write(addr, &new.to_le_bytes())?;
        }
        Ok(found)
    }

    fn check_pages(&self, addr: u64, len: u64) -> Result<(), Errno> {
        if !addr.is_multiple_of(PAGE) || len == 0 {
            return Err(Errno::EINVAL);
        }
        let len = len.checked_next_multiple_of(PAGE).ok_or(Errno::ENOMEM)?;
        // A claim granted before stubs were needed may contain them.
        let for_stubs = self.rewriter.low_chunks().any(|chunk| layout::overlap(&chunk, &(addr..addr + len)));
        if self.owns(addr, len) && !for_stubs { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// See `Platform::map`.
    pub fn map(&mut self, addr: u64, len: u64, prot: Prot, backing: Backing) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        if let Backing::PrivateFile { file, offset } = backing
            && !prot.contains(Prot::WRITE)
            && self.map_shared_image(&pages(addr, len), prot, file.0, offset)
        {
            return Ok(());
        }
        let (flags, fd, offset) = match backing {
            Backing::Anonymous => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE, -1, 0),
            Backing::PrivateFile { file, offset } => {
                // Most pages of an image's data are relocated at once. Reading each before writing it would
                // cost an additional fault, and a TLB shootdown of all other workers. Mappings of other files
                // stay unpopulated, because programs may expect to see later writes to the file.
                let data_of_image =
                    prot.contains(Prot::WRITE) && len <= SMALL_DATA && self.rewriter.has_text_of(file.0);
                let populate = if data_of_image { libc::MAP_POPULATE } else { 0 };
                (libc::MAP_PRIVATE | libc::MAP_NORESERVE | populate, file.0, offset)
            }
            Backing::SharedFile { file, offset } => (libc::MAP_SHARED, file.0, offset),
        };
        let prot_bits = prot.bits() as i32;
        self.search_before_loss(&pages(addr, len));
        self.carry_out(|native| native.mmap(addr, len, prot_bits, flags | libc::MAP_FIXED, fd, offset))?;
        if matches!(backing, Backing::Anonymous) {
            self.native.keep_small_pages(addr, len);
        }
        let mapped = pages(addr, len);
        self.gone(&mapped);
        let kind = match backing {
            Backing::Anonymous => Kind::Anonymous,
            Backing::PrivateFile { .. } => self.mappings.of_file(false),
            Backing::SharedFile { .. } => self.mappings.of_file(true),
        };
        self.mappings.insert(mapped.clone(), prot, kind);
        if let Backing::PrivateFile { file, offset } = backing
            && prot.contains(Prot::EXEC)
            && !prot.contains(Prot::WRITE)
        {
            self.rewriter.text_mapped(mapped, file.0, offset, &self.native);
        }
        Ok(())
    }

    /// Instructions that read the machine and execute natively: in text, those that have not been replaced; in
    /// other executable memory, all.
    pub fn native_reads(&self) -> Vec<NativeRead> {
        let mut found: Vec<NativeRead> = self.rewriter.native_reads().collect();
        self.search_written(&(0..u64::MAX), &mut found);
        found.extend_from_slice(&self.unmapped_reads);
        found.sort_unstable();
        found
    }

    /// Searches the executable memory in `range` that is not text.
    fn search_written(&self, range: &Range<u64>, found: &mut Vec<NativeRead>) {
        for (part, is_anonymous) in self.mappings.executable(range) {
            if !self.rewriter.has_searched(&part) {
                reads::search(part, is_anonymous, &self.native, found);
            }
        }
    }

    /// Searches executable memory in `range` that is about to lose its content.
    fn search_before_loss(&mut self, range: &Range<u64>) {
        if self.unmapped_reads.len() < MOST_UNMAPPED_READS {
            let mut found = Vec::new();
            self.search_written(range, &mut found);
            self.unmapped_reads.extend(found.into_iter().map(|read| NativeRead { is_gone: true, ..read }));
        }
    }

    /// Maps a window instead of an image's text in `range`, if there is one. Leaves `range` unchanged if a
    /// window already maps it. False if `range` is still to be mapped.
    fn map_shared_image(&mut self, range: &Range<u64>, prot: Prot, fd: i32, offset: u64) -> bool {
        if !self.is_near() {
            return false;
        }
        if !prot.contains(Prot::EXEC) {
            return self.rewriter.shows(range, fd, offset);
        }
        let Some(window) = self.rewriter.window(range, fd, offset, &self.slot) else { return false };
        let below = window.below();
        let others = below.end..window.range().end;
        if !self.mappings.are_none(&below) || !self.mappings.are_files_read(&others) {
            return false;
        }
        if window.map(&self.native).is_err() {
            return false;
        }
        let all = window.range();
        self.gone(&all);
        let kind = self.mappings.of_file(false);
        self.mappings.insert(all, Prot::READ | Prot::EXEC, kind);
        self.rewriter.window_mapped(window);
        true
    }

    /// See `Platform::unmap`.
    pub fn unmap(&mut self, addr: u64, len: u64) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        self.search_before_loss(&pages(addr, len));
        self.carry_out(|native| native.munmap(addr, len))?;
        self.gone(&pages(addr, len));
        self.mappings.remove(&pages(addr, len));
        Ok(())
    }

    /// See `Platform::protect`.
    pub fn protect(&mut self, addr: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        self.rewriter.window_changes(&pages(addr, len));
        if prot.contains(Prot::WRITE) {
            self.rewriter.text_writable(&pages(addr, len));
        }
        self.carry_out(|native| native.mprotect(addr, len, prot.bits() as i32))?;
        self.mappings.protect(&pages(addr, len), prot);
        Ok(())
    }

    /// See `Platform::relocate`.
    pub fn relocate(&mut self, from: u64, old_len: u64, to: u64, new_len: u64) -> Result<(), Errno> {
        self.check_pages(from, old_len.max(1))?;
        self.check_pages(to, new_len)?;
        self.gone(&pages(from, old_len));
        self.gone(&pages(to, new_len));
        let flags = if from == to { 0 } else { libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED };
        if self.is_near() {
            // A fork of another space may have marked a part of the range: mremap(2) moves one mapping, not
            // two.
            let _ = self.native.madvise(from, old_len.max(1), libc::MADV_DOFORK);
        }
        self.carry_out(|native| native.mremap(from, old_len, new_len, flags, to))?;
        self.mappings.relocate(&pages(from, old_len), &pages(to, new_len));
        Ok(())
    }

    /// Records that the mappings in `range` have been removed.
    fn gone(&mut self, range: &Range<u64>) {
        for room in self.rewriter.text_gone(range, &self.native) {
            for rest in [room.start..room.end.min(range.start), room.start.max(range.end)..room.end] {
                // The stubs of a dropped window have no users; on failure they stay until the range is mapped
                // over.
                if rest.start < rest.end && self.native.munmap(rest.start, rest.end - rest.start).is_ok() {
                    self.mappings.remove(&rest);
                }
            }
        }
    }

    /// See `Platform::advise`.
    pub fn advise(&mut self, addr: u64, len: u64, advice: i32) -> Result<(), Errno> {
        self.check_pages(addr, len)?;
        let range = pages(addr, len);
        if advice == libc::MADV_DONTNEED {
            self.rewriter.content_gone(&range);
        }
        self.native.madvise(addr, len, advice)?;
        if advice == libc::MADV_DONTNEED {
            self.rewriter.replace_again(&range, &self.native);
        }
        Ok(())
    }

    /// See `Platform::resident`.
    pub fn resident(&self, addr: u64, pages: &mut [u8]) -> Result<(), Errno> {
        self.check_pages(addr, pages.len() as u64 * PAGE)?;
        self.native.mincore(addr, pages)
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.native, Native::Near) {
            Native::Near => self.leave_simulator(),
            Native::Far(shim) => shim.retire(),
        }
    }
}
