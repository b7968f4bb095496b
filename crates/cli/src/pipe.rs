//! `belljar run --pcap-pipe HOST:IF`: the packets of an interface on standard output.

use crate::failure::Failure;
use belljar_base::HostId;
use belljar_config::Experiment;
use belljar_net::suggest::nearest;
use belljar_results::PacketPipe;
use std::io::{self, IsTerminal};
use std::sync::Arc;

/// Parses a host or device and its interface.
pub fn parse(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((node, interface)) if !node.is_empty() && !interface.is_empty() => {
            Ok((node.into(), interface.into()))
        }
        _ => Err("write a host and an interface of it, as in alice:eth0".into()),
    }
}

/// Checks that there is such an interface, and that nothing else uses standard output. `together` is set for a run of several
/// processes, and is the remedy to print.
pub fn check(
    experiment: &Experiment,
    node: &str,
    interface: &str,
    together: Option<&str>,
    writes_log: bool,
) -> Result<(), Failure> {
    find(experiment, node, interface)?;
    if let Some(remedy) = together {
        return Err(Failure::usage(format!("--pcap-pipe is for a run of one process: {remedy}")));
    }
    if writes_log {
        return Err(Failure::usage(
            "--pcap-pipe needs standard output for the packets: leave out general.progress, which writes the log there",
        ));
    }
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "--pcap-pipe writes bytes that are not for a terminal: append | wireshark -k -i -, or > {node}.pcap"
        )));
    }
    Ok(())
}

/// Begins the stream on standard output.
pub fn open(experiment: &Experiment, node: &str, interface: &str) -> Result<Arc<PacketPipe>, Failure> {
    let ethernet = find(experiment, node, interface)?;
    let begun =
        PacketPipe::new(node, interface, ethernet, experiment.belljar.start_date, Box::new(io::stdout()));
    begun.map(Arc::new).map_err(|error| Failure::run(format!("the packets cannot be written: {error}")))
}

/// True if the interface is at a link, whose packets are Ethernet frames.
fn find(experiment: &Experiment, node: &str, interface: &str) -> Result<bool, Failure> {
    let help = |near: Option<&str>, all: &mut dyn Iterator<Item = &str>| match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are {}", all.take(8).collect::<Vec<_>>().join(", ")),
    };
    let Some(id) = experiment.node_names().position(|name| name == node) else {
        let help = help(nearest(node, experiment.node_names()), &mut experiment.node_names());
        return Err(Failure::usage(format!("--pcap-pipe: there is no host or device '{node}': {help}")));
    };
    let linked = experiment.node_interfaces(HostId(id as u32)).iter().map(|own| own.name.as_str());
    if linked.clone().any(|own| own == interface) {
        return Ok(true);
    }
    let known: Vec<&str> = match experiment.hosts.get(id) {
        Some(host) => host.interface_names().collect(),
        None => linked.collect(),
    };
    if known.contains(&interface) {
        return Ok(false);
    }
    let help = help(nearest(interface, known.iter().copied()), &mut known.iter().copied());
    Err(Failure::usage(format!("--pcap-pipe: '{node}' has no interface '{interface}': {help}")))
}
