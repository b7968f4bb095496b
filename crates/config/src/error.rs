use std::fmt;

/// Reason why an experiment cannot be run as written. Its [`Display`](fmt::Display) is for a terminal: the
/// message, the position, the line with the span underlined, and help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The file, as named by the user.
    pub file: String,
    /// Line and column from 1, in characters. `None` for an error of the whole file.
    pub position: Option<(u32, u32)>,
    /// Description of the problem.
    pub message: String,
    /// Remedy: what to write instead.
    pub help: Option<String>,
    /// The offending line, and the number of underlined characters.
    shown: Option<Box<(String, usize)>>,
    /// Further errors of the same file, in its order.
    pub more: Vec<ConfigError>,
}

impl std::error::Error for ConfigError {}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", printable(&self.message))?;
        let margin = self.position.map_or(0, |(line, _)| line.to_string().len());
        let pad = " ".repeat(margin);
        match self.position {
            Some((line, column)) => write!(f, "\n{pad}--> {}:{line}:{column}", self.file)?,
            None => write!(f, "\n --> {}", self.file)?,
        }
        if let (Some((number, column)), Some(line)) = (self.position, &self.shown) {
            let (shown, offset) = window(&line.0, column as usize);
            let mark = "^".repeat(line.1.clamp(1, shown.chars().count().saturating_sub(offset).max(1)));
            write!(f, "\n{pad} |\n{number} | {shown}\n{pad} | {}{mark}", " ".repeat(offset))?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n{pad} = help: {}", printable(help))?;
        }
        self.more.iter().try_for_each(|error| write!(f, "\n{error}"))
    }
}

/// Replaces control characters by spaces: the content of a file must not control the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The part of a long line around `column`, and the offset of the column in it.
fn window(line: &str, column: usize) -> (String, usize) {
    const WIDTH: usize = 100;
    let start = if column > WIDTH { column - WIDTH / 2 } else { 0 };
    let shown = line.chars().skip(start).take(WIDTH + 20).collect::<String>();
    (printable(&shown), column.saturating_sub(1).saturating_sub(start))
}

/// A text and the name under which the user knows it.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// A span in a source: line and column from 1, length in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) len: usize,
}

/// Another file with a problem, and the position in the experiment file of the part that names it, if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Elsewhere {
    source: Source,
    named_at: Option<Span>,
}

/// A [`ConfigError`] without its file, which is the experiment file unless `elsewhere` is set.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) at: Option<Span>,
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) elsewhere: Option<Box<Elsewhere>>,
    /// True if the problem may be the consequence of a part that is missing elsewhere.
    pub(crate) is_relational: bool,
    /// Further problems of the same file.
    pub(crate) more: Vec<Problem>,
}

impl Problem {
    pub(crate) fn at(span: Span, message: impl Into<String>) -> Problem {
        Problem { at: Some(span), ..Problem::whole_file(message) }
    }
    pub(crate) fn whole_file(message: impl Into<String>) -> Problem {
        Problem {
            at: None,
            message: message.into(),
            help: None,
            elsewhere: None,
            is_relational: false,
            more: Vec::new(),
        }
    }
    pub(crate) fn help(self, help: impl Into<String>) -> Problem {
        Problem { help: Some(help.into()), ..self }
    }
    pub(crate) fn maybe_help(self, help: Option<String>) -> Problem {
        Problem { help, ..self }
    }
    pub(crate) fn in_source(self, source: Source) -> Problem {
        Problem { elsewhere: Some(Box::new(Elsewhere { source, named_at: None })), ..self }
    }
    /// Sets the file of the problem, which a part of the experiment file names.
    pub(crate) fn in_file(self, source: Source, named_at: Span) -> Problem {
        Problem { elsewhere: Some(Box::new(Elsewhere { source, named_at: Some(named_at) })), ..self }
    }
    /// Position in the experiment file, if there is one.
    pub(crate) fn position(&self) -> Option<Span> {
        match &self.elsewhere {
            Some(elsewhere) => elsewhere.named_at,
            None => self.at,
        }
    }
    /// Marks a problem that may be the consequence of a part that is missing elsewhere: it is not reported where such a part has a
    /// problem of its own.
    pub(crate) fn relational(self) -> Problem {
        Problem { is_relational: true, ..self }
    }

    /// The problem and the further ones, each on its own.
    pub(crate) fn separate(mut self) -> Vec<Problem> {
        let more = std::mem::take(&mut self.more);
        std::iter::once(self).chain(more).collect()
    }

    pub(crate) fn into_error(self, source: &Source) -> ConfigError {
        let mut more = self.more;
        let beyond = more.len().saturating_sub(Problems::MOST - 1);
        if beyond > 0 {
            more.truncate(Problems::MOST - 1);
            let words = if beyond == 1 {
                "is 1 further error".to_owned()
            } else {
                format!("are {beyond} further errors")
            };
            more.push(Problem::whole_file(format!("there {words}")));
        }
        let more = more.into_iter().map(|problem| problem.into_error(source)).collect();
        let source = self.elsewhere.as_deref().map_or(source, |elsewhere| &elsewhere.source);
        let shown = self.at.and_then(|at| {
            let line = source.text.lines().nth(at.line.checked_sub(1)?)?;
            Some(Box::new((line.trim_end().to_owned(), at.len)))
        });
        ConfigError {
            file: source.name.clone(),
            position: self.at.map(|at| (at.line as u32, at.column as u32)),
            message: self.message,
            help: self.help,
            shown,
            more,
        }
    }
}

/// Collector of the problems of a file: reading goes on behind a part that is wrong, so that one run reports all.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    found: Vec<Problem>,
}

impl Problems {
    /// Number of problems that are reported at most. Further ones are counted.
    const MOST: usize = 20;

    /// The value, or `None` where the part has a problem, which is kept.
    pub(crate) fn take<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| _ = self.add(problem)).ok()
    }

    /// Keeps a problem and its further ones. Returns false if all of them were found before, in a part that is read twice.
    pub(crate) fn add(&mut self, problem: Problem) -> bool {
        let before = self.found.len();
        for own in problem.separate() {
            let is_own = |known: &Problem| {
                known.at == own.at && known.position() == own.position() && known.message == own.message
            };
            let is_known = self.found.iter().any(is_own);
            if !is_known {
                self.found.push(own);
            }
        }
        self.found.len() > before
    }

    /// True if there are more problems than are reported.
    pub(crate) fn is_full(&self) -> bool {
        self.found.len() > Problems::MOST
    }

    /// All problems in the order of the file, those without a position last; `None` if there are none.
    pub(crate) fn in_order(mut self) -> Option<Problem> {
        let position =
            |problem: &Problem| problem.position().map_or((usize::MAX, 0), |at| (at.line, at.column));
        self.found.sort_by_key(position);
        self.check().err()
    }

    /// The values of all parts, or all their problems.
    pub(crate) fn all<T>(parts: impl IntoIterator<Item = Result<T, Problem>>) -> Result<Vec<T>, Problem> {
        let mut problems = Problems::default();
        let values = parts.into_iter().filter_map(|part| problems.take(part)).collect();
        problems.check()?;
        Ok(values)
    }

    /// Fails with all problems, if there are any.
    pub(crate) fn check(&mut self) -> Result<(), Problem> {
        if self.found.is_empty() {
            return Ok(());
        }
        let mut all = std::mem::take(&mut self.found);
        let mut first = all.remove(0);
        first.more = all;
        Err(first)
    }
}

/// An I/O error without the number that Rust appends.
pub(crate) fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let mut rest = text.split(" (os error").next().unwrap_or_default().chars();
    rest.next().into_iter().flat_map(char::to_lowercase).chain(rest).collect()
}
