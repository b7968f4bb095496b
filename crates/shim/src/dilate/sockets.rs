//! Socket options with time values, and packet timestamps.

use super::calls::{OF_PACKETS, nr};
use super::clock::Now;
use super::filter::{self, FEW};
use super::memory::{native, read, result, update};
use super::waits::Time;
use super::{layout, rings, stamps, timeouts};

/// Option names at the level SOL_SOCKET: `SO_LINGER`, `SO_RCVTIMEO`, `SO_SNDTIMEO` and their 64-bit variants,
/// `SO_MAX_PACING_RATE`, `SO_TIMESTAMP`, `SO_TIMESTAMPNS`, `SO_TIMESTAMPING` and their 64-bit variants.
pub const TIMES: &[u32] = &[13, 20, 21, 66, 67, 47, 29, 35, 37, 63, 64, 65];
/// `TCP_KEEPIDLE`, `TCP_KEEPINTVL`, `TCP_LINGER2`, `TCP_DEFER_ACCEPT`, `TCP_INFO`, `TCP_USER_TIMEOUT`.
pub const TCP_TIMES: &[u32] = &[4, 5, 8, 9, 11, 18];
/// `ioctl` requests for the timestamp of the last packet.
pub const SIOCGSTAMP: u32 = 0x8906;
/// See [`SIOCGSTAMP`].
pub const SIOCGSTAMPNS: u32 = 0x8907;

const SOL_SOCKET: u64 = 1;
/// Types of control messages that carry times: `struct timeval`, `struct timespec`, three of the latter; with
/// the unit in nanoseconds and the count.
const STAMPS: [(u32, u64, u64); 6] =
    [(29, 1_000, 1), (35, 1, 1), (37, 1, 3), (63, 1_000, 1), (64, 1, 1), (65, 1, 3)];

/// Kind of an option's value.
enum Kind {
    /// `struct timeval`.
    Timeval,
    /// A whole number of seconds or milliseconds at this offset.
    Whole(u64),
    /// Bytes per second.
    Rate,
    /// A switch that enables packet timestamps.
    Stamps,
    /// `struct tcp_info`.
    Info,
}

fn kind(level: u64, name: u64) -> Kind {
    match (level & 0xffff_ffff, name & 0xffff_ffff) {
        (SOL_SOCKET, 20 | 21 | 66 | 67) => Kind::Timeval,
        // A flag precedes the seconds.
        (SOL_SOCKET, 13) => Kind::Whole(4),
        (SOL_SOCKET, 47) => Kind::Rate,
        (SOL_SOCKET, _) => Kind::Stamps,
        (_, 11) => Kind::Info,
        _ => Kind::Whole(0),
    }
}

/// `setsockopt`.
pub fn set_option(args: [u64; 6]) -> i64 {
    if args[1] & 0xffff_ffff == rings::SOL_PACKET {
        return if Now::read().page.rings != 0 { rings::set(args) } else { native(nr::SETSOCKOPT, args) };
    }
    let [socket, level, name, value, len, _] = args;
    let pace = Now::read().page.kernel();
    let with =
        |value: *const u8, len: u64| native(nr::SETSOCKOPT, [socket, level, name, value as u64, len, 0]);
    // The kernel itself refuses values that are too short.
    let unchanged = || native(nr::SETSOCKOPT, args);
    result((|| match kind(level, name) {
        // The kernel keeps timeouts in virtual time.
        Kind::Timeval => {
            let done = unchanged();
            if done == 0 && read::<Time>(value)? != [0, 0] {
                filter::install_once::<{ timeouts::CAPACITY }>(layout::TIMED, timeouts::OF_TIMEOUTS);
            }
            Ok(done)
        }
        Kind::Whole(at) if len >= at + 4 => {
            let mut both = [read::<u32>(value)?, if at > 0 { read(value + at)? } else { 0 }];
            let number = &mut both[at as usize / 4];
            // A negative number has another meaning.
            if *number <= i32::MAX as u32 {
                // The kernel refuses larger values of TCP_KEEPIDLE and TCP_KEEPINTVL.
                const MOST_KEEP_ALIVE: u32 = 32_767;
                let is_keep_alive = level & 0xffff_ffff == 6 && matches!(name & 0xffff_ffff, 4 | 5);
                let is_short = is_keep_alive && *number <= MOST_KEEP_ALIVE;
                let most = if is_short { u64::from(MOST_KEEP_ALIVE) } else { i32::MAX as u64 };
                *number = pace.real_span(u64::from(*number)).min(most) as u32;
            }
            Ok(with(both.as_ptr().cast(), at + 4))
        }
        Kind::Rate if len == 4 || len == 8 => {
            let rate = if len == 8 { read(value)? } else { u64::from(read::<u32>(value)?) };
            // All ones mean no limit.
            let unlimited = rate == u64::MAX || len == 4 && rate == u64::from(u32::MAX);
            let slowed = if unlimited { rate } else { pace.virtual_span(rate) };
            Ok(with((&raw const slowed).cast(), len))
        }
        Kind::Stamps => {
            let done = unchanged();
            if done == 0 && read::<u32>(value)? != 0 {
                filter::install_once::<FEW>(layout::STAMPED, OF_PACKETS);
            }
            Ok(done)
        }
        _ => Ok(unchanged()),
    })())
}

/// `getsockopt`.
pub fn get_option(args: [u64; 6]) -> i64 {
    let [_, level, name, value, len_at, _] = args;
    let done = native(nr::GETSOCKOPT, args);
    if done != 0 {
        return done;
    }
    let pace = Now::read().page.kernel();
    result((|| {
        let len = u64::from(read::<u32>(len_at)?);
        match kind(level, name) {
            Kind::Whole(at) if len >= at + 4 => {
                update(value + at, |number: u32| pace.virtual_span(u64::from(number)) as u32)?;
            }
            Kind::Rate if len == 8 => update(value, |rate: u64| faster(&pace, rate))?,
            Kind::Rate if len == 4 => {
                update(value, |rate: u32| match rate {
                    u32::MAX => rate,
                    _ => u32::try_from(pace.real_span(u64::from(rate))).unwrap_or(u32::MAX),
                })?;
            }
            Kind::Info => info(&pace, value, len)?,
            _ => {}
        }
        Ok(0)
    })())
}

/// A rate of the machine in bytes per second, as the host sees it.
fn faster(pace: &super::clock::Pace, rate: u64) -> u64 {
    if rate == u64::MAX { rate } else { pace.real_span(rate) }
}

/// Converts the spans and rates in a `struct tcp_info`.
fn info(pace: &super::clock::Pace, at: u64, len: u64) -> Result<(), i64> {
    /// Offsets of timeouts, times since an event and round-trip times: 32 bits.
    const SPANS: [u64; 10] = [8, 12, 44, 48, 52, 56, 68, 72, 92, 148];
    /// Offsets of pacing and delivery rates: 64 bits.
    const RATES: [u64; 3] = [104, 112, 160];
    /// Offsets of busy and limited times: 64 bits.
    const LONG_SPANS: [u64; 3] = [168, 176, 184];
    for place in SPANS.into_iter().filter(|place| place + 4 <= len) {
        // All ones mean "not known yet".
        let slowed =
            |span: u32| if span == u32::MAX { span } else { pace.virtual_span(u64::from(span)) as u32 };
        update(at + place, slowed)?;
    }
    for place in RATES.into_iter().filter(|place| place + 8 <= len) {
        update(at + place, |rate: u64| faster(pace, rate))?;
    }
    for place in LONG_SPANS.into_iter().filter(|place| place + 8 <= len) {
        update(at + place, |span: u64| pace.virtual_span(span))?;
    }
    Ok(())
}

/// Converts the timestamps in the control messages of a `struct msghdr`.
pub fn convert_stamps(header: u64) -> Result<(), i64> {
    let [mut at, len]: [u64; 2] = read(header + 32)?;
    let end = at.saturating_add(len);
    while at != 0 && at + 16 <= end {
        let len: u64 = read(at)?;
        let [level, kind]: [u32; 2] = read(at + 8)?;
        if len < 16 || at.saturating_add(len) > end {
            break;
        }
        let stamp = STAMPS.iter().find(|(name, ..)| u64::from(level) == SOL_SOCKET && kind == *name);
        if let Some((_, unit, count)) = stamp {
            (0..*count)
                .take_while(|n| 16 + 16 * (n + 1) <= len)
                .try_for_each(|n| stamps::of_packet(at + 16 + 16 * n, *unit))?;
        }
        at += len.next_multiple_of(8);
    }
    Ok(())
}

/// `ioctl` for the timestamp of the last packet.
pub fn last_stamp(args: [u64; 6]) -> i64 {
    let done = native(nr::IOCTL, args);
    let unit = if args[1] as u32 == SIOCGSTAMP { 1_000 } else { 1 };
    if done == 0 { stamps::of_packet(args[2], unit).err().unwrap_or(0) } else { done }
}
