use crate::Statistics;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// Summary shown to the user at the end of a run.
pub struct Summary<'a> {
    /// Statistics of the run.
    pub statistics: &'a Statistics,
    /// Real duration of the run.
    pub real_time: Duration,
    /// Path of the results folder.
    pub results: &'a Path,
    /// Reason of an early end.
    pub interrupted: Option<&'a str>,
    /// True for an emulation on the real kernel: simulated and real time are the same, and system calls are
    /// not counted.
    pub emulated: bool,
}

/// Number of processes up to which all are listed; beyond it, only those with an unexpected end.
const LIST_ALL: usize = 20;
/// Number of warnings listed; further ones are only counted. The statistics contain all of them.
const LIST_WARNINGS: usize = 12;

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.statistics;
        self.processes(f)?;
        self.models(f)?;
        let (packets, bytes) =
            stats.hosts.values().fold((0, 0), |(p, b), h| (p + h.packets_out, b + h.bytes_out));
        let dropped: u64 = stats.hosts.values().flat_map(|h| h.drops.values()).sum();
        let calls: u64 = stats.syscalls.values().sum();
        let (simulated, real) = (stats.simulated_seconds, self.real_time.as_secs_f64());
        let hosts =
            format!("{} {}", stats.hosts.len(), if stats.hosts.len() == 1 { "host" } else { "hosts" });
        let sent = bytes_text(bytes);
        match self.emulated {
            true => writeln!(
                f,
                "{hosts} | {simulated:.3} s emulated, {real:.2} s with start and end | {packets} packets, {sent} sent, \
                 {dropped} dropped"
            )?,
            false => writeln!(
                f,
                "{hosts} | {simulated:.3} s simulated in {real:.2} s ({:.1}x) | {calls} system calls | \
                 {packets} packets, {sent} sent, {dropped} dropped",
                simulated / real.max(1e-9),
            )?,
        }
        for (name, gateway) in &stats.gateways {
            write!(
                f,
                "gateway {name} ({}): {} frames in, {} out, {} dropped",
                gateway.interface, gateway.frames_in, gateway.frames_out, gateway.dropped
            )?;
            match &gateway.late {
                Some(late) => writeln!(
                    f,
                    "; late by {:.3} ms in the median, 99 % within {:.3} ms, at most {:.3} ms",
                    late.median * 1e3,
                    late.p99 * 1e3,
                    late.max * 1e3
                )?,
                None => writeln!(f)?,
            }
        }
        self.shortfalls(f)?;
        if let Some(why) = self.interrupted {
            writeln!(f, "stopped early: {why}")?;
        }
        write!(f, "results: {}", self.results.display())
    }
}

impl Summary<'_> {
    fn processes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self
            .statistics
            .hosts
            .iter()
            .flat_map(|(host, h)| h.processes.iter().map(move |p| (host, p)))
            .collect();
        let bad = all.iter().filter(|(_, p)| !p.as_expected).count();
        let list_all = all.len() <= LIST_ALL;
        for (host, p) in all.iter().filter(|(_, p)| list_all || !p.as_expected) {
            let name = p.pid.map_or(p.program.clone(), |pid| format!("{}.{pid}", p.program));
            let when = p.ended.map_or(String::new(), |at| format!("at {at:.6} s"));
            let mark = if p.as_expected { "ok  " } else { "FAIL" };
            write!(f, "{mark} {host:<16} {name:<28} {:<18} {when}", p.state)?;
            match &p.problem {
                Some(problem) => writeln!(f, "  {problem}")?,
                None => writeln!(f)?,
            }
        }
        if all.is_empty() && !self.statistics.models.is_empty() {
            return Ok(());
        }
        if bad > 0 {
            writeln!(f, "{bad} of {} processes did not end as expected", all.len())
        } else {
            writeln!(f, "all {} processes ended as expected", all.len())
        }
    }

    fn models(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models = &self.statistics.models;
        let width = models.keys().map(|name| name.chars().count()).max().unwrap_or(0).max(8);
        if !models.is_empty() {
            writeln!(
                f,
                "{:<width$} {:>7} {:>8} {:>8} {:>6} {:>10} {:>10} {:>11} {:>11}",
                "models", "count", "flows", "failed", "cut", "sent", "received", "median", "99 %"
            )?;
        }
        for (name, m) in models {
            let failed: u64 = m.failed.values().sum();
            let time = |pick: fn(&crate::Quantiles) -> f64| {
                m.completion.as_ref().map_or("-".to_owned(), |times| format!("{:.6} s", pick(times)))
            };
            writeln!(
                f,
                "{name:<width$} {:>7} {:>8} {failed:>8} {:>6} {:>10} {:>10} {:>11} {:>11}",
                m.models,
                m.done + m.cut + failed,
                m.cut,
                bytes_text(m.bytes_out),
                bytes_text(m.bytes_in),
                time(|times| times.median),
                time(|times| times.p99),
            )?;
        }
        let problems = models.values().flat_map(|m| &m.problems);
        for problem in problems.take(LIST_WARNINGS) {
            writeln!(f, "FAIL {problem}")?;
        }
        Ok(())
    }

    fn shortfalls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let warnings = &self.statistics.warnings;
        for (what, count) in warnings.iter().take(LIST_WARNINGS) {
            writeln!(f, "warning: {what} ({count}x)")?;
        }
        if warnings.len() > LIST_WARNINGS {
            writeln!(f, "warning: {} more kinds in sim-stats.json", warnings.len() - LIST_WARNINGS)?;
        }
        for (program, count) in &self.statistics.preempted {
            writeln!(
                f,
                "warning: {program} computed for long without a system call and was preempted {count}x: \
                 this run is not deterministic from there on"
            )?;
        }
        Ok(())
    }
}

pub(crate) fn bytes_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}
