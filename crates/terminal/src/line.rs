//! Line discipline of a terminal, `termios(3)`, after Linux's `n_tty`: processing of typed bytes before a
//! program reads them, echo, and output processing.

use belljar_linux_abi::c;
use belljar_linux_abi::terminal::Termios;
use std::collections::VecDeque;

/// Maximum number of unread bytes, `N_TTY_BUF_SIZE` less one.
pub(crate) const LINE_LIMIT: usize = 4_095;
/// Distance of tab stops in columns.
const TAB: usize = 8;

/// Effect of a byte other than storage and echo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// No effect.
    None,
    /// Signal to the foreground process group.
    Signal(i32),
    /// Output is stopped (`XOFF`).
    Stop,
    /// Output is restarted (`XON`).
    Start,
}

/// Typed byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Typed {
    byte: u8,
    /// Marks the end of a line. An end-of-file character is not itself read.
    end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Line,
    File,
}

/// State of the line discipline.
#[derive(Debug, Default)]
pub(crate) struct Line {
    typed: VecDeque<Typed>,
    /// Number of bytes of `typed` in complete lines; outside canonical mode all of them.
    complete: usize,
    literal: bool,
    column: usize,
    /// Column in which the line being edited starts.
    start_column: usize,
}

impl Line {
    /// Number of bytes available to a read.
    pub fn available(&self, termios: &Termios) -> usize {
        if termios.local(c::ICANON) { self.complete } else { self.typed.len() }
    }
    /// Number of bytes accepted before the typist must wait. A line being edited never blocks the typist:
    /// excess bytes are dropped.
    pub fn room(&self, termios: &Termios) -> usize {
        let room = LINE_LIMIT.saturating_sub(self.typed.len());
        if room == 0 && termios.local(c::ICANON) && self.complete == 0 { 1 } else { room }
    }
    /// Discards all input.
    pub fn flush(&mut self) {
        self.typed.clear();
        self.complete = 0;
        self.literal = false;
    }
    /// Adapts unread input to a change of mode: it becomes readable, or part of a line, at once.
    pub fn mode_changed(&mut self, was_canonical: bool, is_canonical: bool) {
        if was_canonical == is_canonical {
            return;
        }
        self.literal = false;
        self.complete = if is_canonical { self.typed.len() } else { 0 };
        if is_canonical && let Some(last) = self.typed.back_mut() {
            last.end.get_or_insert(End::Line);
        }
    }
    /// Reads up to `room` bytes; in canonical mode at most one line.
    pub fn take(&mut self, room: usize, termios: &Termios) -> Vec<u8> {
        let canonical = termios.local(c::ICANON);
        let mut data = Vec::new();
        let mut left = self.available(termios);
        while left > 0 {
            let Some(next) = self.typed.front().copied() else { break };
            if data.len() == room && !(canonical && next.end == Some(End::File)) {
                break;
            }
            self.typed.pop_front();
            self.complete = self.complete.saturating_sub(1);
            left -= 1;
            if canonical && next.end == Some(End::File) {
                break;
            }
            data.push(next.byte);
            if canonical && next.end == Some(End::Line) {
                break;
            }
        }
        data
    }

    /// Processes a typed byte; appends its echo to `out`.
    pub fn receive(&mut self, byte: u8, termios: &Termios, out: &mut VecDeque<u8>) -> Effect {
        let mut byte = byte;
        if termios.input(c::ISTRIP) {
            byte &= 0x7f;
        }
        if termios.input(c::IUCLC) && termios.local(c::IEXTEN) {
            byte = byte.to_ascii_lowercase();
        }
        if self.literal {
            self.literal = false;
            self.store_and_echo(byte, None, termios, out);
            return Effect::None;
        }
        if termios.input(c::IXON) {
            if termios.control(c::VSTART) == Some(byte) {
                return Effect::Start;
            }
            if termios.control(c::VSTOP) == Some(byte) {
                return Effect::Stop;
            }
        }
        if termios.local(c::ISIG) {
            for (which, signal) in [(c::VINTR, c::SIGINT), (c::VQUIT, c::SIGQUIT), (c::VSUSP, c::SIGTSTP)] {
                if termios.control(which) == Some(byte) {
                    if !termios.local(c::NOFLSH) {
                        self.flush();
                        out.clear();
                    }
                    if termios.local(c::ECHO) {
                        self.echo(byte, termios, out);
                    }
                    return Effect::Signal(signal);
                }
            }
        }
        match byte {
            b'\r' if termios.input(c::IGNCR) => return Effect::None,
            b'\r' if termios.input(c::ICRNL) => byte = b'\n',
            b'\n' if termios.input(c::INLCR) => byte = b'\r',
            _ => {}
        }
        if termios.local(c::ICANON) {
            self.edit(byte, termios, out);
        } else {
            self.store_and_echo(byte, None, termios, out);
        }
        Effect::None
    }

    /// Canonical mode: editing characters and line ends.
    fn edit(&mut self, byte: u8, termios: &Termios, out: &mut VecDeque<u8>) {
        let is = |which: usize| termios.control(which) == Some(byte);
        let extended = termios.local(c::IEXTEN);
        if is(c::VERASE) || is(c::VKILL) || (extended && is(c::VWERASE)) {
            return self.erase(byte, termios, out);
        }
        if extended && is(c::VLNEXT) {
            self.literal = true;
            if termios.local(c::ECHO) && termios.local(c::ECHOCTL) {
                self.put_raw(b"^\x08", out);
            }
            return;
        }
        if extended && termios.local(c::ECHO) && is(c::VREPRINT) {
            self.echo(byte, termios, out);
            self.put(b'\n', termios, out);
            for typed in self.typed.iter().skip(self.complete).copied().collect::<Vec<_>>() {
                self.echo(typed.byte, termios, out);
            }
            return;
        }
        if byte == b'\n' {
            if termios.local(c::ECHO) || termios.local(c::ECHONL) {
                self.put(b'\n', termios, out);
            }
            return self.end_line(byte, End::Line);
        }
        if is(c::VEOF) {
            return self.end_line(byte, End::File);
        }
        let end = is(c::VEOL) || (extended && is(c::VEOL2));
        self.store_and_echo(byte, end.then_some(End::Line), termios, out);
    }

    fn end_line(&mut self, byte: u8, end: End) {
        // In a full buffer the line end replaces the last byte.
        if self.typed.len() > LINE_LIMIT {
            self.typed.pop_back();
        }
        self.typed.push_back(Typed { byte, end: Some(end) });
        self.complete = self.typed.len();
        self.start_column = self.column;
    }

    fn store_and_echo(&mut self, byte: u8, end: Option<End>, termios: &Termios, out: &mut VecDeque<u8>) {
        if termios.local(c::ECHO) {
            if self.typed.len() == self.complete {
                self.start_column = self.column;
            }
            if byte == b'\n' { self.put(byte, termios, out) } else { self.echo(byte, termios, out) }
        }
        if self.typed.len() < LINE_LIMIT || end.is_some() {
            self.typed.push_back(Typed { byte, end });
        }
        if end.is_some() {
            self.complete = self.typed.len();
        }
    }

    /// Handles the erase, word-erase and kill characters.
    fn erase(&mut self, byte: u8, termios: &Termios, out: &mut VecDeque<u8>) {
        if self.typed.len() == self.complete {
            return;
        }
        let echoes = termios.local(c::ECHO);
        let kill = termios.control(c::VKILL) == Some(byte);
        let word = termios.control(c::VWERASE) == Some(byte);
        if kill && !(echoes && termios.local(c::ECHOK) && termios.local(c::ECHOKE) && termios.local(c::ECHOE))
        {
            self.typed.truncate(self.complete);
            if echoes {
                self.echo(byte, termios, out);
                if termios.local(c::ECHOK) {
                    self.put(b'\n', termios, out);
                }
            }
            return;
        }
        let mut seen_word = false;
        while self.typed.len() > self.complete {
            let Some(last) = self.typed.back().map(|typed| typed.byte) else { break };
            if word {
                let in_word = last.is_ascii_alphanumeric() || last == b'_' || last >= 0x80;
                if !in_word && seen_word {
                    break;
                }
                seen_word |= in_word;
            }
            self.typed.pop_back();
            if echoes {
                self.erase_echo(last, byte, termios, out);
            }
            // Erases all bytes of a UTF-8 character.
            let continues = termios.input(c::IUTF8) && last & 0xc0 == 0x80;
            if !kill && !word && !continues {
                break;
            }
        }
    }

    fn erase_echo(&mut self, erased: u8, by: u8, termios: &Termios, out: &mut VecDeque<u8>) {
        if !termios.local(c::ECHOE) {
            return self.echo(by, termios, out);
        }
        if erased == b'\t' {
            // Erasing a tab returns to its start column, computed from the remaining line.
            let mut column = self.start_column;
            for typed in self.typed.iter().skip(self.complete) {
                column = match typed.byte {
                    b'\t' => (column / TAB + 1) * TAB,
                    byte if is_control(byte) => column + 2 * usize::from(termios.local(c::ECHOCTL)),
                    byte => column + usize::from(!(termios.input(c::IUTF8) && byte & 0xc0 == 0x80)),
                };
            }
            while self.column > column {
                self.put_raw(b"\x08", out);
                self.column -= 1;
            }
            return;
        }
        if termios.input(c::IUTF8) && erased & 0xc0 == 0x80 {
            return;
        }
        let width = match is_control(erased) {
            true if termios.local(c::ECHOCTL) => 2,
            true => 0,
            false => 1,
        };
        for _ in 0..width {
            self.put_raw(b"\x08 \x08", out);
            self.column = self.column.saturating_sub(1);
        }
    }

    /// Echoes a byte; a control character as `^X` if `ECHOCTL` is set.
    fn echo(&mut self, byte: u8, termios: &Termios, out: &mut VecDeque<u8>) {
        if termios.local(c::ECHOCTL) && is_control(byte) && byte != b'\t' {
            self.put_raw(&[b'^', byte ^ 0x40], out);
            self.column += 2;
        } else {
            self.put(byte, termios, out);
        }
    }

    fn put_raw(&mut self, bytes: &[u8], out: &mut VecDeque<u8>) {
        out.extend(bytes);
    }

    /// Writes a byte to the terminal, subject to the output flags.
    pub fn put(&mut self, byte: u8, termios: &Termios, out: &mut VecDeque<u8>) {
        if !termios.output(c::OPOST) {
            out.push_back(byte);
            return;
        }
        match byte {
            b'\n' => {
                if termios.output(c::ONLRET) {
                    self.column = 0;
                }
                if termios.output(c::ONLCR) {
                    self.column = 0;
                    out.push_back(b'\r');
                }
                out.push_back(b'\n');
                self.start_column = self.column;
            }
            b'\r' if termios.output(c::ONOCR) && self.column == 0 => {}
            b'\r' if termios.output(c::OCRNL) => {
                if termios.output(c::ONLRET) {
                    self.column = 0;
                }
                out.push_back(b'\n');
            }
            b'\r' => {
                self.column = 0;
                self.start_column = 0;
                out.push_back(byte);
            }
            b'\t' => {
                let spaces = TAB - self.column % TAB;
                self.column += spaces;
                if termios.oflag & c::TABDLY == c::TAB3 {
                    out.extend(std::iter::repeat_n(b' ', spaces));
                } else {
                    out.push_back(byte);
                }
            }
            8 => {
                self.column = self.column.saturating_sub(1);
                out.push_back(byte);
            }
            _ => {
                let byte = if termios.output(c::OLCUC) { byte.to_ascii_uppercase() } else { byte };
                let continues = termios.input(c::IUTF8) && byte & 0xc0 == 0x80;
                if !is_control(byte) && !continues {
                    self.column += 1;
                }
                out.push_back(byte);
            }
        }
    }
}

fn is_control(byte: u8) -> bool {
    byte < 0x20 || byte == 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    fn type_text(line: &mut Line, termios: &Termios, text: &[u8]) -> (Vec<u8>, Vec<Effect>) {
        let mut out = VecDeque::new();
        let effects = text.iter().map(|byte| line.receive(*byte, termios, &mut out)).collect();
        (out.into(), effects)
    }

    #[test]
    fn a_line_is_edited_before_it_is_read() {
        let (mut line, termios) = (Line::default(), Termios::default());
        let (echo, _) = type_text(&mut line, &termios, b"ab\x7fc d\x17\x01\r");
        assert_eq!(echo, b"ab\x08 \x08c d\x08 \x08^A\r\n");
        assert_eq!(line.take(100, &termios), b"ac \x01\n");
        assert_eq!(line.available(&termios), 0);
    }

    #[test]
    fn killing_a_line_takes_it_off_the_screen() {
        let (mut line, termios) = (Line::default(), Termios::default());
        assert_eq!(type_text(&mut line, &termios, b"xy\x15").0, b"xy\x08 \x08\x08 \x08");
        assert_eq!(type_text(&mut line, &termios, b"\x16\x15\n").0, b"^\x08^U\r\n");
        assert_eq!(line.take(100, &termios), b"\x15\n");
    }

    #[test]
    fn an_end_of_file_ends_a_read_and_is_not_read() {
        let (mut line, termios) = (Line::default(), Termios::default());
        type_text(&mut line, &termios, b"ab\x04\x04cd\n");
        assert_eq!(line.take(2, &termios), b"ab");
        assert_eq!(line.take(100, &termios), b"");
        assert_eq!(line.take(1, &termios), b"c");
        assert_eq!(line.take(100, &termios), b"d\n");
    }

    #[test]
    fn signals_flush_what_was_typed() {
        let (mut line, termios) = (Line::default(), Termios::default());
        let (echo, effects) = type_text(&mut line, &termios, b"ab\x03c\n");
        assert_eq!(echo, b"^Cc\r\n");
        assert_eq!(effects[2], Effect::Signal(c::SIGINT));
        assert_eq!(line.take(100, &termios), b"c\n");
    }

    #[test]
    fn raw_bytes_are_as_they_are() {
        let mut line = Line::default();
        let raw = Termios { iflag: 0, oflag: 0, lflag: 0, ..Termios::default() };
        assert_eq!(type_text(&mut line, &raw, b"\r\x03\x04\x7f").0, b"");
        assert_eq!(line.take(100, &raw), b"\r\x03\x04\x7f");
    }

    #[test]
    fn a_line_that_is_too_long_is_cut() {
        let (mut line, termios) = (Line::default(), Termios { lflag: c::ICANON, ..Termios::default() });
        type_text(&mut line, &termios, &[b'x'; 5_000]);
        assert_eq!(line.room(&termios), 1);
        type_text(&mut line, &termios, b"\n");
        assert_eq!(line.available(&termios), LINE_LIMIT + 1);
        let read = line.take(10_000, &termios);
        assert_eq!((read.len(), read[read.len() - 1]), (LINE_LIMIT + 1, b'\n'));
    }
}
