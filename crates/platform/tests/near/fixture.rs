//! Loads a blob of instructions as a guest's file-backed text and runs it.

use belljar_machine::{
    Backing, ContextId, Exit, GuestMemory, HostFiles, NativeFile, OpenHow, Placement, Platform, Prot, Regs,
    SpaceId,
};
use belljar_platform::HostMachine;
use std::sync::atomic::{AtomicU32, Ordering};

/// The machine code between two labels of a `global_asm!` block, which defines them as
/// `belljar_test_NAME` and `belljar_test_NAME_end`.
#[macro_export]
macro_rules! blob {
    ($name:ident, $($line:expr),+ $(,)?) => {{
        mod code {
            std::arch::global_asm!(
                concat!("belljar_test_", stringify!($name), ":"),
                $($line,)+
                concat!("belljar_test_", stringify!($name), "_end:"),
            );
        }
        unsafe extern "C" {
            #[link_name = concat!("belljar_test_", stringify!($name))]
            static START: u8;
            #[link_name = concat!("belljar_test_", stringify!($name), "_end")]
            static END: u8;
        }
        // SAFETY: both labels are in the text of this program, END behind START.
        unsafe {
            let start = &raw const START;
            std::slice::from_raw_parts(start, (&raw const END).offset_from(start) as usize)
        }
    }};
}

/// Tests run in one process, so each takes another host.
static NEXT_HOST: AtomicU32 = AtomicU32::new(0);
pub const HOSTS: u32 = 128;
pub const FIRST_PROGRAM_HOST: u32 = 96;

pub const STACK: u64 = 64 << 10;

pub struct Guest {
    pub machine: HostMachine,
    pub space: SpaceId,
    /// Address of the blob.
    pub text: u64,
    /// The end of a stack of [`STACK`] bytes.
    pub stack: u64,
}

impl Guest {
    /// Loads `code` into a space of its own, as the text of a file.
    pub fn new(code: &[u8]) -> Guest {
        Guest::load(code, true, Placement::Near)
    }

    /// The same in anonymous memory, like JIT code: never rewritten.
    pub fn anonymous(code: &[u8]) -> Guest {
        Guest::load(code, false, Placement::Near)
    }

    /// The same as text of a file, near or far.
    #[allow(dead_code)]
    pub fn placed(code: &[u8], placement: Placement) -> Guest {
        Guest::load(code, true, placement)
    }

    /// The same in anonymous memory, near or far.
    #[allow(dead_code)]
    pub fn anonymous_placed(code: &[u8], placement: Placement) -> Guest {
        Guest::load(code, false, placement)
    }

    fn load(code: &[u8], as_file: bool, placement: Placement) -> Guest {
        belljar_platform::init().expect("this machine can run guests");
        // The last hosts belong to programs.rs; each host has more than two slots.
        let number = NEXT_HOST.fetch_add(1, Ordering::Relaxed);
        let host = number % FIRST_PROGRAM_HOST;
        let mut machine = HostMachine::new(host, HOSTS);
        let space = (0..8).find_map(|slot| machine.create_space(slot, placement).ok()).expect("a free slot");
        let text = machine.space_range(space).start;
        let len = (code.len() as u64).next_multiple_of(4096);
        if as_file {
            let file = text_file(&mut machine, code, number);
            let backing = Backing::PrivateFile { file, offset: 0 };
            machine.map(space, text, len, Prot::READ | Prot::EXEC, backing).unwrap();
            machine.close(file);
        } else {
            machine.map(space, text, len, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
            machine.write(space, text, code).unwrap();
            machine.protect(space, text, len, Prot::READ | Prot::EXEC).unwrap();
        }
        let stack = machine.space_range(space).end - (1 << 20);
        machine.map(space, stack - STACK, STACK, Prot::READ | Prot::WRITE, Backing::Anonymous).unwrap();
        Guest { machine, space, text, stack }
    }

    /// A thread that starts at the blob's first instruction.
    pub fn thread(&mut self) -> ContextId {
        let regs = Regs { rip: self.text, rsp: self.stack, ..Regs::default() };
        self.machine.create_context(self.space, &regs)
    }

    pub fn regs(&mut self, thread: ContextId) -> &mut Regs {
        self.machine.regs_mut(thread)
    }

    /// `len` bytes of the text at `offset`.
    pub fn text_bytes(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut out = vec![0; len];
        self.machine.read(self.space, self.text + offset, &mut out).unwrap();
        out
    }

    /// The registers with addresses relative to the guest's own text and stack.
    pub fn relative_regs(&self, thread: ContextId) -> Regs {
        let mut regs = *self.machine.regs(thread);
        regs.rip = regs.rip.wrapping_sub(self.text);
        regs.rcx = regs.rcx.wrapping_sub(self.text);
        regs.rsp = regs.rsp.wrapping_sub(self.stack);
        regs
    }

    /// Resumes, expects a system call and returns its number.
    pub fn syscall(&mut self, thread: ContextId) -> u64 {
        match self.machine.resume(thread) {
            Exit::Syscall => self.machine.regs(thread).rax,
            other => panic!("{other:?} at {:#x}", self.machine.regs(thread).rip - self.text),
        }
    }

    /// Single-steps: `None` after an instruction; at a call, returns its number and answers 7.
    pub fn step_or_answer(&mut self, thread: ContextId) -> Option<u64> {
        self.regs(thread).rflags |= 0x100;
        match self.machine.resume(thread) {
            Exit::Syscall => Some(std::mem::replace(&mut self.regs(thread).rax, 7)),
            Exit::Fault(fault) => {
                assert_eq!(fault.signal, libc::SIGTRAP);
                None
            }
            other => panic!("{other:?} at {:#x}", self.machine.regs(thread).rip - self.text),
        }
    }

    pub fn read_u64(&self, addr: u64) -> u64 {
        let mut out = [0; 8];
        self.machine.read(self.space, addr, &mut out).unwrap();
        u64::from_le_bytes(out)
    }
}

fn text_file(machine: &mut HostMachine, code: &[u8], number: u32) -> NativeFile {
    let path = std::env::temp_dir().join(format!("belljar-near-{}-{number}", std::process::id()));
    let how = OpenHow { write: true, create: Some(0o600), exclusive: true, truncate: false };
    let file = machine.open(&path, how).unwrap();
    machine.remove_file(&path).unwrap();
    machine.write_at(file, 0, code).unwrap();
    machine.set_len(file, (code.len() as u64).next_multiple_of(4096)).unwrap();
    file
}
