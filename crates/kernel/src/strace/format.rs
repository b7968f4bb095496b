//! Arguments as text.

use super::Traced;
use super::names;
use super::signatures::Arg;
use super::structs::Struct;
use crate::host::Host;
use belljar_linux_abi::c;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

/// How much of a buffer or string is shown, as strace's default.
const SHOWN: usize = 32;
/// How many elements of an array are shown.
const SHOWN_ELEMENTS: u64 = 8;

/// Collects the arguments of one call.
pub struct Formatter<'a> {
    /// The host whose guest called.
    pub host: &'a Host,
    /// The call.
    pub traced: &'a Traced,
    /// What RAX holds, if the call has ended.
    pub result: Option<u64>,
    /// The text so far.
    pub text: String,
}

/// The value of a call that has succeeded.
pub fn result(name: &str, value: u64) -> String {
    match name {
        "mmap" | "brk" | "mremap" | "shmat" => format!("{value:#x}"),
        _ => (value as i64).to_string(),
    }
}

/// A result that is no error, as a count.
fn count(result: Option<u64>) -> Option<u64> {
    result.filter(|value| (*value as i64) >= 0)
}

impl Formatter<'_> {
    /// Appends all arguments.
    pub fn arguments(&mut self, signature: &[Arg]) {
        for (n, arg) in signature.iter().enumerate() {
            if n > 0 {
                self.text.push_str(", ");
            }
            let shown = self.argument(*arg, self.traced.args[n]);
            self.text.push_str(&shown);
        }
    }

    fn argument(&self, arg: Arg, value: u64) -> String {
        let args = &self.traced.args;
        match arg {
            Arg::Fd | Arg::Int => (value as i32).to_string(),
            Arg::DirFd if value as i32 == c::AT_FDCWD => "AT_FDCWD".into(),
            Arg::DirFd => (value as i32).to_string(),
            Arg::Size => value.to_string(),
            Arg::OpenFlags if value as i32 & c::O_ACCMODE == c::O_RDONLY => {
                match names::flags(names::OPEN, value) {
                    none if none == "0" => "O_RDONLY".into(),
                    others => format!("O_RDONLY|{others}"),
                }
            }
            Arg::OpenFlags => names::flags(names::OPEN, value),
            Arg::Mode => format!("{:#o}", value as u32),
            Arg::Flags(list) => names::flags(list, value),
            Arg::OneOf(list) => names::one_of(list, value),
            Arg::Signal => names::signal(value as i32),
            Arg::Hex | Arg::Word => address(value),
            _ if value == 0 => "NULL".into(),
            Arg::Path => self.string(value),
            Arg::In(len) => self.buffer(value, args[len]),
            Arg::Out => count(self.result).map_or_else(|| address(value), |len| self.buffer(value, len)),
            Arg::InVector(len) => self.vector(value, args[len], u64::MAX),
            Arg::OutVector(len) => match count(self.result) {
                Some(filled) => self.vector(value, args[len], filled),
                None => address(value),
            },
            Arg::Address(len) => self.socket_address(value, args[len]),
            Arg::AddressOut(len) => match (count(self.result), self.word(args[len])) {
                (Some(_), Some(len)) => self.socket_address(value, u64::from(len)),
                _ => address(value),
            },
            Arg::Timespec => self.timespec(value),
            Arg::TimespecOut if count(self.result).is_some() => self.timespec(value),
            Arg::TimespecOut => address(value),
            Arg::Strings => self.strings(value),
            Arg::PollFds(len) => self.poll_fds(value, args[len]),
            Arg::FdPair => match (count(self.result), self.word(value), self.word(value + 4)) {
                (Some(_), Some(a), Some(b)) => format!("[{a}, {b}]"),
                _ => address(value),
            },
            Arg::SignalSet => self.signal_set(value),
            Arg::Struct(what) => self.structure(what, value),
            Arg::StructOut(what) if count(self.result).is_some() => self.structure(what, value),
            Arg::StructOut(_) => address(value),
            Arg::StatusOut => match count(self.result) {
                // wait(2) has stored something only if it has found a child.
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
        }
    }

    pub fn bytes(&self, addr: u64, len: usize) -> Option<Vec<u8>> {
        let mut data = vec![0; len];
        self.host.read_guest(self.traced.process, addr, &mut data).ok()?;
        Some(data)
    }
    pub fn word(&self, addr: u64) -> Option<u32> {
        let data = self.bytes(addr, 4)?;
        Some(u32::from_le_bytes(data.try_into().ok()?))
    }
    pub fn long(&self, addr: u64) -> Option<u64> {
        let data = self.bytes(addr, 8)?;
        Some(u64::from_le_bytes(data.try_into().ok()?))
    }

    fn string(&self, addr: u64) -> String {
        let read = self.host.read_guest_string(
            self.traced.process,
            addr,
            crate::guest::PATH_MAX,
            belljar_linux_abi::Errno::ENAMETOOLONG,
        );
        read.map_or_else(|_| address(addr), |text| quoted(&text, text.len()))
    }
    pub fn buffer(&self, addr: u64, len: u64) -> String {
        let shown = len.min(SHOWN as u64) as usize;
        self.bytes(addr, shown).map_or_else(|| address(addr), |data| quoted(&data, len as usize))
    }
    /// The first `limit` bytes of a vector of buffers.
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
    pub fn signal_set(&self, addr: u64) -> String {
        let Some(set) = self.long(addr) else { return address(addr) };
        let (set, open) = if set.count_ones() > 32 { (!set, "~[") } else { (set, "[") };
        let named: Vec<String> = (1..=64).filter(|n| set >> (n - 1) & 1 != 0).map(names::signal).collect();
        format!("{open}{}]", named.join(" "))
    }
    fn poll_fds(&self, addr: u64, len: u64) -> String {
        let mut parts = Vec::new();
        for n in 0..len.min(SHOWN_ELEMENTS) {
            let (Some(fd), Some(events)) = (self.word(addr + n * 8), self.word(addr + n * 8 + 4)) else {
                return address(addr);
            };
            let wanted = names::flags(names::POLL, u64::from(events & 0xffff));
            let mut part = format!("{{fd={}, events={wanted}", fd as i32);
            if count(self.result).is_some_and(|n| n > 0) && events >> 16 != 0 {
                let _ = write!(part, ", revents={}", names::flags(names::POLL, u64::from(events >> 16)));
            }
            part.push('}');
            parts.push(part);
        }
        list(parts, len)
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
    pub fn socket_address(&self, addr: u64, len: u64) -> String {
        let Some(data) = self.bytes(addr, len.min(128) as usize).filter(|data| data.len() >= 2) else {
            return address(addr);
        };
        let family = i32::from(u16::from_le_bytes([data[0], data[1]]));
        let port = || u16::from_be_bytes([data[2], data[3]]);
        match family {
            c::AF_INET if data.len() >= 8 => {
                let ip = Ipv4Addr::new(data[4], data[5], data[6], data[7]);
                format!("{{sa_family=AF_INET, {ip}:{}}}", port())
            }
            c::AF_INET6 if data.len() >= 24 => {
                let octets: [u8; 16] = data[8..24].try_into().expect("sixteen bytes");
                format!("{{sa_family=AF_INET6, [{}]:{}}}", Ipv6Addr::from(octets), port())
            }
            c::AF_UNIX => {
                let name = &data[2..];
                let end = name.iter().skip(1).position(|b| *b == 0).map_or(name.len(), |at| at + 1);
                format!("{{sa_family=AF_UNIX, sun_path={}}}", quoted(&name[..end], end))
            }
            _ => format!("{{sa_family={}}}", names::one_of(names::FAMILY, family as u64)),
        }
    }
}

pub fn address(value: u64) -> String {
    if value == 0 { "NULL".into() } else { format!("{value:#x}") }
}

/// Parts in brackets, with dots if there are more than that.
fn list(parts: Vec<String>, len: u64) -> String {
    let dots = if len > parts.len() as u64 { ", ..." } else { "" };
    format!("[{}{dots}]", parts.join(", "))
}

/// Text in quotes with strace's escapes, dots if it is part of something longer.
fn quoted(data: &[u8], len: usize) -> String {
    let mut text = String::from("\"");
    for byte in data {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x20..0x7f => text.push(char::from(*byte)),
            _ => {
                let _ = write!(text, "\\{byte:o}");
            }
        }
    }
    text.push('"');
    if len > data.len() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_as_strace_does() {
        assert_eq!(quoted(b"a\n\"b\\\x01\xff", 6), r#""a\n\"b\\\1\377""#);
        assert_eq!(quoted(b"abc", 9), "\"abc\"...");
    }
}
