//! Colour of messages on a terminal.

use std::io::IsTerminal;

/// True if messages on standard error have colour: on a terminal, unless `NO_COLOR` is set (no-color.org).
fn has_colour() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    std::io::stderr().is_terminal()
        && !is_set("NO_COLOR")
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// A message with its first words, such as `error:`, in colour, each time that a line begins with them.
pub fn message(text: &str) -> String {
    match has_colour() {
        true => painted(text),
        false => text.to_owned(),
    }
}

/// Prints a note on standard error.
pub fn note(text: &str) {
    eprintln!("{}", message(&format!("note: {text}")));
}

/// Prints a line on standard error that only a verbose run has.
pub fn info(text: &str) {
    eprintln!("{}", message(&format!("info: {text}")));
}

fn painted(text: &str) -> String {
    let words = [
        ("error:", "\x1b[1;31m"),
        ("note:", "\x1b[1;36m"),
        ("info:", "\x1b[36m"),
        ("warning:", "\x1b[1;33m"),
    ];
    let line = |line: &str| {
        let found = words.iter().find(|(word, _)| line.starts_with(word));
        match found {
            Some((word, colour)) => format!("{colour}{word}\x1b[0m{}", &line[word.len()..]),
            None => line.to_owned(),
        }
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_the_first_words_have_colour() {
        assert_eq!(
            super::painted("error: an error: x\n --> a"),
            "\x1b[1;31merror:\x1b[0m an error: x\n --> a"
        );
        assert_eq!(super::painted("plain"), "plain");
    }
}
