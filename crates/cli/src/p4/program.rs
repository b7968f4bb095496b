//! Programs named on the command line.

use belljar_p4::Program;
use belljar_p4c::ProgramFile;
use std::path::Path;

/// Reads a program from a file of P4_16 source or of BMv2's JSON. Returns a message if it cannot be read or
/// loaded.
pub fn read(path: &Path) -> Result<Program, String> {
    let file = ProgramFile::read(path).map_err(|error| error.to_string())?;
    Program::from_text(&file.json).map_err(|error| error.in_file(path).to_string())
}
