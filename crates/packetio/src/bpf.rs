//! eBPF by bpf(2): maps, program loading and attachment. Programs are assembled in this crate, so that no BPF
//! compiler is needed at run time.

pub(crate) mod assembler;

use assembler::Instruction;
use std::collections::BTreeSet;
use std::io::{Error, Result};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP_ELEM: libc::c_long = 1;
const MAP_UPDATE_ELEM: libc::c_long = 2;
const MAP_DELETE_ELEM: libc::c_long = 3;
const MAP_GET_NEXT_KEY: libc::c_long = 4;
const PROG_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

/// Kind of a map (`BPF_MAP_TYPE_*`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum MapKind {
    Hash = 1,
    LruHash = 9,
    Sockets = 17,
}

/// Kind of a program (`BPF_PROG_TYPE_*`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum ProgramKind {
    SchedCls = 3,
    Xdp = 6,
}

/// Attachment point of a program (`BPF_XDP`, `BPF_TCX_INGRESS`).
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttachKind {
    Xdp = 37,
    TcIngress = 46,
}

/// Map with keys of `K` bytes and values of `V` bytes.
#[derive(Debug)]
pub(crate) struct Map<const K: usize, const V: usize>(OwnedFd);

#[repr(C)]
struct ElementAttributes {
    map: u32,
    _padding: u32,
    key: u64,
    /// Pointer to the value or to the next key.
    value: u64,
    flags: u64,
}

impl<const K: usize, const V: usize> Map<K, V> {
    pub fn create(kind: MapKind, entries: u32) -> Result<Self> {
        #[repr(C)]
        struct Attributes {
            kind: u32,
            key_size: u32,
            value_size: u32,
            entries: u32,
            flags: u32,
        }
        let attributes =
            Attributes { kind: kind as u32, key_size: K as u32, value_size: V as u32, entries, flags: 0 };
        // SAFETY: the attributes are those of this command, without pointers.
        unsafe { bpf_fd(MAP_CREATE, &attributes) }.map(Map)
    }

    pub fn fd(&self) -> i32 {
        self.0.as_raw_fd()
    }

    pub fn insert(&self, key: [u8; K], value: [u8; V]) -> Result<()> {
        let mut value = value;
        self.element(MAP_UPDATE_ELEM, &key, value.as_mut_ptr())
    }

    pub fn get(&self, key: [u8; K]) -> Option<[u8; V]> {
        let mut value = [0; V];
        self.element(MAP_LOOKUP_ELEM, &key, value.as_mut_ptr()).ok().map(|()| value)
    }

    /// Removes an entry, if present.
    pub fn remove(&self, key: [u8; K]) {
        let _ = self.element(MAP_DELETE_ELEM, &key, std::ptr::null_mut());
    }

    /// Keys of the map; concurrent changes may be missed.
    pub fn keys(&self) -> BTreeSet<[u8; K]> {
        let mut out = BTreeSet::new();
        let mut last: Option<[u8; K]> = None;
        loop {
            let mut next = [0; K];
            let attributes = ElementAttributes {
                map: self.0.as_raw_fd() as u32,
                _padding: 0,
                key: last.as_ref().map_or(0, |last| last.as_ptr() as u64),
                value: next.as_mut_ptr() as u64,
                flags: 0,
            };
            // SAFETY: the attributes are those of this command; both keys live through the call and have `K` bytes.
            match unsafe { bpf(MAP_GET_NEXT_KEY, &attributes) } {
                Ok(_) if out.insert(next) => last = Some(next),
                // The kernel restarts the iteration if the last key was removed.
                _ => return out,
            }
        }
    }

    fn element(&self, command: libc::c_long, key: &[u8; K], value: *mut u8) -> Result<()> {
        let attributes = ElementAttributes {
            map: self.0.as_raw_fd() as u32,
            _padding: 0,
            key: key.as_ptr() as u64,
            value: value as u64,
            flags: 0,
        };
        // SAFETY: the attributes are those of these commands; the key has `K` bytes, and the value, where the command
        // has one, `V`. Both live through the call.
        unsafe { bpf(command, &attributes) }.map(drop)
    }
}

/// Loads a program.
pub(crate) fn load(kind: ProgramKind, name: &str, program: &[Instruction]) -> Result<OwnedFd> {
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
    let mut padded = [0; 16];
    padded[..name.len().min(15)].copy_from_slice(&name.as_bytes()[..name.len().min(15)]);
    let attributes = Attributes {
        kind: kind as u32,
        count: program.len() as u32,
        instructions: program.as_ptr() as u64,
        // The kernel's routing lookup helper requires a GPL-compatible licence.
        license: c"Dual MIT/GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: padded,
    };
    // SAFETY: the attributes are those of this command; the program and the license live through the call.
    unsafe { bpf_fd(PROG_LOAD, &attributes) }
}

/// Attaches a program to an interface. It stays attached as long as the returned descriptor is open.
pub(crate) fn attach(program: BorrowedFd<'_>, index: u32, at: AttachKind, flags: u32) -> Result<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        program: u32,
        target: u32,
        attach_type: u32,
        flags: u32,
        rest: [u64; 2],
    }
    let program = program.as_raw_fd() as u32;
    let attributes = Attributes { program, target: index, attach_type: at as u32, flags, rest: [0; 2] };
    // SAFETY: the attributes are those of this command, without pointers. The link keeps the program.
    unsafe { bpf_fd(LINK_CREATE, &attributes) }
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
/// `attributes` must be as for [`bpf`]; `command` must return a descriptor.
unsafe fn bpf_fd<T>(command: libc::c_long, attributes: &T) -> Result<OwnedFd> {
    // SAFETY: by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor is new and owned by no other value. BPF descriptors are close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
