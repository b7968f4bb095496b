//! e1000 driver: a state machine over the host's arena.

use super::{DESCRIPTOR, bits, cause, descriptor, reg};
use crate::arena::Arena;
use crate::driver::{Counts, DriverSettings, Flow};
use crate::fields::{get_u16, get_u32};
use crate::info::DeviceInfo;
use crate::transaction::{Interrupt, ToDevice, ToHost, enable};
use belljar_base::{PacketAccount, SimDuration, SimTime};
use std::collections::VecDeque;

/// Bus address of the arena.
const BASE: u64 = 0x1000_0000;
/// Interval at which the driver reads the device's counters.
const WATCHDOG: SimDuration = SimDuration::from_secs(2);
/// Counter registers read then; of a pair, the second is the upper half.
const COUNTERS: [(u64, usize); 9] = [
    (reg::GPRC, 0),
    (reg::GPTC, 1),
    (reg::GORCL, 2),
    (reg::GORCH, 2),
    (reg::GOTCL, 3),
    (reg::GOTCH, 3),
    (reg::MPC, 4),
    (reg::RNBC, 5),
    (reg::ROC, TOO_LONG),
];
/// Index of the counter of oversized frames.
const TOO_LONG: usize = 6;
const UPPER: [u64; 2] = [reg::GORCH, reg::GOTCH];

/// Purpose of a pending register read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Link status.
    Status,
    /// Interrupt causes.
    Cause,
    /// A counter, by its index in [`COUNTERS`].
    Counter(usize),
}

/// e1000 driver.
#[derive(Debug)]
pub struct Driver {
    settings: DriverSettings,
    arena: Arena,
    buffer: usize,
    running: bool,
    /// Next descriptor to examine, per ring.
    receive_next: u32,
    transmit_next: u32,
    transmit_clean: u32,
    queue: VecDeque<Vec<u8>>,
    /// Rings whose tail register must be written.
    doorbells: [bool; 2],
    reading: Option<Reading>,
    /// Id of the pending read.
    id: u64,
    line: bool,
    pending: bool,
    /// True while the remainder of a frame that exceeds its buffer is discarded.
    discarding: bool,
    watchdog: Option<SimTime>,
    watchdog_due: bool,
    to_device: VecDeque<ToDevice>,
    received: VecDeque<Vec<u8>>,
    counts: Counts,
    flow: Flow,
    /// Device counters: frames received and sent, bytes received and sent, frames missed, without buffers,
    /// and oversized.
    of_device: [u64; 7],
}

impl Driver {
    /// Creates a driver that waits for its device.
    pub fn new(settings: DriverSettings) -> Driver {
        let buffer = [2_048, 4_096, 8_192, 16_384].into_iter().find(|size| settings.longest + 4 < *size);
        let buffer = buffer.unwrap_or(16_384);
        let ring = settings.ring as usize;
        Driver {
            arena: Arena::new(BASE, 2 * ring * (DESCRIPTOR + buffer)),
            settings,
            buffer,
            running: false,
            receive_next: 0,
            transmit_next: 0,
            transmit_clean: 0,
            queue: VecDeque::new(),
            doorbells: [false; 2],
            reading: None,
            id: 0,
            line: false,
            pending: false,
            discarding: false,
            watchdog: None,
            watchdog_due: false,
            to_device: VecDeque::new(),
            received: VecDeque::new(),
            counts: Counts::default(),
            flow: Flow::default(),
            of_device: [0; 7],
        }
    }

    fn write(&mut self, offset: u64, value: u32) {
        let data = value.to_le_bytes().to_vec();
        self.to_device.push_back(ToDevice::Write { id: 0, bar: 0, offset, posted: true, data });
    }

    fn read(&mut self, what: Reading) {
        let offset = match what {
            Reading::Status => reg::STATUS,
            Reading::Cause => reg::ICR,
            Reading::Counter(n) => COUNTERS[n].0,
        };
        self.id += 1;
        self.reading = Some(what);
        self.counts.register_reads += 1;
        self.to_device.push_back(ToDevice::Read { id: self.id, bar: 0, offset, len: 4 });
    }

    /// Starts the next operation that needs a register read.
    fn serve(&mut self) {
        if self.reading.is_some() || !self.running {
            return;
        }
        if self.pending || self.line {
            self.pending = false;
            self.counts.interrupts += 1;
            return self.read(Reading::Cause);
        }
        if std::mem::take(&mut self.watchdog_due) {
            self.read(Reading::Counter(0));
        }
    }

    fn read_done(&mut self, value: u32) {
        match self.reading.take() {
            Some(Reading::Status) | None => {}
            Some(Reading::Cause) => self.work(),
            Some(Reading::Counter(n)) => {
                let (register, place) = COUNTERS[n];
                let shift = if UPPER.contains(&register) { 32 } else { 0 };
                let count = &mut self.of_device[place];
                *count = count.wrapping_add(u64::from(value) << shift);
                if n + 1 < COUNTERS.len() {
                    return self.read(Reading::Counter(n + 1));
                }
            }
        }
        self.pump();
        self.serve();
    }

    // ---- rings ----

    /// Offset of a descriptor in ring 0 (receive) or 1 (transmit).
    fn descriptor(&self, ring: usize, index: u32) -> usize {
        (ring * self.settings.ring as usize + index as usize) * DESCRIPTOR
    }

    fn buffer_at(&self, ring: usize, index: u32) -> usize {
        let buffers = 2 * self.settings.ring as usize * DESCRIPTOR;
        buffers + (ring * self.settings.ring as usize + index as usize) * self.buffer
    }

    fn put(&mut self, ring: usize, index: u32, len: u16, command: u8) {
        let address = self.arena.address(self.buffer_at(ring, index));
        let at = self.descriptor(ring, index);
        let place = self.arena.bytes_mut(at, DESCRIPTOR);
        place.fill(0);
        place[..8].copy_from_slice(&address.to_le_bytes());
        place[8..10].copy_from_slice(&len.to_le_bytes());
        place[11] = command;
    }

    /// Posts an empty buffer to the device.
    fn offer(&mut self, index: u32) {
        self.put(0, index, 0, 0);
    }

    fn is_done(&self, ring: usize, index: u32) -> bool {
        self.arena.bytes(self.descriptor(ring, index), DESCRIPTOR)[12] & descriptor::DONE != 0
    }

    /// Interrupt handler: processes received descriptors.
    fn work(&mut self) {
        for _ in 0..self.settings.ring {
            let index = self.receive_next;
            if !self.is_done(0, index) {
                break;
            }
            let read = self.arena.bytes(self.descriptor(0, index), DESCRIPTOR);
            let (len, status) = (usize::from(get_u16(read, 8)), read[12]);
            let is_whole = status & descriptor::END != 0;
            let is_remainder = std::mem::replace(&mut self.discarding, !is_whole);
            self.flow.found += u64::from(!is_remainder);
            if is_remainder {
                // Already counted.
            } else if len > self.buffer || !is_whole || read[13] != 0 {
                self.counts.invalid += 1;
                self.flow.invalid += 1;
            } else {
                let frame = self.arena.bytes(self.buffer_at(0, index), len).to_vec();
                self.counts.received.0 += 1;
                self.counts.received.1 += len as u64;
                self.received.push_back(frame);
            }
            self.offer(index);
            self.doorbells[0] = true;
            self.receive_next = (index + 1) % self.settings.ring;
        }
    }

    /// Reclaims sent descriptors, and moves queued frames into the ring.
    fn pump(&mut self) {
        if !self.running {
            return;
        }
        while self.transmit_clean != self.transmit_next && self.is_done(1, self.transmit_clean) {
            self.transmit_clean = (self.transmit_clean + 1) % self.settings.ring;
            self.flow.returned += 1;
        }
        while !self.queue.is_empty() {
            let next = (self.transmit_next + 1) % self.settings.ring;
            if next == self.transmit_clean {
                self.counts.ring_full += 1;
                break;
            }
            let Some(frame) = self.queue.pop_front() else { break };
            let len = frame.len().min(self.buffer);
            let command = descriptor::COMMAND_END | descriptor::COMMAND_ADD_CRC | descriptor::COMMAND_REPORT;
            let at = self.buffer_at(1, self.transmit_next);
            self.arena.bytes_mut(at, len).copy_from_slice(&frame[..len]);
            self.put(1, self.transmit_next, len as u16, command);
            self.counts.sent.0 += 1;
            self.counts.sent.1 += len as u64;
            self.doorbells[1] = true;
            self.transmit_next = next;
        }
    }
}

impl crate::driver::Driver for Driver {
    fn start(&mut self, now: SimTime, device: &DeviceInfo) {
        let msi = self.settings.msi && device.msi_vectors > 0;
        let interrupts = if msi { enable::MSI } else { enable::INTX };
        self.to_device.push_back(ToDevice::Control { interrupts });
        self.write(reg::IMC, u32::MAX);
        self.write(reg::CTRL, bits::CTRL_RESET);
        self.write(reg::IMC, u32::MAX);
        let [a, b, c, d, e, f] = self.settings.mac;
        self.write(reg::RAL, u32::from_le_bytes([a, b, c, d]));
        self.write(reg::RAH, u32::from(e) | u32::from(f) << 8 | bits::ADDRESS_VALID);
        let len = self.settings.ring * DESCRIPTOR as u32;
        for (base, ring) in [(reg::RDBAL, 0), (reg::TDBAL, 1)] {
            let address = self.arena.address(self.descriptor(ring, 0));
            self.write(base, address as u32);
            self.write(base + 4, (address >> 32) as u32);
            self.write(base + 8, len);
            self.write(base + 16, 0);
        }
        for n in 0..self.settings.ring {
            self.offer(n);
        }
        let throttle = self.settings.interrupt_interval.as_nanos() / 256;
        self.write(reg::ITR, throttle.min(0xffff) as u32);
        let size = match self.buffer {
            2_048 => 0,
            size => bits::SIZE_EXTENSION | bits::LONG_PACKETS | ((32_768 / size as u32).ilog2() << 16),
        };
        // Checksums are verified by the stack.
        self.write(reg::RXCSUM, 0);
        let receive = bits::ENABLE | bits::BROADCAST | bits::MULTICAST_ALL | bits::STRIP_CRC | size;
        self.write(reg::RCTL, receive);
        self.write(reg::TCTL, bits::ENABLE | bits::PAD_SHORT);
        self.write(reg::RDT, self.settings.ring - 1);
        self.write(reg::IMS, cause::RXT0 | cause::RXO | cause::RXDMT0 | cause::TXDW);
        self.running = true;
        self.watchdog = Some(now + WATCHDOG);
        self.read(Reading::Status);
        self.pump();
    }

    fn handle(&mut self, transaction: ToHost) {
        match transaction {
            ToHost::Read { id, address, len } => {
                let data = self.arena.dma_read(address, len.into());
                self.to_device.push_back(ToDevice::ReadDone { id, data });
            }
            ToHost::Write { id, address, data } => {
                self.arena.dma_write(address, &data);
                self.to_device.push_back(ToDevice::WriteDone { id });
            }
            ToHost::Interrupt(Interrupt::Line(up)) => {
                self.line = up;
                self.serve();
            }
            ToHost::Interrupt(Interrupt::Msi(_) | Interrupt::Msix(_)) => {
                self.pending = true;
                self.serve();
            }
            ToHost::ReadDone { id, data } if id == self.id => self.read_done(get_u32(&data, 0)),
            ToHost::ReadDone { .. } | ToHost::WriteDone { .. } => {}
        }
    }

    fn transmit(&mut self, frame: Vec<u8>) {
        self.flow.transmitted += 1;
        if self.queue.len() >= self.settings.queue {
            self.counts.dropped += 1;
            self.flow.queue_full += 1;
            return;
        }
        self.queue.push_back(frame);
        self.pump();
    }

    fn on_timeout(&mut self, now: SimTime) {
        if self.watchdog.is_some_and(|at| at <= now) {
            self.watchdog = Some(now + WATCHDOG);
            self.watchdog_due = true;
            self.serve();
        }
    }

    fn next_timeout(&self) -> Option<SimTime> {
        self.watchdog
    }
    fn waits(&self) -> bool {
        self.reading.is_some()
    }
    fn poll_device(&mut self) -> Option<ToDevice> {
        if self.to_device.is_empty() && self.reading.is_none() {
            // A single doorbell for all descriptors since the last.
            for (ring, register, tail) in
                [(0, reg::RDT, self.receive_next + self.settings.ring - 1), (1, reg::TDT, self.transmit_next)]
            {
                if std::mem::take(&mut self.doorbells[ring]) {
                    self.write(register, tail % self.settings.ring);
                }
            }
        }
        self.to_device.pop_front()
    }
    fn poll_received(&mut self) -> Option<Vec<u8>> {
        let frame = self.received.pop_front()?;
        self.flow.delivered += 1;
        Some(frame)
    }
    fn counts(&self) -> &Counts {
        &self.counts
    }
    fn statistics(&self) -> Vec<(&'static str, u64)> {
        const NAMES: [&str; 7] = [
            "rx_good_packets",
            "tx_good_packets",
            "rx_octets",
            "tx_octets",
            "rx_missed_errors",
            "rx_no_buffer_count",
            "rx_long_length_errors",
        ];
        // Frames that the device dropped for their length are errors too.
        let invalid = self.counts.invalid + self.of_device[TOO_LONG];
        let mut all = Counts { invalid, ..self.counts.clone() }.named();
        all.extend(NAMES.into_iter().zip(self.of_device));
        all
    }
    fn outside(&self) -> u64 {
        self.arena.outside()
    }
    fn packet_account(&self) -> PacketAccount {
        let ring = self.settings.ring;
        let in_ring = (self.transmit_next + ring - self.transmit_clean) % ring;
        self.flow.account((self.queue.len() + self.received.len()) as u64 + u64::from(in_ring))
    }
}
