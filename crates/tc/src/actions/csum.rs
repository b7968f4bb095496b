//! `csum`: computes checksums anew (`net/sched/act_csum.c`, tc-csum(8)).

use super::{Counts, checked, general};
use crate::attributes::{Attributes, Out, word};
use crate::buffer::Buffer;
use crate::error::TcError;
use belljar_linux_abi::Errno;
use belljar_wire::checksum;

const PARMS: u16 = 1;
const TM: u16 = 2;
/// `TCA_CSUM_UPDATE_FLAG_*`.
const IPV4_HEADER: u32 = 1;
const ICMP: u32 = 2;
const IGMP: u32 = 4;
const TCP: u32 = 8;
const UDP: u32 = 16;

/// Checksums to be computed.
#[derive(Debug)]
pub(crate) struct Csum {
    action: i32,
    flags: u32,
}

impl Csum {
    pub(super) fn new(options: Attributes<'_>) -> Result<Csum, TcError> {
        let parms = options.array::<24>(PARMS)?.ok_or(Errno::EINVAL)?;
        let flags = word(&parms, 20);
        if flags & !(IPV4_HEADER | ICMP | IGMP | TCP | UDP) != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        Ok(Csum { action: checked(word(&parms, 8))?, flags })
    }
    pub(super) fn execute(&self, buffer: &mut Buffer) -> i32 {
        let (network, protocol) = (buffer.network_offset(), buffer.ip_protocol());
        let Some(transport) = buffer.transport_offset() else { return self.action };
        let v4 = buffer.network().first().is_some_and(|first| first >> 4 == 4);
        let bytes = &mut buffer.packet.bytes_mut()[network..];
        let wanted = match protocol {
            Some(1 | 58) => ICMP,
            Some(2) => IGMP,
            Some(6) => TCP,
            Some(17) => UDP,
            _ => 0,
        };
        if self.flags & wanted & (TCP | UDP) != 0 {
            checksum::fill_transport(bytes);
        } else if self.flags & wanted != 0 && v4 && bytes.len() >= transport + 4 {
            bytes[transport + 2..transport + 4].fill(0);
            let sum = checksum::internet(&bytes[transport..]);
            bytes[transport + 2..transport + 4].copy_from_slice(&sum.to_be_bytes());
        }
        if self.flags & IPV4_HEADER != 0 && v4 && bytes.len() >= transport && transport >= 20 {
            bytes[10..12].fill(0);
            let sum = checksum::internet(&bytes[..transport]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        self.action
    }
    pub(super) fn dump(&self, counts: Counts, times: &[u8], out: &mut Out) {
        let mut parms = general(counts, self.action);
        parms.extend(self.flags.to_ne_bytes());
        out.put(PARMS, &parms);
        out.put(TM, times);
    }
}
