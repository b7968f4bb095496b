//! Programs as models of histories: a step function in any language, asked by JSON lines.
//!
//! The program reads one question a line from standard input, and writes one answer a line to standard output:
//!
//! | question | answer |
//! |---|---|
//! | `{"initial": true}` | `{"state": STATE}`, and `"reads": [F, ...]`, `"process": true` |
//! | `{"state": STATE, "f": F, "value": VALUE, "result": RESULT}` | `{"ok": true, "state": STATE}`, `{"ok": false}` or `{"error": TEXT}` |
//!
//! `"result"` is absent where it is not known. `"process"` is in a question if the first answer asks for it. At the end of its input the
//! program ends. A file that ends with `.py` has `initial` and `step` alone: Belljar's own loop
//! (`serve.py`) asks them.
//!
//! The program judges the results of a run, and runs on the machine itself: it is no guest, and sees the real clock. The times here bound
//! its answers, and are in no result.
#![forbid(unsafe_code)]

mod answer;
mod exchange;
mod program;

pub use program::ModelProgram;

/// True if a model is named as the file of a program: by a path with a slash, or a file of Python.
pub fn is_program(model: &str) -> bool {
    model.contains('/') || is_python(model)
}

/// True for files that Belljar's own loop asks.
pub fn is_python(path: &str) -> bool {
    path.ends_with(".py")
}
