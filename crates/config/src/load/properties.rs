//! Section `properties`.

use super::events_values::{World, host_set, place_or_name};
use super::judged_packets::{packets, passes};
use crate::error::Problem;
use crate::events::{Action, Event, HostSet, ProcessRef};
use crate::model::{Host, Process};
use crate::properties::{Claim, FileSet, Property};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::{HostId, Map, SimDuration, SimTime};
use belljar_net::suggest::nearest;
use belljar_net::units::format_duration;
use belljar_properties::{
    After, Comparison, Condition, HistoryClaim, HistoryModel, Level, LineClaim, MODELS, Pattern, Quantifier,
    TransactionKind, contradiction,
};
use std::path::PathBuf;
use std::sync::Arc;

const CLAIMS: [&str; 6] = ["always", "never", "sometimes", "eventually", "history", "assertions"];
const KEYS: &[&str] = &[
    "name",
    "always",
    "never",
    "sometimes",
    "eventually",
    "history",
    "assertions",
    "hosts",
    "process",
    "files",
    "packets",
    "filter",
    "lines",
    "where",
    "model",
    "consistency",
];
/// Longest name in bytes.
const LONGEST_NAME: usize = 100;
/// Directories whose files are made by the kernel.
const VIRTUAL: [&str; 3] = ["/proc/", "/sys/", "/dev/"];

/// Events of the run, and its end.
#[derive(Clone, Copy)]
pub(super) struct Timeline<'a> {
    pub(super) events: &'a [Event],
    /// True if `belljar explore` draws faults.
    pub(super) is_explored: bool,
    pub(super) stop: SimTime,
}

pub(super) fn read(node: &Node, world: &World, timeline: Timeline) -> Result<Vec<Property>, Problem> {
    let mut properties: Vec<Property> = Vec::new();
    for item in section::list(node, "properties")? {
        let property = property(item, world, timeline)?;
        if properties.iter().any(|other| other.name == property.name) {
            let message = format!("there is a property '{}' already", property.name);
            return Err(item.entry("name").map_or(&**item, |entry| &*entry.value).problem(message));
        }
        properties.push(property);
    }
    Ok(properties)
}

fn property(node: &Node, world: &World, timeline: Timeline) -> Result<Property, Problem> {
    let s = Section::new(node, "a property", KEYS, false)?;
    let name = name(s.required("name", "name: no-panic")?)?;
    let mut claims = CLAIMS.iter().filter_map(|key| s.entry(key));
    let example = "write one of always: REGEX, never: REGEX, sometimes: REGEX, eventually: { matches: REGEX, within: 30 s }, \
                   history: FILE, assertions: FILE";
    let Some(entry) = claims.next() else {
        return Err(Problem::at(s.span, format!("property '{name}' claims nothing")).help(example));
    };
    if let Some(other) = claims.next() {
        let message = format!("property '{name}' has both '{}' and '{}'", entry.key, other.key);
        return Err(Problem::at(other.key_span, message).help("make two properties of them"));
    }
    let value = s.required(&entry.key, &format!("{}: panicked", entry.key))?;
    let foreign: &[&str] = match entry.key.as_str() {
        "history" => &["files", "process", "packets", "filter", "lines", "where"],
        "assertions" => &["files", "process", "packets", "filter", "lines", "where", "model", "consistency"],
        _ => &["model", "consistency"],
    };
    if let Some(other) = foreign.iter().find_map(|key| s.entry(key)) {
        let message = format!("'{}' is not valid with '{}'", other.key, entry.key);
        return Err(Problem::at(other.key_span, message).help(match entry.key.as_str() {
            "history" => "a history has 'model', 'consistency' and 'hosts'",
            "assertions" => "assertions have 'hosts' only",
            _ => "leave it out: it is for 'history'",
        }));
    }
    let (files, claim) = match entry.key.as_str() {
        "history" => (vec![file(value, "history")?], Claim::History(history(&s, world)?)),
        "assertions" => (vec![assertion_file(value)?], Claim::Assertions),
        _ => {
            let files = match packets(&s)? {
                Some(packets) => vec![FileSet::Packets(packets)],
                None => s.read("files", files)?.unwrap_or_else(outputs),
            };
            (files, Claim::Lines(lines(&s, &entry.key, value, timeline)?))
        }
    };
    let hosts = s.read("hosts", |node, key| hosts(node, key, world))?.flatten();
    let process = s.read("process", place_or_name)?;
    let property = Property { name, hosts, process, files, claim };
    check_hosts(node, &s, &property, world)?;
    Ok(property)
}

fn outputs() -> Vec<FileSet> {
    vec![FileSet::Stdout, FileSet::Stderr]
}

/// A name that is valid as that of a file.
fn name(node: &Node) -> Result<String, Problem> {
    let text = section::string(node, "name")?;
    let is_valid = text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
        && text.len() <= LONGEST_NAME;
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err(node
            .problem(format!("'{text}' is no name of a property"))
            .help("write up to 100 letters, digits, '-', '_' and '.', as in no-lost-write")),
    }
}

/// Named hosts, which all run programs; `None` for all hosts.
fn hosts(node: &Node, key: &str, world: &World) -> Result<Option<Vec<HostId>>, Problem> {
    match host_set(node, key, world)? {
        HostSet::All => Ok(None),
        HostSet::Some(hosts) => Ok(Some(hosts)),
        HostSet::OneOf(_) => Err(node
            .problem("the hosts of a property are not drawn")
            .help("name them, as in hosts: [alice, bob]")),
    }
}

/// Refuses a property without a process that could write its files.
fn check_hosts(node: &Node, s: &Section, property: &Property, world: &World) -> Result<(), Problem> {
    if property.packets().is_some() {
        return Ok(());
    }
    let reads_outputs = property.files.iter().any(|files| !matches!(files, FileSet::Matching(_)));
    if let (Some(entry), false) = (s.entry("process"), reads_outputs) {
        return Err(Problem::at(entry.key_span, "'process' selects outputs, and 'files' has none")
            .help("leave 'process' out, or add stdout to 'files'"));
    }
    let at = |key: &str| s.get(key).unwrap_or(node);
    for id in property.hosts.iter().flatten() {
        let host = &world.hosts[id.index()];
        if host.programs().is_empty() {
            return Err(at("hosts").problem(format!("host '{}' runs no program that could write", host.name)));
        }
        if property.processes_of(host).next().is_none() {
            return Err(at("process")
                .problem(format!("host '{}' does not run this process", host.name))
                .help(known(property, [host])));
        }
    }
    let mut all = world.hosts.iter().enumerate();
    if all.any(|(n, host)| property.concerns(HostId(n as u32), host)) {
        return Ok(());
    }
    match &property.process {
        Some(_) => Err(at("process").problem("no host runs this process").help(known(property, world.hosts))),
        None => Err(Problem::at(
            s.span,
            format!("property '{}' is about outputs, and no host runs a program", property.name),
        )),
    }
}

/// Help for an unknown process: a program with a similar name, or the names of all programs.
fn known<'a>(property: &Property, hosts: impl IntoIterator<Item = &'a Host>) -> String {
    let mut programs: Vec<String> =
        hosts.into_iter().flat_map(|host| host.programs().iter().map(Process::program_name)).collect();
    programs.dedup();
    let near = match &property.process {
        Some(ProcessRef::Program(name)) => nearest(name, programs.iter().map(String::as_str)),
        _ => None,
    };
    match near {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("there are {}; numbers count from 0", programs.join(", ")),
    }
}

/// `stdout`, `stderr`, a path with `*`, or a list of these.
fn files(node: &Node, key: &str) -> Result<Vec<FileSet>, Problem> {
    let one = |node: &Node| match section::string(node, key)? {
        "stdout" => Ok(FileSet::Stdout),
        "stderr" => Ok(FileSet::Stderr),
        _ => file(node, key),
    };
    match &node.value {
        Value::Sequence(items) if items.is_empty() => Err(node
            .problem("'files' names no file")
            .help("write files: stdout, or files: [stderr, 'log/*.txt']")),
        Value::Sequence(items) => items.iter().map(|item| one(item)).collect(),
        _ => Ok(vec![one(node)?]),
    }
}

/// A path with `*`.
fn file(node: &Node, key: &str) -> Result<FileSet, Problem> {
    let text = section::string(node, key)?;
    if VIRTUAL.iter().any(|directory| text.starts_with(directory)) {
        return Err(node
            .problem(format!("'{text}' is no file that programs leave in the results"))
            .help("name a file that they write, such as /var/log/app.log"));
    }
    let parts = text.strip_prefix('/').unwrap_or(text).split('/');
    if parts.clone().any(|part| matches!(part, "" | "." | "..")) {
        return Err(node
            .problem(format!("'{text}' is no path of files of a host"))
            .help("write a path in the host's folder such as log/*.txt, or one that programs see such as /var/log/app.log"));
    }
    Ok(FileSet::Matching(text.to_owned()))
}

/// A path without `*`, at which programs write their assertions.
fn assertion_file(node: &Node) -> Result<FileSet, Problem> {
    let path = file(node, "assertions")?;
    match &path {
        FileSet::Matching(text) if text.contains('*') => Err(node
            .problem(format!("'{text}' is a pattern, and programs are given the path of one file"))
            .help("write a path such as assertions: /var/log/sdk.jsonl")),
        _ => Ok(path),
    }
}

/// Gives the processes of the hosts that a property `assertions` is about the path of its file, as the variables that SDKs read.
pub(super) fn name_assertion_files<'a>(
    hosts: &mut [Host],
    actions: impl Iterator<Item = &'a mut Action>,
    properties: &[Property],
) {
    let files = properties.iter().filter(|property| property.claim == Claim::Assertions);
    let files = files.filter_map(|property| match property.files.first() {
        Some(FileSet::Matching(path)) => Some((property, path)),
        _ => None,
    });
    for action in actions {
        let Action::Restart { root: Some(root), .. } = action else { continue };
        for (property, path) in files.clone() {
            let programs = Arc::make_mut(root).programs.iter_mut();
            let concerned = programs.filter(|(id, _)| property.concerns(**id, &hosts[id.index()]));
            for program in concerned.flat_map(|(_, programs)| programs) {
                name_assertion_file(&mut program.environment, path);
            }
        }
    }
    for (property, path) in files {
        let concerned = hosts
            .iter_mut()
            .enumerate()
            .filter(|(number, host)| property.concerns(HostId(*number as u32), host));
        let programs = concerned.flat_map(|(_, host)| match &mut host.machine {
            Some(machine) => machine.programs.iter_mut(),
            None => host.processes.iter_mut(),
        });
        for process in programs {
            name_assertion_file(&mut process.environment, path);
        }
    }
}

fn name_assertion_file(environment: &mut Map<String, String>, path: &str) {
    let mut offer = |name: &str, value: &str| {
        environment.entry(name.to_owned()).or_insert(value.to_owned());
    };
    offer("ANTITHESIS_SDK_LOCAL_OUTPUT", path);
    match path.rsplit_once('/') {
        Some((folder, "sdk.jsonl")) => {
            offer("ANTITHESIS_OUTPUT_DIR", if folder.is_empty() { "/" } else { folder })
        }
        None if path == "sdk.jsonl" => offer("ANTITHESIS_OUTPUT_DIR", "."),
        _ => {}
    }
}

fn pattern(node: &Node, key: &str) -> Result<Pattern, Problem> {
    let text = section::string(node, key)?;
    let help = "see https://docs.rs/regex-lite for the syntax; in YAML, quote it: '[0-9]+ ms'";
    match text {
        "" => Err(node.problem(format!("'{key}' is an empty regular expression, which matches every line"))),
        _ => {
            let pattern = Pattern::new(text).map_err(|why| {
                node.problem(format!("the regular expression '{text}' cannot be compiled: {why}")).help(help)
            })?;
            match pattern.matches_nothing() {
                true => Err(node
                    .problem(format!("the regular expression '{text}' matches in no line"))
                    .help(why_nothing(text))),
                false => Ok(pattern),
            }
        }
    }
}

/// Remedy for a regular expression that matches in no line.
fn why_nothing(text: &str) -> &'static str {
    match text {
        _ if text.contains(['^', '$']) => {
            r"'^' and '$' are the ends of a line: put them there, or write '\^' and '\$' for the characters"
        }
        _ if text.contains('\n') || text.contains(r"\n") => {
            "it is searched in one line at a time, without its line feed: write a property for each line"
        }
        _ => "parts of it exclude each other: leave one out",
    }
}

/// A claim about lines, whose `key` has this value.
fn lines(s: &Section, key: &str, value: &Node, timeline: Timeline) -> Result<LineClaim, Problem> {
    let (quantifier, condition) = match key {
        "always" => (Quantifier::Always, condition(value, key, s)?),
        "never" => (Quantifier::Never, condition(value, key, s)?),
        "sometimes" => (Quantifier::Sometimes, condition(value, key, s)?),
        _ => eventually(value, s, timeline)?,
    };
    let lines = s.read("lines", self::pattern)?;
    let mut comparisons = Vec::new();
    if let Some(node) = s.get("where") {
        let items = match &node.value {
            Value::Sequence(items) => items.iter().map(|item| &**item).collect(),
            _ => vec![node],
        };
        for item in &items {
            comparisons.push(comparison(item, &condition, lines.as_ref())?);
        }
        if let Some((last, other)) = contradiction(&comparisons) {
            return Err(contradictory(
                items[last],
                &comparisons[last],
                other.map(|other| &comparisons[other]),
            ));
        }
    }
    Ok(LineClaim { quantifier, condition, lines, comparisons })
}

/// A regular expression, or for packets `{ filter: FILTER }`.
fn condition(value: &Node, key: &str, of: &Section) -> Result<Condition, Problem> {
    match &value.value {
        Value::Mapping(_) => {
            let s = Section::new(value, &format!("'{key}'"), &["filter"], false)?;
            passes(s.required("filter", "filter: tcp port 80")?, of)
        }
        _ => pattern(value, key).map(Condition::Matches),
    }
}

fn comparison(node: &Node, condition: &Condition, lines: Option<&Pattern>) -> Result<Comparison, Problem> {
    let text = section::string(node, "where")?;
    let comparison = Comparison::parse(text).map_err(|(message, help)| node.problem(message).help(help))?;
    let known: Vec<&str> = condition.names().chain(lines.into_iter().flat_map(Pattern::names)).collect();
    if let Some(unknown) = comparison.groups().find(|group| !known.contains(group)) {
        let help = match known.is_empty() {
            true => format!("name a group: (?<{unknown}>[0-9]+)"),
            false => format!("the groups are {}; a text is written in quotes", known.join(", ")),
        };
        return Err(node.problem(format!("'{unknown}' is no group of the regular expression")).help(help));
    }
    if comparison.groups().next().is_none() {
        return Err(node.problem(format!("'{text}' compares no group of the regular expression")));
    }
    // A group of the property's own expression hides one of 'lines'.
    let captures_no_number = |name: &str| match (condition, lines) {
        (Condition::Matches(own), _) if own.names().any(|own| own == name) => own.captures_no_number(name),
        (_, Some(lines)) => lines.captures_no_number(name),
        (_, None) => false,
    };
    if let Some(name) = comparison.numeric_groups().find(|name| captures_no_number(name)) {
        let message = format!("'{text}' is never true: the group '{name}' captures no number");
        return Err(node
            .problem(message)
            .help(format!("let it capture one, as in (?<{name}>[0-9]+), or compare with a text in quotes")));
    }
    Ok(comparison)
}

/// Problem of a comparison that cannot be true together with the others before it.
fn contradictory(node: &Node, last: &Comparison, other: Option<&Comparison>) -> Problem {
    let message = match other {
        Some(other) => format!("'{}' and '{}' are never true together", other.text(), last.text()),
        None => format!("'{}' is never true together with the other comparisons", last.text()),
    };
    node.problem(message).help("all comparisons of a property hold for one line: make two properties of them")
}

/// `{ matches: REGEX, within: 30 s, after: faults }`, or for packets with `filter` instead of `matches`.
fn eventually(node: &Node, of: &Section, timeline: Timeline) -> Result<(Quantifier, Condition), Problem> {
    let s = Section::new(node, "'eventually'", &["matches", "filter", "within", "after"], false)?;
    let condition = match (s.entry("matches"), s.entry("filter")) {
        (Some(_), Some(filter)) => {
            return Err(Problem::at(filter.key_span, "'eventually' has both 'matches' and 'filter'")
                .help("select the packets by 'filter' of the property, and write 'matches' here"));
        }
        (None, Some(_)) => passes(s.required("filter", "filter: tcp port 80")?, of)?,
        _ => Condition::Matches(pattern(s.required("matches", "matches: elected")?, "matches")?),
    };
    let window = s.required("within", "within: 30 s")?;
    let within = section::duration(window, "within")?;
    if within == SimDuration::ZERO {
        return Err(window
            .problem("'within' is a window without length, in which no line is written")
            .help("write a time such as within: 30 s"));
    }
    let after = match s.get("after") {
        None => After::Time(SimTime::ZERO),
        Some(node) if matches!(section::string(node, "after"), Ok("faults")) => {
            if !timeline.is_explored && !timeline.events.iter().any(Event::is_fault) {
                return Err(node
                    .problem("there are no faults: no event changes the network, hosts or clocks")
                    .relational()
                    .help("add one to 'events', let 'explore' draw them, or write a time: after: 10 s"));
            }
            After::Faults
        }
        Some(node) => {
            let time = section::time(node, "after")?;
            if time >= timeline.stop {
                let stop = format_duration(timeline.stop.since(SimTime::ZERO));
                return Err(node.problem(format!("no line can follow: the simulation stops at {stop}")));
            }
            After::Time(time)
        }
    };
    // Times of faults may be drawn: a window that counts from them begins at the start or later.
    let from = if let After::Time(at) = after { at } else { SimTime::ZERO };
    let end = from.saturating_add(within);
    if end > timeline.stop {
        let time = |at: SimTime| format_duration(at.since(SimTime::ZERO));
        let message = format!(
            "the window ends at {} or later, and the simulation stops at {}",
            time(end),
            time(timeline.stop)
        );
        let longest = format_duration(timeline.stop.since(from));
        return Err(window
            .problem(message)
            .help(format!("write at most within: {longest}, or a later general.stop_time")));
    }
    Ok((Quantifier::Eventually { within, after }, condition))
}

/// The model of a history.
fn history(s: &Section, world: &World) -> Result<HistoryClaim, Problem> {
    let model = model(s.required("model", "model: register")?, world)?;
    let levels = Level::ALL.map(|level| (level.name(), level));
    let consistency = s.read("consistency", |node, key| {
        let level = section::choice(node, key, &levels)?;
        let (HistoryModel::Named(name) | HistoryModel::Program(name)) = &model;
        match TransactionKind::named(name) {
            Some(_) => Ok(level),
            None => Err(node
                .problem(format!("the model {name} has no isolation levels"))
                .help("leave 'consistency' out: it is for list-append and rw-register")),
        }
    })?;
    Ok(HistoryClaim { model, consistency })
}

/// Name of a model, or path of a program that is one.
fn model(node: &Node, world: &World) -> Result<HistoryModel, Problem> {
    let text = section::string(node, "model")?;
    if !belljar_model_program::is_program(text) {
        let models: Vec<(&str, &str)> = MODELS.iter().map(|(name, _)| (*name, *name)).collect();
        return Ok(HistoryModel::Named(section::choice(node, "model", &models)?.to_owned()));
    }
    let found = match belljar_model_program::is_python(text) {
        true => python(text, world),
        false => world.around.program(text),
    };
    let path = found.map_err(|(message, help)| node.problem(message).maybe_help(help))?;
    // An experiment that is written elsewhere names the same file.
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(HistoryModel::Program(path.to_string_lossy().into_owned()))
}

/// File of Python, which need not be executable. The error is the pair of the problem and the remedy.
fn python(text: &str, world: &World) -> Result<PathBuf, (String, Option<String>)> {
    let path = world.around.expand(text).map_err(|message| (message, None))?;
    let places = world.around.candidates(&path);
    match places.iter().find(|place| place.is_file()) {
        Some(found) => Ok(found.clone()),
        None => {
            let looked: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
            Err((format!("there is no file '{text}'"), Some(format!("looked for {}", looked.join(" and ")))))
        }
    }
}
