use super::*;

fn empty(text: &str) -> bool {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    parse(text).is_some_and(|node| is_empty(&node))
}

#[test]
fn expressions_that_match_in_no_line() {
    for text in [
        "a^b",
        "$a",
        "a\nb",
        r"a\nb",
        "^^$a",
        r"\za",
        r"a\A",
        r"a\bb",
        r"a\B ",
        r"\b{start} ",
        r"a\>b",
        r"[^\s\S]",
        r"[^\D\d]x",
        "(?:a|b)^c",
        "(?:^a){2}",
        "(?:x^)+y",
        "(?i:A)^",
        "(?s).$.",
        "(?R)a$\\r",
        "(?:$a|b^)",
        "x(?:a^|$)y",
        "a{2}^",
        "(?m)a^",
        "[\n]",
        "(?<n>a^)",
    ] {
        assert!(empty(text), "{text}");
    }
    for text in [
        "^$",
        "a",
        "(?:$a)?b",
        "(?:a^)*",
        "(?:a^){0}",
        r"\bword\b",
        r"a\B\w",
        "(?:^a){1}",
        "^a$|b^",
        r"[\^]",
        "[a^]b",
        r"a\^b",
        r"\$a",
        "[]a]^*",
        "[^]]",
        "[--a]x",
        "[[:alpha:]]",
        "[é-ü]",
        "[^a]",
        r"\x41^?",
        r"\u{41}",
        r"\.",
        "x{2,3}",
        "a{,}|b",
        ".*$",
        "(?Rm)^a$\\r",
        "(?Rm)\\r^a",
        "(?i)straße",
        "(?P<n>[0-9]+)$",
        r"\$$",
        "a|",
    ] {
        if Regex::new(text).is_ok() {
            assert!(!empty(text), "{text}");
        }
    }
    // Not analysed.
    assert!(!empty("(?x) a ^ b"));
}

/// Draws an expression.
fn draw(draws: &mut impl FnMut(usize) -> usize, depth: usize) -> String {
    let parts = [
        "a",
        " ",
        "1",
        ".",
        r"\w",
        r"\W",
        r"\d",
        "[^a]",
        r"[^\s\w]",
        "^",
        "$",
        r"\b",
        r"\B",
        r"\<",
        r"\>",
        r"\b{start-half}",
        r"\b{end-half}",
        r"\A",
        r"\z",
        r"\r",
        r"[^\s\S]",
    ];
    match if depth == 0 { 0 } else { draws(7) } {
        0 | 1 => parts[draws(parts.len())].to_owned(),
        2 | 3 => draw(draws, depth - 1) + &draw(draws, depth - 1),
        4 => format!("(?:{}|{})", draw(draws, depth - 1), draw(draws, depth - 1)),
        5 => format!("(?:{}){}", draw(draws, depth - 1), ["?", "*", "+", "{2}", "{0,2}"][draws(5)]),
        _ => format!("(?{}:{})", ["i", "m", "Rm", "s"][draws(4)], draw(draws, depth - 1)),
    }
}

/// Lines of up to `length` characters.
fn lines(length: usize) -> Vec<String> {
    let (mut all, mut last) = (vec![String::new()], vec![String::new()]);
    for _ in 0..length {
        last =
            last.iter().flat_map(|line| ["a", " ", "1", "-", "\r"].map(|c| format!("{line}{c}"))).collect();
        all.extend(last.iter().cloned());
    }
    all
}

#[test]
fn the_proof_agrees_with_a_search_in_all_short_lines() {
    let mut state = 1_u64;
    let mut draws = move |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let lines = lines(5);
    let (mut of_none, mut of_some) = (0, 0);
    for round in 0..1_200 {
        // A large expression may match in longer lines only: of these, only what is proven is checked.
        let is_small = round % 2 == 0;
        let text = draw(&mut draws, if is_small { 2 } else { 3 });
        let Ok(regex) = Regex::new(&text) else { continue };
        let proven = is_empty(&parse(&text).unwrap_or_else(|| panic!("{text} is not parsed")));
        match lines.iter().find(|line| regex.is_match(line)) {
            Some(line) => {
                of_some += 1;
                assert!(!proven, "{text} matches in {line:?}");
            }
            None => {
                of_none += 1;
                assert!(proven || !is_small, "{text} matches in no short line, which is not proven");
            }
        }
    }
    assert!(of_none > 100 && of_some > 300, "{of_none} {of_some}");
}

#[test]
fn groups_that_capture_no_number() {
    let none = |text: &str| captures_no_number(&parse(text).unwrap(), "n");
    for text in [
        "(?<n>[a-z]+)",
        "(?<n>)",
        "x(?<n>[-+.]+)y",
        "(?<n> [0-9]+)",
        "(?<n>[0-9]+ms)",
        "(?<n>e5)",
        "(?:(?<n>1e)|b)",
        "(?<n>0x[0-9]+)",
        "(?<n>inf|nan)",
    ] {
        assert!(none(text), "{text}");
    }
    for text in [
        "(?<n>[0-9]+)",
        "(?<n>.*)",
        "(?<n>[0-9a-f]+)",
        r"(?<n>\S+)",
        "(?<n>-?[0-9.]+)",
        "(?<n>[a-z]+|7)",
        "(?<n>1[eE]-[0-9])",
        r"(?<n>\.5)",
        r"(?<n>\x35)",
        "(?<m>a)",
    ] {
        assert!(!none(text), "{text}");
    }
}
