//! Curves of links.

use super::bins::Bins;
use super::data::number;
use crate::read::Series;
use belljar_base::Map;
use serde::Serialize;

/// Number of directions with curves: those that carried the most bytes.
const CURVES: usize = 24;

/// Curves of one direction of a link, with a value for each bin.
#[derive(Serialize)]
pub(super) struct LinkCurves {
    link: String,
    from: String,
    to: String,
    /// Bytes sent.
    bytes: Vec<u64>,
    /// Frames dropped.
    drops: Vec<u64>,
    /// Longest queue in a sample, in frames.
    queue: Vec<u64>,
}

/// Curves of `metrics/links.csv`.
pub(super) fn link_curves(table: &Series, bins: &Bins) -> Vec<LinkCurves> {
    let columns = ["time", "link", "from", "to", "bytes", "queue"].map(|name| table.column(name));
    let [Some(time), Some(link), Some(from), Some(to), Some(bytes), Some(queue)] = columns else {
        return Vec::new();
    };
    let mut found: Map<(&str, &str, &str), Direction> = Map::new();
    for row in &table.rows {
        let Some(bin) = bins.place(number(row, Some(time))) else { continue };
        let of = |column: usize| number(row, Some(column)) as u64;
        // The columns between the bytes and the queue count drops by reason.
        let now = [of(bytes), (bytes + 1..queue).map(of).sum()];
        let direction =
            found.entry((&row[link], &row[from], &row[to])).or_insert_with(|| Direction::new(bins));
        direction.fill_queue(bin);
        direction.queue[bin] = direction.queue[bin].max(of(queue));
        direction.waiting = of(queue);
        for (sums, (now, before)) in direction.sums.iter_mut().zip(now.iter().zip(&direction.before)) {
            sums[bin] += now.saturating_sub(*before);
        }
        direction.before = now;
    }
    let mut all: Vec<(u64, LinkCurves)> = found
        .into_iter()
        .map(|((link, from, to), mut direction)| {
            direction.fill_queue(bins.count);
            let [bytes, drops] = direction.sums;
            let (link, from, to) = (link.to_owned(), from.to_owned(), to.to_owned());
            (direction.before[0], LinkCurves { link, from, to, bytes, drops, queue: direction.queue })
        })
        .collect();
    all.sort_by_key(|(sent, _)| std::cmp::Reverse(*sent));
    all.truncate(CURVES);
    all.into_iter().map(|(_, curves)| curves).collect()
}

struct Direction {
    /// Bytes and drops.
    sums: [Vec<u64>; 2],
    before: [u64; 2],
    queue: Vec<u64>,
    /// Queue length at the last sample, valid until the next one.
    waiting: u64,
    /// Number of bins with known queue length.
    filled: usize,
}

impl Direction {
    fn new(bins: &Bins) -> Direction {
        let empty = || vec![0; bins.count];
        Direction { sums: [empty(), empty()], before: [0; 2], queue: empty(), waiting: 0, filled: 0 }
    }
    /// Extends the last queue length up to a bin: samples without changes are omitted from the file.
    fn fill_queue(&mut self, until: usize) {
        for place in self.filled..until {
            self.queue[place] = self.queue[place].max(self.waiting);
        }
        self.filled = self.filled.max(until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_direction_has_what_it_sent_lost_and_let_wait() {
        let text = "time,link,from,to,frames,bytes,egress_full,packet_loss,queue\n1,l,a,b,1,10,0,0,3\n1,l,b,a,1,7,0,0,0\n\
                    3,l,a,b,2,30,1,1,0";
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect());
        let table = Series { columns: lines.next().unwrap(), rows: lines.collect() };
        let curves = link_curves(&table, &Bins::new(4.0, Some(1.0)));
        assert_eq!((curves.len(), curves[0].from.as_str(), curves[0].to.as_str()), (2, "a", "b"));
        assert_eq!((&curves[0].bytes[..], &curves[0].drops[..]), (&[10, 0, 20, 0][..], &[0, 0, 2, 0][..]));
        assert_eq!(curves[0].queue, [3, 3, 0, 0], "it stood until a sample saw it gone");
        assert_eq!(curves[1].bytes, [7, 0, 0, 0]);
        assert!(link_curves(&Series::default(), &Bins::new(1.0, None)).is_empty());
    }
}
