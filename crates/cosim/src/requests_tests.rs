//! PCIe and memory over channels, in both roles, and with peers that break the protocol.

use crate::testing::{at, parameters, socket};
use crate::*;
use belljar_base::{Seed, SimTime};
use belljar_pci::transaction::enable;
use belljar_pci::{Bar, DeviceInfo, FromMemory, Interrupt, ToDevice, ToHost, ToMemory};
use std::time::Duration;

fn device() -> DeviceInfo {
    let mut info = DeviceInfo { vendor: 0x8086, device: 0x100e, msi_vectors: 2, ..DeviceInfo::default() };
    info.bars[0] = Bar { len: 0x20000, flags: 0 };
    info
}

/// A channel with the first end in this role.
fn pair<A: Layer, B: Layer>(role: Role, first: A, second: B) -> Result<(Channel<A>, Channel<B>), Error> {
    let path = socket();
    let parameters = |role| Parameters { slot_size: 9_088, ..parameters(role, &path, 500) };
    let other = if role == Role::Listen { Role::Connect } else { Role::Listen };
    // The listener must exist first.
    let (mut one, mut two);
    if role == Role::Listen {
        one = Setup::with(parameters(role), first)?;
        two = Setup::with(parameters(other), second)?;
    } else {
        two = Setup::with(parameters(other), second)?;
        one = Setup::with(parameters(role), first)?;
    }
    let (mut a, mut b) = (None, None);
    for _ in 0..1_000 {
        a = if a.is_none() { one.advance()? } else { a };
        b = if b.is_none() { two.advance()? } else { b };
        if a.is_some() && b.is_some() {
            break;
        }
    }
    Ok((a.expect("a channel"), b.expect("a channel")))
}

fn pass<A: Layer, B: Layer<Received = A::Sent>>(
    from: &mut Channel<A>,
    to: &mut Channel<B>,
    messages: &[A::Sent],
) where
    A::Sent: PartialEq + std::fmt::Debug,
{
    for message in messages {
        let now = at(1_000 + from.counts().sent);
        assert!(from.send(now, message).unwrap());
        let (when, got) = to.poll(SimTime::MAX).unwrap().expect("a message");
        assert_eq!(&got, message);
        assert_eq!(when, now + belljar_base::SimDuration::from_nanos(500));
    }
}

#[test]
fn transactions_pass_in_both_roles() {
    for role in [Role::Listen, Role::Connect] {
        let (mut host, mut dev) = pair(role, PcieHost::default(), PcieDevice::new(device())).unwrap();
        assert_eq!(host.layer().device(), &device());
        let data = vec![1, 2, 3, 4];
        let write = |posted| ToDevice::Write { id: 2, bar: 0, offset: 0x1fffc, posted, data: data.clone() };
        let read = ToDevice::Read { id: 1, bar: 0, offset: 8, len: 4 };
        let control = ToDevice::Control { interrupts: enable::INTX | enable::MSI };
        pass(&mut host, &mut dev, &[control, read, write(false), write(true)]);
        let answers = [ToHost::ReadDone { id: 1, data: data.clone() }, ToHost::WriteDone { id: 2 }];
        pass(&mut dev, &mut host, &answers);
        let interrupts = [Interrupt::Line(true), Interrupt::Line(false), Interrupt::Msi(1)];
        pass(&mut dev, &mut host, &interrupts.map(ToHost::Interrupt));
        let address = 1 << 40;
        let dma = [
            ToHost::Read { id: 8, address, len: 1500 },
            ToHost::Write { id: 9, address, data: vec![7; 9000] },
        ];
        pass(&mut dev, &mut host, &dma);
        let done = [ToDevice::WriteDone { id: 9 }, ToDevice::ReadDone { id: 8, data: vec![5; 1500] }];
        pass(&mut host, &mut dev, &done);
    }
}

#[test]
fn memory_is_read_and_written_in_both_roles() {
    for role in [Role::Listen, Role::Connect] {
        let (mut memory, mut host) = pair(role, MemoryDevice::default(), MemoryHost::default()).unwrap();
        let data = vec![3; 64];
        let write =
            |posted| ToMemory::Write { id: 1, space: 5, address: 1 << 33, posted, data: data.clone() };
        let read = ToMemory::Read { id: 2, space: 5, address: 1 << 33, len: 64 };
        pass(&mut host, &mut memory, &[write(true), write(false), read]);
        let answers = [FromMemory::WriteDone { id: 1 }, FromMemory::ReadDone { id: 2, data }];
        pass(&mut memory, &mut host, &answers);
    }
}

#[test]
fn layers_and_devices_that_do_not_fit_are_told() {
    let error = pair(Role::Listen, PcieHost::default(), MemoryHost::default()).err().unwrap().to_string();
    assert!(error.contains("it speaks memory where PCIe is expected"), "{error}");
    let mut wrong = device();
    wrong.bars[0].len = 3;
    let error = pair(Role::Listen, PcieHost::default(), PcieDevice::new(wrong)).err().unwrap().to_string();
    assert!(error.contains("its intro is not valid: BAR 0 has 3 bytes, which is no power of two"), "{error}");
}

#[test]
fn what_a_peer_must_not_send_ends_the_channel_with_one_message() {
    let to_host = [
        (ToHost::ReadDone { id: 77, data: vec![0; 4] }, "it answers request 77, which has not been made"),
        (ToHost::Interrupt(Interrupt::Msi(2)), "MSI vector 2 of a device that has 2"),
        (ToHost::Interrupt(Interrupt::Msix(0)), "MSI-X vector 0 of a device that has 0"),
    ];
    for (message, reason) in to_host {
        let (mut host, mut dev) = pair(Role::Listen, PcieHost::default(), PcieDevice::new(device())).unwrap();
        assert!(dev.send(at(0), &message).unwrap());
        let error = host.poll(SimTime::MAX).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let outside = |offset| ToDevice::Write { id: 0, bar: 0, offset, posted: true, data: vec![0; 4] };
    let to_device = [
        (
            ToDevice::Read { id: 1, bar: 1, offset: 0, len: 4 },
            "4 bytes at 0x0, which do not lie within BAR 1",
        ),
        (outside(0x1fffd), "4 bytes at 0x1fffd, which do not lie within BAR 0"),
        (outside(u64::MAX), "BAR 0"),
        (ToDevice::ReadDone { id: 0, data: vec![] }, "it answers request 0"),
        (ToDevice::Control { interrupts: 8 }, "unknown interrupts 0x8"),
    ];
    for (message, reason) in to_device {
        let (mut host, mut dev) = pair(Role::Listen, PcieHost::default(), PcieDevice::new(device())).unwrap();
        assert!(host.send(at(0), &message).unwrap());
        let error = dev.poll(SimTime::MAX).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// Sends random messages; the other end accepts each one or ends with an error.
fn shower<A: Layer, B: Layer>(
    make: impl Fn() -> Result<(Channel<A>, Channel<B>), Error>,
    name: &str,
) -> [u32; 2] {
    let (mut stream, mut counts) = (Seed(5).stream(&[name]), [0; 2]);
    for _ in 0..30 {
        let (mut from, mut to) = make().unwrap();
        for _ in 0..200 {
            let mut header = [0; layer::HEADER];
            for byte in &mut header[..26] {
                *byte = if stream.below(40) == 0 { stream.below(256) as u8 } else { 0 };
            }
            let kind = [0x40, 0x60][stream.below(20) as usize % 2] + stream.below(3) as u8;
            let stamp = if stream.below(20) == 0 { u64::MAX } else { stream.below(1 << 30) };
            assert!(from.send_raw(stamp, kind, &header));
            match to.poll(SimTime::MAX) {
                Ok(Some(_)) => counts[0] += 1,
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(error.to_string().lines().count(), 1);
                    counts[1] += 1;
                    break;
                }
            }
        }
    }
    counts
}

#[test]
fn messages_drawn_at_random_are_taken_or_refused() {
    for role in [Role::Listen, Role::Connect] {
        let pcie = || pair(role, PcieHost::default(), PcieDevice::new(device()));
        let memory = || pair(role, MemoryHost::default(), MemoryDevice::default());
        let counts = [
            shower(pcie, "to device"),
            shower(|| pcie().map(|(host, dev)| (dev, host)), "to host"),
            shower(memory, "to memory"),
            shower(|| memory().map(|(host, memory)| (memory, host)), "from memory"),
        ];
        assert!(counts.iter().all(|[_, refused]| *refused > 0), "{counts:?}");
        assert!(counts.iter().map(|[taken, _]| taken).sum::<u32>() > 30, "{counts:?}");
    }
    // The end of a peer is detected at any time.
    let (host, mut dev) = pair(Role::Listen, PcieHost::default(), PcieDevice::new(device())).unwrap();
    drop(host);
    std::thread::sleep(Duration::from_millis(1));
    assert!(dev.check_peer().unwrap_err().to_string().contains("closed the channel"));
}
