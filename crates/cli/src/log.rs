//! Log on standard output in Shadow's format, for tools that parse it: `<real time> [<tid>:<thread>]
//! <simulated time> [<LEVEL>] [<host:ip>] [<file:line>] [<function>] <message>`.

use crate::progress::now;
use belljar_base::{Map, SimTime};
use belljar_config::{Experiment, LogLevel};
use belljar_results::Statistics;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Log of a run.
pub struct Log {
    wanted: bool,
    level: LogLevel,
    /// Levels of hosts with a log level of their own, by name.
    levels: Map<String, LogLevel>,
    start: Instant,
    heartbeat_ps: Option<u64>,
    next_heartbeat_ps: AtomicU64,
}

impl Log {
    /// Creates a log. It stays empty unless `wanted`.
    pub fn new(wanted: bool, experiment: &Experiment) -> Log {
        let heartbeat = experiment.general.heartbeat_interval.map(|interval| interval.as_picos().max(1));
        Log {
            wanted,
            level: experiment.general.log_level,
            levels: (experiment.hosts.iter())
                .filter_map(|host| Some((host.name.clone(), host.options.log_level?)))
                .collect(),
            start: now(),
            heartbeat_ps: heartbeat,
            next_heartbeat_ps: AtomicU64::new(heartbeat.unwrap_or(u64::MAX)),
        }
    }

    /// Writes a message. `host` has the form `name:address`.
    pub fn line(&self, level: LogLevel, at: Option<SimTime>, host: Option<&str>, from: &str, message: &str) {
        let own = host.and_then(|host| self.levels.get(host.split(':').next()?));
        if !self.wanted || level > *own.unwrap_or(&self.level) {
            return;
        }
        let real = self.start.elapsed();
        let (s, us) = (real.as_secs(), real.subsec_micros());
        let name = match level {
            LogLevel::Error => "ERROR",
            LogLevel::Warning => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DEBUG",
            LogLevel::Trace => "TRACE",
        };
        let simulated = at.map_or("n/a".to_owned(), |at| {
            let s = at.as_nanos() / 1_000_000_000;
            format!("{:02}:{:02}:{:02}.{:09}", s / 3600, s / 60 % 60, s % 60, at.as_nanos() % 1_000_000_000)
        });
        let thread = std::thread::current();
        // The reader may have closed the pipe; the run continues.
        let _ = writeln!(
            std::io::stdout().lock(),
            "{:02}:{:02}:{:02}.{us:06} [{}:{}] {simulated} [{name}] [{}] [belljar:0] [{from}] {message}",
            s / 3600,
            s / 60 % 60,
            s % 60,
            nix::unistd::gettid(),
            thread.name().unwrap_or("belljar"),
            host.unwrap_or("n/a"),
        );
    }

    /// Logs the simulator's resource usage, at most once per heartbeat interval of simulated time.
    pub fn heartbeat(&self, committed: SimTime) {
        let Some(interval) = self.heartbeat_ps.filter(|_| self.wanted) else { return };
        let (reached, due) = (committed.as_picos(), self.next_heartbeat_ps.load(Relaxed));
        if reached < due {
            return;
        }
        let last = reached / interval * interval;
        // The thread that advances the next heartbeat writes this one.
        if self
            .next_heartbeat_ps
            .compare_exchange(due, last.saturating_add(interval), Relaxed, Relaxed)
            .is_err()
        {
            return;
        }
        let at = SimTime::from_picos(last);
        let ns = at.as_nanos();
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let minutes = |time: nix::sys::time::TimeVal| time.num_milliseconds() as f64 / 60_000.0;
            let message = format!(
                "Process resource usage at simtime {ns} reported by getrusage(): ru_maxrss={:.3} GiB, \
                 ru_utime={:.3} minutes, ru_stime={:.3} minutes, ru_nvcsw={}, ru_nivcsw={}",
                usage.max_rss() as f64 / 1_048_576.0,
                minutes(usage.user_time()),
                minutes(usage.system_time()),
                usage.voluntary_context_switches(),
                usage.involuntary_context_switches(),
            );
            self.line(LogLevel::Info, Some(at), None, "heartbeat", &message);
        }
        if let Ok(memory) = std::fs::read_to_string("/proc/meminfo") {
            let message = format!(
                "System memory usage in bytes at simtime {ns} ns reported by /proc/meminfo: {}",
                meminfo(&memory)
            );
            self.line(LogLevel::Info, Some(at), None, "heartbeat", &message);
        }
    }

    /// Logs the end of each process.
    pub fn finished(&self, statistics: &Statistics) {
        let end = SimTime::from_nanos((statistics.simulated_seconds * 1e9) as u64);
        for (name, host) in &statistics.hosts {
            let host_name = format!("{name}:{}", host.address);
            for p in &host.processes {
                let at = p.ended.map_or(end, |s| SimTime::from_nanos((s * 1e9).round() as u64));
                let pid = p.pid.map_or(String::new(), |pid| format!(".{pid}"));
                let (level, problem) = match &p.problem {
                    Some(problem) if !p.as_expected => (LogLevel::Error, format!("; {problem}")),
                    _ => (LogLevel::Info, String::new()),
                };
                let message = format!("process '{}{pid}' {}{problem}", p.program, p.state);
                self.line(level, Some(at), Some(&host_name), "process", &message);
            }
        }
        for property in &statistics.properties {
            let (name, kind) = (&property.name, &property.kind);
            let (level, verdict) = match &property.reason {
                Some(reason) => (LogLevel::Error, format!("does not hold: {reason}")),
                None => (LogLevel::Info, "holds".to_owned()),
            };
            let message = format!("property '{name}' ({kind}) {verdict}");
            self.line(level, Some(end), None, "property", &message);
        }
        for (what, count) in &statistics.warnings {
            self.line(LogLevel::Warning, Some(end), None, "summary", &format!("{what} ({count}x)"));
        }
        let processes = statistics.hosts.values().flat_map(|host| &host.processes);
        let unexpected = processes.filter(|process| !process.as_expected).count();
        if unexpected > 0 {
            // Tools for Shadow detect a failed simulation by these words.
            let message = format!("{unexpected} managed processes in unexpected final state");
            self.line(LogLevel::Error, Some(end), None, "summary", &message);
        }
    }
}

/// Extracts the main numbers of /proc/meminfo, in bytes, as a JSON object.
fn meminfo(text: &str) -> String {
    let keys = ["MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "SwapTotal", "SwapFree"];
    let entries = text.lines().filter_map(|line| {
        let (key, value) = line.split_once(':')?;
        let kib: u64 = value.trim().strip_suffix(" kB")?.parse().ok()?;
        keys.contains(&key).then(|| format!("\"{}\":{}", snake(key), kib * 1_024))
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
}

fn snake(key: &str) -> String {
    let mut name = String::new();
    for c in key.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_told_in_bytes() {
        let text = "MemTotal:       16 kB\nMemAvailable:    2 kB\nHugePages_Total:       0\n";
        assert_eq!(meminfo(text), r#"{"mem_total":16384,"mem_available":2048}"#);
    }
}
