//! Forwarding in a thread of this process, with AF_XDP sockets.
//!
//! A program at each interface diverts packets that are not for this machine. The thread forwards them by a
//! copy of the kernel's routes and neighbours, which it updates at the kernel's notifications. A packet
//! without a known next hop returns to the kernel over a TUN interface, as if it had arrived there: the
//! kernel resolves the next hop by ARP, replies by ICMP, or uses another route. Once a second one packet of
//! each flow takes this path too, so that the kernel detects lost neighbours.

use super::table::{Exit, Hop, Table};
use crate::clock::Clock;
use crate::error::{Doing, Error, warn};
use crate::netlink::{Link, Monitor, Netlink, addresses, links, neighbors, routes};
use crate::tun::Tun;
use belljar_base::Map;
use belljar_packetio::{Flow, Frame, Port, Xdp, XdpOptions};
use belljar_routing::Time;
use belljar_wire::ethernet;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// Largest number of frames forwarded from one interface before the others get their turn.
const BATCH: usize = 256;
/// Upper bound on the cached flows.
const MOST_FLOWS: usize = 8192;
/// Interval at which one packet of each flow passes through the kernel.
const PROBE: Duration = Duration::from_secs(1);
/// Length of the longest frame that is forwarded here.
const LONGEST: usize = 4096;

/// A cached flow.
#[derive(Clone, Copy, Debug, Default)]
struct Passing {
    /// Next hop; `None` until it is looked up.
    hop: Option<Hop>,
    /// True if the next packet passes through the kernel.
    probe: bool,
    packets: u64,
}

type Flows = Map<Flow, Passing>;

/// A forwarding thread.
pub struct Userspace {
    stop: Arc<EventFd>,
    flows: Arc<Mutex<Flows>>,
    thread: Option<JoinHandle<()>>,
}

impl Userspace {
    /// Opens the interfaces in the calling thread's network namespace, and starts the thread.
    pub fn start(names: &[String]) -> Result<Userspace, Error> {
        let mut netlink = Netlink::open().doing("ask the kernel by netlink")?;
        let own = addresses(&mut netlink).doing("read the list of addresses")?;
        let options = XdpOptions { only_forwarded: Some(own), promiscuous: false, ..XdpOptions::default() };
        let ports = names.iter().map(|name| Xdp::open(name, &options).map(Some));
        let ports = ports.collect::<Result<Vec<_>, _>>()?;
        let monitor = Monitor::open_with_routes().doing("ask the kernel for news")?;
        // The kernel chooses the number, so that several forwarders get distinct names.
        let tun = Tun::open("xdp%d")?;
        let stop = Arc::new(EventFd::from_value_and_flags(0, EfdFlags::EFD_CLOEXEC).doing("make an event")?);
        let flows = Arc::new(Mutex::new(Flows::new()));
        let mut forwarder = Forwarder {
            ports,
            names: names.to_vec(),
            netlink,
            monitor,
            tun,
            table: Table::default(),
            flows: Arc::clone(&flows),
            stop: Arc::clone(&stop),
            clock: Clock::start(),
            probed: Time::ZERO,
        };
        forwarder.look()?;
        let thread = std::thread::Builder::new().name("af-xdp".to_owned());
        let thread = thread.spawn(move || forwarder.run()).doing("start a thread")?;
        Ok(Userspace { stop, flows, thread: Some(thread) })
    }

    /// The flows forwarded since the last call, with their numbers of packets.
    pub fn take_flows(&mut self) -> Vec<(Flow, u64)> {
        let mut flows = lock(&self.flows);
        let used = flows.iter_mut().filter(|(_, passing)| passing.packets > 0);
        used.map(|(flow, passing)| (*flow, std::mem::take(&mut passing.packets))).collect()
    }
}

impl Drop for Userspace {
    fn drop(&mut self) {
        let _ = self.stop.write(1);
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by the thread itself.
            let _ = thread.join();
        }
    }
}

/// Locks the flows, even after the thread panicked.
fn lock(flows: &Mutex<Flows>) -> MutexGuard<'_, Flows> {
    flows.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

struct Forwarder {
    /// In the order of the names. `None` while a port's frames are being forwarded to the others, and for an
    /// interface that was removed.
    ports: Vec<Option<Xdp>>,
    names: Vec<String>,
    netlink: Netlink,
    monitor: Monitor,
    tun: Tun,
    table: Table,
    flows: Arc<Mutex<Flows>>,
    stop: Arc<EventFd>,
    clock: Clock,
    /// Time of the last probe of all flows.
    probed: Time,
}

impl Forwarder {
    fn run(&mut self) {
        loop {
            let ready = match self.wait() {
                Ok(ready) => ready,
                Err(error) => return warn(format_args!("the data plane af-xdp ends: {error}")),
            };
            if ready.stop {
                return;
            }
            if ready.news {
                let looked = self.monitor.take().doing("read news of the kernel").and_then(|_| self.look());
                if let Err(error) = looked {
                    warn(format_args!("the data plane af-xdp keeps its table: {error}"));
                }
            }
            let now = self.clock.now();
            if now >= self.probed + PROBE {
                self.probed = now;
                lock(&self.flows).values_mut().for_each(|passing| passing.probe = true);
            }
            for number in ready.ports {
                self.forward_from(number);
            }
            for port in self.ports.iter_mut().flatten() {
                // Frames that exceed the kernel's queue are dropped, as in any router.
                let _ = port.flush();
            }
            self.drain_tun();
        }
    }

    fn wait(&self) -> Result<Ready, Error> {
        let open: Vec<(usize, &Xdp)> =
            self.ports.iter().enumerate().filter_map(|(n, port)| Some((n, port.as_ref()?))).collect();
        let mut fds = vec![
            PollFd::new(self.stop.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.monitor.fd(), PollFlags::POLLIN),
        ];
        fds.extend(open.iter().map(|(_, port)| PollFd::new(port.fd(), PollFlags::POLLIN)));
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).doing("wait"),
        }
        let is = |n: usize| fds[n].any().unwrap_or(false);
        let ports = open.iter().enumerate().filter(|(at, _)| is(at + 2)).map(|(_, (n, _))| *n).collect();
        Ok(Ready { stop: is(0), news: is(1), ports })
    }

    /// Copies the kernel's table and clears the next hops of all flows.
    fn look(&mut self) -> Result<(), Error> {
        let netlink = &mut self.netlink;
        let all = links(netlink).doing("read the list of interfaces")?;
        let exit =
            |name: &String| all.iter().find(|link| link.name == *name).map(exit_of).unwrap_or_default();
        let exits = self.names.iter().map(exit).collect();
        let routes = routes(netlink).doing("read the routing table")?;
        let known = neighbors(netlink).doing("read the list of neighbours")?;
        let own = addresses(netlink).doing("read the list of addresses")?;
        for port in self.ports.iter().flatten() {
            port.set_own_addresses(&own)?;
        }
        self.table = Table::new(routes, known, exits);
        lock(&self.flows).values_mut().for_each(|passing| (passing.hop, passing.probe) = (None, false));
        Ok(())
    }

    fn forward_from(&mut self, number: usize) {
        let Some(mut port) = self.ports[number].take() else { return };
        let Forwarder { ports, table, flows, tun, names, .. } = self;
        let mut flows = lock(flows);
        let mut buffer = [0; LONGEST];
        let received = port.receive(BATCH, &mut |frame: Frame<'_>| {
            let done = next(frame.bytes, table, &mut flows).and_then(|hop| {
                let out = ports.get_mut(hop.exit)?.as_mut()?;
                let frame = rewritten(frame.bytes, &hop, &mut buffer);
                out.send(frame).ok()
            });
            // Packets without a next hop, or back to the interface of their arrival: the kernel decides. A
            // packet that meets a full queue is dropped, here as there.
            if done.is_none() {
                let _ = tun.send(&frame.bytes[ethernet::HEADER_LEN..]);
            }
        });
        match received {
            Err(error) if error.is_fatal() => warn(format_args!("'{}' is gone: {error}", names[number])),
            _ => ports[number] = Some(port),
        }
    }

    /// Discards packets from the TUN interface: the kernel sends only IPv6 control traffic.
    fn drain_tun(&self) {
        let mut buffer = [0; LONGEST];
        while let Ok(Some(_)) = self.tun.receive(&mut buffer) {}
    }
}

struct Ready {
    stop: bool,
    news: bool,
    ports: Vec<usize>,
}

fn exit_of(link: &Link) -> Exit {
    Exit { index: link.index, mac: link.mac, mtu: link.mtu }
}

/// Next hop of a diverted packet, by its flow; `None` if it is to pass through the kernel.
fn next(frame: &[u8], table: &Table, flows: &mut Flows) -> Option<Hop> {
    let address = |at: usize| frame.get(at..at + 4).map(|b| Ipv4Addr::new(b[0], b[1], b[2], b[3]));
    let (source, destination) = (address(26)?, address(30)?);
    if flows.len() >= MOST_FLOWS && !flows.contains_key(&(source, destination)) {
        flows.clear();
    }
    let passing = flows.entry((source, destination)).or_default();
    passing.packets += 1;
    if std::mem::take(&mut passing.probe) {
        return None;
    }
    if passing.hop.is_none() {
        passing.hop = table.hop(destination);
    }
    // The kernel fragments packets that are too long, or notifies their sender.
    passing.hop.filter(|hop| frame.len() <= (hop.mtu + ethernet::HEADER_LEN).min(LONGEST))
}

/// The frame for the next hop, with new addresses and a decremented TTL.
fn rewritten<'a>(frame: &[u8], hop: &Hop, buffer: &'a mut [u8; LONGEST]) -> &'a [u8] {
    const TTL: usize = 22;
    const CHECKSUM: usize = 24;
    let out = &mut buffer[..frame.len()];
    out.copy_from_slice(frame);
    out[..6].copy_from_slice(&hop.to.0);
    out[6..12].copy_from_slice(&hop.from.0);
    out[TTL] -= 1;
    // The checksum grows as the TTL shrinks (RFC 1624).
    let sum = u32::from(u16::from_be_bytes([out[CHECKSUM], out[CHECKSUM + 1]])) + 0x100;
    out[CHECKSUM..CHECKSUM + 2].copy_from_slice(&((sum + u32::from(sum >= 0xffff)) as u16).to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_wire::ethernet::Address;
    use belljar_wire::ipv4;

    #[test]
    fn a_forwarded_header_keeps_a_right_checksum() {
        for ident in [0u16, 1, 0x1234, 0x6544, 0xffff] {
            let repr = ipv4::Repr {
                src: Ipv4Addr::new(10, 0, 0, 1),
                dst: Ipv4Addr::new(10, 0, 1, 1),
                protocol: 17,
                payload_len: 8,
                ttl: 64,
                tos: 0,
                ident,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
            };
            let mut frame = vec![0; 14 + 28];
            repr.emit(&mut frame[14..]);
            let hop = Hop { exit: 0, from: Address([2; 6]), to: Address([4; 6]), mtu: 1500 };
            let mut buffer = [0; LONGEST];
            let out = rewritten(&frame, &hop, &mut buffer);
            let header = ipv4::Packet::new_checked(&out[14..]).unwrap();
            assert_eq!(header.ttl(), 63);
            assert!(header.verify_checksum(), "{ident:x}");
        }
    }
}
