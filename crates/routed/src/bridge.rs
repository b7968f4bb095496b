//! `belljar-routed bridge`: packet sockets around the bridge protocol. The bridge's data plane is here, in
//! userspace.

use crate::cli;
use crate::clock::Clock;
use crate::control::{Listener, listen};
use crate::daemon::seed;
use crate::error::{Doing, Error, warn};
use crate::netlink::{Monitor, Netlink, News, links};
use crate::signals::Signals;
use belljar_base::Map;
use belljar_packetio::{Filter, PacketOptions, PacketRing, Port, Sent};
use belljar_routing::bridge::packet::{ALL_BRIDGES, ETHERTYPE};
use belljar_routing::bridge::{Bridge, Config};
use belljar_routing::{Interface, InterfaceEvent, InterfaceId, Protocol, Received};
use belljar_wire::ethernet::{self, Address};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde_json::{Value, json};

/// Largest number of frames handled for one interface before the others get their turn.
const BATCH: usize = 256;

/// An interface of the bridge.
struct Attachment {
    name: String,
    ring: PacketRing,
    /// True for a client port, false for an interface to other bridges.
    client: bool,
    up: bool,
}

struct Daemon {
    bridge: Bridge,
    clock: Clock,
    /// Keyed by interface index.
    attachments: Map<u32, Attachment>,
    netlink: Netlink,
}

/// Runs until a signal arrives.
pub fn run(options: &cli::Bridge) -> Result<(), Error> {
    let names = [&options.common.interfaces[..], &options.clients[..]].concat();
    if let Some((_, name)) = names.iter().enumerate().find(|(n, name)| names[..*n].contains(name)) {
        return Err(Error::Twice(name.clone()));
    }
    let signals = Signals::open()?;
    let monitor = Monitor::open().doing("ask the kernel for news")?;
    let mut netlink = Netlink::open().doing("ask the kernel by netlink")?;
    let all = links(&mut netlink).doing("read the list of interfaces")?;
    let mut attachments = Map::new();
    for (n, name) in names.iter().enumerate() {
        let link =
            all.iter().find(|link| link.name == *name).ok_or_else(|| Error::NoInterface(name.clone()))?;
        let client = n >= options.common.interfaces.len();
        let filter = (!client).then(|| Filter::ethertypes(&[ETHERTYPE]));
        let ring = PacketRing::open(
            name,
            &PacketOptions { filter, ring_bytes: 1 << 20, ..PacketOptions::default() },
        )?;
        attachments.insert(link.index, Attachment { name: name.clone(), ring, client, up: false });
    }
    let control = listen(&options.common.control, "--control")?;
    let first = attachments
        .values()
        .find(|attachment| attachment.name == names[0])
        .map(|attachment| attachment.ring.mac());
    let mut config = Config::new(first.unwrap_or_default(), seed(options.common.seed));
    config.hello_interval = options.hello_interval;
    let clients: Vec<_> =
        attachments.iter().filter(|(_, at)| at.client).map(|(index, _)| InterfaceId(*index)).collect();
    let mut daemon =
        Daemon { bridge: Bridge::new(config, clients), clock: Clock::start(), attachments, netlink };
    daemon.look()?;
    loop {
        daemon.carry_out();
        let ready = daemon.wait(&signals, &monitor, &control)?;
        if ready[0] {
            return Ok(());
        }
        if ready[1] && monitor.take().doing("read news of the kernel")?.contains(&News::Links) {
            daemon.look()?;
        }
        if ready[2] {
            control.answer(|| daemon.status());
        }
        let indices: Vec<u32> = daemon.attachments.keys().copied().collect();
        for (_, index) in ready[3..].iter().zip(indices).filter(|(ready, _)| **ready) {
            daemon.receive(index);
        }
        let now = daemon.clock.now();
        if daemon.bridge.next_timer().is_some_and(|at| at <= now) {
            daemon.bridge.on_timer(now);
        }
    }
}

impl Daemon {
    fn wait(&self, signals: &Signals, monitor: &Monitor, control: &Listener) -> Result<Vec<bool>, Error> {
        let fixed = [signals.fd(), monitor.fd(), control.fd()];
        let rings = self.attachments.values().map(|attachment| attachment.ring.fd());
        let mut fds: Vec<_> =
            fixed.into_iter().chain(rings).map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let timeout = self.bridge.next_timer().map(|at| TimeSpec::from(self.clock.until(at)));
        match ppoll(&mut fds, timeout, None) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).doing("wait"),
        }
        Ok(fds.iter().map(|fd| fd.any().unwrap_or(false)).collect())
    }

    /// Updates the state of interfaces to other bridges that went up or down.
    fn look(&mut self) -> Result<(), Error> {
        let all = links(&mut self.netlink).doing("read the list of interfaces")?;
        let now = self.clock.now();
        for (index, attachment) in self.attachments.iter_mut().filter(|(_, attachment)| !attachment.client) {
            let link = all.iter().find(|link| link.index == *index && link.running);
            let id = InterfaceId(*index);
            match (link, attachment.up) {
                (Some(link), false) => {
                    let interface = Interface { id, address: attachment.ring.mac(), mtu: link.mtu };
                    self.bridge.on_interface(now, InterfaceEvent::Up(interface));
                }
                (None, true) => self.bridge.on_interface(now, InterfaceEvent::Down(id)),
                _ => continue,
            }
            attachment.up = link.is_some();
        }
        Ok(())
    }

    fn receive(&mut self, index: u32) {
        let (bridge, now) = (&mut self.bridge, self.clock.now());
        let Some(attachment) = self.attachments.get_mut(&index) else { return };
        let (client, id) = (attachment.client, InterfaceId(index));
        let received = attachment.ring.receive(BATCH, &mut |frame| {
            if client {
                return bridge.on_client_frame(now, id, frame.bytes);
            }
            if let Ok(frame) = ethernet::Frame::new_checked(frame.bytes) {
                let received =
                    Received { interface: id, source: frame.src(), ttl: 255, payload: frame.payload() };
                // The protocol counts malformed packets.
                let _ = bridge.on_packet(now, received);
            }
        });
        if let Err(error) = received
            && error.is_fatal()
        {
            warn(format_args!("'{}' is gone: {error}", attachment.name));
            self.attachments.remove(&index);
            self.bridge.on_interface(now, InterfaceEvent::Down(id));
        }
    }

    fn carry_out(&mut self) {
        // The protocol keeps the forwarding table itself.
        while self.bridge.poll_route().is_some() {}
        while let Some(packet) = self.bridge.poll_transmit() {
            let Some(attachment) = self.attachments.get_mut(&packet.interface.0) else { continue };
            let header = ethernet::Repr {
                dst: packet.destination.unwrap_or(ALL_BRIDGES),
                src: attachment.ring.mac(),
                ethertype: ETHERTYPE,
            };
            let mut frame = vec![0; ethernet::HEADER_LEN];
            header.emit(&mut frame);
            frame.extend(&packet.payload);
            send(attachment, &frame);
        }
        while let Some(delivery) = self.bridge.poll_delivery() {
            if let Some(attachment) = self.attachments.get_mut(&delivery.port.0) {
                send(attachment, &delivery.frame);
            }
        }
        for attachment in self.attachments.values_mut() {
            // Frames that exceed the kernel's queue are dropped, as in any bridge, and counted by the port.
            let _ = attachment.ring.flush();
        }
    }

    fn status(&self) -> Value {
        let name = |id: InterfaceId| self.attachments.get(&id.0).map_or("?", |attachment| &attachment.name);
        let text = |address: Address| address.to_string();
        let counts = self.bridge.counts();
        let neighbor = |(id, address, bridge, symmetric)| json!({"address": text(address), "bridge": text(bridge), "interface": name(id), "symmetric": symmetric});
        let neighbors: Vec<Value> = self.bridge.neighbors().map(neighbor).collect();
        let route = |route: &belljar_routing::Route<Address, Address>| {
            json!({
                "destination": text(route.destination), "next_hop": text(route.next_hop),
                "interface": name(route.interface), "hops": route.distance,
            })
        };
        let routes: Vec<Value> = self.bridge.routes().map(route).collect();
        let station = |(station, bridge): (Address, Option<Address>)| json!({"station": text(station), "bridge": bridge.map(text)});
        let stations: Vec<Value> = self.bridge.stations().map(station).collect();
        json!({
            "protocol": "bridge",
            "counts": {
                "malformed": counts.malformed, "forwarded": counts.forwarded, "oversize": counts.oversize,
                "unroutable": counts.unroutable, "refused": counts.refused,
            },
            "neighbors": neighbors,
            "routes": routes,
            "stations": stations,
        })
    }
}

fn send(attachment: &mut Attachment, frame: &[u8]) {
    match attachment.ring.send(frame) {
        Ok(Sent::Queued | Sent::Full) => {}
        Err(error) => {
            if error.is_fatal() {
                warn(format_args!("cannot send on '{}': {error}", attachment.name));
            }
        }
    }
}
