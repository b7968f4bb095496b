//! Reports that continuous integration reads.

use super::test::Tested;
use std::fmt::Write;

/// The report of these scripts.
pub fn report(tested: &[Tested]) -> String {
    let errors = tested.iter().filter(|one| one.error).count();
    let failures = tested.iter().filter(|one| !one.failures.is_empty()).count() - errors;
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuite name=\"belljar p4 test\" tests=\"{}\" failures=\"{failures}\" errors=\"{errors}\">",
        tested.len()
    );
    for one in tested {
        let name = escape(&one.name);
        if one.failures.is_empty() {
            let _ = writeln!(out, "  <testcase name=\"{name}\"/>");
        } else {
            let kind = if one.error { "error" } else { "failure" };
            let text = escape(&one.failures.join("\n"));
            let _ = writeln!(
                out,
                "  <testcase name=\"{name}\"><{kind} message=\"{}\">{text}</{kind}></testcase>",
                escape(&one.failures[0])
            );
        }
    }
    out.push_str("</testsuite>\n");
    out
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no other control characters.
            _ if letter.is_control() && !matches!(letter, '\n' | '\t') => out.push('?'),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_from_errors() {
        let one = |name: &str, failures: &[&str], error| Tested {
            name: name.to_owned(),
            failures: failures.iter().map(|text| (*text).to_owned()).collect(),
            error,
        };
        let text =
            report(&[one("a", &[], false), one("b", &["1 < 2"], false), one("c", &["no \"file\""], true)]);
        assert!(text.contains("tests=\"3\" failures=\"1\" errors=\"1\""), "{text}");
        assert!(text.contains("<failure message=\"1 &lt; 2\">1 &lt; 2</failure>"), "{text}");
        assert!(text.contains("<error message=\"no &quot;file&quot;\">"), "{text}");
    }
}
