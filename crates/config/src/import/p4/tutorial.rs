//! `topology.json` of the P4 tutorials: hosts with addresses and commands, switches with runtime files, and links as
//! `[node, node, latency, Mbit/s]`, where a switch's end is written `s1-p2`.

use super::{Link, Network, Options, Switch, bandwidth, delay, entry, number, part};
use crate::error::{Problem, Source};
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Entry, Node};

const HELP: &str = "a topology.json of the P4 tutorials has hosts, switches and links";

pub(super) fn read(source: &Source, network: &mut Network, options: &Options) -> Result<(), Problem> {
    let tree = yaml::parse(&source.text)?.ok_or_else(|| Problem::whole_file("this file is empty"))?;
    let top = mapping(&tree, "the topology")?;
    network.note_others(top, &["hosts", "switches", "links"], "the topology");
    for entry in part(&tree, "hosts", "the topology", HELP)? {
        host(network, entry)?;
    }
    for entry in part(&tree, "switches", "the topology", HELP)? {
        switch(network, entry, options)?;
    }
    let links = entry(top, "links").ok_or_else(|| Problem::whole_file("there are no links").help(HELP))?;
    for one in section::list(&links.value, "links")? {
        link(network, one)?;
    }
    Ok(())
}

fn host(network: &mut Network, host: &Entry) -> Result<(), Problem> {
    let name = network.name(host)?;
    let entries = mapping(&host.value, &format!("host '{name}'"))?;
    network.note_others(entries, &["ip", "mac", "commands"], &format!("host '{name}'"));
    let text = |key: &str| entry(entries, key).map(|e| section::string(&e.value, key)).transpose();
    let own = (text("ip")?.map(str::to_owned), text("mac")?.map(str::to_ascii_lowercase));
    let made = network.hosts.entry(name).or_default();
    made.interfaces.insert("eth0".to_owned(), own);
    if let Some(commands) = entry(entries, "commands") {
        for command in section::list(&commands.value, "commands")? {
            made.command(command.span, section::string(command, "commands")?);
        }
    }
    Ok(())
}

fn switch(network: &mut Network, switch: &Entry, options: &Options) -> Result<(), Problem> {
    let name = network.name(switch)?;
    let entries = mapping(&switch.value, &format!("switch '{name}'"))?;
    let known = ["runtime_json", "cli_input", "program", "priority_queues"];
    network.note_others(entries, &known, &format!("switch '{name}'"));
    let file = |key: &str| {
        let found = entry(entries, key);
        found.map(|e| network.file(section::string(&e.value, key)?, e.value.span)).transpose()
    };
    let (runtime, commands) = (file("runtime_json")?, file("cli_input")?);
    let queues =
        entry(entries, "priority_queues").map(|e| number(&e.value, "priority_queues")).transpose()?;
    let program = match entry(entries, "program") {
        Some(e) => {
            let written = section::string(&e.value, "program")?;
            network.program(written).ok_or_else(|| {
                e.value
                    .problem(format!(
                        "neither '{written}' nor the P4 source that it is compiled from is there"
                    ))
                    .help("put the .p4 file beside the topology")
            })?
        }
        None => {
            let compiled = runtime.as_deref().and_then(compiled);
            let named = || compiled.and_then(|name| network.program(&name));
            let found = if options.program.is_some() { None } else { named() };
            found.or_else(|| network.default_program(options)).ok_or_else(|| {
                Problem::at(
                    switch.key_span,
                    format!("the file does not say which program switch '{name}' runs"),
                )
                .help("add --p4 PROGRAM.p4")
            })?
        }
    };
    let queues = queues.map(|queues| queues as u64);
    network.switches.insert(name, Switch { program, runtime, commands, queues });
    Ok(())
}

/// The compiled program to which a runtime file belongs.
fn compiled(runtime: &std::path::Path) -> Option<String> {
    let text = belljar_inputs::read_text(runtime).ok()?;
    let tree = yaml::parse(&text).ok()??;
    let named = entry(mapping(&tree, "").ok()?, "bmv2_json")?;
    section::string(&named.value, "").ok().map(str::to_owned)
}

fn link(network: &mut Network, link: &Node) -> Result<(), Problem> {
    let parts = section::list(link, "a link")?;
    let [first, second, rest @ ..] = parts else {
        return Err(link.problem("a link has two ends").help("write [\"h1\", \"s1-p1\"]"));
    };
    let mut made = Link { ends: [end(network, first)?, end(network, second)?], settings: Vec::new() };
    if let Some(latency) = rest.first() {
        made.settings.extend(delay(latency, "latency")?.map(|latency| ("latency", latency)));
    }
    if let Some(rate) = rest.get(1) {
        made.settings.push(("rate", bandwidth(rate, "bandwidth")?));
    }
    if let Some(more) = rest.get(2) {
        network.note(more.span, "a link has a latency and a bandwidth: more is not taken over");
    }
    network.links.push(made);
    Ok(())
}

/// `h1`, or `s1-p2`: port 2 of a switch.
fn end(network: &Network, node: &Node) -> Result<String, Problem> {
    let text = section::string(node, "an end of a link")?;
    let name = super::node_name(text);
    if network.hosts.contains_key(&name) {
        return Ok(format!("{name}:eth0"));
    }
    let port = |(name, port): (&str, &str)| {
        let number = port.strip_prefix(|letter: char| letter.is_ascii_alphabetic())?.parse::<u16>().ok()?;
        network.switches.contains_key(name).then(|| format!("{name}:p{number}"))
    };
    name.rsplit_once('-').and_then(port).ok_or_else(|| {
        node.problem(format!("'{text}' is neither a host nor a port of a switch"))
            .help("write the name of a host, or that of a switch and its port, such as s1-p2")
    })
}
