//! `belljar p4 build`: a P4_16 program as BMv2's JSON and P4Info.

use crate::failure::Failure;
use belljar_p4c::{Compiled, Options, WARNINGS, compile, warning_named};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compiles a P4_16 program for v1model.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  belljar p4 build router.p4 -o router.json --p4info router.p4info.txtpb\n  belljar p4 build router.p4 -I include -D PORTS=8 -W no-unused"
)]
pub struct Arguments {
    /// The program
    file: PathBuf,
    /// The JSON for the switch; the program's name with .json if left out
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The P4Info for controllers, as protobuf text
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,
    /// A folder that #include searches; may be repeated
    #[arg(short = 'I', value_name = "DIR")]
    include: Vec<PathBuf>,
    /// A macro, NAME or NAME=VALUE; may be repeated
    #[arg(short = 'D', value_name = "NAME[=VALUE]")]
    define: Vec<String>,
    /// Switch a warning off: no-NAME, or 'none' for all; may be repeated
    #[arg(short = 'W', value_name = "no-NAME")]
    warnings: Vec<String>,
    /// Say what the program became: tables, actions, parser states, storage
    #[arg(long)]
    explain: bool,
}

/// Reads a program, compiles it and writes the outputs.
pub fn main(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let options = options(arguments)?;
    let shown = arguments.file.display();
    let bytes = belljar_inputs::read(&arguments.file)
        .map_err(|error| Failure::input(format!("error: {shown} cannot be read: {error}")))?;
    let text = String::from_utf8_lossy(&bytes);
    let compiled = compile(&shown.to_string(), &text, &options).map_err(Failure::input)?;
    if !compiled.warnings.list.is_empty() {
        eprintln!("{}", compiled.warnings);
    }
    let output = arguments.output.clone().unwrap_or_else(|| arguments.file.with_extension("json"));
    let json = serde_json::to_string_pretty(&compiled.json)
        .map_err(|error| Failure::run(format!("the JSON cannot be written: {error}")))?;
    write(&output, &format!("{json}\n"))?;
    if let Some(path) = &arguments.p4info {
        write(path, &compiled.p4info)?;
    }
    if arguments.explain {
        print!("{}", explain(&compiled));
    }
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &Arguments) -> Result<Options, Failure> {
    let mut silenced = Vec::new();
    for warning in arguments.warnings.iter().filter(|warning| *warning != "none") {
        let name = warning.strip_prefix("no-").and_then(warning_named).ok_or_else(|| {
            let known = WARNINGS.iter().map(|name| format!("no-{name}")).collect::<Vec<_>>().join(", ");
            Failure::usage(format!("-W {warning}: write one of {known}, none"))
        })?;
        silenced.push(name.to_string());
    }
    if arguments.warnings.iter().any(|warning| warning == "none") {
        silenced.extend(WARNINGS.iter().map(ToString::to_string));
    }
    let define = |text: &String| match text.split_once('=') {
        Some((name, value)) => (name.to_string(), value.to_string()),
        None => (text.clone(), "1".to_string()),
    };
    Ok(Options {
        include_dirs: arguments.include.clone(),
        defines: arguments.define.iter().map(define).collect(),
        silenced,
    })
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::input(format!("error: {} cannot be written: {error}", path.display())))
}

/// Formats a node's source position as `" (file.p4:12)"`, or returns an empty string if it has none.
fn place(node: &serde_json::Value) -> String {
    let info = &node["source_info"];
    match (info["filename"].as_str(), info["line"].as_u64()) {
        (Some(file), Some(line)) => format!(" ({}:{line})", file.rsplit('/').next().unwrap_or_default()),
        _ => String::new(),
    }
}

/// Branches within an action or the deparser, a line each.
fn branches(code: &serde_json::Value) -> String {
    let calls = code["primitives"].as_array().into_iter().flatten();
    calls.filter(|call| call["op"] == "_jump_if_zero").map(branch).collect()
}

/// Line of a branch; empty if its condition is not known.
fn branch(node: &serde_json::Value) -> String {
    match node["source_info"]["source_fragment"].as_str() {
        Some(condition) => format!("    if ({condition}){}\n", place(node)),
        None => String::new(),
    }
}

/// Summarizes the compiled program.
fn explain(compiled: &Compiled) -> String {
    let json = &compiled.json;
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    let mut text = String::new();
    for parser in list(&json["parsers"]) {
        let states = list(&parser["parse_states"]);
        text += &format!("parser: {} states\n", states.len());
        text.extend(states.iter().map(branch));
    }
    for pipeline in list(&json["pipelines"]) {
        let name = pipeline["name"].as_str().unwrap_or_default();
        let (tables, conditionals) = (list(&pipeline["tables"]), list(&pipeline["conditionals"]));
        text += &format!("{name}: {} nodes, {} conditionals\n", tables.len(), conditionals.len());
        for table in tables {
            let keys = list(&table["key"]);
            let keys = keys.iter().map(|key| {
                let name = key["name"].as_str().unwrap_or_default();
                format!("{name}: {}", key["match_type"].as_str().unwrap_or_default())
            });
            let keys = keys.collect::<Vec<_>>().join(", ");
            let actions = list(&table["actions"]);
            let actions = actions.iter().filter_map(|action| action.as_str()).collect::<Vec<_>>().join(", ");
            let name = table["name"].as_str().unwrap_or_default();
            text += &format!("  {name}{} [{keys}] -> {actions}\n", place(&table));
            for id in list(&table["action_ids"]) {
                text.extend(list(&json["actions"]).iter().filter(|action| action["id"] == id).map(branches));
            }
        }
        for conditional in conditionals {
            let condition = conditional["source_info"]["source_fragment"].as_str();
            if let Some(condition) = condition {
                text += &format!("  if ({condition}){}\n", place(&conditional));
            }
        }
    }
    for deparser in list(&json["deparsers"]) {
        let branches = branches(&deparser);
        if !branches.is_empty() {
            text += &format!("deparser\n{branches}");
        }
    }
    let scalars = list(&json["header_types"][0]["fields"]);
    let bits = scalars.iter().filter_map(|field| field[1].as_u64()).sum::<u64>();
    text +=
        &format!("variables: {} with {bits} bits, {} headers\n", scalars.len(), list(&json["headers"]).len());
    text
}
