//! Driver state machine over the host's arena.

use super::queue::{Filled, Ring};
use super::{LONGEST, interface, port, queue_reg, reg};
use crate::arena::Arena;
use crate::driver::{Counts, DriverSettings, Flow};
use crate::fields::{get_u16, get_u32, put};
use crate::info::DeviceInfo;
use crate::transaction::{Interrupt, ToDevice, ToHost, enable};
use belljar_base::{PacketAccount, SimTime};
use std::collections::VecDeque;

/// Bus address of the arena.
const BASE: u64 = 0x1000_0000;
/// Alignment of queues in bytes: the device stores queue addresses without their low bits.
const PAGE: usize = 4_096;
/// Length of a descriptor in bytes.
const DESCRIPTOR: usize = 16;
/// Length of a completion in bytes.
const COMPLETION: usize = 32;
/// Length of an event in bytes.
const EVENT: usize = 32;
/// Transmit and receive, as array indices and event types.
const TX: usize = 0;
const RX: usize = 1;

/// Purpose of a pending register read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Probing of the register layout, by step.
    Layout(usize),
    /// Head pointer of the event queue.
    Events,
    /// Head pointer of a completion queue.
    Completions(usize),
    /// Tail pointer of a descriptor ring.
    Tail(usize),
}

/// Driver of one port of one Corundum interface.
#[derive(Debug)]
pub struct Driver {
    settings: DriverSettings,
    arena: Arena,
    device: DeviceInfo,
    running: bool,
    /// Register offsets: the interface's control registers, its first port, the port's scheduler.
    control: u64,
    port: u64,
    scheduler: u64,
    events: Filled,
    completions: [Filled; 2],
    rings: [Ring; 2],
    /// Completion queues named by an event.
    due: [bool; 2],
    queue: VecDeque<Vec<u8>>,
    doorbell: bool,
    reading: Option<Reading>,
    id: u64,
    pending: bool,
    to_device: VecDeque<ToDevice>,
    received: VecDeque<Vec<u8>>,
    counts: Counts,
    flow: Flow,
}

impl Driver {
    /// Creates a driver that waits for its device.
    pub fn new(settings: DriverSettings) -> Driver {
        let log = settings.ring.clamp(8, 1 << 12).ilog2();
        let ring = 1 << log;
        // Completion queues hold twice the maximum number of outstanding completions, so that none overflows;
        // the event queue holds as many as both.
        let mut end = 0;
        let mut place = |bytes: usize| {
            let at = end;
            end += bytes.next_multiple_of(PAGE);
            at
        };
        let filled = |at, log| Filled { registers: 0, at, log, tail: 0 };
        let descriptors = [place(ring * DESCRIPTOR), place(ring * DESCRIPTOR)];
        let completions = [0, 1].map(|_| filled(place(2 * ring * COMPLETION), log + 1));
        let events = filled(place(4 * ring * EVENT), log + 2);
        let rings = descriptors.map(|at| Ring::new(at, place(ring * LONGEST), log));
        Driver {
            settings,
            arena: Arena::new(BASE, end),
            device: DeviceInfo::default(),
            running: false,
            control: 0,
            port: 0,
            scheduler: 0,
            events,
            completions,
            rings,
            due: [false; 2],
            queue: VecDeque::new(),
            doorbell: false,
            reading: None,
            id: 0,
            pending: false,
            to_device: VecDeque::new(),
            received: VecDeque::new(),
            counts: Counts::default(),
            flow: Flow::default(),
        }
    }

    /// Writes a register. SimBricks' wrapper of the RTL does not support posted writes; the write completions
    /// are ignored.
    fn write(&mut self, offset: u64, value: u32) {
        let data = value.to_le_bytes().to_vec();
        self.to_device.push_back(ToDevice::Write { id: 0, bar: 0, offset, posted: false, data });
    }

    fn read(&mut self, what: Reading) {
        let offset = match what {
            Reading::Layout(n) => self.question(n),
            Reading::Events => self.events.registers + queue_reg::HEAD,
            Reading::Completions(n) => self.completions[n].registers + queue_reg::HEAD,
            Reading::Tail(n) => self.rings[n].registers + queue_reg::TAIL,
        };
        self.id += 1;
        self.reading = Some(what);
        self.counts.register_reads += 1;
        self.to_device.push_back(ToDevice::Read { id: self.id, bar: 0, offset, len: 4 });
    }

    // ---- start ----

    /// Register read in step `number` of probing: the offsets of the other register blocks.
    fn question(&self, number: usize) -> u64 {
        let of_interface = [
            interface::EVENT_QUEUES,
            interface::TRANSMIT_QUEUES,
            interface::TRANSMIT_COMPLETIONS,
            interface::RECEIVE_QUEUES,
            interface::RECEIVE_COMPLETIONS,
            interface::PORTS,
        ];
        match number {
            0 => reg::INTERFACE_CSR,
            number => {
                of_interface.get(number - 1).map_or(self.port + port::SCHEDULERS, |at| self.control + at)
            }
        }
    }

    fn answer(&mut self, number: usize, value: u32) {
        let value = u64::from(value);
        let target = match number {
            0 => &mut self.control,
            1 => &mut self.events.registers,
            2 => &mut self.rings[TX].registers,
            3 => &mut self.completions[TX].registers,
            4 => &mut self.rings[RX].registers,
            5 => &mut self.completions[RX].registers,
            6 => &mut self.port,
            _ => &mut self.scheduler,
        };
        *target = value;
        // Each register block is shorter than 0x100 bytes.
        if !self.device.has(0, value, 0x100) || !self.device.has(0, self.port + self.scheduler, 4) {
            self.counts.invalid += 1;
            return;
        }
        match number {
            0..=6 => self.read(Reading::Layout(number + 1)),
            _ => self.set_up(),
        }
    }

    fn set_up(&mut self) {
        self.running = true;
        let Driver { events, completions: [tx, rx], rings: [out, into], .. } = &*self;
        let arm = queue_reg::ARM;
        let queues = [
            (events.registers, events.at, events.log, arm),
            (tx.registers, tx.at, tx.log, arm),
            (rx.registers, rx.at, rx.log, arm),
            (out.registers, out.at, out.log, 0),
            (into.registers, into.at, into.log, 0),
        ];
        for (registers, at, log, index) in queues {
            let address = self.arena.address(at);
            self.write(registers + queue_reg::SIZE, 0);
            self.write(registers + queue_reg::BASE, address as u32);
            self.write(registers + queue_reg::BASE + 4, (address >> 32) as u32);
            self.write(registers + queue_reg::INDEX, 0);
            self.write(registers + queue_reg::HEAD, 0);
            self.write(registers + queue_reg::TAIL, 0);
            self.write(registers + queue_reg::SIZE, log | queue_reg::ACTIVE);
            if index != 0 {
                self.write(registers + queue_reg::INDEX, index);
            }
        }
        self.refill();
        self.write(self.port + port::RSS_MASK, 0);
        self.write(self.port + port::ENABLE, u32::MAX);
        // The first queue: enabled and scheduled.
        self.write(self.port + self.scheduler, 3);
        self.pump();
    }

    // ---- interrupts ----

    fn serve(&mut self) {
        if self.reading.is_none() && self.running && std::mem::take(&mut self.pending) {
            self.counts.interrupts += 1;
            self.read(Reading::Events);
        }
    }

    fn read_done(&mut self, value: u32) {
        match self.reading.take() {
            None => {}
            Some(Reading::Layout(number)) => return self.answer(number, value),
            Some(Reading::Events) => self.take_events(value as u16),
            Some(Reading::Completions(n)) => {
                self.take_completions(n, value as u16);
                return self.read(Reading::Tail(n));
            }
            Some(Reading::Tail(n)) => {
                if !self.rings[n].read_up_to(value as u16) {
                    self.counts.invalid += 1;
                }
                let returned = self.rings[n].take_back();
                if n == RX {
                    self.refill();
                } else {
                    self.flow.returned += returned;
                }
                self.write(self.completions[n].registers + queue_reg::INDEX, queue_reg::ARM);
            }
        }
        for n in [TX, RX] {
            if std::mem::take(&mut self.due[n]) {
                return self.read(Reading::Completions(n));
            }
        }
        self.pump();
        self.serve();
    }

    fn take_events(&mut self, head: u16) {
        let count = self.events.filled(head).unwrap_or_else(|| {
            self.counts.invalid += 1;
            0
        });
        for _ in 0..count {
            let at = self.events.place(self.events.tail, EVENT);
            match self.due.get_mut(usize::from(get_u16(self.arena.bytes(at, EVENT), 0))) {
                Some(due) => *due = true,
                None => self.counts.invalid += 1,
            }
            self.events.tail = self.events.tail.wrapping_add(1);
        }
        self.write(self.events.registers + queue_reg::TAIL, self.events.tail.into());
        self.write(self.events.registers + queue_reg::INDEX, queue_reg::ARM);
    }

    fn take_completions(&mut self, n: usize, head: u16) {
        let count = self.completions[n].filled(head).unwrap_or_else(|| {
            self.counts.invalid += 1;
            0
        });
        for _ in 0..count {
            let at = self.completions[n].place(self.completions[n].tail, COMPLETION);
            let entry = self.arena.bytes(at, COMPLETION);
            let (index, len) = (get_u16(entry, 2), usize::from(get_u16(entry, 4)));
            self.completions[n].tail = self.completions[n].tail.wrapping_add(1);
            if !self.rings[n].is_out(index) {
                self.counts.invalid += 1;
                continue;
            }
            let place = self.rings[n].place(index);
            self.rings[n].done[place] = true;
            self.flow.found += u64::from(n == RX);
            if n == RX && len <= LONGEST {
                let frame = self.arena.bytes(self.rings[RX].buffers + place * LONGEST, len).to_vec();
                self.counts.received.0 += 1;
                self.counts.received.1 += len as u64;
                self.received.push_back(frame);
            } else if n == RX {
                self.counts.invalid += 1;
                self.flow.invalid += 1;
            }
        }
        self.write(self.completions[n].registers + queue_reg::TAIL, self.completions[n].tail.into());
    }

    // ---- rings ----

    /// Fills the next descriptor of a ring with a buffer of `len` bytes.
    fn fill(&mut self, n: usize, len: usize) {
        let ring = &mut self.rings[n];
        let place = ring.place(ring.head);
        ring.head = ring.head.wrapping_add(1);
        let address = self.arena.address(ring.buffers + place * LONGEST);
        let descriptor = self.arena.bytes_mut(ring.at + place * DESCRIPTOR, DESCRIPTOR);
        descriptor.fill(0);
        put(descriptor, 4, &(len as u32).to_le_bytes());
        put(descriptor, 8, &address.to_le_bytes());
    }

    /// Posts all free receive buffers to the device.
    fn refill(&mut self) {
        let before = self.rings[RX].head;
        while !self.rings[RX].is_full() {
            self.fill(RX, LONGEST);
        }
        if self.rings[RX].head != before {
            self.write(self.rings[RX].registers + queue_reg::HEAD, self.rings[RX].head.into());
        }
    }

    /// Moves queued frames into the transmit ring.
    fn pump(&mut self) {
        while self.running && !self.queue.is_empty() {
            if self.rings[TX].is_full() {
                self.counts.ring_full += 1;
                break;
            }
            let Some(frame) = self.queue.pop_front() else { break };
            let ring = &self.rings[TX];
            let at = ring.buffers + ring.place(ring.head) * LONGEST;
            self.arena.bytes_mut(at, frame.len()).copy_from_slice(&frame);
            self.fill(TX, frame.len());
            self.counts.sent.0 += 1;
            self.counts.sent.1 += frame.len() as u64;
            self.doorbell = true;
        }
    }
}

impl crate::driver::Driver for Driver {
    fn start(&mut self, _now: SimTime, device: &DeviceInfo) {
        self.device = *device;
        self.to_device.push_back(ToDevice::Control { interrupts: enable::MSI });
        self.read(Reading::Layout(0));
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
            ToHost::Interrupt(Interrupt::Msi(_) | Interrupt::Msix(_)) => {
                self.pending = true;
                self.serve();
            }
            ToHost::ReadDone { id, data } if id == self.id => self.read_done(get_u32(&data, 0)),
            ToHost::Interrupt(Interrupt::Line(_)) | ToHost::ReadDone { .. } | ToHost::WriteDone { .. } => {}
        }
    }

    fn transmit(&mut self, frame: Vec<u8>) {
        self.flow.transmitted += 1;
        let is_too_long = frame.len() > LONGEST;
        if is_too_long || self.queue.len() >= self.settings.queue {
            self.counts.dropped += 1;
            match is_too_long {
                true => self.flow.too_long += 1,
                false => self.flow.queue_full += 1,
            }
            return;
        }
        self.queue.push_back(frame);
        self.pump();
    }

    fn on_timeout(&mut self, _now: SimTime) {}
    fn next_timeout(&self) -> Option<SimTime> {
        None
    }
    fn waits(&self) -> bool {
        self.reading.is_some()
    }
    fn poll_device(&mut self) -> Option<ToDevice> {
        if self.to_device.is_empty() && self.reading.is_none() && std::mem::take(&mut self.doorbell) {
            // A single doorbell for all descriptors since the last.
            self.write(self.rings[TX].registers + queue_reg::HEAD, self.rings[TX].head.into());
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
        self.counts.named()
    }
    fn outside(&self) -> u64 {
        self.arena.outside()
    }
    fn packet_account(&self) -> PacketAccount {
        let ring = &self.rings[TX];
        let in_ring = ring.head.wrapping_sub(ring.clean);
        self.flow.account((self.queue.len() + self.received.len()) as u64 + u64::from(in_ring))
    }
}
