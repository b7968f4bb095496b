//! Data plane in the kernel's traffic control: forwarded packets pass from one interface to the next without
//! traversing the IP stack.

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
/// `BPF_FIB_LOOKUP_SKIP_NEIGH`: the neighbour is resolved when the packet is transmitted.
const SKIP_NEIGH: i32 = 1 << 2;
/// Maximum number of counted flows; the least recently used are evicted.
const FLOWS: u32 = 8192;
/// Length of `struct bpf_fib_lookup`.
const LOOKUP_LEN: i16 = 64;
/// Stack offsets: the lookup parameters; the flow and its first count; the next hop.
const LOOKUP: i16 = -LOOKUP_LEN;
const FLOW: i16 = LOOKUP - 8;
const FIRST: i16 = FLOW - 8;
const NEXT_HOP: i16 = FIRST - 24;

/// Flow: source and destination address.
pub type Flow = (Ipv4Addr, Ipv4Addr);

/// IPv4 forwarder: a BPF program at the ingress hooks of interfaces (`tcx`, Linux 6.6).
///
/// The program consults the kernel's routing table (`bpf_fib_lookup`), decrements the TTL, and redirects the
/// packet to the next interface and the kernel's neighbour table (`bpf_redirect_neigh`). All other packets
/// take their usual path through the stack: packets for this machine, packets with options or a TTL of 1,
/// unroutable packets, and packets longer than the MTU. The program counts the packets of each flow. Dropping
/// the value detaches the program.
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

    /// Flows with packets forwarded since the last call, and the number of packets.
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

/// The program. Registers: R6 context, R7 packet, R8 address of the lookup parameters.
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
    // As in ip_decrease_ttl, the checksum grows by the decrement of the TTL.
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
    // Count the packet.
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
    // struct bpf_redir_neigh: family 0, next hop 4; the lookup has replaced the destination by the next hop.
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
