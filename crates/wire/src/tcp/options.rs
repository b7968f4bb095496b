//! TCP options. They are emitted in the order and with the padding of Linux, so that header lengths and hence
//! segment sizes are the same.

use super::Seq;
use crate::{be16, be32, put16, put32};

mod kind {
    pub const END: u8 = 0;
    pub const NOP: u8 = 1;
    pub const MSS: u8 = 2;
    pub const WINDOW_SCALE: u8 = 3;
    pub const SACK_PERMITTED: u8 = 4;
    pub const SACK: u8 = 5;
    pub const TIMESTAMPS: u8 = 8;
    /// RFC 7413.
    pub const FAST_OPEN: u8 = 34;
    /// RFC 4727's kind for experiments, distinguished by the two bytes after the length (RFC 6994).
    pub const EXPERIMENT: u8 = 254;
}

/// Experiment identifier of TCP Fast Open, used before its option kind was assigned.
const FAST_OPEN_EXPERIMENT: [u8; 2] = [0xf9, 0x89];

/// Length of a timestamps option with two NOPs, in bytes.
const TIMESTAMPS_LEN: usize = 12;

/// Timestamps option (RFC 7323, section 3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamps {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the value echoed; meaningful with ACK.
    pub echo: u32,
}

/// Up to four SACK blocks (RFC 2018), in the order of the header: the most recent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); SackBlocks::MAX],
    len: u8,
}

impl SackBlocks {
    /// Maximum number of blocks in the 40 bytes of options.
    pub const MAX: usize = 4;

    /// Adds the block of bytes from `left` (inclusive) to `right` (exclusive). Ignored if full.
    pub fn push(&mut self, left: Seq, right: Seq) {
        if usize::from(self.len) < SackBlocks::MAX {
            self.blocks[usize::from(self.len)] = (left, right);
            self.len += 1;
        }
    }

    /// Blocks as `(left edge, right edge)`.
    pub fn as_slice(&self) -> &[(Seq, Seq)] {
        &self.blocks[..usize::from(self.len)]
    }

    /// True if there is no block.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// TCP Fast Open option (RFC 7413, section 4.1.1), only with SYN: a cookie, or a cookie request.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct FastOpen {
    bytes: [u8; FastOpen::MAX],
    len: u8,
    /// True for the experimental encoding that precedes the assigned option kind.
    pub experimental: bool,
}

impl FastOpen {
    /// Maximum length of a cookie in bytes.
    pub const MAX: usize = 16;

    /// Cookie request.
    pub const REQUEST: FastOpen = FastOpen { bytes: [0; FastOpen::MAX], len: 0, experimental: false };

    /// Option with a cookie; `None` unless the length is even and 4 to 16 bytes, or zero.
    pub fn new(cookie: &[u8]) -> Option<FastOpen> {
        let fits = cookie.is_empty()
            || (4..=FastOpen::MAX).contains(&cookie.len()) && cookie.len().is_multiple_of(2);
        if !fits {
            return None;
        }
        let mut option = FastOpen { len: cookie.len() as u8, ..FastOpen::REQUEST };
        option.bytes[..cookie.len()].copy_from_slice(cookie);
        Some(option)
    }

    /// The option in the experimental or the standard encoding.
    #[must_use]
    pub fn in_form(self, experimental: bool) -> FastOpen {
        FastOpen { experimental, ..self }
    }

    /// Cookie; empty in a request.
    pub fn cookie(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// True for a cookie request.
    pub fn is_request(&self) -> bool {
        self.len == 0
    }

    /// Number of bytes before the cookie: kind, length and experiment identifier.
    fn head_len(&self) -> usize {
        if self.experimental { 4 } else { 2 }
    }
}

impl std::fmt::Debug for FastOpen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if self.experimental { "FastOpenExperiment" } else { "FastOpen" };
        f.debug_tuple(name).field(&self.cookie()).finish()
    }
}

/// Options of a segment that Belljar supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, only with SYN.
    pub mss: Option<u16>,
    /// Window scale shift, only with SYN. As received: may exceed 14 (RFC 7323, section 2.3).
    pub window_scale: Option<u8>,
    /// SACK-permitted, only with SYN.
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamps: Option<Timestamps>,
    /// SACK blocks.
    pub sack: SackBlocks,
    /// TCP Fast Open, only with SYN.
    pub fast_open: Option<FastOpen>,
}

impl Options {
    /// Parses the option bytes of a header. RFC 9293, section 3.1: unknown options are skipped by their
    /// length; parsing stops at a malformed option, as in Linux.
    pub fn parse(bytes: &[u8]) -> Options {
        let mut options = Options::default();
        // Layout of nearly every segment: NOP, NOP, timestamps.
        if let [kind::NOP, kind::NOP, kind::TIMESTAMPS, 10, body @ ..] = bytes
            && body.len() == 8
        {
            options.timestamps = Some(Timestamps { value: be32(body, 0), echo: be32(body, 4) });
            return options;
        }
        let mut rest = bytes;
        loop {
            match rest {
                [] | [kind::END, ..] => return options,
                [kind::NOP, tail @ ..] => rest = tail,
                [kind, len, ..] if *len >= 2 && usize::from(*len) <= rest.len() => {
                    let (option, tail) = rest.split_at(usize::from(*len));
                    options.parse_one(*kind, &option[2..]);
                    rest = tail;
                }
                _ => return options,
            }
        }
    }

    fn parse_one(&mut self, kind: u8, body: &[u8]) {
        match (kind, body.len()) {
            (kind::MSS, 2) => self.mss = Some(be16(body, 0)),
            (kind::WINDOW_SCALE, 1) => self.window_scale = Some(body[0]),
            (kind::SACK_PERMITTED, 0) => self.sack_permitted = true,
            (kind::TIMESTAMPS, 8) => {
                self.timestamps = Some(Timestamps { value: be32(body, 0), echo: be32(body, 4) });
            }
            (kind::SACK, len) if len % 8 == 0 => {
                for block in body.chunks_exact(8) {
                    self.sack.push(Seq(be32(block, 0)), Seq(be32(block, 4)));
                }
            }
            (kind::FAST_OPEN, _) => self.fast_open = FastOpen::new(body),
            (kind::EXPERIMENT, 2..) if body[..2] == FAST_OPEN_EXPERIMENT => {
                let option = FastOpen::new(&body[2..]);
                self.fast_open = option.map(|option| FastOpen { experimental: true, ..option });
            }
            _ => {}
        }
    }

    /// Length of the emitted options in bytes, a multiple of 4.
    pub fn emitted_len(&self) -> usize {
        let mut len = 0;
        if self.mss.is_some() {
            len += 4;
        }
        if self.timestamps.is_some() {
            // SACK-permitted replaces the two NOPs.
            len += TIMESTAMPS_LEN;
        } else if self.sack_permitted {
            len += 4;
        }
        if self.window_scale.is_some() {
            len += 4;
        }
        if !self.sack.is_empty() {
            len += 4 + 8 * usize::from(self.sack.len);
        }
        if let Some(option) = self.fast_open {
            len += (option.head_len() + usize::from(option.len)).next_multiple_of(4);
        }
        len
    }

    /// Writes the options to `bytes`, which has [`emitted_len`](Self::emitted_len) bytes.
    pub fn emit(&self, bytes: &mut [u8]) {
        let mut at = 0;
        if let Some(mss) = self.mss {
            bytes[at..at + 2].copy_from_slice(&[kind::MSS, 4]);
            put16(bytes, at + 2, mss);
            at += 4;
        }
        // Linux's order: with timestamps, SACK-permitted replaces their padding; otherwise it has padding of
        // its own before it.
        match self.timestamps {
            Some(Timestamps { value, echo }) => {
                if self.sack_permitted {
                    bytes[at..at + 2].copy_from_slice(&[kind::SACK_PERMITTED, 2]);
                } else {
                    bytes[at..at + 2].fill(kind::NOP);
                }
                bytes[at + 2..at + 4].copy_from_slice(&[kind::TIMESTAMPS, 10]);
                put32(bytes, at + 4, value);
                put32(bytes, at + 8, echo);
                at += TIMESTAMPS_LEN;
            }
            None if self.sack_permitted => {
                bytes[at..at + 4].copy_from_slice(&[kind::NOP, kind::NOP, kind::SACK_PERMITTED, 2]);
                at += 4;
            }
            None => {}
        }
        if let Some(shift) = self.window_scale {
            bytes[at..at + 4].copy_from_slice(&[kind::NOP, kind::WINDOW_SCALE, 3, shift]);
            at += 4;
        }
        if !self.sack.is_empty() {
            let len = 2 + 8 * self.sack.len;
            bytes[at..at + 4].copy_from_slice(&[kind::NOP, kind::NOP, kind::SACK, len]);
            at += 4;
            for (left, right) in self.sack.as_slice() {
                put32(bytes, at, left.0);
                put32(bytes, at + 4, right.0);
                at += 8;
            }
        }
        if let Some(option) = &self.fast_open {
            let (head, cookie) = (option.head_len(), option.cookie());
            let end = head + cookie.len();
            let room = &mut bytes[at..at + end.next_multiple_of(4)];
            room[1] = end as u8;
            if option.experimental {
                room[0] = kind::EXPERIMENT;
                room[2..4].copy_from_slice(&FAST_OPEN_EXPERIMENT);
            } else {
                room[0] = kind::FAST_OPEN;
            }
            room[head..end].copy_from_slice(cookie);
            room[end..].fill(kind::NOP);
        }
    }
}
