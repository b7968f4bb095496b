//! A data plane in the kernel's traffic control: packets to be forwarded go from one interface to the next without passing
//! the IP stack.

use crate::bpf::assembler::{
    Assembler, Condition, Instruction, Operation, R0, R1, R2, R3, R4, R6, R7, R8, R10, Width,
};
use crate::bpf::{self, AttachKind, Map, MapKind, ProgramKind};
use crate::interface::Interface;
use crate::{Error, Result};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};

const MAP_LOOKUP_ELEM: i32 = 1;
const MAP_UPDATE_ELEM: i32 = 2;
const FIB_LOOKUP: i32 = 69;
const REDIRECT_NEIGH: i32 = 152;
/// `BPF_FIB_LOOKUP_SKIP_NEIGH`: the neighbour is found when the packet leaves.
const SKIP_NEIGH: i32 = 1 << 2;
/// Flows whose packets are counted; the ones that were quiet longest make room.
const FLOWS: u32 = 8192;
/// Length of `struct bpf_fib_lookup`.
const LOOKUP_LEN: i16 = 64;
/// Places on the program's stack: the lookup; behind it the flow and its first count; the next hop.
const LOOKUP: i16 = -LOOKUP_LEN;
const FLOW: i16 = LOOKUP - 8;
const FIRST: i16 = FLOW - 8;
const NEXT_HOP: i16 = FIRST - 24;

/// A flow: source and destination.
pub type Flow = (Ipv4Addr, Ipv4Addr);

/// Packets that arrive at some interfaces are forwarded by a program at their ingress hook (`tcx`, Linux 6.6).
///
/// The program asks the kernel's routing table (`bpf_fib_lookup`), takes one from the TTL, and hands the packet to the
/// next interface and the kernel's neighbour table (`bpf_redirect_neigh`). All else goes its usual way through the stack:
/// packets for this machine, those with options or a TTL of 1, those without a route, those that are too long. It counts
/// the packets of each flow. The interfaces are as they were once the value is dropped.
#[derive(Debug)]
pub struct TcForwarder {
    _links: Vec<OwnedFd>,
    flows: Map<8, 8>,
}

impl TcForwarder {
    /// Attaches the program to interfaces of the calling thread's network namespace.
    pub fn attach(names: &[String]) -> Result<TcForwarder> {
        const ROOT: &str = "run as root: the kernel lets nobody else load programs for traffic control";
        let failed = |doing: &str, e| Error::privileged(doing, "CAP_BPF and CAP_NET_ADMIN", ROOT, e);
        let flows =
            Map::create(MapKind::LruHash, FLOWS).map_err(|e| failed("making a BPF map of flows", e))?;
        let program = bpf::load(ProgramKind::SchedCls, "belljar_forward", &program(flows.fd()))
            .map_err(|e| failed("loading a BPF program that forwards", e))?;
        let mut links = Vec::new();
        for name in names {
            let interface = Interface::open(name)?;
            let link = bpf::attach(program.as_fd(), interface.index(), AttachKind::TcIngress, 0);
            links.push(link.map_err(|e| match e.raw_os_error() {
                Some(libc::EINVAL) => Error::Unsupported {
                    name: name.clone(),
                    what: "the kernel has no hook for BPF programs without a queueing discipline (tcx, Linux 6.6)"
                        .to_string(),
                },
                _ => failed(&format!("attaching a BPF program to '{name}'"), e),
            })?);
        }
        Ok(TcForwarder { _links: links, flows })
    }

    /// The flows of which packets were forwarded since the last call, with their number.
    pub fn take_flows(&mut self) -> Vec<(Flow, u64)> {
        let address = |bytes: &[u8]| Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]);
        let mut out = Vec::new();
        for key in self.flows.keys() {
            if let Some(count) = self.flows.get(key) {
                self.flows.remove(key);
                out.push(((address(&key[..4]), address(&key[4..])), u64::from_ne_bytes(count)));
            }
        }
        out
    }
}

/// The program. Registers: R6 the context, R7 the packet, R8 the result of the lookup's place.
fn program(flows: i32) -> Vec<Instruction> {
    // Offsets in `struct __sk_buff`.
    const PACKET_TYPE: i16 = 4;
    const INTERFACE: i16 = 40;
    const DATA: i16 = 76;
    const DATA_END: i16 = 80;
    // Offsets in the frame.
    const ETHERTYPE: i16 = 12;
    const VERSION: i16 = 14;
    const TOS: i16 = 15;
    const TTL: i16 = 22;
    const CHECKSUM: i16 = 24;
    const SOURCE: i16 = 26;
    const DESTINATION: i16 = 30;
    const HEADERS: i32 = 34;
    let mut a = Assembler::new();
    let (pass, known, counted) = (a.label(), a.label(), a.label());
    a.register(Operation::Move, R6, R1);
    a.load(Width::Word, R2, R6, PACKET_TYPE);
    a.jump_if(Condition::NotEqual, R2, 0, pass);
    a.load(Width::Word, R7, R6, DATA);
    a.load(Width::Word, R3, R6, DATA_END);
    a.register(Operation::Move, R2, R7);
    a.value(Operation::Add, R2, HEADERS);
    a.jump_if_register(Condition::Greater, R2, R3, pass);
    a.load(Width::Half, R2, R7, ETHERTYPE);
    a.jump_if(Condition::NotEqual, R2, i32::from(0x0800u16.to_be()), pass);
    a.load(Width::Byte, R2, R7, VERSION);
    a.jump_if(Condition::NotEqual, R2, 0x45, pass);
    a.load(Width::Byte, R2, R7, TTL);
    a.jump_if(Condition::LessOrEqual, R2, 1, pass);
    // struct bpf_fib_lookup: family 0, ifindex 8, tos 12, source 16, destination 32.
    for at in (0..LOOKUP_LEN).step_by(8) {
        a.store_value(Width::Double, R10, LOOKUP + at, 0);
    }
    a.store_value(Width::Byte, R10, LOOKUP, libc::AF_INET);
    a.load(Width::Word, R2, R6, INTERFACE);
    a.store(Width::Word, R10, LOOKUP + 8, R2);
    a.load(Width::Byte, R2, R7, TOS);
    a.store(Width::Byte, R10, LOOKUP + 12, R2);
    a.load(Width::Word, R2, R7, SOURCE);
    a.store(Width::Word, R10, LOOKUP + 16, R2);
    a.store(Width::Word, R10, FLOW, R2);
    a.load(Width::Word, R2, R7, DESTINATION);
    a.store(Width::Word, R10, LOOKUP + 32, R2);
    a.store(Width::Word, R10, FLOW + 4, R2);
    a.register(Operation::Move, R1, R6);
    a.register(Operation::Move, R2, R10);
    a.value(Operation::Add, R2, i32::from(LOOKUP));
    a.value(Operation::Move, R3, i32::from(LOOKUP_LEN));
    a.value(Operation::Move, R4, SKIP_NEIGH);
    a.call(FIB_LOOKUP);
    a.jump_if(Condition::NotEqual, R0, 0, pass);
    // As ip_decrease_ttl does: the checksum grows by what the TTL loses.
    a.load(Width::Byte, R2, R7, TTL);
    a.value(Operation::Add, R2, -1);
    a.store(Width::Byte, R7, TTL, R2);
    a.load(Width::Half, R2, R7, CHECKSUM);
    a.value(Operation::Add, R2, i32::from(0x0100u16.to_be()));
    a.register(Operation::Move, R3, R2);
    a.value(Operation::Add, R3, 1);
    a.value(Operation::ShiftRight, R3, 16);
    a.register(Operation::Add, R2, R3);
    a.value(Operation::And, R2, 0xffff);
    a.store(Width::Half, R7, CHECKSUM, R2);
    // Count it.
    a.load_map(R1, flows);
    a.register(Operation::Move, R2, R10);
    a.value(Operation::Add, R2, i32::from(FLOW));
    a.call(MAP_LOOKUP_ELEM);
    a.jump_if(Condition::NotEqual, R0, 0, known);
    a.store_value(Width::Double, R10, FIRST, 1);
    a.load_map(R1, flows);
    a.register(Operation::Move, R2, R10);
    a.value(Operation::Add, R2, i32::from(FLOW));
    a.register(Operation::Move, R3, R10);
    a.value(Operation::Add, R3, i32::from(FIRST));
    a.value(Operation::Move, R4, 0);
    a.call(MAP_UPDATE_ELEM);
    a.jump(counted);
    a.here(known);
    a.value(Operation::Move, R8, 1);
    a.atomic_add(R0, 0, R8);
    a.here(counted);
    // struct bpf_redir_neigh: family 0, next hop 4; the lookup has put the next hop in the destination's place.
    for at in (0..24).step_by(8) {
        a.store_value(Width::Double, R10, NEXT_HOP + at, 0);
    }
    a.store_value(Width::Word, R10, NEXT_HOP, libc::AF_INET);
    a.load(Width::Word, R2, R10, LOOKUP + 32);
    a.store(Width::Word, R10, NEXT_HOP + 4, R2);
    a.load(Width::Word, R1, R10, LOOKUP + 8);
    a.register(Operation::Move, R2, R10);
    a.value(Operation::Add, R2, i32::from(NEXT_HOP));
    a.value(Operation::Move, R3, 20);
    a.value(Operation::Move, R4, 0);
    a.call(REDIRECT_NEIGH);
    a.exit();
    a.here(pass);
    a.value(Operation::Move, R0, 0);
    a.exit();
    a.finish()
}
