//! Shell scripts of imported commands. A command that fails does not keep the later ones from running, as in
//! the tools that the commands were written for, but the script then exits with its status.

use super::draft::{Command, CommandKind};
use super::mounts::Mount;
use crate::emit::quoted;
use std::fmt::Write;

/// Reports a command that fails, and exits with its status after the last command.
const CHECKED: &str =
    "trap 'failed=$?; echo \"exit status $failed: $BASH_COMMAND\" >&2' ERR\ntrap 'exit ${failed:-$?}' EXIT\n";

/// A script for bash.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Lines of the script, without the traps.
    lines: String,
    /// True if functions and subshells are to report failures too.
    in_functions: bool,
    /// True for a single program, whose exit status is the script's.
    is_program: bool,
}

impl Script {
    /// A script that mounts files.
    pub(super) fn of_mounts(mounts: &[Mount]) -> Script {
        Script { lines: mounts.iter().map(Mount::commands).collect(), ..Script::default() }
    }

    /// A script that becomes one program.
    pub(super) fn of_program(words: &[String]) -> Script {
        Script {
            lines: format!("exec {}\n", shell_words::join(words)),
            is_program: true,
            ..Script::default()
        }
    }

    /// A script that runs commands in their order.
    pub(super) fn of_commands(commands: &[Command]) -> Script {
        let mut script = Script::default();
        if commands.iter().all(Command::is_blank) {
            return script;
        }
        for part in commands.chunk_by(|a, b| a.kind == b.kind) {
            let is_file = matches!(part[0].kind, CommandKind::File(_));
            // Where commands follow a file, its `exit` must not end them.
            let is_apart = is_file && part.len() < commands.len();
            if is_apart {
                let _ = write!(script.lines, "(\ntrap 'exit ${{failed:-$?}}' EXIT\n");
            }
            for command in part {
                script.in_functions |= command.kind != CommandKind::Program;
                let words = (command.kind == CommandKind::Program).then(|| shell_words::split(&command.text));
                match words {
                    Some(Ok(words)) => {
                        let _ = writeln!(script.lines, "{}", shell_words::join(words));
                    }
                    _ => {
                        let _ = writeln!(script.lines, "{}", command.text);
                    }
                }
            }
            if is_apart {
                script.lines.push_str(")\n");
            }
        }
        script
    }

    pub(super) fn followed_by(self, next: Script) -> Script {
        Script {
            lines: self.lines + &next.lines,
            in_functions: self.in_functions || next.in_functions,
            is_program: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The key `args` of a process that runs the script.
    pub(super) fn arguments(&self, indent: &str) -> String {
        let functions = if self.in_functions { "set -E\n" } else { "" };
        let text = match self.is_program {
            true => self.lines.clone(),
            false => format!("{functions}{CHECKED}{}", self.lines),
        };
        let is_plain = text.chars().all(|c| c == '\n' || (' '..='~').contains(&c));
        if !is_plain {
            return format!("{indent}args: [-c, {}]\n", quoted(&text));
        }
        let mut out = format!("{indent}args:\n{indent}- -c\n{indent}- |\n");
        for line in text.lines() {
            let _ = match line.is_empty() {
                true => writeln!(out),
                false => writeln!(out, "{indent}  {line}"),
            };
        }
        out
    }
}
