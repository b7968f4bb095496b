//! Formatting of arguments.

use super::names;
use super::signatures::Arg;
use super::structs::Struct;
use super::text::{Text, push_address, push_hex, push_ipv4, push_quoted, push_signed, push_unsigned};
use belljar_linux_abi::c;
use smallvec::SmallVec;
use std::fmt::Write;
use std::net::Ipv6Addr;

/// Maximum number of bytes shown of a buffer or string, strace's default.
const SHOWN: usize = 32;
/// Maximum number of elements shown of an array.
const SHOWN_ELEMENTS: u64 = 8;

/// Memory of the calling program.
pub trait Memory {
    /// Reads from `addr` into the non-empty buffer `out`; returns true on success.
    fn read(&self, addr: u64, out: &mut [u8]) -> bool;
    /// Zero-terminated string at `addr`; `None` if it is unreadable or longer than the maximum path length.
    fn string(&self, addr: u64) -> Option<Vec<u8>>;
}

/// Formatter of a call that has ended, or is about to be made.
pub struct Formatter<'a> {
    /// Memory that the arguments point to.
    pub memory: &'a dyn Memory,
    /// System call number.
    pub number: u32,
    /// Argument registers.
    pub args: &'a [u64; 6],
    /// Value of RAX if the call has ended.
    pub result: Option<u64>,
}

/// Bytes of guest memory; most shown arguments fit without heap allocation.
pub type Bytes = SmallVec<[u8; 128]>;

/// Appends the result of a successful call.
pub fn push_result(out: &mut Text, number: u32, value: u64) {
    match i64::from(number) {
        c::SYS_mmap | c::SYS_brk | c::SYS_mremap | c::SYS_shmat => push_hex(out, value),
        _ => push_signed(out, value as i64),
    }
}

/// Successful result as a count.
fn count(result: Option<u64>) -> Option<u64> {
    result.filter(|value| (*value as i64) >= 0)
}

impl Formatter<'_> {
    /// Appends an argument. Common types are written directly, others through a temporary string.
    pub fn push_argument(&self, arg: Arg, value: u64, out: &mut Text) {
        let args = self.args;
        match arg {
            Arg::Fd | Arg::Int => push_signed(out, i64::from(value as i32)),
            Arg::Size => push_unsigned(out, value),
            Arg::Flags(list) => names::push_flags(out, list, value),
            Arg::Hex | Arg::Word => push_address(out, value),
            Arg::In(len) if value != 0 => self.push_buffer(value, args[len], out),
            Arg::Out if value != 0 => match count(self.result) {
                Some(len) => self.push_buffer(value, len, out),
                None => push_address(out, value),
            },
            Arg::Address(len) if value != 0 => self.push_socket_address(value, args[len], out),
            Arg::AddressOut(len) if value != 0 => match (count(self.result), self.word(args[len])) {
                (Some(_), Some(len)) => self.push_socket_address(value, u64::from(len), out),
                _ => push_address(out, value),
            },
            Arg::PollFds(len) if value != 0 => self.push_poll_fds(value, args[len], out),
            _ => out.push_str(&self.argument(arg, value)),
        }
    }

    fn argument(&self, arg: Arg, value: u64) -> String {
        let args = self.args;
        match arg {
            Arg::DirFd if value as i32 == c::AT_FDCWD => "AT_FDCWD".into(),
            Arg::DirFd => (value as i32).to_string(),
            Arg::OpenFlags if value as i32 & c::O_ACCMODE == c::O_RDONLY => {
                match names::flags(names::OPEN, value) {
                    none if none == "0" => "O_RDONLY".into(),
                    others => format!("O_RDONLY|{others}"),
                }
            }
            Arg::OpenFlags => names::flags(names::OPEN, value),
            Arg::Mode => format!("{:#o}", value as u32),
            Arg::OneOf(list) => names::one_of(list, value),
            Arg::Signal => names::signal(value as i32),
            _ if value == 0 => "NULL".into(),
            Arg::Path => self.string(value),
            Arg::InVector(len) => self.vector(value, args[len], u64::MAX),
            Arg::OutVector(len) => match count(self.result) {
                Some(filled) => self.vector(value, args[len], filled),
                None => address(value),
            },
            Arg::Timespec => self.timespec(value),
            Arg::TimespecOut if count(self.result).is_some() => self.timespec(value),
            Arg::TimespecOut => address(value),
            Arg::Strings => self.strings(value),
            Arg::FdPair => match (count(self.result), self.word(value), self.word(value + 4)) {
                (Some(_), Some(a), Some(b)) => format!("[{a}, {b}]"),
                _ => address(value),
            },
            Arg::SignalSet => self.signal_set(value),
            Arg::Struct(what) => self.structure(what, value),
            Arg::StructOut(what) if count(self.result).is_some() => self.structure(what, value),
            Arg::StructOut(_) => address(value),
            Arg::StatusOut => match count(self.result) {
                // wait(2) stores a status only if it found a child.
                Some(1..) => self.structure(Struct::WaitStatus, value),
                _ => address(value),
            },
            Arg::Message => self.message(value, None),
            Arg::MessageOut => match count(self.result) {
                Some(filled) => self.message(value, Some(filled)),
                None => address(value),
            },
            Arg::FdSet => self.fd_set(value, args[0]),
            Arg::Option(len) => self.option_value(value, args[len]),
            Arg::OptionOut(len) => match (count(self.result), self.word(args[len])) {
                (Some(_), Some(len)) => self.option_value(value, len.into()),
                _ => address(value),
            },
            Arg::EpollEvent => self.epoll_events(value, 1),
            Arg::EpollEventsOut => {
                count(self.result).map_or_else(|| address(value), |n| self.epoll_events(value, n))
            }
            Arg::Fd
            | Arg::Int
            | Arg::Size
            | Arg::Flags(_)
            | Arg::Hex
            | Arg::Word
            | Arg::In(_)
            | Arg::Out
            | Arg::Address(_)
            | Arg::AddressOut(_)
            | Arg::PollFds(_) => unreachable!("written at once"),
        }
    }

    /// Reads guest memory; returns true on success.
    #[inline]
    fn read(&self, addr: u64, out: &mut [u8]) -> bool {
        out.is_empty() || self.memory.read(addr, out)
    }
    pub(crate) fn bytes(&self, addr: u64, len: usize) -> Option<Bytes> {
        let mut data = Bytes::from_elem(0, len);
        self.read(addr, &mut data).then_some(data)
    }
    pub(crate) fn word(&self, addr: u64) -> Option<u32> {
        let mut data = [0; 4];
        self.read(addr, &mut data).then(|| u32::from_le_bytes(data))
    }
    pub(crate) fn long(&self, addr: u64) -> Option<u64> {
        let mut data = [0; 8];
        self.read(addr, &mut data).then(|| u64::from_le_bytes(data))
    }

    fn string(&self, addr: u64) -> String {
        self.memory.string(addr).map_or_else(|| address(addr), |text| quoted(&text))
    }
    fn push_buffer(&self, addr: u64, len: u64, out: &mut Text) {
        let mut data = [0; SHOWN];
        let shown = &mut data[..len.min(SHOWN as u64) as usize];
        match self.read(addr, shown) {
            true => push_quoted(out, shown, len as usize),
            false => push_address(out, addr),
        }
    }
    pub(crate) fn buffer(&self, addr: u64, len: u64) -> String {
        let mut text = Text::default();
        self.push_buffer(addr, len, &mut text);
        text.into_string()
    }
    /// First `limit` bytes of a vector of buffers.
    pub fn vector(&self, addr: u64, len: u64, mut limit: u64) -> String {
        let mut parts = Vec::new();
        for n in 0..len.min(SHOWN_ELEMENTS) {
            let (Some(base), Some(size)) = (self.long(addr + n * 16), self.long(addr + n * 16 + 8)) else {
                return address(addr);
            };
            let part = size.min(limit);
            limit -= part;
            parts.push(format!("{{iov_base={}, iov_len={size}}}", self.buffer(base, part)));
        }
        list(parts, len)
    }
    fn strings(&self, addr: u64) -> String {
        let mut parts = Vec::new();
        while let Some(pointer) = self.long(addr + parts.len() as u64 * 8).filter(|p| *p != 0) {
            parts.push(self.string(pointer));
        }
        list(parts, 0)
    }
    fn timespec(&self, addr: u64) -> String {
        match (self.long(addr), self.long(addr + 8)) {
            (Some(sec), Some(nsec)) => format!("{{tv_sec={}, tv_nsec={nsec}}}", sec as i64),
            _ => address(addr),
        }
    }
    pub(crate) fn signal_set(&self, addr: u64) -> String {
        let Some(set) = self.long(addr) else { return address(addr) };
        let (set, open) = if set.count_ones() > 32 { (!set, "~[") } else { (set, "[") };
        let named: Vec<String> = (1..=64).filter(|n| set >> (n - 1) & 1 != 0).map(names::signal).collect();
        format!("{open}{}]", named.join(" "))
    }
    fn push_poll_fds(&self, addr: u64, len: u64, out: &mut Text) {
        let begin = out.len();
        out.push('[');
        let shown = len.min(SHOWN_ELEMENTS);
        for n in 0..shown {
            let Some(descriptor) = self.long(addr + n * 8) else {
                out.truncate(begin);
                return push_address(out, addr);
            };
            let (fd, events) = (descriptor as u32, descriptor >> 32);
            out.push_str(if n > 0 { ", {fd=" } else { "{fd=" });
            push_signed(out, i64::from(fd as i32));
            out.push_str(", events=");
            names::push_flags(out, names::POLL, events & 0xffff);
            if count(self.result).is_some_and(|n| n > 0) && events >> 16 != 0 {
                out.push_str(", revents=");
                names::push_flags(out, names::POLL, events >> 16);
            }
            out.push('}');
        }
        out.push_str(if len > shown { ", ...]" } else { "]" });
    }
    fn epoll_events(&self, addr: u64, len: u64) -> String {
        let mut parts = Vec::new();
        for n in 0..len.min(SHOWN_ELEMENTS) {
            let (Some(events), Some(data)) = (self.word(addr + n * 12), self.long(addr + n * 12 + 4)) else {
                return address(addr);
            };
            let events = names::flags(names::EPOLL, u64::from(events));
            parts.push(format!("{{events={events}, data={data:#x}}}"));
        }
        list(parts, len)
    }
    pub(crate) fn socket_address(&self, addr: u64, len: u64) -> String {
        let mut text = Text::default();
        self.push_socket_address(addr, len, &mut text);
        text.into_string()
    }
    fn push_socket_address(&self, addr: u64, len: u64, out: &mut Text) {
        let mut data = [0; 128];
        let data = &mut data[..len.min(128) as usize];
        if data.len() < 2 || !self.read(addr, data) {
            return push_address(out, addr);
        }
        let family = i32::from(u16::from_le_bytes([data[0], data[1]]));
        let port = || u64::from(u16::from_be_bytes([data[2], data[3]]));
        out.push_str("{sa_family=");
        match family {
            c::AF_INET if data.len() >= 8 => {
                out.push_str("AF_INET, ");
                push_ipv4(out, [data[4], data[5], data[6], data[7]]);
                out.push(':');
                push_unsigned(out, port());
            }
            c::AF_INET6 if data.len() >= 24 => {
                let octets: [u8; 16] = data[8..24].try_into().expect("sixteen bytes");
                let _ = write!(out, "AF_INET6, [{}]:{}", Ipv6Addr::from(octets), port());
            }
            c::AF_UNIX => {
                let name = &data[2..];
                let end = name.iter().skip(1).position(|b| *b == 0).map_or(name.len(), |at| at + 1);
                out.push_str("AF_UNIX, sun_path=");
                push_quoted(out, &name[..end], end);
            }
            _ => out.push_str(&names::one_of(names::FAMILY, family as u64)),
        }
        out.push('}');
    }
}

pub fn address(value: u64) -> String {
    if value == 0 { "NULL".into() } else { format!("{value:#x}") }
}

/// Bracketed list; an ellipsis if `len` exceeds the number of parts.
fn list(parts: Vec<String>, len: u64) -> String {
    let dots = if len > parts.len() as u64 { ", ..." } else { "" };
    format!("[{}{dots}]", parts.join(", "))
}

fn quoted(data: &[u8]) -> String {
    let mut text = Text::default();
    push_quoted(&mut text, data, data.len());
    text.into_string()
}
