//! A machine whose native files are observed.

use crate::{Observer, Profile};
use belljar_base::activity::CallWays;
use belljar_base::{Footprint, Stream};
use belljar_linux_abi::Errno;
use belljar_machine::{
    Backing, ContextId, DiskEvent, Exit, GuestMemory, HostFiles, Ids, ImageRoom, Machine, NativeDirEntry,
    NativeFile, NativeRead, NativeStat, OpenHow, Placement, Platform, Prot, Regs, SpaceId, VdsoCounts,
    VdsoData,
};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Machine of a host whose crashes lose what is not synced: every call goes to the machine within, and those that
/// change files to the observer as well.
pub struct Observed {
    machine: Box<dyn Machine>,
    observer: Observer,
}

impl Observed {
    /// Observed machine of the host whose folder this is.
    pub fn new(machine: Box<dyn Machine>, folder: PathBuf, profile: Profile, draw: Stream) -> Observed {
        Observed { machine, observer: Observer::new(folder, profile, draw) }
    }
}

/// The addresses of a call.
fn range(addr: u64, len: u64) -> Range<u64> {
    addr..addr.saturating_add(len)
}

impl GuestMemory for Observed {
    fn read(&self, space: SpaceId, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        self.machine.read(space, addr, out)
    }
    fn write(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.machine.write(space, addr, data)
    }
    fn compare_exchange_u32(&mut self, space: SpaceId, addr: u64, old: u32, new: u32) -> Result<u32, Errno> {
        self.machine.compare_exchange_u32(space, addr, old, new)
    }
    fn read_file(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        file: NativeFile,
        offset: u64,
    ) -> Option<Result<u64, Errno>> {
        self.machine.read_file(space, addr, len, file, offset)
    }
    fn write_file(
        &mut self,
        _: SpaceId,
        _: u64,
        _: u64,
        _: NativeFile,
        _: u64,
    ) -> Option<Result<u64, Errno>> {
        // The kernel then copies the bytes and calls `write_at`.
        None
    }
}

impl Platform for Observed {
    fn create_space(&mut self, slot: u32, placement: Placement) -> Result<SpaceId, Errno> {
        self.machine.create_space(slot, placement)
    }
    fn fork_space(&mut self, space: SpaceId) -> Result<SpaceId, Errno> {
        let child = self.machine.fork_space(space)?;
        self.observer.forked(space, child);
        Ok(child)
    }
    fn call_ways(&self, space: SpaceId) -> CallWays {
        self.machine.call_ways(space)
    }
    fn native_reads(&self, space: SpaceId) -> Vec<NativeRead> {
        self.machine.native_reads(space)
    }
    fn destroy_space(&mut self, space: SpaceId) {
        self.observer.ended(space);
        self.machine.destroy_space(space);
    }
    fn prefetcher(&self) -> fn(&[u8]) {
        self.machine.prefetcher()
    }
    fn ended_spaces(&mut self) -> Vec<SpaceId> {
        self.machine.ended_spaces()
    }
    fn space_range(&self, space: SpaceId) -> Range<u64> {
        self.machine.space_range(space)
    }
    fn image_base(&self, space: SpaceId) -> u64 {
        self.machine.image_base(space)
    }
    fn room_of_image(&mut self, space: SpaceId, file: NativeFile) -> ImageRoom {
        self.machine.room_of_image(space, file)
    }
    fn beyond_slots(&self) -> Range<u64> {
        self.machine.beyond_slots()
    }
    fn claim_fixed(&mut self, space: SpaceId, range: Range<u64>) -> Result<(), Errno> {
        self.machine.claim_fixed(space, range)
    }
    fn map(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        prot: Prot,
        backing: Backing,
    ) -> Result<(), Errno> {
        let file = match backing {
            Backing::SharedFile { file, .. } => Some(file),
            _ => None,
        };
        self.observer.mapping(&mut *self.machine, (space, range(addr, len)), prot, file);
        self.machine.map(space, addr, len, prot, backing)
    }
    fn unmap(&mut self, space: SpaceId, addr: u64, len: u64) -> Result<(), Errno> {
        self.observer.unmapping(space, &range(addr, len));
        self.machine.unmap(space, addr, len)
    }
    fn protect(&mut self, space: SpaceId, addr: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        self.observer.protecting(&mut *self.machine, space, &range(addr, len), prot);
        self.machine.protect(space, addr, len, prot)
    }
    fn relocate(
        &mut self,
        space: SpaceId,
        from: u64,
        old_len: u64,
        to: u64,
        new_len: u64,
    ) -> Result<(), Errno> {
        self.observer.relocating(space, &range(from, old_len), range(to, new_len));
        self.machine.relocate(space, from, old_len, to, new_len)
    }
    fn advise(&mut self, space: SpaceId, addr: u64, len: u64, advice: i32) -> Result<(), Errno> {
        self.machine.advise(space, addr, len, advice)
    }
    fn resident(&mut self, space: SpaceId, addr: u64, pages: &mut [u8]) -> Result<(), Errno> {
        self.machine.resident(space, addr, pages)
    }
    fn poke(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        self.machine.poke(space, addr, data)
    }
    fn can_step(&self, context: ContextId) -> bool {
        self.machine.can_step(context)
    }
    fn show_original_code(&mut self, space: SpaceId) {
        self.machine.show_original_code(space);
    }
    fn map_vdso(&mut self, space: SpaceId, addr: u64) -> Result<u64, Errno> {
        self.machine.map_vdso(space, addr)
    }
    fn create_context(&mut self, space: SpaceId, regs: &Regs) -> ContextId {
        self.machine.create_context(space, regs)
    }
    fn copy_context(&mut self, from: ContextId, space: SpaceId) -> ContextId {
        self.machine.copy_context(from, space)
    }
    fn destroy_context(&mut self, context: ContextId) {
        self.machine.destroy_context(context);
    }
    fn regs(&self, context: ContextId) -> &Regs {
        self.machine.regs(context)
    }
    fn regs_mut(&mut self, context: ContextId) -> &mut Regs {
        self.machine.regs_mut(context)
    }
    fn xstate(&self, context: ContextId, out: &mut Vec<u8>) {
        self.machine.xstate(context, out);
    }
    fn set_xstate(&mut self, context: ContextId, state: &[u8]) {
        self.machine.set_xstate(context, state);
    }
    fn resume(&mut self, context: ContextId) -> Exit {
        self.machine.resume(context)
    }
    fn resume_with_clocks(&mut self, context: ContextId, clocks: &mut VdsoData) -> Exit {
        self.machine.resume_with_clocks(context, clocks)
    }
    fn footprint(&self, context: ContextId, footprint: &mut Footprint) {
        self.machine.footprint(context, footprint);
    }
    fn answered(&mut self, context: ContextId) -> VdsoCounts {
        self.machine.answered(context)
    }
    fn tell_ids(&mut self, context: ContextId, ids: &Ids) {
        self.machine.tell_ids(context, ids);
    }
    fn step(&mut self, context: ContextId) -> Exit {
        self.machine.step(context)
    }
}

impl HostFiles for Observed {
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        let found = self.observer.find(&mut *self.machine, path);
        let file = self.machine.open(path, how)?;
        if let Some(found) = found {
            self.observer.opened(found, path, how, file);
        }
        Ok(file)
    }
    fn close(&mut self, file: NativeFile) {
        self.observer.closed(file);
        self.machine.close(file);
    }
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        self.machine.read_at(file, offset, out)
    }
    fn peek_at(&self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        self.machine.peek_at(file, offset, out)
    }
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.observer.writing(&mut *self.machine, file, offset, data);
        self.machine.write_at(file, offset, data)
    }
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno> {
        self.machine.stat_file(file)
    }
    fn files_read(&self) -> Vec<PathBuf> {
        self.machine.files_read()
    }
    fn file_share(&self) -> usize {
        self.machine.file_share()
    }
    fn punch(&mut self, file: NativeFile, start: u64, end: u64) -> Result<(), Errno> {
        self.observer.zeroing(&mut *self.machine, file, start, end);
        self.machine.punch(file, start, end)
    }
    fn set_len(&mut self, file: NativeFile, len: u64) -> Result<(), Errno> {
        self.observer.resizing(&mut *self.machine, file, len);
        self.machine.set_len(file, len)
    }
    fn stat(&mut self, path: &Path) -> Result<NativeStat, Errno> {
        self.machine.stat(path)
    }
    fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno> {
        self.machine.read_link(path)
    }
    fn read_dir(&mut self, path: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
        self.machine.read_dir(path)
    }
    fn create_dir(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        let slot = self.observer.free_entry(&mut *self.machine, path);
        self.machine.create_dir(path, mode)?;
        if let Some(slot) = slot {
            self.observer.created_directory(slot);
        }
        Ok(())
    }
    fn create_symlink(&mut self, target: &[u8], path: &Path) -> Result<(), Errno> {
        let slot = self.observer.free_entry(&mut *self.machine, path);
        self.machine.create_symlink(target, path)?;
        if let Some(slot) = slot {
            self.observer.created_symlink(slot, target);
        }
        Ok(())
    }
    fn create_link(&mut self, existing: &Path, path: &Path) -> Result<(), Errno> {
        let slot = self.observer.free_entry(&mut *self.machine, path);
        self.machine.create_link(existing, path)?;
        if let Some(slot) = slot {
            self.observer.linked(&mut *self.machine, existing, slot);
        }
        Ok(())
    }
    fn remove_file(&mut self, path: &Path) -> Result<(), Errno> {
        match self.observer.removing(&mut *self.machine, path) {
            Some(kept) => self.machine.rename(path, &kept),
            None => self.machine.remove_file(path),
        }
    }
    fn remove_dir(&mut self, path: &Path) -> Result<(), Errno> {
        let slot = self.observer.known_entry(&mut *self.machine, path);
        self.machine.remove_dir(path)?;
        if let Some(slot) = slot {
            self.observer.removed_directory(slot);
        }
        Ok(())
    }
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        self.observer.renaming(&mut *self.machine, from, to);
        self.machine.rename(from, to)
    }
    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        self.machine.set_mode(path, mode)
    }
    fn shared_memory(&mut self, len: u64) -> Result<NativeFile, Errno> {
        self.machine.shared_memory(len)
    }
    fn read_stream(&mut self, stream: u8, out: &mut [u8]) -> Result<usize, Errno> {
        self.machine.read_stream(stream, out)
    }
    fn write_stream(&mut self, stream: u8, data: &[u8]) -> Result<(), Errno> {
        self.machine.write_stream(stream, data)
    }
    fn is_observed(&self) -> bool {
        true
    }
    fn disk_warning(&mut self) -> Option<String> {
        self.observer.warning()
    }
    fn disk_event(&mut self, event: DiskEvent<'_>) -> Result<(), Errno> {
        self.observer.event(&mut *self.machine, event)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_call_of_a_machine_is_passed_on() {
        let functions = |text: &str| {
            let lines = text.lines().map(str::trim).filter_map(|line| line.strip_prefix("fn "));
            lines.filter_map(|line| Some(line.split_once(['(', '<'])?.0.to_string())).collect::<Vec<_>>()
        };
        let own = functions(include_str!("observed.rs"));
        let interface = include_str!("../../machine/src/lib.rs");
        let start = interface.find("pub trait GuestMemory").unwrap();
        let missing: Vec<_> =
            functions(&interface[start..]).into_iter().filter(|name| !own.contains(name)).collect();
        assert_eq!(missing, Vec::<String>::new());
    }
}
