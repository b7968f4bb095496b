//! Comparison with GNU cpp, run as p4c does: drawn inputs, and the sources of a folder (`BELLJAR_P4_SOURCES`).
//! `BELLJAR_FUZZ_ROUNDS` draws that many other inputs.

#![allow(clippy::disallowed_methods)] // cpp is another program, and the sources are files.

use super::{CORE, V1MODEL, preprocess};
use crate::lex::{Kind, Lexer};
use crate::source::{SourceFile, Sources};
use belljar_base::{Seed, Stream};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Number of inputs in an ordinary run.
const ROUNDS: u64 = 300;

/// Tokens of our preprocessor; `None` if it refuses the text.
fn own(name: &str, text: &str, dirs: &[PathBuf]) -> Option<Vec<Kind>> {
    let mut sources = Sources::default();
    sources.files.push(SourceFile { name: name.into(), text: text.into(), built_in: false });
    let mut tokens = preprocess(&mut sources, dirs, &[], &mut Vec::new()).ok()?;
    tokens.pop();
    Some(tokens.into_iter().map(|token| token.kind).collect())
}

/// Tokens of cpp; `None` if it refuses the text, or writes what is not P4.
fn theirs(folder: &Path, text: &[u8], dirs: &[PathBuf]) -> Option<Vec<Kind>> {
    let mut cpp = Command::new("cpp");
    cpp.args(["-undef", "-nostdinc", "-P", "-x", "assembler-with-cpp", "-D__TARGET_BMV2__"]);
    cpp.arg("-iquote").arg(folder);
    for dir in dirs {
        // p4c keeps comments, which stand in strings of several lines. In arguments, `#` would keep them too.
        cpp.arg("-C").arg("-I").arg(dir);
    }
    cpp.arg("-").current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = cpp.spawn().expect("cpp starts");
    let mut input = child.stdin.take().expect("a pipe");
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(text));
        child.wait_with_output().expect("cpp ends")
    });
    if !output.status.success() {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lexer = Lexer::new(&text, 0);
    let mut kinds = Vec::new();
    loop {
        let token = lexer.next().ok()?;
        match token.kind {
            Kind::End => return Some(kinds),
            // Lines of the preprocessor that p4c skips.
            _ if token.starts_line && token.is("#") => drop(lexer.skip_line()),
            kind => kinds.push(kind),
        }
    }
}

fn has_cpp() -> bool {
    let found = Command::new("cpp").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        eprintln!("skipped: no cpp");
    }
    found
}

/// Differences between the two, as text.
fn difference(own: Option<Vec<Kind>>, theirs: Option<Vec<Kind>>) -> Option<String> {
    match (own, theirs) {
        (own, theirs) if own == theirs => None,
        (Some(own), Some(theirs)) => {
            let at = (0..).find(|at| own.get(*at) != theirs.get(*at)).unwrap_or(0);
            let from = at.saturating_sub(5);
            let part = |list: &[Kind]| format!("{:?}", &list[from.min(list.len())..list.len().min(at + 5)]);
            Some(format!("ours   {}\ncpp's  {}", part(&own), part(&theirs)))
        }
        (own, _) => Some(format!("only {} accepts this", if own.is_some() { "ours" } else { "cpp" })),
    }
}

/// Names of macros, the last three function-like.
const NAMES: [&str; 7] = ["A", "B", "C", "D", "F", "G", "H"];
const WORDS: [&str; 18] = [
    "x",
    "y",
    "0",
    "1",
    "00",
    "0x0F",
    "8w5",
    "4s1",
    " 1..A",
    " 0x1e+B",
    "+",
    "-",
    ";",
    "==",
    "\"s\\\"t\"",
    "__COUNTER__",
    "'\\n'",
    "'\"'",
];

/// Lines without effect.
const NOTES: [&str; 9] = [
    "# a note",
    "#",
    "#pragma x",
    "#pragma push_macro(\"A\")",
    "#pragma pop_macro(\"A\")",
    "x _Pragma(\"pop_macro(\\\"F\\\")\") A F(1)",
    "_Pragma(\"push_macro(\\\"F\\\")\") y",
    "// don't \\\n go on",
    "#if 0\ndon't /* stop\n// see /* there\nx \"/*\" // y\n#endif",
];

/// Draws inputs.
struct Draw {
    random: Stream,
}

impl Draw {
    fn one<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.random.below(list.len() as u64) as usize]
    }

    fn space(&mut self) -> &'static str {
        self.one(&["", " ", " ", "  ", "/* c */"])
    }

    /// A few tokens, which may be calls; `parameters` are those of the macro around them.
    fn tokens(&mut self, parameters: &[&str], depth: u32) -> String {
        let mut text = String::new();
        for _ in 0..self.random.below(5) {
            let last = match self.random.below(12) {
                0..=3 if !parameters.is_empty() => self.one(parameters),
                4 | 5 => self.one(&NAMES),
                6..=8 if depth < 3 => {
                    text += self.one(&NAMES[4..]);
                    text += self.one(&["(", "(", " ("]);
                    for at in 0..self.random.below(4) {
                        text += if at > 0 { "," } else { "" };
                        text += &self.tokens(parameters, depth + 1);
                    }
                    ")"
                }
                9 if depth == 0 && !parameters.is_empty() => {
                    text += self.one(parameters);
                    text += " ## ";
                    self.one(&["x", "7", "A", parameters[0], parameters[parameters.len() - 1]])
                }
                10 if depth == 0 && !parameters.is_empty() => {
                    text += " #";
                    self.one(parameters)
                }
                _ => self.one(&WORDS),
            };
            text += last;
            text += self.space();
        }
        text
    }

    fn definition(&mut self) -> String {
        let name = self.one(&NAMES);
        if NAMES[..4].contains(&name) {
            return format!("#define {name} {}", self.tokens(&[], 0));
        }
        let (list, used): (&str, &[&str]) = [
            ("", &[] as &[&str]),
            ("p", &["p"]),
            ("p, q", &["p", "q"]),
            ("p, q", &["p", "q"]),
            ("...", &["__VA_ARGS__"]),
            ("p, ...", &["p", "__VA_ARGS__"]),
            ("p, rest...", &["p", "rest"]),
        ][self.random.below(7) as usize];
        let mut body = self.tokens(used, 0);
        if list.ends_with("...") && self.random.chance(0.3) {
            body += &format!(", ## {}", used[used.len() - 1]);
        }
        if list.ends_with("...") && self.random.chance(0.2) {
            body += &format!(" __VA_OPT__({}) y", self.tokens(used, 1));
        }
        format!("#define {name}({list}) {body}")
    }

    fn condition(&mut self, depth: u32) -> String {
        let operand = self.random.below(if depth > 3 { 5 } else { 9 });
        match operand {
            0 => self
                .one(&[
                    "0",
                    "1",
                    "2u",
                    "0x10",
                    "010",
                    "-3",
                    "63",
                    "70",
                    "18446744073709551615",
                    "'A'",
                    "'\\n'",
                    "'\\x41'",
                    "'\\101'",
                    "'\\xff'",
                    "'\\''",
                    "'\"'",
                    "' '",
                    "'ab'",
                    "defined __has_include_next",
                    "__has_include_next(\"none.p4\")",
                    "__has_include(\"none.p4\")",
                ])
                .into(),
            1 => format!("defined {}", self.one(&NAMES)),
            2 => format!("defined({})", self.one(&NAMES)),
            3 => self.one(&NAMES[..4]).into(),
            4 => "z".into(),
            5 => format!("{}({})", self.one(&["", "!", "~", "- "]), self.condition(depth + 1)),
            6 => format!(
                "({} ? {} : {})",
                self.condition(depth + 1),
                self.condition(depth + 1),
                self.condition(depth + 1)
            ),
            _ => {
                let operators = [
                    "+", "-", "*", "/", "%", "<<", ">>", "<", ">", "<=", "==", "!=", "&&", "||", "&", "|",
                    "^",
                ];
                let operator = self.one(&operators);
                format!("({} {operator} {})", self.condition(depth + 1), self.condition(depth + 1))
            }
        }
    }

    fn text(&mut self) -> String {
        let (mut text, mut open) = (String::new(), 0);
        for _ in 0..6 + self.random.below(12) {
            text += &match self.random.below(14) {
                0..=4 => self.definition(),
                5 => format!("#undef {}", self.one(&NAMES)),
                6 if open < 3 => {
                    open += 1;
                    match self.random.below(3) {
                        0 => format!("#ifdef {}", self.one(&NAMES)),
                        1 => format!("#ifndef {}", self.one(&NAMES)),
                        _ => format!("#if {}", self.condition(0)),
                    }
                }
                7 if open > 0 => {
                    open -= 1;
                    "#endif".into()
                }
                8 if open > 0 => match self.random.below(3) {
                    0 => format!("#elifdef {}", self.one(&NAMES)),
                    1 => format!("#elifndef {}", self.one(&NAMES)),
                    _ => format!("#elif {}", self.condition(0)),
                },
                9 => self.one(&NOTES).into(),
                _ => self.tokens(&[], 0),
            };
            text += "\n";
        }
        text + &"#endif\n".repeat(open)
    }
}

/// Text of our tokens with spaces between them, or the error.
fn text_of(text: &str) -> String {
    let mut sources = Sources::default();
    sources.files.push(SourceFile { name: "input.p4".into(), text: text.into(), built_in: false });
    match preprocess(&mut sources, &[], &[], &mut Vec::new()) {
        Ok(tokens) => {
            tokens.iter().map(|token| token.spelling() + " ").collect::<String>().trim_end().to_string()
        }
        Err(error) => error.message,
    }
}

#[test]
fn directives_of_later_standards_and_pragmas_act() {
    for (text, wanted) in [
        ("#ifdef X\n1\n#elifdef Y\n2\n#else\n3\n#endif", "3"),
        ("#define Y\n#ifdef X\n1\n#elifdef Y\n2\n#else\n3\n#endif", "2"),
        ("#ifdef X\n1\n#elifndef Y\n2\n#else\n3\n#endif", "2"),
        ("#if 1\n1\n#elifdef 3\n2\n#endif", "1"),
        ("#if 0\n#elifdef 3\n2\n#endif", "#elifdef needs the name of a macro"),
        ("#elifndef A\n#endif", "#elifndef without #if"),
        ("a _Pragma(\"x\") b", "a b"),
        ("#define P(x) _Pragma(#x) q\nP(foo) z", "q z"),
        ("_Pragma x", "_Pragma takes a string in parentheses"),
        (
            "#define A 1\n#pragma push_macro(\"A\")\n#undef A\n#define A 2\nA\n#pragma pop_macro(\"A\")\nA",
            "2 1",
        ),
        ("_Pragma(\"push_macro(\\\"A\\\")\")\n#define A 2\nA _Pragma(\"pop_macro(\\\"A\\\")\") A", "2 A"),
        ("#pragma pop_macro(\"B\")\nB", "B"),
        ("#pragma push_macro(A)", "#pragma push_macro needs the name of a macro"),
        ("#pragma GCC poison old\nold", "'old' was poisoned by #pragma GCC poison"),
        ("#pragma GCC error \"no\"", "#pragma GCC error: no"),
    ] {
        assert_eq!(text_of(text), wanted, "{text}");
    }
}

#[test]
fn conditions_have_character_constants() {
    let holds = |condition: &str| text_of(&format!("#if {condition}\nyes\n#else\nno\n#endif"));
    for condition in [
        r"'\n' == 10",
        r"'\x41' == 65",
        r"'\101' == 'A'",
        r"'\0' == 0 && '\a' == 7 && '\e' == 27",
        r"'\'' == 39",
        "'\"' == 34",
        "' ' == 32",
        r"'\\' == 92",
        "'ab' == 24930",
        r"'\xff' < 0",
        "'/*' && '//'",
        "! defined __has_include_none",
        "defined __has_include_next && !__has_include_next(\"none.p4\")",
        "__has_include_next(<core.p4>)",
    ] {
        assert_eq!(holds(condition), "yes", "{condition}");
    }
    assert_eq!(holds("''"), "'' is not a character constant");
    assert_eq!(holds("1/0"), "division by zero in a preprocessor condition");
    let error = holds("0x1e+A");
    assert_eq!(error, "'0x1e+A' is one number for the C preprocessor, and none that it knows");
}

#[test]
fn drawn_inputs_give_what_cpp_gives() {
    if !has_cpp() {
        return;
    }
    let given = std::env::var("BELLJAR_FUZZ_ROUNDS").ok().map(|rounds| rounds.parse().expect("a number"));
    let (seed, rounds) = given.map_or((1, ROUNDS), |rounds| (rounds, rounds));
    let mut draw = Draw { random: Seed(seed).stream(&["p4", "cpp"]) };
    let (mut accepted, mut wrong) = (0, 0);
    for _ in 0..rounds {
        let text = draw.text();
        let theirs = theirs(Path::new("/"), text.as_bytes(), &[]);
        accepted += u64::from(theirs.is_some());
        if let Some(difference) = difference(own("input.p4", &text, &[]), theirs) {
            wrong += 1;
            eprintln!("{difference}\n{text}----");
        }
    }
    eprintln!("{accepted} of {rounds} inputs accepted, {wrong} wrong");
    assert!(wrong == 0 && accepted * 4 > rounds, "{wrong} of {rounds} differ, {accepted} accepted");
}

/// Files with this extension below a folder.
fn sources(folder: &Path, list: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    let mut paths = entries.filter_map(|entry| Some(entry.ok()?.path())).collect::<Vec<_>>();
    paths.sort();
    for path in paths {
        if path.is_dir() && !path.is_symlink() {
            sources(&path, list);
        } else if path.extension().is_some_and(|extension| extension == "p4") {
            list.push(path);
        }
    }
}

#[test]
fn sources_give_what_cpp_gives() {
    let Some(folder) = std::env::var_os("BELLJAR_P4_SOURCES").filter(|_| has_cpp()) else {
        eprintln!("skipped: BELLJAR_P4_SOURCES names no folder");
        return;
    };
    let include = std::env::temp_dir().join(format!("belljar-p4-cpp-{}", std::process::id()));
    std::fs::create_dir_all(&include).expect("a folder is made");
    std::fs::write(include.join("core.p4"), CORE).expect("written");
    std::fs::write(include.join("v1model.p4"), V1MODEL).expect("written");
    let dirs = [include.clone()];
    let mut list = Vec::new();
    sources(Path::new(&folder), &mut list);
    let (mut accepted, mut wrong) = (0, 0);
    for path in &list {
        let Ok(bytes) = std::fs::read(path) else { continue };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let theirs = theirs(path.parent().unwrap_or(Path::new("/")), text.as_bytes(), &dirs);
        accepted += usize::from(theirs.is_some());
        if let Some(difference) = difference(own(&path.display().to_string(), &text, &dirs), theirs) {
            wrong += 1;
            eprintln!("{}: {difference}", path.display());
        }
    }
    std::fs::remove_dir_all(include).expect("the folder is removed");
    eprintln!("{accepted} of {} sources accepted, {wrong} wrong", list.len());
    assert!(wrong == 0, "{wrong} of {} sources differ", list.len());
}
