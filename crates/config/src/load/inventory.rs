//! Inventories: the machines of a deployment.

use super::process;
use crate::PathContext;
use crate::error::{ConfigError, Problem, Source};
use crate::model::Experiment;
use crate::yaml::section::{self, mapping};
use crate::yaml::{self, Node, Section};
use belljar_base::{Map, Set};
use belljar_net::suggest::nearest;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

const MACHINE_KEYS: &[&str] =
    &["address", "hosts", "port", "identity", "ssh_options", "ip_addr", "directory", "environment"];

/// A machine reached by ssh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Name in the inventory.
    pub name: String,
    /// Destination in ssh's syntax: `USER@HOST`, `HOST`, or a name from ssh's configuration.
    pub address: String,
    /// Port; `None` for the one in ssh's configuration.
    pub port: Option<u16>,
    /// Path of the private key; `None` for ssh's own choice.
    pub identity: Option<PathBuf>,
    /// Options of ssh_config(5), each as `NAME=VALUE`.
    pub ssh_options: Vec<String>,
    /// Address at which programs on other machines reach it; `None` for the address in `address`.
    pub ip_addr: Option<IpAddr>,
    /// Directory on the machine in which the run creates its own.
    pub directory: String,
    /// Environment variables for programs on the machine; those of the experiment take precedence.
    pub environment: Map<String, String>,
    /// Hosts that run on the machine, by their indices in the experiment.
    pub hosts: Vec<usize>,
}

/// The machines of a deployment, sorted by name: each host of the experiment is assigned to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inventory {
    /// The machines.
    pub machines: Vec<Machine>,
    /// Files of this machine to be copied to every machine, into the working directory of the programs.
    pub files: Vec<PathBuf>,
}

impl Inventory {
    /// Loads the inventory at `path` for an experiment. Relative paths in it are relative to its folder.
    pub fn load(path: &Path, experiment: &Experiment) -> Result<Inventory, ConfigError> {
        let name = path.display().to_string();
        let text = belljar_inputs::read_text(path).map_err(|error| {
            let source = Source { name: name.clone(), text: String::new() };
            let message = format!("the inventory cannot be read: {}", crate::error::plain(&error));
            Problem::whole_file(message).into_error(&source)
        })?;
        let around = PathContext::of_this_process(path.parent().unwrap_or(Path::new("")));
        Inventory::parse(&name, &text, &around, experiment)
    }

    /// Loads an inventory from a text, which the user knows as `name`.
    pub fn parse(
        name: &str,
        text: &str,
        around: &PathContext,
        experiment: &Experiment,
    ) -> Result<Inventory, ConfigError> {
        let source = Source { name: name.to_owned(), text: text.to_owned() };
        read(text, around, experiment).map_err(|problem| problem.into_error(&source))
    }
}

fn read(text: &str, around: &PathContext, experiment: &Experiment) -> Result<Inventory, Problem> {
    const EXAMPLE: &str = "machines: { alpha: { address: user@192.0.2.1, hosts: [server] } }";
    let tree = yaml::parse(text)?
        .ok_or_else(|| Problem::whole_file("this inventory is empty").help(format!("write {EXAMPLE}")))?;
    let file = Section::new(&tree, "an inventory", &["machines", "files"], true)?;
    let entries = mapping(file.required("machines", EXAMPLE)?, "section 'machines'")?;
    let mut taken: Map<usize, String> = Map::new();
    let mut machines = Vec::new();
    for entry in entries {
        if entry.key.is_empty() || entry.key.contains('/') {
            let message = format!("a machine cannot have the name '{}'", entry.key);
            return Err(
                Problem::at(entry.key_span, message).help("names of files begin with it: leave '/' out")
            );
        }
        let machine = machine(&entry.key, &entry.value, around, experiment, &mut taken)?;
        machines.push(machine);
    }
    if let Some(missing) = (0..experiment.hosts.len()).find(|host| !taken.contains_key(host)) {
        let name = &experiment.hosts[missing].name;
        return Err(Problem::at(file.span, format!("no machine has host '{name}' of the experiment"))
            .help(format!("add it to the 'hosts' of a machine, or name a machine '{name}'")));
    }
    machines.sort_by(|a: &Machine, b| a.name.cmp(&b.name));
    let files = match file.get("files") {
        Some(node) => {
            section::list(node, "files")?.iter().map(|item| copied(item, around)).collect::<Result<_, _>>()?
        }
        None => Vec::new(),
    };
    Ok(Inventory { machines, files })
}

fn machine(
    name: &str,
    node: &Node,
    around: &PathContext,
    experiment: &Experiment,
    taken: &mut Map<usize, String>,
) -> Result<Machine, Problem> {
    let s = Section::new(node, &format!("machine '{name}'"), MACHINE_KEYS, false)?;
    let address_node = s.required("address", "address: user@192.0.2.1")?;
    let address = section::string(address_node, "address")?;
    if address.is_empty() || address.starts_with('-') || address.contains(char::is_whitespace) {
        return Err(address_node
            .problem(format!("'{address}' is no destination for ssh"))
            .help("write it as for ssh, such as user@192.0.2.1"));
    }
    let hosts = match s.get("hosts") {
        Some(node) => section::list(node, "hosts")?
            .iter()
            .map(|item| {
                let host = section::string(item, "a name of 'hosts'")?;
                find(experiment, host).ok_or_else(|| {
                    let problem = item.problem(format!("the experiment has no host '{host}'"));
                    problem.maybe_help(near(experiment, host))
                })
            })
            .collect::<Result<Vec<_>, _>>()?,
        None => vec![find(experiment, name).ok_or_else(|| {
            node.problem(format!(
                "machine '{name}' has no 'hosts', and the experiment has no host of its name"
            ))
            .help("add hosts: [...], the hosts that run there")
        })?],
    };
    for host in &hosts {
        let of = &experiment.hosts[*host].name;
        if let Some(other) = taken.insert(*host, name.to_owned()) {
            return Err(node
                .problem(format!("host '{of}' is on machine '{other}' already"))
                .help("leave it out of one of them"));
        }
    }
    let ip_addr = s.read("ip_addr", |node, key| {
        let text = section::string(node, key)?;
        let help = "write it such as 192.0.2.1 or 2001:db8::1";
        text.parse().map_err(|_| node.problem(format!("'{text}' is not an IP address")).help(help))
    })?;
    let directory_node = s.get("directory");
    let directory = directory_node.map_or(Ok("/var/tmp"), |node| section::string(node, "directory"))?;
    if let Some(node) =
        directory_node.filter(|_| !directory.starts_with('/') || directory.contains(char::is_whitespace))
    {
        return Err(node
            .problem(format!("'{directory}' must be an absolute path without spaces"))
            .help("such as /var/tmp"));
    }
    let identity = s.read("identity", |node, key| {
        let written = section::string(node, key)?;
        let expanded = around.expand(written).map_err(|message| node.problem(message))?;
        let found = around.candidates(&expanded).into_iter().find(|place| place.is_file());
        found.ok_or_else(|| {
            node.problem(format!("there is no key '{written}'"))
                .help("make one with ssh-keygen, or leave it out")
        })
    })?;
    let options = |node: &Node, key: &str| -> Result<Vec<String>, Problem> {
        let items = section::list(node, key)?.iter();
        items.map(|item| Ok(section::string(item, "an item of 'ssh_options'")?.to_owned())).collect()
    };
    Ok(Machine {
        name: name.to_owned(),
        address: address.to_owned(),
        port: s.read("port", |node, key| section::whole(node, key, 65_535))?.map(|port| port as u16),
        identity,
        ssh_options: s.read("ssh_options", options)?.unwrap_or_default(),
        ip_addr,
        directory: directory.to_owned(),
        environment: s.read("environment", process::environment)?.unwrap_or_default(),
        hosts,
    })
}

fn find(experiment: &Experiment, name: &str) -> Option<usize> {
    experiment.host_by_name(name).map(|id| id.index())
}

fn near(experiment: &Experiment, name: &str) -> Option<String> {
    let names: Set<&str> = experiment.hosts.iter().map(|host| host.name.as_str()).collect();
    nearest(name, names).map(|near| format!("did you mean '{near}'?"))
}

/// A file or directory of this machine to be copied to the others.
fn copied(node: &Node, around: &PathContext) -> Result<PathBuf, Problem> {
    let written = section::string(node, "a path of 'files'")?;
    let expanded = around.expand(written).map_err(|message| node.problem(message))?;
    let places = around.candidates(&expanded);
    let found = places.iter().find(|place| place.exists() && place.file_name().is_some());
    found.cloned().ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
        node.problem(format!("there is no file '{written}'"))
            .help(format!("looked for {}", looked.join(" and ")))
    })
}
