//! Helpers: protocols that announce further connections in their payload, so that these are expected.
//!
//! A helper acts on connections that a rule assigned it to ([`Conntrack::set_helper`], [`Template::helper`](crate::Template)), never by
//! itself, as on Linux since 6.0.

mod ftp;
mod tftp;

pub(crate) use ftp::FtpState;

use crate::conn::{ConnKey, CtInfo, CtStatus};
use crate::conntrack::{Conntrack, TrackContext, TrackVerdict};
use crate::parse::Datagram;
use crate::tuple::protocol;

/// Helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Helper {
    /// File transfer protocol (RFC 959, RFC 2428): data connections.
    Ftp,
    /// Trivial file transfer protocol (RFC 1350): the server's port of a transfer.
    Tftp,
}

impl Helper {
    /// All helpers.
    pub const ALL: [Helper; 2] = [Helper::Ftp, Helper::Tftp];

    /// Name in rules and listings.
    pub const fn name(self) -> &'static str {
        match self {
            Helper::Ftp => "ftp",
            Helper::Tftp => "tftp",
        }
    }

    /// Helper of a name.
    pub fn by_name(name: &str) -> Option<Helper> {
        Helper::ALL.into_iter().find(|helper| helper.name() == name)
    }

    /// Transport protocol of the connections that it helps.
    pub const fn protocol(self) -> u8 {
        match self {
            Helper::Ftp => protocol::TCP,
            Helper::Tftp => protocol::UDP,
        }
    }

    /// Number of expectations that a connection may have, and the seconds that each lasts.
    pub(crate) const fn policy(self) -> (usize, u32) {
        match self {
            Helper::Ftp => (1, 300),
            Helper::Tftp => (1, 300),
        }
    }
}

impl Conntrack {
    /// Calls the helper of a packet's connection, then adjusts TCP's sequence numbers for changes that it has
    /// made.
    pub(crate) fn help(
        &mut self,
        packet: &mut Vec<u8>,
        key: ConnKey,
        info: CtInfo,
        context: &TrackContext,
    ) -> TrackVerdict {
        let Some(datagram) = Datagram::parse(packet) else { return TrackVerdict::Accept };
        let Some(conn) = self.table.get(key) else { return TrackVerdict::Accept };
        if datagram.protocol != conn.original().protocol {
            return TrackVerdict::Accept;
        }
        let adjusts = conn.is(CtStatus::SEQ_ADJUST);
        let verdict = match conn.helper {
            Some(Helper::Ftp) => self.help_ftp(packet, &datagram, key, info, context.now),
            Some(Helper::Tftp) => self.help_tftp(packet, &datagram, key, info, context.now),
            None => TrackVerdict::Accept,
        };
        if verdict == TrackVerdict::Accept && adjusts {
            self.adjust_sequence(packet, key, info);
        }
        verdict
    }
}
