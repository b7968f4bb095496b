//! Packets of a capture file, with a one-line description of each.

use super::ReadError;
use belljar_base::SimTime;
use belljar_wire::{arp, ethernet, icmpv4, ipv4, ipv6, tcp, udp};
use pcap_file::pcap::PcapReader;
use std::io::BufReader;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

/// A packet of a capture file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Time since the start of the simulation.
    pub at: SimTime,
    /// Length on the wire in bytes.
    pub len: u32,
    /// Captured bytes.
    pub bytes: Vec<u8>,
    /// True for an Ethernet frame, false for an IP packet.
    pub ethernet: bool,
}

/// The packets of a capture file of a run whose simulated time 0 is `epoch_secs` after 1970.
pub fn packets(path: &Path, epoch_secs: u64) -> Result<Vec<CapturedPacket>, ReadError> {
    let mut packets = Vec::new();
    each_packet(path, epoch_secs, |packet| packets.push(packet))?;
    Ok(packets)
}

/// Passes the packets of a capture file, as those of [`packets`], to `sink` one by one.
pub fn each_packet(
    path: &Path,
    epoch_secs: u64,
    mut sink: impl FnMut(CapturedPacket),
) -> Result<(), ReadError> {
    let bad =
        |error: pcap_file::PcapError| ReadError::File { path: path.to_owned(), reason: error.to_string() };
    let file = belljar_inputs::open(path).map_err(|error| ReadError::io(path, &error))?;
    if file.metadata().is_ok_and(|meta| meta.len() == 0) {
        return Ok(());
    }
    let mut reader = PcapReader::new(BufReader::new(file)).map_err(bad)?;
    let ethernet = reader.header().datalink == pcap_file::DataLink::ETHERNET;
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(bad)?;
        let since = packet.timestamp.saturating_sub(Duration::from_secs(epoch_secs));
        let at = SimTime::from_nanos(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
        sink(CapturedPacket { at, len: packet.orig_len, bytes: packet.data.into_owned(), ethernet });
    }
    Ok(())
}

impl CapturedPacket {
    /// Source, destination and kind of the packet on one line, in the style of tcpdump.
    pub fn describe(&self) -> String {
        if !self.ethernet {
            return self.describe_ip(&self.bytes);
        }
        let Ok(frame) = ethernet::Frame::new_checked(&self.bytes[..]) else {
            return format!("frame of {} bytes, cut short", self.len);
        };
        match (frame.ethertype(), arp::Packet::new_checked(frame.payload())) {
            (ethernet::ethertype::IPV4 | ethernet::ethertype::IPV6, _) => self.describe_ip(frame.payload()),
            (ethernet::ethertype::ARP, Ok(arp)) if arp.operation() == 1 => {
                format!("ARP who has {}? tell {}", arp.target_protocol(), arp.sender_protocol())
            }
            (ethernet::ethertype::ARP, Ok(arp)) => {
                format!("ARP {} is at {}", arp.sender_protocol(), arp.sender_hardware())
            }
            (other, _) => format!("{} > {} type {other:#06x}, {} bytes", frame.src(), frame.dst(), self.len),
        }
    }

    fn describe_ip(&self, bytes: &[u8]) -> String {
        if let (Ok(header), Ok(upper)) = (ipv6::Repr::parse(bytes), ipv6::upper(bytes)) {
            let (payload, later) = (&bytes[upper.payload], upper.fragment.is_some_and(|f| f.offset > 0));
            let fragment = upper.fragment.map(|f| f.offset).filter(|_| later);
            return match fragment {
                Some(offset) => {
                    format!("{} > {} fragment at {offset}, {} bytes", header.src, header.dst, self.len)
                }
                None => self.describe_payload(header.src.into(), header.dst.into(), upper.protocol, payload),
            };
        }
        let Ok(ip) = ipv4::Packet::new_checked(bytes) else {
            return match bytes.first() {
                Some(first) => format!("IP version {}, {} bytes", first >> 4, self.len),
                None => format!("empty packet of {} bytes", self.len),
            };
        };
        match ip.fragment_offset() {
            0 => self.describe_payload(ip.src().into(), ip.dst().into(), ip.protocol(), ip.payload()),
            offset => format!("{} > {} fragment at {offset}, {} bytes", ip.src(), ip.dst(), self.len),
        }
    }

    fn describe_payload(&self, src: IpAddr, dst: IpAddr, protocol: u8, payload: &[u8]) -> String {
        let end = |ip: IpAddr, port: u16| SocketAddr::new(ip, port);
        match protocol {
            6 => match tcp::Packet::new_checked(payload) {
                Ok(tcp) => format!(
                    "{} > {} TCP {} seq {} ack {} win {} len {}",
                    end(src, tcp.src_port()),
                    end(dst, tcp.dst_port()),
                    tcp.flags().iter_names().map(|(name, _)| name).collect::<Vec<_>>().join("+"),
                    tcp.seq().0,
                    tcp.ack().0,
                    tcp.window(),
                    tcp.payload().len()
                ),
                Err(_) => format!("{src} > {dst} TCP, cut short"),
            },
            17 => match udp::Packet::new_checked(payload) {
                Ok(udp) => format!(
                    "{} > {} UDP len {}",
                    end(src, udp.src_port()),
                    end(dst, udp.dst_port()),
                    udp.payload().len()
                ),
                Err(_) => format!("{src} > {dst} UDP, cut short"),
            },
            58 if payload.len() >= 2 => {
                format!("{src} > {dst} ICMPv6 type {} code {}", payload[0], payload[1])
            }
            1 => match icmpv4::Packet::new_checked(payload) {
                Ok(icmp) => format!("{src} > {dst} ICMP type {} code {}", icmp.kind(), icmp.code()),
                Err(_) => format!("{src} > {dst} ICMP, cut short"),
            },
            other => format!("{src} > {dst} protocol {other}, {} bytes", self.len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaptureWriter, Writer};
    use std::fs::File;

    #[test]
    fn what_was_written_is_read_and_described() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("eth0.pcap");
        let mut writer = CaptureWriter::new(
            Writer::new(false).file(File::create(&path).unwrap()),
            946_684_800,
            65_535,
            false,
        );
        let mut datagram = Vec::new();
        let [a, b] = [[11, 0, 0, 1], [11, 0, 0, 2]].map(std::net::Ipv4Addr::from);
        datagram.resize(20, 0);
        udp::Repr::append((a.into(), 1000), (b.into(), 53), b"query", &mut datagram);
        ipv4::Repr::new(a, b, 17, datagram.len() - 20).emit(&mut datagram[..20]);
        writer.write(SimTime::from_nanos(1_500), &datagram);
        writer.write(SimTime::from_secs(2), &[0x60, 0, 0, 0]);
        writer.finish().unwrap();
        let read = packets(&path, 946_684_800).unwrap();
        assert_eq!((read[0].at, &read[0].bytes), (SimTime::from_nanos(1_500), &datagram));
        assert_eq!(read[0].describe(), "11.0.0.1:1000 > 11.0.0.2:53 UDP len 5");
        assert_eq!(read[1].describe(), "IP version 6, 4 bytes");
        // The payload of a later fragment has no header.
        let mut later = datagram.clone();
        later[6..8].copy_from_slice(&[0, 3]);
        let later = CapturedPacket { bytes: later, ..read[0].clone() };
        assert_eq!(later.describe(), "11.0.0.1 > 11.0.0.2 fragment at 24, 33 bytes");
        let mut six = vec![0; 40];
        let (src, dst) = ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap());
        udp::Repr::append((IpAddr::V6(src), 1000), (IpAddr::V6(dst), 53), b"query", &mut six);
        let (next_header, payload_len) = (17, six.len() - 40);
        ipv6::Repr { src, dst, next_header, payload_len, hop_limit: 64, traffic_class: 0, flow_label: 0 }
            .emit(&mut six);
        let six = CapturedPacket { len: six.len() as u32, bytes: six, ..read[1].clone() };
        assert_eq!(six.describe(), "[2001:db8::1]:1000 > [2001:db8::2]:53 UDP len 5");
        let mut writer =
            CaptureWriter::new(Writer::new(false).file(File::create(&path).unwrap()), 0, 65_535, true);
        let mut frame = vec![0xff; 12];
        frame.extend_from_slice(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        frame.extend_from_slice(&[0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        writer.write(SimTime::ZERO, &frame);
        writer.write(SimTime::ZERO, &[&[0; 12], &[8, 0][..], &datagram].concat());
        writer.finish().unwrap();
        let lines: Vec<String> = packets(&path, 0).unwrap().iter().map(CapturedPacket::describe).collect();
        assert_eq!(lines, ["ARP who has 10.0.0.2? tell 10.0.0.1", "11.0.0.1:1000 > 11.0.0.2:53 UDP len 5"]);
        std::fs::write(&path, b"not a capture, though long enough for a header").unwrap();
        assert!(packets(&path, 0).unwrap_err().to_string().contains("cannot be read"));
    }
}
