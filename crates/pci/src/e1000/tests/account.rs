//! Accounts of controller and driver: under random traffic and interventions every frame is sent, consumed,
//! dropped for a reason, or held. [`Machine::exchange`] verifies the accounts after each step.

use super::*;
use belljar_base::PacketAccount;

/// Value of MDIC that writes register 0 of the PHY.
const fn phy_control(value: u32) -> u32 {
    1 << 26 | 1 << 21 | value
}

fn write(machine: &mut Machine, offset: u64, value: u32) {
    let data = value.to_le_bytes().to_vec();
    let at = machine.now;
    machine.device.handle(at, ToDevice::Write { id: 0, bar: 0, offset, posted: true, data });
    machine.exchange();
}

/// Writes a register of the controller, then restores it; the driver does not notice.
fn intervene(machine: &mut Machine, stream: &mut Stream, longest: usize) {
    let size = if longest > 2_000 { bits::SIZE_EXTENSION | bits::LONG_PACKETS | 3 << 16 } else { 0 };
    let receive = bits::ENABLE | bits::BROADCAST | bits::MULTICAST_ALL | bits::STRIP_CRC | size;
    let transmit = bits::ENABLE | bits::PAD_SHORT;
    let (register, value, normal) = match stream.below(6) {
        0 => (reg::RCTL, 0, receive),
        1 => (reg::RCTL, receive | bits::LOOPBACK, receive),
        2 => (reg::TCTL, bits::ENABLE, transmit),
        3 => (reg::TCTL, 0, transmit),
        4 => (reg::MDIC, phy_control(1 << 11), phy_control(0x1140)),
        _ => (reg::MDIC, phy_control(1 << 14), phy_control(0x1140)),
    };
    write(machine, register, value);
    traffic(machine, stream, longest);
    machine.run(machine.now + SimDuration::from_micros(stream.below(40)));
    write(machine, register, normal);
}

/// Frames in both directions.
fn traffic(machine: &mut Machine, stream: &mut Stream, longest: usize) {
    let mac = DriverSettings::default().mac;
    for _ in 0..stream.below(8) {
        let to = [mac, mac, mac, [2, 0, 0, 0, 0, 5], [0xff; 6]][stream.below(5) as usize];
        let len = if stream.below(6) == 0 { 9_000 } else { 14 + stream.below(longest as u64 - 13) };
        let at = machine.now + SimDuration::from_nanos(stream.below(20_000));
        machine.plan(at, Arrival::Wire(frame(to, 0, len as usize)));
    }
    for _ in 0..stream.below(8) {
        if !machine.driver.waits() {
            let mut frame = frame(mac, 0, 14 + stream.below(longest as u64 - 13) as usize);
            frame.truncate(if stream.below(6) == 0 { stream.below(20) as usize } else { frame.len() });
            machine.driver.transmit(frame);
            machine.exchange();
        }
    }
}

fn add(totals: &mut Map<String, u64>, of: &str, account: &PacketAccount) {
    let kinds = [(&account.originated, "from"), (&account.consumed, "to"), (&account.dropped, "dropped")];
    for (counts, kind) in kinds {
        for (name, count) in counts {
            *totals.entry(format!("{of} {kind} {name}")).or_default() += count;
        }
    }
}

#[test]
fn every_frame_of_random_traffic_has_an_end() {
    let mut totals = Map::new();
    for seed in 0..40 {
        let mut stream = Seed(seed).stream(&["account"]);
        let longest = [1_514, 3_000][stream.below(2) as usize];
        let mut machine =
            Machine::new(DriverSettings { longest, ring: 8, queue: 5, ..DriverSettings::default() });
        machine.run(micros(50));
        for _ in 0..60 {
            match stream.below(12) {
                0 => intervene(&mut machine, &mut stream, longest),
                1 => {
                    let on = stream.below(2) == 0;
                    machine.device.set_carrier(machine.now, on);
                }
                _ => traffic(&mut machine, &mut stream, longest),
            }
            machine.run(machine.now + SimDuration::from_micros(stream.below(30)));
        }
        if seed % 4 == 0 {
            // More frames than the FIFO holds.
            for _ in 0..300 {
                let mac = DriverSettings::default().mac;
                machine.plan(machine.now, Arrival::Wire(frame(mac, 0, 1_514)));
            }
        }
        if seed % 4 == 1 {
            // A frame that the controller has written, but whose descriptor it has not.
            let mac = DriverSettings::default().mac;
            machine.plan(machine.now, Arrival::Wire(frame(mac, 0, 100)));
            machine.run(machine.now + SimDuration::from_nanos(10));
            write(&mut machine, reg::CTRL, bits::CTRL_RESET);
        }
        machine.run(machine.now + SimDuration::from_millis(5));
        let (driver, device) = (machine.driver.packet_account(), machine.device.packet_account());
        if seed % 4 != 1 {
            // Frames that one side passes to the other reach it.
            assert_eq!((driver.held, device.held), (0, 0), "{seed}: {driver:?} {device:?}");
            assert_eq!(driver.consumed, Map::from([("device", device.originated["host"])]), "{seed}");
            let to_host = device.consumed.get("host").copied().unwrap_or(0);
            assert_eq!(to_host, driver.originated["device"], "{seed}: {device:?}");
        }
        assert_eq!(device.sent, machine.sent.len() as u64);
        assert_eq!(driver.sent, machine.received.len() as u64);
        add(&mut totals, "driver", &driver);
        add(&mut totals, "device", &device);
    }
    let reasons = ["phy_off", "loopback", "disabled", "too_long", "no_descriptor", "too_short", "reset"];
    let consumers = ["host", "other_address"].map(|to| format!("device to {to}")).into_iter();
    let expected = reasons.map(|reason| format!("device dropped {reason}")).into_iter().chain(consumers);
    let of_driver = ["dropped queue_full", "dropped invalid", "from device", "to device"];
    for name in expected.chain(of_driver.map(|one| format!("driver {one}"))) {
        assert!(totals.get(&name).is_some_and(|count| *count > 0), "no frame '{name}': {totals:?}");
    }
}
