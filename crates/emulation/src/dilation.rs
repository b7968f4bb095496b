//! Dilated time: what the hosts of an emulation are given so that their clocks go slower than the machine's.
//!
//! Every process of a host runs below the shim of `belljar_shim::dilate`, which finds the host's clock in a file that this
//! process writes: in memory, in a folder that the host sees. All else that shows time in a file is written here as well.

use crate::clock::{ExperimentClock, boot_ns, monotonic_ns};
use crate::error::{Doing, Result};
use belljar_platform::dilate::clock::Page;
use belljar_platform::dilate::{PROGRAM, places, vdso};
use nix::mount::{MsFlags, mount};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Steps of the time stamp counter in a nanosecond, times 2^32: guests measure it by the clock, so any will do.
const COUNTER_RATE: u64 = 2 << 32;
/// International atomic time less UTC since 2017.
const TAI_NS: u64 = 37_000_000_000;
/// Virtual time between two writings of `/proc/uptime`, whose unit it is, and of `/proc/stat`.
const UPTIME_NS: u64 = 10_000_000;
const STATUS_EVERY: u64 = 10;
/// The shortest sleep between them, and the longest.
const NAPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// The files in `/proc` that are written here.
pub const IN_PROC: [&str; 2] = ["uptime", "stat"];
/// The folder of what is no host. It and the files of [`IN_PROC`] begin with a dot, as no host's name does.
const NETWORK: &str = ".network";

/// Everything that dilated hosts are given.
pub struct Dilation {
    folder: PathBuf,
    /// The clock.
    pub clock: ExperimentClock,
    boot: u64,
    /// `CLOCK_MONOTONIC` when it began to differ.
    began: u64,
    /// What the machine had counted in the beginning.
    idle: u64,
    status: String,
}

impl Dilation {
    /// Makes the folder in `scratch`, with a clock for each of these hosts, that goes `tdf_milli` thousandths as slowly as the machine's.
    pub fn prepare(scratch: &Path, hosts: &[&str], tdf_milli: u64) -> Result<Dilation> {
        let folder = scratch.join(".clocks");
        let failed = || format!("making '{}'", folder.display());
        fs::create_dir_all(&folder).doing(failed())?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), &folder, Some("tmpfs"), flags, Some("mode=0755")).doing(failed())?;
        let clock = ExperimentClock::new(Some(tdf_milli));
        let boot = boot_ns().saturating_sub(monotonic_ns());
        let (idle, status) = (idle_ticks(), fs::read_to_string("/proc/stat").unwrap_or_default());
        let dilation = Dilation { folder, began: clock.pace().real, clock, boot, idle, status };
        for host in hosts.iter().copied().chain([NETWORK]) {
            let own = dilation.of_host(host);
            let failed = || format!("making the clock of '{host}'");
            fs::create_dir_all(&own).doing(failed())?;
            let program = own.join(places::PROGRAM);
            fs::write(&program, PROGRAM).doing(failed())?;
            fs::set_permissions(&program, Permissions::from_mode(0o755)).doing(failed())?;
            // A P4 switch takes packets from a ring and not their times.
            let mut file = dilation.page(u64::from(host != NETWORK)).to_bytes().to_vec();
            file.resize(places::PAGE as usize, 0);
            file.extend(vdso());
            fs::write(own.join(places::CLOCK_FILE), file).doing(failed())?;
        }
        for name in IN_PROC {
            let text = fs::read(Path::new("/proc").join(name)).unwrap_or_default();
            fs::write(dilation.folder.join(format!(".{name}")), text).doing(format!("writing '{name}'"))?;
        }
        Ok(dilation)
    }

    /// The folder of a host.
    pub fn of_host(&self, host: &str) -> PathBuf {
        self.folder.join(host)
    }

    /// The shim for what is no host and has the network's clock.
    pub fn program(&self) -> PathBuf {
        self.of_host(NETWORK).join(places::PROGRAM)
    }

    fn page(&self, rings: u64) -> Page {
        let pace = self.clock.pace();
        Page {
            sequence: 2,
            pace,
            past: pace,
            wall: self.clock.wall(),
            boot: self.boot,
            tai: TAI_NS,
            counter_rate: COUNTER_RATE,
            nap: 0,
            rings,
        }
    }

    /// Writes `/proc/uptime` and `/proc/stat` of all hosts until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) {
        let open = |name: &str| File::options().write(true).open(self.folder.join(format!(".{name}")));
        let (Ok(uptime), Ok(stat)) = (open("uptime"), open("stat")) else { return };
        let mut count = 0u64;
        while !stop.load(Relaxed) {
            let now = self.clock.pace().at(monotonic_ns());
            let seconds = (now + self.boot) as f64 / 1e9;
            let idle = slowed(self.idle, idle_ticks(), self.share(now));
            let text = format!("{seconds:.2} {:.2}\n", idle as f64 / 100.0);
            // Whoever reads it meanwhile sees the old digits or the new ones: they are as many.
            let _ = uptime.write_all_at(text.as_bytes(), 0);
            if count.is_multiple_of(STATUS_EVERY)
                && let Ok(text) = fs::read_to_string("/proc/stat")
            {
                let text = status(&self.status, &text, self.share(now));
                let _ = stat.write_all_at(text.as_bytes(), 0).and_then(|()| stat.set_len(text.len() as u64));
            }
            count += 1;
            let nap = Duration::from_nanos(self.clock.pace().real_span(UPTIME_NS));
            std::thread::sleep(nap.clamp(NAPS[0], NAPS[1]));
        }
    }

    /// The share of real time that passed for the hosts.
    fn share(&self, now: u64) -> f64 {
        let real = monotonic_ns().saturating_sub(self.began).max(1);
        (now.saturating_sub(self.began) as f64 / real as f64).min(1.0)
    }
}

/// `/proc/stat` with the ticks of processors slowed: since the beginning a share of what was counted has passed.
fn status(first: &str, now: &str, share: f64) -> String {
    let mut text = String::new();
    for (line, before) in now.lines().zip(first.lines().chain(std::iter::repeat(""))) {
        let mut words = before.split(' ');
        let is_same = line.starts_with("cpu") && line.split(' ').next() == words.next();
        if !is_same {
            text += line;
        } else {
            let slower =
                |word: &str| match (word.parse::<u64>(), words.next().and_then(|w| w.parse::<u64>().ok())) {
                    (Ok(now), Some(before)) => slowed(before, now, share).to_string(),
                    _ => word.to_owned(),
                };
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            text += name;
            for word in rest.split(' ').map(slower).collect::<Vec<_>>() {
                text += &format!(" {word}");
            }
        }
        text.push('\n');
    }
    text
}

/// Hundredths of a second that all processors were idle.
fn idle_ticks() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let idle = text.split_whitespace().nth(1).and_then(|seconds| seconds.parse::<f64>().ok());
    (idle.unwrap_or(0.0) * 100.0) as u64
}

/// A count that grows slower since a beginning.
fn slowed(first: u64, now: u64, share: f64) -> u64 {
    first + (now.saturating_sub(first) as f64 * share) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_count_slower_and_the_rest_stays() {
        let first = "cpu  100 0 50\ncpu0 100 0 50\nctxt 7\n";
        let now = "cpu  300 0 150\ncpu0 200 0 50\nctxt 9\nbtime 3\n";
        assert_eq!(status(first, now, 0.1), "cpu  120 0 60\ncpu0 110 0 50\nctxt 9\nbtime 3\n");
    }
}
