//! Capture filters: `pcap_filter` among the options of hosts.

use crate::error::Problem;
use crate::model::{CaptureFilter, Experiment, Host, HostOptions};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Node, Section, Value};
use belljar_net::Filter;
use belljar_net::suggest::nearest;

const KEY: &str = "pcap_filter";
/// Section of the defaults, as named in messages.
const DEFAULTS: &str = "'host_option_defaults'";

/// `tcp port 80`, or `{ eth0: tcp port 80, lo: false }`. The syntax of filters is checked once all addresses
/// are known.
pub(super) fn read(node: &Node, key: &str) -> Result<CaptureFilter, Problem> {
    match &node.value {
        Value::Mapping(entries) => {
            let own = entries.iter().map(|entry| Ok((entry.key.clone(), one(&entry.value, &entry.key)?)));
            own.collect::<Result<_, Problem>>().map(CaptureFilter::ByInterface)
        }
        _ => match one(node, key)? {
            Some(packets) => Ok(CaptureFilter::Packets(packets)),
            None => Err(node.problem("'pcap_filter' cannot be false").help("write pcap_enabled: false")),
        },
    }
}

/// A filter, or `None` for `false`, which captures no packets.
fn one(node: &Node, key: &str) -> Result<Option<String>, Problem> {
    if matches!(section::boolean(node, key), Ok(false)) {
        return Ok(None);
    }
    section::string(node, key).map(|text| Some(text.to_owned()))
}

/// Note about hosts with settings of captures that are not captured.
pub(super) fn note(experiment: &Experiment) -> Option<String> {
    let usual = HostOptions::default();
    let is_idle = |host: &&Host| {
        let options = &host.options;
        let is_set =
            options.pcap_filter != usual.pcap_filter || options.pcap_capture_size != usual.pcap_capture_size;
        is_set && !options.pcap_enabled
    };
    let idle: Vec<&str> = experiment.hosts.iter().filter(is_idle).map(|host| host.name.as_str()).collect();
    let hosts = match &idle[..] {
        [] => return None,
        [one] => format!("host '{one}'"),
        [first, rest @ ..] => format!("host '{first}' and {} more", rest.len()),
    };
    Some(format!(
        "'pcap_filter' and 'pcap_capture_size' have no effect on {hosts}: write pcap_enabled: true, or run with --pcap"
    ))
}

/// Checks all filters of a file against the experiment loaded from it.
pub(super) fn check(file: &Section, experiment: &Experiment) -> Result<(), Problem> {
    let defaults = file.get("host_option_defaults").and_then(|node| filter_of(node));
    if let Some(node) = defaults {
        let all = (0..experiment.node_count() as u32).map(belljar_base::HostId);
        let interfaces = all.flat_map(|id| experiment.node_interfaces(id)).map(|i| i.name.as_str());
        check_one(node, DEFAULTS, interfaces.chain(["lo", "eth0"]).collect(), experiment)?;
    }
    let Some(hosts) = file.get("hosts") else { return Ok(()) };
    for entry in mapping(hosts, "section 'hosts'")? {
        let Value::Mapping(keys) = &entry.value.value else { continue };
        let options = keys.iter().find(|key| key.key == "host_options").map(|key| &*key.value);
        let (Some(node), Some(id)) = (options.and_then(filter_of), experiment.host_by_name(&entry.key))
        else {
            continue;
        };
        let host = &experiment.hosts[id.index()];
        let mut interfaces: Vec<&str> = host.interfaces.iter().map(|i| i.name.as_str()).collect();
        interfaces.push("lo");
        if host.node.is_some() {
            interfaces.push("eth0");
        }
        check_one(node, &format!("host '{}'", entry.key), interfaces, experiment)?;
    }
    Ok(())
}

/// The capture filter among the options of a host.
fn filter_of(options: &Node) -> Option<&Node> {
    options.entry(KEY).map(|entry| &*entry.value)
}

fn check_one(
    node: &Node,
    place: &str,
    interfaces: Vec<&str>,
    experiment: &Experiment,
) -> Result<(), Problem> {
    let Value::Mapping(entries) = &node.value else { return check_text(node, experiment) };
    for entry in entries {
        if !interfaces.contains(&entry.key.as_str()) {
            let message = format!("{place} has no interface '{}'", entry.key);
            let problem = Problem::at(entry.key_span, message).relational();
            let near =
                nearest(&entry.key, interfaces.iter().copied()).map(|near| format!("did you mean '{near}'?"));
            return Err(problem.help(near.unwrap_or_else(|| format!("there are {}", interfaces.join(", ")))));
        }
        check_text(&entry.value, experiment)?;
    }
    Ok(())
}

fn check_text(node: &Node, experiment: &Experiment) -> Result<(), Problem> {
    match one(node, KEY)? {
        Some(text) => check_filter(node, &text, experiment),
        None => Ok(()),
    }
}

/// Checks a filter in tcpdump's syntax.
pub(super) fn check_filter(node: &Node, text: &str, experiment: &Experiment) -> Result<(), Problem> {
    match Filter::parse(text, &|name| experiment.addresses_of(name)) {
        Ok(_) => Ok(()),
        Err(why) => Err(node
            .problem(format!("this filter cannot be read: {why}"))
            .help("write it as for tcpdump: tcp port 80 and not host alice")),
    }
}
