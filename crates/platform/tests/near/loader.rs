//! Loads real programs and makes their system calls natively, to the extent that a program with one thread
//! needs them: a test of the platform with code that was not written for it.

use crate::fixture::HOSTS;
use belljar_linux_abi::Errno;
use belljar_machine::{
    Backing, Exit, GuestMemory, HostFiles, NativeFile, OpenHow, Placement, Platform, Prot, Regs, SpaceId,
};
use belljar_platform::HostMachine;
use std::path::{Path, PathBuf};

const PAGE: u64 = 4096;
const HEAP: u64 = 256 << 20;

pub struct Program {
    pub machine: HostMachine,
    pub space: SpaceId,
    path: PathBuf,
    /// New mappings are allocated below this address.
    top: u64,
    heap: u64,
    brk: u64,
    pub output: Vec<u8>,
    /// Number of system calls made.
    pub calls: u64,
}

struct Image {
    base: u64,
    entry: u64,
    headers: u64,
    header_count: u64,
    end: u64,
    interpreter: Option<PathBuf>,
}

fn field(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut out = [0; 8];
    out[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(out)
}

impl Program {
    /// Runs `args[0]` to its end; returns it and its exit status.
    pub fn run(host: u32, args: &[&str]) -> (Program, i32) {
        belljar_platform::init().expect("this machine can run guests");
        let mut machine = HostMachine::new(host, HOSTS);
        let space = machine.create_space(0, Placement::Near).unwrap();
        let top = machine.space_range(space).end;
        let path = std::fs::canonicalize(args[0]).unwrap();
        let mut program = Program {
            machine,
            space,
            path: path.clone(),
            top,
            heap: 0,
            brk: 0,
            output: Vec::new(),
            calls: 0,
        };
        let stack =
            program.map_new(8 << 20, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap() + (8 << 20);
        let image = program.load(&path, true);
        let interpreter = image.interpreter.clone().map(|path| program.load(&path, false));
        program.heap = image.end + PAGE;
        if image.base == 0 {
            program.machine.claim_fixed(program.space, program.heap..program.heap + HEAP).unwrap();
        }
        let rw = Prot::READ | Prot::WRITE;
        program.machine.map(space, program.heap, HEAP, rw, Backing::Anonymous).unwrap();
        program.brk = program.heap;
        let rsp = program.stack(stack, args, &image, interpreter.as_ref());
        let rip = interpreter.map_or(image.entry, |i| i.entry);
        let status = program.interpret(Regs { rip, rsp, ..Regs::default() });
        (program, status)
    }

    fn map_new(&mut self, len: u64, prot: Prot, backing: Backing) -> Result<u64, Errno> {
        let at = self.top - len.next_multiple_of(PAGE);
        self.machine.map(self.space, at, len, prot, backing)?;
        self.top = at - PAGE;
        Ok(at)
    }

    fn load(&mut self, path: &Path, is_program: bool) -> Image {
        let path = std::fs::canonicalize(path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let file = self.machine.open(&path, OpenHow::default()).unwrap();
        let (at, count) = (field(&bytes, 32, 8) as usize, field(&bytes, 56, 2) as usize);
        let headers: Vec<[u64; 6]> = (0..count)
            .map(|n| {
                let h = at + n * 56;
                // Type, flags, offset, address, size in the file, size in memory.
                [
                    field(&bytes, h, 4),
                    field(&bytes, h + 4, 4),
                    field(&bytes, h + 8, 8),
                    field(&bytes, h + 16, 8),
                    field(&bytes, h + 32, 8),
                    field(&bytes, h + 40, 8),
                ]
            })
            .collect();
        let loads: Vec<_> = headers.iter().filter(|h| h[0] == 1).collect();
        let end = loads.iter().map(|h| h[3] + h[5]).max().unwrap().next_multiple_of(PAGE);
        let fixed = field(&bytes, 16, 2) == 2;
        let base = if fixed {
            let start = loads.iter().map(|h| h[3]).min().unwrap() & !(PAGE - 1);
            self.machine.claim_fixed(self.space, start..end).unwrap();
            0
        } else if is_program {
            self.machine.space_range(self.space).start
        } else {
            self.top -= end + PAGE;
            self.top + PAGE
        };
        for &&[_, flags, offset, address, in_file, in_memory] in &loads {
            let start = (base + address) & !(PAGE - 1);
            let shift = address % PAGE;
            let prot = Prot::from_bits_truncate((flags & 2 | (flags & 1) << 2) as u32)
                | if flags & 4 != 0 { Prot::READ } else { Prot::empty() };
            let backing = Backing::PrivateFile { file, offset: offset - shift };
            self.machine.map(self.space, start, in_file + shift, prot, backing).unwrap();
            let file_end = base + address + in_file;
            let memory_end = base + address + in_memory;
            if memory_end > file_end && prot.contains(Prot::WRITE) {
                let page_end = file_end.next_multiple_of(PAGE);
                self.machine.write(self.space, file_end, &vec![0; (page_end - file_end) as usize]).unwrap();
                if memory_end > page_end {
                    self.machine
                        .map(self.space, page_end, memory_end - page_end, prot, Backing::Anonymous)
                        .unwrap();
                }
            }
        }
        self.machine.close(file);
        let interpreter = headers.iter().find(|h| h[0] == 3).map(|h| {
            let name = &bytes[h[2] as usize..(h[2] + h[4]) as usize - 1];
            PathBuf::from(std::str::from_utf8(name).unwrap())
        });
        let in_first = loads.iter().find(|h| h[2] == 0).unwrap();
        Image {
            base,
            entry: base + field(&bytes, 24, 8),
            headers: base + in_first[3] + at as u64,
            header_count: count as u64,
            end: base + end,
            interpreter,
        }
    }

    fn stack(&mut self, top: u64, args: &[&str], image: &Image, interpreter: Option<&Image>) -> u64 {
        let mut at = top - 64;
        let (space, machine) = (self.space, &mut self.machine);
        let mut put = |bytes: &[u8]| {
            at -= bytes.len() as u64 + 1;
            machine.write(space, at, bytes).unwrap();
            at
        };
        let random = put(&[7; 16]);
        let name = put(self.path.to_str().unwrap().as_bytes());
        let environment = [put(b"LANG=C"), put(b"PATH=/usr/bin:/bin")];
        let args: Vec<u64> = args.iter().map(|a| put(a.as_bytes())).collect();
        self.top -= PAGE;
        let vdso = self.top;
        self.machine.map_vdso(space, vdso).unwrap();
        self.top -= PAGE;
        let mut words = vec![args.len() as u64];
        words.extend(&args);
        words.push(0);
        words.extend(environment);
        words.push(0);
        for (tag, value) in [
            (33, vdso),
            (3, image.headers),
            (4, 56),
            (5, image.header_count),
            (6, PAGE),
            (7, interpreter.map_or(0, |i| i.base)),
            (9, image.entry),
            (11, 0),
            (12, 0),
            (13, 0),
            (14, 0),
            (16, 0x178b_fbff),
            (17, 100),
            (23, 0),
            (25, random),
            (31, name),
            (0, 0),
        ] {
            words.extend([tag, value]);
        }
        let rsp = (at - words.len() as u64 * 8) & !15;
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.machine.write(space, rsp, &bytes).unwrap();
        rsp
    }

    fn interpret(&mut self, regs: Regs) -> i32 {
        let thread = self.machine.create_context(self.space, &regs);
        loop {
            match self.machine.resume(thread) {
                Exit::Syscall => {}
                Exit::ReadTsc { .. } => {
                    self.machine.regs_mut(thread).rax = self.calls;
                    self.machine.regs_mut(thread).rdx = 0;
                    continue;
                }
                Exit::Preempted => continue,
                other => panic!("{other:?} with {:x?}", self.machine.regs(thread)),
            }
            self.calls += 1;
            let r = *self.machine.regs(thread);
            let args = [r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9];
            if matches!(r.rax as i64, libc::SYS_exit | libc::SYS_exit_group) {
                return r.rdi as i32;
            }
            if r.rax as i64 == libc::SYS_arch_prctl && r.rdi == 0x1002 {
                self.machine.regs_mut(thread).fs_base = r.rsi;
            }
            let result = self.call(r.rax as i64, args);
            self.machine.regs_mut(thread).rax = result.unwrap_or_else(Errno::as_return);
        }
    }

    fn call(&mut self, nr: i64, args: [u64; 6]) -> Result<u64, Errno> {
        let [a, b, c, d, e, f] = args;
        let prot = Prot::from_bits_truncate(c as u32);
        match nr {
            libc::SYS_arch_prctl => {
                if a == 0x1002 {
                    Ok(0)
                } else {
                    Err(Errno::EINVAL)
                }
            }
            libc::SYS_brk => {
                if (self.heap..self.heap + HEAP).contains(&a) {
                    self.brk = a;
                }
                Ok(self.brk)
            }
            libc::SYS_mmap => {
                let file = NativeFile(e as i32);
                let backing = match d as i32 {
                    flags if flags & libc::MAP_ANONYMOUS != 0 => Backing::Anonymous,
                    flags if flags & libc::MAP_SHARED != 0 => Backing::SharedFile { file, offset: f },
                    _ => Backing::PrivateFile { file, offset: f },
                };
                if d as i32 & libc::MAP_FIXED != 0 {
                    return self.machine.map(self.space, a, b, prot, backing).map(|()| a);
                }
                self.map_new(b, prot, backing)
            }
            libc::SYS_munmap => self.machine.unmap(self.space, a, b).map(|()| 0),
            libc::SYS_mprotect => self.machine.protect(self.space, a, b, prot).map(|()| 0),
            libc::SYS_madvise => self.machine.advise(self.space, a, b, c as i32).map(|()| 0),
            libc::SYS_mremap => {
                let to = self.top - c.next_multiple_of(PAGE);
                self.top = to - PAGE;
                self.machine.relocate(self.space, a, b, to, c).map(|()| to)
            }
            libc::SYS_write | libc::SYS_writev if a == 1 => self.print(nr, b, c),
            libc::SYS_close | libc::SYS_ioctl if a <= 2 => {
                if nr == libc::SYS_close {
                    Ok(0)
                } else {
                    Err(Errno::ENOTTY)
                }
            }
            libc::SYS_readlink => {
                let path = self.string(a);
                let own = self.path.to_str().unwrap().as_bytes().to_vec();
                let target =
                    if path == b"/proc/self/exe" { own } else { native(nr, args).map(|_| Vec::new())? };
                if target.is_empty() {
                    return native(nr, args);
                }
                let len = target.len().min(c as usize);
                self.machine.write(self.space, b, &target[..len]).map(|()| len as u64)
            }
            libc::SYS_clone
            | libc::SYS_clone3
            | libc::SYS_fork
            | libc::SYS_vfork
            | libc::SYS_execve
            | libc::SYS_rseq => Err(Errno::ENOSYS),
            libc::SYS_rt_sigaction
            | libc::SYS_rt_sigprocmask
            | libc::SYS_sigaltstack
            | libc::SYS_set_robust_list => Ok(0),
            libc::SYS_set_tid_address => Ok(1),
            _ => native(nr, args),
        }
    }

    fn string(&self, addr: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let mut byte = [0];
        while self.machine.read(self.space, addr + out.len() as u64, &mut byte).is_ok() && byte[0] != 0 {
            out.push(byte[0]);
        }
        out
    }

    fn print(&mut self, nr: i64, at: u64, len: u64) -> Result<u64, Errno> {
        let mut parts = vec![(at, len)];
        if nr == libc::SYS_writev {
            let mut words = vec![0; len as usize * 16];
            self.machine.read(self.space, at, &mut words)?;
            parts = words.chunks(16).map(|w| (field(w, 0, 8), field(w, 8, 8))).collect();
        }
        let mut total = 0;
        for (at, len) in parts {
            let mut bytes = vec![0; len as usize];
            self.machine.read(self.space, at, &mut bytes)?;
            self.output.extend(bytes);
            total += len;
        }
        Ok(total)
    }
}

/// The guest's pointers are pointers of this process, so its calls can be made unchanged.
fn native(nr: i64, [a, b, c, d, e, f]: [u64; 6]) -> Result<u64, Errno> {
    // SAFETY: depends on the guest; the programs of these tests are harmless.
    match unsafe { libc::syscall(nr, a, b, c, d, e, f) } {
        -1 => Err(std::io::Error::last_os_error().into()),
        value => Ok(value as u64),
    }
}
