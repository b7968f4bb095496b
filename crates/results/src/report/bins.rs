//! Time bins of the report's curves.

/// Upper bound on the number of bins.
const MOST: usize = 240;

/// Equal time bins from 0 on. All contain the same number of samples, because a varying number would show as
/// oscillations of the curves.
pub(super) struct Bins {
    /// Number of bins.
    pub(super) count: usize,
    /// Width of a bin, in seconds.
    pub(super) width: f64,
}

impl Bins {
    /// The bins for a time of `span` seconds with samples every `interval` seconds.
    pub(super) fn new(span: f64, interval: Option<f64>) -> Bins {
        let span = span.max(1e-9);
        let Some(interval) = interval else { return Bins { count: MOST, width: span / MOST as f64 } };
        let samples = (span / interval - 1e-6).ceil().max(1.0);
        let each = (samples / MOST as f64).ceil();
        Bins { count: (samples / each).ceil() as usize, width: interval * each }
    }
    /// Length of all bins together, in seconds.
    pub(super) fn span(&self) -> f64 {
        self.width * self.count as f64
    }
    /// Index of the bin that contains the interval before a sample at this time; `None` if it is behind the
    /// last bin.
    pub(super) fn place(&self, at: f64) -> Option<usize> {
        // Times have nine decimals: rounding must not move a time at the edge of a bin behind it.
        let place = ((at / self.width - 1e-6).ceil() as usize).max(1) - 1;
        (place < self.count).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_holds_as_many_samples() {
        for (span, interval) in
            [(30.0, 0.01), (30.0, 0.1), (30.0, 0.125), (30.0, 0.2), (30.0, 0.7), (30.0, 100.0), (3.3, 0.01)]
        {
            let bins = Bins::new(span, Some(interval));
            let mut held = vec![0; bins.count];
            let mut at = interval;
            while let Some(place) = bins.place(at) {
                held[place] += 1;
                at += interval;
            }
            let most = *held.iter().max().unwrap();
            assert!(bins.count <= MOST && held.iter().all(|n| *n == most), "{span} {interval}: {held:?}");
            assert!(bins.span() >= span - 1e-9 && bins.span() < span + bins.width + 1e-9);
        }
        assert_eq!(Bins::new(30.0, Some(0.125)).count, 240);
    }

    #[test]
    fn edges_belong_to_what_ends_there() {
        let bins = Bins::new(2.0, Some(0.1));
        assert_eq!([bins.place(0.1), bins.place(0.100000001), bins.place(2.0)], [Some(0), Some(0), Some(19)]);
        assert_eq!([bins.place(0.0), bins.place(0.2), bins.place(2.2)], [Some(0), Some(1), None]);
        assert_eq!((Bins::new(7.0, None).count, Bins::new(0.0, None).place(0.0)), (MOST, Some(0)));
    }
}
