//! Records of scripts: a script is run by Python with modules in place of its tool's (`script.py` and those of the tool), which leave
//! a record of what it has made.

use super::Input;
use crate::error::{Problem, Span};
use crate::yaml::{self, Node, section};
use std::io::Write;
use std::process::Stdio;
use std::rc::Rc;

/// Runs a script of a tool, whose modules the text `modules` replaces. Returns the record that they have made.
pub(super) fn of_script(input: &Input, tool: &str, modules: &str) -> Result<Rc<Node>, Problem> {
    if !input.options.run_script {
        let message = format!("a script of {tool} is a program, which must be run to be imported");
        let help = format!(
            "read it, then add --run-script: its code runs with your rights, only {tool}'s own modules are replaced"
        );
        return Err(Problem::whole_file(message).help(help));
    }
    let text = run(input, &[include_str!("script.py"), "\n\n", modules].concat())?;
    yaml::parse(&text)?.ok_or_else(|| Problem::whole_file("the script left no record"))
}

fn run(input: &Input, modules: &str) -> Result<String, Problem> {
    let failed = |what: &str, error: &std::io::Error| {
        Problem::whole_file(format!("{what}: {}", crate::error::plain(error)))
    };
    let mut command = std::process::Command::new("python3");
    command.arg("-").arg(&input.source.name).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed("python3 cannot be started", &error))?;
    let mut pipe = child.stdin.take().expect("it is a pipe");
    // A Python that ends early says why.
    let _ = pipe.write_all(modules.as_bytes());
    drop(pipe);
    let output = child.wait_with_output().map_err(|error| failed("python3 cannot be waited for", &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next_back() {
        Some(record) if output.status.success() => Ok(record.to_owned()),
        _ => Err(Problem::whole_file(format!("the script was not run to its end: Python {}", output.status))),
    }
}

/// The failure of the script in its record, if it has failed.
pub(super) fn failure(record: &Node) -> Option<Rc<Node>> {
    record.entry("failure").map(|entry| entry.value.clone())
}

/// The problem that an item of the record is: its text, with its line if it has one.
pub(super) fn problem(item: &Node) -> Result<Problem, Problem> {
    let message = text(item, "text")?;
    Ok(match line(item)? {
        0 => Problem::whole_file(message),
        at => Problem::at(of_line(at), message),
    })
}

/// A position in the script.
pub(super) fn of_line(line: usize) -> Span {
    Span { line, column: 1, len: 1 }
}

/// The value of a key of the record.
pub(super) fn get(node: &Node, key: &str) -> Rc<Node> {
    let own = node.entry(key).map(|entry| entry.value.clone());
    own.unwrap_or_else(|| panic!("the record has '{key}'"))
}

/// The text of a key of the record.
pub(super) fn text(node: &Node, key: &str) -> Result<String, Problem> {
    section::string(&get(node, key), key).map(str::to_owned)
}

/// The line of the script in an item of the record.
pub(super) fn line(node: &Node) -> Result<usize, Problem> {
    section::whole(&get(node, "line"), "line", u64::from(u32::MAX)).map(|line| line as usize)
}

/// The items of a list of the record.
pub(super) fn items(node: &Node, key: &str) -> Result<Vec<Rc<Node>>, Problem> {
    section::list(&get(node, key), key).map(<[_]>::to_vec)
}
