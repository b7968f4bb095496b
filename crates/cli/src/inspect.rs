//! `belljar inspect`.

use crate::failure::Failure;
use belljar_results::read::Results;
use belljar_results::{Section, table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows the results of a run as tables: processes, traffic models, hosts, links, P4 switches, traffic, system calls, warnings.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar inspect first.data\n  belljar inspect first.data syscalls --rows 1000"
)]
pub struct Arguments {
    /// The results folder
    results: PathBuf,
    /// Tables to show [default: all]
    #[arg(value_enum)]
    tables: Vec<Name>,
    /// The most rows shown of each table
    #[arg(long, value_name = "N", env = "BELLJAR_ROWS", default_value_t = 20)]
    rows: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    Processes,
    Models,
    Hosts,
    Links,
    P4Tables,
    P4Ports,
    Traffic,
    Syscalls,
    Warnings,
}

impl Name {
    fn section(self) -> Section {
        match self {
            Name::Processes => Section::Processes,
            Name::Models => Section::Models,
            Name::Hosts => Section::Hosts,
            Name::Links => Section::Links,
            Name::P4Tables => Section::P4Tables,
            Name::P4Ports => Section::P4Ports,
            Name::Traffic => Section::Traffic,
            Name::Syscalls => Section::Syscalls,
            Name::Warnings => Section::Warnings,
        }
    }
}

/// Opens and prints.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = Results::open(&arguments.results).map_err(Failure::usage)?;
    let chosen: Vec<Section> = match arguments.tables.is_empty() {
        true => {
            let there = |section: &Section| match section {
                Section::Models => !results.statistics.models.is_empty(),
                Section::P4Tables | Section::P4Ports => !results.statistics.p4_switches.is_empty(),
                Section::Links => !results.statistics.links.is_empty(),
                _ => true,
            };
            Section::ALL.into_iter().filter(there).collect()
        }
        false => arguments.tables.iter().map(|name| name.section()).collect(),
    };
    let tables: Vec<String> = chosen
        .iter()
        .map(|section| format!("{}\n{}", section.title(), table(&results, *section, arguments.rows)))
        .collect();
    print!("{}", tables.join("\n"));
    Ok(ExitCode::SUCCESS)
}
