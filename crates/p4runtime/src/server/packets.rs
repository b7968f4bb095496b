//! Packet-in and packet-out headers, as described by P4Info.

use crate::bytestring;
use crate::proto::{PacketIn, PacketMetadata, PacketOut};
use crate::refusal::Refusal;
use belljar_p4info::Parameter;

/// Prepends the packet-out header to a packet of a controller.
pub fn packet_out(header: Option<&[Parameter]>, packet: &PacketOut) -> Result<Vec<u8>, Refusal> {
    let header = header.unwrap_or_default();
    if let Some(unknown) =
        packet.metadata.iter().find(|given| header.iter().all(|field| field.id != given.metadata_id))
    {
        return Err(Refusal::invalid(format!("packet_out has no field {}", unknown.metadata_id)));
    }
    let mut frame = vec![0; bytes(header)];
    let mut at = 0;
    for field in header {
        let mut given = packet.metadata.iter().filter(|given| given.metadata_id == field.id);
        let (Some(value), None) = (given.next(), given.next()) else {
            return Err(Refusal::invalid(format!("field '{}' of packet_out must be given once", field.name)));
        };
        let value = bytestring::unsigned(&value.value, field.width);
        let value = value.map_err(|refusal| {
            Refusal::invalid(refusal.message).at(&format!("field '{}' of packet_out", field.name))
        })?;
        at += field.width as usize;
        put(&mut frame, at, &value);
    }
    frame.extend_from_slice(&packet.payload);
    Ok(frame)
}

/// Strips the packet-in header from a packet; `None` if the packet is shorter than the header.
pub fn packet_in(header: Option<&[Parameter]>, frame: &[u8]) -> Option<PacketIn> {
    let header = header.unwrap_or_default();
    let payload = frame.get(bytes(header)..)?.to_vec();
    let mut at = 0;
    let metadata = header.iter().map(|field| {
        let from = at;
        at += field.width as usize;
        PacketMetadata { metadata_id: field.id, value: get(frame, from, at) }
    });
    Some(PacketIn { metadata: metadata.collect(), payload })
}

/// Length of a header in bytes.
fn bytes(header: &[Parameter]) -> usize {
    header.iter().map(|field| field.width as usize).sum::<usize>().div_ceil(8)
}

/// Writes a number that ends before bit `end`.
fn put(frame: &mut [u8], end: usize, value: &[u8]) {
    for bit in 0..bytestring::bits(value) as usize {
        if value[value.len() - 1 - bit / 8] >> (bit % 8) & 1 == 1 {
            let at = end - 1 - bit;
            frame[at / 8] |= 0x80 >> (at % 8);
        }
    }
}

/// Reads the bits from `from` up to `end` as a number in its shortest form.
fn get(frame: &[u8], from: usize, end: usize) -> Vec<u8> {
    let width = end - from;
    let mut value = vec![0; width.div_ceil(8)];
    for bit in 0..width {
        let at = end - 1 - bit;
        if frame[at / 8] & 0x80 >> (at % 8) != 0 {
            let byte = value.len() - 1 - bit / 8;
            value[byte] |= 1 << (bit % 8);
        }
    }
    bytestring::shortest(&value).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_width() {
        let field = |id, width| Parameter { id, name: format!("f{id}"), width };
        let header = [field(1, 9), field(2, 7), field(3, 48)];
        let metadata = |values: [&[u8]; 3]| {
            let one = |(id, value): (usize, &&[u8])| PacketMetadata {
                metadata_id: id as u32 + 1,
                value: value.to_vec(),
            };
            values.iter().enumerate().map(one).collect::<Vec<_>>()
        };
        let packet = PacketOut {
            payload: vec![0xab],
            metadata: metadata([&[1, 0x01], &[0x7f], &[0, 1, 2, 3, 4, 5, 6]]),
        };
        let frame = packet_out(Some(&header), &packet).unwrap();
        assert_eq!(frame, [0x80, 0xff, 1, 2, 3, 4, 5, 6, 0xab]);
        let back = packet_in(Some(&header), &frame).unwrap();
        assert_eq!(back.metadata, metadata([&[1, 0x01], &[0x7f], &[1, 2, 3, 4, 5, 6]]));
        assert_eq!(back.payload, [0xab]);
        assert_eq!(packet_in(Some(&header), &frame[..7]), None);
        for (metadata, error) in [
            (
                metadata([&[2, 0], &[0], &[0]]),
                "field 'f1' of packet_out: the value needs 10 bits; there are 9",
            ),
            (metadata([&[2], &[0], &[0]])[..2].to_vec(), "field 'f3' of packet_out must be given once"),
            (vec![PacketMetadata { metadata_id: 9, value: vec![1] }], "packet_out has no field 9"),
        ] {
            let refusal =
                packet_out(Some(&header), &PacketOut { payload: Vec::new(), metadata }).unwrap_err();
            assert_eq!(refusal.message, error);
        }
    }
}
