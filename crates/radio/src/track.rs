//! Positions over time.

use belljar_base::{SimDuration, SimTime};

/// A place, in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// To the east.
    pub x: f64,
    /// To the north.
    pub y: f64,
    /// Upwards.
    pub z: f64,
}

impl Point {
    /// A place on the ground.
    pub fn flat(x: f64, y: f64) -> Point {
        Point { x, y, z: 0.0 }
    }
    /// The distance to another place, squared.
    pub fn distance_squared(self, other: Point) -> f64 {
        let (x, y, z) = (self.x - other.x, self.y - other.y, self.z - other.z);
        x * x + y * y + z * z
    }
    /// The distance to another place.
    pub fn distance(self, other: Point) -> f64 {
        self.distance_squared(other).sqrt()
    }
    /// The place at this share of the way to another.
    fn towards(self, other: Point, share: f64) -> Point {
        let part = |a: f64, b: f64| a + (b - a) * share;
        Point { x: part(self.x, other.x), y: part(self.y, other.y), z: part(self.z, other.z) }
    }
}

/// A place at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waypoint {
    /// When it is reached.
    pub at: SimTime,
    /// The place.
    pub to: Point,
}

/// The way of a station: places at times, and straight lines at constant speed between them. It is at the first place before,
/// and at the last one ever after. Of two places at one time the station jumps to the second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    waypoints: Vec<Waypoint>,
}

/// The reason why a text or a list makes no track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackError {
    /// The line, from 1; 0: the text as a whole.
    pub line: usize,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub help: String,
}

impl TrackError {
    pub(crate) fn at(line: usize, message: impl Into<String>, help: impl Into<String>) -> TrackError {
        TrackError { line, message: message.into(), help: help.into() }
    }
}

impl Track {
    /// A station that stays where it is.
    pub fn still(place: Point) -> Track {
        Track { waypoints: vec![Waypoint { at: SimTime::ZERO, to: place }] }
    }
    /// These places; `None` if there are none or the times go back.
    pub fn new(waypoints: Vec<Waypoint>) -> Option<Track> {
        (!waypoints.is_empty() && waypoints.is_sorted_by_key(|waypoint| waypoint.at))
            .then_some(Track { waypoints })
    }
    /// The places.
    pub fn waypoints(&self) -> &[Waypoint] {
        &self.waypoints
    }
    /// The place at a time.
    pub fn at(&self, time: SimTime) -> Point {
        let next = self.waypoints.partition_point(|waypoint| waypoint.at <= time);
        self.between(next, time)
    }
    /// The greatest speed on the way, in metres per second; infinite if the station jumps.
    pub(crate) fn top_speed(&self) -> f64 {
        let speed = |way: &[Waypoint]| match way[0].to.distance(way[1].to) {
            metres if metres > 0.0 => metres / way[1].at.since(way[0].at).as_secs_f64(),
            _ => 0.0,
        };
        self.waypoints.windows(2).map(speed).fold(0.0, f64::max)
    }
    /// The place at a time before which `next` waypoints lie.
    fn between(&self, next: usize, time: SimTime) -> Point {
        let before = next.checked_sub(1).and_then(|n| self.waypoints.get(n));
        match (before, self.waypoints.get(next)) {
            (Some(from), Some(to)) => {
                let share = time.since(from.at).as_picos() as f64 / to.at.since(from.at).as_picos() as f64;
                from.to.towards(to.to, share)
            }
            (Some(only), None) | (None, Some(only)) => only.to,
            (None, None) => Point::default(),
        }
    }
    /// From `at` on goes to `to` at `speed` metres per second and stays there; `None`: is there at once.
    pub fn turn(&mut self, at: SimTime, to: Point, speed: Option<f64>) {
        let here = self.at(at);
        self.waypoints.retain(|waypoint| waypoint.at < at);
        self.waypoints.push(Waypoint { at, to: here });
        let arrives = match speed {
            Some(speed) => at.saturating_add(travel_time(here.distance(to), speed)),
            None => at,
        };
        if arrives > at || here != to {
            self.waypoints.push(Waypoint { at: arrives, to });
        }
    }
}

/// The time for a way at a speed above 0.
pub(crate) fn travel_time(metres: f64, speed: f64) -> SimDuration {
    // A float beyond the range becomes the greatest number.
    SimDuration::from_picos((metres / speed * 1e12).round() as u64)
}

/// The time of a float in seconds.
pub(crate) fn seconds(value: f64) -> SimTime {
    SimTime::from_picos((value * 1e12).round() as u64)
}

/// Positions of all stations, asked for at times that never go back.
#[derive(Debug)]
pub struct Positions {
    tracks: Vec<Track>,
    /// By station, the number of waypoints that lie behind.
    passed: Vec<usize>,
}

impl Positions {
    /// The positions that these tracks give.
    pub fn new(tracks: Vec<Track>) -> Positions {
        Positions { passed: vec![0; tracks.len()], tracks }
    }
    /// The place of a station.
    pub fn at(&mut self, station: usize, time: SimTime) -> Point {
        let (track, passed) = (&self.tracks[station], &mut self.passed[station]);
        while track.waypoints.get(*passed).is_some_and(|waypoint| waypoint.at <= time) {
            *passed += 1;
        }
        track.between(*passed, time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(n: u64) -> SimTime {
        SimTime::from_secs(n)
    }
    fn waypoint(at: u64, x: f64) -> Waypoint {
        Waypoint { at: s(at), to: Point::flat(x, 0.0) }
    }

    #[test]
    fn stations_go_straight_from_place_to_place() {
        let track = Track::new(vec![waypoint(10, 0.0), waypoint(20, 100.0), waypoint(20, 500.0)]).unwrap();
        let mut positions = Positions::new(vec![track.clone()]);
        for (at, x) in [(0, 0.0), (10, 0.0), (13, 30.0), (20, 500.0), (99, 500.0)] {
            assert_eq!(track.at(s(at)).x, x, "at {at} s");
            assert_eq!(positions.at(0, s(at)).x, x, "at {at} s");
        }
        assert_eq!(Track::new(vec![waypoint(2, 0.0), waypoint(1, 0.0)]), None);
        assert_eq!(Track::new(Vec::new()), None);
    }

    #[test]
    fn a_turn_cuts_the_way_that_was_ahead() {
        let mut track = Track::new(vec![waypoint(0, 0.0), waypoint(10, 100.0)]).unwrap();
        track.turn(s(5), Point::flat(50.0, 20.0), Some(4.0));
        assert_eq!(track.at(s(4)).x, 40.0);
        assert_eq!(track.at(s(5)), Point::flat(50.0, 0.0));
        assert_eq!(track.at(s(10)), Point::flat(50.0, 20.0));
        track.turn(s(20), Point::flat(7.0, 7.0), None);
        assert_eq!(track.at(SimTime::from_nanos(19_999_999_999)), Point::flat(50.0, 20.0));
        assert_eq!(track.at(s(20)), Point::flat(7.0, 7.0));
    }
}
