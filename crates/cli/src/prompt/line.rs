//! Lines of the prompt.

/// Line as the prompt understands it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing, or a comment.
    Empty,
    /// Command of the prompt, with its arguments.
    Command(String, Vec<String>),
    /// Command for the shell of this machine.
    Shell(String),
    /// Command on a host: the host, the command line, and whether it runs in the background.
    On(String, String, bool),
}

/// Commands of the prompt that take the rest of the line as it is.
const SHELLS: [&str; 2] = ["sh", "!"];

/// Reads a line. A first word among `nodes` names the host of a command, in which names of hosts are replaced by
/// their addresses.
pub fn parse(text: &str, nodes: &[String], address_of: &dyn Fn(&str) -> Option<String>) -> Line {
    let text = text.trim();
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    if text.is_empty() || text.starts_with('#') {
        return Line::Empty;
    }
    if SHELLS.contains(&first) {
        return Line::Shell(rest.to_owned());
    }
    if nodes.iter().any(|name| name == first) {
        let (command, background) = match rest.strip_suffix('&') {
            Some(command) if !command.ends_with('&') => (command.trim_end(), true),
            _ => (rest, false),
        };
        return Line::On(first.to_owned(), addressed(command, address_of), background);
    }
    Line::Command(first.to_owned(), rest.split_whitespace().map(str::to_owned).collect())
}

/// Replaces words that are names of hosts by their addresses. All other characters stay as they are.
fn addressed(command: &str, address_of: &dyn Fn(&str) -> Option<String>) -> String {
    let mut text = String::new();
    for piece in command.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        match address_of(word) {
            Some(address) => {
                text.push_str(&address);
                text.push_str(&piece[word.len()..]);
            }
            None => text.push_str(piece),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Line {
        let nodes = ["h1", "h2"].map(str::to_owned);
        let address = |name: &str| (name == "h2").then(|| "10.0.0.2".to_owned());
        parse(text, &nodes, &address)
    }

    fn on(command: &str, background: bool) -> Line {
        Line::On("h1".into(), command.into(), background)
    }

    #[test]
    fn names_of_hosts_are_replaced_by_addresses_in_commands_on_hosts_alone() {
        assert_eq!(read(" h1 ping -c 3 h2 "), on("ping -c 3 10.0.0.2", false));
        assert_eq!(
            read("h1 echo  'h2 x'\th2"),
            on("echo  'h2 x'\t10.0.0.2", false),
            "as Mininet: words only"
        );
        assert_eq!(read("iperf h1 h2"), Line::Command("iperf".into(), vec!["h1".into(), "h2".into()]));
        assert_eq!(read("sh echo h2 | cat"), Line::Shell("echo h2 | cat".into()));
    }

    #[test]
    fn an_ampersand_is_for_the_background_and_two_are_not() {
        assert_eq!(read("h1 sleep 5 &"), on("sleep 5", true));
        assert_eq!(read("h1 true &&"), on("true &&", false));
        assert_eq!(read("h1"), on("", false));
    }

    #[test]
    fn comments_and_empty_lines_are_nothing() {
        assert_eq!([read(""), read("   "), read("# h1 date")], [Line::Empty, Line::Empty, Line::Empty]);
    }
}
