//! FTP (RFC 959, RFC 2428): data connections (`nf_conntrack_ftp.c`, `nf_nat_ftp.c`).

use crate::conn::{ConnKey, CtInfo};
use crate::conntrack::{Conntrack, TrackVerdict};
use crate::parse::Datagram;
use belljar_base::SimTime;

/// State of a control connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FtpState {
    /// Sequence numbers after recent ends of lines, by direction.
    line_ends: [[Option<u32>; 2]; 2],
}

impl Conntrack {
    pub(super) fn help_ftp(
        &mut self,
        _packet: &mut Vec<u8>,
        _datagram: &Datagram,
        _key: ConnKey,
        _info: CtInfo,
        _now: SimTime,
    ) -> TrackVerdict {
        TrackVerdict::Accept
    }

    pub(super) fn adjust_sequence(&mut self, _packet: &mut [u8], _key: ConnKey, _info: CtInfo) {}
}
