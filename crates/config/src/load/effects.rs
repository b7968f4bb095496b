//! Keys that are valid where they stand, and act on nothing in this experiment.

use crate::error::Problem;
use crate::events::{Action, Target};
use crate::model::{Experiment, Process};
use crate::topology::DeviceKind;
use crate::yaml::{Section, Value};
use belljar_base::SimTime;
use belljar_net::QueueConfig;

/// Refuses queues that no packet can ever wait in.
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
    }
    Ok(())
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

/// Gives the usual queue to directions whose queue has lost its effect, because the run ends before the event that
/// would have limited them.
pub(super) fn reset_idle_queues(experiment: &mut Experiment) {
    let ends = (0..experiment.topology.links.len()).flat_map(|link| [(link, 0), (link, 1)]);
    let idle: Vec<(usize, usize)> = ends.filter(|(link, end)| is_idle(experiment, *link, *end)).collect();
    for (link, end) in idle {
        experiment.topology.links[link].ends[end].properties.queue = QueueConfig::default();
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

/// Notes about times of processes that the simulation does not reach.
pub(super) fn late_times(experiment: &Experiment) -> Vec<String> {
    let stop = experiment.general.stop_time;
    let seconds = stop.as_secs_f64();
    let mut notes = Vec::new();
    for host in &experiment.hosts {
        let mut note = |process: &Process, what: &str| {
            let (name, path) = (&host.name, process.path.display());
            notes.push(format!("host '{name}': '{path}' {what}, since the simulation stops at {seconds} s"));
        };
        for process in &host.processes {
            if process.start_time >= stop && process.start_time != SimTime::MAX {
                note(process, "never starts");
            } else if process.shutdown_time.is_some_and(|at| at >= stop) {
                note(process, "is not shut down");
            }
        }
    }
    notes
}
