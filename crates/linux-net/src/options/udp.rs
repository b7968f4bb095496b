//! Levels `SOL_UDP` and `SOL_UDPLITE`, udp(7), udplite(7) (`include/uapi/linux/udp.h`, `net/udplite.h`).

use super::{Value, flag, int, to_int};
use belljar_linux_abi::{Errno, c};
use belljar_netstack::SocketKey;
use belljar_netstack::Stack;
use belljar_netstack::udp::UDP_ENCAP_ESPINUDP;
use belljar_netstack::udp::{Coverage, Protocol, UDP_GRO, UDP_SEGMENT, UdpSocket};

const UDPLITE_SEND_CSCOV: i32 = 10;
const UDPLITE_RECV_CSCOV: i32 = 11;
const UDP_ENCAP: i32 = 100;
const UDP_NO_CHECK6_TX: i32 = 101;
const UDP_NO_CHECK6_RX: i32 = 102;
/// `UDP_ENCAP` value for L2TP.
const UDP_ENCAP_L2TPINUDP: i32 = 3;

/// Sets an option of this level.
pub fn set(net: &mut Stack, key: SocketKey, name: i32, value: &[u8]) -> Result<(), Errno> {
    let number = to_int(value)?;
    let udp = net.sockets.udp(key);
    match name {
        c::UDP_CORK => {
            udp.cork = number != 0;
            return if udp.cork { Ok(()) } else { net.udp_uncork(key) };
        }
        UDPLITE_SEND_CSCOV if udp.protocol == Protocol::Lite => {
            udp.coverage.send = Some(Coverage::from_option(number));
        }
        UDPLITE_RECV_CSCOV if udp.protocol == Protocol::Lite => {
            udp.coverage.receive = Some(Coverage::from_option(number));
        }
        UDP_ENCAP if matches!(number, 0 | UDP_ENCAP_ESPINUDP | UDP_ENCAP_L2TPINUDP) => {
            udp.encapsulation = number;
        }
        UDP_SEGMENT => udp.segment = u16::try_from(number).map_err(|_| Errno::EINVAL)?,
        UDP_GRO => udp.joins = number != 0,
        UDP_NO_CHECK6_TX => udp.no_check6.0 = number != 0,
        UDP_NO_CHECK6_RX => udp.no_check6.1 = number != 0,
        _ => return Err(Errno::ENOPROTOOPT),
    }
    Ok(())
}

/// Gets an option of this level.
pub fn get(udp: &UdpSocket, name: i32) -> Result<Value, Errno> {
    match name {
        c::UDP_CORK => Ok(flag(udp.cork)),
        UDP_ENCAP => Ok(int(udp.encapsulation)),
        UDP_SEGMENT => Ok(int(udp.segment.into())),
        UDP_GRO => Ok(flag(udp.joins)),
        UDP_NO_CHECK6_TX => Ok(flag(udp.no_check6.0)),
        UDP_NO_CHECK6_RX => Ok(flag(udp.no_check6.1)),
        // UDP has the options too; its checksum always covers the whole datagram.
        UDPLITE_SEND_CSCOV => Ok(int(udp.coverage.send.unwrap_or(0).into())),
        UDPLITE_RECV_CSCOV => Ok(int(udp.coverage.receive.unwrap_or(0).into())),
        _ => Err(Errno::ENOPROTOOPT),
    }
}
