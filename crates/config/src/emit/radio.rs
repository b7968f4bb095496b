//! Section `radios` as YAML.

use super::{Writer, quoted, time};
use crate::model::Experiment;
use crate::topology::{Device, Radio};
use belljar_net::units::{format_bandwidth, format_duration};
use belljar_radio::{Point, Propagation};

impl Experiment {
    /// Writes the settings and stations of a radio; its links are among the others.
    pub(super) fn radio(&self, out: &mut Writer, device: &Device, radio: &Radio) {
        let settings = &radio.settings;
        match &settings.propagation {
            Propagation::Range { range, carrier_sense } => {
                out.plain(2, "range", range);
                out.plain(2, "carrier_sense_range", carrier_sense);
            }
            Propagation::LogDistance(model) => {
                out.section(2, "log_distance");
                out.plain(3, "exponent", model.exponent);
                out.plain(3, "reference_loss", model.reference_loss);
                out.plain(3, "transmit_power", model.transmit_power);
                out.plain(3, "reception_threshold", model.reception_threshold);
                out.plain(3, "carrier_sense_threshold", model.carrier_sense_threshold);
                out.plain(
                    2,
                    "capture",
                    settings.capture.map_or("none".to_owned(), |margin| margin.to_string()),
                );
            }
        }
        out.plain(2, "packet_loss", settings.loss);
        out.plain(2, "rate", format_bandwidth(settings.rate));
        out.plain(2, "basic_rate", format_bandwidth(settings.basic_rate));
        out.plain(2, "preamble", format_duration(settings.preamble));
        out.plain(2, "overhead", format_args!("{} B", settings.overhead));
        out.plain(2, "slot", format_duration(settings.slot));
        out.plain(2, "sifs", format_duration(settings.sifs));
        out.plain(2, "window", format_args!("[{}, {}]", settings.window[0], settings.window[1]));
        out.plain(2, "retries", settings.retries);
        out.plain(2, "queue", settings.queue);
        if let Some(movement) = &radio.movement {
            out.section(2, "mobility");
            out.section(3, "random_waypoint");
            out.plain(4, "area", format_args!("[{}, {}]", movement.area[0], movement.area[1]));
            out.plain(4, "speed", format_args!("[{}, {}]", movement.speed[0], movement.speed[1]));
            out.plain(4, "pause", format_duration(movement.pause));
            out.plain(4, "steady_state", movement.steady_state);
        }
        out.section(2, "stations");
        for (interface, track) in device.interfaces.iter().zip(&radio.tracks) {
            let end = &self.topology.links[interface.link].ends[1 - interface.end];
            let own = &self.node_interfaces(end.node)[end.port];
            let name = quoted(&format!("{}:{}", self.node_name(end.node), own.name));
            let Some(track) = track else {
                out.section(3, &name);
                continue;
            };
            let path: Vec<String> = track
                .waypoints()
                .iter()
                .map(|waypoint| format!("[{}, {}]", time(waypoint.at), coordinates(waypoint.to)))
                .collect();
            out.plain(3, &name, format_args!("{{ path: [{}] }}", path.join(", ")));
        }
    }
}

/// A position as a list.
pub(crate) fn position(place: Point) -> String {
    format!("[{}]", coordinates(place))
}

fn coordinates(Point { x, y, z }: Point) -> String {
    match z {
        0.0 => format!("{x}, {y}"),
        z => format!("{x}, {y}, {z}"),
    }
}
