//! `belljar inspect`.

use crate::failure::Failure;
use belljar_results::read::Results;
use belljar_results::{Section, flow_monitor, routing, table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows the results of a run as tables: processes, properties, traffic models, hosts, links, dropped packets, radio stations, P4 switches, traffic, system calls, warnings.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  belljar inspect first.data\n  belljar inspect first.data syscalls --rows 1000\n  belljar inspect olsr.data --routing"
)]
pub struct Arguments {
    /// The results folder
    results: PathBuf,
    /// Tables to show [default: all]
    #[arg(value_enum)]
    tables: Vec<Name>,
    /// Show what routing did instead: changes of routes, convergence, control overhead, loops, black holes, path stretch
    #[arg(long, conflicts_with = "tables")]
    routing: bool,
    /// UDP ports of routing protocols that have others than their usual ones
    #[arg(long, value_name = "PORT", requires = "routing")]
    control_port: Vec<u16>,
    /// Print what routing did as JSON
    #[arg(long, requires = "routing")]
    json: bool,
    /// Print the flows in the captures as ns-3's FlowMonitor writes them, in XML
    #[arg(long, conflicts_with_all = ["tables", "routing"])]
    flow_monitor: bool,
    /// The most rows shown of each table
    #[arg(long, value_name = "N", env = "BELLJAR_ROWS", default_value_t = 20)]
    rows: usize,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    Processes,
    Properties,
    Models,
    Hosts,
    Links,
    Drops,
    Packets,
    Radios,
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
            Name::Properties => Section::Properties,
            Name::Models => Section::Models,
            Name::Hosts => Section::Hosts,
            Name::Links => Section::Links,
            Name::Drops => Section::Drops,
            Name::Packets => Section::Packets,
            Name::Radios => Section::Radios,
            Name::P4Tables => Section::P4Tables,
            Name::P4Ports => Section::P4Ports,
            Name::Traffic => Section::Traffic,
            Name::Syscalls => Section::Syscalls,
            Name::Warnings => Section::Warnings,
        }
    }
}

/// Opens the results and prints the tables.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let results = Results::open(&arguments.results).map_err(Failure::usage)?;
    if arguments.flow_monitor {
        print!("{}", flow_monitor(&results).map_err(Failure::usage)?);
        return Ok(ExitCode::SUCCESS);
    }
    if arguments.routing {
        let found = routing::routing(&results, &arguments.control_port).map_err(Failure::usage)?;
        match arguments.json {
            true => println!("{}", serde_json::to_string(&found).expect("plain data can be serialised")),
            false => print!("{}", routing::text(&found, arguments.rows)),
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen: Vec<Section> = match arguments.tables.is_empty() {
        true => {
            let there = |section: &Section| match section {
                Section::Properties => !results.statistics.properties.is_empty(),
                Section::Models => !results.statistics.models.is_empty(),
                Section::P4Tables | Section::P4Ports => !results.statistics.p4_switches.is_empty(),
                Section::Radios => !results.statistics.radios.is_empty(),
                Section::Links => !results.statistics.links.is_empty(),
                Section::Drops => !results.statistics.all_drops().is_empty(),
                // On request only: one row for each location.
                Section::Packets => false,
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
    if let Some(why) = &results.statistics.interrupted {
        let end = results.statistics.simulated_seconds;
        println!("this run ended early, at {end:.6} s: {why}\n");
    }
    if let Some(note) = results.statistics.unreached_note() {
        println!("note: {note}\n");
    }
    print!("{}", tables.join("\n"));
    let events = &results.statistics.drawn_events;
    if arguments.tables.is_empty() && !events.is_empty() {
        print!("\nevents drawn by the seed\n{events}");
    }
    Ok(ExitCode::SUCCESS)
}
