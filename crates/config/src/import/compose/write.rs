//! Writes the experiment of a Compose file.

use super::service::Service;
use super::values::Reader;
use crate::emit::quoted;
use crate::error::Problem;
use crate::import::Imported;
use crate::import::write::{heading, noted};
use belljar_base::{Map, Set};
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

/// Least simulated time, and the time after the start of the last service, in seconds.
const STOP_TIME: u64 = 60;

/// The experiment, with the notes.
pub(super) fn experiment(services: &[Service], reader: &mut Reader<'_>) -> Result<Imported, Problem> {
    let addresses = addresses(services)?;
    let mut out = heading(reader.source);
    let last = services.iter().map(|service| service.start).max().unwrap_or_default();
    let _ = writeln!(out, "general: {{stop_time: {} s}}", last.div_ceil(1_000) + STOP_TIME);
    out.push_str("network: {graph: {type: 1_gbit_switch}}\n");
    let records = records(services, &addresses);
    if !records.is_empty() {
        out.push_str("belljar:\n  dns:\n    records:\n");
        for record in &records {
            let _ = writeln!(out, "    - {record}");
        }
    }
    out.push_str("hosts:\n");
    for service in services {
        service
            .hosts
            .iter()
            .for_each(|name| host(&mut out, name, service, &addresses, reader.options.folder));
    }
    let mut events = String::new();
    for (n, service) in services.iter().enumerate() {
        for other in &services[n + 1..] {
            if service.networks.is_disjoint(&other.networks) {
                let list = |service: &Service| words(&service.hosts);
                let _ =
                    writeln!(events, "- {{at: 0 s, link_down: [[{}], [{}]]}}", list(service), list(other));
            }
        }
    }
    if !events.is_empty() {
        let _ = write!(out, "events:   # services without a common network\n{events}");
    }
    let note = |(at, text): &(crate::import::At, String)| noted(reader.source, at.line, text);
    Ok(Imported { yaml: out, notes: reader.notes.iter().map(note).collect() })
}

/// Addresses of all hosts: those of the file, or the next of 11.0.0.0/8.
fn addresses(services: &[Service]) -> Result<Map<String, Ipv4Addr>, Problem> {
    let mut all = Map::new();
    let mut taken = Set::new();
    for service in services {
        let Some(text) = &service.address else { continue };
        let bad = |what: &str| {
            Problem::at(service.span, format!("the address '{text}' of service '{}' {what}", service.name))
        };
        let address = text.parse::<Ipv4Addr>().map_err(|_| bad("is no IPv4 address"))?;
        if service.hosts.len() > 1 {
            return Err(bad("cannot be that of several replicas").help("leave 'ipv4_address' out"));
        }
        if !taken.insert(address) {
            return Err(bad("is that of another service, too"));
        }
        all.insert(service.hosts[0].clone(), address);
    }
    let mut free = (1u32..).map(|n| Ipv4Addr::from(u32::from(Ipv4Addr::new(11, 0, 0, 0)) + n));
    for name in services.iter().flat_map(|service| &service.hosts) {
        if !all.contains_key(name) {
            let address =
                free.find(|address| !taken.contains(address) && !matches!(address.octets()[3], 0 | 255));
            all.extend(address.map(|address| (name.clone(), address)));
        }
    }
    let count: usize = services.iter().map(|service| service.hosts.len()).sum();
    match all.len() == count {
        true => Ok(all),
        false => {
            Err(Problem::whole_file("two services would have hosts of the same name")
                .help("rename one of them"))
        }
    }
}

/// DNS records of names that are no hosts'.
fn records(services: &[Service], addresses: &Map<String, Ipv4Addr>) -> Set<String> {
    let mut records = Set::new();
    for service in services {
        for alias in service.aliases.iter().filter(|alias| !addresses.contains_key(*alias)) {
            for host in &service.hosts {
                records.extend(
                    addresses
                        .get(host)
                        .map(|address| format!("{}. A {address}", alias.trim_end_matches('.'))),
                );
            }
        }
        records.extend(service.extra_hosts.iter().map(|(name, address)| format!("{name}. A {address}")));
    }
    records
}

fn host(out: &mut String, name: &str, service: &Service, addresses: &Map<String, Ipv4Addr>, folder: &Path) {
    let _ = writeln!(out, "  {}:\n    network_node_id: 0", quoted(name));
    if let Some(address) = addresses.get(name) {
        let _ = writeln!(out, "    ip_addr: {address}");
    }
    if let Some(root) = &service.root {
        let _ = writeln!(out, "    root: {}", quoted(&shown(root, folder)));
    }
    if let Some(bytes) = service.memory {
        let _ = writeln!(out, "    memory: {bytes} B");
    }
    if let Some(count) = service.cpu_count.filter(|count| *count > 1) {
        let _ = writeln!(out, "    cpu_count: {count}");
    }
    // Directories are shared, so that a file's folder is.
    let folder_of = |source: &Path| {
        if source.is_dir() { source.to_owned() } else { source.parent().unwrap_or(source).to_owned() }
    };
    let shared: Set<String> =
        service.binds.iter().map(|(source, _)| folder_of(source).display().to_string()).collect();
    if !service.sysctls.is_empty() || !shared.is_empty() {
        let sysctls: Vec<String> = service
            .sysctls
            .iter()
            .map(|(name, value)| format!("{}: {}", quoted(name), quoted(value)))
            .collect();
        let options = [
            ("sysctls", sysctls, ['{', '}']),
            ("shared", shared.iter().map(|path| quoted(path)).collect(), ['[', ']']),
        ];
        let options = options.iter().filter(|(_, values, _)| !values.is_empty());
        let options: Vec<String> = options
            .map(|(key, values, [open, close])| format!("{key}: {open}{}{close}", values.join(", ")))
            .collect();
        let _ = writeln!(out, "    host_options: {{{}}}", options.join(", "));
    }
    if !service.binds.is_empty() {
        let copies: Vec<String> =
            service.binds.iter().map(|(source, target)| quoted(&copy(source, target))).collect();
        let _ = writeln!(out, "    setup: [{}]", copies.join(", "));
    }
    out.push_str("    processes:\n");
    let mut keys = Vec::new();
    keys.extend(service.path.iter().map(|path| format!("path: {}", quoted(path))));
    keys.extend(
        service.args.iter().filter(|args| !args.is_empty()).map(|args| format!("args: [{}]", words(args))),
    );
    if !service.environment.is_empty() {
        let all =
            service.environment.iter().map(|(name, value)| format!("{}: {}", quoted(name), text(value)));
        keys.push(format!("environment: {{{}}}", all.collect::<Vec<_>>().join(", ")));
    }
    keys.extend(service.user.iter().map(|user| format!("user: {}", text(user))));
    if service.start > 0 {
        keys.push(format!("start_time: {} ms", service.start));
    }
    keys.extend(service.stop_signal.iter().map(|signal| format!("shutdown_signal: {signal}")));
    keys.push(format!("expected_final_state: {}", service.expects));
    let _ = writeln!(out, "    - {{{}}}", keys.join(", "));
}

/// Shell command that copies a file or the content of a folder.
fn copy(source: &Path, target: &str) -> String {
    let word = |text: &str| shell_words::quote(text).into_owned();
    let (from, to) = (word(&source.display().to_string()), word(target));
    match source.is_dir() {
        true => format!("mkdir -p {to} && cp -a {from}/. {to}/"),
        false => {
            let parent = Path::new(target).parent().unwrap_or(Path::new("/"));
            format!("mkdir -p {} && cp -a {from} {to}", word(&parent.display().to_string()))
        }
    }
}

fn words(words: &[String]) -> String {
    words.iter().map(|word| text(word)).collect::<Vec<_>>().join(", ")
}

/// A string, in quotes where it could be taken for a number.
fn text(value: &str) -> String {
    let plain = quoted(value);
    match plain.starts_with('"') || value.parse::<f64>().is_err() {
        true => plain,
        false => format!("\"{value}\""),
    }
}

/// Path relative to the experiment's folder if it is in it.
fn shown(path: &Path, folder: &Path) -> String {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = folder.canonicalize().unwrap_or(folder.to_owned());
    path.strip_prefix(&folder).unwrap_or(path).display().to_string()
}
