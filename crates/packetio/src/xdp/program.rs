//! The XDP program that hands a queue's frames to a socket, and its attachment.

use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
const BPF_PSEUDO_MAP_FD: u8 = 1;
const XDP_PASS: i32 = 2;
/// Offset of `rx_queue_index` in the context of a program (`struct xdp_md`).
const RX_QUEUE_INDEX: i16 = 16;

/// Place of the program in the way of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the driver.
    Native,
    /// Behind the driver, in the kernel's common code.
    Generic,
}

/// An attached program and its map of sockets. Both end with the value.
#[derive(Debug)]
pub(super) struct Program {
    _link: OwnedFd,
    _map: OwnedFd,
}

/// A map from a queue to the socket that has its frames.
#[derive(Debug)]
pub(super) struct SocketMap(OwnedFd);

impl SocketMap {
    /// A map for queues up to `queue`.
    pub fn create(queue: u32) -> Result<SocketMap> {
        #[repr(C)]
        struct Attributes {
            map_type: u32,
            key_size: u32,
            value_size: u32,
            max_entries: u32,
            map_flags: u32,
        }
        let attributes = Attributes {
            map_type: BPF_MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queue + 1,
            map_flags: 0,
        };
        // SAFETY: the attributes are those of this command, without pointers.
        unsafe { bpf_fd(BPF_MAP_CREATE, &attributes) }.map(SocketMap)
    }

    /// Gives the frames of `queue` to `socket`, which is bound.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        #[repr(C)]
        struct Attributes {
            map_fd: u32,
            _padding: u32,
            key: u64,
            value: u64,
            flags: u64,
        }
        let value = socket.as_raw_fd() as u32;
        let attributes = Attributes {
            map_fd: self.0.as_raw_fd() as u32,
            _padding: 0,
            key: &raw const queue as u64,
            value: &raw const value as u64,
            flags: 0,
        };
        // SAFETY: the attributes are those of this command; key and value live through the call and have 4 bytes each.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

impl Program {
    /// Loads a program that redirects by `map` and passes on the frames of queues that are not in it, and attaches it
    /// to an interface of the calling thread's network namespace.
    pub fn attach(map: SocketMap, index: u32, place: Place) -> Result<Program> {
        let program = load(&map)?;
        #[repr(C)]
        struct Attributes {
            program: u32,
            target: u32,
            attach_type: u32,
            flags: u32,
        }
        let attributes = Attributes {
            program: program.as_raw_fd() as u32,
            target: index,
            attach_type: BPF_XDP,
            flags: match place {
                Place::Generic => 1 << 1,
                Place::Native => 1 << 2,
            },
        };
        // SAFETY: the attributes are those of this command, without pointers. The link keeps the program.
        let link = unsafe { bpf_fd(BPF_LINK_CREATE, &attributes) }?;
        Ok(Program { _link: link, _map: map.0 })
    }
}

/// An instruction of BPF.
#[repr(C)]
struct Instruction {
    code: u8,
    /// Destination in the low half, source in the high half.
    registers: u8,
    offset: i16,
    immediate: i32,
}

fn instruction(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: dst | src << 4, offset, immediate }
}

fn load(map: &SocketMap) -> Result<OwnedFd> {
    const LOAD_WORD: u8 = 0x61; // BPF_LDX | BPF_MEM | BPF_W
    const LOAD_MAP: u8 = 0x18; // BPF_LD | BPF_IMM | BPF_DW
    const MOVE: u8 = 0xb7; // BPF_ALU64 | BPF_MOV | BPF_K
    const CALL: u8 = 0x85; // BPF_JMP | BPF_CALL
    const EXIT: u8 = 0x95; // BPF_JMP | BPF_EXIT
    let program = [
        // return bpf_redirect_map(map, context->rx_queue_index, XDP_PASS);
        instruction(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        instruction(LOAD_MAP, 1, BPF_PSEUDO_MAP_FD, 0, map.0.as_raw_fd()),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE, 3, 0, 0, XDP_PASS),
        instruction(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ];
    #[repr(C)]
    struct Attributes {
        kind: u32,
        count: u32,
        instructions: u64,
        license: u64,
        log_level: u32,
        log_size: u32,
        log: u64,
        kernel_version: u32,
        flags: u32,
        name: [u8; 16],
    }
    let attributes = Attributes {
        kind: BPF_PROG_TYPE_XDP,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        license: c"Apache-2.0".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: *b"belljar_xsk\0\0\0\0\0",
    };
    // SAFETY: the attributes are those of this command; the program and the license live through the call.
    unsafe { bpf_fd(BPF_PROG_LOAD, &attributes) }
}

/// # Safety
/// `attributes` must be the beginning of `union bpf_attr` as `command` has it, its pointers valid.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> Result<libc::c_long> {
    // SAFETY: by the caller.
    match unsafe { libc::syscall(libc::SYS_bpf, command, &raw const *attributes, size_of::<T>()) } {
        -1 => Err(Error::last_os_error()),
        result => Ok(result),
    }
}

/// # Safety
/// As [`bpf`], and `command` makes a descriptor.
unsafe fn bpf_fd<T>(command: libc::c_long, attributes: &T) -> Result<OwnedFd> {
    // SAFETY: by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor is new and nobody else's. Those of BPF close on exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
