//! Reception: filters, the FIFO, and buffers of the host.

use super::{Device, Direction, Event, bits, cause, descriptor, reg};
use crate::e1000::registers::buffer_len;
use crate::e1000::{filter, offload};
use belljar_base::SimTime;

/// Bytes of frames that wait for descriptors.
const FIFO: usize = 384 * 1024;
/// Longest frame without its check sequence: with RCTL's LPE, without, and with a VLAN tag.
const LONGEST: (usize, usize, usize) = (16_380, 1_514, 1_518);
/// Shortest.
const SHORTEST: usize = 60;

/// A frame that waits for descriptors.
#[derive(Debug)]
pub struct Waiting {
    /// With its check sequence, unless RCTL says that it is stripped.
    bytes: Vec<u8>,
    /// As it came, without check sequence.
    wire_len: usize,
    to: [u8; 6],
    /// Bytes that have been written to the host.
    pub(super) written: usize,
    checksum: u16,
    status: u8,
    errors: u8,
    vlan: u16,
}

impl Device {
    /// Takes a frame from the wire, without its check sequence.
    pub fn receive(&mut self, now: SimTime, frame: Vec<u8>) {
        if !self.loops_back() && self.phy.is_on() {
            self.arrive(now, frame);
        }
    }

    pub(super) fn arrive(&mut self, now: SimTime, frame: Vec<u8>) {
        let rctl = self.get(reg::RCTL);
        if rctl & bits::ENABLE == 0 {
            return;
        }
        self.count_arrived(frame.len());
        if !filter::accepts(&frame, |register| self.get(register)) {
            return;
        }
        let tag = filter::vlan_tag(&frame, self.get(reg::VET));
        let longest = match tag {
            _ if rctl & bits::LONG_PACKETS != 0 => LONGEST.0,
            Some(_) => LONGEST.2,
            None => LONGEST.1,
        };
        if frame.len() > longest {
            self.missed += 1;
            return self.count(reg::ROC, 1);
        }
        let frame = self.prepare(frame, tag, rctl);
        if self.fifo_bytes + frame.bytes.len() > FIFO {
            self.missed += 1;
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

    /// Does what is done to a frame before it is written: checks its sums, takes its VLAN tag out, and adds its check sequence.
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

    /// Writes what the next descriptor's buffer takes of the first frame.
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
        // So many of them are left that the driver is to give new ones: a half, a quarter or an eighth.
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
