use super::round_trip::round_trip;
use super::*;
use crate::topology::{DeviceKind, Radio};
use belljar_radio::{LogDistance, Point, Propagation, Settings};

const AIR: &str = r#"
general: { stop_time: 9 s }
hosts:
  n1: &host { processes: [], forwarding: true, routes: [] }
  n2: *host
  n10: *host
  gate: { processes: [] }
routers: [r]
radios:
  air:
    stations: { "n*:wlan0": , "n10": [1, 2.5, 3], r: { path: [[0 s, 0, 0], [2 s, 10, -5]] } }
    mobility: { random_waypoint: { area: [100, 50], speed: [1, 2.5], pause: 3 s, steady_state: true } }
    carrier_sense_range: 300
    packet_loss: 0.25
    latency: 20 us
    window: [15, 63]
  far:
    stations: { n1: [0, 0], gate: [9, 0] }
    log_distance: { exponent: 2.5, transmit_power: -3 }
    rate: 54 Mbit
links:
- { between: [gate, r] }
events:
- { at: 3 s, move: n1, to: [5, 5], speed: 1.5 }
- { at: 4 s, move: all, to: [5, 5, 5] }
"#;

fn radio<'a>(e: &'a Experiment, name: &str) -> (&'a Radio, Vec<String>) {
    let device = e.topology.devices.iter().find(|device| device.name == name).unwrap();
    let station = |port: &crate::topology::Interface| {
        let end = &e.topology.links[port.link].ends[1 - port.end];
        let own = &e.node_interfaces(end.node)[end.port];
        let address = own.addresses.first().map_or_else(String::new, |own| own.to_string());
        format!("{} {}:{} {address}", port.name, e.node_name(end.node), own.name)
    };
    let stations = device.interfaces.iter().map(station).collect();
    let DeviceKind::Radio(radio) = &device.kind else { panic!("a radio") };
    (radio, stations)
}

#[test]
fn stations_get_links_and_addresses_of_one_network() {
    let e = parse(AIR);
    let (air, stations) = radio(&e, "air");
    let expected = [
        "p1 n1:wlan0 10.0.1.1/24",
        "p2 n2:wlan0 10.0.1.2/24",
        "p3 n10:wlan0 10.0.1.3/24",
        "p4 r:eth1 10.0.1.4/24",
    ];
    assert_eq!(stations, expected);
    assert_eq!(e.topology.links[1].name, "n1:wlan0-air");
    let latency = SimDuration::from_micros(20);
    assert!(
        e.topology.links[1]
            .ends
            .iter()
            .all(|end| end.properties.latency == latency && end.properties.rate.is_none())
    );
    assert_eq!(air.settings.propagation, Propagation::Range { range: 250.0, carrier_sense: 300.0 });
    let expected = Settings {
        propagation: air.settings.propagation.clone(),
        loss: 0.25,
        window: [15, 63],
        ..Settings::default()
    };
    assert_eq!(air.settings, expected);
    let places = air.tracks.iter().map(|track| track.as_ref().map(|track| track.at(SimTime::from_secs(1))));
    let place = |x, y, z| Some(Point { x, y, z });
    assert_eq!(places.collect::<Vec<_>>(), [None, None, place(1.0, 2.5, 3.0), place(5.0, -2.5, 0.0)]);
    assert_eq!(air.movement.as_ref().unwrap().pause, SimDuration::from_secs(3));
    let (far, stations) = radio(&e, "far");
    assert_eq!(stations, ["p1 n1:eth0 10.0.2.1/24", "p2 gate:eth1 10.0.2.2/24"]);
    let model = LogDistance { exponent: 2.5, transmit_power: -3.0, ..LogDistance::default() };
    assert_eq!(
        (&far.settings.propagation, far.settings.capture),
        (&Propagation::LogDistance(model), Some(10.0))
    );
}

#[test]
fn the_resolved_radios_load_again() {
    round_trip(AIR);
    round_trip(&AIR.replace("    rate: 54 Mbit", "    capture: none"));
}

#[test]
fn links_to_a_radio_may_be_written_out() {
    let e = parse(
        "general: { stop_time: 1 }\nhosts: { a: { processes: [] }, b: { processes: [] } }\n\
        radios: { air: { stations: { a: [0, 0], b: [1, 1] } } }\n\
        links: [ { between: [\"b:w\", air], latency: 1 ms } ]\n",
    );
    assert_eq!(radio(&e, "air").1, ["p1 b:w 10.0.0.1/24", "p2 a:eth0 10.0.0.2/24"]);
    assert_eq!(e.topology.links[0].ends[0].properties.latency, SimDuration::from_millis(1));
}
