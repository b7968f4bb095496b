//! Fields of messages: little-endian numbers at fixed offsets.

/// Bytes of a message before its body.
pub const HEADER: usize = 48;

/// A header to read from or write to.
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
/// Writes a field that lies within the bytes.
pub(crate) fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}
