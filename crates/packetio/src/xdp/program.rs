//! XDP program that redirects the frames of a queue to a socket, and its attachment.

use crate::bpf::assembler::{
    Assembler, Condition, Instruction, Operation, R0, R1, R2, R3, R6, R7, R10, Width,
};
use crate::bpf::{self, AttachKind, Map, MapKind, ProgramKind};
use std::io::Result;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;
/// Maximum number of addresses in [`Addresses`].
const MOST_ADDRESSES: u32 = 4096;
/// Stack offset of an address.
const ADDRESS: i16 = -8;

/// Attachment point of the program in the receive path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the driver.
    Native,
    /// After the driver, in the kernel's generic code.
    Generic,
}

/// Attached program and its maps. Dropping the value detaches it.
#[derive(Debug)]
pub(super) struct Program {
    _link: OwnedFd,
    _map: SocketMap,
}

/// Map from queues to the sockets that receive their frames.
#[derive(Debug)]
pub(super) struct SocketMap(Map<4, 4>);

impl SocketMap {
    /// Creates a map for the queues 0 to `queue`.
    pub fn create(queue: u32) -> Result<SocketMap> {
        Map::create(MapKind::Sockets, queue + 1).map(SocketMap)
    }

    /// Redirects the frames of `queue` to `socket`, which is bound.
    pub fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> Result<()> {
        self.0.insert(queue.to_ne_bytes(), socket.as_raw_fd().to_ne_bytes())
    }
}

/// Local IPv4 addresses, for programs that divert only packets for other addresses.
#[derive(Debug)]
pub(super) struct Addresses {
    map: Map<4, 4>,
}

impl Addresses {
    pub fn create() -> Result<Addresses> {
        Map::create(MapKind::Hash, MOST_ADDRESSES).map(|map| Addresses { map })
    }

    /// Replaces the contents of the set.
    pub fn replace(&self, addresses: &[Ipv4Addr]) -> Result<()> {
        for old in self.map.keys() {
            if !addresses.contains(&Ipv4Addr::from(old)) {
                self.map.remove(old);
            }
        }
        addresses.iter().try_for_each(|address| self.map.insert(address.octets(), [0; 4]))
    }
}

impl Program {
    /// Loads a program that redirects by `map` and passes the frames of other queues to the stack, and
    /// attaches it to an interface of the calling thread's network namespace. With `own`, it redirects only
    /// IPv4 packets without options for other addresses, with a TTL above 1.
    pub fn attach(map: SocketMap, own: Option<&Addresses>, index: u32, place: Place) -> Result<Program> {
        let program =
            bpf::load(ProgramKind::Xdp, "belljar_xsk", &program(map.0.fd(), own.map(|own| own.map.fd())))?;
        let flags = match place {
            Place::Generic => 1 << 1,
            Place::Native => 1 << 2,
        };
        Ok(Program { _link: bpf::attach(program.as_fd(), index, AttachKind::Xdp, flags)?, _map: map })
    }
}

fn program(sockets: i32, own: Option<i32>) -> Vec<Instruction> {
    // Offsets in `struct xdp_md`.
    const DATA: i16 = 0;
    const DATA_END: i16 = 4;
    const RX_QUEUE_INDEX: i16 = 16;
    let mut a = Assembler::new();
    let pass = a.label();
    a.register(Operation::Move, R6, R1);
    if let Some(own) = own {
        a.load(Width::Word, R7, R6, DATA);
        a.load(Width::Word, R3, R6, DATA_END);
        a.register(Operation::Move, R2, R7);
        a.value(Operation::Add, R2, 34);
        a.jump_if_register(Condition::Greater, R2, R3, pass);
        // Unicast, IPv4 without options, TTL above 1, destination neither multicast nor broadcast.
        a.load(Width::Byte, R2, R7, 0);
        a.value(Operation::And, R2, 1);
        a.jump_if(Condition::NotEqual, R2, 0, pass);
        a.load(Width::Half, R2, R7, 12);
        a.jump_if(Condition::NotEqual, R2, i32::from(0x0800u16.to_be()), pass);
        a.load(Width::Byte, R2, R7, 14);
        a.jump_if(Condition::NotEqual, R2, 0x45, pass);
        a.load(Width::Byte, R2, R7, 22);
        a.jump_if(Condition::LessOrEqual, R2, 1, pass);
        a.load(Width::Byte, R2, R7, 30);
        a.jump_if(Condition::Greater, R2, 223, pass);
        a.load(Width::Word, R2, R7, 30);
        a.store(Width::Word, R10, ADDRESS, R2);
        a.load_map(R1, own);
        a.register(Operation::Move, R2, R10);
        a.value(Operation::Add, R2, i32::from(ADDRESS));
        a.call(MAP_LOOKUP_ELEM);
        a.jump_if(Condition::NotEqual, R0, 0, pass);
    }
    // return bpf_redirect_map(map, context->rx_queue_index, XDP_PASS);
    a.load(Width::Word, R2, R6, RX_QUEUE_INDEX);
    a.load_map(R1, sockets);
    a.value(Operation::Move, R3, XDP_PASS);
    a.call(REDIRECT_MAP);
    a.exit();
    if own.is_some() {
        a.here(pass);
        a.value(Operation::Move, R0, XDP_PASS);
        a.exit();
    }
    a.finish()
}
