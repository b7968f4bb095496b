//! Limits of deployments: unsupported features are refused before any machine is reached; differences are
//! reported.

use belljar_base::SimTime;
use belljar_config::Experiment;
use belljar_config::topology::DeviceKind;

/// Features of an experiment that a deployment does not support, one sentence each with its remedy.
pub fn refusals(experiment: &Experiment) -> Vec<String> {
    let mut refused = Vec::new();
    for host in &experiment.hosts {
        let name = &host.name;
        if let Some(model) = host.models.first() {
            refused.push(format!(
                "host '{name}': traffic models such as '{}' exist in simulations alone; run a program that makes the traffic",
                model.spec.name
            ));
        }
        if host.machine.is_some() {
            refused.push(format!("host '{name}': machines are what they are: leave 'machine' out"));
        }
        if host.root.is_some() {
            refused.push(format!("host '{name}': machines have their own files: leave 'root' out"));
        }
        if let Some(process) = host.processes.iter().find(|process| process.user.is_some()) {
            refused.push(format!(
                "host '{name}': '{}' is to run as a user, and runs as the one that ssh logs in as: leave 'user' out, and name the \
                 user in the machine's 'address'",
                process.program_name()
            ));
        }
    }
    for device in &experiment.topology.devices {
        if !matches!(device.kind, DeviceKind::Switch(_) | DeviceKind::Router(_)) {
            let (noun, name) = (device.kind.noun().0, &device.name);
            refused.push(format!(
                "{noun} '{name}': the network is that of the machines, which has none: leave it out"
            ));
        }
    }
    if !experiment.events.is_empty() {
        refused.push("events change simulated and emulated worlds, not machines: leave 'events' out".into());
    }
    if experiment.general.stop_time == SimTime::MAX {
        refused.push("the experiment has no end: set 'general.stop_time'".into());
    }
    refused
}

/// Differences from a simulation of the experiment, one phrase each.
pub fn differences(experiment: &Experiment) -> Vec<String> {
    let mut all = vec![
        "the network is that of the machines, whatever graph, links, switches and routers are like"
            .to_owned(),
        "clocks are the machines'".to_owned(),
    ];
    if experiment.hosts.iter().any(|host| host.options.pcap_enabled) {
        all.push("no packets are captured".into());
    }
    if experiment.hosts.iter().any(|host| !host.options.sysctls.is_empty()) {
        all.push("'sysctls' have no effect: the machines' kernels are as they are".into());
    }
    all
}
