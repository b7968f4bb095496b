//! P4_16 compiler for the v1model switch. Input is source text; output is BMv2 JSON, P4Info and warnings.
//!
//! * [`compile`]: the compiler. Its stages are `preprocess` and `lex`, `parse`, `check`, `flow` (warnings),
//!   `lower`, `emit` (JSON) and `p4info`. The program passes through the representations `ast`, `typed` and
//!   `ir`.
//! * [`source`]: source files and diagnostics.
//! * [`ProgramFile`]: a program loaded from a file that contains P4_16 source or BMv2 JSON.
//!
//! The crate does not depend on the switch that executes the JSON.
#![forbid(unsafe_code)]

use source::{Diagnostic, Diagnostics, Severity, SourceFile, Sources};
use std::path::PathBuf;

mod ast;
mod check;
mod emit;
mod file;
mod flow;
mod ir;
mod lex;
mod lower;
mod p4_14;
mod p4info;
mod parse;
mod preprocess;
pub mod source;
mod typed;
mod types;
mod walk;

pub use file::{FileError, ProgramFile};

/// Maximum size of a source file in bytes.
const MAX_SOURCE: usize = 16 << 20;

/// Names of the warnings, identical to p4c's.
pub const WARNINGS: &[&str] = &[
    "invalid",
    "invalid-header",
    "overflow",
    "parser-transition",
    "shadow",
    "uninitialized-out-param",
    "uninitialized-use",
    "unreachable",
    "unused",
];

/// Canonical name of a warning; underscores are accepted for hyphens. `None` if the warning does not exist.
pub fn warning_named(name: &str) -> Option<&'static str> {
    let name = name.replace('_', "-");
    WARNINGS.iter().find(|known| **known == name).copied()
}

/// Compiler options.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folders searched for `#include`, in order.
    pub include_dirs: Vec<PathBuf>,
    /// Macros defined before the program: name and value.
    pub defines: Vec<(String, String)>,
    /// Names of disabled warnings.
    pub silenced: Vec<String>,
}

/// Output of the compiler.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// BMv2 JSON.
    pub json: serde_json::Value,
    /// P4Runtime P4Info as protobuf text.
    pub p4info: String,
    /// Warnings.
    pub warnings: Diagnostics,
}

/// Stack size of the compiler thread in bytes: nesting is limited, but frames of debug builds are large.
const STACK: usize = 256 << 20;

/// Compiles a program from its text. `name` is the path shown in messages and the base of relative includes.
pub fn compile(name: &str, text: &str, options: &Options) -> Result<Compiled, Diagnostics> {
    let run = || -> Result<Compiled, Diagnostics> { compile_here(name, text, options) };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("p4".into()).stack_size(STACK).spawn_scoped(scope, run);
        match thread.map(|thread| thread.join()) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(_) => compile_here(name, text, options),
        }
    })
}

fn compile_here(name: &str, text: &str, options: &Options) -> Result<Compiled, Diagnostics> {
    let mut sources = Sources::default();
    sources.files.push(SourceFile { name: name.to_string(), text: text.to_string(), built_in: false });
    let mut list = Vec::new();
    let result = stages(&mut sources, options, name, &mut list);
    let silenced = |diagnostic: &Diagnostic| match diagnostic.severity {
        Severity::Warning(name) => {
            options.silenced.iter().any(|other| other == name) || sources.is_built_in(diagnostic.span)
        }
        Severity::Error => false,
    };
    list.retain(|diagnostic| !silenced(diagnostic));
    match result {
        Ok((json, p4info)) => Ok(Compiled { json, p4info, warnings: Diagnostics { sources, list } }),
        Err(error) => {
            list.extend(error);
            Err(Diagnostics { sources, list })
        }
    }
}

/// Runs the stages in order. Warnings, and errors of the checker, are appended to `list`.
fn stages(
    sources: &mut Sources,
    options: &Options,
    name: &str,
    list: &mut Vec<Diagnostic>,
) -> Result<(serde_json::Value, String), Option<Diagnostic>> {
    let tokens = preprocess::preprocess(sources, &options.include_dirs, &options.defines, list);
    let ast = tokens.and_then(parse::parse).map_err(|error| p4_14::refusal(sources).unwrap_or(error))?;
    let (program, diagnostics) = check::check(&ast);
    list.extend(diagnostics);
    list.extend(flow::warnings(&program));
    let quiet = check::quiet(&ast);
    let silenced = |diagnostic: &Diagnostic| match diagnostic.severity {
        Severity::Warning(name) => {
            quiet.iter().any(|(own, span)| *own == name && span.contains(diagnostic.span))
        }
        Severity::Error => false,
    };
    list.retain(|diagnostic| !silenced(diagnostic));
    if list.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Err(None);
    }
    let (mut lowered, info, warnings) = lower::lower(&program, sources)?;
    list.extend(warnings.into_iter().filter(|diagnostic| !silenced(diagnostic)));
    let json = emit::emit(&mut lowered, name, sources)?;
    let info = p4info::p4info(&program, &lowered, &info)?;
    Ok((json, info))
}
