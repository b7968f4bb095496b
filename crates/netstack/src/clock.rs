//! A host's clock, and the rule that guarantees its progress.
//!
//! Computation is free by default, so a program that polls the clock until time has passed would loop
//! forever. Therefore the first [`FREE_CALLS`] calls and wake-ups after a change of the clock are free, and
//! each further one costs [`PENALTY`].

use crate::cpu::{Cpu, CpuCosts, Work};
use belljar_base::{SimDuration, SimTime};

/// Calls and wake-ups that are free after a change of the clock.
pub const FREE_CALLS: u32 = 1_000;
/// Simulated time charged for each further call or wake-up.
pub const PENALTY: SimDuration = SimDuration::from_micros(1);

/// Model of the simulated time that computation takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// Latency of each call and wake-up, if modelled.
    pub calls: Option<CallLatency>,
    /// Time charged to a program that makes no calls, each time it is preempted.
    pub preemption: SimDuration,
    /// Processor time of calls, packets and interrupts, if modelled; its cost of calls overrides
    /// [`calls`](Self::calls).
    pub costs: Option<CpuCosts>,
    /// Time that each reading of the clock takes, so that two readings differ; zero if they are free.
    pub reading: SimDuration,
}

impl Default for CpuModel {
    fn default() -> CpuModel {
        CpuModel {
            calls: None,
            preemption: SimDuration::from_millis(10),
            costs: None,
            reading: SimDuration::ZERO,
        }
    }
}

/// Latency of calls: Shadow's `model_unblocked_syscall_latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallLatency {
    /// Latency of a system call.
    pub syscall: SimDuration,
    /// Latency of a call that Linux serves in the vDSO.
    pub vdso: SimDuration,
    /// Latency accumulates up to this bound before it is applied to the clock.
    pub max_unapplied: SimDuration,
}

/// Kind of a system call, by what it costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A call that enters the kernel.
    Kernel,
    /// A reading of the clock, which Linux serves in the vDSO.
    Reading,
    /// A call other than a reading of the clock that Linux serves in the vDSO.
    Vdso,
}

/// 2000-01-01 00:00:00 UTC in seconds since 1970: the default start of the simulation, as in Shadow.
pub const DEFAULT_EPOCH_SECS: u64 = 946_684_800;

/// The clock of one host.
#[derive(Clone, Debug)]
pub struct Clock {
    now: SimTime,
    calls_since_moved: u32,
    /// Wall-clock time at the start of the simulation, in nanoseconds since 1970.
    epoch_ns: u64,
    /// The simulation's wall-clock time at its start, which steps do not change.
    start_ns: u64,
    /// Frequency error of the host's oscillator against simulated time, in parts per billion.
    drift_ppb: i64,
    /// Reference point: a simulated time, and the oscillator's count at that time.
    anchor: (SimTime, SimDuration),
    /// The oscillator's count at the host's last boot.
    booted: SimDuration,
    cpu: CpuModel,
    unapplied: SimDuration,
    /// Simulated time of the last reading of the clocks, and the values returned.
    shown: Option<(SimTime, [u64; 2])>,
    /// The processor, if work is charged.
    pub(crate) processor: Option<Box<Cpu>>,
}

impl Clock {
    /// Creates a clock at the start of the simulation, `epoch_secs` seconds after 1970.
    pub fn new(epoch_secs: u64, mut cpu: CpuModel) -> Clock {
        let epoch_ns = epoch_secs * 1_000_000_000;
        if let Some(CpuCosts { syscall, .. }) = cpu.costs {
            let (vdso, max_unapplied) = (SimDuration::ZERO, SimDuration::ZERO);
            cpu.calls = Some(CallLatency { syscall, vdso, max_unapplied });
        } else if cpu.calls.is_none() && !cpu.reading.is_zero() {
            let free = SimDuration::ZERO;
            cpu.calls = Some(CallLatency { syscall: free, vdso: free, max_unapplied: free });
        }
        Clock {
            now: SimTime::ZERO,
            calls_since_moved: 0,
            epoch_ns,
            start_ns: epoch_ns,
            drift_ppb: 0,
            anchor: (SimTime::ZERO, SimDuration::ZERO),
            booted: SimDuration::ZERO,
            cpu,
            unapplied: SimDuration::ZERO,
            shown: None,
            processor: cpu.costs.map(|costs| Box::new(Cpu::new(costs))),
        }
    }
    /// The processor, if work is charged.
    pub fn processor(&self) -> Option<&Cpu> {
        self.processor.as_deref()
    }
    /// Charges work: advances the clock by its cost. Without a processor work is free.
    #[inline]
    pub fn work(&mut self, kind: Work, amount: u64) {
        if let Some(processor) = &mut self.processor {
            self.now += processor.work(kind, amount);
        }
    }
    /// Charges the transmission or reception of a packet of `bytes` bytes.
    #[inline]
    pub fn work_on_packet(&mut self, bytes: usize) {
        if self.processor.is_some() {
            self.work(Work::Packet, 1);
            self.work(Work::Byte, bytes as u64);
        }
    }
    /// True while runnable threads precede packets: see [`cpu`](crate::cpu).
    #[inline]
    pub fn is_yielding(&self) -> bool {
        self.processor().is_some_and(|processor| processor.receives(self.now) > self.now)
    }
    /// Restores the precedence of packets, for an owner without runnable threads.
    pub fn stop_yielding(&mut self) {
        if let Some(processor) = &mut self.processor {
            processor.stop_yielding();
        }
    }
    /// Charges an interrupt that was raised at `at`, and returns the time at which its driver runs. The packets
    /// that the driver fetches cost no further interrupt.
    pub fn interrupt(&mut self, at: SimTime) -> SimTime {
        if self.processor.is_none() {
            return at;
        }
        self.advance(at);
        self.work(Work::Interrupt, 1);
        self.now()
    }
    /// Creates a clock with an error: an offset in nanoseconds, and a drift against simulated time in parts
    /// per billion.
    pub fn with_error(epoch_secs: u64, cpu: CpuModel, (offset_ns, drift_ppb): (i64, i64)) -> Clock {
        let mut clock = Clock::new(epoch_secs, cpu);
        clock.step(offset_ns);
        clock.set_drift(drift_ppb);
        clock
    }
    /// Simulated time since the start of the simulation.
    pub fn now(&self) -> SimTime {
        self.now
    }
    /// Time since the start of the simulation as counted by this host. Protocols use it, so that their timers
    /// drift with the rest of the host.
    pub fn local(&self) -> SimTime {
        self.local_at(self.now)
    }
    /// The value of [`local`](Self::local) at the simulated time `at`, unless the drift changes. `at` must
    /// not precede the last change of the drift.
    pub fn local_at(&self, at: SimTime) -> SimTime {
        SimTime::ZERO + self.counted_at(at)
    }
    /// The simulated time at which [`local`](Self::local) equals `local`; inexact for the past.
    pub fn at_local(&self, local: SimTime) -> SimTime {
        self.at_count(local.since(SimTime::ZERO))
    }
    /// `CLOCK_MONOTONIC` and `CLOCK_BOOTTIME` in nanoseconds. A host boots one hour before the simulation
    /// starts, since programs mistake a clock near zero for one that was never set.
    pub fn monotonic_ns(&self) -> u64 {
        BOOT_BEFORE_START_NS + self.counted().saturating_sub(self.booted).as_nanos()
    }
    /// `CLOCK_REALTIME` in nanoseconds since 1970.
    pub fn realtime_ns(&self) -> u64 {
        self.epoch_ns.saturating_add(self.counted().as_nanos())
    }
    /// The simulation's wall-clock time at its start, in nanoseconds since 1970.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }
    /// `CLOCK_REALTIME` at a time near the present, in nanoseconds since 1970.
    pub fn realtime_at(&self, at: SimTime) -> u64 {
        if at >= self.anchor.0 {
            return self.epoch_ns.saturating_add(self.counted_at(at).as_nanos());
        }
        self.realtime_ns().saturating_sub(self.now.since(at).as_nanos())
    }
    /// `CLOCK_REALTIME` and `CLOCK_MONOTONIC` in nanoseconds; cached until the clock changes.
    pub fn shown(&mut self) -> (u64, u64) {
        let [realtime, monotonic] = match self.shown {
            Some((at, shown)) if at == self.now => shown,
            _ => [self.realtime_ns(), self.monotonic_ns()],
        };
        self.shown = Some((self.now, [realtime, monotonic]));
        (realtime, monotonic)
    }
    /// Number of calls that are still free. Their only effect on the clock is the count of
    /// [`charge_free`](Self::charge_free).
    pub fn free_calls(&self) -> u32 {
        if self.cpu.calls.is_some() { 0 } else { FREE_CALLS - self.calls_since_moved }
    }
    /// Counts free calls.
    pub fn charge_free(&mut self, calls: u32) {
        self.calls_since_moved = self.calls_since_moved.saturating_add(calls).min(FREE_CALLS);
    }
    /// The simulated time at which `CLOCK_MONOTONIC` shows `ns`.
    pub fn at_monotonic(&self, ns: u64) -> SimTime {
        let since_boot = SimDuration::from_nanos(ns.saturating_sub(BOOT_BEFORE_START_NS));
        self.at_count(since_boot + self.booted)
    }
    /// The simulated time at which `CLOCK_REALTIME` shows `ns`.
    pub fn at_realtime(&self, ns: u64) -> SimTime {
        self.at_count(SimDuration::from_nanos(ns.saturating_sub(self.epoch_ns)))
    }
    /// The simulated time at which this host's clock will have advanced by `time`.
    pub fn after(&self, time: SimDuration) -> SimTime {
        self.now.saturating_add(self.simulated(time))
    }
    /// The simulated duration in which this host's clock advances by `time`.
    pub fn simulated(&self, time: SimDuration) -> SimDuration {
        if self.drift_ppb == 0 {
            return time;
        }
        let picos = (u128::from(time.as_picos()) * 1_000_000_000).div_ceil(self.rate());
        SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }

    /// The oscillator's count since the start of the simulation.
    fn counted(&self) -> SimDuration {
        self.counted_at(self.now)
    }
    fn counted_at(&self, at: SimTime) -> SimDuration {
        let (from, count) = self.anchor;
        let passed = at.since(from);
        if self.drift_ppb == 0 {
            return count + passed;
        }
        let picos = u128::from(passed.as_picos()) * self.rate() / 1_000_000_000;
        count + SimDuration::from_picos(u64::try_from(picos).unwrap_or(u64::MAX))
    }
    /// The simulated time at which the oscillator's count is `count`; [`SimTime::ZERO`] for a count before
    /// the reference point.
    fn at_count(&self, count: SimDuration) -> SimTime {
        let (from, counted) = self.anchor;
        if count < counted {
            return SimTime::ZERO;
        }
        from.saturating_add(self.simulated(count.saturating_sub(counted)))
    }
    /// The oscillator's count per 10^9 units of simulated time.
    fn rate(&self) -> u128 {
        1_000_000_000i64.saturating_add(self.drift_ppb).max(1) as u128
    }

    /// Sets the drift of the clock to `ppb` parts per billion, from now on.
    pub fn set_drift(&mut self, ppb: i64) {
        self.anchor = (self.now, self.counted());
        self.drift_ppb = ppb;
        self.shown = None;
    }
    /// Steps the wall clock by `ns` nanoseconds, forward or back.
    pub fn step(&mut self, ns: i64) {
        self.epoch_ns = self.epoch_ns.saturating_add_signed(ns);
        self.shown = None;
    }
    /// Restarts `CLOCK_MONOTONIC` at a boot of the host.
    pub fn boot(&mut self) {
        self.booted = self.counted();
        self.shown = None;
    }
    /// Advances the clock to `to`; an earlier time is ignored.
    pub fn advance(&mut self, to: SimTime) {
        if to > self.now {
            self.now = to;
            self.calls_since_moved = 0;
        }
    }
    /// Adopts the state of another clock of the same host if that one is ahead.
    pub(crate) fn catch_up(&mut self, other: &Clock) {
        if (other.now, other.calls_since_moved) > (self.now, self.calls_since_moved) {
            self.clone_from(other);
        }
    }
    /// Charges a full preemption tick, at least `least`, to a program that makes no calls, since an unmodified clock
    /// would have advanced.
    pub fn charge_preemption(&mut self, least: SimDuration) -> SimDuration {
        let spent = self.cpu.preemption.max(least);
        self.now += spent;
        spent
    }
    /// Charges a system call, or its continuation.
    pub fn charge_call(&mut self, kind: impl FnOnce() -> CallKind) {
        let Some(latency) = self.cpu.calls else { return self.charge() };
        let kind = kind();
        if kind == CallKind::Reading && !self.cpu.reading.is_zero() {
            return self.charge_reading();
        }
        let in_vdso = kind != CallKind::Kernel;
        if !in_vdso && let Some(processor) = &mut self.processor {
            processor.work(Work::Syscall, 1);
        }
        self.unapplied += if in_vdso { latency.vdso } else { latency.syscall };
        if self.unapplied > latency.max_unapplied {
            self.now += std::mem::take(&mut self.unapplied);
        }
        // With a latency of zero the clock might not advance; the penalty guarantees that it does.
        if latency.syscall.is_zero() || (in_vdso && latency.vdso.is_zero()) {
            self.charge();
        }
    }
    /// Charges a reading of the clock, before it is read.
    pub fn charge_reading(&mut self) {
        match self.cpu.reading.is_zero() {
            true => self.charge(),
            false => self.now += self.cpu.reading,
        }
    }
    /// Charges a turn of a traffic model, or one of its socket operations, as a system call. It takes time
    /// only with a processor.
    pub fn work_of_model(&mut self, is_turn: bool) {
        match self.processor {
            Some(_) => self.charge_call(|| CallKind::Kernel),
            None if is_turn => self.charge(),
            None => {}
        }
    }
    /// Charges one call or wake-up.
    pub fn charge(&mut self) {
        if self.calls_since_moved < FREE_CALLS {
            self.calls_since_moved += 1;
        } else {
            // The count is kept: only an event that advances the clock makes calls free again.
            self.now += PENALTY;
        }
    }
}

const BOOT_BEFORE_START_NS: u64 = 3_600_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_costs_time_after_the_free_calls() {
        let mut clock = Clock::new(DEFAULT_EPOCH_SECS, CpuModel::default());
        (0..FREE_CALLS).for_each(|_| clock.charge());
        assert_eq!(clock.now(), SimTime::ZERO);
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 1_000);
        clock.advance(SimTime::from_nanos(5_000));
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 5_000);
    }

    #[test]
    fn modelled_calls_take_their_latency_once_enough_has_added_up() {
        let calls = Some(CallLatency {
            syscall: SimDuration::from_nanos(400),
            vdso: SimDuration::from_nanos(10),
            max_unapplied: SimDuration::from_micros(1),
        });
        let mut clock = Clock::new(DEFAULT_EPOCH_SECS, CpuModel { calls, ..CpuModel::default() });
        let mut after = |in_vdso: bool| {
            clock.charge_call(|| if in_vdso { CallKind::Reading } else { CallKind::Kernel });
            clock.now().as_nanos()
        };
        assert_eq!([after(false), after(false)], [0, 0]);
        assert_eq!(after(true), 0);
        assert_eq!(after(false), 1_210);
        assert_eq!((0..100).map(|_| after(true)).last(), Some(1_210));
        assert_eq!(after(true), 2_220);
    }

    #[test]
    fn a_reading_takes_its_time_whatever_calls_take() {
        let (calls, reading) = (PENALTY, SimDuration::from_nanos(30));
        let latency = CallLatency { syscall: calls, vdso: calls, max_unapplied: SimDuration::ZERO };
        for calls in [None, Some(latency)] {
            let mut clock = Clock::new(1_000, CpuModel { calls, reading, ..CpuModel::default() });
            assert_eq!(clock.free_calls(), 0, "each reading moves the clock");
            clock.charge_call(|| CallKind::Reading);
            clock.charge_reading();
            assert_eq!(clock.now().as_nanos(), 60);
            clock.charge_call(|| CallKind::Kernel);
            clock.charge_call(|| CallKind::Vdso);
            assert_eq!(clock.now().as_nanos(), if calls.is_some() { 2_060 } else { 60 });
        }
    }

    #[test]
    fn what_is_shown_follows_every_change_of_the_clocks() {
        let mut clock = Clock::new(1_000, CpuModel::default());
        let mut agree = |change: fn(&mut Clock)| {
            change(&mut clock);
            assert_eq!(clock.shown(), (clock.realtime_ns(), clock.monotonic_ns()));
        };
        agree(|_| ());
        agree(|clock| clock.advance(SimTime::from_secs(3)));
        agree(|clock| clock.step(-5_000_000_000));
        agree(|clock| clock.set_drift(1_000));
        agree(|clock| clock.boot());
        agree(|clock| (0..=FREE_CALLS).for_each(|_| clock.charge()));
    }

    #[test]
    fn calls_that_are_free_are_counted_together_as_one_by_one() {
        let mut clock = Clock::new(1_000, CpuModel::default());
        clock.charge();
        assert_eq!(clock.free_calls(), FREE_CALLS - 1);
        clock.charge_free(FREE_CALLS - 1);
        assert_eq!((clock.free_calls(), clock.now()), (0, SimTime::ZERO));
        clock.charge();
        assert_eq!(clock.now().as_nanos(), 1_000);
        clock.advance(SimTime::from_secs(1));
        assert_eq!(clock.free_calls(), FREE_CALLS);
        let calls = CallLatency { syscall: PENALTY, vdso: PENALTY, max_unapplied: PENALTY };
        let modelled = Clock::new(1_000, CpuModel { calls: Some(calls), ..CpuModel::default() });
        assert_eq!(modelled.free_calls(), 0, "each one moves the clock");
    }

    #[test]
    fn a_clock_that_drifts_counts_and_waits_at_its_own_rate() {
        let mut clock = Clock::new(1_000, CpuModel::default());
        clock.set_drift(100_000_000);
        clock.advance(SimTime::from_secs(10));
        let second = 1_000_000_000;
        assert_eq!(clock.realtime_ns(), 1_011 * second);
        assert_eq!(clock.monotonic_ns(), 3_611 * second);
        // The clock runs 10 % fast: eleven of its seconds are ten simulated ones.
        assert_eq!(clock.after(SimDuration::from_secs(11)), SimTime::from_secs(20));
        assert_eq!(clock.at_realtime(1_022 * second), SimTime::from_secs(20));
        assert_eq!(clock.at_monotonic(3_622 * second), SimTime::from_secs(20));
        // From here on the rate is exact, but the accumulated offset remains.
        clock.set_drift(0);
        clock.advance(SimTime::from_secs(20));
        assert_eq!(clock.realtime_ns(), 1_021 * second);
        clock.set_drift(-100_000_000);
        clock.advance(SimTime::from_secs(30));
        assert_eq!(clock.realtime_ns(), 1_030 * second);
    }

    #[test]
    fn a_step_moves_the_wall_clock_only_and_a_boot_the_other_one() {
        let mut clock = Clock::new(1_000, CpuModel::default());
        clock.advance(SimTime::from_secs(10));
        clock.step(-5_000_000_000);
        assert_eq!((clock.realtime_ns(), clock.monotonic_ns()), (1_005_000_000_000, 3_610_000_000_000));
        assert_eq!(clock.at_realtime(1_006_000_000_000), SimTime::from_secs(11));
        clock.boot();
        assert_eq!((clock.realtime_ns(), clock.monotonic_ns()), (1_005_000_000_000, 3_600_000_000_000));
        assert_eq!(clock.at_monotonic(3_601_000_000_000), SimTime::from_secs(11));
    }
}
