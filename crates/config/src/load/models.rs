//! A traffic model of a host: an item of `processes` with `model` instead of `path`.

use super::process;
use crate::error::Problem;
use crate::model::{Host, Model};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Node, Section, Value};
use belljar_base::{SimDuration, SimTime};
use belljar_models::{
    Bulk, Datagrams, Direction, Dns, Draw, Endpoint, Http, HttpServer, Kind, Pace, Spacing, Spec,
};
use belljar_net::suggest::nearest;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Keys of the item, including `model`.
const KEYS: &[&str] = &["model", "start_time", "shutdown_time"];
const CLIENT: &[&str] = &["count", "pause", "interval"];
/// Largest payload of a UDP datagram over IPv4.
const LARGEST_DATAGRAM: u64 = 65_507;
/// Upper bound on the size of a body or a transfer, as a sanity check.
const LARGEST: u64 = 1 << 50;
/// Upper bound of a distribution of times without one: longer than any simulation.
const LONGEST: SimDuration = SimDuration::from_secs(200 * 86_400);

/// The types, and the keys of each besides `type` and `name`.
const TYPES: &[(&str, &[&str])] = &[
    ("bulk", &["to", "size", "direction", "count", "pause", "interval"]),
    ("sink", &["port", "protocol"]),
    ("source", &["port", "size"]),
    ("http", &["to", "path", "request_size", "keep_alive", "timeout", "count", "pause", "interval"]),
    ("http_server", &["port", "response_size", "delay"]),
    ("constant_rate", &["to", "rate", "datagram_size", "duration"]),
    ("on_off", &["to", "rate", "datagram_size", "duration", "burst", "silence"]),
    ("dns", &["to", "names", "timeout", "retries", "count", "pause", "interval"]),
    ("dns_server", &["port", "delay"]),
];

/// True if an item of `processes` is a model.
pub(super) fn is_model(node: &Node) -> bool {
    matches!(&node.value, Value::Mapping(entries) if entries.iter().any(|entry| entry.key == "model"))
}

/// Loads a model of `host`.
pub(super) fn read(node: &Node, host: &str, hosts: &Hosts) -> Result<Model, Problem> {
    let place = format!("a model of host '{host}'");
    if let Some(entry) = mapping(node, &place)?.iter().find(|entry| entry.key == "path") {
        return Err(Problem::at(entry.key_span, "a process has a 'path' or a 'model', not both")
            .help("make two items of the list 'processes'"));
    }
    let s = Section::new(node, &place, KEYS, false)?;
    let spec = spec(s.required("model", "model: { type: sink, port: 5001 }")?, hosts)?;
    let start_time = s.read("start_time", process::start_time)?.unwrap_or(SimTime::ZERO);
    let shutdown_time = process::shutdown_time(&s, start_time)?;
    Ok(Model { spec: Arc::new(spec), start_time, shutdown_time })
}

/// The hosts to which a model can connect.
pub(super) struct Hosts<'a> {
    /// True if a host of this name exists.
    pub(super) has: &'a dyn Fn(&str) -> bool,
    /// All names, for suggestions.
    pub(super) names: &'a dyn Fn() -> Vec<&'a str>,
    /// Address of the name server.
    pub(super) name_server: Ipv4Addr,
}

/// Resolves the hosts named by the endpoints of models to addresses.
pub(super) fn resolve(hosts: &mut [Host]) {
    let addresses: belljar_base::Map<String, Ipv4Addr> =
        hosts.iter().map(|host| (host.name.clone(), host.address)).collect();
    for model in hosts.iter_mut().flat_map(|host| &mut host.models) {
        for endpoint in Arc::make_mut(&mut model.spec).endpoints_mut() {
            if let Some(address) = addresses.get(&endpoint.host) {
                endpoint.address = *address;
            }
        }
    }
}

fn spec(node: &Node, hosts: &Hosts) -> Result<Spec, Problem> {
    let entries = mapping(node, "'model'")?;
    let Some(type_node) = entries.iter().find(|entry| entry.key == "type").map(|entry| &entry.value) else {
        return Err(node.problem("'model' has no 'type'").help("write type: bulk, say"));
    };
    let choices: Vec<(&str, usize)> = TYPES.iter().enumerate().map(|(n, (name, _))| (*name, n)).collect();
    let (kind, own) = TYPES[section::choice(type_node, "type", &choices)?];
    let keys: Vec<&str> = ["type", "name"].iter().chain(own).copied().collect();
    let s = Section::new(node, &format!("a model of type '{kind}'"), &keys, false)?;
    let name = match s.read("name", section::string)? {
        Some("") => return Err(s.get("name").unwrap_or(node).problem("'name' is empty")),
        Some(name) if name.contains([',', '"', '\n']) => {
            let help = "names of models are words in a table";
            return Err(s.get("name").unwrap_or(node).problem("'name' has a comma or a quote").help(help));
        }
        name => name.unwrap_or(kind).to_owned(),
    };
    let kind = match kind {
        "bulk" => bulk(&s, hosts)?,
        "sink" => Kind::Sink {
            port: port(s.required("port", "port: 5001")?, "port")?,
            udp: s.read("protocol", |n, k| section::choice(n, k, &[("tcp", false), ("udp", true)]))?
                == Some(true),
        },
        "source" => Kind::Source {
            port: port(s.required("port", "port: 5001")?, "port")?,
            size: unlimited_or(s.required("size", "size: 1 MB")?, "size", |n, k| draw(n, k, Unit::Bytes))?,
        },
        "http" => http(&s, hosts)?,
        "http_server" => Kind::HttpServer(HttpServer {
            port: s.read("port", port)?.unwrap_or(80),
            response_size: s
                .read("response_size", |n, k| draw(n, k, Unit::Bytes))?
                .unwrap_or(Draw::Fixed(10_000)),
            delay: s.read("delay", |n, k| draw(n, k, Unit::Time))?.unwrap_or(Draw::Fixed(0)),
        }),
        "dns" => dns(&s, hosts)?,
        "dns_server" => Kind::DnsServer {
            port: s.read("port", port)?.unwrap_or(53),
            delay: s.read("delay", |n, k| draw(n, k, Unit::Time))?.unwrap_or(Draw::Fixed(0)),
        },
        bursty => datagrams(&s, hosts, bursty == "on_off")?,
    };
    Ok(Spec { name, kind })
}

fn bulk(s: &Section, hosts: &Hosts) -> Result<Kind, Problem> {
    const WAYS: &[(&str, Direction)] = &[("up", Direction::Up), ("down", Direction::Down)];
    let direction = s.read("direction", |n, k| section::choice(n, k, WAYS))?.unwrap_or(Direction::Up);
    let size = match (direction, s.get("size")) {
        (Direction::Up, _) => {
            let node = s.required("size", "size: 10 MB")?;
            unlimited_or(node, "size", |n, k| draw(n, k, Unit::Bytes))?
        }
        (Direction::Down, Some(node)) => {
            return Err(node
                .problem("the size of a transfer down is what the server sends")
                .help("remove 'size'; a model of type 'source' has one"));
        }
        (Direction::Down, None) => None,
    };
    let to = endpoints(s.required("to", "to: server:5001")?, None, hosts)?;
    Ok(Kind::Bulk(Bulk { to, direction, size, pace: pace(s)? }))
}

fn http(s: &Section, hosts: &Hosts) -> Result<Kind, Problem> {
    let path = s.read("path", section::string)?.unwrap_or("/");
    if !path.starts_with('/') || path.contains(|c: char| c.is_control() || c == ' ') {
        let message = format!("'{}' is not a path of a request", path.escape_debug());
        let problem = s.get("path").map(|node| node.problem(&message));
        return Err(problem
            .unwrap_or_else(|| Problem::whole_file(message))
            .help("it begins with '/' and has no spaces, such as /index.html"));
    }
    Ok(Kind::Http(Http {
        to: endpoints(s.required("to", "to: server:80")?, Some(80), hosts)?,
        path: path.to_owned(),
        request_size: s.read("request_size", |n, k| draw(n, k, Unit::Bytes))?.unwrap_or(Draw::Fixed(0)),
        keep_alive: s.read("keep_alive", section::boolean)?.unwrap_or(true),
        timeout: s.read("timeout", positive_time)?.unwrap_or(SimDuration::from_secs(60)),
        pace: pace(s)?,
    }))
}

fn datagrams(s: &Section, hosts: &Hosts, bursty: bool) -> Result<Kind, Problem> {
    let node = s.required("to", "to: server:5001")?;
    let [to] = &endpoints(node, None, hosts)?[..] else {
        let problem = node.problem("a stream of datagrams goes to one host");
        return Err(problem.help("make an item of 'processes' for each"));
    };
    let datagram_size = s.read("datagram_size", section::bytes)?.unwrap_or(1_200);
    if let Some(node) = s.get("datagram_size")
        && !(16..=LARGEST_DATAGRAM).contains(&datagram_size)
    {
        return Err(node
            .problem(format!("'datagram_size' must be from 16 B to {LARGEST_DATAGRAM} B"))
            .help("its first 16 bytes hold number and time"));
    }
    let part = |key: &str| match s.required(key, &format!("{key}: {{ exponential: 1 s }}")) {
        Ok(node) => draw(node, key, Unit::Time),
        Err(problem) => Err(problem),
    };
    Ok(Kind::Datagrams(Datagrams {
        to: to.clone(),
        rate: section::bandwidth(s.required("rate", "rate: 1 Mbit")?, "rate")?,
        datagram_size,
        bursts: if bursty { Some((part("burst")?, part("silence")?)) } else { None },
        duration: s.read("duration", positive_time)?,
    }))
}

fn dns(s: &Section, hosts: &Hosts) -> Result<Kind, Problem> {
    let to = match s.get("to") {
        Some(node) => match &mut endpoints(node, Some(53), hosts)?[..] {
            [one] => one.clone(),
            _ => {
                let problem = node.problem("a DNS client asks one server");
                return Err(problem.help("make an item of 'processes' for each"));
            }
        },
        None => Endpoint { host: hosts.name_server.to_string(), address: hosts.name_server, port: 53 },
    };
    let node = s.required("names", "names: [server]")?;
    let mut names = Vec::new();
    for item in section::list(node, "names")? {
        let name = section::string(item, "a name of 'names'")?;
        let label = |label: &str| (1..=63).contains(&label.len()) && label.is_ascii();
        if !name.trim_end_matches('.').split('.').all(label) || name.len() > 253 {
            return Err(item.problem(format!("'{name}' is not a name that can be asked for")));
        }
        names.push(name.trim_end_matches('.').to_owned());
    }
    if names.is_empty() {
        return Err(node.problem("'names' is empty").help("write names: [server]"));
    }
    Ok(Kind::Dns(Dns {
        to,
        names,
        timeout: s.read("timeout", positive_time)?.unwrap_or(SimDuration::from_secs(5)),
        retries: s.read("retries", |n, k| section::whole(n, k, 100))?.unwrap_or(2) as u32,
        pace: pace(s)?,
    }))
}

/// Number and pace of repetitions; by default once without a pause.
fn pace(s: &Section) -> Result<Pace, Problem> {
    let [count, pause, interval] = [CLIENT[0], CLIENT[1], CLIENT[2]];
    let count = match s.get(count) {
        Some(node) => unlimited_or(node, count, |n, k| match section::whole(n, k, u64::MAX)? {
            0 => Err(n.problem("'count' must be at least 1")),
            n => Ok(n),
        })?,
        None => Some(1),
    };
    let spacing = match (s.get(pause), s.get(interval)) {
        (Some(_), Some(second)) => {
            return Err(second
                .problem("a client has a 'pause' or an 'interval', not both")
                .help("a pause counts from the end of one, an interval from its beginning"));
        }
        (None, Some(node)) => Spacing::Interval(draw(node, interval, Unit::Time)?),
        (Some(node), None) => Spacing::Pause(draw(node, pause, Unit::Time)?),
        (None, None) => Spacing::Pause(Draw::Fixed(0)),
    };
    Ok(Pace { count, spacing })
}

fn unlimited_or<T>(
    node: &Node,
    key: &str,
    read: impl FnOnce(&Node, &str) -> Result<T, Problem>,
) -> Result<Option<T>, Problem> {
    match section::string(node, key) {
        Ok("unlimited") => Ok(None),
        _ => read(node, key).map(Some),
    }
}

fn port(node: &Node, key: &str) -> Result<u16, Problem> {
    match section::whole(node, key, 65_535)? {
        0 => Err(node.problem(format!("'{key}' must be from 1 to 65535"))),
        port => Ok(port as u16),
    }
}

fn positive_time(node: &Node, key: &str) -> Result<SimDuration, Problem> {
    match section::duration(node, key)? {
        SimDuration::ZERO => Err(node.problem(format!("'{key}' must not be 0"))),
        time => Ok(time),
    }
}

/// `host`, `host:port`, or a list of them.
fn endpoints(node: &Node, default_port: Option<u16>, hosts: &Hosts) -> Result<Vec<Endpoint>, Problem> {
    match &node.value {
        Value::Sequence(items) if items.is_empty() => {
            Err(node.problem("'to' is empty").help("write to: server:5001"))
        }
        Value::Sequence(items) => items.iter().map(|item| endpoint(item, default_port, hosts)).collect(),
        _ => endpoint(node, default_port, hosts).map(|one| vec![one]),
    }
}

fn endpoint(node: &Node, default_port: Option<u16>, hosts: &Hosts) -> Result<Endpoint, Problem> {
    let text = section::string(node, "to")?;
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok().filter(|port| *port > 0)),
        None => (text, default_port),
    };
    let Some(port) = port else {
        return Err(node
            .problem(format!("'{text}' does not end with a port"))
            .help(format!("write {}:5001, say", text.split(':').next().unwrap_or("server"))));
    };
    let address = match host.parse() {
        Ok(address) => address,
        Err(_) if (hosts.has)(host) => Ipv4Addr::UNSPECIFIED,
        Err(_) => {
            let problem = node.problem(format!("there is no host '{host}'"));
            let near = nearest(host, (hosts.names)()).map(|near| format!("did you mean '{near}:{port}'?"));
            return Err(problem.maybe_help(near));
        }
    };
    Ok(Endpoint { host: host.to_owned(), address, port })
}

#[derive(Clone, Copy)]
enum Unit {
    /// Time in picoseconds.
    Time,
    Bytes,
}

impl Unit {
    fn largest(self) -> u64 {
        match self {
            Unit::Time => LONGEST.as_picos(),
            Unit::Bytes => LARGEST,
        }
    }
    fn read(self, node: &Node, key: &str) -> Result<u64, Problem> {
        match self {
            Unit::Time => section::duration(node, key).map(SimDuration::as_picos),
            Unit::Bytes => match section::bytes(node, key)? {
                bytes if bytes > LARGEST => Err(node.problem(format!("'{key}' is more than 1024 TiB"))),
                bytes => Ok(bytes),
            },
        }
    }
}

/// A value, or its distribution: `{ uniform: [1 KB, 2 KB] }`, `{ exponential: 1 s }`,
/// `{ pareto: { mean: 1 MB, shape: 1.2, max: 1 GB } }`.
fn draw(node: &Node, key: &str, unit: Unit) -> Result<Draw, Problem> {
    const FORMS: &str = "write a value, { exponential: MEAN }, { uniform: [LEAST, MOST] } or \
                         { pareto: { mean: MEAN, shape: 1.5 } }";
    if let Value::Scalar(_) = &node.value {
        return unit.read(node, key).map(Draw::Fixed);
    }
    if let Value::Sequence(_) = &node.value {
        return Err(node.problem(format!("'{key}' cannot be a list")).help(FORMS));
    }
    let s = Section::new(node, &format!("'{key}'"), &["exponential", "uniform", "pareto"], false)?;
    match (s.get("exponential"), s.get("uniform"), s.get("pareto")) {
        (Some(mean), None, None) => unit.read(mean, "exponential").map(Draw::Exponential),
        (None, Some(range), None) => {
            let [least, most] = section::list(range, "uniform")? else {
                return Err(range.problem("'uniform' takes the least and the most").help(FORMS));
            };
            let (least, most) = (unit.read(least, "uniform")?, unit.read(most, "uniform")?);
            match least <= most {
                true => Ok(Draw::Uniform(least, most)),
                false => Err(range.problem("the least of 'uniform' is more than the most")),
            }
        }
        (None, None, Some(node)) => {
            let p = Section::new(node, "'pareto'", &["mean", "shape", "max"], false)?;
            let shape_node = p.required("shape", "shape: 1.5")?;
            let text = section::string(shape_node, "shape")?;
            let Some(shape) =
                text.parse::<f64>().ok().filter(|shape| (1.0..=1_000.0).contains(shape) && *shape > 1.0)
            else {
                return Err(shape_node
                    .problem(format!("'shape' must be a number above 1, not '{text}'"))
                    .help("at 1 and below a Pareto distribution has no mean"));
            };
            Ok(Draw::Pareto {
                mean: unit.read(p.required("mean", "mean: 1 MB")?, "mean")?,
                shape,
                max: p.read("max", |n, k| unit.read(n, k))?.unwrap_or(unit.largest()),
            })
        }
        _ => Err(node.problem(format!("'{key}' must have one distribution")).help(FORMS)),
    }
}
