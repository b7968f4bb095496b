//! First line of an interpreted program, `execve(2)` "Interpreter scripts".

/// Maximum number of bytes read of the first line.
pub const LINE_MAX: usize = 256;
/// Maximum number of nested script interpreters.
pub const MAX_DEPTH: u32 = 4;

/// Interpreter and argument of a `#!` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shebang {
    /// Path of the interpreter.
    pub interpreter: Vec<u8>,
    /// Rest of the line, as one argument.
    pub argument: Option<Vec<u8>>,
}

impl Shebang {
    /// Parses the line from the first bytes of a file; `None` if the file is not a script or names no
    /// interpreter.
    pub fn parse(start: &[u8]) -> Option<Shebang> {
        let rest = start.strip_prefix(b"#!")?;
        let line = rest.split(|b| *b == b'\n').next()?;
        let line = line.trim_ascii();
        let end = line.iter().position(|b| *b == b' ' || *b == b'\t').unwrap_or(line.len());
        let (interpreter, argument) = line.split_at(end);
        let argument = argument.trim_ascii();
        (!interpreter.is_empty()).then(|| Shebang {
            interpreter: interpreter.to_vec(),
            argument: (!argument.is_empty()).then(|| argument.to_vec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_the_line_is_one_argument() {
        let parse = |text: &str| Shebang::parse(text.as_bytes());
        let shebang = parse("#! /usr/bin/env  python3 -u \nprint()").unwrap();
        assert_eq!(shebang.interpreter, b"/usr/bin/env");
        assert_eq!(shebang.argument.as_deref(), Some(&b"python3 -u"[..]));
        assert_eq!(parse("#!/bin/sh").unwrap().argument, None);
        assert_eq!(parse("#!\n"), None);
        assert_eq!(parse("\x7fELF"), None);
    }
}
