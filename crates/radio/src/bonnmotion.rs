//! BonnMotion's native movement files: one line per node, with waypoints `time x y` or `time x y z`.

use crate::ns2::number;
use crate::track::{Point, Track, TrackError, Waypoint, seconds};

const HELP: &str = "a line has the waypoints of a node: 0.0 10.0 20.0 30.0 50.0 60.0 is (10, 20) at 0 s and (50, 60) at 30 s";

/// Parses tracks in node order. Positions have three coordinates if `three_dimensions` (BonnMotion's `-J
/// 3D`).
pub fn parse(text: &str, three_dimensions: bool) -> Result<Vec<Track>, TrackError> {
    let mut tracks = Vec::new();
    let size = if three_dimensions { 4 } else { 3 };
    for (n, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words[0].starts_with('#') {
            continue;
        }
        if !words.len().is_multiple_of(size) {
            let message =
                format!("a node has {} numbers, which are no whole waypoints of {size}", words.len());
            return Err(TrackError::at(n + 1, message, HELP));
        }
        let mut waypoints = Vec::new();
        for waypoint in words.chunks(size) {
            let mut values = [0.0; 4];
            for (value, word) in values.iter_mut().zip(waypoint) {
                *value = number(word)
                    .ok_or_else(|| TrackError::at(n + 1, format!("'{word}' is not a number"), HELP))?;
            }
            let [at, x, y, z] = values;
            if at < 0.0 {
                return Err(TrackError::at(n + 1, format!("'{}' is not a time", waypoint[0]), HELP));
            }
            waypoints.push(Waypoint { at: seconds(at), to: Point { x, y, z } });
        }
        let track = Track::new(waypoints)
            .ok_or_else(|| TrackError::at(n + 1, "the times of a node go back", HELP))?;
        tracks.push(track);
    }
    match tracks.is_empty() {
        true => Err(TrackError::at(0, "no node has a waypoint", HELP)),
        false => Ok(tracks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::SimTime;

    #[test]
    fn a_line_is_a_node() {
        let tracks = parse("0.0 10 20 30.0 50 60\n\n0 1 2\n", false).unwrap();
        assert_eq!(tracks.len(), 2);
        assert_eq!(tracks[0].at(SimTime::from_secs(15)), Point::flat(30.0, 40.0));
        assert_eq!(tracks[1].at(SimTime::from_secs(15)), Point::flat(1.0, 2.0));
        assert_eq!(parse("0 1 2 3", true).unwrap()[0].at(SimTime::ZERO), Point { x: 1.0, y: 2.0, z: 3.0 });
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, message) in [
            ("\n", 0, "no node has a waypoint"),
            ("0 1 2\n0 1\n", 2, "a node has 2 numbers, which are no whole waypoints of 3"),
            ("0 1 north\n", 1, "'north' is not a number"),
            ("-1 1 1\n", 1, "'-1' is not a time"),
            ("5 1 1 4 1 1\n", 1, "the times of a node go back"),
        ] {
            let error = parse(text, false).unwrap_err();
            assert_eq!((error.line, error.message.as_str()), (line, message));
        }
    }
}
