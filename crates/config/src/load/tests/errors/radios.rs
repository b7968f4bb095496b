use super::*;
use std::path::PathBuf;

/// Hosts a and b, and a radio with these settings.
fn radios(settings: &str) -> String {
    format!(
        "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\nradios: {{ air: {{ {settings} }} }}\n"
    )
}

#[track_caller]
fn radio(settings: &str, expected: &str, help: &str) {
    check(&radios(settings), expected, help);
}

/// The same with stations.
#[track_caller]
fn stations(settings: &str, expected: &str, help: &str) {
    radio(&format!("stations: {{ a: [0, 0], b: [1, 1] }}, {settings}"), expected, help);
}

const STATIONS: &str = "write stations: { n1: [0, 0], n2: [200, 0] }, or a list of hosts with 'mobility'";

#[test]
fn stations_of_radios() {
    let text = format!(
        "{GENERAL}\nhosts: {{ a: {{ processes: [] }} }}\nradios: [air]\nlinks: [ {{ between: [a, air] }} ]\n"
    );
    check(&text, "3:10 radio 'air' has no stations", STATIONS);
    let text = format!("{GENERAL}\n{NETWORK}\n{HOSTS}\nradios: [air]\n");
    check(&text, "4:10 radio 'air' has no stations", STATIONS);
    radio("stations: [a, b]", "3:29 station 'a' of radio 'air' has no position", STATIONS);
    radio(
        "stations: { a: [0, 0], bob: [1, 1] }",
        "3:41 radio 'air' has a station 'bob', which is no host or router",
        "",
    );
    let text = format!(
        "{GENERAL}\nhosts: {{ a: {{ processes: [] }} }}\nswitches: [s]\nradios: {{ air: {{ stations: {{ a: [0, 0], s: [1, 1] }} }} }}\n"
    );
    check(
        &text,
        "4:41 's' cannot be a station of radio 'air'",
        "stations are hosts and routers: a host can have another interface to a switch",
    );
    radio(
        "stations: { \"a:lo\": [0, 0] }",
        "3:30 'lo' is the loopback interface of host 'a'",
        "write a:eth1",
    );
    radio(
        "stations: 5",
        "3:28 'stations' must be a mapping, but is a number",
        "write keys and values, one per line: 'key: value'",
    );
}

#[test]
fn places_of_stations() {
    const POSITION: &str = "write a position in metres: [100, 250]";
    const PATH: &str = "write times and positions: path: [[0 s, 0, 0], [60 s, 300, 0]]";
    for (place, expected, help) in [
        ("[1]", "a position has two or three coordinates", POSITION),
        ("{ }", "a station has a 'position' or a 'path'", POSITION),
        ("{ path: [[0 s, 1]] }", "a waypoint has a time and two or three coordinates", PATH),
        ("{ path: [] }", "the times of a path are empty or go back", PATH),
        ("{ path: [[2 s, 0, 0], [1 s, 0, 0]] }", "the times of a path are empty or go back", PATH),
        ("[here, 0]", "'position' must be a number, without a unit, not 'here'", ""),
    ] {
        let text = format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }} }}\nradios: {{ air: {{ stations: {{ a: {place} }} }} }}\n"
        );
        let error = Experiment::parse_in("test.yaml", &text, &around()).unwrap_err();
        assert_eq!((error.message.as_str(), error.help.as_deref().unwrap_or_default()), (expected, help));
        assert_eq!(error.position.map(|(line, _)| line), Some(3));
    }
}

#[test]
fn settings_of_radios() {
    stations("range: 10 m", "3:61 'range' must be a number, without a unit, not '10 m'", "");
    stations("range: -1", "3:61 'range' must be at least 0, not -1", "");
    stations(
        "range: 100, carrier_sense_range: 50",
        "3:87 'carrier_sense_range' is less than 'range'",
        "who receives a frame hears it",
    );
    stations(
        "range: 100, log_distance: {}",
        "3:54 'range' is not valid with 'log_distance'",
        "how far a signal reaches follows from its power and the thresholds",
    );
    stations(
        "log_distance: { carrier_sense_threshold: -10 }",
        "3:95 'carrier_sense_threshold' is above 'reception_threshold'",
        "who receives a frame hears it",
    );
    stations(
        "capture: 10",
        "3:63 'capture' is only valid with 'log_distance'",
        "within a range all signals are equally strong: frames that overlap are lost",
    );
    stations("overhead: 1 MB", "3:64 'overhead' must be at most 65535 B", "");
    stations("slot: 0 s", "3:60 'slot' must be between 1 ns and 1 s", "");
    stations("preamble: 2 s", "3:64 'preamble' must be between 0 and 1 s", "");
    stations(
        "window: [1]",
        "3:62 'window' is the least and the greatest contention window",
        "write window: [31, 1023]",
    );
    stations(
        "window: [63, 31]",
        "3:67 the greatest contention window is less than the least",
        "write window: [31, 1023]",
    );
}

#[test]
fn mobility_of_radios() {
    const KINDS: &str = "write mobility: { ns2: scenario.tcl }, or mobility: { random_waypoint: { area: [1000, 1000], speed: [1, 10] } }";
    #[track_caller]
    fn mobility(text: &str, expected: &str, help: &str) {
        // The files do not exist, which is an error of its own.
        check_among(&radios(&format!("stations: [a, b], mobility: {{ {text} }}")), expected, help);
    }
    mobility("", "3:46 'mobility' has one of ns2, bonnmotion and random_waypoint", KINDS);
    mobility(
        "ns2: x, bonnmotion: y",
        "3:46 'mobility' has one of ns2, bonnmotion and random_waypoint",
        KINDS,
    );
    mobility("ns2: x, dimensions: 3", "3:56 'dimensions' is only valid with 'bonnmotion'", "");
    mobility(
        "random_waypoint: { area: [1], speed: [1, 2] }",
        "3:73 'area' must have two numbers",
        "write the sides in metres: area: [1000, 1000]",
    );
    mobility(
        "random_waypoint: { speed: [1, 2] }",
        "3:65 'random_waypoint' has no 'area'",
        "add area: [1000, 1000], the sides in metres",
    );
    mobility(
        "random_waypoint: { area: [1, 1] }",
        "3:65 'random_waypoint' has no 'speed'",
        "add speed: [1, 10], in metres per second",
    );
    mobility(
        "random_waypoint: { area: [1, 1], speed: [2] }",
        "3:88 'speed' must have two numbers",
        "write the least and the greatest, in metres per second: speed: [1, 10]",
    );
    mobility(
        "random_waypoint: { area: [1, 1], speed: [0, 2] }",
        "3:89 'speed' must be at least 0.001, not 0",
        "",
    );
    mobility(
        "random_waypoint: { area: [1, 1], speed: [3, 2] }",
        "3:88 the greatest speed is less than the least",
        "write speed: [1, 10]",
    );
}

#[test]
fn movement_files() {
    let folder = std::env::temp_dir().join(format!("belljar-movement-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let around = PathContext { base_dir: folder.clone(), ..PathContext::default() };
    let text = |mobility: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }} }}\nradios: {{ air: {{ stations: [a, b], mobility: {{ {mobility} }} }} }}\n"
        )
    };
    let error = |mobility: &str| Experiment::parse_in("test.yaml", &text(mobility), &around).unwrap_err();
    let said = |mobility: &str| error(mobility).message;
    assert_eq!(said("ns2: none.tcl"), "there is no movement file 'none.tcl'");
    assert!(said("ns2: .").starts_with("the movement file '.' cannot be read: "));
    std::fs::write(folder.join("binary"), [0xff]).unwrap();
    assert_eq!(said("ns2: binary"), "the movement file 'binary' is not text");
    std::fs::write(folder.join("bad.tcl"), "$node_(0) set X_ 1\n$node_(0) set Y_ far\n").unwrap();
    let bad = error("ns2: bad.tcl");
    assert_eq!((bad.position, bad.message.as_str()), (Some((2, 1)), "'far' is not a coordinate in metres"));
    assert_eq!(PathBuf::from(&bad.file), folder.join("bad.tcl"), "the file that has the error");
    std::fs::write(folder.join("empty"), "").unwrap();
    let empty = error("bonnmotion: empty");
    assert_eq!((empty.position, empty.message.as_str()), (None, "no node has a waypoint"));
    std::fs::write(folder.join("one"), "0 1 2 9 3 4\n").unwrap();
    let one = error("bonnmotion: one");
    assert_eq!(one.message, "'one' says nothing of node 1, which is station 'b'");
    assert_eq!(one.help.as_deref(), Some("the stations are the file's nodes in their order, from 0"));
    std::fs::write(folder.join("two"), "0 1 2 9 3 4\n0 5 6\n").unwrap();
    let loaded = Experiment::parse_in("test.yaml", &text("bonnmotion: two"), &around).unwrap();
    // The resolved experiment contains the movement file's data.
    assert!(loaded.to_yaml().contains("{ path: [[0 s, 1, 2], [9 s, 3, 4]] }"), "{}", loaded.to_yaml());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn moves_of_hosts() {
    let event = |event: &str| {
        format!(
            "{GENERAL}\nhosts: {{ a: {{ processes: [] }}, b: {{ processes: [] }}, c: {{ processes: [] }} }}\n\
            radios: {{ air: {{ stations: {{ a: [0, 0] }} }} }}\nlinks: [ {{ between: [b, c] }} ]\nevents:\n- {{ at: 1 s, {event} }}\n"
        )
    };
    check(
        &event("move: b, to: [1, 1]"),
        "6:20 host 'b' is no station of a radio, so it has no place to move from",
        "add it to the 'stations' of a radio",
    );
    check(&event("move: a"), "6:3 an event has no 'to'", "add to: [100, 250]");
    check(&event("move: a, to: [1, 1], speed: 0"), "6:42 'speed' must be at least 0.001, not 0", "");
    check(
        &event("move: a, to: [1, 1], for: 3 s"),
        "6:40 'move' cannot be undone after a time",
        "leave out 'for': it is valid for events that bring a fault",
    );
}
