//! Order of runs: they are added up by their numbers, whatever order they end in.

use belljar_base::Map;

/// Results of runs that end in any order.
pub struct InOrder<T> {
    next: u64,
    waiting: Map<u64, T>,
}

impl<T> InOrder<T> {
    /// No results; run 0 is the next.
    pub fn new() -> InOrder<T> {
        InOrder { next: 0, waiting: Map::new() }
    }
    /// Adds the result of a run.
    pub fn add(&mut self, run: u64, result: T) {
        self.waiting.insert(run, result);
    }
    /// Takes the result of the next run, if it is there.
    pub fn next(&mut self) -> Option<T> {
        let result = self.waiting.remove(&self.next)?;
        self.next += 1;
        Some(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_runs() {
        let mut results = InOrder::new();
        results.add(1, "b");
        assert_eq!(results.next(), None);
        results.add(0, "a");
        assert_eq!([results.next(), results.next(), results.next()], [Some("a"), Some("b"), None]);
    }
}
