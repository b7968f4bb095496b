//! One service of a Compose file.

use super::values::{Reader, names};
use crate::error::{Problem, Span};
use crate::import::node_name;
use crate::yaml::section::{self, mapping};
use crate::yaml::{Entry, Node};
use belljar_base::{Map, Set};
use std::path::PathBuf;

/// Milliseconds between two health checks unless the file says otherwise, and within `start_period`.
const INTERVAL: u64 = 30_000;
const START_INTERVAL: u64 = 5_000;
/// Most replicas of a service.
const MOST_REPLICAS: u64 = 1_000;
/// Keys of a service without an effect on what it computes.
const WITHOUT_EFFECT: [&str; 11] = [
    "attach",
    "expose",
    "init",
    "labels",
    "logging",
    "platform",
    "pull_policy",
    "stdin_open",
    "tty",
    "stop_grace_period",
    "annotations",
];

/// Moment for which a dependent service waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waits {
    Started,
    Healthy,
    Completed,
}

/// A service.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) name: String,
    pub(super) line: usize,
    pub(super) span: Span,
    /// Names of its hosts, one for each replica.
    pub(super) hosts: Vec<String>,
    /// Other names by which it is reached.
    pub(super) aliases: Set<String>,
    pub(super) root: Option<PathBuf>,
    pub(super) path: Option<String>,
    pub(super) args: Option<Vec<String>>,
    pub(super) environment: Map<String, String>,
    pub(super) user: Option<String>,
    pub(super) memory: Option<u64>,
    pub(super) cpu_count: Option<u64>,
    pub(super) address: Option<String>,
    pub(super) sysctls: Vec<(String, String)>,
    /// Directories and files of this machine, with the paths at which the service has them.
    pub(super) binds: Vec<(PathBuf, String)>,
    pub(super) networks: Set<String>,
    /// Names and addresses of `extra_hosts`.
    pub(super) extra_hosts: Vec<(String, String)>,
    pub(super) depends: Vec<(String, Waits)>,
    /// Milliseconds after its start at which it counts as healthy.
    pub(super) healthy_after: u64,
    /// Start in milliseconds.
    pub(super) start: u64,
    pub(super) expects: String,
    pub(super) stop_signal: Option<String>,
}

/// Reads a service; `None` if its profile leaves it out.
pub(super) fn read(
    entry: &Entry,
    project: &str,
    reader: &mut Reader<'_>,
) -> Result<Option<Service>, Problem> {
    let (name, line) = (entry.key.clone(), entry.key_span.line);
    let host = node_name(&name.replace('_', "-"));
    if host.is_empty() {
        return Err(Problem::at(entry.key_span, format!("'{name}' cannot be a host's name")));
    }
    let keys = mapping(&entry.value, "a service")?;
    if keys.iter().any(|key| key.key == "profiles") {
        reader.note(line, format!("service '{name}' is left out: it belongs to a profile"));
        return Ok(None);
    }
    let mut service = Service {
        name: name.clone(),
        line,
        span: entry.key_span,
        hosts: vec![host.clone()],
        aliases: Set::new(),
        root: None,
        path: None,
        args: None,
        environment: Map::new(),
        user: None,
        memory: None,
        cpu_count: None,
        address: None,
        sysctls: Vec::new(),
        binds: Vec::new(),
        networks: Set::from(["default".to_owned()]),
        extra_hosts: Vec::new(),
        depends: Vec::new(),
        healthy_after: INTERVAL,
        start: 0,
        expects: "running".to_owned(),
        stop_signal: None,
    };
    if host != name {
        service.aliases.insert(name.clone());
    }
    let (mut image, mut entrypoint, mut command, mut own) = (None, None, None, Map::new());
    for key in keys {
        let (node, at) = (&*key.value, key.key_span.line);
        match key.key.as_str() {
            "image" => image = Some(reader.text(node, "image")?),
            "build" => {}
            "command" if node.is_null() => {}
            "command" => command = Some(reader.command(node, "command")?),
            "entrypoint" if node.is_null() => {}
            "entrypoint" => entrypoint = Some(reader.command(node, "entrypoint")?),
            "environment" => {
                for (variable, value) in reader.pairs(node, "environment")? {
                    match value {
                        Some(value) => drop(own.insert(variable, value)),
                        None => reader.note(at, format!("variable '{variable}' of '{name}' is not set: variables of this machine are not taken over")),
                    }
                }
            }
            "env_file" => service.environment = reader.files_of_variables(node)?,
            "user" => service.user = Some(reader.text(node, "user")?.split(':').next().unwrap_or_default().to_owned()),
            "hostname" | "container_name" => drop(service.aliases.insert(reader.text(node, &key.key)?)),
            "depends_on" => service.depends = depends(node)?,
            "networks" => networks(&mut service, node, reader)?,
            "network_mode" => {
                let mode = reader.text(node, "network_mode")?;
                match mode.as_str() {
                    "none" => service.networks.clear(),
                    "bridge" => {}
                    _ => reader.note(at, format!("'network_mode: {mode}' of '{name}' is not taken over: it has a network of its own")),
                }
            }
            "volumes" => volumes(&mut service, node, reader)?,
            "tmpfs" => reader.note(at, format!("'tmpfs' of '{name}' is an ordinary folder, which a crash keeps")),
            "ports" => reader.note(at, format!("'ports' of '{name}' are not published: other hosts reach all of its ports, this machine none")),
            "healthcheck" => healthcheck(&mut service, node, reader)?,
            "restart" => restart(&mut service, node, reader, at)?,
            "scale" => replicas(&mut service, section::whole(node, "scale", MOST_REPLICAS)?, node)?,
            "deploy" => deploy(&mut service, node, reader)?,
            "mem_limit" => service.memory = Some(reader.bytes(node, "mem_limit")?),
            "cpus" => service.cpu_count = Some(cpus(&reader.text(node, "cpus")?, node)?),
            "sysctls" => {
                let all = reader.pairs(node, "sysctls")?;
                service.sysctls = all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
            }
            "extra_hosts" => {
                for (text, value) in reader.pairs(node, "extra_hosts")? {
                    let pair = value.map(|value| (text.clone(), value));
                    let pair = pair.or_else(|| text.split_once(':').map(|(a, b)| (a.to_owned(), b.to_owned())));
                    service.extra_hosts.extend(pair);
                }
            }
            "stop_signal" => service.stop_signal = Some(reader.text(node, "stop_signal")?),
            known if WITHOUT_EFFECT.contains(&known) || known.starts_with("x-") => {}
            other => reader.note(at, format!("'{other}' of service '{name}' is not taken over")),
        }
    }
    service.environment.extend(own);
    find_root(&mut service, image.as_deref(), project, entry, reader)?;
    program(&mut service, entrypoint, command, entry)?;
    Ok(Some(service))
}

/// Finds the image: the archive or folder that `image` names, or one beside the file with the image's or the service's name.
fn find_root(
    service: &mut Service,
    image: Option<&str>,
    project: &str,
    entry: &Entry,
    reader: &mut Reader<'_>,
) -> Result<(), Problem> {
    let mut tried: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    if let Some(image) = image {
        if reader.beside.path(image).exists() {
            service.root = Some(reader.beside.path(image));
            return Ok(());
        }
        let last = image.rsplit('/').next().unwrap_or(image);
        let (plain, tag) = last.split_once(['@', ':']).unwrap_or((last, "latest"));
        names.extend([format!("{plain}-{tag}"), format!("{plain}_{tag}"), last.to_owned(), plain.to_owned()]);
    }
    names.extend([service.name.clone(), format!("{project}-{}", service.name)]);
    for name in names {
        for candidate in [format!("{name}.tar"), format!("images/{name}.tar"), format!("images/{name}")] {
            if reader.beside.path(&candidate).exists() {
                service.root = Some(reader.beside.path(&candidate));
                return Ok(());
            }
            tried.push(candidate);
        }
    }
    let image = image.unwrap_or("IMAGE");
    let first = tried.first().cloned().unwrap_or_default();
    Err(Problem::at(
        entry.key_span,
        format!("there is no archive or folder of the image of service '{}'", service.name),
    )
    .help(format!("write one beside this file: docker save -o {first} {image}")))
}

/// The program: that of the image, or what `entrypoint` and `command` say.
fn program(
    service: &mut Service,
    entrypoint: Option<Vec<String>>,
    command: Option<Vec<String>>,
    entry: &Entry,
) -> Result<(), Problem> {
    let root = service.root.as_ref().map(|path| {
        let opened = belljar_image::Root::open(path, belljar_image::default_cache().as_deref());
        opened.map_err(|error| {
            let message =
                format!("the image of service '{}' cannot be a root: {}", service.name, error.message);
            Problem::at(entry.key_span, message).maybe_help(error.help)
        })
    });
    let settings = root.transpose()?.map(|root| root.settings).unwrap_or_default();
    let has_program = !settings.entrypoint.is_empty() || !settings.command.is_empty();
    let words = match (entrypoint, command) {
        (None, None) if has_program => return Ok(()),
        (None, None) => Vec::new(),
        (Some(entrypoint), command) => [entrypoint, command.unwrap_or_default()].concat(),
        (None, Some(command)) => [settings.entrypoint, command].concat(),
    };
    let mut words = words.into_iter();
    let Some(path) = words.next() else {
        let message = format!("service '{}' has no command, and its image has none", service.name);
        return Err(Problem::at(entry.key_span, message).help("write command: [PROGRAM, ARGUMENT]"));
    };
    service.path = Some(path);
    service.args = Some(words.collect());
    Ok(())
}

fn depends(node: &Node) -> Result<Vec<(String, Waits)>, Problem> {
    let mut all = Vec::new();
    for (name, _, settings) in names(node, "depends_on")? {
        let condition = settings.as_ref().and_then(|settings| settings.entry("condition").cloned());
        let waits = match condition {
            None => Waits::Started,
            Some(entry) => section::choice(
                &entry.value,
                "condition",
                &[
                    ("service_started", Waits::Started),
                    ("service_healthy", Waits::Healthy),
                    ("service_completed_successfully", Waits::Completed),
                ],
            )?,
        };
        all.push((name, waits));
    }
    Ok(all)
}

fn networks(service: &mut Service, node: &Node, reader: &mut Reader<'_>) -> Result<(), Problem> {
    service.networks.clear();
    for (name, span, settings) in names(node, "networks")? {
        service.networks.insert(name.clone());
        let Some(settings) = settings.filter(|settings| !settings.is_null()) else { continue };
        for key in mapping(&settings, "a network of a service")? {
            match key.key.as_str() {
                "aliases" => service.aliases.extend(reader.texts(&key.value, "aliases")?),
                "ipv4_address" => service.address = Some(reader.text(&key.value, "ipv4_address")?),
                other => {
                    reader.note(
                        span.line,
                        format!(
                            "'{other}' of network '{name}' of service '{}' is not taken over",
                            service.name
                        ),
                    );
                }
            }
        }
    }
    Ok(())
}

fn volumes(service: &mut Service, node: &Node, reader: &mut Reader<'_>) -> Result<(), Problem> {
    for item in section::list(node, "volumes")? {
        let line = item.span.line;
        let (source, target) = match item.entry("target") {
            Some(target) => {
                let source = item.entry("source").map(|e| reader.text(&e.value, "source")).transpose()?;
                (source, reader.text(&target.value, "target")?)
            }
            None => {
                let text = reader.text(item, "volumes")?;
                match text.split(':').collect::<Vec<_>>()[..] {
                    [target] => (None, target.to_owned()),
                    [source, target] | [source, target, _] => (Some(source.to_owned()), target.to_owned()),
                    _ => {
                        return Err(item
                            .problem(format!("'{text}' is not a volume"))
                            .help("write ./data:/path/in/the/service"));
                    }
                }
            }
        };
        let Some(source) = source else { continue };
        let name = &service.name;
        if !source.starts_with(['.', '/', '~']) {
            reader.note(
                line,
                format!("volume '{source}' of '{name}' is a folder of its own: services share no files"),
            );
            continue;
        }
        let path = reader.beside.path(&source);
        match path.exists() {
            true => {
                reader.note(line, format!("'{source}' is copied to '{target}' of '{name}' at its start, by the image's sh, mkdir and cp; nothing is written back"));
                service.binds.push((path, target));
            }
            false => reader
                .note(line, format!("'{source}' of '{name}' is not copied: there is no {}", path.display())),
        }
    }
    Ok(())
}

fn healthcheck(service: &mut Service, node: &Node, reader: &mut Reader<'_>) -> Result<(), Problem> {
    let mut read = |key: &str| node.entry(key).map(|entry| reader.duration(&entry.value, key)).transpose();
    let (interval, period, first) = (read("interval")?, read("start_period")?, read("start_interval")?);
    // The first check that succeeds makes a service healthy.
    service.healthy_after = match period {
        Some(period) if period > 0 => first.unwrap_or(START_INTERVAL).min(period),
        _ => interval.unwrap_or(INTERVAL),
    };
    reader.note(node.span.line, format!("the health check of '{}' is not run: services that wait for it start after the time of its first check", service.name));
    Ok(())
}

fn restart(service: &mut Service, node: &Node, reader: &mut Reader<'_>, line: usize) -> Result<(), Problem> {
    let policy = reader.text(node, "restart")?;
    match policy.split(':').next().unwrap_or_default() {
        "no" | "false" => service.expects = "{exited: 0}".to_owned(),
        "always" | "unless-stopped" | "on-failure" | "true" => {
            let text = format!(
                "service '{}' does not start again by itself: 'kill' and 'crash' among the events do it with 'for'",
                service.name
            );
            reader.note(line, text);
        }
        other => {
            return Err(node
                .problem(format!("'{other}' is no restart policy"))
                .help("use no, always, on-failure or unless-stopped"));
        }
    }
    Ok(())
}

fn replicas(service: &mut Service, count: u64, node: &Node) -> Result<(), Problem> {
    let first = service.hosts[0].clone();
    match count {
        0 => Err(node.problem("a service without replicas is none").help("leave the service out")),
        1 => Ok(()),
        count => {
            service.hosts = (1..=count).map(|n| format!("{first}-{n}")).collect();
            service.aliases.insert(service.name.clone());
            Ok(())
        }
    }
}

fn deploy(service: &mut Service, node: &Node, reader: &mut Reader<'_>) -> Result<(), Problem> {
    for key in mapping(node, "'deploy'")? {
        match key.key.as_str() {
            "replicas" => {
                replicas(service, section::whole(&key.value, "replicas", MOST_REPLICAS)?, &key.value)?
            }
            "resources" => {
                let Some(limits) = key.value.entry("limits") else { continue };
                if let Some(memory) = limits.value.entry("memory") {
                    service.memory = Some(reader.bytes(&memory.value, "memory")?);
                }
                if let Some(entry) = limits.value.entry("cpus") {
                    service.cpu_count = Some(cpus(&reader.text(&entry.value, "cpus")?, &entry.value)?);
                }
            }
            other => reader.note(
                key.key_span.line,
                format!("'{other}' of 'deploy' of service '{}' is not taken over", service.name),
            ),
        }
    }
    Ok(())
}

/// Whole processors that a share of them takes.
fn cpus(text: &str, node: &Node) -> Result<u64, Problem> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1_024.0 => Ok(number.ceil() as u64),
        _ => Err(node.problem(format!("'{text}' is no number of processors"))),
    }
}
