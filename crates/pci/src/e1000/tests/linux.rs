//! The controller under the access sequences of Linux's driver at probe, open, transmission, reception and
//! close, with host memory behind the bus. The test fails on whatever the driver would treat as an error.

mod changes;

use super::super::offload::{self, Checked};
use super::super::*;
use crate::transaction::{Interrupt, ToDevice, ToHost};
use belljar_base::{SimDuration, SimTime};

const MAC: [u8; 6] = [2, 3, 4, 5, 6, 7];
/// Bus addresses of rings and buffers.
const RX_RING: u64 = 0x1000;
const TX_RING: u64 = 0x2000;
const RX_BUFFERS: u64 = 0x10000;
const TX_BUFFERS: u64 = 0x40000;
const RING: u32 = 64;
const BUFFER: u64 = 2_048;
/// Causes that the driver unmasks: RXT0, TXDW, RXDMT0, RXSEQ and LSC.
const UNMASKED: u32 = 0x80 | 0x01 | 0x10 | 0x08 | 0x04;

struct Linux {
    now: SimTime,
    device: Device,
    memory: Vec<u8>,
    line: bool,
    interrupts: u32,
    /// Number of MSI messages.
    messages: u32,
    answer: Option<u32>,
    sent: Vec<Vec<u8>>,
    tail: u32,
}

impl Linux {
    fn new() -> Linux {
        Linux {
            now: SimTime::from_nanos(1_000),
            device: Device::new(MAC, Timing::default()),
            memory: vec![0; 1 << 20],
            line: false,
            interrupts: 0,
            messages: 0,
            answer: None,
            sent: Vec::new(),
            tail: 0,
        }
    }

    /// Completes the device's transactions.
    fn serve(&mut self) {
        while let Some(transaction) = self.device.poll_host() {
            match transaction {
                ToHost::Read { id, address, len } => {
                    let data = self.memory[address as usize..][..len.into()].to_vec();
                    self.device.handle(self.now, ToDevice::ReadDone { id, data });
                }
                ToHost::Write { id, address, data } => {
                    self.memory[address as usize..][..data.len()].copy_from_slice(&data);
                    self.device.handle(self.now, ToDevice::WriteDone { id });
                }
                ToHost::Interrupt(Interrupt::Line(up)) => {
                    assert_ne!(self.line, up, "the line is where it was");
                    self.line = up;
                    self.interrupts += u32::from(up);
                }
                ToHost::Interrupt(Interrupt::Msi(0)) => self.messages += 1,
                ToHost::ReadDone { data, .. } => {
                    self.answer = data.try_into().ok().map(u32::from_le_bytes);
                }
                other => panic!("{other:?}"),
            }
        }
        while let Some(frame) = self.device.poll_wire() {
            self.sent.push(frame);
        }
        let account = self.device.packet_account();
        assert_eq!(account.imbalance(), 0, "{account:?}");
    }

    fn run(&mut self, time: SimDuration) {
        let until = self.now + time;
        self.serve();
        while let Some(at) = self.device.next_event().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.device.on_timeout(self.now);
            self.serve();
        }
        self.now = until;
    }

    fn micros(&mut self, n: u64) {
        self.run(SimDuration::from_micros(n));
    }

    fn write_bar(&mut self, bar: u8, offset: u64, value: u32) {
        let data = value.to_le_bytes().to_vec();
        self.device.handle(self.now, ToDevice::Write { id: 9, bar, offset, posted: true, data });
        self.serve();
    }
    fn write(&mut self, register: u64, value: u32) {
        self.write_bar(0, register, value);
    }
    fn read(&mut self, register: u64) -> u32 {
        self.device.handle(self.now, ToDevice::Read { id: 7, bar: 0, offset: register, len: 4 });
        self.run(SimDuration::ZERO);
        self.answer.take().expect("registers are answered at once")
    }

    // ---- as its parts read and write ----

    /// `e1000_read_phy_reg`.
    fn read_phy(&mut self, register: u32) -> u16 {
        self.write(reg::MDIC, register << 16 | 1 << 21 | 2 << 26);
        let answer = self.read(reg::MDIC);
        assert_eq!(answer >> 28 & 5, 1, "MDIC is {answer:#x}");
        answer as u16
    }
    fn write_phy(&mut self, register: u32, value: u16) {
        self.write(reg::MDIC, register << 16 | 1 << 21 | 1 << 26 | u32::from(value));
        assert_eq!(self.read(reg::MDIC) >> 28 & 5, 1);
    }

    /// `e1000_read_eeprom` of a word: requests access, then shifts opcode, address and data.
    fn read_eeprom(&mut self, address: u32) -> u16 {
        let request = self.read(reg::EECD) | 1 << 6;
        self.write(reg::EECD, request);
        assert_ne!(self.read(reg::EECD) & 1 << 7, 0, "the EEPROM is not granted");
        let mut wires = self.read(reg::EECD) & !0b101;
        self.write(reg::EECD, wires);
        wires |= 1 << 1;
        self.write(reg::EECD, wires);
        // Standby: deselected, a clock, selected.
        for step in [wires & !0b11, wires & !0b11 | 1, wires | 1, wires & !1] {
            self.write(reg::EECD, step);
            self.read(reg::STATUS);
        }
        for (value, bits) in [(6, 3), (address, 6)] {
            for bit in (0..bits).rev() {
                let wires = wires & !0b100 | (value >> bit & 1) << 2;
                [wires, wires | 1, wires].into_iter().for_each(|wires| self.write(reg::EECD, wires));
            }
        }
        let mut word = 0;
        for _ in 0..16 {
            self.write(reg::EECD, wires | 1);
            word = word << 1 | (self.read(reg::EECD) >> 3 & 1) as u16;
            self.write(reg::EECD, wires);
        }
        self.write(reg::EECD, wires & !(1 << 1 | 1 << 6));
        word
    }

    /// `e1000_reset_hw`: through the I/O ports, as this controller requires.
    fn reset(&mut self) {
        self.write(reg::IMC, u32::MAX);
        self.write(reg::RCTL, 0);
        self.write(reg::TCTL, 1 << 3);
        let control = self.read(reg::CTRL);
        self.write_bar(PORTS, 0, reg::CTRL as u32);
        self.write_bar(PORTS, 4, control | bits::CTRL_RESET);
        self.micros(5_000);
        self.write(reg::IMC, u32::MAX);
        self.read(reg::ICR);
    }

    /// `e1000_reg_test`, the register test of `ethtool -t`: the bits written, and those of them that are
    /// stored.
    fn test_registers(&mut self) {
        let status = self.read(reg::STATUS) & 0xffff_f833;
        self.write(reg::STATUS, 0xffff_f833);
        assert_eq!(self.read(reg::STATUS) & 0xffff_f833, status);
        let all = u32::MAX;
        for (register, mask, write) in [
            // FCAL.
            (0x0028, all, all),
            (reg::FCAH, 0xffff, all),
            (reg::FCT, 0xffff, all),
            (reg::VET, 0xffff, all),
            (reg::RDTR, 0xffff, all),
            (reg::RDBAH, all, all),
            (reg::RDLEN, 0x000f_ff80, 0x000f_ffff),
            (reg::RDH, 0xffff, 0xffff),
            (reg::RDT, 0xffff, 0xffff),
            // FCRTH, FCTTV and TIPG.
            (0x2168, 0xfff8, 0xfff8),
            (0x0170, 0xffff, 0xffff),
            (0x0410, 0x3fff_ffff, 0x3fff_ffff),
            (reg::TDBAH, all, all),
            (reg::TDLEN, 0x000f_ff80, 0x000f_ffff),
        ] {
            self.test_register(register, mask, write);
        }
        // Enables reception with the current ring registers.
        for (register, value) in
            [(reg::RCTL, 0), (reg::RCTL, 0x001f_b3fa), (reg::TCTL, 0), (reg::RCTL, 0x06df_b3fe)]
        {
            self.write(register, value);
            assert_eq!(self.read(register), value);
        }
        let bases = [reg::RDBAL, reg::TDBAL].map(|register| (register, 0xffff_fff0, all));
        // TXCW.
        let others = [(0x0178, 0xffff, 0xffff), (reg::TIDV, 0xffff, 0xffff)];
        let addresses = (0..15).map(|n| (reg::RAH + 8 * n, 0x8003_ffff, all));
        let multicasts = (0..128).map(|n| (reg::MTA.start + 4 * n, all, all));
        for (register, mask, write) in bases.into_iter().chain(others).chain(addresses).chain(multicasts) {
            self.test_register(register, mask, write);
        }
    }

    /// `reg_pattern_test`, and time for the effects of the write.
    fn test_register(&mut self, register: u64, mask: u32, write: u32) {
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, u32::MAX] {
            self.write(register, pattern & write);
            assert_eq!(self.read(register), pattern & write & mask, "{register:#x}");
            self.micros(1);
        }
    }

    /// `e1000_setup_copper_link` and `e1000_copper_link_autoneg`.
    fn set_link_up(&mut self) {
        let control = self.read(reg::CTRL) | bits::CTRL_SET_LINK_UP;
        self.write(reg::CTRL, control & !(3 << 11));
        let identifier = u32::from(self.read_phy(2)) << 16 | u32::from(self.read_phy(3));
        assert_eq!(identifier & !0xf, 0x0141_0c20);
        let specific = self.read_phy(0x10) & !0x60 | 0x60;
        self.write_phy(0x10, specific);
        self.write_phy(0, 0x8000 | 0x1140);
        self.micros(1);
        assert_eq!((self.read_phy(4) & 0x1e0, self.read_phy(9) & 0x300), (0x1e0, 0x300));
        self.write_phy(4, 0x01e1);
        self.write_phy(9, 0x0200);
        self.write_phy(0, 0x1340);
        self.read_phy(1);
        assert_eq!(self.read_phy(1) & 0x24, 0x24, "autonegotiation is done and the link is up");
        // Neither side supports flow control.
        assert_eq!(self.read_phy(5) & 0x0c00, 0);
        assert_eq!(self.read(reg::STATUS) & 0x83, 0x83);
        assert_eq!(self.read_phy(0x11) & 0xec20, 0xac00);
    }

    /// `e1000_open`: filters, rings, interrupt mask.
    fn open(&mut self, rctl: u32) {
        let [a, b, c, d, e, f] = MAC;
        self.write(reg::RAL, u32::from_le_bytes([a, b, c, d]));
        self.write(reg::RAH, u32::from_le_bytes([e, f, 0, 0x80]));
        for n in 1..16 {
            self.write(reg::RAL + 8 * n, 0);
            self.write(reg::RAH + 8 * n, 0);
        }
        (0..128).for_each(|n| self.write(reg::MTA.start + 4 * n, 0));
        self.write(reg::VET, 0x8100);
        for (base, ring) in [(reg::TDBAL, TX_RING), (reg::RDBAL, RX_RING)] {
            self.write(base + 8, RING * DESCRIPTOR as u32);
            self.write(base + 4, 0);
            self.write(base, ring as u32);
            self.write(base + 0x18, 0);
            self.write(base + 0x10, 0);
        }
        self.write(reg::TIDV, 8);
        self.write(reg::TADV, 32);
        self.write(reg::TCTL, 0x0103_f0fa);
        self.write(reg::ITR, 0);
        let rxcsum = self.read(reg::RXCSUM);
        self.write(reg::RXCSUM, rxcsum);
        for n in 0..u64::from(RING) {
            let at = (RX_RING + 16 * n) as usize;
            self.memory[at..at + 8].copy_from_slice(&(RX_BUFFERS + BUFFER * n).to_le_bytes());
            self.memory[at + 8..at + 16].fill(0);
        }
        self.write(reg::RCTL, rctl);
        self.write(reg::RDT, RING - 1);
        self.write(reg::IMS, UNMASKED);
        self.write(reg::ICS, cause::LSC);
        assert!(self.line);
        assert_eq!(self.take_interrupt() & cause::LSC, cause::LSC);
    }

    /// `e1000_intr` and the end of its poll: reads the causes, masks all, unmasks.
    fn take_interrupt(&mut self) -> u32 {
        let causes = self.read(reg::ICR);
        assert!(!self.line, "a read of the causes lowers the line");
        self.write(reg::IMC, u32::MAX);
        self.write(reg::IMS, UNMASKED);
        causes
    }

    fn opened(rctl: u32) -> Linux {
        let mut linux = Linux::new();
        linux.reset();
        linux.set_link_up();
        linux.open(rctl);
        linux
    }

    /// Writes a descriptor, given as two halves, to the transmit ring.
    fn put(&mut self, first: u64, second: u64) {
        let at = (TX_RING + 16 * u64::from(self.tail)) as usize;
        self.memory[at..at + 8].copy_from_slice(&first.to_le_bytes());
        self.memory[at + 8..at + 16].copy_from_slice(&second.to_le_bytes());
        self.tail = (self.tail + 1) % RING;
    }
    /// Writes a TCP frame to be segmented to the transmit buffers, as the driver does: without lengths and
    /// checksums except the pseudo-header sum without its length.
    fn put_for_segmentation(&mut self, payload: &[u8]) -> Vec<u8> {
        let mut frame = offload::tests::tcp(payload);
        frame[16..18].fill(0);
        frame[24..26].fill(0);
        frame[50..52].copy_from_slice(&(0x0a00_u16 + 1 + 0x0a00 + 2 + 6).to_be_bytes());
        let at = TX_BUFFERS as usize;
        self.memory[at..at + frame.len()].copy_from_slice(&frame);
        frame
    }
    fn send(&mut self) {
        let tail = self.tail;
        self.write(reg::TDT, tail);
    }
    fn context(&mut self, tcp_start: u64, tcp_offset: u64, header: u64, mss: u64, command: u64) {
        let ip = 14 | 24 << 8 | 33 << 16;
        let len = 8_000;
        self.put(ip | tcp_start << 32 | tcp_offset << 40, mss << 48 | header << 40 | command << 24 | len);
    }
    /// Status of a receive descriptor: bytes 8 to 16.
    fn received(&self, n: u64) -> [u8; 8] {
        crate::fields::get(&self.memory, (RX_RING + 16 * n + 8) as usize)
    }
    fn buffer(&self, n: u64, len: usize) -> &[u8] {
        &self.memory[(RX_BUFFERS + BUFFER * n) as usize..][..len]
    }
}

/// RCTL for an MTU of 1,500: enabled, broadcasts, buffers of 2,048 bytes, check sequences kept.
const RCTL: u32 = 1 << 1 | 1 << 15;
const DONE: u8 = 1;

fn tcp_of(frame: &[u8]) -> (u32, u8, u16, &[u8]) {
    let sequence = u32::from_be_bytes(crate::fields::get(frame, 38));
    (sequence, frame[47], u16::from_be_bytes([frame[18], frame[19]]), &frame[54..])
}

#[test]
fn it_is_found_and_its_eeprom_and_phy_are_well() {
    let mut linux = Linux::new();
    assert_eq!((info().vendor, info().device, info().bars[0].len), (0x8086, 0x100e, 0x20000));
    assert_eq!((info().bars[2].len, info().bars[2].flags), (64, 1));
    linux.reset();
    let words: Vec<u16> = (0..0x40).map(|address| linux.read_eeprom(address)).collect();
    assert_eq!(words.iter().fold(0_u16, |sum, word| sum.wrapping_add(*word)), 0xbaba);
    assert_eq!(words[..3], [0x0302, 0x0504, 0x0706]);
    assert_eq!((words[0x0d], words[0x0e], words[0x0f] & 0x3000), (0x100e, 0x8086, 0));
    linux.set_link_up();
    // Cable and receivers, as queried by `e1000_phy_get_info`.
    assert_eq!(linux.read_phy(0x0a) & 0x3000, 0x3000);
    linux.test_registers();
    linux.reset();
    assert_eq!((linux.read(reg::RCTL), linux.read(reg::RDLEN), linux.read(reg::RAL)), (0, 0, 0x0504_0302));
    assert_eq!(linux.read_phy(0) & 0x1000, 0x1000);
}

#[test]
fn a_segmented_transmission_is_what_tcp_would_have_sent() {
    let payload: Vec<u8> = (0..9_000_u32).map(|n| (n * 7) as u8).collect();
    let mut linux = Linux::opened(RCTL);
    let frame = linux.put_for_segmentation(&payload);
    // Context: segmentation, IPv4, TCP. Data in pieces of at most 4,096 bytes, the last with EOP, RS and IDE.
    linux.context(34, 50, 54, 1_448, 0x27);
    let pieces = [54, 4_096, 4_096, 804, 4];
    let mut offset = 0;
    for (n, len) in pieces.into_iter().enumerate() {
        let command = 0x26 | if n + 1 == pieces.len() { 0x89 } else { 0 };
        linux.put(TX_BUFFERS + offset, 3 << 40 | command << 24 | 1 << 20 | len);
        offset += len;
    }
    assert_eq!(offset as usize, frame.len());
    linux.send();
    linux.micros(5);
    assert!(!linux.line, "the interrupt is delayed");
    linux.micros(20);
    assert_eq!(linux.take_interrupt() & cause::TXDW, cause::TXDW);
    assert_eq!((linux.sent.len(), linux.device.packet_account().originated["host"]), (7, 7));
    let (mut sequence, mut bytes) = (0x100, Vec::new());
    for (n, segment) in linux.sent.iter().enumerate() {
        assert_eq!(offload::check(segment), Checked { ip: Some(true), transport: Some(true) });
        let (number, flags, id, data) = tcp_of(segment);
        assert_eq!((number, id), (sequence, 7 + n as u16));
        // FIN, PSH and ACK.
        assert_eq!(flags, if n == 6 { 0x19 } else { 0x10 });
        assert_eq!(data.len(), if n == 6 { 9_000 - 6 * 1_448 } else { 1_448 });
        sequence += data.len() as u32;
        bytes.extend_from_slice(data);
    }
    assert_eq!(bytes, payload);
    // The last descriptor is returned; the head has passed all.
    let last = (TX_RING + 16 * 5 + 12) as usize;
    assert_eq!((linux.memory[last] & DONE, linux.read(reg::TDH)), (DONE, 6));
    let total = linux.sent.iter().map(|segment| segment.len() as u32 + 4).sum::<u32>();
    let counted = [reg::GPTC, reg::TSCTC, reg::GOTCL, reg::TPT].map(|register| linux.read(register));
    assert_eq!(counted, [7, 1, total, 7]);
    assert_eq!(linux.read(reg::GPTC), 0);
}

#[test]
fn segments_of_ipv6_and_of_udp_are_fitted() {
    let context = |is_tcp| Context {
        ip: Checksum { start: 14, offset: 18, end: 0 },
        transport: Checksum { start: 54, offset: if is_tcp { 70 } else { 60 }, end: 0 },
        is_tcp,
        ..Context::default()
    };
    use offload::{Checksum, Context};
    let mut segment = vec![0; 14 + 40 + 20 + 100];
    context(true).fit(&mut segment, 3, 500, false);
    assert_eq!((segment[18..20].to_vec(), segment[58..62].to_vec()), (vec![0, 120], vec![0, 0, 1, 244]));
    assert_eq!(segment[70..72], [0, 120]);
    context(false).fit(&mut segment, 3, 500, false);
    assert_eq!(segment[58..60], [0, 120]);
    // Headers that extend beyond a segment are unchanged.
    for len in 0..80 {
        context(true).fit(&mut vec![0; len], 1, 1, false);
    }
}

#[test]
fn checksums_and_vlan_tags_are_inserted_on_demand() {
    let mut linux = Linux::opened(RCTL);
    let good = offload::tests::tcp(b"hello, world");
    let mut partial = good.clone();
    partial[50..52].copy_from_slice(&(0x0a00_u16 + 1 + 0x0a00 + 2 + 6 + 32).to_be_bytes());
    let at = TX_BUFFERS as usize;
    let len = good.len() as u64;
    linux.memory[at..at + partial.len()].copy_from_slice(&partial);
    // A context without segmentation; data in two pieces, with the TCP option.
    linux.context(34, 50, 0, 0, 0x21);
    linux.put(TX_BUFFERS, 2 << 40 | 0x22 << 24 | 1 << 20 | 30);
    linux.put(TX_BUFFERS + 30, 2 << 40 | 0x2b << 24 | 1 << 20 | (len - 30));
    linux.send();
    linux.micros(10);
    assert_eq!(linux.sent.pop(), Some(good.clone()));
    // An equivalent legacy descriptor: IC, with CSO and CSS.
    linux.put(TX_BUFFERS, 34 << 40 | 0x0f << 24 | 50 << 16 | len);
    linux.send();
    linux.micros(10);
    assert_eq!(linux.sent.pop(), Some(good.clone()));
    // With the mode on and VLE, a tag; with the mode off, none. Without IFCS, the last four bytes are a check
    // sequence.
    let control = linux.read(reg::CTRL);
    for (mode, command, expected) in [
        (bits::CTRL_VLAN_MODE, 0x4b, [&good[..12], &[0x81, 0, 0x20, 0x64], &good[12..]].concat()),
        (0, 0x4b, good.clone()),
        (0, 0x09, good[..good.len() - 4].to_vec()),
    ] {
        linux.write(reg::CTRL, control | mode);
        linux.memory[at..at + good.len()].copy_from_slice(&good);
        linux.put(TX_BUFFERS, 0x2064 << 48 | command << 24 | len);
        linux.send();
        linux.micros(10);
        assert_eq!(linux.sent.pop(), Some(expected));
    }
}

#[test]
fn frames_are_received_with_what_is_known_of_them() {
    let mut linux = Linux::opened(RCTL);
    let mut frame = offload::tests::tcp(b"a payload of some length");
    frame[..6].copy_from_slice(&MAC);
    linux.device.receive(linux.now, frame.clone());
    linux.micros(5);
    assert!(linux.line);
    assert_eq!(linux.take_interrupt(), cause::RXT0 | 1 << 31);
    // Length with check sequence; done, end of packet, both checksums verified and correct.
    let [low, high, .., status, errors, _, _] = linux.received(0);
    let len = frame.len() + 4;
    assert_eq!((usize::from(low) | usize::from(high) << 8, status, errors), (len, 0x63, 0));
    assert_eq!(linux.buffer(0, len - 4), frame);
    assert_eq!(linux.buffer(0, len)[len - 4..], offload::check_sequence(&frame));
    // A corrupted frame is received with an error bit; without the offload, without one.
    frame[60] ^= 1;
    linux.device.receive(linux.now, frame.clone());
    linux.micros(5);
    assert_eq!((linux.received(1)[4], linux.received(1)[5]), (0x63, 0x20));
    linux.write(reg::RXCSUM, 0);
    linux.device.receive(linux.now, frame.clone());
    linux.micros(5);
    assert_eq!((linux.received(2)[4], linux.received(2)[5]), (0x07, 0));
    // In VLAN mode the tag is stripped and filtered by the table.
    let tagged = [&frame[..12], &[0x81, 0, 0x20, 0x64], &frame[12..]].concat();
    let control = linux.read(reg::CTRL);
    linux.write(reg::CTRL, control | bits::CTRL_VLAN_MODE);
    linux.write(reg::RCTL, RCTL | bits::VLAN_FILTER);
    linux.device.receive(linux.now, tagged.clone());
    linux.write(reg::VFTA.start + 4 * (100 >> 5), 1 << (100 & 31));
    linux.device.receive(linux.now, tagged.clone());
    linux.micros(5);
    assert_eq!((linux.received(3)[4] & 8, linux.received(3)[6..].to_vec()), (8, vec![0x64, 0x20]));
    assert_eq!((linux.buffer(3, frame.len()), linux.received(4)[4]), (&frame[..], 0));
    let counted = [reg::GPRC, reg::TPR, reg::PRC64 + 4].map(|register| linux.read(register));
    assert_eq!(counted, [4, 5, 4]);
}

#[test]
fn long_frames_take_several_buffers_where_they_are_let_in() {
    let mut linux = Linux::opened(RCTL);
    let frame = [&MAC[..], &(0..5_000_u32).map(|n| (n * 3) as u8).collect::<Vec<_>>()].concat();
    linux.device.receive(linux.now, frame.clone());
    linux.micros(5);
    assert_eq!((linux.received(0)[4], linux.read(reg::ROC)), (0, 1));
    linux.write(reg::RCTL, RCTL | bits::LONG_PACKETS);
    linux.device.receive(linux.now, frame.clone());
    linux.micros(5);
    let lens: Vec<_> = (0..3).map(|n| (get_len(linux.received(n)), linux.received(n)[4] & 3)).collect();
    assert_eq!(lens, [(2_048, 1), (2_048, 1), (914, 3)]);
    let bytes = [linux.buffer(0, 2_048), linux.buffer(1, 2_048), linux.buffer(2, 910)].concat();
    assert_eq!(bytes, frame);
}

fn get_len(status: [u8; 8]) -> u16 {
    u16::from_le_bytes([status[0], status[1]])
}

#[test]
fn the_link_interrupts_and_a_delay_of_reception_is_kept() {
    let mut linux = Linux::opened(RCTL);
    linux.device.set_carrier(linux.now, false);
    linux.serve();
    assert!(linux.line);
    assert_eq!(linux.take_interrupt() & cause::LSC, cause::LSC);
    assert_eq!((linux.read(reg::STATUS) & 2, linux.read_phy(1) & 4), (0, 0));
    linux.device.set_carrier(linux.now, true);
    linux.serve();
    assert_eq!(linux.take_interrupt() & cause::LSC, cause::LSC);
    linux.read_phy(1);
    assert_eq!((linux.read(reg::STATUS) & 2, linux.read_phy(1) & 4), (2, 4));
    // 50 units after the last frame, at most 100 after the first.
    linux.write(reg::RDTR, 50);
    linux.write(reg::RADV, 100);
    let before = linux.interrupts;
    for n in 0..8 {
        linux.device.receive(linux.now, [&MAC[..], &[n; 60]].concat());
        linux.micros(30);
        assert_eq!(linux.line, n > 2, "{n}");
    }
    assert_eq!(linux.interrupts, before + 1);
    linux.take_interrupt();
    linux.device.receive(linux.now, [&MAC[..], &[9; 60]].concat());
    linux.micros(1);
    linux.write(reg::RDTR, 50 | bits::FLUSH_DELAYED);
    assert!(linux.line);
}

#[test]
fn loops_come_back_and_a_closed_controller_is_silent() {
    let mut linux = Linux::opened(RCTL);
    let frame = [&MAC[..], &[5; 60]].concat();
    linux.memory[TX_BUFFERS as usize..][..frame.len()].copy_from_slice(&frame);
    // Loopback by the PHY, as in `ethtool -t`, and by the controller.
    for n in 0..2 {
        linux.write_phy(0, if n == 0 { 0x4140 } else { 0x1140 });
        linux.write(reg::RCTL, RCTL | n << 6);
        linux.put(TX_BUFFERS, 0x0b << 24 | frame.len() as u64);
        linux.send();
        // Frames from the wire are not received.
        linux.device.receive(linux.now, frame.clone());
        linux.micros(10);
        assert!(linux.sent.is_empty());
        assert_eq!(linux.buffer(n.into(), frame.len()), frame);
        assert_eq!(linux.received(u64::from(n) + 1)[4], 0);
    }
    linux.reset();
    linux.device.receive(linux.now, frame.clone());
    linux.put(TX_BUFFERS, 0x0b << 24 | 60);
    linux.send();
    linux.micros(1_000);
    assert!(!linux.line && linux.sent.is_empty() && linux.received(2)[4] == 0);
}
