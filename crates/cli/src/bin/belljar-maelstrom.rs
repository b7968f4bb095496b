//! `belljar-maelstrom`: the program that carries Maelstrom's messages on each host.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    belljar_maelstrom::main()
}
