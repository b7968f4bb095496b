//! `belljar check`.

use crate::failure::Failure;
use belljar_histories::{
    History, HistoryError, Level, Limits, MODELS, Report, TransactionKind, Verdict, check, check_steps,
};
use belljar_model_program::{ModelProgram, is_program};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit status for an undecided history: neither valid nor invalid.
const UNKNOWN: u8 = 3;

/// Judges a history of operations: whether it is linearizable, which isolation levels its transactions exclude, or whether a service
/// kept a weaker promise.
///
/// A history has one JSON object a line, as Jepsen's: {"time": 12, "process": 0, "type": "invoke", "f": "write", "key": "x",
/// "value": 3}. "type" is invoke, ok, fail (it did not take effect) or info (it may have taken effect).
///
/// The exit status is 0 if the history is valid, 1 if it is invalid, 2 if it cannot be read, 3 if a limit ended the search.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar check history.jsonl --model cas-register\n  belljar check history.jsonl --model ./bank.py\n  belljar check history.jsonl --model list-append --consistency snapshot-isolation\n  belljar check history.jsonl --edn > history.edn     for Elle and Knossos"
)]
pub struct Arguments {
    /// The history (`-` reads standard input)
    file: PathBuf,
    #[arg(short, long, help = model_help(), value_parser = model, required_unless_present = "edn")]
    model: Option<String>,
    /// Isolation level that transactions are held to: strict-serializable, strong-session-serializable, serializable,
    /// strong-snapshot-isolation, strong-session-snapshot-isolation, snapshot-isolation, repeatable-read, read-committed
    /// or read-uncommitted; other models have no levels
    #[arg(short, long, value_name = "LEVEL")]
    consistency: Option<Level>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Print the history as EDN, without judging it
    #[arg(long, conflicts_with_all = ["model", "consistency", "json"])]
    edn: bool,
    /// Number of configurations that the search of one object enters, or of steps in search of one kind of cycle
    #[arg(long, value_name = "N", default_value_t = Limits::default().configurations)]
    limit: u64,
    /// Memory for the configurations of one object, in MiB
    #[arg(long, value_name = "MIB", default_value_t = Limits::default().bytes >> 20)]
    memory: usize,
}

fn model_names() -> String {
    MODELS.iter().map(|model| model.0).collect::<Vec<_>>().join(", ")
}

fn model_help() -> String {
    format!(
        "Model of the objects: {}, or the path of a program whose step function it is, such as ./bank.py",
        model_names()
    )
}

/// Name of a model, or file of a program.
fn model(text: &str) -> Result<String, String> {
    if is_program(text) || MODELS.iter().any(|model| model.0 == text) {
        return Ok(text.to_owned());
    }
    Err(format!("name a file such as ./{text}.py, or one of {}", model_names()))
}

/// Reads a history, checks it and prints the verdict.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let history = read(&arguments.file)?;
    let Some(model) = &arguments.model else {
        std::io::stdout().write_all(history.to_edn().as_bytes()).map_err(Failure::run)?;
        return Ok(ExitCode::SUCCESS);
    };
    if arguments.consistency.is_some() && TransactionKind::named(model).is_none() {
        return Err(Failure::usage(format!(
            "--consistency is only valid with --model list-append and rw-register: the model {model} has no isolation levels"
        )));
    }
    let limits = Limits { configurations: arguments.limit, bytes: arguments.memory.saturating_mul(1 << 20) };
    let report = match is_program(model) {
        true => check_program(&history, Path::new(model), limits),
        false => check(&history, model, arguments.consistency.unwrap_or_default(), limits),
    };
    let report = report.map_err(|error| Failure::usage(error.in_file(&arguments.file)))?;
    if arguments.json {
        println!("{}", report.to_json());
    } else {
        println!("{report}");
    }
    Ok(match report.verdict {
        Verdict::Valid => ExitCode::SUCCESS,
        Verdict::Invalid => ExitCode::FAILURE,
        Verdict::Unknown => ExitCode::from(UNKNOWN),
    })
}

/// Judges a history by the step function of a program.
fn check_program(history: &History, program: &Path, limits: Limits) -> Result<Report, HistoryError> {
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    check_steps(history, &name, Box::new(ModelProgram::new(program)), limits)
}

fn read(path: &Path) -> Result<History, Failure> {
    let history = if path == Path::new("-") {
        History::read(std::io::stdin().lock())
    } else {
        let file = belljar_inputs::open(path)
            .map_err(|error| Failure::usage(format!("{} cannot be read: {error}", path.display())))?;
        History::read(BufReader::new(file))
    };
    history.map_err(|error| Failure::usage(error.in_file(path)))
}
