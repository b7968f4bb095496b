//! Neighbour lists: candidates for the reception of a frame, without a scan of all stations.
//!
//! A scan per frame costs as many distances as there are stations, nearly all of which are out of reach in a
//! large network. Instead, positions are sampled from time to time into a grid of cells as wide as the reach
//! plus a *slack*. As long as no station can have moved by more than half the slack, every station in reach
//! of a sender was within reach plus slack of it at the sampling time. That list is computed when a station
//! first sends and kept until the next sampling. The exact distance is still checked for each frame, so the
//! lists do not affect results.
//!
//! In dense networks the lists take memory quadratic in the number of stations: lists beyond [`ROOM`] entries
//! in total are computed for each frame.
//!
//! Stations that jump, or that are too fast for sampling, belong to every list.

use crate::{Point, Positions, Track};
use belljar_base::{Map, SimDuration, SimTime};

/// Slack as a fraction of the reach.
const SLACK: f64 = 0.1;
/// Minimum sampling interval in seconds. A station too fast for it is *fast*.
const LEAST: f64 = 0.05;

/// Maximum number of entries in all cached lists: 64 MiB.
const ROOM: usize = 1 << 24;

type Cell = (i64, i64);

/// Neighbour lists of all stations. See the [module](self).
#[derive(Debug)]
pub(crate) struct Vicinity {
    reach: f64,
    /// Sampling interval.
    keep: SimDuration,
    /// Time until which the sampled positions are valid.
    until: SimTime,
    /// Fast stations, which belong to every list, in ascending order.
    fast: Vec<u32>,
    places: Vec<Point>,
    cells: Map<Cell, Vec<u32>>,
    /// Cached neighbour list of each station, in ascending order.
    near: Vec<Option<Vec<u32>>>,
    /// Number of entries in all cached lists, at most `room`.
    kept: usize,
    room: usize,
}

impl Vicinity {
    /// Neighbour lists for stations with these tracks; `reach` is the carrier sense range in metres.
    pub(crate) fn new(reach: f64, tracks: &[Track]) -> Vicinity {
        let most = SLACK * reach / 2.0 / LEAST;
        let speeds: Vec<f64> = tracks.iter().map(Track::top_speed).collect();
        let is_fast = |speed: &f64| *speed > most;
        let fast = speeds.iter().zip(0..).filter(|(speed, _)| is_fast(speed)).map(|(_, n)| n).collect();
        let top = speeds.iter().filter(|speed| !is_fast(speed)).fold(0.0, |a: f64, b| a.max(*b));
        // A float out of range saturates.
        let keep = SimDuration::from_picos((SLACK * reach / 2.0 / top * 1e12) as u64);
        let until = SimTime::ZERO;
        let near = vec![None; tracks.len()];
        Vicinity {
            reach,
            keep,
            until,
            fast,
            places: Vec::new(),
            cells: Map::new(),
            near,
            kept: 0,
            room: ROOM,
        }
    }

    /// Stations that may be in reach of a station, itself included, in ascending order.
    pub(crate) fn of(&mut self, station: usize, now: SimTime, positions: &mut Positions) -> Vec<u32> {
        if now >= self.until || self.places.is_empty() {
            self.take_down(now, positions);
        }
        match self.near[station].take() {
            Some(near) => {
                self.kept -= near.len();
                near
            }
            None => self.look_around(station),
        }
    }

    /// Returns a list obtained from [`of`](Self::of) to the cache, if it has room.
    pub(crate) fn put_back(&mut self, station: usize, near: Vec<u32>) {
        if self.kept + near.len() <= self.room && !self.is_fast(station) {
            self.kept += near.len();
            self.near[station] = Some(near);
        }
    }

    /// True for fast stations, which belong to every list and have no list of their own.
    fn is_fast(&self, station: usize) -> bool {
        self.fast.binary_search(&(station as u32)).is_ok()
    }

    fn take_down(&mut self, now: SimTime, positions: &mut Positions) {
        self.until = now.saturating_add(self.keep);
        self.places.clear();
        self.places.extend((0..self.near.len()).map(|n| positions.at(n, now)));
        self.cells.clear();
        for n in 0..self.places.len() {
            let cell = self.cell(self.places[n]);
            self.cells.entry(cell).or_default().push(n as u32);
        }
        self.near.fill(None);
        self.kept = 0;
    }

    /// Distance in metres at the sampling time within which stations may be in reach; includes 1 mm for
    /// rounding.
    fn width(&self) -> f64 {
        (1.0 + SLACK) * self.reach + 1e-3
    }

    fn cell(&self, place: Point) -> Cell {
        let index = |metres: f64| (metres / self.width()).floor() as i64;
        (index(place.x), index(place.y))
    }

    fn look_around(&self, station: usize) -> Vec<u32> {
        if self.is_fast(station) {
            return (0..self.places.len() as u32).collect();
        }
        let (here, width) = (self.places[station], self.width());
        let (x, y) = self.cell(here);
        let mut near = self.fast.clone();
        for column in x.saturating_sub(1)..=x.saturating_add(1) {
            let rows = (column, y.saturating_sub(1))..=(column, y.saturating_add(1));
            let there = self.cells.range(rows).flat_map(|(_, stations)| stations);
            near.extend(there.filter(|n| here.distance_squared(self.places[**n as usize]) <= width * width));
        }
        near.sort_unstable();
        near.dedup();
        near
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RandomWaypoint, Waypoint};
    use belljar_base::Seed;

    /// The list contains every station in reach at all times, for walking, jumping, flying and stationary
    /// stations.
    #[test]
    fn nobody_in_reach_is_left_out() {
        let end = SimTime::from_secs(200);
        for (seed, reach) in [(1, 250.0), (2, 40.0), (3, 5_000.0), (4, 0.0), (5, f64::INFINITY)] {
            let seed = Seed(seed);
            let model = |speed| RandomWaypoint {
                area: [2_000.0, 1_500.0],
                speed,
                pause: SimDuration::from_secs(3),
                steady_state: true,
            };
            let mut tracks: Vec<Track> = (0..60)
                .map(|n: usize| {
                    let speed = if n % 20 == 7 { [2_000.0, 4_000.0] } else { [0.5, 30.0] };
                    model(speed).track(&mut seed.stream(&["walk", &n.to_string()]), end)
                })
                .collect();
            tracks.push(Track::still(Point::flat(1_000.0, 700.0)));
            tracks.push(Track::still(Point { x: 1_000.0, y: 700.0, z: 300.0 }));
            let at = |secs, x| Waypoint { at: SimTime::from_secs(secs), to: Point::flat(x, -200.0) };
            tracks
                .push(Track::new(vec![at(0, 0.0), at(50, 20.0), at(50, 1_900.0), at(150, 1_000.0)]).unwrap());
            let mut vicinity = Vicinity::new(reach, &tracks);
            let mut positions = Positions::new(tracks.clone());
            let mut draws = seed.stream(&["sender"]);
            for step in 0..4_000u64 {
                let now = SimTime::from_picos(step * 50_000_000_000);
                let sender = draws.below(tracks.len() as u64) as usize;
                let near = vicinity.of(sender, now, &mut positions);
                assert!(near.is_sorted_by(|a, b| a < b), "in order, each once");
                for (n, track) in tracks.iter().enumerate() {
                    let distance = tracks[sender].at(now).distance(track.at(now));
                    assert!(
                        distance > reach || near.contains(&(n as u32)),
                        "{n} at {distance} m of {sender} at {now:?}"
                    );
                }
                vicinity.put_back(sender, near);
            }
        }
    }

    #[test]
    fn far_stations_are_not_looked_at() {
        let tracks: Vec<Track> =
            (0..1_000).map(|n| Track::still(Point::flat(100.0 * n as f64, 0.0))).collect();
        let mut vicinity = Vicinity::new(250.0, &tracks);
        let mut positions = Positions::new(tracks);
        assert_eq!(vicinity.of(500, SimTime::ZERO, &mut positions), [498, 499, 500, 501, 502]);
    }

    #[test]
    fn lists_of_a_crowd_take_bounded_room() {
        const COUNT: usize = 50;
        let tracks: Vec<Track> = (0..COUNT).map(|n| Track::still(Point::flat(n as f64, 0.0))).collect();
        let mut vicinity = Vicinity::new(250.0, &tracks);
        vicinity.room = 7 * COUNT + 3;
        let mut positions = Positions::new(tracks);
        for _ in 0..2 {
            for sender in 0..COUNT {
                let near = vicinity.of(sender, SimTime::ZERO, &mut positions);
                assert_eq!(near.len(), COUNT);
                vicinity.put_back(sender, near);
            }
        }
        let kept = vicinity.near.iter().flatten().map(Vec::len).sum::<usize>();
        assert_eq!((kept, vicinity.kept), (7 * COUNT, 7 * COUNT));
    }
}
