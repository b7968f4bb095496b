//! The steps of a deployment.

use crate::connection::{Connection, News, Offset, wall_ns};
use crate::outcome::{self, Deployment, MachineReport};
use crate::parcel::{self, Inputs, States};
use crate::{Error, Result};
use belljar_base::SimTime;
use belljar_config::{Experiment, Inventory, Machine};
use belljar_plan::Plan;
use belljar_plan::outcome::Observation;
use belljar_results::{ResultsFolder, Scratch, Statistics};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Time from the end of the preparation to the start.
const LEAD_NS: i64 = 1_500_000_000;
/// Interval of the main loop, and of keep-alive messages to machines.
const REFRESH: Duration = Duration::from_millis(100);
const SIGN_OF_LIFE_NS: i64 = 5_000_000_000;

/// Parameters of a deployment.
pub struct Order<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The machines.
    pub inventory: &'a Inventory,
    /// Folder of the experiment file.
    pub base: &'a Path,
    /// Results folder.
    pub folder: &'a ResultsFolder,
    /// Set to end the run in an orderly manner.
    pub stop: &'a AtomicBool,
}

/// Progress callback, called with the time of the experiment.
pub type Progress<'a> = dyn Fn(SimTime) + 'a;

/// Runs an experiment. Returns the statistics, the report on the machines, notes for the user, and true if
/// the run was stopped.
pub fn deploy(
    order: &Order<'_>,
    progress: &Progress<'_>,
) -> Result<(Statistics, Deployment, Vec<String>, bool)> {
    let Order { experiment, inventory, .. } = order;
    let plan = Plan::new(experiment);
    let names = names(experiment, inventory)?;
    let inputs = Inputs { experiment, plan: &plan, inventory, base: order.base, names: &names };
    // Paths of sockets must be short.
    let sockets = Scratch::create(Path::new("/tmp"))
        .or_else(|_| Scratch::create(&std::env::temp_dir()))
        .map_err(|error| Error::new(format!("no temporary folder: {error}")))?;
    let (news_to, news) = channel();
    // Identifies the run's processes on the machines.
    let id = format!("{:x}-{:x}", std::process::id(), wall_ns());
    let mut connections = Vec::new();
    for (number, machine) in inventory.machines.iter().enumerate() {
        connections.push(Connection::open(machine, number, &id, sockets.path(), news_to.clone())?);
    }
    drop(news_to);
    let mut waiting = connections.len();
    while waiting > 0 {
        let (number, line) = next(&news, order.stop)?;
        let connection = &mut connections[number];
        if let Some(unfit) = line.strip_prefix("unfit ") {
            return Err(connection.error(unfit));
        }
        // Shells of some machines print a greeting before.
        if let Some((folder, architecture)) =
            line.strip_prefix("ready ").and_then(|rest| rest.rsplit_once(' '))
        {
            (connection.folder, connection.architecture) = (folder.to_owned(), architecture.to_owned());
            waiting -= 1;
        }
    }
    let mut notes = Vec::new();
    let (mut offsets, mut known) = (Vec::new(), Vec::new());
    for connection in &mut connections {
        inputs.send(connection)?;
        known.push(check(connection, &news, &mut notes)?);
        offsets.push(connection.offset(&news)?);
    }
    let begin = wall_ns() + LEAD_NS;
    for (connection, offset) in connections.iter_mut().zip(&offsets) {
        connection.tell(&format!("go {}\n", begin + offset.ns));
    }
    let stopped = course(order, &mut connections, &news, begin, progress)?;
    let over = wall_ns();
    for connection in &mut connections {
        connection.tell("stop\n");
        while connection.hear(&news)? != "stopped" {}
    }
    let mut deployment = Deployment { begin: begin as f64 / 1e9, ..Deployment::default() };
    let mut observed: Vec<_> = plan.processes.iter().map(|all| vec![Vec::new(); all.len()]).collect();
    for ((connection, first), known) in connections.iter_mut().zip(&offsets).zip(known) {
        let last = connection.offset(&news)?;
        let hosts: Vec<&str> =
            connection.machine.hosts.iter().map(|host| &*experiment.hosts[*host].name).collect();
        let states = parcel::collect(connection, order.folder, &hosts)?;
        let clock = Clock { begin, first: *first, last };
        let latest = observe(&inputs, order.folder, &connection.machine, &states, &clock, &mut observed)?;
        let report = MachineReport {
            address: connection.machine.address.clone(),
            architecture: connection.architecture.clone(),
            hosts: hosts.into_iter().map(str::to_owned).collect(),
            clock_offset: first.ns as f64 / 1e9,
            clock_uncertainty: first.uncertainty_ns as f64 / 1e9,
            clock_offset_end: last.ns as f64 / 1e9,
            latest_start: latest,
            names: known,
        };
        deployment.machines.insert(connection.machine.name.clone(), report);
    }
    let now = SimTime::from_nanos((over - begin).max(0) as u64).min(experiment.general.stop_time);
    let _ = std::fs::remove_dir_all(order.folder.path().join(".deployment"));
    Ok((outcome::statistics(experiment, &observed, now), deployment, notes, stopped))
}

/// Addresses and names of all hosts: a host has the address of its machine.
fn names(experiment: &Experiment, inventory: &Inventory) -> Result<Vec<(String, String)>> {
    let mut names = Vec::new();
    for machine in &inventory.machines {
        let address = match machine.ip_addr {
            Some(address) => address,
            None => resolved(machine)?,
        };
        names.extend(
            machine.hosts.iter().map(|host| (address.to_string(), experiment.hosts[*host].name.clone())),
        );
    }
    Ok(names)
}

fn resolved(machine: &Machine) -> Result<IpAddr> {
    let host = machine.address.rsplit('@').next().unwrap_or_default();
    let found = (host, 22).to_socket_addrs().ok().and_then(|mut all| all.next());
    found.map(|address| address.ip()).ok_or_else(|| {
        Error::new(format!(
            "machine '{}' ({}): its address is not known here: set its 'ip_addr', by which the others reach it",
            machine.name, machine.address
        ))
    })
}

/// The next line of any machine.
fn next(news: &Receiver<News>, stop: &AtomicBool) -> Result<(usize, String)> {
    loop {
        match news.recv_timeout(REFRESH) {
            Ok((number, line)) => return Ok((number, line?)),
            Err(RecvTimeoutError::Timeout) if !stop.load(Relaxed) => {}
            Err(_) => return Err(Error::new("interrupted before the experiment began")),
        }
    }
}

/// Checks a machine for missing programs. Returns the kind of name resolution for programs on it.
fn check(connection: &mut Connection, news: &Receiver<News>, notes: &mut Vec<String>) -> Result<String> {
    connection.tell("check\n");
    loop {
        let line = connection.hear(news)?;
        if let Some(program) = line.strip_prefix("missing ") {
            return Err(connection.error(format!(
                "it has no program '{program}': install it there, or put one beside the experiment, which is copied"
            )));
        }
        match line.strip_prefix("names ") {
            Some("known") => return Ok("its own".into()),
            Some("unknown") => {
                notes.push(format!(
                    "machine '{}': programs there do not know hosts by name: add them to its /etc/hosts, or let its user make \
                     namespaces",
                    connection.machine.name
                ));
                return Ok("unknown".into());
            }
            Some(wrapper) => {
                connection.tell(&format!("names {wrapper}\n"));
                return Ok("of the run".into());
            }
            None => {}
        }
    }
}

/// Waits until all processes have ended that are expected to, or the time is over. Returns true if the run
/// was stopped.
fn course(
    order: &Order<'_>,
    connections: &mut [Connection],
    news: &Receiver<News>,
    begin: i64,
    progress: &Progress<'_>,
) -> Result<bool> {
    let stop_time = order.experiment.general.stop_time;
    let (mut busy, mut last_sign) = (connections.len(), wall_ns());
    loop {
        let now = wall_ns();
        let time = SimTime::from_nanos((now - begin).max(0) as u64);
        progress(time.min(stop_time));
        if order.stop.load(Relaxed) {
            return Ok(true);
        }
        if busy == 0 || time >= stop_time {
            return Ok(false);
        }
        if now - last_sign > SIGN_OF_LIFE_NS {
            last_sign = now;
            connections.iter_mut().for_each(|connection| connection.tell("alive\n"));
        }
        match news.recv_timeout(REFRESH) {
            Ok((_, line)) => busy -= usize::from(line? == "finished"),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(Error::new("all connections were lost")),
        }
    }
}

/// A machine's clock during a run.
struct Clock {
    begin: i64,
    first: Offset,
    last: Offset,
}

impl Clock {
    /// Converts a time of the machine's clock to the experiment's time, in nanoseconds. The clock's offset is
    /// interpolated between the two measurements.
    fn since_beginning(&self, there: i64) -> i64 {
        let span = (self.last.at_ns - self.first.at_ns).max(1) as f64;
        let share = (there - self.first.ns - self.first.at_ns) as f64 / span;
        let drifted = (self.last.ns - self.first.ns) as f64 * share.clamp(0.0, 1.0);
        there - self.first.ns - drifted as i64 - self.begin
    }
    fn time(&self, there: i64) -> SimTime {
        SimTime::from_nanos(self.since_beginning(there).max(0) as u64)
    }
}

/// Adds the observations of a machine's processes. Returns the largest delay of a start, in seconds.
fn observe(
    inputs: &Inputs<'_>,
    folder: &ResultsFolder,
    machine: &Machine,
    states: &States,
    clock: &Clock,
    observed: &mut [Vec<Vec<Observation>>],
) -> Result<f64> {
    let mut latest = 0;
    let pair = |name: String| -> Option<(i64, i64)> {
        let (first, second) = states.get(&name)?.trim().split_once(' ')?;
        Some((first.parse().ok()?, second.parse().ok()?))
    };
    for (number, (host, place)) in inputs.processes(machine).into_iter().enumerate() {
        let plan = &inputs.plan.processes[host][place];
        let Some((pid, at)) = pair(format!("{number}.start")) else { continue };
        latest = latest.max(clock.since_beginning(at) - plan.start.as_nanos() as i64);
        let seen = &mut observed[host][place];
        seen.push(Observation::Started { pid: pid as i32, at: clock.time(at) });
        parcel::place_output(
            folder,
            machine,
            number,
            &inputs.experiment.hosts[host].name,
            &plan.program,
            pid as i32,
        )?;
        if let Some((status, at)) = pair(format!("{number}.end")) {
            seen.push(Observation::Ended { how: outcome::end(status as i32), at: clock.time(at) });
        }
    }
    Ok(latest as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_machine_become_those_of_the_experiment() {
        let offset = |ns, at_ns| Offset { ns, uncertainty_ns: 0, at_ns };
        // The clock is one second ahead at the start of the experiment, and gains 100 ms in the next 10 s.
        let clock = Clock {
            begin: 50_000_000_000,
            first: offset(1_000_000_000, 50_000_000_000),
            last: offset(1_100_000_000, 60_000_000_000),
        };
        assert_eq!(clock.since_beginning(51_000_000_000), 0);
        assert_eq!(clock.since_beginning(61_100_000_000), 10_000_000_000);
        assert!((clock.since_beginning(56_050_000_000) - 5_000_000_000).abs() < 1_000_000);
        assert_eq!(clock.time(50_000_000_000), SimTime::ZERO, "before the beginning");
    }
}
