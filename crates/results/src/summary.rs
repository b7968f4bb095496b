use crate::packets::UNBALANCED;
use crate::{Dropped, Statistics};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
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
/// Number of locations and reasons of dropped packets listed.
const LIST_DROPS: usize = 4;
/// Number of failed processes of which the last lines of standard error are shown, the number of these lines,
/// and the number of bytes read for them.
const SHOW_STDERR: usize = 5;
const STDERR_LINES: usize = 3;
const STDERR_BYTES: u64 = 2_000;
/// Longest line of standard error shown, in characters.
const STDERR_WIDTH: usize = 200;
/// Number of warnings listed; further ones are only counted. The statistics contain all of them.
const LIST_WARNINGS: usize = 12;

/// Beginning of warnings about forced choices that a run did not make.
pub const UNFORCED: &str = "choices: ";
/// Parts of warnings that question the results: see `native_reads` of `belljar-objects` for the second one.
const DOUBTS: [&str; 3] = [UNBALANCED, "not deterministic", UNFORCED];

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stats = self.statistics;
        self.processes(f)?;
        self.properties(f)?;
        self.coverage(f)?;
        self.models(f)?;
        let (packets, bytes) =
            stats.hosts.values().fold((0, 0), |(p, b), h| (p + h.packets_out, b + h.bytes_out));
        let dropped = stats.dropped();
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
        self.drops(f)?;
        if let Some(note) = stats.unreached_note() {
            writeln!(f, "note: {note}")?;
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
    /// Locations at which most packets were dropped, with the reasons.
    fn drops(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.statistics.all_drops();
        if all.is_empty() {
            return Ok(());
        }
        let text = |drop: &Dropped<'_>| format!("{} {} at {}", drop.packets, drop.reason, drop.location);
        let listed: Vec<String> = all.iter().take(LIST_DROPS).map(text).collect();
        write!(f, "dropped: {}", listed.join(", "))?;
        match all.len().saturating_sub(LIST_DROPS) {
            0 => writeln!(f),
            _ => {
                let rest: u64 = all[LIST_DROPS..].iter().map(|drop| drop.packets).sum();
                writeln!(f, ", {rest} elsewhere (belljar inspect {} packets)", self.results.display())
            }
        }
    }

    fn processes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: Vec<_> = self
            .statistics
            .hosts
            .iter()
            .flat_map(|(host, h)| h.processes.iter().map(move |p| (host, p)))
            .collect();
        let bad = all.iter().filter(|(_, p)| !p.as_expected).count();
        let list_all = all.len() <= LIST_ALL;
        let mut failed = 0;
        for (host, p) in all.iter().filter(|(_, p)| list_all || !p.as_expected) {
            let name = p.pid.map_or(p.program.clone(), |pid| format!("{}.{pid}", p.program));
            let when = p.ended.map_or(String::new(), |at| format!("at {at:.6} s"));
            let mark = if p.as_expected { "ok  " } else { "FAIL" };
            write!(f, "{mark} {host:<16} {name:<28} {:<18} {when}", p.state)?;
            match &p.problem {
                Some(problem) => writeln!(f, "  {problem}")?,
                None => writeln!(f)?,
            }
            if !p.as_expected && failed < SHOW_STDERR {
                let file = self.results.join("hosts").join(host).join(format!("{name}.stderr"));
                let lines = last_lines(&file);
                failed += usize::from(!lines.is_empty());
                lines.iter().try_for_each(|line| writeln!(f, "     | {line}"))?;
            }
        }
        if all.is_empty() && !self.statistics.models.is_empty() {
            return Ok(());
        }
        if bad > 0 {
            writeln!(f, "{bad} of {} processes did not end as expected", all.len())
        } else {
            match all.iter().filter(|(_, p)| p.pid.is_none()).count() {
                0 => writeln!(f, "all {} processes ended as expected", all.len()),
                idle => {
                    writeln!(f, "all {} processes ended as expected, {idle} of them never started", all.len())
                }
            }
        }
    }

    /// A line for each property, or for those that do not hold if there are many, and their number.
    fn properties(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.statistics.properties;
        let list_all = all.len() <= LIST_ALL;
        for property in all.iter().filter(|property| list_all || !property.holds) {
            let name = format!("{} {}", property.kind, property.name);
            let Some(reason) = &property.reason else {
                writeln!(f, "ok   property {name}")?;
                continue;
            };
            write!(f, "FAIL property {name}: {reason}")?;
            if let Some(location) = property.location() {
                write!(f, "; {location}")?;
            }
            match &property.text {
                Some(text) => writeln!(f, ": {}", plain_text(text))?,
                None => writeln!(f)?,
            }
        }
        match (all.iter().filter(|property| !property.holds).count(), all.len()) {
            (_, 0) => Ok(()),
            (0, 1) => writeln!(f, "the property holds"),
            (0, count) => writeln!(f, "all {count} properties hold"),
            (failed, count) => writeln!(f, "{failed} of {count} properties do not hold"),
        }
    }

    /// A line for the edges of instrumented code.
    fn coverage(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = &self.statistics.coverage;
        let (edges, reached) =
            all.iter().fold((0, 0), |(edges, reached), one| (edges + one.edges, reached + one.reached));
        match all.len() {
            0 => Ok(()),
            1 => writeln!(f, "coverage: {reached} of {edges} edges reached"),
            modules => writeln!(f, "coverage: {reached} of {edges} edges reached, in {modules} modules"),
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
        for (name, m) in models.iter().filter(|(_, m)| !m.failed.is_empty()) {
            let failed: u64 = m.failed.values().sum();
            let reasons: Vec<String> =
                m.failed.iter().map(|(why, count)| format!("{why} {count}x")).collect();
            let all = m.done + m.cut + failed;
            writeln!(f, "warning: {failed} of {all} flows of model '{name}' failed: {}", reasons.join(", "))?;
        }
        let problems = models.values().flat_map(|m| &m.problems);
        for problem in problems.take(LIST_WARNINGS) {
            writeln!(f, "FAIL {problem}")?;
        }
        Ok(())
    }

    fn shortfalls(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attended = &self.statistics.attended;
        if let [first, rest @ ..] = &attended[..] {
            let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
            writeln!(
                f,
                "attended: '{}' on {}{more}, by hand: this run cannot be reproduced",
                plain_text(&first.command),
                first.host
            )?;
        }
        let warnings = &self.statistics.warnings;
        // Those that question the results come first.
        let (doubts, others): (Vec<_>, Vec<_>) =
            warnings.iter().partition(|(what, _)| DOUBTS.iter().any(|doubt| what.contains(doubt)));
        for (what, count) in doubts.into_iter().chain(others).take(LIST_WARNINGS) {
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

/// Last lines of a regular file of text, shortened and without terminal sequences; empty if it cannot be read.
fn last_lines(path: &Path) -> Vec<String> {
    // A program may have left something else there, which blocks its reader.
    if !fs::symlink_metadata(path).is_ok_and(|found| found.is_file()) {
        return Vec::new();
    }
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(STDERR_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(STDERR_BYTES).read_to_end(&mut bytes)?;
        io::Result::Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let clean = |line: &&str| plain_text(line).chars().take(STDERR_WIDTH).collect();
    lines[lines.len().saturating_sub(STDERR_LINES)..].iter().map(clean).collect()
}

/// A line without control characters, sequences of terminals (ECMA-48) and marks of text direction.
pub(crate) fn plain_text(line: &str) -> String {
    let mut plain = String::new();
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' if characters.next_if_eq(&'[').is_some() => {
                let _ = characters.by_ref().find(|last| ('@'..='~').contains(last));
            }
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            '\t' => plain.push(' '),
            other if other.is_control() => {}
            other => plain.push(other),
        }
    }
    plain
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_lines_are_plain_and_of_regular_files() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("stderr");
        std::fs::write(&file, "one\n\ntwo\tx\n\u{1b}[31mred\u{1b}[0m\r\n\u{202e}four\u{7}\n").unwrap();
        assert_eq!(last_lines(&file), ["two x", "red", "four"]);
        std::fs::write(&file, "x".repeat(10_000)).unwrap();
        assert_eq!(last_lines(&file), ["x".repeat(STDERR_WIDTH)]);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(last_lines(&link), [""; 0]);
        assert_eq!(last_lines(&folder.path().join("missing")), [""; 0]);
    }
}
