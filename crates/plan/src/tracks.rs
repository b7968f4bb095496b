//! Tracks of radio stations: specified in the file, drawn from the seed, and changed by events.

use crate::occurrences;
use belljar_base::HostId;
use belljar_config::topology::{DeviceKind, Interface, Radio};
use belljar_config::{Action, Experiment};
use belljar_radio::Track;

/// Tracks of a radio's stations, by interface; empty for other nodes.
pub fn tracks(experiment: &Experiment, id: HostId) -> Vec<Track> {
    let Some(device) = experiment.device(id) else { return Vec::new() };
    let DeviceKind::Radio(radio) = &device.kind else { return Vec::new() };
    let station = |interface: &Interface| {
        let ends = &experiment.topology.links[interface.link].ends;
        ends[1 - interface.end].node
    };
    let mut tracks = usual(experiment, &device.name, radio, &device.interfaces);
    for occurrence in occurrences::all(experiment) {
        let Action::Move { hosts, to, speed } = &occurrence.action else { continue };
        for (interface, track) in device.interfaces.iter().zip(&mut tracks) {
            let node = station(interface);
            if node.index() < experiment.hosts.len() && hosts.may_hold(node) {
                track.turn(occurrence.at, *to, *speed);
            }
        }
    }
    tracks
}

/// The tracks without events. Each station has a random stream of its own.
fn usual(experiment: &Experiment, name: &str, radio: &Radio, interfaces: &[Interface]) -> Vec<Track> {
    let tracks =
        interfaces.iter().zip(&radio.tracks).map(|(interface, track)| match (track, &radio.movement) {
            (Some(track), _) => track.clone(),
            (None, Some(movement)) => {
                let end = &experiment.topology.links[interface.link].ends[1 - interface.end];
                let own = &experiment.node_interfaces(end.node)[end.port].name;
                let owner = ["radio", name, experiment.node_name(end.node), own, "mobility"];
                let mut stream = experiment.seed().stream(&owner);
                movement.track(&mut stream, experiment.general.stop_time)
            }
            (None, None) => Track::default(),
        });
    tracks.collect()
}

/// Replaces tracks to be drawn from the seed by the drawn ones.
pub(crate) fn fix(experiment: &mut Experiment) {
    for number in 0..experiment.topology.devices.len() {
        let device = &experiment.topology.devices[number];
        let DeviceKind::Radio(radio) = &device.kind else { continue };
        let drawn = usual(experiment, &device.name, radio, &device.interfaces);
        if let DeviceKind::Radio(radio) = &mut experiment.topology.devices[number].kind {
            radio.tracks = drawn.into_iter().map(Some).collect();
            radio.movement = None;
        }
    }
}
