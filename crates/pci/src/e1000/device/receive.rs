//! Reception: filters, FIFO, and host buffers.

use super::{Device, Direction, Event, Loss, bits, cause, descriptor, reg};
use crate::e1000::registers::buffer_len;
use crate::e1000::{filter, offload};
use belljar_base::SimTime;

/// Size of the receive FIFO in bytes.
const FIFO: usize = 384 * 1024;
/// Maximum frame length without check sequence: with RCTL.LPE, without it, and without it but with a VLAN
/// tag.
const LONGEST: (usize, usize, usize) = (16_380, 1_514, 1_518);
/// Minimum frame length.
const SHORTEST: usize = 60;

/// Frame in the FIFO.
#[derive(Debug)]
pub struct Waiting {
    /// Frame bytes, with the check sequence unless RCTL strips it.
    bytes: Vec<u8>,
    /// Length on the wire without check sequence.
    wire_len: usize,
    to: [u8; 6],
    /// Bytes already written to the host.
    pub(super) written: usize,
    checksum: u16,
    status: u8,
    errors: u8,
    vlan: u16,
}

impl Device {
    /// Receives a frame, without its check sequence, from the wire.
    pub fn receive(&mut self, now: SimTime, frame: Vec<u8>) {
        self.flow.received += 1;
        if !self.phy.is_on() {
            self.flow.lose(Loss::PhyOff, 1);
        } else if self.loops_back() {
            self.flow.lose(Loss::Loopback, 1);
        } else {
            self.arrive(now, frame);
        }
    }

    pub(super) fn arrive(&mut self, now: SimTime, frame: Vec<u8>) {
        let rctl = self.get(reg::RCTL);
        if rctl & bits::ENABLE == 0 {
            return self.flow.lose(Loss::Disabled, 1);
        }
        self.count_arrived(frame.len());
        if !filter::accepts(&frame, |register| self.get(register)) {
            return self.flow.lose(Loss::Filtered, 1);
        }
        let tag = filter::vlan_tag(&frame, self.get(reg::VET));
        let longest = match tag {
            _ if rctl & bits::LONG_PACKETS != 0 => LONGEST.0,
            Some(_) => LONGEST.2,
            None => LONGEST.1,
        };
        if frame.len() > longest {
            self.missed += 1;
            self.flow.lose(Loss::TooLong, 1);
            return self.count(reg::ROC, 1);
        }
        let frame = self.prepare(frame, tag, rctl);
        if self.fifo_bytes + frame.bytes.len() > FIFO {
            self.missed += 1;
            self.flow.lose(Loss::NoDescriptor, 1);
            self.count(reg::MPC, 1);
            return self.interrupt(now, cause::RXO);
        }
        if self.receive.cache.is_empty() && self.receive.wanted().is_none() && !self.receive.fetching {
            self.count(reg::RNBC, 1);
        }
        self.fifo_bytes += frame.bytes.len();
        self.fifo.push_back(frame);
        self.schedule(now + self.timing.step, Event::Receive);
    }

    /// Processes a frame before its write: verifies checksums, strips the VLAN tag, and appends the check
    /// sequence.
    fn prepare(&mut self, mut bytes: Vec<u8>, tag: Option<u16>, rctl: u32) -> Waiting {
        let rxcsum = self.get(reg::RXCSUM);
        let (mut status, mut errors) = (0, 0);
        if rxcsum & (bits::IP_OFFLOAD | bits::TCP_OFFLOAD) != 0 {
            let checked = offload::check(&bytes);
            for (result, offload, seen, wrong) in [
                (checked.ip, bits::IP_OFFLOAD, descriptor::IP_CHECKED, descriptor::IP_ERROR),
                (checked.transport, bits::TCP_OFFLOAD, descriptor::TCP_CHECKED, descriptor::TCP_ERROR),
            ] {
                if let Some(is_right) = result.filter(|_| rxcsum & offload != 0) {
                    status |= seen;
                    errors |= if is_right { 0 } else { wrong };
                }
            }
        }
        if status == 0 {
            status |= descriptor::IGNORE_CHECKSUM;
        }
        let checksum = offload::packet_checksum(&bytes, (rxcsum & 0xff) as usize);
        let (wire_len, to) = (bytes.len(), crate::fields::get(&bytes, 0));
        let crc = (rctl & bits::STRIP_CRC == 0).then(|| {
            bytes.resize(bytes.len().max(SHORTEST), 0);
            offload::check_sequence(&bytes)
        });
        let vlan = tag.filter(|_| self.get(reg::CTRL) & bits::CTRL_VLAN_MODE != 0);
        if vlan.is_some() {
            bytes.drain(12..16);
            status |= descriptor::VLAN_PACKET;
        }
        bytes.extend(crc.into_iter().flatten());
        Waiting { bytes, wire_len, to, written: 0, checksum, status, errors, vlan: vlan.unwrap_or(0) }
    }

    /// Writes as much of the first frame as the next descriptor's buffer holds.
    pub(super) fn receive_next(&mut self, now: SimTime) {
        let rctl = self.get(reg::RCTL);
        if self.fifo.is_empty() || rctl & bits::ENABLE == 0 {
            return;
        }
        let Some(mut descriptor) = self.receive.cache.pop_front() else {
            return self.plan_fetch(now, Direction::Receive);
        };
        let Some(frame) = self.fifo.front_mut() else { return };
        let from = frame.written;
        let piece = buffer_len(rctl).min(frame.bytes.len() - from);
        frame.written += piece;
        let is_end = frame.written == frame.bytes.len();
        let place = &mut descriptor.bytes;
        place[8..10].copy_from_slice(&(piece as u16).to_le_bytes());
        place[10..12].copy_from_slice(&frame.checksum.to_le_bytes());
        place[12] = frame.status | descriptor::DONE | if is_end { descriptor::END } else { 0 };
        place[13] = frame.errors;
        place[14..].copy_from_slice(&frame.vlan.to_le_bytes());
        let part = (!is_end).then(|| frame.bytes[from..from + piece].to_vec());
        if let Some(bytes) = part {
            self.dma_write(descriptor.address(), bytes);
        } else if let Some(mut frame) = self.fifo.pop_front() {
            self.fifo_bytes -= frame.bytes.len();
            self.count_received(frame.to, frame.wire_len);
            frame.bytes.drain(..from);
            self.dma_write(descriptor.address(), frame.bytes);
        }
        let ring = &mut self.receive;
        ring.pass(descriptor.index);
        // Threshold at which the driver is asked for new descriptors: a half, a quarter or an eighth of the
        // ring.
        let is_low = ring.left() <= ring.len >> (1 + (rctl >> 8 & 3));
        let address = ring.address(descriptor.index);
        let back = Event::WriteBack {
            address,
            bytes: descriptor.bytes,
            causes: if is_low { cause::RXDMT0 } else { 0 },
            delayed: is_end.then_some(Direction::Receive),
        };
        self.schedule(now + self.timing.write_back, back);
        self.plan_fetch(now, Direction::Receive);
        self.schedule(now + self.timing.step, Event::Receive);
    }
}
