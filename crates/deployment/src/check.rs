//! Limits of deployments: unsupported features are refused before any machine is reached; differences are
//! reported.

use belljar_base::SimTime;
use belljar_config::topology::DeviceKind;
use belljar_config::{Experiment, Refusal, StraceMode};

/// Parts of an experiment that a deployment does not support.
pub fn refusals(experiment: &Experiment) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for host in &experiment.hosts {
        let name = &host.name;
        let mut refuse = |key: &str, message: String, help: &str| {
            let path = format!("hosts.{name}.{key}");
            refused.push(Refusal::new(path, format!("host '{name}': {message}"), help));
        };
        if let Some(model) = host.models.first() {
            let model = &model.spec.name;
            let message = format!("traffic models such as '{model}' exist in simulations alone");
            refuse("processes.model", message, "run a program that makes the traffic");
        }
        if host.machine.is_some() {
            refuse("machine", "machines are what they are".to_owned(), "leave 'machine' out");
        }
        if host.root.is_some() {
            refuse("root", "machines have their own files".to_owned(), "leave 'root' out");
        }
        if host.processes.iter().any(|process| process.is_setup) {
            let message = "'setup' would change the machine for good".to_owned();
            refuse("setup", message, "leave 'setup' out, and set the machine up yourself");
        }
        if let Some(process) = host.processes.iter().find(|process| process.user.is_some()) {
            let program = process.program_name();
            let message = format!("'{program}' is to run as a user, and runs as the one that ssh logs in as");
            refuse(
                "processes.user",
                message,
                "leave 'user' out, and name the user in the machine's 'address'",
            );
        }
    }
    for device in &experiment.topology.devices {
        if !matches!(device.kind, DeviceKind::Switch(_) | DeviceKind::Router(_)) {
            let ((noun, section), name) = (device.kind.noun(), &device.name);
            refused.push(Refusal::new(
                format!("{section}.{name}"),
                format!("{noun} '{name}': the network is that of the machines, which has none"),
                "leave it out",
            ));
        }
    }
    if !experiment.events.is_empty() {
        let message = "events change simulated and emulated worlds, not machines";
        refused.push(Refusal::new("events", message, "leave 'events' out"));
    }
    refused.extend(experiment.timed_properties());
    refused.extend(experiment.refuse_packet_properties());
    if experiment.general.stop_time == SimTime::MAX {
        refused.push(Refusal::new("general", "the experiment has no end", "set 'general.stop_time'"));
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
    if experiment.hosts.iter().any(|host| host.clock != Default::default()) {
        all.push("offsets, drifts and 'reading' of hosts' clocks have no effect".into());
    }
    if experiment.hosts.iter().any(|host| host.cpu.is_some()) {
        all.push("the 'cpu' of hosts has no effect: work takes the time that it takes".into());
    }
    if experiment.hosts.iter().any(|host| host.memory.is_some()) {
        all.push("'memory' has no effect: memory is the machines'".into());
    }
    if experiment.hosts.iter().any(|host| host.cpu_count.is_some()) {
        all.push("'cpu_count' has no effect: processors are the machines'".into());
    }
    if experiment.experimental.strace_logging_mode != StraceMode::Off {
        all.push("system calls are not logged".into());
    }
    if experiment.belljar.metrics_interval.is_some() || experiment.belljar.route_log {
        all.push("neither time series nor changes of routes are recorded".into());
    }
    if !experiment.belljar.dns_records.is_empty() {
        all.push("'dns' has no effect: the machines have a name server of their own".into());
    }
    let buffers = &experiment.experimental;
    if buffers.socket_send_buffer.or(buffers.socket_recv_buffer).is_some() {
        all.push("'socket_send_buffer' and 'socket_recv_buffer' have no effect".into());
    }
    all
}
