//! Little-endian message fields at fixed offsets.

/// Length of a message header in bytes.
pub const HEADER: usize = 48;

/// Message header.
pub type Header = [u8; HEADER];

pub(crate) fn get<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let field = bytes.get(at..at + N).and_then(|field| field.try_into().ok());
    field.unwrap_or([0; N])
}
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(get(bytes, at))
}
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(get(bytes, at))
}
pub(crate) fn get_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(get(bytes, at))
}
/// Writes a field inside `bytes`.
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
