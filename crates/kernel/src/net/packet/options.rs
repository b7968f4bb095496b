//! Options of level `SOL_PACKET`.

use crate::call::Call;
use crate::ids::SocketKey;
use crate::net::own::OwnKind;
use belljar_linux_abi::{Errno, c};
use belljar_linux_net::offload;
use belljar_linux_net::options::{Value, int, to_int};
use belljar_objects::packet_fanout::FanoutChoice;
use belljar_objects::packet_ring::{RingRequest, RingVersion};

const ADD_MEMBERSHIP: i32 = 1;
const DROP_MEMBERSHIP: i32 = 2;
const RX_RING: i32 = 5;
const STATISTICS: i32 = 6;
const COPY_THRESH: i32 = 7;
const AUXDATA: i32 = 8;
const ORIGDEV: i32 = 9;
const VERSION: i32 = 10;
const HDRLEN: i32 = 11;
const RESERVE: i32 = 12;
const TX_RING: i32 = 13;
const LOSS: i32 = 14;
const VNET_HDR: i32 = 15;
const TX_TIMESTAMP: i32 = 16;
const TIMESTAMP: i32 = 17;
const FANOUT: i32 = 18;
const TX_HAS_OFF: i32 = 19;
const QDISC_BYPASS: i32 = 20;
const IGNORE_OUTGOING: i32 = 23;
const VNET_HDR_SZ: i32 = 24;
/// `sizeof(struct virtio_net_hdr_mrg_rxbuf)`, the other valid length of the header.
const MERGEABLE: i32 = 12;
/// `PACKET_MR_*`.
const MULTICAST: u16 = 0;
pub(super) const PROMISCUOUS: u16 = 1;
pub(super) const ALL_GROUPS: u16 = 2;
const UNICAST: u16 = 3;
/// Length of a `struct packet_mreq` in bytes.
const MREQ_LEN: usize = 16;

/// `setsockopt(2)`.
pub fn set_option(call: &mut Call<'_>, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    match name {
        ADD_MEMBERSHIP | DROP_MEMBERSHIP => return membership(call, key, name, value),
        RX_RING | TX_RING => {
            let request = RingRequest::parse(call.host.own.packet(key).rings.version(), value)?;
            return call.host.set_ring(key, name == TX_RING, request);
        }
        _ => {}
    }
    let number = to_int(value)?;
    let packet = call.host.own.packet(key);
    match name {
        AUXDATA => packet.auxdata = number != 0,
        IGNORE_OUTGOING => match number {
            0 | 1 => packet.ignore_outgoing = number != 0,
            _ => return Err(Errno::EINVAL),
        },
        VERSION => {
            let version = RingVersion::from_number(number).ok_or(Errno::EINVAL)?;
            packet.rings.set_version(version)?;
        }
        RESERVE => packet.rings.set_reserve(number)?,
        COPY_THRESH | ORIGDEV | LOSS | TX_TIMESTAMP | TIMESTAMP | QDISC_BYPASS | TX_HAS_OFF => {
            packet.kept.retain(|(kept, _)| *kept != name);
            packet.kept.push((name, number));
        }
        FANOUT => {
            let max = value.get(4..8).map_or(Ok(0), |max| to_int(max).map(|max| max as u32))?;
            if FanoutChoice::of_value(number as u32).is_none() {
                call.host.warn("PACKET_FANOUT by programs (CBPF, EBPF) is not supported");
                return Err(Errno::EINVAL);
            }
            let (packet, fanouts) = call.host.own.packet_and_groups(key);
            let network = call.host.net.socket(key).network;
            return fanouts.join(network, (key, packet), number as u32, max);
        }
        VNET_HDR | VNET_HDR_SZ => {
            let len = match (name, number) {
                (_, 0) => 0,
                (VNET_HDR, _) => offload::HEADER_LEN,
                (_, number) if number as usize == offload::HEADER_LEN || number == MERGEABLE => {
                    number as usize
                }
                _ => return Err(Errno::EINVAL),
            };
            if packet.rings.has_receiver() || packet.rings.has_sender() {
                return Err(Errno::EBUSY);
            }
            packet.offload = len;
            if call.host.net.socket(key).type_ != c::SOCK_RAW {
                call.host.own.packet(key).offload = 0;
                return Err(Errno::EINVAL);
            }
        }
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Adds or drops a membership: `struct packet_mreq` with index, type, address length and address.
fn membership(call: &mut Call<'_>, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    let request = value.get(..MREQ_LEN).ok_or(Errno::EINVAL)?;
    let index = u32::from_ne_bytes(request[..4].try_into().expect("four bytes"));
    let kind = u16::from_ne_bytes([request[4], request[5]]);
    let len = usize::from(u16::from_ne_bytes([request[6], request[7]]));
    let address = request[8..].get(..len).ok_or(Errno::EINVAL)?.to_vec();
    if !matches!(kind, MULTICAST | PROMISCUOUS | ALL_GROUPS | UNICAST) {
        return Err(Errno::EINVAL);
    }
    let network = call.host.net.socket(key).network;
    let interface = call.host.stack(network).interfaces.by_index(index);
    let memberships = &mut call.host.own.packet(key).memberships;
    if name == ADD_MEMBERSHIP {
        memberships.push((interface.ok_or(Errno::ENODEV)?, kind, address));
        return Ok(());
    }
    let entry = interface.map(|interface| (interface, kind, address));
    let at = entry.and_then(|entry| memberships.iter().position(|other| *other == entry));
    if let Some(at) = at {
        memberships.remove(at);
    }
    Ok(())
}

/// `getsockopt(2)`; `at` is the address of the value, which is read as an argument by `PACKET_HDRLEN`.
pub fn get_option(call: &mut Call<'_>, key: SocketKey, name: i32, at: u64) -> Result<Value, Errno> {
    let Some(OwnKind::Packet(packet)) = call.host.own.get_mut(key) else {
        return Err(Errno::ENOPROTOOPT);
    };
    Ok(match name {
        STATISTICS => {
            let (packets, drops) = (std::mem::take(&mut packet.packets), std::mem::take(&mut packet.drops));
            let mut value: Value = packets.to_ne_bytes().into_iter().chain(drops.to_ne_bytes()).collect();
            if packet.rings.version() == RingVersion::V3 {
                value.extend_from_slice(&packet.rings.take_freezes().to_ne_bytes());
            }
            value
        }
        AUXDATA => int(packet.auxdata.into()),
        IGNORE_OUTGOING => int(packet.ignore_outgoing.into()),
        VERSION => int(packet.rings.version() as i32),
        RESERVE => int(packet.rings.reserve() as i32),
        HDRLEN => {
            let number: i32 = call.read(at)?;
            let version = RingVersion::from_number(number).ok_or(Errno::EINVAL)?;
            int(version.packet_header_len() as i32)
        }
        COPY_THRESH | ORIGDEV | LOSS | TX_TIMESTAMP | TIMESTAMP | QDISC_BYPASS | TX_HAS_OFF => {
            int(packet.kept.iter().find(|(kept, _)| *kept == name).map_or(0, |(_, number)| *number))
        }
        VNET_HDR => int((packet.offload > 0).into()),
        VNET_HDR_SZ => int(packet.offload as i32),
        FANOUT => {
            let (packet, fanouts) = call.host.own.packet_and_groups(key);
            int(fanouts.value(packet) as i32)
        }
        _ => return Err(Errno::ENOPROTOOPT),
    })
}
