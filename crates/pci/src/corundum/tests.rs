//! The driver against a controller that conforms to Corundum's documentation, and against a misbehaving one.

use super::*;
use crate::driver::{Driver as _, DriverSettings};
use crate::fields::{get_u32, get_u64};
use crate::info::Bar;
use crate::transaction::{Interrupt, ToDevice, ToHost, enable};
use belljar_base::{Map, Seed, SimTime};
use std::collections::VecDeque;

const EVENTS: u64 = 0x10_0000;
const TX: u64 = 0x20_0000;
const TX_DONE: u64 = 0x40_0000;
const RX: u64 = 0x60_0000;
const RX_DONE: u64 = 0x70_0000;
const PORT: u64 = 0x80_0000;

fn info() -> DeviceInfo {
    let mut info = DeviceInfo { vendor: VENDOR, device: DEVICE, msi_vectors: 32, ..DeviceInfo::default() };
    info.bars[0] = Bar { len: REGISTERS, flags: 2 };
    info
}

/// Controller with instantaneous DMA, which interrupts for events of armed queues only.
#[derive(Default)]
struct Controller {
    registers: Map<u64, u32>,
    /// Queue pointers of the controller.
    pointers: Map<u64, u16>,
    wire: Vec<Vec<u8>>,
    interrupts: usize,
    messages: bool,
}

impl Controller {
    fn get(&self, register: u64) -> u32 {
        self.registers.get(&register).copied().unwrap_or(0)
    }
    fn place(&self, queue: u64, pointer: u16, entry: u64) -> u64 {
        let base = u64::from(self.get(queue + 4)) << 32 | u64::from(self.get(queue));
        let mask = (1_u64 << (self.get(queue + 8) & 0xff)) - 1;
        base + (u64::from(pointer) & mask) * entry
    }
    fn pointer(&mut self, queue: u64) -> &mut u16 {
        self.pointers.entry(queue).or_default()
    }

    /// Value of a register; `None` for registers that a driver never reads.
    fn read(&mut self, offset: u64) -> Option<u32> {
        Some(match offset {
            0x2c => 0x8_0000,
            0x8_0014 => EVENTS as u32,
            0x8_0024 => TX as u32,
            0x8_002c => TX_DONE as u32,
            0x8_0034 => RX as u32,
            0x8_003c => RX_DONE as u32,
            0x8_0044 => PORT as u32,
            0x80_0014 => 0x10_0000,
            at => {
                let filled = [EVENTS, TX_DONE, RX_DONE].into_iter().find(|queue| queue + 0x10 == at);
                let read = [TX, RX].into_iter().find(|queue| queue + 0x18 == at);
                u32::from(*self.pointer(filled.or(read)?))
            }
        })
    }

    fn dma(driver: &mut Driver, transaction: ToHost) -> Vec<u8> {
        driver.handle(transaction);
        match driver.poll_device() {
            Some(ToDevice::ReadDone { data, .. }) => data,
            Some(ToDevice::WriteDone { .. }) => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    /// Writes an entry to a queue that the controller fills.
    fn put(&mut self, driver: &mut Driver, queue: u64, fields: [u16; 3]) {
        let pointer = *self.pointer(queue);
        let mut data = vec![0; 32];
        fields.iter().zip([0, 2, 4]).for_each(|(field, at)| put_field(&mut data, at, *field));
        Self::dma(driver, ToHost::Write { id: 1, address: self.place(queue, pointer, 32), data });
        *self.pointer(queue) = pointer.wrapping_add(1);
    }

    /// Completes a frame; interrupts if the queues are armed.
    fn complete(&mut self, driver: &mut Driver, done: u64, index: u16, len: usize) {
        self.put(driver, done, [0, index, len as u16]);
        if self.disarm(done) {
            self.put(driver, EVENTS, [u16::from(done == RX_DONE), 0, 0]);
            self.interrupts += usize::from(self.disarm(EVENTS));
        }
    }

    /// Disarms a queue; returns true if it was armed.
    fn disarm(&mut self, queue: u64) -> bool {
        self.registers.insert(queue + 0x0c, 0).is_some_and(|index| index & queue_reg::ARM != 0)
    }

    fn write(&mut self, driver: &mut Driver, offset: u64, value: u32) {
        self.registers.insert(offset, value);
        if offset == TX + 0x10 && self.get(TX + 8) & queue_reg::ACTIVE != 0 {
            while *self.pointer(TX) != value as u16 {
                let index = *self.pointer(TX);
                let descriptor =
                    Self::dma(driver, ToHost::Read { id: 1, address: self.place(TX, index, 16), len: 16 });
                let (address, len) = (get_u64(&descriptor, 8), get_u32(&descriptor, 4) as u16);
                self.wire.push(Self::dma(driver, ToHost::Read { id: 1, address, len }));
                *self.pointer(TX) = index.wrapping_add(1);
                self.complete(driver, TX_DONE, index, len.into());
            }
        }
    }

    fn receive(&mut self, driver: &mut Driver, frame: &[u8]) -> bool {
        let index = *self.pointer(RX);
        if u32::from(index) == self.get(RX + 0x10) & 0xffff {
            return false;
        }
        let descriptor =
            Self::dma(driver, ToHost::Read { id: 1, address: self.place(RX, index, 16), len: 16 });
        Self::dma(driver, ToHost::Write { id: 1, address: get_u64(&descriptor, 8), data: frame.to_vec() });
        *self.pointer(RX) = index.wrapping_add(1);
        self.complete(driver, RX_DONE, index, frame.len());
        true
    }

    /// Exchanges transactions until both sides are idle.
    fn settle(&mut self, driver: &mut Driver, received: &mut Vec<Vec<u8>>) {
        let mut waiting = VecDeque::new();
        loop {
            waiting.extend(std::iter::from_fn(|| driver.poll_device()));
            received.extend(std::iter::from_fn(|| driver.poll_received()));
            match waiting.pop_front() {
                Some(ToDevice::Read { id, offset, .. }) => {
                    let value = self.read(offset).unwrap_or_else(|| panic!("a read of {offset:#x}"));
                    let data = value.to_le_bytes().to_vec();
                    driver.handle(ToHost::ReadDone { id, data });
                }
                Some(ToDevice::Write { offset, data, .. }) => self.write(driver, offset, get_u32(&data, 0)),
                Some(ToDevice::Control { interrupts }) => self.messages = interrupts == enable::MSI,
                Some(other) => panic!("{other:?}"),
                None if self.interrupts > 0 => {
                    self.interrupts -= 1;
                    driver.handle(ToHost::Interrupt(Interrupt::Msi(0)));
                }
                None => return,
            }
        }
    }
}

fn put_field(data: &mut [u8], at: usize, field: u16) {
    crate::fields::put(data, at, &field.to_le_bytes());
}

#[test]
fn frames_pass_both_ways_through_rings_whose_pointers_wrap() {
    let mut driver = Driver::new(DriverSettings { ring: 16, ..DriverSettings::default() });
    let (mut controller, mut received) = (Controller::default(), Vec::new());
    driver.start(SimTime::ZERO, &info());
    assert!(driver.waits());
    controller.settle(&mut driver, &mut received);
    assert!(controller.messages && !driver.waits());
    assert_eq!((controller.get(PORT + 0x40), controller.get(PORT + 0x10_0000)), (u32::MAX, 3));
    let frame = |n: u32| [&n.to_le_bytes()[..], &[n as u8; 60], &vec![1; n as usize % 1_400][..]].concat();
    // More frames than 16-bit pointers can count.
    for n in 0..70_000_u32 {
        driver.transmit(frame(n));
        assert!(controller.receive(&mut driver, &frame(n)));
        if n % 5 == 0 {
            controller.settle(&mut driver, &mut received);
        }
        if n % 1_000 == 0 {
            controller.settle(&mut driver, &mut received);
            for all in [&mut received, &mut controller.wire] {
                assert!(all.drain(..).zip(n.saturating_sub(999)..=n).all(|(got, n)| got == frame(n)));
            }
        }
    }
    controller.settle(&mut driver, &mut received);
    let counts = driver.counts();
    assert_eq!((counts.received.0, counts.sent.0, counts.invalid, counts.dropped), (70_000, 70_000, 0, 0));
    assert_eq!(driver.outside(), 0);
    // An interrupt costs one read for events, and two per kind of completion.
    assert!(
        counts.register_reads > 3 * counts.interrupts && counts.register_reads <= 5 * counts.interrupts + 8
    );
}

#[test]
fn what_does_not_fit_waits_and_then_is_lost() {
    let mut driver = Driver::new(DriverSettings { ring: 8, queue: 10, ..DriverSettings::default() });
    let (mut controller, mut received) = (Controller::default(), Vec::new());
    driver.start(SimTime::ZERO, &info());
    controller.settle(&mut driver, &mut received);
    (0..30).for_each(|n| driver.transmit(vec![n; 100]));
    driver.transmit(vec![0; LONGEST + 1]);
    assert_eq!((driver.counts().dropped, driver.counts().sent.0), (13, 8));
    controller.settle(&mut driver, &mut received);
    assert_eq!(controller.wire.len(), 18);
    assert!(
        (0..8).all(|_| controller.receive(&mut driver, &[7; 60]))
            && !controller.receive(&mut driver, &[7; 60])
    );
    controller.settle(&mut driver, &mut received);
    assert_eq!(received.len(), 8);
    // The controller reports a length that no buffer has.
    let index = *controller.pointer(RX);
    *controller.pointer(RX) = index.wrapping_add(1);
    controller.complete(&mut driver, RX_DONE, index, LONGEST + 1);
    controller.settle(&mut driver, &mut received);
    let account = driver.packet_account();
    assert_eq!((account.imbalance(), account.received, account.sent, account.held), (0, 31, 8, 0));
    assert_eq!((account.consumed["device"], account.originated["device"]), (18, 9));
    assert_eq!(account.dropped["invalid"], 1);
    assert_eq!((account.dropped["queue_full"], account.dropped["too_long"]), (12, 1));
}

#[test]
fn a_driver_takes_whatever_a_device_does() {
    let mut stream = Seed(33).stream(&["device"]);
    let (mut received, mut set_up) = (0, 0);
    for round in 0..100 {
        let mut driver = Driver::new(DriverSettings { ring: 8, ..DriverSettings::default() });
        driver.start(SimTime::ZERO, &info());
        let (mut read, mut honest) = (None, Controller::default());
        for _ in 0..600 {
            while let Some(transaction) = driver.poll_device() {
                if let ToDevice::Read { id, offset, .. } = transaction {
                    read = Some((id, offset));
                }
                if let ToDevice::Write { offset, .. } = transaction {
                    assert!(offset < REGISTERS);
                    set_up += usize::from(offset == PORT + 0x40);
                }
            }
            let address = match stream.below(4) {
                0 => stream.below(u64::MAX),
                _ => 0x1000_0000 + 4_096 * stream.below(5) + stream.below(600),
            };
            match stream.below(6) {
                0 => driver.handle(ToHost::Interrupt(Interrupt::Line(stream.below(2) == 0))),
                1 => driver.handle(ToHost::Interrupt(Interrupt::Msi(9))),
                2 => driver.handle(ToHost::Read { id: 1, address, len: stream.below(65_536) as u16 }),
                3 => match read.take() {
                    // In most rounds the register layout is correct, so that more of the driver is reached.
                    Some((id, offset))
                        if round % 5 > 0 && offset % 0x10_0000 != 0x10 && offset % 0x10_0000 != 0x18 =>
                    {
                        driver.handle(ToHost::ReadDone {
                            id,
                            data: honest.read(offset).unwrap_or(offset as u32).to_le_bytes().into(),
                        });
                    }
                    Some((id, _)) if stream.below(2) == 0 => {
                        driver.handle(ToHost::ReadDone { id, data: vec![stream.below(20) as u8, 0, 0, 0] });
                    }
                    other => driver.handle(ToHost::ReadDone {
                        id: other.map_or(stream.below(9), |(id, _)| id),
                        data: (0..stream.below(9)).map(|_| stream.below(256) as u8).collect(),
                    }),
                },
                4 if !driver.waits() => driver.transmit(vec![1; stream.below(3_000) as usize]),
                _ => {
                    let mut data: Vec<u8> = (0..stream.below(32)).map(|_| stream.below(16) as u8).collect();
                    data.iter_mut().skip(1).step_by(2).for_each(|byte| *byte %= 2);
                    driver.handle(ToHost::Write { id: 1, address, data });
                }
            }
            let account = driver.packet_account();
            assert_eq!(account.imbalance(), 0, "{account:?}");
            while let Some(frame) = driver.poll_received() {
                assert!(frame.len() <= LONGEST);
                received += 1;
            }
        }
        assert!(driver.outside() > 0);
    }
    assert!(received > 0 && set_up > 50, "{received} {set_up}");
}
