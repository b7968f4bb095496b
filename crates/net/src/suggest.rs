//! Suggestions for misspelt names in error messages.

/// Returns the candidate that `name` most likely stands for, if any is near: one that differs in case, in
/// at most one letter of three, or in style (`stopTime` for `stop_time`), or a unique one that begins with
/// it (`warn` for `warning`) or has it as a word (`loss` for `packet_loss`).
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = simplified(name);
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let near = candidates
        .iter()
        .copied()
        .map(|c| (strsim::damerau_levenshtein(&plain, &simplified(c)), c))
        .filter(|(distance, c)| *distance <= plain.len().max(c.len()) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, c)| c);
    let has_word = |c: &str| c.split(['_', '-', ' ']).any(|word| word.eq_ignore_ascii_case(name));
    let mut longer = candidates
        .iter()
        .copied()
        .filter(|c| plain.len() > 2 && (simplified(c).starts_with(&plain) || has_word(c)));
    near.or_else(|| longer.next().filter(|_| longer.next().is_none()))
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
        assert_eq!(nearest("packet", keys), Some("packet_loss"));
        assert_eq!(nearest("packet", ["packet_loss", "packet_size"]), None);
        assert_eq!(nearest("loss", keys), Some("packet_loss"));
        assert_eq!(nearest("time", ["stop_time", "start_time"]), None);
    }
}
