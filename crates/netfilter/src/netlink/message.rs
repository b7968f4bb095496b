//! Messages of `NETLINK_NETFILTER`: requests, replies, acknowledgments. Each has `struct nfgenmsg` after its
//! header.

use crate::attributes::{Attributes, NetfilterError, Writer};
use crate::family::TableFamily;

/// Length of `struct nlmsghdr` in bytes.
pub(crate) const HEADER: usize = 16;
/// Length of `struct nfgenmsg` in bytes.
pub(crate) const GENERIC: usize = 4;

/// `NLM_F_*`.
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 1;
    pub(crate) const MULTI: u16 = 2;
    pub(crate) const ACK: u16 = 4;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const REPLACE: u16 = 0x100;
    pub(crate) const EXCL: u16 = 0x200;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
    /// In deletions.
    pub(crate) const NONREC: u16 = 0x100;
    /// In acknowledgments.
    pub(crate) const CAPPED: u16 = 0x100;
    pub(crate) const ACK_TLVS: u16 = 0x200;
}

/// `NLMSG_ERROR`, `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// Subsystems, `NFNL_SUBSYS_*`.
pub(crate) mod subsystem {
    pub(crate) const CTNETLINK: u16 = 1;
    pub(crate) const CTNETLINK_EXP: u16 = 2;
    pub(crate) const NFTABLES: u16 = 10;
    pub(crate) const NFT_COMPAT: u16 = 11;
}

/// Netlink socket that sends requests, and its owner.
#[derive(Clone, Debug, Default)]
pub struct NetfilterSender {
    /// Port id.
    pub port: u32,
    /// `NETLINK_EXT_ACK`: errors name the attribute to blame.
    pub extended: bool,
    /// `NETLINK_CAP_ACK`: errors do not quote the request.
    pub capped: bool,
    /// True if the owner has `CAP_NET_ADMIN`.
    pub may_change: bool,
    /// Process id of the sender.
    pub process: u32,
    /// Command name of the sender.
    pub command: String,
}

/// Request: its header, its family and its attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// Complete message.
    pub(crate) whole: &'a [u8],
    /// Subsystem in the upper byte, message in the lower one.
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
}

impl<'a> Message<'a> {
    /// Splits the first message off `bytes`; `None` at the end or if it is malformed.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Message<'a>, &'a [u8])> {
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let len = word(0)? as usize;
        let (kind, sequence) = (word(4)?, word(8)?);
        if len < HEADER || len > bytes.len() {
            return None;
        }
        let message =
            Message { whole: &bytes[..len], kind: kind as u16, flags: (kind >> 16) as u16, sequence };
        Some((message, &bytes[len.next_multiple_of(4).min(bytes.len())..]))
    }
    /// The subsystem.
    pub(crate) fn subsystem(&self) -> u16 {
        self.kind >> 8
    }
    /// The number of the message in its subsystem.
    pub(crate) fn number(&self) -> u8 {
        self.kind as u8
    }
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
    /// `nfgen_family`, if the message has one.
    pub(crate) fn family(&self) -> u8 {
        self.whole.get(HEADER).copied().unwrap_or(0)
    }
    /// `res_id` of the family header, in network byte order.
    pub(crate) fn resource(&self) -> [u8; 2] {
        self.whole.get(HEADER + 2..).and_then(|rest| rest.first_chunk().copied()).unwrap_or([0; 2])
    }
    /// True if the family header is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole.len() >= HEADER + GENERIC
    }
    pub(crate) fn attributes(&self) -> Attributes<'a> {
        Attributes::of_message(self.whole, HEADER + GENERIC)
    }
}

/// Addressing of a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    pub(crate) port: u32,
    /// Low half of the generation.
    pub(crate) generation: u16,
}

impl Reply {
    /// Writes a message of nf_tables.
    pub(crate) fn message(
        self,
        number: u8,
        family: Option<TableFamily>,
        content: impl FnOnce(&mut Writer),
    ) -> Vec<u8> {
        let family = family.map_or(0, TableFamily::number);
        self.of_subsystem(subsystem::NFTABLES << 8 | u16::from(number), family, content)
    }
    /// Writes a message of a subsystem.
    pub(crate) fn of_subsystem(self, kind: u16, family: u8, content: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer(header(kind, self.flags, self.sequence, self.port));
        writer.0.extend_from_slice(&[family, 0]);
        writer.0.extend_from_slice(&self.generation.to_be_bytes());
        content(&mut writer);
        finish(writer.0)
    }
}

fn header(kind: u16, flags: u16, sequence: u32, port: u32) -> Vec<u8> {
    let mut bytes = vec![0; 4];
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&port.to_ne_bytes());
    bytes
}

fn finish(mut bytes: Vec<u8>) -> Vec<u8> {
    let len = bytes.len() as u32;
    bytes[..4].copy_from_slice(&len.to_ne_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// `NLMSG_ERROR`: an error, or with `Ok` an acknowledgment.
pub(crate) fn acknowledge(
    request: &Message<'_>,
    requester: &NetfilterSender,
    result: Result<(), NetfilterError>,
) -> Vec<u8> {
    const OFFS: u16 = 2;
    let code = result.map_or_else(|failure| -i32::from(failure.errno.0), |()| 0);
    let capped = result.is_ok() || requester.capped;
    let quoted = if capped { &request.whole[..HEADER] } else { request.whole };
    let blamed = result.err().and_then(|failure| failure.at).filter(|_| requester.extended);
    let flags = if capped { flag::CAPPED } else { 0 } | if blamed.is_some() { flag::ACK_TLVS } else { 0 };
    let mut writer = Writer(header(ERROR, flags, request.sequence, requester.port));
    writer.0.extend_from_slice(&code.to_ne_bytes());
    writer.0.extend_from_slice(quoted);
    writer.0.resize(writer.0.len().next_multiple_of(4), 0);
    if let Some(at) = blamed {
        writer.bytes(OFFS, &at.to_ne_bytes());
    }
    finish(writer.0)
}

/// `NLMSG_DONE`: the end of a dump.
pub(crate) fn done(request: &Message<'_>, requester: &NetfilterSender) -> Vec<u8> {
    let mut bytes = header(DONE, flag::MULTI, request.sequence, requester.port);
    bytes.extend_from_slice(&0i32.to_ne_bytes());
    finish(bytes)
}
