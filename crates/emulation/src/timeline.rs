//! Timeline of an emulation: its scheduled actions, in order.

use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_plan::{DeviceChange, HostChange, LinkChange, Plan};

/// Scheduled action.
#[derive(Debug)]
pub enum Action {
    /// Change of a host: index of the host, change.
    Host(usize, HostChange),
    /// Change of a switch or router: index of the node, change.
    Device(usize, LinkChange),
    /// Event of a P4 switch: index of the node, number of the event in the [plan](crate::p4::SwitchPlan).
    P4(usize, usize),
    /// Start of a process: indices of host and process.
    Start(usize, usize),
    /// Shutdown signal to a process: indices of host and process.
    Shutdown(usize, usize),
}

/// Returns the actions of a plan before the end of the experiment, the first one last. Changes precede
/// starts at the same time.
pub fn timeline(experiment: &Experiment, plan: &Plan) -> Vec<(SimTime, Action)> {
    let mut all = Vec::new();
    for (host, changes) in plan.schedule.hosts.iter().enumerate() {
        all.extend(changes.iter().map(|(at, change)| (*at, Action::Host(host, change.clone()))));
    }
    for (device, changes) in plan.schedule.devices.iter().enumerate() {
        let node = experiment.hosts.len() + device;
        let mut p4_events = 0..;
        all.extend(changes.iter().map(|(at, change)| match change {
            DeviceChange::Link(change) => (*at, Action::Device(node, change.clone())),
            DeviceChange::P4(_) => (*at, Action::P4(node, p4_events.next().unwrap_or_default())),
        }));
    }
    for (host, processes) in plan.processes.iter().enumerate() {
        for (number, process) in processes.iter().enumerate() {
            all.push((process.start, Action::Start(host, number)));
            all.extend(process.shutdown.map(|at| (at, Action::Shutdown(host, number))));
        }
    }
    all.retain(|(at, _)| *at < experiment.general.stop_time);
    all.sort_by_key(|(at, _)| *at);
    all.reverse();
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_config::PathContext;

    #[test]
    fn changes_come_before_starts_of_the_same_time_and_nothing_after_the_end() {
        let text = "general: { stop_time: 10 }\nnetwork: { graph: { type: 1_gbit_switch } }\nhosts:\n  a:\n    network_node_id: 0\n    \
            processes:\n    - { path: /bin/sh, start_time: 2 s, shutdown_time: 4 s }\n    - { path: /bin/sh, start_time: 11 s }\n\
            events:\n- { at: 2 s, crash: a, for: 1 s }\n";
        let experiment = Experiment::parse_in("test.yaml", text, &PathContext::default()).unwrap();
        let mut all = timeline(&experiment, &Plan::new(&experiment));
        all.reverse();
        let shown: Vec<String> =
            all.iter().map(|(at, action)| format!("{} {action:?}", at.as_nanos() / 1_000_000_000)).collect();
        assert_eq!(
            shown,
            ["2 Host(0, Crash { files: Kept })", "2 Start(0, 0)", "3 Host(0, Restart)", "4 Shutdown(0, 0)"]
        );
    }
}
