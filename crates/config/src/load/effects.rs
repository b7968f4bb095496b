//! Keys that are valid where they stand, and act on nothing in this experiment.

use super::captures;
use crate::error::Problem;
use crate::events::{Action, Target};
use crate::model::{Experiment, FinalState, starts_late};
use crate::topology::DeviceKind;
use crate::yaml::{Node, Section, Value};
use belljar_base::{HostId, Set, SimTime};
use belljar_net::QueueConfig;

/// Refuses settings of links that no packet can ever meet.
pub(super) fn check(file: &Section, experiment: &Experiment) -> Result<(), Problem> {
    if experiment.hosts.iter().all(|host| host.node.is_none())
        && let Some(entry) = file.get("host_option_defaults").and_then(|node| node.entry("queue"))
    {
        return Err(Problem::at(entry.key_span, "'queue' has no effect: no host is on the graph")
            .help("give the queue to a link: links: [ { between: [...], queue: { packets: 100 } } ]"));
    }
    let Some(links) = file.get("links") else { return Ok(()) };
    let Value::Sequence(items) = &links.value else { return Ok(()) };
    // The links of the file come first, in its order.
    for (number, (item, link)) in items.iter().zip(&experiment.topology.links).enumerate() {
        let there = item.entry("queue");
        let back = item.entry("reverse").and_then(|reverse| reverse.value.entry("queue"));
        let idle = |end: usize| is_idle(experiment, number, end);
        if let Some(entry) = there.filter(|_| idle(0)).or(back.filter(|_| idle(1))) {
            let message =
                format!("'queue' has no effect: nothing waits at the unlimited rate of link '{}'", link.name);
            return Err(
                Problem::at(entry.key_span, message).help("give the link a rate, or leave the queue out")
            );
        }
        check_line(item, experiment, number)?;
    }
    Ok(())
}

/// Refuses an overhead that takes no time, and a token bucket that never delays a packet.
fn check_line(item: &Node, experiment: &Experiment, number: usize) -> Result<(), Problem> {
    let link = &experiment.topology.links[number];
    let there = |key: &str| item.entry(key);
    let back = |key: &str| item.entry("reverse").and_then(|reverse| reverse.value.entry(key));
    let [free, free_back] = [0, 1].map(|end| is_free(experiment, number, end));
    let is_free_everywhere = free && (free_back || back("overhead").is_some());
    let idle = back("overhead").filter(|_| free_back);
    if let Some(entry) = idle.or(there("overhead").filter(|_| is_free_everywhere)) {
        let message = format!(
            "'overhead' has no effect: bytes take no time at the unlimited rate of link '{}'",
            link.name
        );
        return Err(Problem::at(entry.key_span, message).help("give the link a rate, or leave it out"));
    }
    for end in [0, 1].into_iter().filter(|end| is_overflowing(experiment, number, *end)) {
        let line = &link.ends[end].properties;
        let own = back("token_bucket").filter(|_| end == 1).or_else(|| there("token_bucket"));
        if let (Some(entry), Some(bucket), Some(rate)) = (own, line.token_bucket, line.rate) {
            let message = format!(
                "'token_bucket' has no effect: link '{}' carries {rate} bit/s, and its bucket gains {} bit/s",
                link.name, bucket.rate
            );
            return Err(Problem::at(entry.key_span, message)
                .help("give the bucket a rate below that of the link, or leave it out"));
        }
    }
    Ok(())
}

/// True if the bytes of a frame take no time in a direction of a link, for which it has an overhead all the same.
fn is_free(experiment: &Experiment, number: usize, end: usize) -> bool {
    let link = &experiment.topology.links[number];
    let line = &link.ends[end].properties;
    let device = experiment.device(link.ends[end].node);
    let is_of_p4 = device.is_some_and(|device| matches!(device.kind, DeviceKind::P4(_)));
    let is_paced = line.rate.is_some() || line.token_bucket.is_some();
    line.overhead > 0 && !(is_paced || is_of_p4 || is_limited_later(experiment, number))
}

/// True if the token bucket of a direction of a link gains tokens faster than the link's rate spends them.
fn is_overflowing(experiment: &Experiment, number: usize, end: usize) -> bool {
    let line = &experiment.topology.links[number].ends[end].properties;
    let is_full = line.token_bucket.zip(line.rate).is_some_and(|(bucket, rate)| bucket.rate >= rate);
    is_full && !is_limited_later(experiment, number)
}

/// True if nothing waits in the queue at an end of a link, which is not the usual one or that of the other end.
fn is_idle(experiment: &Experiment, number: usize, end: usize) -> bool {
    let link = &experiment.topology.links[number];
    let lines = link.ends.each_ref().map(|end| &end.properties);
    let is_paced = |end: usize| lines[end].rate.is_some() || lines[end].token_bucket.is_some();
    let other_uses_it = is_paced(1 - end) && lines[0].queue == lines[1].queue;
    // A P4 switch has queues of its own, whose rates commands set.
    let device = experiment.device(link.ends[end].node);
    let is_of_p4 = device.is_some_and(|device| matches!(device.kind, DeviceKind::P4(_)));
    let is_usual = lines[end].queue == QueueConfig::default();
    !(is_paced(end) || is_usual || other_uses_it || is_of_p4 || is_limited_later(experiment, number))
}

/// Resets settings of links that have lost their effect, because the run ends before the event that would have limited
/// the link.
pub(super) fn reset_idle_lines(experiment: &mut Experiment) {
    let ends = (0..experiment.topology.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
    let idle: Vec<(usize, usize)> =
        ends.clone().filter(|(link, end)| is_idle(experiment, *link, *end)).collect();
    for (link, end) in idle {
        experiment.topology.links[link].ends[end].properties.queue = QueueConfig::default();
    }
    for (link, end) in ends {
        if is_free(experiment, link, end) {
            experiment.topology.links[link].ends[end].properties.overhead = 0;
        }
        if is_overflowing(experiment, link, end) {
            experiment.topology.links[link].ends[end].properties.token_bucket = None;
        }
    }
}

/// True if an event gives the link a rate or a token bucket.
fn is_limited_later(experiment: &Experiment, link: usize) -> bool {
    experiment.events.iter().any(|event| match &event.action {
        Action::Change(Target::Links { links, .. }, change) => {
            links.contains(&link) && (change.link.rate.is_some() || change.link.token_bucket.is_some())
        }
        _ => false,
    })
}

impl Experiment {
    /// Notes about settings without effect that the command line may still change after an experiment has been loaded.
    pub fn idle_notes(&self) -> Vec<String> {
        let (from, stop) = (self.general.bootstrap_end_time, self.general.stop_time);
        let bootstrap = (from >= stop).then(|| {
            format!(
                "no rate and no loss of the network applies: 'bootstrap_end_time' is {} s, and the simulation stops at {} s",
                from.as_secs_f64(),
                stop.as_secs_f64()
            )
        });
        bootstrap.into_iter().chain(captures::note(self)).collect()
    }
}

/// Notes about sections and settings on which no packet depends.
pub(super) fn notes(file: &Section, experiment: &Experiment) -> Vec<String> {
    let mut notes = Vec::new();
    let stop = experiment.general.stop_time;
    if let Some(interval) =
        experiment.belljar.metrics_interval.filter(|interval| SimTime::ZERO + *interval >= stop)
    {
        notes.push(format!(
            "no metrics are sampled: their 'interval' is {} s, and the simulation stops at {} s",
            (SimTime::ZERO + interval).as_secs_f64(),
            stop.as_secs_f64()
        ));
    }
    let hosts = &experiment.hosts;
    if file.entry("network").is_some() && !hosts.is_empty() && hosts.iter().all(|host| host.node.is_none()) {
        notes.push("section 'network' has no effect: no host is on the graph".to_owned());
    }
    let ends = experiment.topology.links.iter().flat_map(|link| &link.ends);
    let linked: Set<HostId> = ends.map(|end| end.node).collect();
    for (number, device) in experiment.topology.devices.iter().enumerate() {
        let is_waiting =
            matches!(device.kind, DeviceKind::Switch(_) | DeviceKind::Router(_) | DeviceKind::P4(_));
        if is_waiting && !linked.contains(&HostId((hosts.len() + number) as u32)) {
            notes.push(format!(
                "{} '{}' has no link: no packet reaches it",
                device.kind.noun().0,
                device.name
            ));
        }
    }
    notes
}

/// Leaves the demand for a start to processes that start after the end of the run. The loader has set it for all with a
/// final state.
pub(super) fn settle_final_states(experiment: &mut Experiment) {
    let stop = experiment.general.stop_time;
    for host in &mut experiment.hosts {
        let programs = host.machine.as_mut().map(|machine| &mut machine.programs).into_iter().flatten();
        for process in host.processes.iter_mut().chain(programs) {
            process.must_start &=
                starts_late(process.start_time, stop) && process.expected_final_state != FinalState::Any;
        }
    }
}

/// Notes about times of processes and models that the simulation does not reach.
pub(super) fn late_times(experiment: &Experiment) -> Vec<String> {
    let stop = experiment.general.stop_time;
    let seconds = stop.as_secs_f64();
    let mut notes = Vec::new();
    for host in &experiment.hosts {
        let processes = host
            .programs()
            .iter()
            .map(|process| (process.path.display().to_string(), process.start_time, process.shutdown_time));
        let models = host
            .models
            .iter()
            .map(|model| (format!("model {}", model.spec.name), model.start_time, model.shutdown_time));
        for (name, start, shutdown) in processes.chain(models) {
            let what = match () {
                () if starts_late(start, stop) => "never starts",
                () if shutdown.is_some_and(|at| at >= stop) => "is not shut down",
                () => continue,
            };
            notes.push(format!(
                "host '{}': '{name}' {what}, since the simulation stops at {seconds} s",
                host.name
            ));
        }
    }
    notes
}
