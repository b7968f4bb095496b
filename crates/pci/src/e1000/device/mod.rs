//! Controller model: registers, rings, DMA and interrupts.

mod account;
mod interrupts;
mod receive;
mod ring;
mod statistics;
mod transmit;

use super::eeprom::Eeprom;
use super::phy::Phy;
use super::registers::{RESET_VALUES, bits, cause, descriptor, reg, writable};
use super::{DESCRIPTOR, PORTS, REGISTERS};
use crate::transaction::{ToDevice, ToHost};
use account::{Flow, Loss};
use belljar_base::{Map, SimDuration, SimTime};
use interrupts::Interrupts;
use receive::Waiting;
use ring::{Descriptor, Ring};
use std::collections::VecDeque;
use transmit::Sender;

/// Processing times of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Time from a trigger to the fetch request for descriptors.
    pub fetch: SimDuration,
    /// Time from the last use of a descriptor to its write-back.
    pub write_back: SimDuration,
    /// Time from a register read to its completion.
    pub register: SimDuration,
    /// Time between the processing steps of a frame.
    pub step: SimDuration,
}

impl Default for Timing {
    /// Times of SimBricks' model.
    fn default() -> Timing {
        let nanos = SimDuration::from_nanos;
        Timing { fetch: nanos(20), write_back: nanos(20), register: SimDuration::ZERO, step: nanos(1) }
    }
}

/// Maximum length of a DMA transaction, limited by the messages of the channel protocol.
const MESSAGE: usize = 9_024;

/// Direction of frames, with its own ring, interrupts and counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Receive,
    Transmit,
}

/// Purpose of a pending DMA read.
#[derive(Clone, Copy, Debug)]
enum Reading {
    Descriptors { direction: Direction, index: u32, count: u32, epoch: u32 },
    Packet { epoch: u32 },
}

/// Scheduled event.
#[derive(Clone, Debug)]
enum Event {
    Fetch {
        direction: Direction,
        epoch: u32,
    },
    Transmit,
    Receive,
    /// Raises causes.
    Causes(u32),
    /// Descriptor write-back; raises causes with it, and that of the direction after its delay.
    WriteBack {
        address: u64,
        bytes: [u8; DESCRIPTOR],
        causes: u32,
        delayed: Option<Direction>,
    },
    Answer(ToHost),
    Throttled,
    Delayed(Direction),
}

/// Controller model.
///
/// **Inputs**: [`handle`](Self::handle) for a transaction of the host, [`receive`](Self::receive) for a frame
/// from the wire, [`set_carrier`](Self::set_carrier) for the state of the cable,
/// [`on_timeout`](Self::on_timeout) at [`next_event`](Self::next_event). **Outputs**, after each input:
/// [`poll_host`](Self::poll_host) and [`poll_wire`](Self::poll_wire). Any transaction of the host is
/// accepted: accesses of an invalid length read as zero and write nothing.
#[derive(Debug)]
pub struct Device {
    timing: Timing,
    eeprom: Eeprom,
    phy: Phy,
    registers: Map<u64, u32>,
    /// Register selected for the I/O ports.
    port: u32,
    transmit: Ring,
    sender: Sender,
    receive: Ring,
    fifo: VecDeque<Waiting>,
    fifo_bytes: usize,
    /// Frames lost for lack of buffers since creation.
    missed: u64,
    reads: Map<u64, Reading>,
    next_id: u64,
    interrupts: Interrupts,
    events: Map<(SimTime, u64), Event>,
    sequence: u64,
    to_host: VecDeque<ToHost>,
    to_wire: VecDeque<Vec<u8>>,
    flow: Flow,
}

impl Device {
    /// Creates a controller with a hardware address, on a cable with carrier.
    pub fn new(mac: [u8; 6], timing: Timing) -> Device {
        let mut device = Device {
            timing,
            eeprom: Eeprom::new(mac),
            phy: Phy::new(true),
            registers: RESET_VALUES.into(),
            port: 0,
            transmit: Ring::default(),
            sender: Sender::default(),
            receive: Ring::default(),
            fifo: VecDeque::new(),
            fifo_bytes: 0,
            missed: 0,
            reads: Map::new(),
            next_id: 1,
            interrupts: Interrupts::new(),
            events: Map::new(),
            sequence: 0,
            to_host: VecDeque::new(),
            to_wire: VecDeque::new(),
            flow: Flow::default(),
        };
        // The first address filter contains the address of the EEPROM.
        let [a, b, c, d, e, f] = mac;
        device.registers.insert(reg::RAL, u32::from_le_bytes([a, b, c, d]));
        device.registers.insert(reg::RAH, u32::from_le_bytes([e, f, 0, 0]) | bits::ADDRESS_VALID);
        device
    }

    /// Handles a transaction of the host.
    pub fn handle(&mut self, now: SimTime, transaction: ToDevice) {
        match transaction {
            ToDevice::Read { id, bar, offset, len } => {
                let value = match (bar, len) {
                    (0, 4) => self.read(now, offset),
                    (PORTS, 4) => self.read_port(now, offset),
                    _ => 0,
                };
                let mut data = value.to_le_bytes().to_vec();
                data.resize(len.into(), 0);
                self.schedule(now + self.timing.register, Event::Answer(ToHost::ReadDone { id, data }));
            }
            ToDevice::Write { id, bar, offset, posted, data } => {
                if let Ok(value) = data.try_into().map(u32::from_le_bytes) {
                    match (bar, offset) {
                        (0, offset) => self.write(now, offset, value),
                        (PORTS, 0) => self.port = value,
                        (PORTS, 4) => self.write(now, self.port.into(), value),
                        _ => {}
                    }
                }
                if !posted {
                    self.schedule(now + self.timing.register, Event::Answer(ToHost::WriteDone { id }));
                }
            }
            ToDevice::ReadDone { id, data } => self.read_done(now, id, &data),
            ToDevice::WriteDone { .. } => {}
            ToDevice::Control { interrupts } => self.enable_interrupts(now, interrupts),
        }
    }

    /// Sets the carrier of the cable.
    pub fn set_carrier(&mut self, now: SimTime, on: bool) {
        let before = self.phy.has_link();
        self.phy.set_carrier(on);
        self.check_link(now, before);
    }

    /// Processes all events due by `now`.
    pub fn on_timeout(&mut self, now: SimTime) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= now) {
            match entry.remove() {
                Event::Fetch { direction, epoch } => self.fetch(direction, epoch),
                Event::Causes(causes) => self.interrupt(now, causes),
                Event::Transmit => self.transmit_next(now),
                Event::Receive => self.receive_next(now),
                Event::WriteBack { address, bytes, causes, delayed } => {
                    self.dma_write(address, bytes.to_vec());
                    self.interrupt(now, causes);
                    if let Some(direction) = delayed {
                        self.flow.written += u64::from(direction == Direction::Receive);
                        self.interrupt_later(now, direction);
                    }
                }
                Event::Answer(answer) => self.to_host.push_back(answer),
                Event::Throttled => self.throttle_passed(now),
                Event::Delayed(direction) => self.delay_passed(now, direction),
            }
        }
    }

    /// Time of the next event.
    pub fn next_event(&self) -> Option<SimTime> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }
    /// Next transaction for the host.
    pub fn poll_host(&mut self) -> Option<ToHost> {
        self.to_host.pop_front()
    }
    /// Next frame for the wire.
    pub fn poll_wire(&mut self) -> Option<Vec<u8>> {
        let frame = self.to_wire.pop_front()?;
        self.flow.sent += 1;
        Some(frame)
    }
    /// Number of frames lost because no buffer or FIFO space was available, or because they were too long.
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

    fn read(&mut self, now: SimTime, register: u64) -> u32 {
        match register {
            reg::STATUS => {
                let link = if self.phy.has_link() { bits::STATUS_LINK_UP } else { 0 };
                bits::STATUS_FULL_DUPLEX | bits::STATUS_SPEED_1000 | link
            }
            reg::EECD => self.eeprom.control(),
            reg::ICR => self.read_causes(now),
            reg::ICS | reg::IMC => 0,
            reg::IMS => self.interrupts.mask(),
            reg::RDH => self.receive.head,
            reg::TDH => self.transmit.head,
            reg::RDT => self.receive.tail,
            reg::TDT => self.transmit.tail,
            register if reg::STATS.contains(&register) => self.registers.remove(&register).unwrap_or(0),
            register => self.get(register),
        }
    }

    fn read_port(&mut self, now: SimTime, offset: u64) -> u32 {
        match offset {
            0 => self.port,
            4 => self.read(now, self.port.into()),
            _ => 0,
        }
    }

    fn write(&mut self, now: SimTime, register: u64, value: u32) {
        match register {
            reg::CTRL => return self.control(now, value),
            reg::ICR => return self.clear_causes(now, value),
            reg::ICS => return self.interrupt(now, value & cause::ALL),
            reg::IMS => return self.set_mask(now, value, 0),
            reg::IMC => return self.set_mask(now, 0, value),
            reg::EECD => return self.eeprom.set_control(value),
            reg::EERD if value & bits::EERD_START != 0 => {
                let word = self.eeprom.word((value >> 8) as u8);
                self.registers.insert(register, u32::from(word) << 16 | value & 0xff00 | bits::EERD_DONE);
                return;
            }
            reg::MDIC => {
                let before = self.phy.has_link();
                let (answer, interrupts) = self.phy.access(value);
                self.registers.insert(register, answer);
                self.check_link(now, before);
                return self.interrupt(now, if interrupts { cause::MDAC } else { 0 });
            }
            reg::STATUS => return,
            register if register % 4 != 0 || register >= REGISTERS || reg::STATS.contains(&register) => {
                return;
            }
            _ => {}
        }
        let value_kept = value & writable(register);
        self.registers.insert(register, value_kept);
        self.take_effect(now, register, value);
    }

    /// Performs the side effects of a register write.
    fn take_effect(&mut self, now: SimTime, register: u64, value: u32) {
        let base = |low: u64, high: u64| u64::from(self.get(high)) << 32 | u64::from(self.get(low));
        let kept = self.get(register);
        match register {
            reg::TCTL => self.schedule(now + self.timing.step, Event::Transmit),
            reg::RCTL => {
                self.schedule(now + self.timing.step, Event::Receive);
                self.plan_fetch(now, Direction::Receive);
            }
            reg::TDBAL | reg::TDBAH => self.transmit.base = base(reg::TDBAL, reg::TDBAH),
            reg::RDBAL | reg::RDBAH => self.receive.base = base(reg::RDBAL, reg::RDBAH),
            reg::TDLEN => self.transmit.len = kept / DESCRIPTOR as u32,
            reg::RDLEN => self.receive.len = kept / DESCRIPTOR as u32,
            reg::TDH => {
                self.transmit.restart(kept);
                self.sender.restart();
                self.plan_fetch(now, Direction::Transmit);
            }
            reg::RDH => {
                self.receive.restart(kept);
                // A partly written frame restarts in the first new buffer.
                if let Some(frame) = self.fifo.front_mut() {
                    frame.written = 0;
                }
                self.plan_fetch(now, Direction::Receive);
            }
            reg::TDT => {
                self.transmit.tail = kept;
                self.plan_fetch(now, Direction::Transmit);
            }
            reg::RDT => {
                self.receive.tail = kept;
                self.plan_fetch(now, Direction::Receive);
            }
            reg::RDTR => self.set_receive_delay(now, value),
            _ => {}
        }
    }

    /// Write of CTRL: resets or modes.
    fn control(&mut self, now: SimTime, value: u32) {
        if value & bits::CTRL_PHY_RESET != 0 {
            let before = self.phy.has_link();
            self.phy.reset();
            self.check_link(now, before);
        }
        if value & bits::CTRL_RESET != 0 {
            return self.reset();
        }
        self.registers.insert(reg::CTRL, value & !bits::CTRL_PHY_RESET);
    }

    /// Signals a change of the link.
    fn check_link(&mut self, now: SimTime, before: bool) {
        if self.phy.has_link() != before {
            self.interrupt(now, cause::LSC);
        }
    }

    fn reset(&mut self) {
        let new = Device::new(self.eeprom.mac(), self.timing);
        let old = std::mem::replace(self, new);
        self.transmit.epoch = old.transmit.epoch + 1;
        self.receive.epoch = old.receive.epoch + 1;
        (self.next_id, self.sequence) = (old.next_id, old.sequence);
        self.flow = old.flow;
        self.flow.lose(Loss::Reset, old.receiving());
        (self.to_host, self.to_wire) = (old.to_host, old.to_wire);
        (self.phy, self.port, self.missed) = (old.phy, old.port, old.missed);
        self.interrupts.enabled = old.interrupts.enabled;
        if old.interrupts.is_asserted() {
            self.lower_line();
        }
        // Pending read completions survive the reset.
        let answers = old.events.into_iter().filter(|(_, event)| matches!(event, Event::Answer(_)));
        self.events = answers.collect();
    }

    // ---- DMA ----

    fn dma_read(&mut self, address: u64, len: u16, what: Reading) {
        let id = self.next_id;
        self.next_id += 1;
        self.reads.insert(id, what);
        self.to_host.push_back(ToHost::Read { id, address, len });
    }

    fn dma_write(&mut self, mut address: u64, mut data: Vec<u8>) {
        loop {
            let rest = if data.len() > MESSAGE { data.split_off(MESSAGE) } else { Vec::new() };
            let (id, len) = (self.next_id, data.len() as u64);
            self.next_id += 1;
            self.to_host.push_back(ToHost::Write { id, address, data });
            if rest.is_empty() {
                return;
            }
            (address, data) = (address.wrapping_add(len), rest);
        }
    }

    fn ring(&mut self, direction: Direction) -> &mut Ring {
        match direction {
            Direction::Receive => &mut self.receive,
            Direction::Transmit => &mut self.transmit,
        }
    }

    /// True if a direction is enabled. Nothing is fetched in a disabled one, where drivers test registers
    /// with arbitrary values.
    fn is_enabled(&self, direction: Direction) -> bool {
        let control = match direction {
            Direction::Receive => reg::RCTL,
            Direction::Transmit => reg::TCTL,
        };
        self.get(control) & bits::ENABLE != 0
    }

    fn plan_fetch(&mut self, now: SimTime, direction: Direction) {
        let is_enabled = self.is_enabled(direction);
        let ring = self.ring(direction);
        if is_enabled && ring.wanted().is_some() {
            ring.fetching = true;
            let epoch = ring.epoch;
            self.schedule(now + self.timing.fetch, Event::Fetch { direction, epoch });
        }
    }

    fn fetch(&mut self, direction: Direction, epoch: u32) {
        let is_enabled = self.is_enabled(direction);
        let ring = self.ring(direction);
        if ring.epoch != epoch {
            return;
        }
        ring.fetching = false;
        let Some((index, count)) = ring.wanted().filter(|_| is_enabled) else { return };
        ring.fetching = true;
        let address = ring.address(index);
        let len = count as u16 * DESCRIPTOR as u16;
        self.dma_read(address, len, Reading::Descriptors { direction, index, count, epoch });
    }

    fn read_done(&mut self, now: SimTime, id: u64, data: &[u8]) {
        match self.reads.remove(&id) {
            Some(Reading::Descriptors { direction, index, count, epoch }) => {
                let ring = self.ring(direction);
                if ring.epoch != epoch {
                    return;
                }
                let read = data.chunks_exact(DESCRIPTOR).zip(index..index + count);
                ring.cache.extend(
                    read.map(|(bytes, index)| Descriptor { index, bytes: crate::fields::get(bytes, 0) }),
                );
                ring.fetching = false;
                ring.next = if index + count >= ring.len { 0 } else { index + count };
                let next = match direction {
                    Direction::Receive => Event::Receive,
                    Direction::Transmit => Event::Transmit,
                };
                self.schedule(now + self.timing.step, next);
                self.plan_fetch(now, direction);
            }
            Some(Reading::Packet { epoch }) if epoch == self.transmit.epoch => self.data_arrived(now, data),
            Some(Reading::Packet { .. }) | None => {}
        }
    }
}
