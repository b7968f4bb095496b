//! Registers and descriptors of the controller: offsets and bits, under the names of Intel's manual.

/// Length of the register space in bytes.
pub const REGISTERS: u64 = 128 * 1024;
/// Length of a descriptor in bytes.
pub const DESCRIPTOR: usize = 16;
/// Number of address filters: pairs of [`reg::RAL`] and [`reg::RAH`].
pub const ADDRESSES: u64 = 16;

/// Offsets of registers.
pub mod reg {
    use std::ops::Range;

    pub const CTRL: u64 = 0x0000;
    pub const STATUS: u64 = 0x0008;
    pub const EECD: u64 = 0x0010;
    pub const EERD: u64 = 0x0014;
    pub const MDIC: u64 = 0x0020;
    /// Upper half of the flow control address, and its type: stored without effect.
    pub const FCAH: u64 = 0x002c;
    pub const FCT: u64 = 0x0030;
    pub const VET: u64 = 0x0038;
    pub const ICR: u64 = 0x00c0;
    pub const ITR: u64 = 0x00c4;
    pub const ICS: u64 = 0x00c8;
    pub const IMS: u64 = 0x00d0;
    pub const IMC: u64 = 0x00d8;
    pub const RCTL: u64 = 0x0100;
    pub const TCTL: u64 = 0x0400;
    pub const PBA: u64 = 0x1000;
    pub const RDBAL: u64 = 0x2800;
    pub const RDBAH: u64 = 0x2804;
    pub const RDLEN: u64 = 0x2808;
    pub const RDH: u64 = 0x2810;
    pub const RDT: u64 = 0x2818;
    pub const RDTR: u64 = 0x2820;
    pub const RADV: u64 = 0x282c;
    pub const TDBAL: u64 = 0x3800;
    pub const TDBAH: u64 = 0x3804;
    pub const TDLEN: u64 = 0x3808;
    pub const TDH: u64 = 0x3810;
    pub const TDT: u64 = 0x3818;
    pub const TIDV: u64 = 0x3820;
    pub const TADV: u64 = 0x382c;
    pub const RXCSUM: u64 = 0x5000;
    /// Multicast table: one bit per address hash.
    pub const MTA: Range<u64> = 0x5200..0x5400;
    pub const RAL: u64 = 0x5400;
    pub const RAH: u64 = 0x5404;
    pub const ADDRESS_PAIRS: Range<u64> = RAL..RAL + 8 * super::ADDRESSES;
    /// VLAN filter table: one bit per VLAN identifier.
    pub const VFTA: Range<u64> = 0x5600..0x5800;
    /// Statistics, cleared on read; the halves of a 64-bit counter separately.
    pub const STATS: Range<u64> = 0x4000..0x4100;
    pub const MPC: u64 = 0x4010;
    /// Received frames of up to 64 bytes; the registers of five longer classes follow.
    pub const PRC64: u64 = 0x405c;
    pub const GPRC: u64 = 0x4074;
    pub const BPRC: u64 = 0x4078;
    pub const MPRC: u64 = 0x407c;
    pub const GPTC: u64 = 0x4080;
    pub const GORCL: u64 = 0x4088;
    pub const GORCH: u64 = 0x408c;
    pub const GOTCL: u64 = 0x4090;
    pub const GOTCH: u64 = 0x4094;
    pub const RNBC: u64 = 0x40a0;
    pub const ROC: u64 = 0x40ac;
    pub const TORL: u64 = 0x40c0;
    pub const TOTL: u64 = 0x40c8;
    pub const TPR: u64 = 0x40d0;
    pub const TPT: u64 = 0x40d4;
    /// Transmitted frames of up to 64 bytes; the registers of five longer classes follow.
    pub const PTC64: u64 = 0x40d8;
    pub const MPTC: u64 = 0x40f0;
    pub const BPTC: u64 = 0x40f4;
    pub const TSCTC: u64 = 0x40f8;
}

/// Interrupt causes.
pub mod cause {
    pub const TXDW: u32 = 1 << 0;
    pub const TXQE: u32 = 1 << 1;
    pub const LSC: u32 = 1 << 2;
    pub const RXDMT0: u32 = 1 << 4;
    pub const RXO: u32 = 1 << 6;
    pub const RXT0: u32 = 1 << 7;
    pub const MDAC: u32 = 1 << 9;
    /// All defined causes.
    pub const ALL: u32 = 0x1_ffff;
}

/// Bits of registers.
pub mod bits {
    // CTRL
    pub const CTRL_FULL_DUPLEX: u32 = 1;
    pub const CTRL_SET_LINK_UP: u32 = 1 << 6;
    pub const CTRL_SPEED_1000: u32 = 2 << 8;
    pub const CTRL_RESET: u32 = 1 << 26;
    pub const CTRL_VLAN_MODE: u32 = 1 << 30;
    pub const CTRL_PHY_RESET: u32 = 1 << 31;
    // STATUS
    pub const STATUS_FULL_DUPLEX: u32 = 1;
    pub const STATUS_LINK_UP: u32 = 1 << 1;
    pub const STATUS_SPEED_1000: u32 = 2 << 6;
    // RCTL and TCTL
    pub const ENABLE: u32 = 1 << 1;
    pub const UNICAST_ALL: u32 = 1 << 3;
    pub const MULTICAST_ALL: u32 = 1 << 4;
    pub const LONG_PACKETS: u32 = 1 << 5;
    pub const LOOPBACK: u32 = 3 << 6;
    pub const BROADCAST: u32 = 1 << 15;
    pub const VLAN_FILTER: u32 = 1 << 18;
    pub const CFI_FILTER: u32 = 1 << 19;
    pub const CFI: u32 = 1 << 20;
    /// Multiplies the buffer size in BSIZE by 16.
    pub const SIZE_EXTENSION: u32 = 1 << 25;
    pub const STRIP_CRC: u32 = 1 << 26;
    pub const PAD_SHORT: u32 = 1 << 3;
    // RXCSUM
    pub const IP_OFFLOAD: u32 = 1 << 8;
    pub const TCP_OFFLOAD: u32 = 1 << 9;
    // EERD
    pub const EERD_START: u32 = 1;
    pub const EERD_DONE: u32 = 1 << 4;
    // RDTR
    pub const FLUSH_DELAYED: u32 = 1 << 31;
    // RAH
    pub const ADDRESS_VALID: u32 = 1 << 31;
}

/// Bits of descriptors.
pub mod descriptor {
    // Status
    pub const DONE: u8 = 1;
    pub const END: u8 = 2;
    pub const IGNORE_CHECKSUM: u8 = 4;
    pub const VLAN_PACKET: u8 = 8;
    pub const TCP_CHECKED: u8 = 0x20;
    pub const IP_CHECKED: u8 = 0x40;
    // Errors
    pub const TCP_ERROR: u8 = 0x20;
    pub const IP_ERROR: u8 = 0x40;
    // Command
    pub const COMMAND_END: u8 = 1;
    pub const COMMAND_ADD_CRC: u8 = 2;
    /// Legacy descriptors: insert a checksum.
    pub const COMMAND_CHECKSUM: u8 = 4;
    /// Extended descriptors: segment.
    pub const COMMAND_SEGMENT: u8 = 4;
    pub const COMMAND_REPORT: u8 = 8;
    pub const COMMAND_EXTENDED: u8 = 0x20;
    pub const COMMAND_VLAN: u8 = 0x40;
    pub const COMMAND_DELAY: u8 = 0x80;
    // Packet options
    pub const OPTION_IP: u8 = 1;
    pub const OPTION_TCP: u8 = 2;
}

/// Non-zero register values after a reset.
pub const RESET_VALUES: [(u64, u32); 4] = [
    (reg::CTRL, bits::CTRL_FULL_DUPLEX | bits::CTRL_SET_LINK_UP | bits::CTRL_SPEED_1000),
    (reg::VET, 0x8100),
    // 48 KiB for reception, 16 KiB for transmission.
    (reg::PBA, 0x0010_0030),
    (reg::RXCSUM, bits::IP_OFFLOAD | bits::TCP_OFFLOAD),
];

/// Writable bits of a register.
pub fn writable(register: u64) -> u32 {
    match register {
        reg::RDLEN | reg::TDLEN => 0x000f_ff80,
        reg::RDBAL | reg::TDBAL => !0xf,
        reg::RDH | reg::RDT | reg::TDH | reg::TDT => 0xffff,
        reg::RDTR | reg::RADV | reg::TIDV | reg::TADV | reg::VET | reg::ITR | reg::FCAH | reg::FCT => 0xffff,
        reg::RCTL => 0x06df_b3fe,
        register if reg::ADDRESS_PAIRS.contains(&register) && register & 4 != 0 => 0x8003_ffff,
        _ => u32::MAX,
    }
}

/// Receive buffer length selected by RCTL, in bytes.
pub fn buffer_len(rctl: u32) -> usize {
    let size = (rctl >> 16) & 3;
    match rctl & bits::SIZE_EXTENSION != 0 {
        true if size != 0 => 32_768 >> size,
        _ => 2_048 >> size,
    }
}
