//! Clock discipline of `adjtimex(2)`: the rate of a host's wall clock and the values that time daemons keep
//! in the kernel.

use belljar_linux_abi::Errno;
use belljar_linux_abi::process::Timex;

/// `ADJ_*`.
const OFFSET: u32 = 0x1;
const FREQUENCY: u32 = 0x2;
const MAX_ERROR: u32 = 0x4;
const ESTIMATED_ERROR: u32 = 0x8;
const STATUS: u32 = 0x10;
const TIME_CONSTANT: u32 = 0x20;
const TAI: u32 = 0x80;
const SET_OFFSET: u32 = 0x100;
const MICROSECONDS: u32 = 0x1000;
/// `ADJ_NANO`, which is also the read-only bit of `ADJ_OFFSET_SS_READ`.
const NANOSECONDS: u32 = 0x2000;
const TICK: u32 = 0x4000;
/// `ADJ_ADJTIME`: the call comes from adjtime(3).
const ADJUST_TIME: u32 = 0x8000;

/// `STA_PLL`, `STA_UNSYNC`, `STA_NANO`, `STA_CLOCKERR`, and the mask of the read-only bits.
const PLL: i32 = 0x1;
const UNSYNCHRONISED: i32 = 0x40;
const NANO: i32 = 0x2000;
const CLOCK_ERROR: i32 = 0x1000;
const READ_ONLY: i32 = 0xff00;

/// Maximum frequency offset, 500 ppm in units of 2^-16 ppm.
const MOST: i64 = 500 << 16;
/// Nominal tick length in microseconds, and the accepted range.
const NORMAL_TICK: i64 = 10_000;
const TICKS: std::ops::RangeInclusive<i64> = 9_000..=11_000;
const MOST_ERROR: i64 = 16_000_000;
/// `TIME_OK`, `TIME_ERROR`.
const OK: u64 = 0;
const NOT_SYNCHRONISED: u64 = 5;

/// Discipline state, and the drift that the experiment gives the clock.
#[derive(Clone, Debug)]
pub struct Discipline {
    /// Drift set by the experiment, in parts per billion.
    pub drift_ppb: i64,
    frequency: i64,
    max_error: i64,
    estimated_error: i64,
    status: i32,
    constant: i64,
    tick: i64,
    tai: i32,
}

impl Default for Discipline {
    /// Clock without drift or adjustment.
    fn default() -> Discipline {
        Discipline {
            drift_ppb: 0,
            frequency: 0,
            max_error: 0,
            estimated_error: 0,
            status: 0,
            constant: 2,
            tick: NORMAL_TICK,
            tai: 0,
        }
    }
}

/// Effect of an `adjtimex(2)` call on the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adjustment {
    /// Step of the wall clock in nanoseconds, negative for backwards.
    pub step: i64,
    /// True if Linux would slew the clock by `step` instead of stepping it.
    pub slowly: bool,
    /// True if the clock's rate has changed.
    pub rate: bool,
}

/// Checks the modes of a request. Returns true if it needs the right to set clocks.
pub fn check(asked: &Timex) -> Result<bool, Errno> {
    let modes = asked.modes;
    if modes & ADJUST_TIME != 0 {
        return if modes & OFFSET == 0 { Err(Errno::EINVAL) } else { Ok(modes & NANOSECONDS == 0) };
    }
    Ok(modes != 0)
}

/// Checks the values of a request whose caller has the right to set clocks.
pub fn check_values(asked: &Timex) -> Result<(), Errno> {
    let modes = asked.modes;
    if modes & ADJUST_TIME != 0 {
        return Ok(());
    }
    if modes & TICK != 0 && !TICKS.contains(&asked.tick) {
        return Err(Errno::EINVAL);
    }
    let most = if modes & NANOSECONDS != 0 { 1_000_000_000 } else { 1_000_000 };
    if modes & SET_OFFSET != 0 && !(0..most).contains(&asked.time.usec) {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Step in nanoseconds that `ADJ_SETOFFSET` requests.
pub fn offset_to_set(asked: &Timex) -> Option<i128> {
    let unit = if asked.modes & NANOSECONDS != 0 { 1 } else { 1_000 };
    let is_asked = asked.modes & (SET_OFFSET | ADJUST_TIME) == SET_OFFSET;
    is_asked.then(|| i128::from(asked.time.sec) * 1_000_000_000 + i128::from(asked.time.usec) * unit)
}

impl Discipline {
    /// Undisciplined clock with this drift in parts per billion.
    pub fn new(drift_ppb: i64) -> Discipline {
        Discipline { drift_ppb, ..Discipline::default() }
    }

    /// Resets everything that programs have set, for a restart of the host.
    pub fn reset(&mut self) {
        *self = Discipline { drift_ppb: self.drift_ppb, ..Discipline::default() };
    }

    /// Frequency offset of the clock in parts per billion.
    pub fn ppb(&self) -> i64 {
        self.drift_ppb + self.frequency * 1_000 / (1 << 16) + (self.tick - NORMAL_TICK) * 100_000
    }

    /// Applies a request and returns its effect on the clock.
    pub fn apply(&mut self, asked: &Timex) -> Adjustment {
        let modes = asked.modes;
        let mut done = Adjustment::default();
        if modes & ADJUST_TIME != 0 {
            if modes & NANOSECONDS == 0 {
                done = Adjustment { step: asked.offset.saturating_mul(1_000), slowly: true, rate: false };
            }
            return done;
        }
        if modes & STATUS != 0 {
            self.status = self.status & READ_ONLY | asked.status & !READ_ONLY;
        }
        if modes & NANOSECONDS != 0 {
            self.status |= NANO;
        }
        if modes & MICROSECONDS != 0 {
            self.status &= !NANO;
        }
        let unit = if self.status & NANO != 0 { 1 } else { 1_000 };
        if modes & FREQUENCY != 0 {
            done.rate |= asked.freq != self.frequency;
            self.frequency = asked.freq.clamp(-MOST, MOST);
        }
        if modes & MAX_ERROR != 0 {
            self.max_error = asked.maxerror.clamp(0, MOST_ERROR);
        }
        if modes & ESTIMATED_ERROR != 0 {
            self.estimated_error = asked.esterror.clamp(0, MOST_ERROR);
        }
        if modes & TIME_CONSTANT != 0 {
            let coarse = if self.status & NANO != 0 { 0 } else { 4 };
            self.constant = asked.constant.saturating_add(coarse).clamp(0, 10);
        }
        if modes & TAI != 0 && asked.constant >= 0 {
            self.tai = asked.constant as i32;
        }
        if modes & OFFSET != 0 && self.status & PLL != 0 {
            let offset = asked.offset.saturating_mul(unit).clamp(-500_000_000, 500_000_000);
            (done.step, done.slowly) = (offset, true);
        }
        if modes & TICK != 0 {
            done.rate |= asked.tick != self.tick;
            self.tick = asked.tick;
        }
        if let Some(step) = offset_to_set(asked) {
            let step = step.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            done.step = done.step.saturating_add(step);
        }
        done
    }

    /// Values that a call copies out, except for the time, and the clock state that it returns.
    pub fn shown(&self, modes: u32) -> (Timex, u64) {
        let shown = Timex {
            modes,
            freq: self.frequency,
            maxerror: self.max_error,
            esterror: self.estimated_error,
            status: self.status,
            constant: self.constant,
            precision: 1,
            tolerance: MOST,
            tick: self.tick,
            tai: self.tai,
            ..Timex::default()
        };
        (shown, if self.status & (UNSYNCHRONISED | CLOCK_ERROR) != 0 { NOT_SYNCHRONISED } else { OK })
    }

    /// True if times are reported in nanoseconds (`STA_NANO`).
    pub fn in_nanoseconds(&self) -> bool {
        self.status & NANO != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_add_up_and_are_bounded() {
        let mut clock = Discipline { drift_ppb: -30_000, ..Discipline::default() };
        let asked = Timex { modes: FREQUENCY | TICK, freq: 10 << 16, tick: 10_001, ..Timex::default() };
        assert_eq!(clock.apply(&asked), Adjustment { rate: true, ..Adjustment::default() });
        assert_eq!(clock.ppb(), 80_000, "10 ppm, 100 ppm, and 30 ppm less");
        clock.apply(&Timex { modes: FREQUENCY, freq: i64::MAX, ..Timex::default() });
        assert_eq!(clock.shown(0).0.freq, MOST);
    }

    #[test]
    fn offsets_step_the_clock() {
        let mut clock = Discipline::default();
        let offset = Timex { modes: OFFSET, offset: 5, ..Timex::default() };
        assert_eq!(clock.apply(&offset).step, 0, "without a PLL nothing happens");
        let pll = Timex { modes: OFFSET | STATUS, status: PLL, offset: 5, ..Timex::default() };
        assert_eq!(clock.apply(&pll), Adjustment { step: 5_000, slowly: true, rate: false });
        let mut set = Timex { modes: SET_OFFSET | NANOSECONDS, ..Timex::default() };
        (set.time.sec, set.time.usec) = (-1, 1);
        assert_eq!((check_values(&set), clock.apply(&set).step), (Ok(()), -999_999_999));
        assert!(clock.in_nanoseconds());
        set.time.usec = 1_000_000_000;
        assert_eq!(check_values(&set), Err(Errno::EINVAL));
    }

    #[test]
    fn rights_and_modes_are_checked() {
        let modes = |modes| Timex { modes, ..Timex::default() };
        assert_eq!(check(&modes(0)), Ok(false));
        assert_eq!(check(&modes(ADJUST_TIME)), Err(Errno::EINVAL));
        assert_eq!(check(&modes(0xa001)), Ok(false), "ADJ_OFFSET_SS_READ only reads");
        assert_eq!(check(&modes(0x8001)), Ok(true));
        assert_eq!(check_values(&modes(TICK)), Err(Errno::EINVAL), "a tick of 0");
    }
}
