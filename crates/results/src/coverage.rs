//! Coverage of programs instrumented for Antithesis: counts of the edges of modules of code, and their form in files.
//!
//! ```json
//! {"modules": [
//! {"module":"app.sym.tsv","edges":5,"reached":2,"counts":[[1,9],[4,1]],"unreached":[[2,3],[5,5]]}
//! ]}
//! ```

use belljar_base::Map;
use serde_json::{Value, json};

/// Counts of edges by their numbers, of modules by name and number of edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(pub Map<(String, u64), Map<u64, u64>>);

impl Coverage {
    /// Reads the text of a file; `None` if it is none of coverage.
    pub fn parse(text: &str) -> Option<Coverage> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut coverage = Coverage::default();
        for module in value["modules"].as_array()? {
            let name = module["module"].as_str()?.to_owned();
            let counts = module["counts"].as_array()?.iter();
            let counts =
                counts.map(|pair| Some((pair[0].as_u64()?, pair[1].as_u64()?))).collect::<Option<_>>()?;
            coverage.0.insert((name, module["edges"].as_u64()?), counts);
        }
        Some(coverage)
    }

    /// Adds the counts of another run or host.
    pub fn add(&mut self, other: Coverage) {
        for (module, counts) in other.0 {
            let sums = self.0.entry(module).or_default();
            counts.into_iter().for_each(|(edge, count)| {
                let sum = sums.entry(edge).or_default();
                *sum = sum.saturating_add(count);
            });
        }
    }

    /// The text of the file.
    pub fn text(&self) -> String {
        let of_module = |((name, edges), counts): (&(String, u64), &Map<u64, u64>)| {
            let reached: Vec<[u64; 2]> = counts.iter().map(|(edge, count)| [*edge, *count]).collect();
            json!({"module": name, "edges": edges, "reached": counts.len(), "counts": reached, "unreached": unreached(*edges, counts)})
                .to_string()
        };
        let lines: Vec<String> = self.0.iter().map(of_module).collect();
        format!("{{\"modules\": [\n{}\n]}}\n", lines.join(",\n"))
    }
}

/// Ranges of edges that were not reached, from the first to the last one of each. Edges are numbered from 1, or from 0 where edge 0 was reached.
fn unreached(edges: u64, counts: &Map<u64, u64>) -> Vec<[u64; 2]> {
    let first: u64 = if counts.contains_key(&0) { 0 } else { 1 };
    let end = first.saturating_add(edges);
    let mut ranges = Vec::new();
    let mut next = first;
    for edge in counts.keys().copied().chain([end]) {
        if edge > next {
            ranges.push([next, edge - 1]);
        }
        next = next.max(edge.saturating_add(1));
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_that_are_not_reached_are_ranges() {
        let reached = |edges: &[u64]| edges.iter().map(|edge| (*edge, 1)).collect();
        assert_eq!(unreached(5, &reached(&[])), [[1, 5]]);
        assert_eq!(unreached(5, &reached(&[1, 4])), [[2, 3], [5, 5]]);
        assert_eq!(unreached(3, &reached(&[0, 2])), [[1, 1]]);
        assert_eq!(unreached(3, &reached(&[1, 2, 3])), [[0; 2]; 0]);
        assert_eq!(unreached(2, &reached(&[0, 1, 2])), [[0; 2]; 0]);
        assert_eq!(unreached(u64::MAX, &reached(&[1, u64::MAX])), [[2, u64::MAX - 1]]);
    }

    #[test]
    fn a_file_is_read_as_it_was_written_and_counts_add_up() {
        let mut coverage = Coverage::default();
        coverage.0.insert(("app".to_owned(), 3), Map::from_iter([(1, 7), (3, 1)]));
        assert_eq!(Coverage::parse(&coverage.text()), Some(coverage.clone()));
        coverage.add(coverage.clone());
        assert_eq!(coverage.0[&("app".to_owned(), 3)], Map::from_iter([(1, 14), (3, 2)]));
        assert_eq!(Coverage::parse("{\"modules\": [1]}"), None);
    }
}
