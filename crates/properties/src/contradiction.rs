//! Contradictions among comparisons, which no line can satisfy together.
//!
//! Comparisons of groups with constants divide the numbers into the constants and the gaps between them. It is enough to try one
//! value of each, as many of a gap as there are groups, and texts that occur nowhere: if no assignment of these satisfies all
//! comparisons, none does. Comparisons of more groups than [`GROUPS`] are taken to be satisfiable.

use crate::Comparison;
use crate::comparison::Operand;

/// Largest number of groups that are assigned values together.
const GROUPS: usize = 3;
/// Largest number of assignments.
const ASSIGNMENTS: usize = 200_000;

/// Index of the first comparison that cannot be true together with those before it, and the index of the one that it contradicts
/// alone; `None` for that if it contradicts itself or several of them.
pub fn contradiction(comparisons: &[Comparison]) -> Option<(usize, Option<usize>)> {
    (0..comparisons.len()).find_map(|last| {
        let own = &comparisons[last];
        if !satisfiable(&[own]) {
            return Some((last, None));
        }
        let other = (0..last).find(|other| !satisfiable(&[&comparisons[*other], own]));
        let all: Vec<&Comparison> = comparisons[..=last].iter().collect();
        (other.is_some() || !satisfiable(&connected(&all))).then_some((last, other))
    })
}

/// Comparisons that are connected with the last one by common groups.
fn connected<'a>(all: &[&'a Comparison]) -> Vec<&'a Comparison> {
    let mut names: Vec<&str> = all.last().into_iter().flat_map(|last| last.groups()).collect();
    loop {
        let shares = |one: &&&Comparison| one.groups().any(|name| names.contains(&name));
        let found: Vec<&Comparison> = all.iter().filter(shares).copied().collect();
        let more: Vec<&str> =
            found.iter().flat_map(|one| one.groups()).filter(|name| !names.contains(name)).collect();
        if more.is_empty() {
            return found;
        }
        names.extend(more);
    }
}

/// False if it is proven that no texts of the groups satisfy all comparisons.
fn satisfiable(comparisons: &[&Comparison]) -> bool {
    let mut names: Vec<&str> = comparisons.iter().flat_map(|one| one.groups()).collect();
    names.sort_unstable();
    names.dedup();
    let values = candidates(comparisons, names.len());
    let count = values.len().checked_pow(names.len() as u32);
    let Some(count) = count.filter(|count| names.len() <= GROUPS && *count <= ASSIGNMENTS) else {
        return true;
    };
    (0..count).any(|assignment| {
        let value = |name: &str| {
            let place = names.iter().position(|known| *known == name)?;
            let index = assignment / values.len().pow(place as u32) % values.len();
            Some(values[index].as_str())
        };
        comparisons.iter().all(|one| matches!(one.check(value), Ok(Ok(()))))
    })
}

/// Values that stand for all others: `groups` of each range of numbers, each constant in several spellings, and texts.
fn candidates(comparisons: &[&Comparison], groups: usize) -> Vec<String> {
    let operands = || comparisons.iter().flat_map(|one| [&one.left, &one.right]);
    let (mut constants, mut numbers, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for operand in operands() {
        match operand {
            Operand::Number(text) => constants.push(text.clone()),
            Operand::Text(text) => texts.push(text.clone()),
            Operand::Group(_) => {}
        }
    }
    let mut values: Vec<f64> = constants.iter().filter_map(|text| text.parse().ok()).collect();
    values.sort_unstable_by(f64::total_cmp);
    values.dedup();
    let points = groups as u32;
    for pair in values.windows(2) {
        let step = |n: u32| pair[0] + (pair[1] - pair[0]) * (f64::from(n) / f64::from(points + 1));
        numbers.extend((1..=points).map(step).chain([pair[0].next_up(), pair[1].next_down()]));
    }
    let (least, greatest) =
        (values.first().copied().unwrap_or_default(), values.last().copied().unwrap_or_default());
    numbers.extend((1..=points).flat_map(|n| [least - f64::from(n), greatest + f64::from(n)]));
    numbers.extend([least.next_down(), greatest.next_up(), f64::MIN, f64::MAX]);
    let mut all: Vec<String> =
        numbers.iter().filter(|n| n.is_finite()).map(|number| format!("{number}")).collect();
    for text in constants {
        // Whole numbers are compared exactly.
        let near = text.parse::<i128>().ok().map(|n| [n.saturating_sub(1), n.saturating_add(1)]);
        all.extend(near.into_iter().flatten().map(|n| n.to_string()));
        // The same number in a spelling that no text has.
        let (sign, digits) = match text.strip_prefix(['+', '-']) {
            Some(digits) => text.split_at(text.len() - digits.len()),
            None => ("", text.as_str()),
        };
        let zeros = texts.iter().map(String::len).max().unwrap_or_default() + 1;
        all.push(format!("{sign}{}{digits}", "0".repeat(zeros)));
        all.push(text);
    }
    let longest = texts.iter().map(String::len).max().unwrap_or_default();
    all.extend((1..=groups).map(|n| "x".repeat(longest + n)));
    all.append(&mut texts);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(all: &[&str]) -> Option<(usize, Option<usize>)> {
        let all: Vec<Comparison> = all.iter().map(|text| Comparison::parse(text).unwrap()).collect();
        contradiction(&all)
    }

    #[test]
    fn comparisons_that_contradict_others() {
        assert_eq!(found(&["n < 3", "n > 5"]), Some((1, Some(0))));
        assert_eq!(found(&["m < 1", "n <= 3", "n >= 3", "n != 3"]), Some((3, None)));
        assert_eq!(found(&["n < n"]), Some((0, None)));
        assert_eq!(found(&["a < b", "b < a"]), Some((1, Some(0))));
        assert_eq!(found(&["a < b", "b < c", "c < a"]), Some((2, None)));
        assert_eq!(found(&["a == 'x'", "a == 'y'"]), Some((1, Some(0))));
        assert_eq!(found(&["a == 'x'", "a < 3"]), Some((1, Some(0))));
        assert_eq!(found(&["a == '4'", "3 > a"]), Some((1, Some(0))));
        assert_eq!(found(&["a == 4", "a != 4.0"]), Some((1, Some(0))));
        assert_eq!(found(&["a < b", "b < 3", "a > 3"]), Some((2, None)));
    }

    #[test]
    fn comparisons_that_something_satisfies() {
        for all in [
            &["n < 3"][..],
            &["n <= 3", "n >= 3"],
            &["n > 5", "n < 6"],
            &["n > 1e308"],
            &["n < -1e308", "n < 0"],
            &["a > 9007199254740992", "a < 9007199254740994"],
            &["a > 1e-300", "a < 2e-300"],
            &["n == 5", "n != '5'", "n != '5.0'", "n != '05'"],
            &["n == -5", "n != '-5'"],
            &["n != 5", "n != 'x'", "n != ''"],
            &["a < b", "b < c", "a > 3", "c < 4"],
            &["a == b", "a != 'x'", "b != 'y'"],
            &["a < b", "b < c", "c < d", "d < a"],
            &["a <= b", "b <= a"],
        ] {
            assert_eq!(found(all), None, "{all:?}");
        }
    }
}
