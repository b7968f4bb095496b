//! Lines from the user: edited on a terminal, with history and completion, otherwise as they come.

use crate::failure::Failure;
use crate::tty;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{Config, Context, Helper};
use std::io::{self, BufRead};
use std::path::PathBuf;

/// What the prompt shows.
const PROMPT: &str = "belljar> ";
/// File of the history in the user's home.
const HISTORY: &str = ".belljar_history";
const HISTORY_LEN: usize = 1_000;

/// Result of reading.
pub enum Read {
    /// Line without its end.
    Line(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D, or the end of the input.
    End,
}

/// Reader of lines.
pub enum Editor {
    /// On a terminal.
    Terminal(Box<rustyline::Editor<Words, DefaultHistory>>),
    /// From a file or pipe.
    Plain,
}

impl Editor {
    /// Begins to read; `words` are completed.
    pub fn new(words: Vec<String>) -> Result<Editor, Failure> {
        if !tty::is_here() {
            return Ok(Editor::Plain);
        }
        let config = Config::builder().max_history_size(HISTORY_LEN).map_err(Failure::run)?.build();
        let mut editor = rustyline::Editor::with_config(config).map_err(Failure::run)?;
        editor.set_helper(Some(Words(words)));
        // The first time there is none.
        let _ = history().map(|file| editor.load_history(&file));
        Ok(Editor::Terminal(Box::new(editor)))
    }

    /// Reads the next line.
    pub fn read(&mut self) -> Result<Read, Failure> {
        match self {
            Editor::Terminal(editor) => match editor.readline(PROMPT) {
                Ok(line) => {
                    let _ = editor.add_history_entry(&line);
                    Ok(Read::Line(line))
                }
                Err(ReadlineError::Interrupted) => Ok(Read::Interrupted),
                Err(ReadlineError::Eof) => Ok(Read::End),
                Err(error) => Err(Failure::run(error)),
            },
            Editor::Plain => {
                let mut line = String::new();
                match io::stdin().lock().read_line(&mut line).map_err(Failure::run)? {
                    0 => Ok(Read::End),
                    _ => Ok(Read::Line(line)),
                }
            }
        }
    }

    /// Saves the history.
    pub fn save(&mut self) {
        if let (Editor::Terminal(editor), Some(file)) = (self, history()) {
            let _ = editor.save_history(&file);
        }
    }
}

fn history() -> Option<PathBuf> {
    Some(PathBuf::from(std::env::var_os("HOME")?).join(HISTORY))
}

/// Words that are completed.
pub struct Words(Vec<String>);

impl Words {
    /// Start of the word that ends at `at`, and the words that it may become.
    fn of(&self, line: &str, at: usize) -> (usize, Vec<String>) {
        let start = line[..at].rfind(char::is_whitespace).map_or(0, |space| space + 1);
        let begun = &line[start..at];
        (start, self.0.iter().filter(|word| word.starts_with(begun)).cloned().collect())
    }
}

impl Completer for Words {
    type Candidate = String;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.of(line, at))
    }
}

impl Hinter for Words {
    type Hint = String;
}
impl Highlighter for Words {}
impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_at_the_cursor_is_completed() {
        let words = Words(["pingall", "ping", "h1", "h2"].map(str::to_owned).to_vec());
        assert_eq!(words.of("pin", 3), (0, vec!["pingall".to_owned(), "ping".to_owned()]));
        assert_eq!(words.of("iperf h1 h", 10), (9, vec!["h1".to_owned(), "h2".to_owned()]));
        assert_eq!(words.of("x", 1), (0, Vec::new()));
    }
}
