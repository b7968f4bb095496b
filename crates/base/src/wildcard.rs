//! Patterns with wildcards, as events and properties use them for names and paths.

/// True if `name` matches `pattern`, in which each `*` stands for any bytes, slashes included.
pub fn matches_wildcard(pattern: impl AsRef<[u8]>, name: impl AsRef<[u8]>) -> bool {
    is_match(pattern.as_ref(), name.as_ref())
}

fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.iter().position(|byte| *byte == b'*') {
        None => pattern == name,
        Some(at) => name
            .strip_prefix(&pattern[..at])
            .is_some_and(|rest| (0..=rest.len()).any(|from| is_match(&pattern[at + 1..], &rest[from..]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_bytes() {
        for (pattern, name) in [("", ""), ("*", ""), ("*", "a/b"), ("db*.*", "db7.net"), ("*é*", "café")] {
            assert!(matches_wildcard(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("", "a"), ("a", "b"), ("a*", "b"), ("*a", "ab"), ("a*a", "a"), ("A", "a")] {
            assert!(!matches_wildcard(pattern, name), "{pattern} {name}");
        }
    }
}
