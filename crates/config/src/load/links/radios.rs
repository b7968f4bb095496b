//! Section `radios`: radio channels, their stations and the stations' mobility.

use super::ends::{Draft, End, check_interface, free_name};
use super::tracks;
use super::{Kind, Station};
use crate::PathContext;
use crate::error::{Problem, Span};
use crate::load::events_values::probability;
use crate::topology::{Interface, Radio};
use crate::yaml::section::{self, mapping};
use crate::yaml::{Node, Section, Value};
use belljar_base::{Set, SimDuration, matches_wildcard};
use belljar_net::link::LinkProperties;
use belljar_net::suggest::nearest;
use belljar_radio::{LogDistance, Propagation, Settings, Track};

pub(super) const KEYS: &[&str] = &[
    "stations",
    "mobility",
    "range",
    "carrier_sense_range",
    "log_distance",
    "capture",
    "packet_loss",
    "rate",
    "basic_rate",
    "preamble",
    "overhead",
    "slot",
    "sifs",
    "window",
    "retries",
    "queue",
    "latency",
];
const LOG_DISTANCE_KEYS: &[&str] =
    &["exponent", "reference_loss", "transmit_power", "reception_threshold", "carrier_sense_threshold"];
const STATIONS: &str = "stations: { n1: [0, 0], n2: [200, 0] }, or a list of hosts with 'mobility'";
/// Latency between a host and its radio.
const LATENCY: SimDuration = SimDuration::from_micros(10);
/// Upper bound on coordinates and distances, in metres.
const FAR: f64 = 1e9;

/// An entry of `stations`.
struct Member<'a> {
    /// A name, `name:interface`, or a pattern.
    text: String,
    span: Span,
    place: Option<&'a Node>,
}

impl Member<'_> {
    fn split(&self) -> (&str, Option<&str>) {
        match self.text.split_once(':') {
            Some((name, interface)) => (name, Some(interface)),
            None => (&self.text, None),
        }
    }
    fn means(&self, name: &str) -> bool {
        matches_wildcard(self.split().0, name)
    }
}

/// Names of the hosts and routers that are stations, as far as the file can be parsed; errors are reported
/// later.
pub(super) fn stations(file: &Section) -> Set<String> {
    let entries = |key| file.get(key).and_then(|node| mapping(node, key).ok()).unwrap_or_default();
    let mut names = Set::new();
    for radio in entries("radios") {
        let Value::Mapping(settings) = &radio.value.value else { continue };
        let Some(node) = settings.iter().find(|entry| entry.key == "stations") else { continue };
        for member in members(&node.value).unwrap_or_default() {
            let hosts = entries("hosts").iter().map(|host| &host.key);
            names.extend(hosts.filter(|name| member.means(name)).cloned());
        }
    }
    names
}

/// A list of stations, or a mapping of stations to their positions.
fn members(node: &Node) -> Result<Vec<Member<'_>>, Problem> {
    match &node.value {
        Value::Sequence(items) => {
            let member = |item: &std::rc::Rc<Node>| {
                Ok(Member {
                    text: section::string(item, "stations")?.to_owned(),
                    span: item.span,
                    place: None,
                })
            };
            items.iter().map(member).collect()
        }
        _ => {
            let entries = mapping(node, "'stations'")?.iter().map(|entry| Member {
                text: entry.key.clone(),
                span: entry.key_span,
                place: Some(&*entry.value).filter(|place| !place.is_null()),
            });
            Ok(entries.collect())
        }
    }
}

fn members_of<'a>(station: &Station<'a>) -> Result<Vec<Member<'a>>, Problem> {
    let node = station.section.as_ref().and_then(|section| section.get("stations"));
    node.map(members).transpose().map(Option::unwrap_or_default)
}

/// Adds a link to the radio, with only its latency, for each station without a link in the file.
pub(super) fn join(stations: &[Station], drafts: &mut Vec<Draft>) -> Result<(), Problem> {
    for (radio, own) in stations.iter().enumerate().filter(|(_, station)| station.kind == Kind::Radio) {
        let section = own.section.as_ref();
        let latency = section.map(|s| s.read("latency", super::values::latency)).transpose()?.flatten();
        let line =
            LinkProperties { rate: None, latency: latency.unwrap_or(LATENCY), ..LinkProperties::default() };
        for member in members_of(own)? {
            let (name, interface) = member.split();
            let mut found: Vec<usize> =
                (0..stations.len()).filter(|n| member.means(&stations[*n].name)).collect();
            found.sort_by_key(|n| super::natural(&stations[*n].name));
            if found.is_empty() {
                let help = nearest(name, stations.iter().map(|station| station.name.as_str()));
                return Err(Problem::at(
                    member.span,
                    format!("radio '{}' has a station '{name}', which is no host or router", own.name),
                )
                .maybe_help(help.map(|near| format!("did you mean '{near}'?"))));
            }
            for station in found {
                if let Some(interface) = interface {
                    check_interface(member.span, &stations[station], interface)?;
                }
                let is_link = |draft: &&Draft| {
                    let other = |n: usize| &draft.ends[1 - n];
                    (0..2).any(|n| {
                        draft.ends[n].station == radio
                            && other(n).station == station
                            && interface.is_none_or(|interface| other(n).interface == interface)
                    })
                };
                if drafts.iter().any(|draft| is_link(&draft)) {
                    continue;
                }
                let taken = |station: usize| {
                    let ends = drafts.iter().flat_map(|draft| &draft.ends);
                    let mut names: Set<String> =
                        ends.filter(|end| end.station == station).map(|end| end.interface.clone()).collect();
                    free_name(&stations[station], &mut names)
                };
                let port = taken(radio);
                let interface = interface.map_or_else(|| taken(station), str::to_owned);
                let span = member.span;
                drafts.push(Draft {
                    name: format!("{}:{interface}-{}", stations[station].name, own.name),
                    ends: [End { station, interface, span }, End { station: radio, interface: port, span }],
                    lines: [line.clone(), line.clone()],
                    queues: [None; 2],
                    beyond_channel: None,
                    mtu_span: None,
                    mtu: 1_500,
                    cost: 1,
                    pci: None,
                });
            }
        }
    }
    Ok(())
}

/// Loads a radio, whose stations are at the other ends of its links.
pub(super) fn read(
    radio: &Station,
    interfaces: &[Interface],
    drafts: &[Draft],
    stations: &[Station],
    around: &PathContext,
) -> Result<Radio, Problem> {
    let name = &radio.name;
    let Some(s) = radio.section.as_ref().filter(|_| !interfaces.is_empty()) else {
        return Err(Problem::at(radio.span, format!("radio '{name}' has no stations"))
            .relational()
            .help(format!("write {STATIONS}")));
    };
    let settings = settings(s)?;
    let mobility =
        s.get("mobility").map(|node| tracks::mobility(node, around)).transpose()?.unwrap_or_default();
    let members = members_of(radio)?;
    let mut found = Vec::new();
    for (number, interface) in interfaces.iter().enumerate() {
        let end = &drafts[interface.link].ends[1 - interface.end];
        let station = &stations[end.station];
        if !matches!(station.kind, Kind::Host { .. } | Kind::Router) {
            return Err(Problem::at(
                end.span,
                format!("'{}' cannot be a station of radio '{name}'", station.name),
            )
            .help("stations are hosts and routers: a host can have another interface to a switch"));
        }
        let meant = |member: &&Member| {
            member.means(&station.name) && member.split().1.is_none_or(|own| own == end.interface)
        };
        let place = members.iter().filter(meant).find_map(|member| member.place);
        found.push(match place {
            Some(node) => Some(tracks::station(node)?),
            None => match &mobility {
                tracks::Mobility::None => {
                    return Err(Problem::at(
                        end.span,
                        format!("station '{}' of radio '{name}' has no position", station.name),
                    )
                    .relational()
                    .help(format!("write {STATIONS}")));
                }
                tracks::Mobility::Random(_) => None,
                tracks::Mobility::Tracks(tracks, span, file) => {
                    let track: Option<&Track> = tracks.get(&number);
                    Some(track.cloned().ok_or_else(|| {
                        Problem::at(
                            *span,
                            format!(
                                "'{file}' says nothing of node {number}, which is station '{}'",
                                station.name
                            ),
                        )
                        .help("the stations are the file's nodes in their order, from 0")
                    })?)
                }
            },
        });
    }
    let movement = match mobility {
        tracks::Mobility::Random(movement) => Some(movement),
        _ => None,
    };
    Ok(Radio { settings, movement, tracks: found })
}

fn settings(s: &Section) -> Result<Settings, Problem> {
    let usual = Settings::default();
    let propagation = propagation(s)?;
    let capture = match (&propagation, s.get("capture")) {
        (Propagation::Range { .. }, Some(node)) => {
            return Err(node
                .problem("'capture' is only valid with 'log_distance'")
                .relational()
                .help("within a range all signals are equally strong: frames that overlap are lost"));
        }
        (Propagation::Range { .. }, None) => None,
        (_, Some(node)) if section::string(node, "capture")? == "none" => None,
        (_, Some(node)) => Some(number(node, "capture", 0.0)?),
        (_, None) => Some(10.0),
    };
    let time = |key: &str, usual: SimDuration, zero: bool| {
        let time = s.read(key, section::duration)?.unwrap_or(usual);
        match s.get(key).filter(|_| time.is_zero() && !zero || time > SimDuration::from_secs(1)) {
            Some(node) => {
                let least = if zero { "0" } else { "1 ns" };
                Err(node.problem(format!("'{key}' must be between {least} and 1 s")))
            }
            None => Ok(time),
        }
    };
    let window = s.read("window", |node, key| {
        let [least, most] = section::list(node, key)? else {
            return Err(node
                .problem("'window' is the least and the greatest contention window")
                .help("write window: [31, 1023]"));
        };
        let window = [section::whole(least, key, 65_535)? as u32, section::whole(most, key, 65_535)? as u32];
        match window[0] <= window[1] {
            true => Ok(window),
            false => Err(most
                .problem("the greatest contention window is less than the least")
                .help("write window: [31, 1023]")),
        }
    })?;
    Ok(Settings {
        propagation,
        capture,
        loss: s.read("packet_loss", probability)?.unwrap_or(0.0),
        rate: s.read("rate", section::bandwidth)?.unwrap_or(usual.rate),
        basic_rate: s.read("basic_rate", section::bandwidth)?.unwrap_or(usual.basic_rate),
        preamble: time("preamble", usual.preamble, true)?,
        overhead: s
            .read("overhead", |node, key| match section::bytes(node, key)? {
                bytes if bytes > 65_535 => Err(node.problem(format!("'{key}' must be at most 65535 B"))),
                bytes => Ok(bytes),
            })?
            .unwrap_or(usual.overhead),
        slot: time("slot", usual.slot, false)?,
        sifs: time("sifs", usual.sifs, false)?,
        window: window.unwrap_or(usual.window),
        retries: s.read("retries", |n, k| section::whole(n, k, 255))?.map_or(usual.retries, |n| n as u32),
        queue: s.read("queue", |n, k| section::whole(n, k, 1_000_000))?.map_or(usual.queue, |n| n as usize),
    })
}

fn propagation(s: &Section) -> Result<Propagation, Problem> {
    let range = s.read("range", |n, k| number(n, k, 0.0))?;
    let sense = s.read("carrier_sense_range", |n, k| number(n, k, 0.0))?;
    let Some(node) = s.get("log_distance") else {
        let range = range.unwrap_or(250.0);
        let carrier_sense = sense.unwrap_or(range);
        if let Some(node) = s.get("carrier_sense_range").filter(|_| carrier_sense < range) {
            return Err(node
                .problem("'carrier_sense_range' is less than 'range'")
                .help("who receives a frame hears it"));
        }
        return Ok(Propagation::Range { range, carrier_sense });
    };
    if let Some(entry) = s.entry("range").or(s.entry("carrier_sense_range")) {
        return Err(Problem::at(entry.key_span, format!("'{}' is not valid with 'log_distance'", entry.key))
            .help("how far a signal reaches follows from its power and the thresholds"));
    }
    let usual = LogDistance::default();
    let s = Section::new(node, "'log_distance'", LOG_DISTANCE_KEYS, false)?;
    let any = |key: &str, usual: f64| Ok(s.read(key, |n, k| number(n, k, -1_000.0))?.unwrap_or(usual));
    let model = LogDistance {
        exponent: s.read("exponent", |n, k| number(n, k, 0.1))?.unwrap_or(usual.exponent),
        reference_loss: any("reference_loss", usual.reference_loss)?,
        transmit_power: any("transmit_power", usual.transmit_power)?,
        reception_threshold: any("reception_threshold", usual.reception_threshold)?,
        carrier_sense_threshold: any("carrier_sense_threshold", usual.carrier_sense_threshold)?,
    };
    if model.carrier_sense_threshold > model.reception_threshold {
        let node = s.get("carrier_sense_threshold").or(s.get("reception_threshold")).unwrap_or(node);
        return Err(node
            .problem("'carrier_sense_threshold' is above 'reception_threshold'")
            .help("who receives a frame hears it"));
    }
    Ok(Propagation::LogDistance(model))
}

/// A number of at least `least`.
pub(crate) fn number(node: &Node, key: &str, least: f64) -> Result<f64, Problem> {
    let text = section::string(node, key)?;
    match text.trim().parse::<f64>() {
        Ok(value) if (least..=FAR).contains(&value) => Ok(value),
        Ok(value) if value < least => {
            Err(node.problem(format!("'{key}' must be at least {least}, not {text}")))
        }
        _ => Err(node.problem(format!("'{key}' must be a number, without a unit, not '{text}'"))),
    }
}
