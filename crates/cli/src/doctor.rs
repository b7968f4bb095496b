//! `belljar doctor`.

use crate::failure::Failure;
use belljar_emulation::probe::Facilities;
use nix::sys::resource::{Resource, getrlimit};
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, ExitCode, Stdio};

/// Says what this machine offers to Belljar: one line each, `ok`, `limited` or `missing`, with what to
/// do about it. The exit status is 0 if experiments can run.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  belljar doctor")]
pub struct Arguments {}

/// Memory mappings that a guest needs, by kind of guest (measured).
const SMALL_DYNAMIC_GUEST: u64 = 30;
const PYTHON_GUEST: u64 = 120;
/// Memory mappings of the simulator itself.
const OWN_MAPPINGS: u64 = 530;
/// Linux's default of `vm.max_map_count`.
const USUAL_MAPPINGS: u64 = 65_530;
/// Limit on open files that suffices for the largest simulation of one process.
const ENOUGH_FILES: u64 = 65_536;

/// Number of far guests that a typical large run needs.
const ENOUGH_PROCESSES: u64 = 4_096;
/// Linux's default of `kernel.pid_max`.
const USUAL_PIDS: u64 = 32_768;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ok,
    Limited,
    Missing,
}

/// Line of the report.
#[derive(Debug)]
struct Finding {
    state: State,
    what: &'static str,
    found: String,
    remedy: Option<String>,
}

impl Finding {
    fn ok(what: &'static str, found: impl Into<String>) -> Finding {
        Finding { state: State::Ok, what, found: found.into(), remedy: None }
    }
    fn new(state: State, what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { state, what, found: found.into(), remedy: Some(remedy.into()) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        };
        write!(f, "{state:<8} {:<22} {}", self.what, self.found)?;
        match &self.remedy {
            Some(remedy) => write!(f, "\n{:31} {remedy}", ""),
            None => Ok(()),
        }
    }
}

/// Checks all requirements and prints the report.
pub fn main(_: &Arguments) -> Result<ExitCode, Failure> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let flags = cpu_flags(&read("/proc/cpuinfo"));
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    let guests = belljar_platform::init();
    let number = |path: &str| read(path).trim().parse::<u64>().ok();
    let findings = [
        match &guests {
            Ok(()) => Finding::ok("running guests", "programs run on simulated hosts"),
            Err(error) => Finding::new(
                State::Missing,
                "running guests",
                error.to_string(),
                "Belljar needs Linux 5.11 or later on x86-64; the lines below say what else may be the matter",
            ),
        },
        kernel(read("/proc/sys/kernel/osrelease").trim()),
        cpu_feature(has("fsgsbase"), "FSGSBASE", "threads switch without a call of Linux", State::Missing),
        cpu_feature(
            has("xsavec"),
            "XSAVEC",
            "vector registers are saved as far as they are used",
            State::Limited,
        ),
        cpu_feature(has("avx"), "AVX", "guests see one set of vector registers", State::Missing),
        cpuid_faulting(belljar_platform::cpuid_can_fault()),
        counter_trapping(belljar_platform::counter_traps()),
        untrappable(["rdrand", "rdseed", "rdpid", "xgetbv1", "rdpru"].into_iter().any(has)),
        mappings(number("/proc/sys/vm/max_map_count").unwrap_or(USUAL_MAPPINGS)),
        match getrlimit(Resource::RLIMIT_NOFILE) {
            Ok((soft, hard)) => open_files(soft, hard),
            Err(error) => {
                Finding::new(State::Limited, "open files", error.to_string(), "ulimit -n tells more")
            }
        },
        match getrlimit(Resource::RLIMIT_NPROC) {
            Ok((soft, _)) => processes(soft, number("/proc/sys/kernel/pid_max").unwrap_or(USUAL_PIDS)),
            Err(error) => {
                Finding::new(State::Limited, "processes", error.to_string(), "ulimit -u tells more")
            }
        },
        memory(&read("/proc/meminfo")),
        cores(),
        machine_files(fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)),
        user_namespaces(),
        perf(read("/proc/sys/kernel/perf_event_paranoid").trim().parse().ok()),
    ];
    for finding in findings.iter().chain(&emulation()).chain([&ssh()]) {
        println!("{finding}");
    }
    Ok(if guests.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn cpu_flags(cpuinfo: &str) -> Vec<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let flags = line.and_then(|line| line.split_once(':')).map_or("", |(_, flags)| flags);
    flags.split_whitespace().map(str::to_owned).collect()
}

fn kernel(release: &str) -> Finding {
    let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse::<u32>().unwrap_or(0));
    let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let found = format!("Linux {release}");
    if version >= (5, 11) {
        Finding::ok("syscall user dispatch", found)
    } else {
        let remedy = "system calls of guests are caught by it: boot Linux 5.11 or later";
        Finding::new(State::Missing, "syscall user dispatch", found, remedy)
    }
}

fn cpu_feature(there: bool, what: &'static str, good: &str, without: State) -> Finding {
    match there {
        true => Finding::ok(what, good),
        false => Finding::new(
            without,
            what,
            "not offered by this CPU",
            "in a virtual machine, choose the CPU model of its host (qemu: -cpu host)",
        ),
    }
}

/// Checks CPUID faulting. Without it the instruction is replaced where it is certain.
fn cpuid_faulting(there: bool) -> Finding {
    const WHAT: &str = "CPUID faulting";
    match there {
        true => Finding::ok(WHAT, "all guests see one CPU model"),
        false => Finding::new(
            State::Limited,
            WHAT,
            "not on this CPU or not passed on to this virtual machine",
            "cpuid is replaced in programs and libraries; a run's summary names what is left, such as code made while a \
             program runs: with it, results may differ on another CPU model",
        ),
    }
}

/// Checks that `rdtsc` and `rdtscp` trap. Otherwise they are replaced where they are certain.
fn counter_trapping(there: bool) -> Finding {
    const WHAT: &str = "TSC trapping";
    match there {
        true => Finding::ok(WHAT, "rdtsc and rdtscp give programs the host's clock"),
        false => Finding::new(
            State::Limited,
            WHAT,
            "this kernel refuses prctl(PR_SET_TSC)",
            "rdtsc is replaced in programs and libraries; a run's summary names what is left, which reads this \
             machine's clock: such a run is not deterministic",
        ),
    }
}

/// Reports the instructions that no CPU can make trap; `there` states that this one has any of them.
fn untrappable(there: bool) -> Finding {
    const WHAT: &str = "RDRAND, RDSEED, RDPID, XGETBV, RDPRU";
    match there {
        true => Finding::ok(
            WHAT,
            "no CPU makes them trap: replaced in programs and libraries, by the host's seeded random numbers, its one \
             processor and a fixed set of registers in use; a run's summary names what is left",
        ),
        false => Finding::ok(WHAT, "not on this CPU"),
    }
}

fn mappings(limit: u64) -> Finding {
    let room = limit.saturating_sub(OWN_MAPPINGS);
    let found = format!(
        "vm.max_map_count {limit}: about {} small or {} python programs near at a time; more run far",
        room / SMALL_DYNAMIC_GUEST,
        room / PYTHON_GUEST
    );
    if limit >= USUAL_MAPPINGS {
        Finding::ok("memory mappings", found)
    } else {
        Finding::new(State::Limited, "memory mappings", found, "as root: sysctl vm.max_map_count=1048576")
    }
}

fn open_files(soft: u64, hard: u64) -> Finding {
    let found = format!("RLIMIT_NOFILE {} of {}", limit(soft), limit(hard));
    if soft >= ENOUGH_FILES.min(hard) && soft >= 4_096 {
        Finding::ok("open files", found)
    } else if hard > soft {
        Finding::new(
            State::Limited,
            "open files",
            found,
            format!("for large runs: ulimit -n {}", limit(hard)),
        )
    } else {
        let remedy = "for large runs, raise nofile in /etc/security/limits.conf, or docker run --ulimit nofile=1048576";
        Finding::new(State::Limited, "open files", found, remedy)
    }
}

/// Checks the limits on processes: each far guest is a process, near guests are not.
fn processes(allowed: u64, pids: u64) -> Finding {
    let found = format!("RLIMIT_NPROC {}, pid_max {pids}: each far program takes one", limit(allowed));
    match allowed.min(pids) >= ENOUGH_PROCESSES {
        true => Finding::ok("processes", found),
        false => Finding::new(
            State::Limited,
            "processes",
            found,
            "for many far programs: ulimit -u unlimited; as root: sysctl kernel.pid_max=4194304",
        ),
    }
}

fn limit(value: u64) -> String {
    if value == u64::MAX { "unlimited".into() } else { value.to_string() }
}

fn memory(meminfo: &str) -> Finding {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib: u64 = line.and_then(|v| v.trim().strip_suffix(" kB")?.parse().ok()).unwrap_or(0);
    let found = format!("{:.1} GiB available", kib as f64 / 1_048_576.0);
    match kib {
        1_048_576.. => Finding::ok("memory", found),
        _ => Finding::new(State::Limited, "memory", found, "a python program takes 10 MiB, a JVM 40 MiB"),
    }
}

fn cores() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Finding::ok("CPUs", format!("{count} for this process")),
        Err(error) => Finding::new(State::Limited, "CPUs", error.to_string(), "one worker is used"),
    }
}

fn machine_files(is_root: bool) -> Finding {
    if is_root {
        return Finding::ok("the machine's files", "guests can read all of them");
    }
    Finding::new(
        State::Limited,
        "the machine's files",
        "guests can read those that you can: directories kept from you are empty for them",
        "where Debian's own configuration of a daemon is not for everybody, run as root, or let guests bring theirs; \
         a run's warnings name what it missed",
    )
}

/// Checks user namespaces by creating one, since many settings and container runtimes can forbid it.
fn user_namespaces() -> Finding {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--net", "true"]);
    let tried = unshare.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    match tried {
        Ok(status) if status.success() => {
            Finding::ok("user namespaces", "not needed by 'run'; tests against Linux's own network use them")
        }
        Ok(_) => Finding::new(
            State::Limited,
            "user namespaces",
            "forbidden here; 'run' does not need them",
            "as root: sysctl kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0, \
             or outside the container",
        ),
        Err(_) => Finding::new(
            State::Limited,
            "user namespaces",
            "cannot be tried: there is no unshare(1); 'run' does not need them",
            "install util-linux",
        ),
    }
}

/// Checks the requirements of `belljar emulate` by creating its namespaces in another process.
fn emulation() -> Vec<Finding> {
    const WHAT: &str = "emulation";
    let probe = std::env::current_exe()
        .and_then(|own| Command::new(own).arg("emulate-probe").stdin(Stdio::null()).output())
        .ok()
        .and_then(|output| serde_json::from_slice::<Facilities>(&output.stdout).ok());
    let Some(found) = probe else {
        return vec![Finding::new(State::Limited, WHAT, "could not be tried", "'emulate' may tell why")];
    };
    if let Some(why) = found.namespaces {
        return vec![Finding::new(State::Missing, WHAT, "'emulate' cannot run here; 'run' can", why)];
    }
    let missing = |what: &str, module: &str| {
        let remedy = format!("as root: modprobe {module}, or a kernel that has it");
        Finding::new(
            State::Missing,
            WHAT,
            format!("'emulate' needs {what}, which this kernel does not give"),
            remedy,
        )
    };
    let needed = [
        (found.veth, "pairs of interfaces (veth)", "veth"),
        (found.bridge, "bridges", "bridge"),
        (found.overlay, "overlays of files (overlayfs)", "overlay"),
    ];
    let mut findings: Vec<Finding> =
        needed.iter().filter(|(there, ..)| !there).map(|(_, what, module)| missing(what, module)).collect();
    if findings.is_empty() {
        let who = match (belljar_emulation::stage::is_privileged(), belljar_emulation::stage::has_users()) {
            (true, _) => "as root: hosts, switches and routers on this kernel",
            (false, true) => {
                "without root: hosts, switches and routers on this kernel, with users lent by newuidmap"
            }
            (false, false) => {
                "without root: hosts, switches and routers on this kernel; all processes run as one user \
                 (several: apt install uidmap, and a line of yours in /etc/subuid and /etc/subgid)"
            }
        };
        findings.push(Finding::ok(WHAT, who));
    }
    findings.push(match found.dilation {
        true => Finding::ok("dilated time", "'emulate --tdf' gives programs a slower clock"),
        false => Finding::new(
            State::Limited,
            "dilated time",
            "'emulate --tdf' cannot run here: the kernel has no seccomp filters, or forbids them",
            "a kernel with CONFIG_SECCOMP_FILTER; in a container: docker run --security-opt seccomp=unconfined",
        ),
    });
    if !found.forwarding {
        let remedy = "routers do not forward: /proc/sys is read-only here (docker run --privileged)";
        findings.push(Finding::new(State::Limited, WHAT, "settings of the kernel cannot be changed", remedy));
    }
    if !found.tbf {
        let remedy = "such links are not limited; a latency above 100 us lets Belljar's line limit them; as root: modprobe sch_tbf";
        findings.push(Finding::new(
            State::Limited,
            WHAT,
            "no token bucket filter for links with a rate alone",
            remedy,
        ));
    }
    findings
}

/// Checks for an SSH client, which `belljar deploy` uses.
fn ssh() -> Finding {
    let search = std::env::var_os("PATH").unwrap_or_default();
    match std::env::split_paths(&search).any(|place| place.join("ssh").is_file()) {
        true => Finding::ok("ssh", "'deploy' reaches machines"),
        false => Finding::new(
            State::Limited,
            "ssh",
            "'deploy' has no ssh to reach machines with",
            "install OpenSSH's client (Debian: openssh-client)",
        ),
    }
}

fn perf(paranoid: Option<i64>) -> Finding {
    match paranoid {
        Some(level) if level <= 2 => {
            Finding::ok("perf", format!("kernel.perf_event_paranoid {level}: the simulator can be profiled"))
        }
        Some(level) => Finding::new(
            State::Limited,
            "perf",
            format!("kernel.perf_event_paranoid {level}"),
            "needed for profiling the simulator only; as root: sysctl kernel.perf_event_paranoid=1",
        ),
        None => Finding::new(
            State::Limited,
            "perf",
            "not offered by this kernel",
            "needed for profiling the simulator only",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_limits_are_judged() {
        assert_eq!(kernel("5.10.0-28-amd64").state, State::Missing);
        assert_eq!(kernel("5.11").state, State::Ok);
        assert_eq!(kernel("6.1.0-rc1").state, State::Ok);
        assert_eq!(kernel("").state, State::Missing);
        assert_eq!(mappings(65_530).state, State::Ok);
        assert_eq!(mappings(1_000).state, State::Limited);
        assert_eq!(open_files(1_024, 1_048_576).state, State::Limited);
        assert!(open_files(1_024, 524_288).to_string().contains("ulimit -n 524288"));
        assert_eq!(open_files(1_048_576, 1_048_576).state, State::Ok);
        assert_eq!(processes(u64::MAX, 32_768).state, State::Ok);
        assert_eq!(processes(1_000, 32_768).state, State::Limited);
        assert_eq!(cpuid_faulting(true).state, State::Ok);
        assert_eq!(cpuid_faulting(false).state, State::Limited);
        assert_eq!(counter_trapping(true).state, State::Ok);
        assert!(counter_trapping(false).to_string().contains("not deterministic"));
        assert!(untrappable(true).to_string().contains("summary names"));
        assert_eq!(perf(None).state, State::Limited);
        assert_eq!(cpu_flags("processor : 0\nflags\t\t: fpu xsavec\n"), ["fpu", "xsavec"]);
    }
}
