//! Language of a regular expression: proofs that no line can match it, and that a group cannot capture a number.
//!
//! The expression, which regex-lite has compiled, is parsed into a [`Node`]. Leaves keep their source text, and regex-lite itself
//! says which characters a leaf matches. A domain is a set of at most 64 states; [`advance`] maps the states in which a part of
//! the expression can begin to those in which it can end. It distributes over unions, so that repetitions are fixed points.
//!
//! Limits: a leaf with a character by its code counts as one that matches every character, and an expression with the flag `x`
//! is not analysed. Both only prove less.

use regex_lite::Regex;

/// Part of a regular expression.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Leaf(Leaf),
    Look(Look),
    Concat(Vec<Node>),
    Alternation(Vec<Node>),
    Repetition { sub: Box<Node>, min: u32, max: Option<u32> },
    Group { name: Option<String>, sub: Box<Node> },
}

/// One character: the ASCII characters that match, and whether one beyond ASCII does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    ascii: u128,
    beyond: bool,
}

/// Assertion about the characters before and after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    Start,
    End,
    StartOfLine,
    EndOfLine,
    Boundary,
    NoBoundary,
    WordStart,
    WordEnd,
    WordStartHalf,
    WordEndHalf,
}

#[derive(Clone, Copy, Default)]
struct Flags {
    ignore_case: bool,
    multi_line: bool,
    dot_all: bool,
    crlf: bool,
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    flags: Flags,
}

/// Parses an expression that regex-lite has compiled; `None` if it is not analysed.
pub(crate) fn parse(text: &str) -> Option<Node> {
    let mut parser = Parser { text, at: 0, flags: Flags::default() };
    let node = parser.alternation()?;
    (parser.at == text.len()).then_some(node)
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn take(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_if(&mut self, prefix: &str) -> bool {
        let starts = self.rest().starts_with(prefix);
        self.at += if starts { prefix.len() } else { 0 };
        starts
    }

    /// Text up to a delimiter, which is consumed.
    fn until(&mut self, delimiter: &str) -> Option<&'a str> {
        let (before, _) = self.rest().split_once(delimiter)?;
        self.at += before.len() + delimiter.len();
        Some(before)
    }

    /// Alternatives up to the end or a closing parenthesis, which is left.
    fn alternation(&mut self) -> Option<Node> {
        let (mut alternatives, mut parts) = (Vec::new(), Vec::new());
        loop {
            match self.rest().chars().next() {
                None | Some(')') => break,
                Some('|') => {
                    self.at += 1;
                    alternatives.push(Node::Concat(std::mem::take(&mut parts)));
                }
                Some('?' | '*' | '+' | '{') => {
                    let sub = Box::new(parts.pop()?);
                    let (min, max) = self.bounds()?;
                    self.take_if("?");
                    parts.push(Node::Repetition { sub, min, max });
                }
                Some('(') => parts.extend(self.group()?),
                Some(_) => parts.push(self.primitive()?),
            }
        }
        alternatives.push(Node::Concat(parts));
        Some(Node::Alternation(alternatives))
    }

    /// Bounds of a repetition.
    fn bounds(&mut self) -> Option<(u32, Option<u32>)> {
        match self.take()? {
            '?' => return Some((0, Some(1))),
            '*' => return Some((0, None)),
            '+' => return Some((1, None)),
            _ => {}
        }
        let number = |text: &str| text.trim().parse().ok();
        let bounds = self.until("}")?;
        match bounds.split_once(',') {
            None => number(bounds).map(|count| (count, Some(count))),
            Some((min, "")) => Some((number(min)?, None)),
            Some((min, max)) => Some((number(min)?, Some(number(max)?))),
        }
    }

    /// A group; `None` within for one that only sets flags.
    fn group(&mut self) -> Option<Option<Node>> {
        self.at += 1;
        let before = self.flags;
        let mut name = None;
        if self.take_if("?P<") || self.take_if("?<") {
            name = Some(self.until(">")?.to_owned());
        } else if self.take_if("?") {
            let mut enabled = true;
            loop {
                match self.take()? {
                    ':' => break,
                    ')' => return Some(None),
                    '-' => enabled = false,
                    'i' => self.flags.ignore_case = enabled,
                    'm' => self.flags.multi_line = enabled,
                    's' => self.flags.dot_all = enabled,
                    'R' => self.flags.crlf = enabled,
                    'U' | 'u' => {}
                    _ => return None,
                }
            }
        }
        let sub = Box::new(self.alternation()?);
        self.flags = before;
        self.take_if(")").then_some(Some(Node::Group { name, sub }))
    }

    /// An assertion, or an expression for one character.
    fn primitive(&mut self) -> Option<Node> {
        let start = self.at;
        match self.take()? {
            '^' if self.flags.multi_line && self.flags.crlf => return Some(Node::Look(Look::StartOfLine)),
            '$' if self.flags.multi_line && self.flags.crlf => return Some(Node::Look(Look::EndOfLine)),
            // A line has no line feed.
            '^' => return Some(Node::Look(Look::Start)),
            '$' => return Some(Node::Look(Look::End)),
            '[' => self.class()?,
            '\\' => {
                if let Some(look) = self.escape()? {
                    return Some(Node::Look(look));
                }
            }
            _ => {}
        }
        Some(Node::Leaf(Leaf::new(&self.text[start..self.at], self.flags)?))
    }

    /// Consumes a class behind its opening bracket.
    fn class(&mut self) -> Option<()> {
        self.take_if("^");
        let first = self.at;
        while self.take_if("-") {}
        if self.at == first {
            self.take_if("]");
        }
        loop {
            match self.take()? {
                ']' => return Some(()),
                '[' => {
                    self.until(":]")?;
                }
                '\\' => {
                    self.escape()?;
                }
                _ => {}
            }
        }
    }

    /// Consumes an escape sequence behind its backslash.
    fn escape(&mut self) -> Option<Option<Look>> {
        let digits = match self.take()? {
            'A' => return Some(Some(Look::Start)),
            'z' => return Some(Some(Look::End)),
            'B' => return Some(Some(Look::NoBoundary)),
            '<' => return Some(Some(Look::WordStart)),
            '>' => return Some(Some(Look::WordEnd)),
            'b' => {
                let special = [
                    ("{start}", Look::WordStart),
                    ("{end}", Look::WordEnd),
                    ("{start-half}", Look::WordStartHalf),
                    ("{end-half}", Look::WordEndHalf),
                ];
                let look = special.into_iter().find(|(text, _)| self.take_if(text));
                return Some(Some(look.map_or(Look::Boundary, |(_, look)| look)));
            }
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => return Some(None),
        };
        match self.take_if("{") {
            true => self.until("}").map(|_| None),
            false => {
                self.at += digits;
                (self.text.is_char_boundary(self.at) && self.at <= self.text.len()).then_some(None)
            }
        }
    }
}

impl Leaf {
    /// Characters that an expression for one character matches.
    fn new(source: &str, flags: Flags) -> Option<Leaf> {
        if ["\\x", "\\u", "\\U"].iter().any(|code| source.contains(code)) {
            return Some(Leaf { ascii: u128::MAX, beyond: true });
        }
        let enabled = [(flags.ignore_case, 'i'), (flags.dot_all, 's'), (flags.crlf, 'R')];
        let enabled: String = enabled.into_iter().filter(|(on, _)| *on).map(|(_, flag)| flag).collect();
        let regex = Regex::new(&match enabled.as_str() {
            "" => format!(r"\A{source}\z"),
            flags => format!(r"\A(?{flags}:{source})\z"),
        });
        let regex = regex.ok()?;
        let matches = |c: char| regex.is_match(c.encode_utf8(&mut [0; 4]));
        let ascii = (0..128_u8).filter(|c| matches(char::from(*c))).fold(0, |set, c| set | 1 << c);
        // Ranges begin and end at characters of the source, at those next to them, or at the ends.
        let named = source.chars().filter(|c| !c.is_ascii());
        let next_to = |c: char| [c as u32 - 1, c as u32, c as u32 + 1].map(char::from_u32);
        let mut beyond = named.flat_map(next_to).flatten().chain(['\u{80}', char::MAX]);
        Some(Leaf { ascii, beyond: beyond.any(|c| !c.is_ascii() && matches(c)) })
    }

    fn has(self, c: u8) -> bool {
        self.ascii >> c & 1 == 1
    }
}

impl Node {
    /// The group of this name.
    fn group(&self, wanted: &str) -> Option<&Node> {
        match self {
            Node::Group { name, sub } if name.as_deref() == Some(wanted) => Some(sub),
            Node::Group { sub, .. } | Node::Repetition { sub, .. } => sub.group(wanted),
            Node::Concat(parts) | Node::Alternation(parts) => {
                parts.iter().find_map(|part| part.group(wanted))
            }
            Node::Leaf(_) | Node::Look(_) => None,
        }
    }
}

/// States of a domain, as bits.
type States = u64;

/// Effect of one character and of an assertion on a set of states.
trait Domain {
    fn character(&self, leaf: Leaf, before: States) -> States;
    fn look(&self, look: Look, before: States) -> States;
}

/// States in which a part can end that begins in one of `before`.
fn advance(domain: &impl Domain, node: &Node, before: States) -> States {
    if before == 0 {
        return 0;
    }
    match node {
        Node::Leaf(leaf) => domain.character(*leaf, before),
        Node::Look(look) => domain.look(*look, before),
        Node::Group { sub, .. } => advance(domain, sub, before),
        Node::Concat(parts) => parts.iter().fold(before, |states, part| advance(domain, part, states)),
        Node::Alternation(parts) => {
            parts.iter().fold(0, |states, part| states | advance(domain, part, before))
        }
        Node::Repetition { sub, min, max } => {
            let mut states = before;
            for _ in 0..*min {
                let next = advance(domain, sub, states);
                if next == states {
                    break;
                }
                states = next;
            }
            let mut all = states;
            for _ in *min..max.unwrap_or(u32::MAX) {
                states = advance(domain, sub, states);
                if states | all == all {
                    break;
                }
                all |= states;
            }
            all
        }
    }
}

/// Positions in a line: the kind of the character before, and the kinds that the next one may have.
struct Positions;

/// Kinds of characters, and either end of the line.
const EDGE: u32 = 0;
const WORD: u32 = 1;
const OTHER: u32 = 2;
const RETURN: u32 = 3;
/// Set of all kinds.
const ANY: u32 = 0b1111;

impl Positions {
    fn state(before: u32, next: u32) -> States {
        1 << (before * 16 + next)
    }

    /// Kinds of the characters of a leaf. No line has a line feed.
    fn kinds(leaf: Leaf) -> impl Iterator<Item = u32> {
        let ascii = |wanted: fn(u8) -> bool| (0..128).any(|c| leaf.has(c) && wanted(c));
        let word = ascii(is_word);
        let other = leaf.beyond || ascii(|c| !is_word(c) && !matches!(c, b'\n' | b'\r'));
        [(WORD, word), (OTHER, other), (RETURN, leaf.has(b'\r'))]
            .into_iter()
            .filter(|(_, has)| *has)
            .map(|(kind, _)| kind)
    }
}

fn is_word(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_'
}

impl Domain for Positions {
    fn character(&self, leaf: Leaf, before: States) -> States {
        let mut after = 0;
        for kind in Positions::kinds(leaf) {
            let may = (0..64_u32).any(|state| before >> state & 1 == 1 && (state % 16) >> kind & 1 == 1);
            after |= if may { Positions::state(kind, ANY) } else { 0 };
        }
        after
    }

    fn look(&self, look: Look, before: States) -> States {
        let mut after = 0;
        for state in (0..64_u32).filter(|state| before >> state & 1 == 1) {
            let (last, next) = (state / 16, state % 16);
            let was_word = last == WORD;
            let allowed = (0..4).filter(|kind| {
                let is_word = *kind == WORD;
                match look {
                    Look::Start => last == EDGE,
                    Look::End => *kind == EDGE,
                    Look::StartOfLine => last == EDGE || last == RETURN,
                    Look::EndOfLine => *kind == EDGE || *kind == RETURN,
                    Look::Boundary => was_word != is_word,
                    Look::NoBoundary => was_word == is_word,
                    Look::WordStart => !was_word && is_word,
                    Look::WordEnd => was_word && !is_word,
                    Look::WordStartHalf => !was_word,
                    Look::WordEndHalf => !is_word,
                }
            });
            let next = next & allowed.fold(0, |set, kind| set | 1 << kind);
            after |= if next == 0 { 0 } else { Positions::state(last, next) };
        }
        after
    }
}

/// States of a recogniser of numbers.
struct Numbers;

const BEGIN: u32 = 0;
const SIGN: u32 = 1;
const WHOLE: u32 = 2;
const POINT: u32 = 3;
const FRACTION: u32 = 4;
const EXPONENT: u32 = 5;
const EXPONENT_SIGN: u32 = 6;
const EXPONENT_DIGITS: u32 = 7;

impl Domain for Numbers {
    fn character(&self, leaf: Leaf, before: States) -> States {
        let digit = (b'0'..=b'9').any(|c| leaf.has(c));
        let sign = leaf.has(b'+') || leaf.has(b'-');
        let (point, exponent) = (leaf.has(b'.'), leaf.has(b'e') || leaf.has(b'E'));
        let transitions = [
            (digit, BEGIN, WHOLE),
            (sign, BEGIN, SIGN),
            (point, BEGIN, POINT),
            (digit, SIGN, WHOLE),
            (point, SIGN, POINT),
            (digit, WHOLE, WHOLE),
            (point, WHOLE, FRACTION),
            (exponent, WHOLE, EXPONENT),
            (digit, POINT, FRACTION),
            (digit, FRACTION, FRACTION),
            (exponent, FRACTION, EXPONENT),
            (digit, EXPONENT, EXPONENT_DIGITS),
            (sign, EXPONENT, EXPONENT_SIGN),
            (digit, EXPONENT_SIGN, EXPONENT_DIGITS),
            (digit, EXPONENT_DIGITS, EXPONENT_DIGITS),
        ];
        let taken = transitions.into_iter().filter(|(has, from, _)| *has && before >> from & 1 == 1);
        taken.fold(0, |after, (_, _, to)| after | 1 << to)
    }

    fn look(&self, _: Look, before: States) -> States {
        before
    }
}

/// True if it is proven that the expression matches in no line.
pub(crate) fn is_empty(node: &Node) -> bool {
    let anywhere = (EDGE..=RETURN).fold(0, |states, last| states | Positions::state(last, ANY));
    advance(&Positions, node, anywhere) == 0
}

/// True if it is proven that the group of this name captures no number.
pub(crate) fn captures_no_number(node: &Node, group: &str) -> bool {
    let numbers = 1 << WHOLE | 1 << FRACTION | 1 << EXPONENT_DIGITS;
    node.group(group).is_some_and(|group| advance(&Numbers, group, 1 << BEGIN) & numbers == 0)
}

#[cfg(test)]
#[path = "language_tests.rs"]
mod tests;
