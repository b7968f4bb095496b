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

/// Prints the completions of a shell.
pub fn completions(
    arguments: &CompletionsArguments,
    mut command: clap::Command,
) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "belljar", &mut text);
    // The reader may have closed the pipe.
    let _ = std::io::stdout().write_all(&text);
    Ok(ExitCode::SUCCESS)
}

/// Writes the manual pages.
pub fn man(arguments: &ManArguments, command: clap::Command) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let made = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(command, folder));
    made.map_err(|error| Failure::run(format!("{} cannot be written: {error}", folder.display())))?;
    Ok(ExitCode::SUCCESS)
}
