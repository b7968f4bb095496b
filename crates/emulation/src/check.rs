//! Limitations of emulations: unsupported parts of an experiment are refused before anything is started;
//! differences that do not affect the network are reported.

use crate::error::{Error, Result};
use belljar_base::SimTime;
use belljar_config::topology::DeviceKind;
use belljar_config::{Action, Experiment, StraceMode};
use belljar_plan::{DeviceChange, HostChange, Schedule};

/// Maximum length of an interface name.
const LONGEST_NAME: usize = 15;

/// Reports the parts of an experiment that an emulation does not support, one sentence each with its
/// remedy. `all_users`: the machine's users exist in the emulation.
pub fn refusals(experiment: &Experiment, schedule: &Schedule, all_users: bool) -> Vec<String> {
    let mut refused = Vec::new();
    for (host, changes) in experiment.hosts.iter().zip(&schedule.hosts) {
        let name = &host.name;
        if let Some(model) = host.models.first() {
            refused.push(format!(
                "host '{name}': traffic models such as '{}' exist in simulations alone; run a program that makes the traffic",
                model.spec.name
            ));
        }
        if host.machine.is_some() {
            refused.push(format!(
                "host '{name}': a whole machine keeps a simulation's time, not this machine's: leave 'machine' out"
            ));
        }
        for process in host.processes.iter().filter(|_| !all_users) {
            if let Some(user) = process.user.as_ref().filter(|user| !matches!(&***user, "root" | "0")) {
                refused.push(format!(
                    "host '{name}': '{}' is to run as user '{user}', and without root there is one user: \
                     run as root, let the machine lend you ids (newuidmap of 'uidmap', with lines of yours in /etc/subuid and /etc/subgid), or \
                     leave out 'user'",
                    process.program_name()
                ));
            }
        }
        for (at, change) in changes {
            if let HostChange::Crash { lose_files: true } = change {
                refused.push(format!(
                    "host '{name}': the crash at {at} is to lose files, which the kernel's overlay keeps: \
                     leave out 'files'"
                ));
            }
        }
        for interface in host.interfaces.iter().filter(|interface| interface.name.len() > LONGEST_NAME) {
            refused.push(too_long(name, &interface.name));
        }
    }
    for device in &experiment.topology.devices {
        let name = &device.name;
        match &device.kind {
            DeviceKind::P4(switch) => {
                refused.extend(crate::p4::refusal(switch).map(|why| format!("switch '{name}': {why}")));
            }
            DeviceKind::Simulator(_) => refused.push(format!(
                "simulator '{name}': other simulators keep a simulation's time, not this machine's"
            )),
            DeviceKind::Radio(_) => refused.push(format!(
                "radio '{name}': radio channels are for simulations: run it, or replace it by links"
            )),
            DeviceKind::Nic(_) => refused.push(format!(
                "nic '{name}': a simulated controller keeps a simulation's time, not this machine's"
            )),
            DeviceKind::Memory(_) => refused.push(format!(
                "memory '{name}': a simulated memory keeps a simulation's time, not this machine's"
            )),
            DeviceKind::Router(router) if router.clamp_mss.is_some() => refused.push(format!(
                "router '{name}': 'clamp_mss' needs a firewall rule of the kernel, which is not made: leave it out"
            )),
            _ => {}
        }
        for interface in device.interfaces.iter().filter(|interface| interface.name.len() > LONGEST_NAME) {
            refused.push(too_long(name, &interface.name));
        }
    }
    let devices = experiment.topology.devices.iter().zip(&schedule.devices);
    for (device, changes) in devices {
        if changes.iter().any(|(_, change)| matches!(change, DeviceChange::P4(_))) {
            refused.push(format!("switch '{}': events of P4 switches are for simulations", device.name));
        }
    }
    if experiment.general.stop_time == SimTime::MAX {
        refused.push("the experiment has no end: set 'general.stop_time'".into());
    }
    refused.sort();
    refused.dedup();
    refused
}

fn too_long(node: &str, interface: &str) -> String {
    format!(
        "interface '{interface}' of '{node}': Linux's names of interfaces have at most {LONGEST_NAME} bytes: give it a shorter one"
    )
}

/// Refuses gateways if time is dilated.
pub fn dilated_gateways(experiment: &Experiment, dilated: bool) -> Result<()> {
    let mut devices = experiment.topology.devices.iter();
    match devices.find(|device| dilated && matches!(device.kind, DeviceKind::Gateway(_))) {
        Some(device) => Err(Error::new(format!(
            "gateway '{}': time outside is not dilated as that of the hosts: leave '--tdf' out",
            device.name
        ))),
        None => Ok(()),
    }
}

/// Reports differences from a simulation of the experiment, one phrase each. `tdf` is the time dilation
/// factor, if any; `is_auto` is true if it is only the initial factor.
pub fn differences(experiment: &Experiment, tdf: Option<f64>, is_auto: bool) -> Vec<String> {
    let mut all = vec![
        match (tdf, is_auto) {
            (None, _) => "clocks are this machine's".to_owned(),
            (Some(tdf), false) => format!("clocks go {tdf} times slower than this machine's"),
            (Some(_), true) => "clocks go as much slower than this machine's as it needs".to_owned(),
        },
        "the seed decides the schedule and the impairments of links alone".to_owned(),
    ];
    let clock = |action: &Action| matches!(action, Action::Clock { .. });
    let own = experiment.hosts.iter().any(|host| host.clock != Default::default());
    if own || experiment.events.iter().any(|event| clock(&event.action)) {
        all.push("offsets, drifts and steps of hosts' clocks have no effect".into());
    }
    if experiment.topology.devices.iter().any(|device| matches!(device.kind, DeviceKind::P4(_))) {
        all.push("P4 switches take the time that they take, and their queues are those of the links".into());
    }
    if experiment.general.model_unblocked_syscall_latency {
        all.push("system calls take the time that they take".into());
    }
    if experiment.hosts.iter().any(|host| host.cpu.is_some()) {
        all.push("the 'cpu' of hosts has no effect: work takes the time that it takes".into());
    }
    if experiment.experimental.strace_logging_mode != StraceMode::Off {
        all.push("system calls are not logged".into());
    }
    let limited =
        |kind: &DeviceKind| matches!(kind, DeviceKind::Gateway(gateway) if gateway.hard_limit.is_some());
    if experiment.topology.devices.iter().any(|device| limited(&device.kind)) {
        all.push("the 'hard_limit' of gateways has no effect: the verdict says how late frames were".into());
    }
    if experiment.belljar.metrics_interval.is_some() {
        all.push("no time series are sampled".into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_config::PathContext;

    fn refused(text: &str, all_users: bool) -> Vec<String> {
        let text = format!("general: {{ stop_time: 10 }}\n{text}");
        let experiment = Experiment::parse_in("test.yaml", &text, &PathContext::default());
        let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
        refusals(&experiment, &Schedule::new(&experiment), all_users)
    }

    #[test]
    fn each_thing_that_cannot_be_emulated_is_refused_by_name() {
        let graph = "network: { graph: { type: 1_gbit_switch } }\nhosts:\n  a:\n    network_node_id: 0\n    processes:\n";
        let told = |text: &str, all_users, what: &str| {
            let all = refused(text, all_users);
            assert!(all.len() == 1 && all[0].contains(what), "{what}: {all:?}");
        };
        let model = format!("{graph}    - model: {{ type: sink, port: 5001 }}\n");
        told(&model, true, "host 'a': traffic models such as 'sink'");
        let user = format!("{graph}    - {{ path: /bin/sh, user: daemon }}\n");
        told(&user, false, "'sh' is to run as user 'daemon', and without root there is one user");
        assert_eq!(refused(&user, true), [""; 0]);
        let crash =
            format!("{graph}    - {{ path: /bin/sh }}\nevents:\n- {{ at: 1 s, crash: a, files: lost }}\n");
        told(&crash, true, "host 'a': the crash at");
        let clamp = "routers: { r: { clamp_mss: 1200 } }\nhosts: { a: { processes: [] } }\nlinks: [{ between: [a, r] }]\n";
        told(clamp, true, "router 'r': 'clamp_mss'");
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let text = "general: { stop_time: 10 }\nnetwork: { graph: { type: 1_gbit_switch } }\n\
            hosts: { a: { network_node_id: 0, clock: { offset: 1 s }, processes: [] } }\n";
        let experiment = Experiment::parse_in("test.yaml", text, &PathContext::default()).unwrap();
        let all = differences(&experiment, None, false);
        assert_eq!(all.len(), 3, "{all:?}");
        assert!(all[2].contains("clocks have no effect"), "{all:?}");
    }
}
