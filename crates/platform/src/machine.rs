//! The platform of one host: its spaces and contexts by number, and the machine's files.

use crate::context::{self, Context};
use crate::far::{self, Shim};
use crate::layout::{self, Slots};
use crate::native::Native;
use crate::near::worker;
use crate::rewrite::Rewriter;
use crate::space::Space;
use crate::trail::{self, Follower};
use crate::{cpu, exits, files, vdso};
use belljar_base::activity::CallWays;
use belljar_base::{CACHE_LINE, Footprint, LineGroup, Set};
use belljar_linux_abi::Errno;
use belljar_machine::{
    Backing, ContextId, Exit, GuestMemory, HostFiles, Ids, ImageRoom, NativeDirEntry, NativeFile, NativeRead,
    NativeStat, OpenHow, Placement, Platform, Prot, Regs, SpaceId, VdsoCounts, VdsoData,
};
use belljar_shim::context::Xsave;
use belljar_shim::worker::Readings;
use slab::Slab;
use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::cell::{Cell, RefCell};
use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Restores native `rdtsc` and `cpuid` on the calling thread until it next resumes a guest: call this before
/// a worker starts a native process. No effect on other threads.
pub fn release_thread() {
    worker::release_current();
    far::move_freely();
}

/// Prefetches the cache lines of these groups ([`LineGroup::word`]), up to the first empty group.
pub fn fetch(groups: &[AtomicUsize]) {
    for group in groups {
        let group = LineGroup::from_word(group.load(Ordering::Relaxed));
        if group == LineGroup::NONE {
            return;
        }
        group.addresses().for_each(|line| fetch_line(ptr::without_provenance(line)));
    }
}

#[inline]
fn fetch_line(at: *const u8) {
    // SAFETY: a prefetch hint accesses no memory, valid or not.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// Bytes of vector state that every thread has: the legacy area and the header.
const LEGACY_STATE: usize = 576;
/// Number of recent accesses to guest memory that are remembered.
const ACCESSES: usize = 8;
/// Number of footprint samples after which a host counts as warmed up.
const STARTED: u32 = 4;

/// One host's guests, near and far.
///
/// Dropping it releases its remaining spaces and contexts.
pub struct HostMachine {
    slots: Slots,
    spaces: Slab<Space>,
    /// Boxed: the entry code holds a context's address while the guest runs.
    contexts: Slab<Box<Context>>,
    /// Files of the machine that were opened for reading.
    files_read: Set<std::path::PathBuf>,
    /// Number of native files that the host may keep open.
    file_share: usize,
    /// The far space whose guest exited last with a system call, while the memory staged then is still valid.
    staged: Option<SpaceId>,
    /// Number of contexts created so far.
    contexts_made: u64,
    /// Addresses of the most recent accesses to guest memory.
    accessed: [Cell<u64>; ACCESSES],
    /// Number of footprint samples taken.
    told: Cell<u32>,
    /// The trail recording in progress.
    follower: RefCell<Option<Box<Follower>>>,
}

impl HostMachine {
    /// The machine of host `host_index` among `host_count`; these two numbers alone determine the addresses
    /// of its guests. [`crate::init`] must have succeeded.
    pub fn new(host_index: u32, host_count: u32) -> HostMachine {
        let slots = Slots::new(host_index, host_count);
        let file_share = files::file_share(host_count);
        HostMachine {
            slots,
            spaces: Slab::new(),
            contexts: Slab::new(),
            files_read: Default::default(),
            file_share,
            staged: None,
            contexts_made: 0,
            accessed: Default::default(),
            told: Cell::new(0),
            follower: RefCell::new(None),
        }
    }

    fn space(&self, space: SpaceId) -> &Space {
        &self.spaces[space.0 as usize]
    }
    /// A space for modification: invalidates staged memory.
    fn space_mut(&mut self, space: SpaceId) -> &mut Space {
        self.staged = None;
        &mut self.spaces[space.0 as usize]
    }
    fn insert_context(&mut self, mut context: Context) -> ContextId {
        let entry = self.contexts.vacant_entry();
        let index = entry.key() as u32;
        self.contexts_made += 1;
        // The upper half makes the number unique, the lower half is the index of the context.
        context.number = self.contexts_made << 32 | u64::from(index);
        entry.insert(Box::new(context));
        ContextId(index)
    }

    /// The far process that holds the context's vector state.
    fn holder(&self, context: &Context) -> Option<&Shim> {
        match &self.spaces.get(context.space as usize)?.native {
            Native::Far(shim) if shim.held() == context.number => Some(shim),
            _ => None,
        }
    }

    /// The context's vector state, from the far process that holds it or from the context.
    fn vector_state(&self, context: ContextId) -> &Xsave {
        let context = &*self.contexts[context.0 as usize];
        self.holder(context).map_or(&context.xsave, Shim::held_state)
    }

    /// Copies the vector state held by a far process back to its context, before another context runs in or
    /// is created from this process.
    fn bring_back(&mut self, context: ContextId) {
        let (space, number) = {
            let context = &self.contexts[context.0 as usize];
            (context.space as usize, context.number)
        };
        let Native::Far(shim) = &self.spaces[space].native else { return };
        let held = shim.held();
        if held == 0 || held == number {
            return;
        }
        let owner = self.contexts.get_mut(held as u32 as usize).filter(|owner| owner.number == held);
        if let Some(owner) = owner {
            owner.xsave.clone_from(shim.held_state());
        }
        shim.let_go();
    }

    /// Records an access to guest memory: the next resume is likely to access the same address.
    #[inline]
    fn note_access(&self, addr: u64) {
        self.accessed[(addr >> 6) as usize % ACCESSES].set(addr);
    }

    /// Single-steps a guest to its next exit and records its trail. `None` if the guest is to resume without
    /// recording.
    #[cold]
    #[inline(never)]
    fn follow(&mut self, id: ContextId) -> Option<Exit> {
        if !self.spaces[self.contexts[id.0 as usize].space as usize].is_near() {
            return None;
        }
        let mut follower = self.follower.get_mut().take()?;
        let mut exit = Exit::Stepped;
        for _ in 0..trail::STEPS {
            let context = &self.contexts[id.0 as usize];
            let space = &self.spaces[context.space as usize];
            follower.steps(&context.regs, context.resume_at, space);
            exit = self.step(id);
            if exit != Exit::Stepped {
                break;
            }
        }
        if !follower.came_back() {
            *self.follower.get_mut() = Some(follower);
        }
        // A guest that cannot be stepped, or has been stepped for too long, resumes as usual.
        (!matches!(exit, Exit::Stepped | Exit::Preempted)).then_some(exit)
    }

    /// Records the exit of a guest: after a system call of a far guest, the memory staged by its process is
    /// valid.
    fn came_back(&mut self, context: ContextId, exit: Exit) {
        let space = self.contexts[context.0 as usize].space;
        let is_staged = exit == Exit::Syscall && !self.spaces[space as usize].is_near();
        self.staged = is_staged.then_some(SpaceId(space));
    }
}

impl GuestMemory for HostMachine {
    fn read(&self, space: SpaceId, addr: u64, out: &mut [u8]) -> Result<(), Errno> {
        if !self.space(space).owns(addr, out.len() as u64) {
            return Err(Errno::EFAULT);
        }
        self.note_access(addr);
        self.space(space).read(addr, out, self.staged == Some(space))
    }
    fn write(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        if !self.space(space).owns(addr, data.len() as u64) {
            return Err(Errno::EFAULT);
        }
        self.note_access(addr);
        self.space(space).write(addr, data)
    }
    fn compare_exchange_u32(&mut self, space: SpaceId, addr: u64, old: u32, new: u32) -> Result<u32, Errno> {
        if !self.space(space).owns(addr, 4) {
            return Err(Errno::EFAULT);
        }
        self.space(space).compare_exchange(addr, old, new, self.staged == Some(space))
    }
    fn read_file(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        file: NativeFile,
        offset: u64,
    ) -> Option<Result<u64, Errno>> {
        let space = self.space(space);
        if !space.is_near() || !space.owns(addr, len) {
            return None;
        }
        // SAFETY: the addresses belong to the space, so no memory of the simulator lies there.
        Some(unsafe { files::read_into(file, addr, len, offset) })
    }
    fn write_file(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        file: NativeFile,
        offset: u64,
    ) -> Option<Result<u64, Errno>> {
        let space = self.space(space);
        (space.is_near() && space.owns(addr, len)).then(|| files::write_from(file, addr, len, offset))
    }
}

/// Largest number of cache lines prefetched at once: a processor has only slightly more outstanding fetches
/// and would stall, and it fetches the remaining lines itself during a sequential read.
const MOST_PREFETCHED: usize = 8;

/// Prefetches bytes of the simulator that are about to be read.
pub fn prefetch(bytes: &[u8]) {
    let lines = bytes.len().div_ceil(CACHE_LINE).min(MOST_PREFETCHED);
    for line in 0..lines {
        fetch_line(bytes.as_ptr().wrapping_add(line * CACHE_LINE));
    }
}

impl Platform for HostMachine {
    fn prefetcher(&self) -> fn(&[u8]) {
        prefetch
    }
    fn fork_space(&mut self, space: SpaceId) -> Result<SpaceId, Errno> {
        let copy = self.space(space).fork()?;
        Ok(SpaceId(self.spaces.insert(copy) as u32))
    }
    fn create_space(&mut self, slot: u32, placement: Placement) -> Result<SpaceId, Errno> {
        let slot = self.slots.get(slot).ok_or(Errno::ENOMEM)?;
        let space = match placement {
            Placement::Near => Space::near(slot)?,
            Placement::Far => Space::far(slot)?,
            Placement::Linux => Space::linux()?,
        };
        Ok(SpaceId(self.spaces.insert(space) as u32))
    }
    fn call_ways(&self, space: SpaceId) -> CallWays {
        self.space(space).counts
    }
    fn native_reads(&self, space: SpaceId) -> Vec<NativeRead> {
        self.space(space).native_reads()
    }
    fn destroy_space(&mut self, space: SpaceId) {
        self.staged = None;
        self.spaces.remove(space.0 as usize);
    }
    fn ended_spaces(&mut self) -> Vec<SpaceId> {
        let far = self.spaces.iter().filter(|(_, space)| space.has_ended());
        far.map(|(index, _)| SpaceId(index as u32)).collect()
    }
    fn space_range(&self, space: SpaceId) -> Range<u64> {
        self.space(space).slot.usable.clone()
    }
    fn image_base(&self, space: SpaceId) -> u64 {
        self.space(space).slot.images
    }
    fn room_of_image(&mut self, space: SpaceId, file: NativeFile) -> ImageRoom {
        Rewriter::room(file.0, &self.space(space).slot)
    }
    fn beyond_slots(&self) -> Range<u64> {
        layout::BEYOND_SLOTS
    }
    fn claim_fixed(&mut self, space: SpaceId, range: Range<u64>) -> Result<(), Errno> {
        self.space_mut(space).claim(range)
    }

    fn map(
        &mut self,
        space: SpaceId,
        addr: u64,
        len: u64,
        prot: Prot,
        backing: Backing,
    ) -> Result<(), Errno> {
        self.space_mut(space).map(addr, len, prot, backing)
    }
    fn unmap(&mut self, space: SpaceId, addr: u64, len: u64) -> Result<(), Errno> {
        self.space_mut(space).unmap(addr, len)
    }
    fn protect(&mut self, space: SpaceId, addr: u64, len: u64, prot: Prot) -> Result<(), Errno> {
        self.space_mut(space).protect(addr, len, prot)
    }
    fn relocate(
        &mut self,
        space: SpaceId,
        from: u64,
        old_len: u64,
        to: u64,
        new_len: u64,
    ) -> Result<(), Errno> {
        self.space_mut(space).relocate(from, old_len, to, new_len)
    }
    fn advise(&mut self, space: SpaceId, addr: u64, len: u64, advice: i32) -> Result<(), Errno> {
        self.space_mut(space).advise(addr, len, advice)
    }
    fn resident(&mut self, space: SpaceId, addr: u64, pages: &mut [u8]) -> Result<(), Errno> {
        self.space(space).resident(addr, pages)
    }
    fn poke(&mut self, space: SpaceId, addr: u64, data: &[u8]) -> Result<(), Errno> {
        if !self.space(space).owns(addr, data.len() as u64) {
            return Err(Errno::EFAULT);
        }
        self.space_mut(space).native.poke(addr, data)
    }
    fn can_step(&self, id: ContextId) -> bool {
        let context = &*self.contexts[id.0 as usize];
        exits::can_step(context, &self.spaces[context.space as usize])
    }
    fn show_original_code(&mut self, space: SpaceId) {
        let space = self.space_mut(space);
        space.rewriter.undo(&space.native);
    }
    fn map_vdso(&mut self, space: SpaceId, addr: u64) -> Result<u64, Errno> {
        let backing = Backing::PrivateFile { file: NativeFile(vdso::file()?), offset: 0 };
        self.space_mut(space).map(addr, layout::PAGE, Prot::READ | Prot::EXEC, backing)?;
        Ok(layout::PAGE)
    }

    fn create_context(&mut self, space: SpaceId, regs: &Regs) -> ContextId {
        self.insert_context(context::new(space, regs))
    }
    fn copy_context(&mut self, from: ContextId, space: SpaceId) -> ContextId {
        let mut context = (*self.contexts[from.0 as usize]).clone();
        context.xsave.clone_from(self.vector_state(from));
        context.space = space.0;
        context.exit_rip = context::LOOK_UP;
        context.ids = context::NO_IDS;
        self.insert_context(context)
    }
    fn destroy_context(&mut self, context: ContextId) {
        self.contexts.remove(context.0 as usize);
    }
    fn regs(&self, context: ContextId) -> &Regs {
        context::kernel_regs(&self.contexts[context.0 as usize])
    }
    fn regs_mut(&mut self, context: ContextId) -> &mut Regs {
        context::kernel_regs_mut(&mut self.contexts[context.0 as usize])
    }
    fn xstate(&self, context: ContextId, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.vector_state(context).shown());
    }
    fn set_xstate(&mut self, context: ContextId, state: &[u8]) {
        if let Some(holder) = self.holder(&self.contexts[context.0 as usize]) {
            holder.let_go();
        }
        self.contexts[context.0 as usize].xsave.load_shown(state, cpu::xsave_layout());
    }
    fn resume(&mut self, context: ContextId) -> Exit {
        self.resume_with_clocks(context, &mut VdsoData::default())
    }
    fn resume_with_clocks(&mut self, id: ContextId, clocks: &mut VdsoData) -> Exit {
        if self.follower.get_mut().is_some()
            && let Some(exit) = self.follow(id)
        {
            return exit;
        }
        self.bring_back(id);
        let context = &mut *self.contexts[id.0 as usize];
        let VdsoData { realtime_ns, monotonic_ns, boottime_ns, allowed, made } = *clocks;
        let mut readings = Readings { realtime_ns, monotonic_ns, boottime_ns, allowed, made };
        let exit = exits::resume(context, &mut self.spaces[context.space as usize], &mut readings);
        (clocks.allowed, clocks.made) = (readings.allowed, readings.made);
        self.came_back(id, exit);
        exit
    }
    fn footprint(&self, id: ContextId, footprint: &mut Footprint) {
        footprint.object(self);
        footprint.start(self.contexts.get(0).map_or(ptr::null(), ptr::from_ref), 1);
        let context = &*self.contexts[id.0 as usize];
        footprint.bytes(ptr::from_ref(context) as usize, offset_of!(Context, xsave) + LEGACY_STATE);
        let space = &self.spaces[context.space as usize];
        footprint.object(&space.native);
        footprint.object(&space.slot);
        footprint.object(&space.counts);
        if !space.is_near() {
            return;
        }
        let regs = &context.regs;
        let pointers = [
            regs.rsp,
            regs.rsp.wrapping_add(64),
            regs.rip,
            regs.fs_base,
            regs.rdi,
            regs.rsi,
            regs.rbp,
            regs.rbx,
        ];
        for at in pointers.into_iter().chain(self.accessed.iter().map(Cell::get)) {
            if space.owns(at, 1) {
                footprint.bytes(at as usize, 1);
            }
        }
        self.told.set(self.told.get().saturating_add(1));
        let may_follow = self.told.get() > STARTED && self.follower.borrow().is_none();
        if let Some(follower) = trail::tell(regs, space, may_follow, footprint) {
            *self.follower.borrow_mut() = Some(Box::new(follower));
        }
    }
    fn answered(&mut self, id: ContextId) -> VdsoCounts {
        match &self.spaces[self.contexts[id.0 as usize].space as usize].native {
            Native::Far(shim) => shim.answers(),
            Native::Near => worker::answers(),
        }
    }
    fn tell_ids(&mut self, id: ContextId, ids: &Ids) {
        self.contexts[id.0 as usize].ids = *ids;
    }
    fn step(&mut self, id: ContextId) -> Exit {
        self.bring_back(id);
        let context = &mut *self.contexts[id.0 as usize];
        let exit = exits::step(context, &mut self.spaces[context.space as usize]);
        self.came_back(id, exit);
        exit
    }
}

/// The machine's files do not depend on the host.
impl HostFiles for HostMachine {
    fn open(&mut self, path: &Path, how: OpenHow) -> Result<NativeFile, Errno> {
        let file = files::open(path, how)?;
        if !how.write && !self.files_read.contains(path) {
            self.files_read.insert(path.to_owned());
        }
        Ok(file)
    }
    fn files_read(&self) -> Vec<std::path::PathBuf> {
        self.files_read.iter().cloned().collect()
    }
    fn close(&mut self, file: NativeFile) {
        files::close(file);
    }
    fn read_at(&mut self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        files::read_at(file, offset, out)
    }
    fn peek_at(&self, file: NativeFile, offset: u64, out: &mut [u8]) -> Result<usize, Errno> {
        files::read_at(file, offset, out)
    }
    fn write_at(&mut self, file: NativeFile, offset: u64, data: &[u8]) -> Result<(), Errno> {
        self.staged = None;
        files::write_at(file, offset, data)
    }
    fn stat_file(&mut self, file: NativeFile) -> Result<NativeStat, Errno> {
        files::stat_file(file)
    }
    fn file_share(&self) -> usize {
        self.file_share
    }
    fn punch(&mut self, file: NativeFile, start: u64, end: u64) -> Result<(), Errno> {
        self.staged = None;
        files::punch(file, start, end)
    }
    fn set_len(&mut self, file: NativeFile, len: u64) -> Result<(), Errno> {
        self.staged = None;
        files::set_len(file, len)
    }
    fn stat(&mut self, path: &Path) -> Result<NativeStat, Errno> {
        files::stat(path)
    }
    fn read_link(&mut self, path: &Path) -> Result<Vec<u8>, Errno> {
        files::read_link(path)
    }
    fn read_dir(&mut self, path: &Path) -> Result<Vec<NativeDirEntry>, Errno> {
        files::read_dir(path)
    }
    fn create_dir(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        files::create_dir(path, mode)
    }
    fn create_symlink(&mut self, target: &[u8], path: &Path) -> Result<(), Errno> {
        files::create_symlink(target, path)
    }
    fn create_link(&mut self, existing: &Path, path: &Path) -> Result<(), Errno> {
        files::create_link(existing, path)
    }
    fn remove_file(&mut self, path: &Path) -> Result<(), Errno> {
        files::remove_file(path)
    }
    fn remove_dir(&mut self, path: &Path) -> Result<(), Errno> {
        files::remove_dir(path)
    }
    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), Errno> {
        files::rename(from, to)
    }
    fn set_mode(&mut self, path: &Path, mode: u32) -> Result<(), Errno> {
        files::set_mode(path, mode)
    }
    fn shared_memory(&mut self, len: u64) -> Result<NativeFile, Errno> {
        files::shared_memory(len)
    }
    fn read_stream(&mut self, stream: u8, out: &mut [u8]) -> Result<usize, Errno> {
        files::read_stream(stream, out)
    }
    fn write_stream(&mut self, stream: u8, data: &[u8]) -> Result<(), Errno> {
        files::write_stream(stream, data)
    }
}
