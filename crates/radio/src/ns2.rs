//! ns-2 movement files, as written by `setdest` and exported by BonnMotion, SUMO and others. ns-3 reads them
//! too.

use crate::track::{Point, Track, TrackError, seconds};
use belljar_base::Map;

const HELP: &str =
    "a movement is $ns_ at 2.0 \"$node_(0) setdest 10.0 20.0 1.5\", a position $node_(0) set X_ 10.0";

/// Parses tracks, by node number.
///
/// Other lines (`$god_`, variables, comments) are ignored. Movements of a node must be in time order.
pub fn parse(text: &str) -> Result<Map<usize, Track>, TrackError> {
    let mut places: Map<usize, Point> = Map::new();
    let mut moves: Vec<(usize, f64, usize, Move)> = Vec::new();
    for (n, line) in text.lines().enumerate() {
        let (number, line) = (n + 1, line.trim());
        if line.starts_with('#') || !line.contains("$node_(") {
            continue;
        }
        let words: Vec<&str> = line
            .split(|c: char| c.is_whitespace() || "\"{};".contains(c))
            .filter(|word| !word.is_empty())
            .collect();
        let (at, words) = match words[..] {
            [scheduler, "at", at, ref rest @ ..] if scheduler.starts_with("$ns") => {
                (Some(amount(at, number, "a time")?), rest)
            }
            ref all => (None, all),
        };
        let Some((node, words)) = words.split_first() else { continue };
        let node = node.strip_prefix("$node_(").and_then(|rest| rest.strip_suffix(')'));
        let Some(node) = node.and_then(|digits| digits.parse::<usize>().ok()) else {
            return Err(TrackError::at(number, "no number of a node is found in \"$node_(...)\"", HELP));
        };
        match (at, words) {
            (None, ["set", axis @ ("X_" | "Y_" | "Z_"), value]) => {
                let value = coordinate(value, number)?;
                set(places.entry(node).or_default(), axis, value);
            }
            (Some(at), ["set", axis @ ("X_" | "Y_" | "Z_"), value]) => {
                let value = coordinate(value, number)?;
                moves.push((number, at, node, Move::Set((*axis).to_owned(), value)));
            }
            (Some(at), ["setdest", x, y, speed]) => {
                let to = Point::flat(coordinate(x, number)?, coordinate(y, number)?);
                let speed = amount(speed, number, "a speed")?;
                moves.push((number, at, node, Move::To(to, speed)));
            }
            (_, ["set" | "setdest", ..]) => {
                return Err(TrackError::at(number, format!("this is no movement: {line}"), HELP));
            }
            // Other node commands, such as `random-motion 0`.
            _ => {}
        }
    }
    if places.is_empty() && moves.is_empty() {
        return Err(TrackError::at(0, "no node has a position or a movement", HELP));
    }
    let mut tracks: Map<usize, Track> =
        places.into_iter().map(|(node, place)| (node, Track::still(place))).collect();
    let mut last: Map<usize, f64> = Map::new();
    for (line, at, node, movement) in moves {
        if last.insert(node, at).is_some_and(|before| before > at) {
            let message = format!("node {node} moves at {at} s after a later movement");
            return Err(TrackError::at(
                line,
                message,
                "write the movements of a node in the order of their times",
            ));
        }
        let track = tracks.entry(node).or_insert_with(|| Track::still(Point::default()));
        let here = track.at(seconds(at));
        match movement {
            // Speed 0 stops the node, whatever the destination.
            Move::To(_, 0.0) => track.turn(seconds(at), here, None),
            Move::To(to, speed) => track.turn(seconds(at), Point { z: here.z, ..to }, Some(speed)),
            Move::Set(axis, value) => {
                let mut to = here;
                set(&mut to, &axis, value);
                track.turn(seconds(at), to, None);
            }
        }
    }
    Ok(tracks)
}

enum Move {
    To(Point, f64),
    Set(String, f64),
}

fn set(place: &mut Point, axis: &str, value: f64) {
    match axis {
        "X_" => place.x = value,
        "Y_" => place.y = value,
        _ => place.z = value,
    }
}

fn coordinate(word: &str, line: usize) -> Result<f64, TrackError> {
    number(word).ok_or_else(|| TrackError::at(line, format!("'{word}' is not a coordinate in metres"), HELP))
}

fn amount(word: &str, line: usize, what: &str) -> Result<f64, TrackError> {
    number(word)
        .filter(|value| *value >= 0.0)
        .ok_or_else(|| TrackError::at(line, format!("'{word}' is not {what}"), HELP))
}

/// Parses a number of a movement file.
pub(crate) fn number(word: &str) -> Option<f64> {
    word.parse::<f64>().ok().filter(|value| value.abs() <= 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::SimTime;

    const FILE: &str = "# nodes: 2, speed type: 1\n\
        set god_ [God instance]\n\
        $node_(0) set X_ 10.0\n$node_(0) set Y_ 20.0\n$node_(0) set Z_ 0.0\n\
        $node_(1) set X_ 0\n$node_(1) set Y_ 0\n\
        $god_ set-dist 0 1 1\n\
        $ns_ at 2.0 \"$node_(0) setdest 40.0 20.0 10.0\"\n\
        $ns_ at 4.0 \"$node_(0) setdest 30.0 120.0 5.0\"\n\
        $ns_ at 9.0 \"$node_(0) setdest 1.0 1.0 0.0\"\n\
        $ns_ at 3.0 \"$node_(1) set X_ 7\"\n";

    #[test]
    fn positions_and_movements_are_read() {
        let tracks = parse(FILE).unwrap();
        let at = |node: usize, s: u64| tracks[&node].at(SimTime::from_secs(s));
        assert_eq!((at(0, 0), at(0, 2)), (Point::flat(10.0, 20.0), Point::flat(10.0, 20.0)));
        assert_eq!((at(0, 3), at(0, 4)), (Point::flat(20.0, 20.0), Point::flat(30.0, 20.0)), "cut at 4 s");
        assert_eq!(at(0, 8), Point::flat(30.0, 40.0));
        assert_eq!((at(0, 9), at(0, 50)), (Point::flat(30.0, 45.0), Point::flat(30.0, 45.0)), "stopped");
        assert_eq!((at(1, 2), at(1, 3)), (Point::flat(0.0, 0.0), Point::flat(7.0, 0.0)));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, message) in [
            ("# nothing\n", 0, "no node has a position or a movement"),
            ("\n$node_(a) set X_ 1\n", 2, "no number of a node is found in \"$node_(...)\""),
            ("$node_(0) set X_ far\n", 1, "'far' is not a coordinate in metres"),
            ("$node_(0) set W_ 1\n", 1, "this is no movement: $node_(0) set W_ 1"),
            ("$ns_ at soon \"$node_(0) setdest 1 1 1\"\n", 1, "'soon' is not a time"),
            ("$ns_ at 1 \"$node_(0) setdest 1 1 -1\"\n", 1, "'-1' is not a speed"),
            (
                "$ns_ at 1 \"$node_(0) setdest 1 1\"\n",
                1,
                "this is no movement: $ns_ at 1 \"$node_(0) setdest 1 1\"",
            ),
            (
                "$ns_ at 2 \"$node_(0) setdest 1 1 1\"\n$ns_ at 1 \"$node_(0) setdest 1 1 1\"\n",
                2,
                "node 0 moves at 1 s after a later movement",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!((error.line, error.message.as_str()), (line, message));
        }
    }
}
