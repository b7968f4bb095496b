//! The controller: registers, rings, DMA and interrupts.

use super::{DESCRIPTOR, bits, buffer_len, cause, descriptor, reg};
use crate::fields::{get_u16, get_u64};
use crate::transaction::{Interrupt, ToDevice, ToHost, enable};
use belljar_base::{Map, SimDuration, SimTime};
use std::collections::VecDeque;

/// Times that the controller takes for what it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From a reason to fetch descriptors to the request.
    pub fetch: SimDuration,
    /// From the last use of a descriptor to its writing back.
    pub write_back: SimDuration,
    /// From a read of registers to its answer.
    pub register: SimDuration,
    /// From one step to the next of what concerns a frame.
    pub step: SimDuration,
}

impl Default for Timing {
    /// Those of SimBricks' model.
    fn default() -> Timing {
        let nanos = SimDuration::from_nanos;
        Timing { fetch: nanos(20), write_back: nanos(20), register: SimDuration::ZERO, step: nanos(1) }
    }
}

/// Bytes of frames that wait for descriptors.
const FIFO: usize = 384 * 1024;
/// Descriptors that are kept inside.
const CACHE: usize = 64;
/// Unit of the interrupt throttle, in nanoseconds.
const THROTTLE_NANOS: u64 = 256;
/// Longest frame that a transmission may be gathered to.
const MOST: usize = 16_384;

/// A descriptor, with its place in the ring.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    index: u32,
    bytes: [u8; DESCRIPTOR],
}

impl Descriptor {
    fn address(&self) -> u64 {
        get_u64(&self.bytes, 0)
    }
}

/// A ring of descriptors in the host's memory.
#[derive(Clone, Debug, Default)]
struct Ring {
    base: u64,
    /// In descriptors.
    len: u32,
    head: u32,
    tail: u32,
    /// The next one to fetch.
    next: u32,
    fetching: bool,
    cache: VecDeque<Descriptor>,
    /// Written to by a reset, so that answers of before are known.
    epoch: u32,
}

impl Ring {
    fn reset(&mut self) {
        *self = Ring { base: self.base, len: self.len, epoch: self.epoch + 1, ..Ring::default() };
    }
    /// The next ones to fetch in one piece, if any: index and number.
    fn wanted(&self) -> Option<(u32, u32)> {
        if self.fetching || self.next >= self.len || self.tail >= self.len {
            return None;
        }
        let end = if self.tail >= self.next { self.tail } else { self.len };
        let room = CACHE.saturating_sub(self.cache.len()) as u32;
        let count = (end - self.next).min(room);
        (count > 0).then_some((self.next, count))
    }
    fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * DESCRIPTOR as u64)
    }
}

/// What the answer to a DMA read is for.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Descriptors { transmit: bool, index: u32, count: u32, epoch: u32 },
    Packet { epoch: u32 },
}

/// Something that happens at a later time.
#[derive(Clone, Debug)]
enum Event {
    Fetch { transmit: bool },
    Transmit,
    Receive,
    WriteBack { address: u64, bytes: [u8; DESCRIPTOR], causes: u32 },
    Answer(ToHost),
    Throttled,
}

/// The controller.
///
/// **In**: [`handle`](Self::handle) takes a transaction of the host, [`receive`](Self::receive) a frame from the wire,
/// [`on_timeout`](Self::on_timeout) is called at [`next_event`](Self::next_event). **Out**, after each: [`poll_host`](Self::poll_host) and
/// [`poll_wire`](Self::poll_wire). It takes from the host whatever comes: accesses of a wrong length read as zero and write nothing.
#[derive(Debug)]
pub struct Device {
    timing: Timing,
    mac: [u8; 6],
    registers: Map<u64, u32>,
    transmit: Ring,
    receive: Ring,
    fifo: VecDeque<Vec<u8>>,
    fifo_bytes: usize,
    /// Frames that were lost for want of room, since the start.
    missed: u64,
    /// What has been gathered of a frame, and the descriptor that is being read.
    gathered: Vec<u8>,
    sending: Option<Descriptor>,
    reads: Map<u64, Reading>,
    next_id: u64,
    enabled: u64,
    icr: u32,
    ims: u32,
    asserted: bool,
    last_interrupt: Option<SimTime>,
    throttled: bool,
    events: Map<(SimTime, u64), Event>,
    sequence: u64,
    to_host: VecDeque<ToHost>,
    to_wire: VecDeque<Vec<u8>>,
}

impl Device {
    /// A controller with an address of its own.
    pub fn new(mac: [u8; 6], timing: Timing) -> Device {
        Device {
            timing,
            mac,
            registers: Map::new(),
            transmit: Ring::default(),
            receive: Ring::default(),
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            missed: 0,
            gathered: Vec::new(),
            sending: None,
            reads: Map::new(),
            next_id: 1,
            enabled: 0,
            icr: 0,
            ims: 0,
            asserted: false,
            last_interrupt: None,
            throttled: false,
            events: Map::new(),
            sequence: 0,
            to_host: VecDeque::new(),
            to_wire: VecDeque::new(),
        }
    }

    /// Takes a transaction of the host.
    pub fn handle(&mut self, now: SimTime, transaction: ToDevice) {
        match transaction {
            ToDevice::Read { id, bar, offset, len } => {
                let value = if bar == 0 && len == 4 { self.read(now, offset) } else { 0 };
                let mut data = value.to_le_bytes().to_vec();
                data.resize(len.into(), 0);
                self.schedule(now + self.timing.register, Event::Answer(ToHost::ReadDone { id, data }));
            }
            ToDevice::Write { id, bar, offset, posted, data } => {
                if let (0, Ok(value)) = (bar, data.try_into()) {
                    self.write(now, offset, u32::from_le_bytes(value));
                }
                if !posted {
                    self.schedule(now + self.timing.register, Event::Answer(ToHost::WriteDone { id }));
                }
            }
            ToDevice::ReadDone { id, data } => self.read_done(now, id, &data),
            ToDevice::WriteDone { .. } => {}
            ToDevice::Control { interrupts } => self.enabled = interrupts,
        }
    }

    /// Takes a frame from the wire, without its check sequence.
    pub fn receive(&mut self, now: SimTime, frame: Vec<u8>) {
        if self.get(reg::RCTL) & bits::ENABLE == 0 || !self.wants(&frame) {
            return;
        }
        if self.fifo_bytes + frame.len() > FIFO || frame.len() > buffer_len(self.get(reg::RCTL)) {
            self.missed += 1;
            self.count(reg::MPC, 1);
            return self.interrupt(now, cause::RXO);
        }
        if self.receive.cache.is_empty() && self.receive.wanted().is_none() && !self.receive.fetching {
            self.count(reg::RNBC, 1);
        }
        self.fifo_bytes += frame.len();
        self.fifo.push_back(frame);
        self.schedule(now + self.timing.step, Event::Receive);
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: SimTime) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Event::Fetch { transmit } => self.fetch(transmit),
                Event::Transmit => self.transmit_next(now),
                Event::Receive => self.receive_next(now),
                Event::WriteBack { address, bytes, causes } => {
                    self.dma_write(address, bytes.to_vec());
                    self.interrupt(now, causes);
                }
                Event::Answer(answer) => self.to_host.push_back(answer),
                Event::Throttled => {
                    self.throttled = false;
                    self.assert_interrupt(now);
                }
            }
        }
    }

    /// When it wants to be called next.
    pub fn next_event(&self) -> Option<SimTime> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }
    /// The next transaction for the host.
    pub fn poll_host(&mut self) -> Option<ToHost> {
        self.to_host.pop_front()
    }
    /// The next frame for the wire.
    pub fn poll_wire(&mut self) -> Option<Vec<u8>> {
        self.to_wire.pop_front()
    }
    /// Frames that were lost because neither buffers nor room for them were there.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    fn schedule(&mut self, at: SimTime, event: Event) {
        self.sequence += 1;
        self.events.insert((at, self.sequence), event);
    }

    // ---- registers ----

    fn get(&self, register: u64) -> u32 {
        self.registers.get(&register).copied().unwrap_or(0)
    }

    fn count(&mut self, register: u64, more: u32) {
        let value = self.registers.entry(register).or_default();
        *value = value.saturating_add(more);
    }

    /// Adds to a counter of 64 bits in two registers.
    fn count_wide(&mut self, low: u64, high: u64, more: usize) {
        let total = (u64::from(self.get(high)) << 32 | u64::from(self.get(low))).wrapping_add(more as u64);
        self.registers.insert(low, total as u32);
        self.registers.insert(high, (total >> 32) as u32);
    }

    fn read(&mut self, now: SimTime, register: u64) -> u32 {
        match register {
            reg::STATUS => bits::STATUS_UP,
            reg::ICR => {
                let value = self.icr | u32::from(self.asserted) << 31;
                self.icr = 0;
                self.check_interrupt(now);
                value
            }
            reg::IMS => self.ims,
            reg::RDH => self.receive.head,
            reg::TDH => self.transmit.head,
            reg::RDT => self.receive.tail,
            reg::TDT => self.transmit.tail,
            register if reg::STATS.contains(&register) => self.registers.remove(&register).unwrap_or(0),
            register => self.get(register),
        }
    }

    fn write(&mut self, now: SimTime, register: u64, value: u32) {
        match register {
            reg::CTRL if value & bits::CTRL_RESET != 0 => return self.reset(),
            reg::ICR => {
                self.icr &= !value;
                return self.check_interrupt(now);
            }
            reg::ICS => return self.interrupt(now, value & 0xffff),
            reg::IMS => {
                self.ims |= value;
                return self.check_interrupt(now);
            }
            reg::IMC => {
                self.ims &= !value;
                return self.check_interrupt(now);
            }
            reg::EERD if value & bits::EERD_START != 0 => {
                let word = self.eeprom((value >> 8) as u8);
                self.registers.insert(register, u32::from(word) << 16 | value & 0xff00 | bits::EERD_DONE);
                return;
            }
            register if register % 4 != 0 || reg::STATS.contains(&register) => return,
            _ => {}
        }
        self.registers.insert(register, value);
        let base = |device: &Device, low: u64, high: u64| {
            u64::from(device.get(high)) << 32 | u64::from(device.get(low) & !0xf)
        };
        match register {
            reg::TCTL => self.schedule(now + self.timing.step, Event::Transmit),
            reg::RCTL => self.schedule(now + self.timing.step, Event::Receive),
            reg::TDBAL | reg::TDBAH => self.transmit.base = base(self, reg::TDBAL, reg::TDBAH),
            reg::RDBAL | reg::RDBAH => self.receive.base = base(self, reg::RDBAL, reg::RDBAH),
            reg::TDLEN => self.transmit.len = (value & 0xf_ff80) / DESCRIPTOR as u32,
            reg::RDLEN => self.receive.len = (value & 0xf_ff80) / DESCRIPTOR as u32,
            reg::TDH | reg::RDH => {
                let ring = if register == reg::TDH { &mut self.transmit } else { &mut self.receive };
                ring.reset();
                (ring.head, ring.next) = (value & 0xffff, value & 0xffff);
                if register == reg::TDH {
                    self.gathered.clear();
                    self.sending = None;
                }
            }
            reg::TDT => {
                self.transmit.tail = value & 0xffff;
                self.plan_fetch(now, true);
            }
            reg::RDT => {
                self.receive.tail = value & 0xffff;
                self.plan_fetch(now, false);
            }
            _ => {}
        }
    }

    fn reset(&mut self) {
        let (mac, timing) = (self.mac, self.timing);
        let old = std::mem::replace(self, Device::new(mac, timing));
        self.transmit.epoch = old.transmit.epoch + 1;
        self.receive.epoch = old.receive.epoch + 1;
        (self.next_id, self.enabled, self.sequence) = (old.next_id, old.enabled, old.sequence);
        (self.to_host, self.to_wire) = (old.to_host, old.to_wire);
        self.missed = old.missed;
        if old.asserted && self.enabled & enable::MSI == 0 {
            self.to_host.push_back(ToHost::Interrupt(Interrupt::Line(false)));
        }
        // What has been asked is answered.
        let answers = old.events.into_iter().filter(|(_, event)| matches!(event, Event::Answer(_)));
        self.events = answers.collect();
    }

    /// A word of the EEPROM: the address, and a sum that makes all of it 0xbaba.
    fn eeprom(&self, address: u8) -> u16 {
        let word = |n: usize| u16::from_le_bytes([self.mac[2 * n], self.mac[2 * n + 1]]);
        match address {
            0..=2 => word(address.into()),
            0x3f => (0..3).fold(0xbaba_u16, |sum, n| sum.wrapping_sub(word(n))),
            _ => 0,
        }
    }

    /// The filter of addresses: frames to all, to the address in the first register pair, or whatever RCTL says.
    fn wants(&self, frame: &[u8]) -> bool {
        let rctl = self.get(reg::RCTL);
        let Some(to) = frame.get(..6) else { return false };
        if to[0] & 1 != 0 {
            let all = to.iter().all(|byte| *byte == 0xff);
            return rctl & if all { bits::BROADCAST | bits::MULTICAST_ALL } else { bits::MULTICAST_ALL } != 0;
        }
        let (low, high) = (self.get(reg::RAL).to_le_bytes(), self.get(reg::RAH));
        let own = [low[0], low[1], low[2], low[3], high as u8, (high >> 8) as u8];
        rctl & bits::UNICAST_ALL != 0 || (high & bits::ADDRESS_VALID != 0 && own == to)
    }

    // ---- interrupts ----

    fn interrupt(&mut self, now: SimTime, causes: u32) {
        if causes == 0 || self.icr & causes == causes {
            return;
        }
        self.icr |= causes;
        self.raise(now);
    }

    /// Interrupts the host now or once the throttle allows it, if there is something that is not masked.
    fn raise(&mut self, now: SimTime) {
        if self.icr & self.ims == 0 || self.throttled {
            return;
        }
        let interval = SimDuration::from_nanos(THROTTLE_NANOS * u64::from(self.get(reg::ITR) & 0xffff));
        match self.last_interrupt.map(|last| last + interval).filter(|next| *next > now) {
            Some(next) => {
                self.throttled = true;
                self.schedule(next, Event::Throttled);
            }
            None => self.assert_interrupt(now),
        }
    }

    fn assert_interrupt(&mut self, now: SimTime) {
        if self.icr & self.ims == 0 || self.asserted {
            return;
        }
        let interrupt = match self.enabled {
            enabled if enabled & enable::MSI != 0 => Interrupt::Msi(0),
            enabled if enabled & enable::INTX != 0 => Interrupt::Line(true),
            _ => return,
        };
        self.asserted = true;
        self.last_interrupt = Some(now);
        self.to_host.push_back(ToHost::Interrupt(interrupt));
    }

    fn check_interrupt(&mut self, now: SimTime) {
        if self.icr & self.ims != 0 {
            return self.raise(now);
        }
        if self.asserted {
            self.asserted = false;
            if self.enabled & enable::MSI == 0 {
                self.to_host.push_back(ToHost::Interrupt(Interrupt::Line(false)));
            }
        }
    }

    // ---- DMA ----

    fn dma_read(&mut self, address: u64, len: u16, what: Reading) {
        let id = self.next_id;
        self.next_id += 1;
        self.reads.insert(id, what);
        self.to_host.push_back(ToHost::Read { id, address, len });
    }

    fn dma_write(&mut self, address: u64, data: Vec<u8>) {
        let id = self.next_id;
        self.next_id += 1;
        self.to_host.push_back(ToHost::Write { id, address, data });
    }

    fn plan_fetch(&mut self, now: SimTime, transmit: bool) {
        let ring = if transmit { &mut self.transmit } else { &mut self.receive };
        if ring.wanted().is_some() {
            ring.fetching = true;
            self.schedule(now + self.timing.fetch, Event::Fetch { transmit });
        }
    }

    fn fetch(&mut self, transmit: bool) {
        let ring = if transmit { &mut self.transmit } else { &mut self.receive };
        ring.fetching = false;
        let Some((index, count)) = ring.wanted() else { return };
        ring.fetching = true;
        let (address, epoch) = (ring.address(index), ring.epoch);
        let len = count as u16 * DESCRIPTOR as u16;
        self.dma_read(address, len, Reading::Descriptors { transmit, index, count, epoch });
    }

    fn read_done(&mut self, now: SimTime, id: u64, data: &[u8]) {
        match self.reads.remove(&id) {
            Some(Reading::Descriptors { transmit, index, count, epoch }) => {
                let ring = if transmit { &mut self.transmit } else { &mut self.receive };
                if ring.epoch != epoch {
                    return;
                }
                let read = data.chunks_exact(DESCRIPTOR).zip(index..index + count);
                ring.cache.extend(
                    read.map(|(bytes, index)| Descriptor { index, bytes: crate::fields::get(bytes, 0) }),
                );
                ring.fetching = false;
                ring.next = if index + count >= ring.len { 0 } else { index + count };
                let next = if transmit { Event::Transmit } else { Event::Receive };
                self.schedule(now + self.timing.step, next);
                self.plan_fetch(now, transmit);
            }
            Some(Reading::Packet { epoch }) if epoch == self.transmit.epoch => self.gathered(now, data),
            Some(Reading::Packet { .. }) | None => {}
        }
    }

    // ---- transmission ----

    fn transmit_next(&mut self, now: SimTime) {
        if self.sending.is_some() || self.get(reg::TCTL) & bits::ENABLE == 0 {
            return;
        }
        let Some(descriptor) = self.transmit.cache.pop_front() else { return self.plan_fetch(now, true) };
        self.sending = Some(descriptor);
        let (len, epoch) = (get_u16(&descriptor.bytes, 8), self.transmit.epoch);
        match len {
            0 => self.gathered(now, &[]),
            len => self.dma_read(descriptor.address(), len, Reading::Packet { epoch }),
        }
        self.plan_fetch(now, true);
    }

    /// The bytes of a descriptor are there.
    fn gathered(&mut self, now: SimTime, data: &[u8]) {
        let Some(mut descriptor) = self.sending.take() else { return };
        let command = descriptor.bytes[11];
        if self.gathered.len() + data.len() <= MOST {
            self.gathered.extend_from_slice(data);
        }
        if command & descriptor::COMMAND_END != 0 {
            let mut frame = std::mem::take(&mut self.gathered);
            if self.get(reg::TCTL) & bits::PAD_SHORT != 0 && frame.len() < 60 {
                frame.resize(60, 0);
            }
            if frame.len() >= 14 {
                self.count(reg::GPTC, 1);
                self.count_wide(reg::GOTCL, reg::GOTCH, frame.len());
                self.to_wire.push_back(frame);
            }
        }
        let ring = &mut self.transmit;
        ring.head = if descriptor.index + 1 >= ring.len { 0 } else { descriptor.index + 1 };
        let is_last = ring.head == ring.tail;
        if command & descriptor::COMMAND_REPORT != 0 {
            descriptor.bytes[12] |= descriptor::DONE;
            let address = ring.address(descriptor.index);
            let causes = cause::TXDW | if is_last { cause::TXQE } else { 0 };
            let back = Event::WriteBack { address, bytes: descriptor.bytes, causes };
            self.schedule(now + self.timing.write_back, back);
        }
        self.schedule(now + self.timing.step, Event::Transmit);
    }

    // ---- reception ----

    fn receive_next(&mut self, now: SimTime) {
        if self.fifo.is_empty() || self.get(reg::RCTL) & bits::ENABLE == 0 {
            return;
        }
        let Some(mut descriptor) = self.receive.cache.pop_front() else { return self.plan_fetch(now, false) };
        let Some(frame) = self.fifo.pop_front() else { return };
        self.fifo_bytes -= frame.len();
        self.count(reg::GPRC, 1);
        self.count_wide(reg::GORCL, reg::GORCH, frame.len());
        let crc = if self.get(reg::RCTL) & bits::STRIP_CRC == 0 { 4 } else { 0 };
        descriptor.bytes[8..10].copy_from_slice(&(frame.len() as u16 + crc).to_le_bytes());
        descriptor.bytes[10..].fill(0);
        descriptor.bytes[12] = descriptor::DONE | descriptor::END;
        self.dma_write(descriptor.address(), frame);
        let ring = &mut self.receive;
        ring.head = if descriptor.index + 1 >= ring.len { 0 } else { descriptor.index + 1 };
        let left = (ring.tail + ring.len - ring.head) % ring.len.max(1);
        let causes = cause::RXT0 | if left <= ring.len / 2 { cause::RXDMT0 } else { 0 };
        let address = ring.address(descriptor.index);
        let back = Event::WriteBack { address, bytes: descriptor.bytes, causes };
        self.schedule(now + self.timing.write_back, back);
        self.plan_fetch(now, false);
        self.schedule(now + self.timing.step, Event::Receive);
    }
}
