//! A process of a host.

use super::root::Files;
use crate::error::{Problem, Problems};
use crate::model::{FinalState, PlacementSetting, Process, WrittenProgram};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Node, Section, Value};
use crate::{GUEST_PATH, PathContext, Signal};
use belljar_base::{Map, SimTime};
use belljar_net::suggest::nearest;
use std::path::PathBuf;

/// `model` is a key of items that `models` loads.
const KEYS: &[&str] = &[
    "path",
    "model",
    "args",
    "arg0",
    "environment",
    "user",
    "start_time",
    "shutdown_time",
    "shutdown_signal",
    "expected_final_state",
    "placement",
];

/// The shutdown time of a process or model that starts at `start_time`, if there is one.
pub(super) fn shutdown_time(s: &Section<'_>, start_time: SimTime) -> Result<Option<SimTime>, Problem> {
    let Some(node) = s.get("shutdown_time") else { return Ok(None) };
    let shutdown = section::shadow_time(node, "shutdown_time")?;
    if shutdown <= start_time {
        let message =
            format!("'shutdown_time' ({shutdown} s) must be later than 'start_time' ({start_time} s)");
        return Err(node.problem(message).help("both count from the start of the simulation"));
    }
    Ok(Some(shutdown))
}

/// Context for loading a process of a host.
pub(super) struct Surroundings<'a> {
    pub(super) host: &'a str,
    pub(super) placement: PlacementSetting,
    pub(super) around: &'a PathContext,
    pub(super) root: Option<&'a Files>,
    pub(super) shared: &'a [PathBuf],
}

pub(super) fn read(node: &Node, host: &Surroundings<'_>) -> Result<Process, Problem> {
    let mut problems = Problems::default();
    let place = format!("a process of host '{}'", host.host);
    let section = Section::collecting(node, &place, KEYS, false, &mut problems);
    let process = problems.take(section.and_then(|section| process(node, &section, host)));
    problems.check()?;
    Ok(process.expect("a process without a problem has a value"))
}

fn process(node: &Node, s: &Section<'_>, host: &Surroundings<'_>) -> Result<Process, Problem> {
    let mut args = s.read("args", args)?;
    let own: Map<String, String> = s.read("environment", environment)?.unwrap_or_default();
    let mut variables = host.root.map(Files::environment).unwrap_or_default();
    variables.extend(own.clone());
    let own_args = args.clone();
    let guest_path = variables.get("PATH").map_or(GUEST_PATH, String::as_str);
    // Without a command in the experiment, the image's is used.
    let of_image = match (s.get("path"), host.root) {
        (None, Some(root)) => root.command(&mut args),
        _ => None,
    };
    let (path_node, written) = match &of_image {
        Some(program) => (node, program.as_str()),
        None => {
            let path_node = s.required("path", "path: /bin/true")?;
            (path_node, section::string(path_node, "path")?)
        }
    };
    if written.is_empty() {
        return Err(path_node.problem("'path' is empty").help("write path: /bin/true"));
    }
    let found = match host.root {
        Some(root) => root.program(host, written, guest_path),
        None => host.around.program(written),
    };
    let path = found.map_err(|(message, help)| path_node.problem(message).maybe_help(help))?;
    let start_time = s.read("start_time", start_time)?.unwrap_or(SimTime::ZERO);
    let shutdown_time = shutdown_time(s, start_time)?;
    let own_arg0 = s.read("arg0", text)?;
    let arg0 = match (own_arg0.clone(), host.root) {
        (Some(own), _) => own,
        (None, Some(_)) => written.to_owned(),
        (None, None) => host.around.arg0(written, &path, guest_path),
    };
    let own_user = s.read("user", user)?;
    let user = own_user.clone().or_else(|| host.root.and_then(Files::user));
    let as_written = WrittenProgram {
        path: of_image.is_none().then(|| written.to_owned()),
        arg0: own_arg0,
        args: own_args,
        environment: own,
        user: own_user,
    };
    Ok(Process {
        path,
        arg0,
        args: args.unwrap_or_default(),
        environment: variables,
        user,
        start_time,
        shutdown_time,
        shutdown_signal: s.read("shutdown_signal", signal)?.unwrap_or(Signal::TERM),
        expected_final_state: s.read("expected_final_state", final_state)?.unwrap_or(FinalState::Exited(0)),
        must_start: s.get("expected_final_state").is_some(),
        placement: s
            .read("placement", |n, k| section::choice(n, k, PlacementSetting::NAMES))?
            .unwrap_or(host.placement),
        is_setup: false,
        written: host.root.map(|_| Box::new(as_written)),
    })
}

/// The process of a host's setup, if it has commands.
pub(super) fn setup(node: &Node, host: &Surroundings<'_>) -> Result<Option<Process>, Problem> {
    let mut commands = Vec::new();
    for command in section::list(node, "setup")? {
        let text = section::string(command, "an item of 'setup'")?;
        if text.trim().is_empty() {
            return Err(command
                .problem("a command of 'setup' is empty")
                .help("write a command, or leave it out"));
        }
        commands.push(text.to_owned());
    }
    if commands.is_empty() {
        return Ok(None);
    }
    let variables = host.root.map(Files::environment).unwrap_or_default();
    let guest_path = variables.get("PATH").map_or(GUEST_PATH, String::as_str);
    let found = match host.root {
        Some(root) => root.program(host, "sh", guest_path),
        None => host.around.program("sh"),
    };
    let path = found.map_err(|(message, help)| {
        node.problem(format!("'setup' needs a shell: {message}")).maybe_help(help)
    })?;
    Ok(Some(Process::of_setup(path, commands, variables, host.placement)))
}

/// A time, or `never` for a process that only an event starts.
pub(super) fn start_time(node: &Node, key: &str) -> Result<SimTime, Problem> {
    match section::string(node, key) {
        Ok("never") => Ok(SimTime::MAX),
        _ => section::shadow_time(node, key),
    }
}

/// A list of arguments, or one string that is split as by a shell.
pub(super) fn args(node: &Node, key: &str) -> Result<Vec<String>, Problem> {
    match &node.value {
        Value::Sequence(items) => {
            items.iter().map(|item| text(item, &format!("an item of '{key}'"))).collect::<Result<_, _>>()
        }
        Value::Mapping(_) => {
            Err(node.problem(format!("'{key}' must be a string or a list of strings, but is a mapping")))
        }
        Value::Scalar(_) => shell_words::split(section::string(node, key)?).map_err(|_| {
            node.problem(format!("a quote in '{key}' is not closed"))
                .help(format!("close it, or write '{key}' as a list"))
        }),
    }
    .and_then(|args| match args.iter().any(|a| a.contains('\0')) {
        true => Err(node.problem("an argument cannot contain a NUL character")),
        false => Ok(args),
    })
}

/// A string that may be empty: `- ` in a list of arguments is an empty argument.
fn text(node: &Node, name: &str) -> Result<String, Problem> {
    match &node.value {
        Value::Scalar(scalar) => Ok(scalar.text.clone()),
        _ => section::string(node, name).map(str::to_owned),
    }
}

pub(super) fn environment(node: &Node, key: &str) -> Result<Map<String, String>, Problem> {
    // Shadow once took a string of assignments.
    if let Value::Scalar(scalar) = &node.value
        && scalar.text.contains('=')
    {
        let assigned = scalar.text.split(';').filter_map(|part| part.split_once('='));
        let all: Vec<String> = assigned.map(|(name, value)| format!("{name}: \"{value}\"")).collect();
        let problem = node.problem(format!("'{key}' must be a mapping, but is a string"));
        return Err(problem.help(format!("write {key}: {{ {} }}", all.join(", "))));
    }
    let mut variables = Map::new();
    for entry in mapping(node, key)? {
        if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
            let message = format!("'{}' cannot be the name of an environment variable", entry.key);
            return Err(Problem::at(entry.key_span, message).help("names are not empty and have no '='"));
        }
        variables.insert(entry.key.clone(), text(&entry.value, &format!("'{}'", entry.key))?);
    }
    Ok(variables)
}

/// Name or number of a user.
fn user(node: &Node, key: &str) -> Result<String, Problem> {
    let user = section::string(node, key)?;
    match !user.is_empty() && !user.contains([':', '/', ',', '\0', ' ']) {
        true => Ok(user.to_owned()),
        false => Err(node
            .problem(format!("'{user}' is not a user"))
            .help("write a name of /etc/passwd, such as postgres, or a number")),
    }
}

pub(crate) fn signal(node: &Node, key: &str) -> Result<Signal, Problem> {
    let text = section::string(node, key)?;
    let found = match text.parse::<i32>() {
        Ok(number) => Signal::from_number(number),
        Err(_) => Signal::from_name(text),
    };
    found.ok_or_else(|| {
        let upper = text.to_ascii_uppercase();
        let with_prefix = format!("SIG{}", upper.trim_start_matches("SIG"));
        let near = nearest(&upper, Signal::names()).or_else(|| nearest(&with_prefix, Signal::names()));
        let exact = Signal::from_name(&with_prefix).map(Signal::name).or(near);
        node.problem(format!("'{text}' is not a signal")).help(match exact {
            Some(name) => format!("did you mean '{name}'?"),
            None => "write a name such as SIGTERM, or a number from 1 to 31".to_owned(),
        })
    })
}

/// `{exited: N}`, `{signaled: NAME}`, `running` or `any`.
fn final_state(node: &Node, key: &str) -> Result<FinalState, Problem> {
    const WORDS: &[(&str, FinalState)] = &[("running", FinalState::Running), ("any", FinalState::Any)];
    const FORMS: &str = "write running, any, { exited: 0 } or { signaled: SIGTERM }";
    match &node.value {
        Value::Scalar(_) => section::choice(node, key, WORDS).map_err(|p| p.help(FORMS)),
        Value::Sequence(_) => Err(node.problem(format!("'{key}' cannot be a list")).help(FORMS)),
        Value::Mapping(_) => {
            let s = Section::new(node, &format!("'{key}'"), &["exited", "signaled"], false)?;
            let exited = s.read("exited", |n, k| section::whole(n, k, 255))?;
            let signaled = s.read("signaled", signal)?;
            match (exited, signaled) {
                (Some(status), None) => Ok(FinalState::Exited(status as i32)),
                (None, Some(signal)) => Ok(FinalState::Signaled(signal)),
                _ => Err(node.problem(format!("'{key}' must be one of 'exited' and 'signaled'")).help(FORMS)),
            }
        }
    }
}
