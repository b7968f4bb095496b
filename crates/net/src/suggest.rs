//! The nearest valid name to one that is not, for error messages.

/// The candidate that `name` was most likely meant to be, if any is near: a difference in case, a
/// slip of one letter in three, or one written in another style (`stopTime` for `stop_time`).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplified(name);
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(&plain, &simplified(c)), c))
        .filter(|(distance, c)| *distance <= plain.len().max(c.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c)
}

fn simplified(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn finds_slips_and_styles_but_nothing_far() {
        let keys = ["stop_time", "seed", "latency", "packet_loss"];
        assert_eq!(nearest("stoptime", keys), Some("stop_time"));
        assert_eq!(nearest("stopTime", keys), Some("stop_time"));
        assert_eq!(nearest("sede", keys), Some("seed"));
        assert_eq!(nearest("latncy", keys), Some("latency"));
        assert_eq!(nearest("bananas", keys), None);
        assert_eq!(nearest("", keys), None);
    }
}
