//! Controller and driver connected by a bus, and each against a misbehaving peer.

mod account;
mod linux;

use super::*;
use crate::driver::{Driver as _, DriverSettings};
use crate::transaction::{Interrupt, ToDevice, ToHost};
use belljar_base::{Map, Seed, SimDuration, SimTime, Stream};

const BUS: SimDuration = SimDuration::from_nanos(500);

enum Arrival {
    Device(ToDevice),
    Host(ToHost),
    Wire(Vec<u8>),
}

/// Driver and controller; each transaction takes [`BUS`].
struct Machine {
    now: SimTime,
    driver: Driver,
    device: Device,
    on_the_way: Map<(SimTime, u64), Arrival>,
    count: u64,
    received: Vec<(SimTime, Vec<u8>)>,
    sent: Vec<(SimTime, Vec<u8>)>,
    interrupts: Vec<Interrupt>,
}

impl Machine {
    fn new(settings: DriverSettings) -> Machine {
        let mut machine = Machine {
            now: SimTime::ZERO,
            driver: Driver::new(settings),
            device: Device::new([2, 0, 0, 0, 0, 9], Timing::default()),
            on_the_way: Map::new(),
            count: 0,
            received: Vec::new(),
            sent: Vec::new(),
            interrupts: Vec::new(),
        };
        machine.driver.start(SimTime::ZERO, &info());
        machine.exchange();
        machine
    }

    fn plan(&mut self, at: SimTime, arrival: Arrival) {
        self.count += 1;
        self.on_the_way.insert((at, self.count), arrival);
    }

    fn exchange(&mut self) {
        while let Some(transaction) = self.driver.poll_device() {
            self.plan(self.now + BUS, Arrival::Device(transaction));
        }
        while let Some(transaction) = self.device.poll_host() {
            self.plan(self.now + BUS, Arrival::Host(transaction));
        }
        while let Some(frame) = self.device.poll_wire() {
            self.sent.push((self.now, frame));
        }
        while let Some(frame) = self.driver.poll_received() {
            self.received.push((self.now, frame));
        }
        for account in [self.driver.packet_account(), self.device.packet_account()] {
            assert_eq!(account.imbalance(), 0, "{account:?}");
        }
    }

    fn run(&mut self, until: SimTime) {
        loop {
            let arrival = self.on_the_way.first_key_value().map(|((at, _), _)| *at);
            let timer = if self.driver.waits() { None } else { self.driver.next_timeout() };
            let next = [arrival, self.device.next_event(), timer].into_iter().flatten().min();
            let Some(at) = next.filter(|at| *at < until) else { break };
            self.now = self.now.max(at);
            if arrival == Some(at) {
                match self.on_the_way.pop_first().map(|(_, arrival)| arrival) {
                    Some(Arrival::Device(transaction)) => self.device.handle(at, transaction),
                    Some(Arrival::Host(transaction)) => {
                        if let ToHost::Interrupt(interrupt) = transaction {
                            self.interrupts.push(interrupt);
                        }
                        self.driver.handle(transaction);
                    }
                    Some(Arrival::Wire(frame)) => self.device.receive(at, frame),
                    None => {}
                }
            } else {
                self.device.on_timeout(at);
                if !self.driver.waits() {
                    self.driver.on_timeout(at);
                }
            }
            self.exchange();
        }
        self.now = until;
    }
}

fn micros(n: u64) -> SimTime {
    SimTime::from_nanos(1_000 * n)
}

fn frame(to: [u8; 6], number: u32, len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &[2, 0, 0, 0, 0, 7, 8, 0]].concat();
    frame.extend(number.to_le_bytes());
    frame.resize(len, number as u8);
    frame
}

#[test]
fn frames_pass_both_ways_in_order_through_wrapped_rings() {
    for (msi, longest) in [(true, 1_514), (false, 1_514), (true, 9_014)] {
        let settings = DriverSettings { msi, longest, ring: 16, ..DriverSettings::default() };
        let mac = settings.mac;
        let mut machine = Machine::new(settings);
        machine.run(micros(50));
        let frames: Vec<Vec<u8>> =
            (0..100).map(|n| frame(mac, n, 60 + 14 * n as usize % (longest - 60))).collect();
        for (n, frame) in frames.iter().enumerate() {
            machine.plan(micros(100 + n as u64), Arrival::Wire(frame.clone()));
            machine.driver.transmit(frame.clone());
        }
        machine.exchange();
        machine.run(micros(1_000));
        let bytes =
            |all: &[(SimTime, Vec<u8>)]| all.iter().map(|(_, frame)| frame.clone()).collect::<Vec<_>>();
        assert_eq!(bytes(&machine.sent), frames);
        assert_eq!(bytes(&machine.received), frames);
        let is_msi = |interrupt: &Interrupt| matches!(interrupt, Interrupt::Msi(0));
        assert!(machine.interrupts.len() > 2 && machine.interrupts.iter().all(|one| is_msi(one) == msi));
        assert_eq!((machine.driver.outside(), machine.device.missed()), (0, 0));
        assert!(machine.driver.counts().ring_full > 0);
        // The device counters are read every two seconds.
        machine.run(SimTime::from_secs(3));
        let total = frames.iter().map(|frame| frame.len() as u64).sum::<u64>();
        let statistics: Vec<u64> = machine.driver.statistics().iter().map(|(_, count)| *count).collect();
        // Its byte counts include check sequences.
        assert_eq!(statistics[9..14], [100, 100, total + 400, total + 400, 0]);
    }
}

#[test]
fn a_frame_arrives_after_its_interrupt_and_a_read_of_the_cause() {
    let mut machine = Machine::new(DriverSettings::default());
    machine.run(micros(50));
    let one = frame(DriverSettings::default().mac, 1, 100);
    machine.plan(micros(100), Arrival::Wire(one.clone()));
    machine.run(micros(200));
    // A step, the write-back, and three bus transfers: the interrupt, the read, its completion.
    let expected = micros(100) + SimDuration::from_nanos(1 + 20) + BUS + BUS + BUS;
    assert_eq!(machine.received, [(expected, one)]);
}

#[test]
fn a_throttle_makes_fewer_interrupts() {
    let count = |micros_between| {
        let interrupt_interval = SimDuration::from_micros(micros_between);
        let mut machine = Machine::new(DriverSettings { interrupt_interval, ..DriverSettings::default() });
        for n in 0..200 {
            machine
                .plan(micros(100 + 5 * n), Arrival::Wire(frame(DriverSettings::default().mac, n as u32, 80)));
        }
        machine.run(micros(2_000));
        assert_eq!(machine.received.len(), 200);
        machine.interrupts.len()
    };
    assert_eq!(count(0), 200);
    assert!((9..=13).contains(&count(100)), "{}", count(100));
}

#[test]
fn frames_for_others_or_without_buffers_are_not_taken() {
    let settings = DriverSettings { ring: 8, ..DriverSettings::default() };
    let mac = settings.mac;
    let mut machine = Machine::new(settings);
    machine.run(micros(50));
    machine.plan(micros(60), Arrival::Wire(frame([2, 0, 0, 0, 0, 5], 1, 60)));
    machine.plan(micros(60), Arrival::Wire(frame([0xff; 6], 2, 60)));
    machine.plan(micros(60), Arrival::Wire(frame(mac, 3, 3_000)));
    machine.run(micros(100));
    assert_eq!(machine.received.len(), 1);
    assert_eq!(machine.device.missed(), 1);
    for n in 0..400 {
        machine.plan(micros(200), Arrival::Wire(frame(mac, n, 1_514)));
    }
    machine.run(micros(2_000));
    let missed = machine.device.missed() as usize;
    assert!(missed > 100 && machine.received.len() + missed == 402, "{missed}");
}

#[test]
fn frames_that_are_too_long_are_errors() {
    let settings = DriverSettings::default();
    let mac = settings.mac;
    let mut machine = Machine::new(settings);
    machine.run(micros(50));
    machine.plan(micros(60), Arrival::Wire(frame(mac, 1, 3_000)));
    machine.plan(micros(70), Arrival::Wire(frame(mac, 2, 1_514)));
    // The device counters are read every two seconds.
    machine.run(SimTime::from_secs(5));
    let statistics: Map<&str, u64> = machine.driver.statistics().into_iter().collect();
    let counted = ["rx_packets", "rx_errors", "rx_long_length_errors"].map(|name| statistics[name]);
    assert_eq!(counted, [1, 1, 1]);
}

#[test]
fn a_frame_longer_than_the_drivers_buffers_is_an_error_once() {
    let settings = DriverSettings { longest: 3_000, ..DriverSettings::default() };
    let mac = settings.mac;
    let mut machine = Machine::new(settings);
    machine.run(micros(50));
    // The controller writes the frame into three buffers; the last has the end-of-packet bit.
    machine.plan(micros(60), Arrival::Wire(frame(mac, 1, 9_000)));
    machine.plan(micros(70), Arrival::Wire(frame(mac, 2, 2_999)));
    machine.run(micros(200));
    let received: Vec<usize> = machine.received.iter().map(|(_, frame)| frame.len()).collect();
    assert_eq!((received, machine.driver.counts().invalid, machine.device.missed()), (vec![2_999], 1, 0));
}

#[test]
fn a_queue_that_is_full_loses_frames() {
    let mut machine = Machine::new(DriverSettings { ring: 8, queue: 10, ..DriverSettings::default() });
    for n in 0..30 {
        machine.driver.transmit(frame([0xff; 6], n, 60));
    }
    machine.exchange();
    machine.run(micros(500));
    assert_eq!((machine.sent.len(), machine.driver.counts().dropped), (17, 13));
}

#[test]
fn the_address_is_in_the_eeprom() {
    let mut device = Device::new([2, 3, 4, 5, 6, 7], Timing::default());
    let mut word = |address: u32| {
        let write = |value: u32| ToDevice::Write {
            id: 0,
            bar: 0,
            offset: reg::EERD,
            posted: true,
            data: value.to_le_bytes().into(),
        };
        device.handle(SimTime::ZERO, write(address << 8 | 1));
        device.handle(SimTime::ZERO, ToDevice::Read { id: 1, bar: 0, offset: reg::EERD, len: 4 });
        device.on_timeout(SimTime::ZERO);
        let Some(ToHost::ReadDone { data, .. }) = device.poll_host() else { panic!("an answer") };
        assert_eq!(data[0] & 0x10, 0x10);
        u16::from_le_bytes([data[2], data[3]])
    };
    assert_eq!([word(0), word(1), word(2)], [0x0302, 0x0504, 0x0706]);
    let sum = (0..0x40).fold(0_u16, |sum, address| sum.wrapping_add(word(address)));
    assert_eq!(sum, 0xbaba);
}

/// Random transmit descriptor: legacy, context or data, with valid or invalid lengths.
fn descriptor(stream: &mut Stream) -> [u8; DESCRIPTOR] {
    let mut bytes: [u8; DESCRIPTOR] = std::array::from_fn(|_| stream.below(256) as u8);
    if stream.below(4) == 0 {
        return bytes;
    }
    let command = [0x09, 0x0b, 0x0f, 0x22, 0x26, 0x2b, 0x2f, 0x4b, 0x8b, 0xaf][stream.below(10) as usize];
    let is_context = command & 0x20 != 0 && stream.below(3) == 0;
    bytes[11] = command;
    bytes[8..10].copy_from_slice(&(stream.below(3_000) as u16).to_le_bytes());
    bytes[10] = if is_context { 0 } else { 0x10 };
    if is_context {
        // Header offsets, and segments of any length.
        bytes[..8].iter_mut().for_each(|byte| *byte = stream.below(80) as u8);
        bytes[13] = stream.below(100) as u8;
        bytes[14..].copy_from_slice(&(stream.below(2_000) as u16).to_le_bytes());
    }
    bytes
}

/// Completion of a DMA read: mostly descriptors.
fn answer(stream: &mut Stream, len: u16) -> Vec<u8> {
    match stream.below(8) {
        0 => vec![0xff; stream.below(u64::from(len) + 20) as usize],
        1..=5 if len.is_multiple_of(16) => (0..len / 16).flat_map(|_| descriptor(stream)).collect(),
        _ => (0..len).map(|_| stream.below(256) as u8).collect(),
    }
}

#[test]
fn a_device_takes_whatever_a_host_does() {
    let mut stream = Seed(31).stream(&["host"]);
    let known = [
        reg::TDT,
        reg::RDT,
        reg::TDH,
        reg::RDH,
        reg::TDLEN,
        reg::RDLEN,
        reg::TCTL,
        reg::RCTL,
        reg::IMS,
        reg::ICR,
        reg::ICS,
        reg::ITR,
        reg::CTRL,
        reg::EERD,
        reg::EECD,
        reg::MDIC,
        reg::RDTR,
        reg::TIDV,
        reg::RXCSUM,
        reg::VET,
    ];
    let (mut sent, mut interrupts) = (0, 0);
    for round in 0..90 {
        let mut device = Device::new([2, 0, 0, 0, 0, 1], Timing::default());
        let (mut now, mut asked) = (SimTime::ZERO, Vec::new());
        let write = |device: &mut Device, now, offset, value: u32| {
            let data = value.to_le_bytes().to_vec();
            device.handle(now, ToDevice::Write { id: 1, bar: 0, offset, posted: true, data });
        };
        // Two of three rounds start with a valid configuration.
        if round % 3 != 0 {
            for (register, value) in [
                (reg::TDLEN, 1_024),
                (reg::RDLEN, 1_024),
                (reg::RCTL, 0x803e),
                (reg::TCTL, 0xa),
                (reg::IMS, 0xffff),
                (reg::RDT, 60),
                (reg::TDT, 40),
            ] {
                write(&mut device, now, register, value);
            }
        }
        for _ in 0..400 {
            now += SimDuration::from_nanos(stream.below(100));
            let offset = match stream.below(4) {
                0 => stream.below(super::REGISTERS),
                _ => known[stream.below(known.len() as u64) as usize],
            };
            let value = if stream.below(2) == 0 { stream.below(64) } else { stream.below(1 << 32) } as u32;
            let bar = if stream.below(12) == 0 { PORTS } else { 0 };
            match stream.below(10) {
                0 => device.handle(now, ToDevice::Read { id: 1, bar, offset, len: stream.below(9) as u16 }),
                1 => device.receive(now, vec![0xff; stream.below(20_000) as usize]),
                2 => {
                    let mut frame = super::offload::tests::tcp(&vec![3; stream.below(2_000) as usize]);
                    let at = stream.below(54) as usize;
                    frame[at] = stream.below(256) as u8;
                    frame.truncate(stream.below(2_000) as usize);
                    device.receive(now, frame);
                }
                3..=5 => {
                    if let Some((id, len)) = asked.pop() {
                        device.handle(now, ToDevice::ReadDone { id, data: answer(&mut stream, len) });
                    }
                }
                6 => device.handle(now, ToDevice::ReadDone { id: stream.below(50), data: vec![0xff; 7] }),
                7 if stream.below(8) == 0 => device.set_carrier(now, stream.below(2) == 0),
                7 => device.handle(now, ToDevice::Control { interrupts: stream.below(8) }),
                _ if round % 3 == 2 && stream.below(2) == 0 => {
                    write(&mut device, now, reg::TDT, stream.below(64) as u32);
                }
                _ => {
                    let data = value.to_le_bytes()[..if stream.below(9) == 0 { 2 } else { 4 }].to_vec();
                    let offset = if bar == PORTS { 4 * stream.below(3) } else { offset };
                    device.handle(now, ToDevice::Write { id: 1, bar, offset, posted: true, data });
                }
            }
            for _ in 0..50 {
                let Some(at) = device.next_event().filter(|at| *at <= now) else { break };
                device.on_timeout(at);
            }
            let account = device.packet_account();
            assert_eq!(account.imbalance(), 0, "{account:?}");
            while let Some(transaction) = device.poll_host() {
                match transaction {
                    ToHost::Read { id, len, .. } => {
                        assert!(len <= 9_024);
                        asked.push((id, len));
                    }
                    ToHost::Write { data, .. } => assert!(data.len() <= 9_024),
                    ToHost::Interrupt(_) => interrupts += 1,
                    _ => {}
                }
            }
            while let Some(frame) = device.poll_wire() {
                assert!((14..=16_384 + 4).contains(&frame.len()));
                sent += 1;
            }
        }
    }
    assert!(sent > 100 && interrupts > 20, "{sent} {interrupts}");
}

#[test]
fn a_driver_takes_whatever_a_device_does() {
    let mut stream = Seed(32).stream(&["device"]);
    let mut received = 0;
    for _ in 0..60 {
        let mut driver = Driver::new(DriverSettings { ring: 8, ..DriverSettings::default() });
        driver.start(SimTime::ZERO, &info());
        let mut read = None;
        for _ in 0..400 {
            while let Some(transaction) = driver.poll_device() {
                if let ToDevice::Read { id, .. } = transaction {
                    read = Some(id);
                }
            }
            let address = match stream.below(4) {
                0 => stream.below(u64::MAX),
                1 => 0x1000_0000 + stream.below(40_000),
                _ => 0x1000_0000 + 16 * stream.below(16) + 8,
            };
            match stream.below(6) {
                0 => driver.handle(ToHost::Interrupt(Interrupt::Line(stream.below(2) == 0))),
                1 => driver.handle(ToHost::Interrupt(Interrupt::Msix(9))),
                2 => driver.handle(ToHost::Read { id: 1, address, len: stream.below(65_536) as u16 }),
                3 => driver.handle(ToHost::ReadDone {
                    id: read.unwrap_or(stream.below(9)),
                    data: vec![0xff; stream.below(9) as usize],
                }),
                4 if !driver.waits() => driver.transmit(vec![1; stream.below(2_000) as usize]),
                _ => {
                    let data = match stream.below(2) {
                        0 => vec![stream.below(256) as u8, stream.below(12) as u8, 0, 0, 3, 0],
                        _ => (0..stream.below(9)).map(|_| stream.below(256) as u8).collect(),
                    };
                    driver.handle(ToHost::Write { id: 1, address, data });
                }
            }
            let account = driver.packet_account();
            assert_eq!(account.imbalance(), 0, "{account:?}");
            while let Some(frame) = driver.poll_received() {
                assert!(frame.len() <= 2_048);
                received += 1;
            }
        }
        assert!(driver.outside() > 0);
    }
    assert!(received > 0);
}
