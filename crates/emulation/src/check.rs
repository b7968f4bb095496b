//! Limitations of emulations: unsupported parts of an experiment are refused before anything is started;
//! differences that do not affect the network are reported.

use belljar_base::{DisjointSets, HostId, Map, SimTime};
use belljar_config::topology::{Device, DeviceKind};
use belljar_config::{Action, CrashFiles, Experiment, Host, HostSet, Refusal, StraceMode};
use belljar_plan::Occurrence;

/// Maximum length of an interface name.
const LONGEST_NAME: usize = 15;

/// Parts of an experiment that an emulation does not support. `all_users`: the machine's users exist in the
/// emulation; `is_dilated`: the time of its nodes is dilated.
pub fn refusals(experiment: &Experiment, all_users: bool, is_dilated: bool) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for host in &experiment.hosts {
        of_host(host, all_users, &mut refused);
    }
    for device in &experiment.topology.devices {
        of_device(device, is_dilated, &mut refused);
    }
    for occurrence in belljar_plan::occurrences(experiment).iter().filter(|occurrence| !occurrence.ends) {
        refused.extend(of_event(experiment, occurrence));
    }
    refused.extend(experiment.timed_properties());
    if experiment.general.stop_time == SimTime::MAX {
        refused.push(Refusal::new("general", "the experiment has no end", "set 'general.stop_time'"));
    }
    refused
}

fn of_host(host: &Host, all_users: bool, refused: &mut Vec<Refusal>) {
    let name = &host.name;
    let mut refuse = |key: &str, message: String, help: &str| {
        refused.push(Refusal::new(format!("hosts.{name}.{key}"), format!("host '{name}': {message}"), help));
    };
    if let Some(model) = host.models.first() {
        let model = &model.spec.name;
        let message = format!("traffic models such as '{model}' exist in simulations alone");
        refuse("processes.model", message, "run a program that makes the traffic");
    }
    if host.machine.is_some() {
        let message = "a whole machine keeps a simulation's time, not this machine's".to_owned();
        refuse("machine", message, "leave 'machine' out");
    }
    for process in host.processes.iter().filter(|_| !all_users) {
        if let Some(user) = process.user.as_ref().filter(|user| !matches!(&***user, "root" | "0")) {
            let program = process.program_name();
            let message =
                format!("'{program}' is to run as user '{user}', and without root there is one user");
            let help = "run as root, let the machine lend you ids (newuidmap of 'uidmap', with lines of yours in \
                        /etc/subuid and /etc/subgid), or leave out 'user'";
            refuse("processes.user", message, help);
        }
    }
    for interface in host.interfaces.iter().filter(|interface| interface.name.len() > LONGEST_NAME) {
        refused.push(too_long("hosts", name, &interface.name));
    }
}

fn of_device(device: &Device, is_dilated: bool, refused: &mut Vec<Refusal>) {
    let (name, (noun, section)) = (&device.name, device.kind.noun());
    let mut refuse = |key: &str, message: &str, help: &str| {
        refused.push(Refusal::new(
            format!("{section}.{name}{key}"),
            format!("{noun} '{name}': {message}"),
            help,
        ));
    };
    match &device.kind {
        DeviceKind::P4(switch) if switch.trace => {
            refuse(
                ".trace",
                "traces of P4 switches are for simulations",
                "leave 'trace' out, or run a simulation",
            );
        }
        DeviceKind::Simulator(_) => refuse(
            "",
            "other simulators keep a simulation's time, not this machine's",
            "run a simulation, or leave it out",
        ),
        DeviceKind::Radio(_) => {
            refuse("", "radio channels are for simulations", "run a simulation, or replace it by links")
        }
        DeviceKind::Nic(_) => refuse(
            "",
            "a simulated controller keeps a simulation's time, not this machine's",
            "run a simulation, or leave it out",
        ),
        DeviceKind::Memory(_) => refuse(
            "",
            "a simulated memory keeps a simulation's time, not this machine's",
            "run a simulation, or leave it out",
        ),
        DeviceKind::Router(router) if router.clamp_mss.is_some() => refuse(
            ".clamp_mss",
            "'clamp_mss' needs a firewall rule of the kernel, which is not made",
            "leave it out",
        ),
        DeviceKind::Gateway(_) if is_dilated => {
            refuse("", "time outside is not dilated as that of the hosts", "leave '--tdf' out")
        }
        _ => {}
    }
    for interface in device.interfaces.iter().filter(|interface| interface.name.len() > LONGEST_NAME) {
        refused.push(too_long(section, name, &interface.name));
    }
}

fn of_event(experiment: &Experiment, occurrence: &Occurrence) -> Option<Refusal> {
    let path = |key: &str| format!("events.{}.{key}", experiment.events[occurrence.event as usize].number);
    match &occurrence.action {
        Action::Crash { files: CrashFiles::Lost, .. } => Some(Refusal::new(
            path("files"),
            "the crash is to lose files, which the kernel's overlay keeps",
            "leave 'files' out",
        )),
        Action::Cpu { .. } => Some(Refusal::new(
            path("cpu"),
            "the processors of emulated hosts are this machine's, which runs their programs as it sees fit",
            "leave the event out, or run a simulation",
        )),
        Action::PauseProcess(..) => Some(Refusal::new(
            path("process"),
            "the processes of an emulated host are the kernel's, which stops them by signals that their parents see",
            "write signal: SIGSTOP, and later SIGCONT, or run a simulation",
        )),
        Action::Pause(_) => Some(Refusal::new(
            path("pause"),
            "the network of an emulated host is the kernel's, which goes on while its programs stand still",
            "write signal: SIGSTOP, and later SIGCONT, or run a simulation",
        )),
        Action::Crash { files: CrashFiles::Unsynced { .. }, .. } => Some(Refusal::new(
            path("files"),
            "the crash is to lose what is not synced, which this machine's page cache keeps",
            "leave 'files' and 'disk' out, or run a simulation",
        )),
        Action::DiskFault { .. } | Action::DiskHeal(_) => Some(Refusal::new(
            path(if matches!(occurrence.action, Action::DiskHeal(_)) { "disk_heal" } else { "disk_fault" }),
            "the disk of an emulated host is this machine's",
            "leave the event out, or run a simulation",
        )),
        Action::ConnectionReset { .. } => Some(Refusal::new(
            path("connection_reset"),
            "the connections of an emulated host are the kernel's",
            "leave the event out, or run a simulation",
        )),
        Action::CallFault { .. } => Some(Refusal::new(
            path("call_faults"),
            "the system calls of an emulated host are the kernel's",
            "leave the event out, or run a simulation",
        )),
        Action::DnsAnswers { .. } => Some(Refusal::new(
            path("dns_answers"),
            "the name server of an emulation answers all hosts alike",
            "write dns_down for no answers at all, or run a simulation",
        )),
        Action::Memory { .. } => Some(Refusal::new(
            path("memory"),
            "the memory of an emulated host is this machine's",
            "leave the event out, or run a simulation",
        )),
        Action::Restart { root: Some(_), .. } => Some(Refusal::new(
            path("root"),
            "an emulated host has the same root to its end",
            "leave 'root' and 'keep' out, or run a simulation",
        )),
        Action::Upgrade { .. } => Some(Refusal::new(
            path("upgrade"),
            "an emulation does not wait for the end of a process to start another one",
            "write signal: SIGTERM, and later start: PROGRAM, or run a simulation",
        )),
        Action::Kill(..) => Some(Refusal::new(
            path("kill"),
            "the processes of an emulated host are the kernel's, and those that programs start have no names here",
            "write signal: SIGKILL and process: PROGRAM, and later start: PROGRAM, or run a simulation",
        )),
        Action::Partition(groups) => {
            let [one, other] = connected_apart(experiment, groups)?.map(|node| experiment.node_name(node));
            Some(Refusal::new(
                path("partition"),
                format!(
                    "the partition leaves '{one}' and '{other}' connected through switches and routers of no group"
                ),
                "name those of each side too, or write link_down: LINK",
            ))
        }
        _ => None,
    }
}

/// Two hosts of different groups that links connect when all links between the groups are cut.
fn connected_apart(experiment: &Experiment, groups: &[HostSet]) -> Option<[HostId; 2]> {
    let group = |node: HostId| groups.iter().position(|group| group.may_hold(node));
    let mut connected = DisjointSets::new(experiment.node_count());
    for link in &experiment.topology.links {
        let nodes = [link.ends[0].node, link.ends[1].node];
        let is_cut = matches!(nodes.map(group), [Some(one), Some(other)] if one != other);
        if !is_cut {
            connected.join(nodes[0].index(), nodes[1].index());
        }
    }
    let mut first: Map<usize, HostId> = Map::new();
    for host in (0..experiment.hosts.len() as u32).map(HostId).filter(|host| group(*host).is_some()) {
        let other = *first.entry(connected.smallest(host.index())).or_insert(host);
        if group(other) != group(host) {
            return Some([other, host]);
        }
    }
    None
}

fn too_long(section: &str, node: &str, interface: &str) -> Refusal {
    Refusal::new(
        format!("{section}.{node}.interfaces.{interface}"),
        format!(
            "interface '{interface}' of '{node}': Linux's names of interfaces have at most {LONGEST_NAME} bytes"
        ),
        "give it a shorter name",
    )
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
        all.push("offsets, drifts, steps and 'reading' of hosts' clocks have no effect".into());
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
    if experiment.hosts.iter().any(|host| host.memory.is_some()) {
        all.push("'memory' has no effect: memory is this machine's".into());
    }
    if experiment.hosts.iter().any(|host| host.cpu_count.is_some()) {
        all.push("'cpu_count' has no effect: processors are this machine's".into());
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
    if experiment.belljar.route_log {
        all.push("changes of routes are not logged".into());
    }
    let buffers = &experiment.experimental;
    if buffers.socket_send_buffer.or(buffers.socket_recv_buffer).is_some() {
        all.push(
            "'socket_send_buffer' and 'socket_recv_buffer' have no effect: set 'sysctls' instead".into(),
        );
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
        let refused = refusals(&experiment, all_users, false);
        refused.into_iter().map(|refusal| refusal.message).collect()
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
        told(&crash, true, "the crash is to lose files");
        let clamp = "routers: { r: { clamp_mss: 1200 } }\nhosts: { a: { processes: [] } }\nlinks: [{ between: [a, r] }]\n";
        told(clamp, true, "router 'r': 'clamp_mss'");
        let star = |groups: &str| {
            format!(
                "switches: [s]\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\n\
                 links: [{{ between: [a, s] }}, {{ between: [b, s] }}]\nevents: [{{ at: 1 s, partition: {groups} }}]\n"
            )
        };
        told(&star("[[a], [b]]"), true, "leaves 'a' and 'b' connected");
        assert_eq!(refused(&star("[[a], [b, s]]"), true), [""; 0]);
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let text = "general: { stop_time: 10 }\nnetwork: { graph: { type: 1_gbit_switch } }\n\
            hosts: { a: { network_node_id: 0, clock: { offset: 1 s }, cpu_count: 1, processes: [] } }\n";
        let experiment = Experiment::parse_in("test.yaml", text, &PathContext::default()).unwrap();
        let all = differences(&experiment, None, false);
        assert_eq!(all.len(), 4, "{all:?}");
        assert!(all[2].contains("clocks have no effect"), "{all:?}");
        assert!(all[3].contains("'cpu_count' has no effect"), "{all:?}");
    }
}
