//! Random waypoint mobility.

use crate::track::{Point, Track, Waypoint, travel_time};
use belljar_base::{SimDuration, SimTime, Stream};

/// Random waypoint model: a station moves to a random position in the area at a random speed, pauses, and
/// repeats.
#[derive(Clone, Debug, PartialEq)]
pub struct RandomWaypoint {
    /// Sides of the area in metres; one corner is the origin.
    pub area: [f64; 2],
    /// Minimum and maximum speed in metres per second, greater than 0.
    pub speed: [f64; 2],
    /// Pause at each waypoint.
    pub pause: SimDuration,
    /// True if the initial position, speed and pause are drawn from the stationary distribution of the model
    /// (Navidi and Camp, 2004), so that no warm-up period need be discarded.
    pub steady_state: bool,
}

impl RandomWaypoint {
    /// Draws a track up to a time.
    pub fn track(&self, stream: &mut Stream, until: SimTime) -> Track {
        let (mut at, mut here, mut next) = (SimTime::ZERO, self.place(stream), None);
        let mut pause = self.pause;
        if self.steady_state {
            (here, next, pause) = self.steady_start(stream);
        }
        let mut waypoints = vec![Waypoint { at, to: here }];
        while at < until {
            if !pause.is_zero() {
                at = at.saturating_add(pause);
                waypoints.push(Waypoint { at, to: here });
            }
            let (to, speed) = match next.take() {
                Some(started) => started,
                None => (self.place(stream), self.speed(stream)),
            };
            at = at.saturating_add(travel_time(here.distance(to), speed).max(SimDuration::from_nanos(1)));
            (here, pause) = (to, self.pause);
            waypoints.push(Waypoint { at, to });
        }
        Track::new(waypoints).expect("time goes forward")
    }

    fn place(&self, stream: &mut Stream) -> Point {
        Point::flat(round(stream.unit() * self.area[0]), round(stream.unit() * self.area[1]))
    }
    fn speed(&self, stream: &mut Stream) -> f64 {
        self.speed[0] + stream.unit() * (self.speed[1] - self.speed[0])
    }

    /// State in the stationary distribution: position, current leg with its destination and speed, and
    /// remaining pause.
    fn steady_start(&self, stream: &mut Stream) -> (Point, Option<(Point, f64)>, SimDuration) {
        let [least, most] = self.speed;
        // The mean length of a leg is the mean distance of two positions; the mean of the reciprocal speed is
        // that of the uniform distribution.
        let slowness = if most > least { (most / least).ln() / (most - least) } else { 1.0 / least };
        let moving = mean_distance(self.area) * slowness;
        let pause = self.pause.as_secs_f64();
        if stream.unit() < pause / (pause + moving) {
            let left = SimDuration::from_picos(stream.below(self.pause.as_picos()));
            return (self.place(stream), None, left);
        }
        // Legs are weighted by their duration: by length, and by reciprocal speed.
        let diagonal = self.area[0].hypot(self.area[1]);
        let (from, to) = loop {
            let (from, to) = (self.place(stream), self.place(stream));
            if stream.unit() * diagonal < from.distance(to) {
                break (from, to);
            }
        };
        let speed = least * (most / least).powf(stream.unit());
        let share = stream.unit();
        let here =
            Point::flat(round(from.x + (to.x - from.x) * share), round(from.y + (to.y - from.y) * share));
        (here, Some((to, speed)), SimDuration::ZERO)
    }
}

/// Rounds to millimetres, which round-trip through text.
fn round(metres: f64) -> f64 {
    (metres * 1e3).round() / 1e3
}

/// Mean distance of two random positions in a rectangle, summed over a fine grid of coordinate differences,
/// whose density is (1 - x)(1 - y) * 4 in units of the sides.
fn mean_distance([width, height]: [f64; 2]) -> f64 {
    const STEPS: usize = 200;
    let share = |n: usize| (n as f64 + 0.5) / STEPS as f64;
    let mut sum = 0.0;
    for (x, y) in (0..STEPS).flat_map(|x| (0..STEPS).map(move |y| (share(x), share(y)))) {
        sum += 4.0 * (1.0 - x) * (1.0 - y) * (x * width).hypot(y * height);
    }
    sum / (STEPS * STEPS) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_base::Seed;

    fn model(steady_state: bool) -> RandomWaypoint {
        let pause = SimDuration::from_secs(5);
        RandomWaypoint { area: [1_000.0, 500.0], speed: [1.0, 20.0], pause, steady_state }
    }
    fn tracks(steady_state: bool, count: usize, until: u64) -> Vec<Track> {
        let one = |n: usize| {
            let mut stream = Seed(1).stream(&["test", &n.to_string()]);
            model(steady_state).track(&mut stream, SimTime::from_secs(until))
        };
        (0..count).map(one).collect()
    }
    /// Mean speed of all stations within one second.
    fn mean_speed(tracks: &[Track], at: u64) -> f64 {
        let (from, to) = (SimTime::from_secs(at), SimTime::from_secs(at + 1));
        tracks.iter().map(|track| track.at(from).distance(track.at(to))).sum::<f64>() / tracks.len() as f64
    }

    #[test]
    fn the_mean_distance_in_a_unit_square_is_known() {
        assert!((mean_distance([1.0, 1.0]) - 0.521_405).abs() < 1e-4);
    }

    #[test]
    fn stations_stay_in_the_area_and_within_the_speeds() {
        for track in tracks(false, 20, 300) {
            for at in 0..300 {
                let (here, next) = (track.at(SimTime::from_secs(at)), track.at(SimTime::from_secs(at + 1)));
                assert!((0.0..=1_000.0).contains(&here.x) && (0.0..=500.0).contains(&here.y));
                assert!(here.distance(next) <= 20.01);
            }
        }
    }

    #[test]
    fn a_steady_start_has_the_speed_of_the_long_run_from_the_first_second() {
        let (plain, steady) = (tracks(false, 2_000, 1_000), tracks(true, 2_000, 1_000));
        let long_run = (mean_speed(&plain, 900) + mean_speed(&steady, 900)) / 2.0;
        assert!((mean_speed(&steady, 0) / long_run - 1.0).abs() < 0.06);
        assert_eq!(mean_speed(&plain, 0), 0.0, "all pause first");
        assert!(mean_speed(&plain, 10) > 1.3 * long_run, "and are faster then than later");
    }
}
