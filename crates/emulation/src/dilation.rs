//! Dilated time: clocks of an emulation's hosts that run slower than the machine's.
//!
//! Every process of a host runs under the shim of `belljar_shim::dilate`, which reads the host's clock from
//! a file that this process writes, on a tmpfs that the host sees. This process also writes the files in
//! `/proc` that show time.

use crate::clock::{ExperimentClock, boot_ns, monotonic_ns};
use crate::error::{Doing, Result};
use crate::meter::numbers;
use belljar_platform::dilate::clock::{MARKED_INTERVAL, Pace, Page};
use belljar_platform::dilate::{PROGRAM, places, vdso};
use nix::mount::{MsFlags, mount};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use rustix::time::{TimerfdTimerFlags, timerfd_gettime, timerfd_settime};
use std::fs::{self, File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Ticks of the time stamp counter per nanosecond, times 2^32. Guests calibrate it against the clock, so
/// that any rate is valid.
const COUNTER_RATE: u64 = 2 << 32;
/// Difference of International Atomic Time and UTC since 2017.
const TAI_NS: u64 = 37_000_000_000;
/// Virtual time between two updates of `/proc/uptime`, equal to its resolution; and updates of it for each
/// one of `/proc/stat`.
const UPTIME_NS: u64 = 10_000_000;
const STATUS_EVERY: u64 = 10;
/// Longest real time for which a wait relies on the current factor, where the factor may change.
const LONGEST_WAIT_NS: u64 = 20_000_000;
/// Bounds of the sleep between updates.
const NAPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

/// Files of `/proc` that this process writes.
pub const IN_PROC: [&str; 2] = ["uptime", "stat"];
/// Folder of the network's clock. Its name, like those of the files of [`IN_PROC`], begins with a dot, as
/// no host name does.
const NETWORK: &str = ".network";

/// Settings for all clocks of a run.
#[derive(Clone, Copy, Debug)]
pub struct Dilated {
    /// Time dilation factor in thousandths.
    pub tdf_milli: u64,
    /// True if the factor may change.
    pub changes: bool,
    /// True if each clock is set separately.
    pub apart: bool,
    /// Method of freezing hosts: a value of [`Page::freezes`].
    pub freezes: u64,
}

/// Clock of a host, of a P4 switch, or of the rest of the network, and the page from which programs read
/// it.
pub struct Paged {
    /// The clock.
    pub clock: ExperimentClock,
    name: String,
    file: File,
    sequence: AtomicU64,
}

/// Clocks and files of the dilated hosts.
pub struct Dilation {
    folder: PathBuf,
    /// Clocks: of the hosts, of the switches that have one, and of the rest of the network.
    pub all: Vec<Paged>,
    settings: Dilated,
    boot: u64,
    /// `CLOCK_MONOTONIC` at the start of the dilation.
    began: u64,
    /// Idle time of the machine's processors, and `/proc/stat`, at the start of the dilation.
    idle: u64,
    status: String,
}

impl Dilation {
    /// Makes the folder in `scratch`, with a clock for each of these hosts and P4 switches, and one for the
    /// rest of the network.
    pub fn prepare(scratch: &Path, hosts: &[&str], switches: &[&str], settings: Dilated) -> Result<Dilation> {
        let folder = scratch.join(".clocks");
        let failed = || format!("making '{}'", folder.display());
        fs::create_dir_all(&folder).doing(failed())?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("tmpfs"), &folder, Some("tmpfs"), flags, Some("mode=0755")).doing(failed())?;
        let clock = ExperimentClock::new(Some(settings.tdf_milli));
        let boot = boot_ns().saturating_sub(monotonic_ns());
        let (idle, status) = (idle_ticks(), fs::read_to_string("/proc/stat").unwrap_or_default());
        let began = clock.pace().real;
        let mut dilation = Dilation { folder, all: Vec::new(), settings, began, boot, idle, status };
        let hosts = hosts.iter().map(|host| (*host).to_owned());
        let switches = switches.iter().map(|switch| of_switch(switch));
        for name in hosts.chain(switches).chain([NETWORK.to_owned()]) {
            let own = dilation.of_host(&name);
            let failed = || format!("making the clock of '{name}'");
            fs::create_dir_all(&own).doing(failed())?;
            let program = own.join(places::PROGRAM);
            fs::write(&program, PROGRAM).doing(failed())?;
            fs::set_permissions(&program, Permissions::from_mode(0o755)).doing(failed())?;
            let clock = if settings.apart { clock.fork() } else { clock.clone() };
            let page = dilation.page(&name, &clock, clock.pace(), clock.pace().rate);
            let mut content = page.to_bytes().to_vec();
            content.resize(places::PAGE as usize, 0);
            content.extend(vdso());
            let path = own.join(places::CLOCK_FILE);
            fs::write(&path, content).doing(failed())?;
            let file = File::options().write(true).open(path).doing(failed())?;
            dilation.all.push(Paged { clock, name, file, sequence: AtomicU64::new(page.sequence) });
        }
        for name in IN_PROC {
            let text = fs::read(Path::new("/proc").join(name)).unwrap_or_default();
            fs::write(dilation.folder.join(format!(".{name}")), text).doing(format!("writing '{name}'"))?;
        }
        Ok(dilation)
    }

    /// Folder of a host.
    pub fn of_host(&self, host: &str) -> PathBuf {
        self.folder.join(host)
    }

    /// Shim of a P4 switch, which uses the switch's clock.
    pub fn of_switch(&self, switch: &str) -> PathBuf {
        self.of_host(&of_switch(switch)).join(places::PROGRAM)
    }

    /// Shim of processes outside of hosts, which uses the network's clock.
    pub fn program(&self) -> PathBuf {
        self.of_host(NETWORK).join(places::PROGRAM)
    }

    /// Clock of the network.
    pub fn network(&self) -> &ExperimentClock {
        &self.all[self.all.len() - 1].clock
    }

    fn page(&self, name: &str, clock: &ExperimentClock, pace: Pace, mean_rate: u64) -> Page {
        // The clock still has its previous piece: `go_on` appends the new one later.
        let before = clock.pace();
        let (real, passed) = (before.real - self.began, before.start - self.began);
        let mean = if real == 0 { pace.rate } else { ((u128::from(passed) << 32) / u128::from(real)) as u64 };
        Page {
            sequence: 2,
            pace,
            before,
            past: Pace { real: self.began, start: self.began, rate: mean.max(1), limit: before.start },
            wall: clock.wall(),
            boot: self.boot,
            tai: TAI_NS,
            counter_rate: COUNTER_RATE,
            nap: if self.settings.changes { LONGEST_WAIT_NS } else { 0 },
            // A P4 switch reads packets from a ring, but not their time stamps.
            rings: u64::from(!name.starts_with('.')),
            mean_rate,
            freezes: self.settings.freezes,
        }
    }

    /// Continues a clock with a new piece. `mean_rate` is the rate for timers of the kernel.
    pub fn go_on(&self, number: usize, pace: Pace, mean_rate: u64) {
        let paged = &self.all[number];
        let page = self.page(&paged.name, &paged.clock, pace, mean_rate);
        paged.clock.go_on(pace);
        let sequence = paged.sequence.fetch_add(2, Relaxed) + 1;
        // The sequence number is odd during the update, and readers retry. The file is on a tmpfs: writing
        // does not fail.
        let words = page.to_bytes();
        let _ = paged.file.write_all_at(&sequence.to_le_bytes(), 0);
        let _ = paged.file.write_all_at(&words[8..], 8);
        let _ = paged.file.write_all_at(&(sequence + 1).to_le_bytes(), 0);
    }

    /// Writes `/proc/uptime` and `/proc/stat` of all hosts until `stop` is set.
    pub fn run(&self, stop: &AtomicBool) {
        let open = |name: &str| File::options().write(true).open(self.folder.join(format!(".{name}")));
        let (Ok(uptime), Ok(stat)) = (open("uptime"), open("stat")) else { return };
        let mut count = 0u64;
        while !stop.load(Relaxed) {
            let now = self.network().pace().at(monotonic_ns());
            let seconds = (now + self.boot) as f64 / 1e9;
            let idle = slowed(self.idle, idle_ticks(), self.share(now));
            let text = format!("{seconds:.2} {:.2}\n", idle as f64 / 100.0);
            // The text keeps its length, so that a concurrent reader sees old or new digits.
            let _ = uptime.write_all_at(text.as_bytes(), 0);
            if count.is_multiple_of(STATUS_EVERY)
                && let Ok(text) = fs::read_to_string("/proc/stat")
            {
                let text = status(&self.status, &text, self.share(now));
                let _ = stat.write_all_at(text.as_bytes(), 0).and_then(|()| stat.set_len(text.len() as u64));
            }
            count += 1;
            let nap = Duration::from_nanos(self.network().pace().real_span(UPTIME_NS));
            std::thread::sleep(nap.clamp(NAPS[0], NAPS[1]));
        }
    }

    /// Ratio of virtual to real time since the start of the dilation.
    fn share(&self, now: u64) -> f64 {
        let real = monotonic_ns().saturating_sub(self.began).max(1);
        (now.saturating_sub(self.began) as f64 / real as f64).min(1.0)
    }
}

/// Name of a P4 switch's folder, which no host has.
fn of_switch(switch: &str) -> String {
    format!(".p4.{switch}")
}

/// Multiplies the remaining time and the interval of the `timerfd` timers of programs by `by`: those that no process of the host
/// drives by the host's clock.
pub fn set_timers_anew(by: f64) {
    for process in numbers(Path::new("/proc")).filter(|id| *id != 1) {
        let mut own = None;
        let folder = PathBuf::from(format!("/proc/{process}/fd"));
        for descriptor in numbers(&folder) {
            let link = fs::read_link(folder.join(descriptor.to_string()));
            if !link.is_ok_and(|to| to.as_os_str() == "anon_inode:[timerfd]") {
                continue;
            }
            let handle =
                || Pid::from_raw(process as i32).and_then(|id| pidfd_open(id, PidfdFlags::empty()).ok());
            let Some(handle) = own.get_or_insert_with(handle) else { break };
            if let Ok(timer) = pidfd_getfd(handle, descriptor as i32, PidfdGetfdFlags::empty()) {
                set_timer_anew(timer, by);
            }
        }
    }
}

fn set_timer_anew(timer: impl AsFd, by: f64) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    // Setting a timer would discard expirations that have not been read.
    let mut fds = [PollFd::new(&timer, PollFlags::IN)];
    if poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) != Ok(0) {
        return;
    }
    let Ok(mut setting) = timerfd_gettime(&timer) else { return };
    let is_driven = setting.it_interval.tv_sec as u64 >= MARKED_INTERVAL / 1_000_000_000;
    if is_driven || (setting.it_value.tv_sec, setting.it_value.tv_nsec) == (0, 0) {
        return;
    }
    for time in [&mut setting.it_value, &mut setting.it_interval] {
        let ns = ((time.tv_sec as f64 * 1e9 + time.tv_nsec as f64) * by).round() as i64;
        (time.tv_sec, time.tv_nsec) = (ns / 1_000_000_000, ns % 1_000_000_000);
    }
    let _ = timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting);
}

/// Returns `/proc/stat` with slowed processor ticks: they grow since the start of the dilation by `share`
/// of their real growth.
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

/// Idle time of all processors in hundredths of a second.
fn idle_ticks() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let idle = text.split_whitespace().nth(1).and_then(|seconds| seconds.parse::<f64>().ok());
    (idle.unwrap_or(0.0) * 100.0) as u64
}

/// Scales the growth of a count since a first value.
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
