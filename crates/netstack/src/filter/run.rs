//! The interpreter of classic BPF.

use super::{Instruction, MEMORY_WORDS, Metadata, RET_A, SOURCE_X, TAX, alu, class, jump, mode, size};

/// `SKF_AD_OFF`: absolute loads from this offset on read ancillary data.
const ANCILLARY: i32 = -0x1000;
/// `SKF_NET_OFF`: base of offsets from the network header.
const NETWORK: i32 = -0x100000;
/// `SKF_LL_OFF`: base of offsets from the link header.
const LINK: i32 = -0x200000;
/// `SKF_AD_OFF + SKF_AD_RANDOM`.
pub const RANDOM: u32 = (ANCILLARY + ancillary::RANDOM) as u32;
/// `SKF_AD_*`.
mod ancillary {
    pub const PROTOCOL: i32 = 0;
    pub const PACKET_TYPE: i32 = 4;
    pub const INTERFACE: i32 = 8;
    pub const NETLINK_ATTRIBUTE: i32 = 12;
    pub const NETLINK_ATTRIBUTE_NESTED: i32 = 16;
    pub const HARDWARE_TYPE: i32 = 28;
    pub const PAYLOAD_OFFSET: i32 = 52;
    pub const RANDOM: i32 = 56;
    pub const MAX: i32 = 64;
}

/// True if an absolute load reads ancillary data that does not exist.
pub fn is_unknown_ancillary(k: u32) -> bool {
    let k = k as i32;
    (ANCILLARY..0).contains(&k) && k - ANCILLARY >= ancillary::MAX
}

/// Runs a validated program. A load beyond the packet ends it with 0.
pub fn run(program: &[Instruction], packet: &[u8], metadata: &Metadata) -> u32 {
    let (mut a, mut x) = (0u32, 0u32);
    let mut memory = [0u32; MEMORY_WORDS];
    let mut at = 0;
    loop {
        let Instruction { code, jt, jf, k } = program[at];
        at += 1;
        match code & 7 {
            class::LD => {
                let loaded = match code & 0xe0 {
                    mode::IMM => Some(k),
                    mode::LEN => Some(packet.len() as u32),
                    mode::MEM => Some(memory[k as usize]),
                    mode::ABS => absolute(packet, metadata, k, code & 0x18, (a, x)),
                    _ => load(packet, metadata, x.wrapping_add(k), code & 0x18),
                };
                match loaded {
                    Some(value) => a = value,
                    None => return 0,
                }
            }
            class::LDX => {
                x = match code & 0xe0 {
                    mode::IMM => k,
                    mode::LEN => packet.len() as u32,
                    mode::MEM => memory[k as usize],
                    _ => match load(packet, metadata, k, size::B) {
                        Some(byte) => (byte & 0xf) << 2,
                        None => return 0,
                    },
                };
            }
            class::ST => memory[k as usize] = a,
            class::STX => memory[k as usize] = x,
            class::ALU => {
                let operand = if code & SOURCE_X != 0 { x } else { k };
                match calculate(code & 0xf0, a, operand) {
                    Some(value) => a = value,
                    None => return 0,
                }
            }
            class::JMP => {
                let operand = if code & SOURCE_X != 0 { x } else { k };
                let holds = match code & 0xf0 {
                    jump::JEQ => a == operand,
                    jump::JGT => a > operand,
                    jump::JGE => a >= operand,
                    jump::JSET => a & operand != 0,
                    _ => {
                        at += k as usize;
                        continue;
                    }
                };
                at += usize::from(if holds { jt } else { jf });
            }
            class::RET => return if code == RET_A { a } else { k },
            _ if code == TAX => x = a,
            _ => a = x,
        }
    }
}

/// Evaluates an ALU operation; `None` for a division by zero, which ends the program.
fn calculate(operation: u16, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        alu::ADD => a.wrapping_add(operand),
        alu::SUB => a.wrapping_sub(operand),
        alu::MUL => a.wrapping_mul(operand),
        alu::DIV => a.checked_div(operand)?,
        alu::MOD => a.checked_rem(operand)?,
        alu::OR => a | operand,
        alu::AND => a & operand,
        alu::XOR => a ^ operand,
        // The CPU uses the low five bits of the shift count.
        alu::LSH => a.wrapping_shl(operand),
        alu::RSH => a.wrapping_shr(operand),
        _ => a.wrapping_neg(),
    })
}

fn absolute(packet: &[u8], metadata: &Metadata, k: u32, width: u16, (a, x): (u32, u32)) -> Option<u32> {
    match (k as i32).wrapping_sub(ANCILLARY) {
        n if !(ANCILLARY..0).contains(&(k as i32)) => {
            let _ = n;
            load(packet, metadata, k, width)
        }
        ancillary::PROTOCOL => Some(metadata.protocol.into()),
        ancillary::PACKET_TYPE => Some(metadata.packet_type.into()),
        ancillary::INTERFACE => Some(metadata.interface),
        ancillary::NETLINK_ATTRIBUTE => Some(attribute(packet, a as usize, packet.len(), x as u16)),
        ancillary::NETLINK_ATTRIBUTE_NESTED => {
            let at = a as usize;
            let len = packet.get(at..at + 2).map(|len| u16::from_ne_bytes([len[0], len[1]]));
            let end = at + usize::from(len.unwrap_or(0));
            let inside = end <= packet.len() && len.is_some();
            Some(if inside { attribute(packet, at + 4, end, x as u16) } else { 0 })
        }
        ancillary::HARDWARE_TYPE => Some(metadata.hardware_type.into()),
        ancillary::PAYLOAD_OFFSET => Some(payload_offset(packet, metadata) as u32),
        ancillary::RANDOM => Some(metadata.random),
        // Mark, queue, hash, CPU, VLAN tags: packets have none of these here, and there is one CPU.
        _ => Some(0),
    }
}

/// Offset of the first netlink attribute of a type in the range from `at` to `end`; 0 if there is none.
fn attribute(packet: &[u8], mut at: usize, end: usize, kind: u16) -> u32 {
    while at + 4 <= end {
        let len = usize::from(u16::from_ne_bytes([packet[at], packet[at + 1]]));
        if u16::from_ne_bytes([packet[at + 2], packet[at + 3]]) & 0x3fff == kind {
            return at as u32;
        }
        if len < 4 {
            return 0;
        }
        at += len.next_multiple_of(4);
    }
    0
}

/// Offset of the transport payload (`__skb_get_poff`).
fn payload_offset(packet: &[u8], metadata: &Metadata) -> usize {
    let start = metadata.network_offset;
    let Some(ip) = packet.get(start..).filter(|ip| ip.len() >= 20 && ip[0] >> 4 == 4) else { return 0 };
    let transport = usize::from(ip[0] & 0xf) * 4;
    let len = match ip[9] {
        6 => ip.get(transport + 12).map_or(0, |offset| usize::from(offset >> 4) * 4),
        17 => 8,
        1 => 8,
        _ => 0,
    };
    start + transport + len
}

/// Loads a big-endian value at an offset that may be relative to the network or link header.
fn load(packet: &[u8], metadata: &Metadata, k: u32, width: u16) -> Option<u32> {
    let k = k as i32;
    let start = match k {
        0.. => k as usize,
        NETWORK..0 => metadata.network_offset + (k - NETWORK) as usize,
        LINK..NETWORK => (k - LINK) as usize,
        _ => return None,
    };
    match width {
        size::W => packet.get(start..start + 4).map(|b| u32::from_be_bytes([b[0], b[1], b[2], b[3]])),
        size::H => packet.get(start..start + 2).map(|b| u16::from_be_bytes([b[0], b[1]]).into()),
        _ => packet.get(start).map(|b| (*b).into()),
    }
}
