//! Typed access to a mapping's entries. All values are parsed here, so that all sections report the same
//! error in the same words.

use super::{Entry, Node, Scalar, Style, Value};
use crate::error::{Problem, Problems, Span};
use belljar_base::{SimDuration, SimTime};
use belljar_net::suggest::nearest;
use belljar_net::units::{self, UnitError};

/// A mapping with valid keys.
#[derive(Clone)]
pub(crate) struct Section<'a> {
    /// Name in messages: "section 'general'", "host 'alice'".
    pub(crate) place: String,
    pub(crate) span: Span,
    entries: &'a [Entry],
    /// Problems of keys that are not valid, by the valid key that is most similar.
    misspelt: Vec<(String, Problem)>,
}

impl<'a> Section<'a> {
    /// Checks that `node` is a mapping with no other keys than `keys`. `allow_x` also permits `x-...`.
    pub(crate) fn new(
        node: &'a Node,
        place: &str,
        keys: &[&str],
        allow_x: bool,
    ) -> Result<Section<'a>, Problem> {
        let mut problems = Problems::default();
        let section = Section::collecting(node, place, keys, allow_x, &mut problems)?;
        problems.check()?;
        Ok(section)
    }

    /// [`new`](Self::new) that goes on where a key is not one of `keys`: the problem is collected.
    pub(crate) fn collecting(
        node: &'a Node,
        place: &str,
        keys: &[&str],
        allow_x: bool,
        problems: &mut Problems,
    ) -> Result<Section<'a>, Problem> {
        let entries = mapping(node, place)?;
        let mut misspelt = Vec::new();
        for entry in entries {
            if keys.contains(&entry.key.as_str()) || (allow_x && entry.key.starts_with("x-")) {
                continue;
            }
            let near = nearest(&entry.key, keys.iter().copied());
            let help = match (of_shadow(&entry.key, place), near) {
                (Some(help), _) => help.to_owned(),
                (None, Some(near)) => format!("did you mean '{near}'?"),
                (None, None) => format!("valid keys are {}", keys.join(", ")),
            };
            let message = format!("'{}' is not a key of {place}", entry.key);
            let problem = Problem::at(entry.key_span, message).help(help);
            misspelt.extend(near.map(|near| (near.to_owned(), problem.clone())));
            problems.add(problem);
        }
        Ok(Section { place: place.to_owned(), span: node.span, entries, misspelt })
    }

    /// The value of a key, unless it is missing or null.
    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.entry(key).map(|e| &*e.value).filter(|v| !v.is_null())
    }

    /// The key and its value, null or not.
    pub(crate) fn entry(&self, key: &str) -> Option<&'a Entry> {
        self.entries.iter().find(|e| e.key == key)
    }

    /// The value of a required key; `example` shows how to write it.
    pub(crate) fn required(&self, key: &str, example: &str) -> Result<&'a Node, Problem> {
        match self.entry(key) {
            Some(entry) if entry.value.is_null() => {
                Err(Problem::at(entry.key_span, format!("'{key}' has no value"))
                    .help(format!("write {example}")))
            }
            Some(entry) => Ok(&entry.value),
            None => Err(match self.misspelt.iter().find(|(near, _)| near == key) {
                // It is there under another name, which is reported already.
                Some((_, problem)) => problem.clone(),
                None => Problem::at(self.span, format!("{} has no '{key}'", self.place))
                    .help(format!("add {example}")),
            }),
        }
    }

    /// Parses the value of an optional key.
    pub(crate) fn read<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node, &str) -> Result<T, Problem>,
    ) -> Result<Option<T>, Problem> {
        self.get(key).map(|node| read(node, key)).transpose()
    }

    /// Parses the value of an optional key for which null is meaningful: `Some(None)`.
    pub(crate) fn read_nullable<T>(
        &self,
        key: &str,
        read: impl FnOnce(&'a Node, &str) -> Result<T, Problem>,
    ) -> Result<Option<Option<T>>, Problem> {
        match self.entry(key) {
            Some(entry) if entry.value.is_null() => Ok(Some(None)),
            _ => Ok(self.read(key, read)?.map(Some)),
        }
    }
}

/// Remedy for keys of other versions of Shadow.
fn of_shadow(key: &str, place: &str) -> Option<&'static str> {
    let is_process = place.starts_with("a process");
    Some(match key {
        "quantity" if is_process => "write the process as often as it is to run",
        "stop_time" if is_process => "it is called shutdown_time",
        "quantity" => {
            "write each host with a name of its own, or make them in a loop with the Python package"
        }
        "interpose_method" | "preload_spin_max" | "use_shim_syscall_handler" | "use_seccomp" => {
            "leave it out: programs run unmodified, and how their system calls are intercepted is no setting"
        }
        "options" => "it is called host_options",
        "apply_cpu_delay" => "write for a host, such as cpu: { syscall: 1 us }",
        "use_legacy_working_dir" => "leave it out: programs run in the folder hosts/HOST of the results",
        "host_defaults" => "it is called host_option_defaults",
        "start_time_unix" => "write belljar: { start_date: 2026-01-01 }",
        "country_code_hint" | "city_code_hint" | "ip_address_hint" => "write network_node_id or ip_addr",
        "pcap_directory" => "write pcap_enabled: true: captures are in the host's folder of the results",
        "stdout_to_file" | "log_file" => {
            "leave it out: each program's output is in the host's folder of the results"
        }
        "topology" => "it is called network",
        _ => return None,
    })
}

/// The entries of a mapping.
pub(crate) fn mapping<'a>(node: &'a Node, place: &str) -> Result<&'a [Entry], Problem> {
    match &node.value {
        Value::Mapping(entries) => Ok(entries),
        _ => {
            Err(wrong_type(node, place, "a mapping")
                .help("write keys and values, one per line: 'key: value'"))
        }
    }
}

fn wrong_type(node: &Node, name: &str, wanted: &str) -> Problem {
    let name = if name.contains(['\'', ' ']) { name.to_owned() } else { format!("'{name}'") };
    node.problem(format!("{name} must be {wanted}, but is {}", node.kind()))
}

fn scalar<'a>(node: &'a Node, key: &str, wanted: &str) -> Result<&'a Scalar, Problem> {
    match &node.value {
        Value::Scalar(scalar) if !scalar.is_null() => Ok(scalar),
        _ => Err(wrong_type(node, key, wanted)),
    }
}

/// The text of any scalar.
pub(crate) fn string<'a>(node: &'a Node, key: &str) -> Result<&'a str, Problem> {
    scalar(node, key, "a string").map(|s| s.text.as_str())
}

pub(crate) fn boolean(node: &Node, key: &str) -> Result<bool, Problem> {
    let scalar = scalar(node, key, "true or false")?;
    scalar.as_bool().ok_or_else(|| {
        let help = match scalar.text.to_ascii_lowercase().as_str() {
            "yes" | "on" | "y" | "1" | "true" => "write true, without quotes",
            _ => "write false or true, without quotes",
        };
        node.problem(format!("'{key}' must be true or false, not '{}'", scalar.text)).help(help)
    })
}

/// A whole number from 0 to `max`.
pub(crate) fn whole(node: &Node, key: &str, max: u64) -> Result<u64, Problem> {
    let scalar = scalar(node, key, "a whole number")?;
    let text = scalar.text.as_str();
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.strip_prefix('+').unwrap_or(text).parse().ok(),
    };
    if let Some(value) = parsed.filter(|_| scalar.style == Style::Plain) {
        return match value <= max {
            true => Ok(value),
            false => Err(node.problem(format!("'{key}' must be at most {max}, not {text}"))),
        };
    }
    let digits = text.trim_start_matches(['-', '+']);
    let is_whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    Err(match is_whole {
        true if scalar.style != Style::Plain => {
            wrong_type(node, key, "a whole number").help(format!("write {digits} without quotes"))
        }
        true if text.starts_with('-') => node.problem(format!("'{key}' cannot be negative: {text}")),
        true => node.problem(format!("'{key}' must be at most {max}, not {text}")),
        false => node.problem(format!("'{key}' must be a whole number, not '{text}'")),
    })
}

fn with_unit<T>(
    node: &Node,
    key: &str,
    wanted: &str,
    parse: impl FnOnce(&str) -> Result<T, UnitError>,
) -> Result<T, Problem> {
    let scalar = scalar(node, key, wanted)?;
    parse(&scalar.text).map_err(|e| node.problem(format!("'{key}': {}", e.message)).maybe_help(e.help))
}

/// A time. A number needs a unit, unless it is 0.
pub(crate) fn duration(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    check_unit(node, key, &["ns", "us", "ms", "s", "min", "h"], true)?;
    shadow_duration(node, key)
}

/// A time as Shadow reads it: a number without a unit counts seconds.
pub(crate) fn shadow_duration(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    with_unit(node, key, "a time such as \"10 ms\"", units::parse_duration)
}

/// A simulated time, written as the time since the start. A number needs a unit, unless it is 0.
pub(crate) fn time(node: &Node, key: &str) -> Result<SimTime, Problem> {
    duration(node, key).map(|d| SimTime::ZERO + d)
}

/// A simulated time as Shadow reads it: a number without a unit counts seconds.
pub(crate) fn shadow_time(node: &Node, key: &str) -> Result<SimTime, Problem> {
    shadow_duration(node, key).map(|d| SimTime::ZERO + d)
}

pub(crate) fn bytes(node: &Node, key: &str) -> Result<u64, Problem> {
    with_unit(node, key, "a size such as \"16 MiB\"", units::parse_bytes)
}

/// A bandwidth, not 0. A number needs a unit.
pub(crate) fn bandwidth(node: &Node, key: &str) -> Result<u64, Problem> {
    check_unit(node, key, &["bit", "Kbit", "Mbit", "Gbit"], false)?;
    shadow_bandwidth(node, key)
}

/// A bandwidth as Shadow reads it: a number without a unit counts bits per second.
pub(crate) fn shadow_bandwidth(node: &Node, key: &str) -> Result<u64, Problem> {
    match with_unit(node, key, "a bandwidth such as \"100 Mbit\"", units::parse_bandwidth)? {
        0 => Err(node.problem(format!("'{key}' must not be 0"))),
        bits => Ok(bits),
    }
}

/// Refuses a number without one of these units; 0 too, unless `allow_zero`.
pub(crate) fn check_unit(node: &Node, key: &str, units: &[&str], allow_zero: bool) -> Result<(), Problem> {
    let Value::Scalar(scalar) = &node.value else { return Ok(()) };
    let number = scalar.text.trim().trim_start_matches(['+', '-']);
    let is_number = number.parse::<f64>().is_ok_and(f64::is_finite) && !number.contains(['e', 'E']);
    if !is_number || allow_zero && number.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return Ok(());
    }
    let choices: Vec<String> = units.iter().map(|unit| format!("{number} {unit}")).collect();
    let help = match choices.split_last() {
        Some((last, [])) => format!("write {last}"),
        Some((last, others)) => format!("write {} or {last}", others.join(", ")),
        None => String::new(),
    };
    Err(node.problem(format!("'{key}' needs a unit: {} is only a number", scalar.text.trim())).help(help))
}

/// One of several words.
pub(crate) fn choice<T: Copy>(node: &Node, key: &str, choices: &[(&str, T)]) -> Result<T, Problem> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let scalar = scalar(node, key, &format!("one of {}", names.join(", ")))?;
    if let Some((_, value)) = choices.iter().find(|(name, _)| *name == scalar.text) {
        return Ok(*value);
    }
    let help = match nearest(&scalar.text, names.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("use one of {}", names.join(", ")),
    };
    Err(node.problem(format!("'{}' is not a value of '{key}'", scalar.text)).help(help))
}

/// One value, or a list of several. The problem of an empty list has the remedy `help`.
pub(crate) fn one_or_several<T>(
    node: &Node,
    key: &str,
    help: &str,
    read: impl Fn(&Node, &str) -> Result<T, Problem>,
) -> Result<Vec<T>, Problem> {
    match &node.value {
        Value::Sequence(items) if items.is_empty() => {
            Err(node.problem(format!("'{key}' is empty")).help(help))
        }
        Value::Sequence(items) => items.iter().map(|item| read(item, key)).collect(),
        _ => Ok(vec![read(node, key)?]),
    }
}

/// The items of a list.
pub(crate) fn list<'a>(node: &'a Node, key: &str) -> Result<&'a [std::rc::Rc<Node>], Problem> {
    match &node.value {
        Value::Sequence(items) => Ok(items),
        _ => Err(wrong_type(node, key, "a list").help("begin each item with '- '")),
    }
}
