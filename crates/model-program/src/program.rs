//! [`ModelProgram`]: the step function that a program is.

use crate::answer::{self, Refusal};
use crate::exchange::{Exchange, Trouble};
use belljar_histories::{HistoryError, Question, Start, Steps, Value};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Loop that asks the functions of a file of Python.
const SERVE: &str = include_str!("serve.py");
/// Remedy for a model that has no answer.
const CORRECT: &str = "correct the model, or the operation in the history";
/// Time for the first answer, with the start of the program.
const START: Duration = Duration::from_secs(20);
/// Time for every other answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Program that answers questions about a model.
pub struct ModelProgram {
    path: PathBuf,
    running: Option<Exchange>,
}

impl ModelProgram {
    /// Program of this file; it is started when it is first asked.
    pub fn new(path: &Path) -> ModelProgram {
        // It runs in its own folder.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        ModelProgram { path, running: None }
    }

    fn command(&self) -> Command {
        let mut command = match crate::is_python(&self.path.to_string_lossy()) {
            true => {
                let mut python = Command::new(interpreter());
                // Without -B a folder of compiled files would be left beside the model.
                python.args(["-B", "-c", SERVE]).arg(&self.path);
                python
            }
            false => Command::new(&self.path),
        };
        if let Some(folder) = self.path.parent() {
            command.current_dir(folder);
        }
        command
    }

    /// Answer to a question, `about` which the messages are.
    fn ask(&mut self, question: &str, about: &str, within: Duration) -> Result<Vec<u8>, HistoryError> {
        if self.running.is_none() {
            let started = Exchange::start(&mut self.command());
            self.running = Some(started.map_err(|error| {
                let remedy = "name an executable file, or a file of Python that ends with .py";
                self.error(format!("the model cannot be started: {error}"), remedy)
            })?);
        }
        let Some(running) = &mut self.running else { unreachable!("it has been started") };
        let trouble = match running.ask(question, within) {
            Ok(line) => return Ok(line),
            Err(trouble) => trouble,
        };
        // It cannot be asked again: whatever comes would be the answer to this question.
        self.running = None;
        let one_line = "write one line for each line that is read, and flush it";
        Err(match trouble {
            Trouble::Late => self.error(
                format!("no answer {about} within {} s", within.as_secs()),
                "the model must answer each question with a line, and flush it",
            ),
            Trouble::Ended(status, last) => {
                let status =
                    status.map_or("closed its output".to_owned(), |status| format!("ended with {status}"));
                let last = if last.is_empty() {
                    String::new()
                } else {
                    format!(": {}", answer::shown(last.as_bytes()))
                };
                self.error(format!("the model {status} instead of an answer {about}{last}"), one_line)
            }
            Trouble::Unasked(line) => self.error(
                format!("the model wrote a line that answers nothing: {}", answer::shown(&line)),
                one_line,
            ),
            Trouble::Long => {
                self.error(format!("the answer {about} has more than 16 MiB"), "use smaller states")
            }
            Trouble::Io(error) => self.error(format!("the model cannot be asked {about}: {error}"), one_line),
        })
    }
}

impl Steps for ModelProgram {
    fn start(&mut self) -> Result<Start, HistoryError> {
        let line = self.ask(&answer::first(), "to the question for the initial state", START)?;
        answer::start(&line).map_err(|refusal| match refusal {
            Refusal::Said(why) => self.error(why, CORRECT),
            Refusal::Malformed(why) => self.error(why, "answer {\"initial\": true} by {\"state\": STATE}"),
        })
    }

    fn step(&mut self, state: &Value, question: &Question) -> Result<Option<Value>, HistoryError> {
        let about = format!("to \"{}\" of {}", question.function, question.lines);
        let line = self.ask(&answer::question(state, question), &about, ANSWER)?;
        answer::step(&line).map_err(|refusal| {
            let state = answer::shown(state.to_string().as_bytes());
            match refusal {
                Refusal::Said(why) => {
                    self.error(format!("{why}, as the answer {about} in the state {state}"), CORRECT)
                }
                Refusal::Malformed(why) => self.error(
                    format!("{why}, as the answer {about} in the state {state}"),
                    "answer an operation by {\"ok\": true, \"state\": STATE} or {\"ok\": false}",
                ),
            }
        })
    }

    fn restart(&mut self) {
        self.running = None;
    }

    fn error(&self, problem: String, remedy: &str) -> HistoryError {
        HistoryError::new(0, problem, remedy).in_file(&self.path)
    }
}

/// Interpreter of Python: the one in `BELLJAR_PYTHON`, that of the environment in which this program is installed, or the machine's.
fn interpreter() -> PathBuf {
    if let Some(named) = std::env::var_os("BELLJAR_PYTHON") {
        return named.into();
    }
    let beside = std::env::current_exe().map(|own| own.with_file_name("python3"));
    beside.ok().filter(|beside| beside.is_file()).unwrap_or_else(|| "python3".into())
}
