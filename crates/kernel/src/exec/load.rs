//! Mapping an image and its interpreter into a fresh address space.

use crate::files::executable::Executable;
use crate::host::Host;
use crate::ids::{MmKey, ProcessKey};
use crate::mm::map::{MapRequest, MapSource};
use belljar_linux_abi::Errno;
use belljar_machine::elf::{ElfError, ElfHeader, HEADER_LEN, Layout, Segment};
use belljar_machine::initial_stack::InitialStack;
use belljar_machine::{ImageRoom, Machine, Placement, Prot, Regs, instrumented};
use belljar_objects::namespaces::IdKind;
use belljar_objects::space::{AddressSpace, Marks, PAGE, Vma, VmaKind, page_down, page_up};
use std::sync::Arc;

/// Error of starting a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecError {
    /// Error code of `execve`.
    pub errno: Errno,
    /// Readable reason, worded to follow the program's name.
    pub reason: String,
}

impl ExecError {
    /// Creates an error with the given reason.
    pub fn new(errno: Errno, reason: impl Into<String>) -> ExecError {
        ExecError { errno, reason: reason.into() }
    }
}

impl From<Errno> for ExecError {
    fn from(errno: Errno) -> ExecError {
        let reason = match errno {
            Errno::ENOENT => "there is no such file".into(),
            Errno::EACCES => "it is not an executable file".into(),
            Errno::ENOMEM => "no room is left in the simulator's memory for one more process near: Linux lets it have as \
                              many mappings as `sysctl vm.max_map_count` says, of which a static program takes 12, a \
                              dynamic one 30 and more. Raise that, link statically, or run some with `placement: far`"
                .into(),
            Errno::EAGAIN | Errno::EMFILE | Errno::ENFILE => "the simulator cannot start one more native process for it: \
                              see `ulimit -u` (processes) and `ulimit -n` (descriptors, of which each far program takes one)"
                .into(),
            other => format!("it cannot be executed ({other})"),
        };
        ExecError { errno, reason }
    }
}

impl From<ElfError> for ExecError {
    fn from(error: ElfError) -> ExecError {
        ExecError { errno: error.errno(), reason: format!("it is {error}") }
    }
}

/// Executable image that has been read and can be mapped.
pub struct Image {
    pub(super) file: Executable,
    header: ElfHeader,
    layout: Layout,
    /// See [`instrumented::needs_linux_layout`].
    needs_linux_layout: bool,
}

/// Program to be mapped by [`Host::map_program`].
pub struct Program {
    /// Image of the program itself.
    pub(super) image: Image,
    /// Image of its `PT_INTERP`, if it has one.
    pub(super) interpreter: Option<Image>,
    /// Arguments.
    pub args: Vec<Vec<u8>>,
    /// Environment variables, each `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// Path by which the program was started.
    pub path: Vec<u8>,
}

const STACK_SIZE: u64 = 8 << 20;
/// Unmapped bytes below the stack, like `stack_guard_gap` in Linux.
const STACK_GUARD: u64 = 1 << 20;

const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_PAGESZ: u64 = 6;
const AT_BASE: u64 = 7;
const AT_FLAGS: u64 = 8;
const AT_ENTRY: u64 = 9;
const AT_UID: u64 = 11;
const AT_EUID: u64 = 12;
const AT_GID: u64 = 13;
const AT_EGID: u64 = 14;
const AT_HWCAP: u64 = 16;
const AT_CLKTCK: u64 = 17;
const AT_SECURE: u64 = 23;
const AT_HWCAP2: u64 = 26;
const AT_SYSINFO_EHDR: u64 = 33;
const AT_MINSIGSTKSZ: u64 = 51;
/// EDX of CPUID leaf 1 of the baseline: x87 to SSE2 and the other features of every x86-64 CPU.
const HWCAP_BASELINE: u64 = 0x178b_fbff;
/// A signal frame with x87, SSE and AVX state, rounded up.
const MIN_SIGNAL_STACK: u64 = 2_048;

impl Host {
    /// Creates an address space with the program mapped; returns it and the initial registers.
    pub(super) fn map_program(
        &mut self,
        process: ProcessKey,
        program: &Program,
    ) -> Result<(MmKey, Regs), ExecError> {
        let placement = if program.image.needs_linux_layout {
            Placement::Linux
        } else {
            self.processes[process.0].placement.unwrap_or(Placement::Near)
        };
        let mm = self.create_mm(placement)?;
        match self.fill_mm(process, mm, program) {
            Ok(regs) => Ok((mm, regs)),
            Err(error) => {
                self.release_mm(process, mm);
                Err(error)
            }
        }
    }

    pub(super) fn create_mm(&mut self, placement: Placement) -> Result<MmKey, Errno> {
        let slot = (0..).find(|slot| !self.slots_in_use.contains_key(slot)).ok_or(Errno::ENOMEM)?;
        let space = self.machine.create_space(slot, placement)?;
        crate::preemption::keep_code(self, space);
        self.slots_in_use.insert(slot, 1);
        let mut mm = AddressSpace::new(space, slot, self.machine.space_range(space));
        mm.as_on_linux = placement == Placement::Linux;
        Ok(MmKey(self.spaces.insert(mm)))
    }

    fn fill_mm(&mut self, process: ProcessKey, mm: MmKey, program: &Program) -> Result<Regs, ExecError> {
        let range = self.mm(mm).range.clone();
        let top = range.end;
        let stack = top - STACK_SIZE..top;
        self.mm(mm).stack = stack.clone();
        self.mm(mm).mmap_top = stack.start - STACK_GUARD;

        let image = &program.image;
        let bias = self.map_main_image(mm, image)?;
        let mut entry = image.header.entry.wrapping_add(bias);
        let program_entry = entry;
        let mut interpreter_base = 0;
        if let Some(interpreter) = &program.interpreter {
            let extent = interpreter.layout.extent();
            let space = self.mm(mm).space;
            let room = self.machine.room_of_image(space, interpreter.file.native);
            let at = self.mm(mm).free_below_top(extent.end - extent.start, &room)?;
            interpreter_base = at.wrapping_sub(extent.start);
            self.map_segments(mm, interpreter, interpreter_base, &room)?;
            entry = interpreter.header.entry.wrapping_add(interpreter_base);
        }
        let vdso = self.map_vdso(mm)?;
        let mut prot = Prot::READ | Prot::WRITE;
        prot.set(Prot::EXEC, image.layout.executable_stack);
        self.map_pages(mm, stack, MapRequest::anonymous(prot, "[stack]"))?;

        let phdr = image.layout.address_of_offset(image.header.program_headers.start).unwrap_or(0);
        let mut random = [0; 16];
        self.random.fill(&mut random);
        let ids = &self.processes[process.0].credentials;
        let shown = |kind, id| u64::from(self.processes.shown_id(process, kind, id));
        let auxiliary = [
            (AT_SYSINFO_EHDR, vdso),
            (AT_HWCAP, HWCAP_BASELINE),
            (AT_PAGESZ, PAGE),
            (AT_CLKTCK, 100),
            (AT_PHDR, phdr.wrapping_add(bias)),
            (AT_PHENT, 56),
            (AT_PHNUM, image.header.count()),
            (AT_BASE, interpreter_base),
            (AT_FLAGS, 0),
            (AT_ENTRY, program_entry),
            (AT_UID, shown(IdKind::User, ids.ruid)),
            (AT_EUID, shown(IdKind::User, ids.euid)),
            (AT_GID, shown(IdKind::Group, ids.rgid)),
            (AT_EGID, shown(IdKind::Group, ids.egid)),
            (AT_SECURE, u64::from(self.processes[process.0].attributes.secure)),
            (AT_HWCAP2, 0),
            (AT_MINSIGSTKSZ, MIN_SIGNAL_STACK),
        ];
        let initial = InitialStack {
            args: &program.args,
            environment: &program.environment,
            path: &program.path,
            random,
            auxiliary: &auxiliary,
        };
        let (rsp, bytes, auxv) = initial.build(top);
        self.mm(mm).auxv = auxv;
        self.mm(mm).executes = Some(image.file.identity);
        let space = self.mm(mm).space;
        self.machine.write(space, rsp, &bytes)?;
        Ok(Regs { rip: entry, rsp, rflags: 0x202, ..Regs::default() })
    }

    /// Maps the program's own image with the heap after it; returns the load bias.
    fn map_main_image(&mut self, mm: MmKey, image: &Image) -> Result<u64, ExecError> {
        let extent = image.layout.extent();
        let (space, as_on_linux) = (self.mm(mm).space, self.mm(mm).as_on_linux);
        let image_base = self.machine.image_base(space);
        let (mut heap, mut room) = (image_base, ImageRoom::ANY);
        let bias = if image.header.fixed {
            self.machine.claim_fixed(space, extent.clone()).map_err(|errno| {
                let reason = "it must be loaded at fixed addresses which are not there for programs (build it \
                              position-independent)";
                ExecError::new(errno, reason)
            })?;
            if as_on_linux {
                heap = extent.end;
            }
            0
        } else {
            room = self.machine.room_of_image(space, image.file.native);
            let base = room.above(image_base).next_multiple_of(image.layout.align());
            heap = base + (extent.end - extent.start);
            base.wrapping_sub(extent.start)
        };
        self.map_segments(mm, image, bias, &room)?;
        self.mm(mm).brk = heap..heap;
        Ok(bias)
    }

    fn map_segments(
        &mut self,
        mm: MmKey,
        image: &Image,
        bias: u64,
        room: &ImageRoom,
    ) -> Result<(), ExecError> {
        let path: Arc<[u8]> = Arc::from(image.file.path.as_slice());
        // If a room is requested, mapping the text may also map the other read-only segments.
        let early = |segment: &&Segment| *room != ImageRoom::ANY && segment.prot.contains(Prot::EXEC);
        let segments = &image.layout.segments;
        for segment in segments.iter().filter(early).chain(segments.iter().filter(|s| !early(s))) {
            self.map_segment(mm, image, segment, bias, &path)?;
        }
        self.mm(mm).keep_room(image.layout.extent().start.wrapping_add(bias), room);
        Ok(())
    }

    fn map_segment(
        &mut self,
        mm: MmKey,
        image: &Image,
        segment: &Segment,
        bias: u64,
        path: &Arc<[u8]>,
    ) -> Result<(), Errno> {
        let start = segment.vaddr.wrapping_add(bias);
        let first = page_down(start);
        let file_end = start + segment.file_size;
        let mapped_end = if segment.file_size > 0 { page_up(file_end)? } else { first };
        let end = page_up(start + segment.mem_size)?;
        if mapped_end > first {
            let source = MapSource {
                native: image.file.native,
                offset: page_down(segment.offset),
                path: path.clone(),
                identity: image.file.identity,
                file: None,
                may_write: true,
            };
            let request = MapRequest {
                prot: segment.prot,
                shared: false,
                source: Some(source),
                may_write: true,
                label: "",
            };
            self.map_pages(mm, first..mapped_end, request)?;
            // The rest of the last file page is zeroed where the mapping is writable.
            if segment.mem_size > segment.file_size
                && segment.prot.contains(Prot::WRITE)
                && file_end < mapped_end
            {
                let space = self.mm(mm).space;
                self.machine.write(space, file_end, &vec![0; (mapped_end - file_end) as usize])?;
            }
        }
        if end > mapped_end {
            self.map_pages(mm, mapped_end..end, MapRequest::anonymous(segment.prot, ""))?;
        }
        Ok(())
    }

    fn map_vdso(&mut self, mm: MmKey) -> Result<u64, Errno> {
        const ROOM: u64 = 2 * PAGE;
        let at = self.mm(mm).free_below_top(ROOM, &ImageRoom::ANY)?;
        let space = self.mm(mm).space;
        let len = page_up(self.machine.map_vdso(space, at)?)?;
        let kind = VmaKind::Anonymous("[vdso]");
        let prot = Prot::READ | Prot::EXEC;
        self.mm(mm).insert(Vma {
            start: at,
            end: at + len,
            kept_below: 0,
            prot,
            shared: false,
            may_write: true,
            marks: Marks::empty(),
            kind,
        });
        self.mm(mm).vdso = at;
        Ok(at)
    }
}

/// Path in an image's `PT_INTERP`, if it has one.
pub(super) fn interpreter_path(
    machine: &mut dyn Machine,
    image: &Image,
) -> Result<Option<Vec<u8>>, ExecError> {
    let Some(range) = image.layout.interpreter.clone() else { return Ok(None) };
    let len = (range.end - range.start) as usize;
    if !(2..=4_096).contains(&len) {
        return Err(ElfError::Malformed("its interpreter's name has no sensible length").into());
    }
    let mut path = vec![0; len];
    machine.read_at(image.file.native, range.start, &mut path)?;
    path.truncate(path.iter().position(|b| *b == 0).unwrap_or(len));
    Ok(Some(path))
}

/// Reads the headers of `file` and checks that it can run.
pub(super) fn read_image(machine: &mut dyn Machine, file: Executable) -> Result<Image, ExecError> {
    let mut start = [0; HEADER_LEN];
    let got = machine.read_at(file.native, 0, &mut start)?;
    let header = ElfHeader::parse(&start[..got])?;
    let range = header.program_headers.clone();
    let mut headers = vec![0; (range.end - range.start) as usize];
    if machine.read_at(file.native, range.start, &mut headers)? < headers.len() {
        return Err(ElfError::Malformed("its program headers lie outside the file").into());
    }
    let layout = Layout::parse(&headers, file.size)?;
    let needs_linux_layout = instrumented::needs_linux_layout(machine, file.native, &start, &layout);
    Ok(Image { file, header, layout, needs_linux_layout })
}
