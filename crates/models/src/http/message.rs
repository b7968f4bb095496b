//! Incremental parser for HTTP messages.

use crate::Failure;

/// Maximum length of a message's head in bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// Maximum number of header fields.
const MOST_FIELDS: usize = 100;

/// Framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Length in bytes, by `Content-Length`.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
    /// Body until the peer closes the connection.
    UntilClose,
}

/// Relevant part of a message's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Status code of a response; 0 for requests.
    pub status: u16,
    /// True for a request whose response has no body (`HEAD`).
    pub wants_no_body: bool,
    /// Framing of the body.
    pub body: Body,
    /// True if the connection is reusable.
    pub keep_alive: bool,
}

/// Parser state of one message.
#[derive(Debug, Default)]
pub struct Reader {
    /// Head received so far.
    buffer: Vec<u8>,
    /// Parsed head, once complete.
    head: Option<Head>,
    /// Bytes left of the body or of the current chunk.
    left: u64,
    chunk: Chunk,
}

/// Position of the parser in a chunked body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Chunk {
    /// In the line with the chunk size.
    #[default]
    Size,
    /// In the chunk data.
    Data,
    /// In the line end after the data.
    End,
    /// In the trailer section.
    Trailer,
    /// At the end of the body.
    Done,
}

impl Reader {
    /// Head, once complete.
    pub fn head(&self) -> Option<Head> {
        self.head
    }
    /// True if the message is complete.
    pub fn is_complete(&self) -> bool {
        match self.head.map(|head| head.body) {
            None | Some(Body::UntilClose) => false,
            Some(Body::Length(_)) => self.left == 0,
            Some(Body::Chunked) => self.chunk == Chunk::Done,
        }
    }
    /// Number of body bytes that can be discarded unread.
    pub fn skippable(&self) -> u64 {
        match self.head.map(|head| head.body) {
            Some(Body::Length(_)) => self.left,
            Some(Body::UntilClose) => u64::MAX,
            Some(Body::Chunked) if self.chunk == Chunk::Data => self.left,
            _ => 0,
        }
    }
    /// Accounts for discarded bytes.
    pub fn skipped(&mut self, bytes: u64) {
        if self.head.is_some_and(|head| head.body == Body::UntilClose) {
            return;
        }
        self.left -= bytes;
        if self.left == 0 && self.chunk == Chunk::Data {
            self.chunk = Chunk::End;
        }
    }

    /// Consumes bytes; returns how many belong to this message.
    pub fn read(&mut self, data: &[u8], request: bool) -> Result<usize, Failure> {
        let mut used = 0;
        if self.head.is_none() {
            let before = self.buffer.len();
            self.buffer.extend_from_slice(data);
            let Some((head, len)) = parse(&self.buffer, request)? else {
                return match self.buffer.len() > LONGEST_HEAD {
                    true => Err(Failure::Malformed),
                    false => Ok(data.len()),
                };
            };
            used = len - before;
            self.buffer = Vec::new();
            self.head = Some(head);
            if let Body::Length(length) = head.body {
                self.left = length;
            }
        }
        while used < data.len() && !self.is_complete() {
            let skippable = self.skippable().min((data.len() - used) as u64);
            if skippable > 0 {
                self.skipped(skippable);
                used += skippable as usize;
            } else {
                self.between_chunks(data[used])?;
                used += 1;
            }
        }
        Ok(used)
    }

    /// Consumes a byte outside the chunk data.
    fn between_chunks(&mut self, byte: u8) -> Result<(), Failure> {
        if byte != b'\n' {
            self.buffer.push(byte);
            return match self.buffer.len() > LONGEST_HEAD {
                true => Err(Failure::Malformed),
                false => Ok(()),
            };
        }
        let line = std::mem::take(&mut self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        self.chunk = match self.chunk {
            Chunk::Size => {
                let digits = line.split(|b| *b == b';').next().unwrap_or_default();
                let digits = std::str::from_utf8(digits).map_err(|_| Failure::Malformed)?;
                self.left = u64::from_str_radix(digits.trim(), 16).map_err(|_| Failure::Malformed)?;
                if self.left == 0 { Chunk::Trailer } else { Chunk::Data }
            }
            Chunk::End if line.is_empty() => Chunk::Size,
            Chunk::Trailer if line.is_empty() => Chunk::Done,
            Chunk::Trailer => Chunk::Trailer,
            _ => return Err(Failure::Malformed),
        };
        Ok(())
    }
}

/// Parses a head; returns it with its length if it is complete.
fn parse(bytes: &[u8], request: bool) -> Result<Option<(Head, usize)>, Failure> {
    let mut fields = [httparse::EMPTY_HEADER; MOST_FIELDS];
    let (len, status, version, method, fields) = if request {
        let mut message = httparse::Request::new(&mut fields);
        let parsed = message.parse(bytes).map_err(|_| Failure::Malformed)?;
        (parsed, 0, message.version, message.method, message.headers)
    } else {
        let mut message = httparse::Response::new(&mut fields);
        let parsed = message.parse(bytes).map_err(|_| Failure::Malformed)?;
        (parsed, message.code.unwrap_or(0), message.version, None, message.headers)
    };
    let httparse::Status::Complete(len) = len else { return Ok(None) };
    let field = |name: &str| {
        let found = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(found.value).ok().map(|value| value.trim().to_ascii_lowercase())
    };
    let chunked = field("transfer-encoding").is_some_and(|coding| coding.ends_with("chunked"));
    let length = match field("content-length") {
        Some(text) => Some(text.parse().map_err(|_| Failure::Malformed)?),
        None => None,
    };
    let body = match length {
        _ if matches!(status, 100..=199 | 204 | 304) => Body::Length(0),
        _ if chunked => Body::Chunked,
        Some(length) => Body::Length(length),
        None if request => Body::Length(0),
        None => Body::UntilClose,
    };
    let connection = field("connection").unwrap_or_default();
    let keep_alive = match version {
        Some(1) => !connection.contains("close"),
        _ => connection.contains("keep-alive"),
    };
    let head = Head {
        status,
        wants_no_body: method == Some("HEAD"),
        body,
        keep_alive: keep_alive && body != Body::UntilClose,
    };
    Ok(Some((head, len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a message in pieces of `step` bytes; returns the parser and the length of the message.
    fn read(text: &str, request: bool, step: usize) -> Result<(Reader, usize), Failure> {
        let (mut reader, mut used) = (Reader::default(), 0);
        for piece in text.as_bytes().chunks(step) {
            let n = reader.read(piece, request)?;
            used += n;
            if n < piece.len() || reader.is_complete() {
                break;
            }
        }
        Ok((reader, used))
    }

    #[test]
    fn bodies_end_where_their_heads_say_however_they_come() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n";
        let sized = "HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello";
        let none = "HTTP/1.0 204 No Content\r\nConnection: keep-alive\r\n\r\n";
        for step in [1, 2, 7, 1_000] {
            for (text, status, keep_alive) in [(chunked, 200, true), (sized, 404, false), (none, 204, true)] {
                let (reader, used) = read(&format!("{text}HTTP/1.1"), false, step).unwrap();
                let head = reader.head().unwrap();
                assert_eq!((head.status, head.keep_alive, reader.is_complete()), (status, keep_alive, true));
                assert_eq!(used, text.len(), "{text:?} by {step}");
            }
        }
    }

    #[test]
    fn without_a_length_a_response_lasts_until_the_end_and_a_request_has_no_body() {
        let (reader, _) = read("HTTP/1.0 200 OK\r\n\r\nall of this", false, 3).unwrap();
        assert!(!reader.is_complete() && reader.skippable() == u64::MAX);
        let (reader, used) = read("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET", true, 1_000).unwrap();
        assert!(reader.is_complete() && used == 27);
        assert!(read("HEAD / HTTP/1.1\r\n\r\n", true, 9).unwrap().0.head().unwrap().wants_no_body);
    }

    #[test]
    fn what_is_no_http_is_refused() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: much\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert_eq!(read(text, false, 1_000).err(), Some(Failure::Malformed), "{text:?}");
        }
    }
}
