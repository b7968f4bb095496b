//! Send path of UDP sockets.

use super::{CmsgContext, NamedDestination, OutgoingDatagram, SendOptions};
use crate::call::Call;
use crate::guest::GuestReader;
use crate::ids::SocketKey;
use crate::net::message::{Attempt, OutgoingMessage};
use belljar_linux_abi::Errno;

/// Datagram whose payload is in guest memory.
struct GuestDatagram<'a> {
    message: &'a OutgoingMessage,
    /// Payload that replaces the guest memory: see [`Call::staged`].
    staged: Option<&'a [u8]>,
    memory: GuestReader<'a>,
}

impl OutgoingDatagram for GuestDatagram<'_> {
    #[inline]
    fn payload_len(&self) -> usize {
        self.message.len
    }
    #[inline]
    fn destination(&self) -> NamedDestination<'_> {
        match &self.message.name {
            Some(raw) => NamedDestination::Raw(raw),
            None => NamedDestination::Peer,
        }
    }
    #[inline]
    fn flags(&self) -> i32 {
        self.message.flags
    }
    #[inline]
    fn options(&self, by: CmsgContext) -> Result<SendOptions, Errno> {
        self.message.send_options(by)
    }
    #[inline(always)]
    fn copy_to(&self, out: &mut [u8]) -> Result<(), Errno> {
        if let Some(staged) = self.staged {
            out.copy_from_slice(&staged[..out.len()]);
            return Ok(());
        }
        let mut at = 0;
        for (addr, len) in &self.message.buffers {
            self.memory.read(*addr, &mut out[at..at + *len as usize])?;
            at += *len as usize;
        }
        Ok(())
    }
}

pub fn send(
    call: &mut Call<'_>,
    key: SocketKey,
    message: &OutgoingMessage,
    _done: usize,
) -> Result<Attempt<usize>, Errno> {
    let staged = call.staged.as_deref();
    let (memory, net) = call.host.memory_and_stack(call.process, key);
    let sent = net.udp_send(key, &GuestDatagram { message, staged, memory })?;
    Ok(sent.map_or(Attempt::Wait(key.into()), Attempt::Done))
}
