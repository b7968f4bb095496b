//! `ioctl(2)` on a PTP hardware clock, `/dev/ptp<n>`: Linux's `include/uapi/linux/ptp_clock.h`. The caller copies
//! the structures in and out.

use belljar_base::SimTime;
use belljar_linux_abi::process::Timex;
use belljar_linux_abi::{Errno, c};
use belljar_netstack::ptp::{MAX_ADJUSTMENT_PPB, PtpClock};

/// Type of the requests.
const TYPE: u64 = 0x3d;
/// Requests by their numbers; the second number of each is the one with checked reserved fields.
mod request {
    pub const GET_CAPS: u64 = 1;
    pub const EXTERNAL_STAMPS: u64 = 2;
    pub const PERIODIC_OUTPUT: u64 = 3;
    pub const ENABLE_PPS: u64 = 4;
    pub const SYS_OFFSET: u64 = 5;
    pub const PIN_GET: u64 = 6;
    pub const PIN_SET: u64 = 7;
    pub const SYS_OFFSET_PRECISE: u64 = 8;
    pub const SYS_OFFSET_EXTENDED: u64 = 9;
    /// Difference of the numbers.
    pub const SECOND: u64 = 9;
}
/// `PTP_MAX_SAMPLES`.
const MAX_SAMPLES: usize = 25;
const CAPS_LEN: usize = 80;
/// Length of `struct ptp_clock_time`.
const TIME_LEN: usize = 16;

/// Times of the system's clocks in nanoseconds: `CLOCK_REALTIME` and `CLOCK_MONOTONIC_RAW`.
#[derive(Clone, Copy, Debug)]
pub struct SystemTimes {
    /// `CLOCK_REALTIME`.
    pub real: i64,
    /// `CLOCK_MONOTONIC` and `CLOCK_MONOTONIC_RAW`.
    pub monotonic: i64,
}

/// Number of bytes of a request's structure to read; `ENOTTY` for other requests.
pub fn head_len(request: u64) -> Result<usize, Errno> {
    let number = request & 0xff;
    if request >> 8 & 0xff != TYPE || !(1..=18).contains(&number) {
        return Err(Errno::ENOTTY);
    }
    let writes = request >> 30 & 1 != 0;
    // Only the head of the structures with samples is read.
    Ok(if writes { ((request >> 16 & 0x3fff) as usize).min(TIME_LEN) } else { 0 })
}

/// Answers a request; returns the bytes to write over its structure. No time passes between the readings.
pub fn answer(
    clock: &PtpClock,
    now: SimTime,
    system: SystemTimes,
    request: u64,
    head: &[u8],
) -> Result<Vec<u8>, Errno> {
    let number = request & 0xff;
    let word = |at: usize| head.get(at..at + 4).map_or(0, |b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]));
    let device = clock.read(now);
    match if number > request::SECOND { number - request::SECOND } else { number } {
        request::GET_CAPS => {
            // No alarms, external timestamps, periodic outputs, pulses or pins; cross timestamps.
            let mut all = [0u32; CAPS_LEN / 4];
            (all[0], all[6]) = (MAX_ADJUSTMENT_PPB as u32, 1);
            Ok(all.iter().flat_map(|word| word.to_ne_bytes()).collect())
        }
        request::SYS_OFFSET => {
            let samples = samples(word(0))?;
            let mut all = head.to_vec();
            all.resize(TIME_LEN, 0);
            for _ in 0..samples {
                put_time(&mut all, system.real);
                put_time(&mut all, device);
            }
            put_time(&mut all, system.real);
            Ok(all)
        }
        request::SYS_OFFSET_EXTENDED => {
            let samples = samples(word(0))?;
            let own = match word(4) as i32 {
                c::CLOCK_REALTIME => system.real,
                c::CLOCK_MONOTONIC | c::CLOCK_MONOTONIC_RAW => system.monotonic,
                _ => return Err(Errno::EINVAL),
            };
            if word(8) != 0 || word(12) != 0 {
                return Err(Errno::EINVAL);
            }
            let mut all = head.to_vec();
            for _ in 0..samples {
                [own, device, own].into_iter().for_each(|ns| put_time(&mut all, ns));
            }
            Ok(all)
        }
        request::SYS_OFFSET_PRECISE => {
            let mut all = Vec::new();
            [device, system.real, system.monotonic].into_iter().for_each(|ns| put_time(&mut all, ns));
            all.resize(4 * TIME_LEN, 0);
            Ok(all)
        }
        // The clock has none of these, so no index is valid.
        request::EXTERNAL_STAMPS | request::PERIODIC_OUTPUT | request::PIN_GET | request::PIN_SET => {
            Err(Errno::EINVAL)
        }
        request::ENABLE_PPS => Err(Errno::EOPNOTSUPP),
        _ => Err(Errno::ENOTTY),
    }
}

fn samples(asked: u32) -> Result<usize, Errno> {
    let asked = asked as usize;
    if asked > MAX_SAMPLES { Err(Errno::EINVAL) } else { Ok(asked) }
}

/// `struct ptp_clock_time`.
fn put_time(all: &mut Vec<u8>, ns: i64) {
    all.extend(ns.div_euclid(1_000_000_000).to_ne_bytes());
    all.extend((ns.rem_euclid(1_000_000_000) as u32).to_ne_bytes());
    all.extend([0; 4]);
}

/// `clock_adjtime(2)` on a hardware clock (`ptp_clock_adjtime` of Linux). Fails with `EOPNOTSUPP` for modes other
/// than a step or a frequency.
pub fn adjust(clock: &mut PtpClock, now: SimTime, asked: &mut Timex) -> Result<(), Errno> {
    const FREQUENCY: u32 = 0x2;
    const SET_OFFSET: u32 = 0x100;
    const NANOSECONDS: u32 = 0x2000;
    if asked.modes & SET_OFFSET != 0 {
        let unit = if asked.modes & NANOSECONDS != 0 { 1 } else { 1_000 };
        let part = asked.time.usec.checked_mul(unit).ok_or(Errno::EINVAL)?;
        if !(0..1_000_000_000).contains(&part) {
            return Err(Errno::EINVAL);
        }
        clock.step(now, asked.time.sec.saturating_mul(1_000_000_000).saturating_add(part));
    } else if asked.modes & FREQUENCY != 0 {
        clock.set_frequency(now, asked.freq)?;
    } else if asked.modes == 0 {
        asked.freq = clock.frequency();
    } else {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SimTime = SimTime::ZERO;
    const TIMES: SystemTimes = SystemTimes { real: 5_000_000_001, monotonic: 7 };

    fn ask(request: u64, head: &[u8]) -> Result<Vec<u8>, Errno> {
        answer(&PtpClock::new(NOW, 3_000_000_002, 0), NOW, TIMES, request, head)
    }

    #[test]
    fn offsets_are_sampled_between_readings_of_the_system() {
        let head = [2u32, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<u8>>();
        let basic = ask(0x4340_3d05, &head).unwrap();
        assert_eq!((basic.len(), basic[16], basic[24], basic[32], basic[40]), (16 + 5 * 16, 5, 1, 3, 2));
        let extended = ask(0xc4c0_3d09, &head).unwrap();
        assert_eq!((extended.len(), extended[16], extended[32], extended[48]), (16 + 6 * 16, 5, 3, 5));
        assert_eq!(ask(0xc4c0_3d12, &head).unwrap(), extended, "the same by its second number");
        let precise = ask(0xc040_3d08, &[0; 16]).unwrap();
        assert_eq!((precise.len(), precise[0], precise[16], precise[40]), (64, 3, 5, 7));
        assert_eq!(ask(0x4340_3d05, &[26, 0, 0, 0]), Err(Errno::EINVAL));
        assert_eq!(ask(0xc4c0_3d09, &[1, 0, 0, 0, 9]), Ok(ask(0xc4c0_3d09, &[1, 0, 0, 0, 9]).unwrap()));
    }

    #[test]
    fn capabilities_and_unknown_requests() {
        let caps = ask(0x8050_3d01, &[]).unwrap();
        assert_eq!((caps.len(), caps[24]), (CAPS_LEN, 1));
        assert_eq!(u32::from_ne_bytes(caps[..4].try_into().unwrap()), 62_499_999);
        assert_eq!((head_len(0x8050_3d01), head_len(0x4340_3d05)), (Ok(0), Ok(16)));
        assert_eq!((head_len(0x5401), head_len(0x3d20)), (Err(Errno::ENOTTY), Err(Errno::ENOTTY)));
        assert_eq!(ask(0x4010_3d02, &[0; 16]), Err(Errno::EINVAL));
    }

    #[test]
    fn steps_and_frequencies_are_checked() {
        let mut clock = PtpClock::new(NOW, 0, 0);
        let mut step = Timex { modes: 0x2100, ..Timex::default() };
        (step.time.sec, step.time.usec) = (-1, 5);
        assert_eq!((adjust(&mut clock, NOW, &mut step), clock.read(NOW)), (Ok(()), 5 - 1_000_000_000));
        step.time.usec = 1_000_000_000;
        assert_eq!(adjust(&mut clock, NOW, &mut step), Err(Errno::EINVAL));
        let mut frequency = Timex { modes: 2, freq: 7, ..Timex::default() };
        adjust(&mut clock, NOW, &mut frequency).unwrap();
        let mut read = Timex::default();
        assert_eq!((adjust(&mut clock, NOW, &mut read), read.freq), (Ok(()), 7));
        for modes in [1, 0x10, 0x4000] {
            assert_eq!(adjust(&mut clock, NOW, &mut Timex { modes, ..read }), Err(Errno::EOPNOTSUPP));
        }
    }
}
