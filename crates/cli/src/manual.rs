//! Shell completions and manual pages, generated from the command line's definition.

use crate::failure::Failure;
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints the completions of a shell, which reads them from a folder of its own.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar completions bash > ~/.local/share/bash-completion/completions/belljar\n  belljar completions zsh > ~/.zfunc/_belljar\n  belljar completions fish > ~/.config/fish/completions/belljar.fish"
)]
pub struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

/// Writes a manual page for the program and one for each of its commands.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  belljar man ~/.local/share/man/man1\n  man belljar-run")]
pub struct ManArguments {
    /// The folder, which is made if it is not there
    folder: PathBuf,
}

/// The command line with the options of commands that are programs of Python, which parse their arguments themselves.
fn described(command: clap::Command) -> clap::Command {
    command
        .mut_subcommand("sweep", |command| {
            with_options(&command, "sweep", ("FILE", "The experiment file"), crate::sweep::OPTIONS)
        })
        .mut_subcommand("reproduce", |command| {
            with_options(
                &command,
                "reproduce",
                ("NAME", "Experiments; 'all' for each"),
                crate::reproduce::OPTIONS,
            )
        })
}

/// Option of a command of Python: its letter, its name, the name of its value, and what it does.
pub type PythonOption = (Option<char>, &'static str, Option<&'static str>, &'static str);

/// The same command with these options and a positional argument.
fn with_options(
    command: &clap::Command,
    name: &'static str,
    (argument, help): (&'static str, &'static str),
    options: &[PythonOption],
) -> clap::Command {
    let about = command.get_about().cloned().unwrap_or_default();
    let mut new = clap::Command::new(name).about(about).arg(clap::Arg::new(argument).help(help));
    for &(letter, long, value, help) in options {
        let mut option = clap::Arg::new(long).long(long).help(help);
        option = match value {
            Some(value) => option.value_name(value),
            None => option.action(clap::ArgAction::SetTrue),
        };
        new = new.arg(letter.into_iter().fold(option, clap::Arg::short));
    }
    new
}

/// Prints the completions of a shell.
pub fn completions(arguments: &CompletionsArguments, command: clap::Command) -> Result<ExitCode, Failure> {
    let mut command = described(command);
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "belljar", &mut text);
    // The reader may have closed the pipe.
    let _ = std::io::stdout().write_all(&text);
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
pub fn man(arguments: &ManArguments, command: clap::Command) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let made =
        std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(described(command), folder));
    made.map_err(|error| Failure::run(format!("{} cannot be written: {error}", folder.display())))?;
    Ok(ExitCode::SUCCESS)
}
