//! Source files, source ranges, and diagnostics formatted for a terminal.

use std::fmt;

/// Range of bytes in one source file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    /// Index of the file in [`Sources`].
    pub file: u32,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// True if `other` lies inside the range.
    pub fn contains(self, other: Span) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }

    /// Smallest range that covers both; `self` if the files differ.
    pub fn to(self, other: Span) -> Span {
        if self.file != other.file {
            return self;
        }
        Span { file: self.file, start: self.start.min(other.start), end: self.end.max(other.end) }
    }
}

/// Source file of a compilation.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path as named by the user or by an `#include`.
    pub name: String,
    /// The contents.
    pub text: String,
    /// True for files built into Belljar (`core.p4`, `v1model.p4`).
    pub built_in: bool,
}

/// Source files of a compilation.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// Files in the order in which they were opened.
    pub files: Vec<SourceFile>,
}

impl Sources {
    /// Line and column of the start of a range, from 1; columns count characters.
    pub fn position(&self, span: Span) -> (usize, usize) {
        let Some(file) = self.files.get(span.file as usize) else { return (1, 1) };
        let before = &file.text[..floor(&file.text, span.start as usize)];
        let line = before.bytes().filter(|&b| b == b'\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
        (line, column)
    }

    /// Source text of a range.
    pub fn text(&self, span: Span) -> &str {
        let Some(file) = self.files.get(span.file as usize) else { return "" };
        let (start, end) = (floor(&file.text, span.start as usize), floor(&file.text, span.end as usize));
        &file.text[start..end.max(start)]
    }

    /// True if the range lies in a built-in file.
    pub fn is_built_in(&self, span: Span) -> bool {
        self.files.get(span.file as usize).is_some_and(|file| file.built_in)
    }
}

fn floor(text: &str, mut at: usize) -> usize {
    at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Error: the program is rejected.
    Error,
    /// Warning: legal, but likely a mistake. The value is the warning's name, by which it can be disabled.
    Warning(&'static str),
}

/// Diagnostic about a program.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Source range of the problem.
    pub span: Span,
    /// Description of the problem.
    pub message: String,
    /// Suggested remedy.
    pub help: Option<String>,
    /// Secondary source ranges with their explanations.
    pub notes: Vec<(Span, String)>,
    /// Enclosing constructs, shown only if they begin on another line.
    context: Option<Box<Context>>,
}

#[derive(Clone, Debug, Default)]
struct Context(Vec<(Span, String)>);

impl Diagnostic {
    /// Creates an error.
    pub fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            span,
            message: message.into(),
            help: None,
            notes: Vec::new(),
            context: None,
        }
    }
    /// Creates a warning.
    pub fn warning(name: &'static str, span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning(name), ..Diagnostic::error(span, message) }
    }
    /// Adds a suggested remedy.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
    /// Adds an enclosing construct, which is shown if it begins on another line.
    pub fn within(&mut self, span: Span, text: impl Into<String>) {
        self.context.get_or_insert_default().0.push((span, text.into()));
    }
    /// Adds a secondary source range.
    pub fn note(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.notes.push((span, text.into()));
        self
    }
}

/// Diagnostics with the sources that they refer to. `Display` formats them for a terminal.
#[derive(Clone, Debug, Default)]
pub struct Diagnostics {
    /// Source files.
    pub sources: Sources,
    /// Diagnostics in the order in which they were found.
    pub list: Vec<Diagnostic>,
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.list.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            self.show(f, diagnostic)?;
        }
        Ok(())
    }
}

impl Diagnostics {
    /// First error on one line, for messages about an input of which the program is one file.
    pub fn first_error(&self) -> String {
        let errors = || self.list.iter().filter(|diagnostic| diagnostic.severity == Severity::Error);
        let Some(first) = errors().next() else { return "the program does not compile".to_owned() };
        let file = self.sources.files.get(first.span.file as usize);
        let file = file.map_or_else(String::new, |file| format!("{}: ", file.name));
        let (line, column) = self.sources.position(first.span);
        let message = printable(&first.message);
        let more = match errors().count() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        let remedy = "belljar p4 build shows the place and the remedy";
        format!("{file}line {line}, column {column}: {message}{more}; {remedy}")
    }

    fn show(&self, f: &mut fmt::Formatter<'_>, diagnostic: &Diagnostic) -> fmt::Result {
        let message = printable(&diagnostic.message);
        match diagnostic.severity {
            Severity::Error => write!(f, "error: {message}")?,
            Severity::Warning(_) => write!(f, "warning: {message}")?,
        }
        self.excerpt(f, diagnostic.span, "")?;
        for (span, text) in self.places(diagnostic) {
            self.excerpt(f, *span, text)?;
        }
        if let Some(help) = &diagnostic.help {
            write!(f, "\n  = help: {}", printable(help))?;
        }
        if let Severity::Warning(name) = diagnostic.severity {
            write!(f, "\n  = note: -W no-{name} switches this warning off")?;
        }
        Ok(())
    }

    /// Secondary source ranges shown with a diagnostic.
    pub fn places<'a>(&'a self, diagnostic: &'a Diagnostic) -> impl Iterator<Item = &'a (Span, String)> {
        let line = self.sources.position(diagnostic.span).0;
        let elsewhere = move |place: &&(Span, String)| {
            place.0.file != diagnostic.span.file || self.sources.position(place.0).0 != line
        };
        let context = diagnostic.context.iter().flat_map(|context| &context.0);
        diagnostic.notes.iter().chain(context.filter(elsewhere))
    }

    fn excerpt(&self, f: &mut fmt::Formatter<'_>, span: Span, label: &str) -> fmt::Result {
        let Some(file) = self.sources.files.get(span.file as usize) else { return Ok(()) };
        let (line, column) = self.sources.position(span);
        let text = file.text.lines().nth(line - 1).unwrap_or("");
        let width = line.to_string().len();
        let pad = " ".repeat(width);
        let (shown, offset) = window(text, column);
        let length = self.sources.text(span).lines().next().unwrap_or("").chars().count();
        let room = shown.chars().count().saturating_sub(offset).max(1);
        let mark = "^".repeat(length.clamp(1, room));
        let label = if label.is_empty() { String::new() } else { format!(" {}", printable(label)) };
        write!(f, "\n{pad}--> {}:{line}:{column}", file.name)?;
        write!(f, "\n{pad} |\n{line} | {shown}\n{pad} | {}{mark}{label}", " ".repeat(offset))
    }
}

/// Replaces control characters by spaces, so that file contents cannot control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Excerpt of a long line around `column`, and the offset of the column in the excerpt.
fn window(line: &str, column: usize) -> (String, usize) {
    const WIDTH: usize = 100;
    let start = if column > WIDTH { column - WIDTH / 2 } else { 0 };
    let shown = line.chars().skip(start).take(WIDTH + 20).collect::<String>();
    (printable(&shown), column.saturating_sub(1).saturating_sub(start))
}
