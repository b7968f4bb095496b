//! Positions of a radio's stations: fixed positions, paths, movement files, random waypoint.

use super::radios::number;
use crate::PathContext;
use crate::error::plain;
use crate::error::{Problem, Source, Span};
use crate::yaml::{Node, Section, Value, section};
use belljar_base::{Map, SimDuration};
use belljar_radio::{Point, RandomWaypoint, Track, TrackError, Waypoint, bonnmotion, ns2};

const MOBILITY_KEYS: &[&str] = &["ns2", "bonnmotion", "random_waypoint", "dimensions"];
const WAYPOINT_KEYS: &[&str] = &["area", "speed", "pause", "steady_state"];
const POSITION: &str = "write a position in metres: [100, 250]";
const PATH: &str = "write times and positions: path: [[0 s, 0, 0], [60 s, 300, 0]]";

/// Mobility of the stations without a position or path.
#[derive(Default)]
pub(super) enum Mobility {
    /// Unspecified.
    #[default]
    None,
    /// Tracks by station number, with the position of the setting and the name of the file.
    Tracks(Map<usize, Track>, Span, String),
    /// Random, determined by the seed.
    Random(RandomWaypoint),
}

/// The `mobility` of a radio.
pub(super) fn mobility(node: &Node, around: &PathContext) -> Result<Mobility, Problem> {
    let s = Section::new(node, "'mobility'", MOBILITY_KEYS, false)?;
    let given: Vec<&str> = MOBILITY_KEYS[..3].iter().copied().filter(|key| s.get(key).is_some()).collect();
    let [kind] = given[..] else {
        return Err(node.problem("'mobility' has one of ns2, bonnmotion and random_waypoint").help(
            "write mobility: { ns2: scenario.tcl }, or mobility: { random_waypoint: { area: [1000, 1000], speed: [1, 10] } }",
        ));
    };
    if let Some(entry) = s.entry("dimensions").filter(|_| kind != "bonnmotion") {
        return Err(Problem::at(entry.key_span, "'dimensions' is only valid with 'bonnmotion'"));
    }
    let node = s.get(kind).expect("it was found");
    if kind == "random_waypoint" {
        return random_waypoint(node).map(Mobility::Random);
    }
    let three = s.read("dimensions", |n, k| section::choice(n, k, &[("2", false), ("3", true)]))?;
    let (written, source) = file(node, kind, around)?;
    let tracks = match kind {
        "ns2" => ns2::parse(&source.text),
        _ => bonnmotion::parse(&source.text, three.unwrap_or(false))
            .map(|tracks| tracks.into_iter().enumerate().collect()),
    };
    match tracks {
        Ok(tracks) => Ok(Mobility::Tracks(tracks, node.span, written)),
        Err(TrackError { line, message, help }) => {
            let len = source.text.lines().nth(line.wrapping_sub(1)).map_or(1, |line| line.chars().count());
            let problem = match line {
                0 => Problem::whole_file(message),
                line => Problem::at(Span { line, column: 1, len }, message),
            };
            Err(problem.help(help).in_file(source, node.span))
        }
    }
}

fn file(node: &Node, key: &str, around: &PathContext) -> Result<(String, Source), Problem> {
    let written = section::string(node, key)?;
    let expanded = around.expand(written).map_err(|message| node.problem(message))?;
    let places = around.candidates(&expanded);
    let path = places.iter().find(|path| path.exists()).ok_or_else(|| {
        let looked: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        node.problem(format!("there is no movement file '{written}'"))
            .help(format!("looked for {}", looked.join(" and ")))
    })?;
    let bytes = belljar_inputs::read(path)
        .map_err(|e| node.problem(format!("the movement file '{written}' cannot be read: {}", plain(&e))))?;
    let text = String::from_utf8(bytes)
        .map_err(|_| node.problem(format!("the movement file '{written}' is not text")))?;
    Ok((written.to_owned(), Source { name: path.display().to_string(), text }))
}

fn random_waypoint(node: &Node) -> Result<RandomWaypoint, Problem> {
    let s = Section::new(node, "'random_waypoint'", WAYPOINT_KEYS, false)?;
    let area = s.required("area", "area: [1000, 1000], the sides in metres")?;
    let [width, height] = pair(area, "area", 0.001, "write the sides in metres: area: [1000, 1000]")?;
    let speed = s.required("speed", "speed: [1, 10], in metres per second")?;
    // At lower speeds stations would stand still: random waypoint has no steady state with a minimum speed of
    // 0.
    let [least, most] = pair(
        speed,
        "speed",
        0.001,
        "write the least and the greatest, in metres per second: speed: [1, 10]",
    )?;
    if most < least {
        return Err(speed.problem("the greatest speed is less than the least").help("write speed: [1, 10]"));
    }
    Ok(RandomWaypoint {
        area: [width, height],
        speed: [least, most],
        pause: s.read("pause", section::duration)?.unwrap_or(SimDuration::ZERO),
        steady_state: s.read("steady_state", section::boolean)?.unwrap_or(false),
    })
}

/// Two numbers.
fn pair(node: &Node, key: &str, least: f64, help: &str) -> Result<[f64; 2], Problem> {
    let [first, second] = section::list(node, key)? else {
        return Err(node.problem(format!("'{key}' must have two numbers")).help(help));
    };
    Ok([number(first, key, least)?, number(second, key, least)?])
}

/// `[x, y]`, `[x, y, z]`, `{ position: ... }` or `{ path: ... }`.
pub(super) fn station(node: &Node) -> Result<Track, Problem> {
    if matches!(node.value, Value::Sequence(_)) {
        return Ok(Track::still(position(node, "position")?));
    }
    let s = Section::new(node, "a station", &["position", "path"], false)?;
    match (s.get("position"), s.get("path")) {
        (Some(node), None) => Ok(Track::still(position(node, "position")?)),
        (None, Some(node)) => {
            let waypoints = section::list(node, "path")?.iter().map(|item| waypoint(item));
            let waypoints = waypoints.collect::<Result<Vec<_>, _>>()?;
            Track::new(waypoints)
                .ok_or_else(|| node.problem("the times of a path are empty or go back").help(PATH))
        }
        _ => Err(node.problem("a station has a 'position' or a 'path'").help(POSITION)),
    }
}

fn waypoint(node: &Node) -> Result<Waypoint, Problem> {
    let (at, place) = match section::list(node, "path")? {
        [at, place @ ..] if matches!(place.len(), 2 | 3) => (at, place),
        _ => return Err(node.problem("a waypoint has a time and two or three coordinates").help(PATH)),
    };
    Ok(Waypoint { at: section::time(at, "path")?, to: point(place, "path")? })
}

/// A position in metres.
pub(crate) fn position(node: &Node, key: &str) -> Result<Point, Problem> {
    match section::list(node, key)? {
        place if matches!(place.len(), 2 | 3) => point(place, key),
        _ => Err(node.problem("a position has two or three coordinates").help(POSITION)),
    }
}

fn point(items: &[std::rc::Rc<Node>], key: &str) -> Result<Point, Problem> {
    let coordinates =
        items.iter().map(|item| number(item, key, -1e9)).collect::<Result<Vec<f64>, Problem>>()?;
    let z = coordinates.get(2).copied().unwrap_or(0.0);
    Ok(Point { x: coordinates[0], y: coordinates[1], z })
}
