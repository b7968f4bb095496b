//! Fields of the structures of xtables, in the byte order of the host.

use crate::attributes::NetfilterError;
use belljar_linux_abi::Errno;

/// Structure of an extension. Reading past its end is `EINVAL`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    pub(super) fn bytes<const N: usize>(self, at: usize) -> Result<[u8; N], NetfilterError> {
        let found = self.0.get(at..).and_then(|rest| rest.first_chunk());
        found.copied().ok_or(Errno::EINVAL.into())
    }
    pub(super) fn u8(self, at: usize) -> Result<u8, NetfilterError> {
        Ok(self.bytes::<1>(at)?[0])
    }
    pub(super) fn u16(self, at: usize) -> Result<u16, NetfilterError> {
        Ok(u16::from_ne_bytes(self.bytes(at)?))
    }
    pub(super) fn u32(self, at: usize) -> Result<u32, NetfilterError> {
        Ok(u32::from_ne_bytes(self.bytes(at)?))
    }
    pub(super) fn u64(self, at: usize) -> Result<u64, NetfilterError> {
        Ok(u64::from_ne_bytes(self.bytes(at)?))
    }
    /// Text of at most `len` bytes, up to its first zero byte.
    pub(super) fn text(self, at: usize, len: usize) -> Result<&'a str, NetfilterError> {
        let bytes = self.0.get(at..at + len).ok_or(NetfilterError::from(Errno::EINVAL))?;
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(len);
        str::from_utf8(&bytes[..end]).map_err(|_| Errno::EINVAL.into())
    }
}
