//! Positions over time.

use belljar_base::{SimDuration, SimTime};

/// Position in metres.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// East.
    pub x: f64,
    /// North.
    pub y: f64,
    /// Altitude.
    pub z: f64,
}

impl Point {
    /// Position at ground level.
    pub fn flat(x: f64, y: f64) -> Point {
        Point { x, y, z: 0.0 }
    }
    /// Squared distance to another position.
    pub fn distance_squared(self, other: Point) -> f64 {
        let (x, y, z) = (self.x - other.x, self.y - other.y, self.z - other.z);
        x * x + y * y + z * z
    }
    /// Distance to another position.
    pub fn distance(self, other: Point) -> f64 {
        self.distance_squared(other).sqrt()
    }
    /// Position on the line to `other`, at `share` of the distance.
    fn towards(self, other: Point, share: f64) -> Point {
        let part = |a: f64, b: f64| a + (b - a) * share;
        Point { x: part(self.x, other.x), y: part(self.y, other.y), z: part(self.z, other.z) }
    }
}

/// Position at a point in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waypoint {
    /// Arrival time.
    pub at: SimTime,
    /// Position.
    pub to: Point,
}

/// Track of a station: waypoints connected by straight lines at constant speed. Before the first waypoint the
/// station is at the first, after the last at the last. Between two waypoints of equal time it jumps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Track {
    waypoints: Vec<Waypoint>,
}

/// Error of a movement file or a list of waypoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackError {
    /// Line number from 1; 0 for the text as a whole.
    pub line: usize,
    /// Description of the problem.
    pub message: String,
    /// Suggested remedy.
    pub help: String,
}

impl TrackError {
    pub(crate) fn at(line: usize, message: impl Into<String>, help: impl Into<String>) -> TrackError {
        TrackError { line, message: message.into(), help: help.into() }
    }
}

impl Track {
    /// Track of a stationary station.
    pub fn still(place: Point) -> Track {
        Track { waypoints: vec![Waypoint { at: SimTime::ZERO, to: place }] }
    }
    /// Track of a list of waypoints; `None` if the list is empty or not in time order.
    pub fn new(waypoints: Vec<Waypoint>) -> Option<Track> {
        (!waypoints.is_empty() && waypoints.is_sorted_by_key(|waypoint| waypoint.at))
            .then_some(Track { waypoints })
    }
    /// Waypoints of the track.
    pub fn waypoints(&self) -> &[Waypoint] {
        &self.waypoints
    }
    /// Position at a time.
    pub fn at(&self, time: SimTime) -> Point {
        let next = self.waypoints.partition_point(|waypoint| waypoint.at <= time);
        self.between(next, time)
    }
    /// Maximum speed in metres per second; infinite if the station jumps.
    pub(crate) fn top_speed(&self) -> f64 {
        let speed = |way: &[Waypoint]| match way[0].to.distance(way[1].to) {
            metres if metres > 0.0 => metres / way[1].at.since(way[0].at).as_secs_f64(),
            _ => 0.0,
        };
        self.waypoints.windows(2).map(speed).fold(0.0, f64::max)
    }
    /// Position at a time, given that `next` waypoints precede it.
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
    /// Replaces the movement from `at` on: the station moves to `to` at `speed` metres per second and stays;
    /// with `None` it jumps.
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

/// Travel time of a distance at a non-zero speed.
pub(crate) fn travel_time(metres: f64, speed: f64) -> SimDuration {
    // A float out of range saturates.
    SimDuration::from_picos((metres / speed * 1e12).round() as u64)
}

/// Time from a float in seconds.
pub(crate) fn seconds(value: f64) -> SimTime {
    SimTime::from_picos((value * 1e12).round() as u64)
}

/// Positions of all stations, queried in time order.
#[derive(Debug)]
pub struct Positions {
    tracks: Vec<Track>,
    /// Number of waypoints passed, by station.
    passed: Vec<usize>,
}

impl Positions {
    /// Positions along these tracks.
    pub fn new(tracks: Vec<Track>) -> Positions {
        Positions { passed: vec![0; tracks.len()], tracks }
    }
    /// Position of a station.
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
