//! A stepper for packets, like a debugger's.
//!
//! A packet has been processed before its steps are shown: commands cannot change its result, and stepping
//! backwards is possible.

use belljar_p4::{Program, Step, Switch};
use std::io::{BufRead, Write};

const HELP: &str = "\
s, step, or an empty line   to the next line
back                        to the line before
n, next                     to the next packet
c, continue                 to the next breakpoint
b WORD, break WORD          stop at lines with this word: a table, an action, a parser state, a line of the source (router.p4:25)
d WORD, delete WORD         forget a breakpoint
p [NAME], print [NAME]      fields of the packet, all or those whose names contain NAME
q, quit                     end
";

/// Lines that are passed without a prompt.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Going {
    /// None: prompt at each line.
    Step,
    /// All lines of this packet.
    Packet,
    /// All lines up to a breakpoint.
    Breakpoint,
}

/// Stepper: shows the processing of packets line by line, controlled by commands on standard input.
pub struct Stepper {
    breakpoints: Vec<String>,
    going: Going,
    /// True at the end of the commands: the remaining lines are shown at once.
    ended: bool,
}

impl Stepper {
    /// Creates a stepper that stops at the first line.
    pub fn new() -> Stepper {
        Stepper { breakpoints: Vec::new(), going: Going::Step, ended: false }
    }

    /// Shows the steps since the last call. Returns false if the user quits.
    pub fn show(&mut self, switch: &mut Switch) -> bool {
        let steps = switch.take_steps();
        let program = switch.program();
        if self.going == Going::Packet && !steps.is_empty() {
            self.going = Going::Step;
        }
        let mut at = 0;
        while at < steps.len() {
            if self.going != Going::Packet {
                println!("{}", steps[at].line);
                print_changes(program, &steps, at);
            }
            let meets = self.breakpoints.iter().any(|word| has_word(&steps[at].line, word));
            if self.going == Going::Breakpoint && meets {
                self.going = Going::Step;
            }
            if self.going != Going::Step || self.ended {
                at += 1;
                continue;
            }
            match self.command(program, &steps, at) {
                Some(next) => at = next,
                None => return false,
            }
        }
        true
    }

    /// Reads commands until one continues. Returns the index of the line to show next, or `None` to quit.
    fn command(&mut self, program: &Program, steps: &[Step], at: usize) -> Option<usize> {
        loop {
            print!("(p4) ");
            let _ = std::io::stdout().flush();
            let mut line = String::new();
            if std::io::stdin().lock().read_line(&mut line).unwrap_or(0) == 0 {
                println!();
                self.ended = true;
                return Some(at + 1);
            }
            let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
            let rest = rest.trim();
            match word {
                "" | "s" | "step" => return Some(at + 1),
                "back" if at > 0 => return Some(at - 1),
                "back" => println!("this is the first line of the packet"),
                "n" | "next" => {
                    self.going = Going::Packet;
                    return Some(at + 1);
                }
                "c" | "continue" => {
                    self.going = Going::Breakpoint;
                    return Some(at + 1);
                }
                "b" | "break" if rest.is_empty() => println!("breakpoints: {}", self.breakpoints.join(", ")),
                "b" | "break" => self.breakpoints.push(rest.to_owned()),
                "d" | "delete" => self.breakpoints.retain(|word| word != rest),
                "p" | "print" => print_fields(program, steps, at, rest),
                "q" | "quit" => return None,
                "help" => print!("{HELP}"),
                other => println!("'{other}' is no command; help lists them"),
            }
        }
    }
}

/// True if the line contains the word, delimited by other characters than letters, digits and `_`.
fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word)
        .any(|(at, _)| !part(line[..at].chars().next_back()) && !part(line[at + word.len()..].chars().next()))
}

/// Returns the fields of the last step up to `at` that has any.
fn state(program: &Program, steps: &[Step], at: usize) -> Option<Vec<(String, String)>> {
    steps[..=at].iter().rev().find_map(|step| step.fields(program))
}

fn print_fields(program: &Program, steps: &[Step], at: usize, part: &str) {
    // The first line of ingress is the switch's own, so the packet's first fields come with a later step.
    let found =
        state(program, steps, at).or_else(|| steps[at..].iter().find_map(|step| step.fields(program)));
    let fields = found.unwrap_or_default();
    let mut fields = fields.iter().filter(|(name, _)| name.contains(part)).peekable();
    if fields.peek().is_none() {
        println!("no field of a valid header has '{part}' in its name");
    }
    for (name, value) in fields {
        println!("      {name} = {value}");
    }
}

/// Prints the fields that have changed since the previous line. A header that has become valid is printed in
/// full.
fn print_changes(program: &Program, steps: &[Step], at: usize) {
    let Some(now) = steps[at].fields(program) else { return };
    // The packet's first fields are those it arrived with.
    let before = at.checked_sub(1).and_then(|at| state(program, steps, at));
    let Some(before) = before else { return };
    let old = |name: &str| before.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str());
    for (name, value) in &now {
        match old(name) {
            Some(old) if old == value => {}
            Some(old) => println!("      {name}: {old} -> {value}"),
            None => println!("      {name} = {value}"),
        }
    }
    let header = |name: &str| name.rsplit_once('.').map_or_else(String::new, |(header, _)| header.to_owned());
    let mut gone: Vec<String> = before
        .iter()
        .filter(|(name, _)| !now.iter().any(|(other, _)| other == name))
        .map(|(name, _)| header(name))
        .collect();
    gone.dedup();
    for header in gone {
        println!("      {header} is no longer valid");
    }
}
