//! Streams of programs that lead out of the simulation.

use crate::ids::FileKey;

/// Ends of a program's streams that are outside of the simulation.
#[derive(Clone, Copy, Debug)]
pub enum OutsideEnds {
    /// Master of its terminal.
    Terminal(FileKey),
    /// Writing end of its standard input until it is closed, and reading ends of its output and error output.
    Pipes(Option<FileKey>, [FileKey; 2]),
}
