//! Network interfaces at the switch's ports.

use crate::failure::Failure;
use belljar_base::{PacketAccount, Set, SimTime};
use belljar_emulation::p4::{INTERFACE_DOWN, of_ports};
use belljar_p4::SwitchDevice;
use belljar_packetio::{MIN_FRAME, PacketOptions, Port, Sent, TapOptions};
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Upper bound on the frames received from one interface before the next one is served.
const BATCH: usize = 256;
/// Upper bound on the frames queued for a busy interface; further ones are dropped.
const WAITING: usize = 1_024;

/// Argument `PORT@INTERFACE`.
#[derive(Clone, Debug)]
pub struct Attachment {
    /// Port number.
    pub port: u16,
    to: belljar_packetio::Attachment,
}

impl Attachment {
    /// A port at an interface of the machine.
    pub fn of_interface(port: u16, name: &str) -> Self {
        Self { port, to: belljar_packetio::Attachment::Interface(name.to_owned()) }
    }
}

impl FromStr for Attachment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (port, to) = text.split_once('@').ok_or("write PORT@INTERFACE, such as 1@eth0")?;
        let port = port.parse().ok().filter(|port| *port < 511);
        let port = port.ok_or_else(|| {
            format!("'{}' is no port: ports are 0 to 510", text.split('@').next().unwrap_or(""))
        })?;
        let Ok(to) = to.parse();
        Ok(Self { port, to })
    }
}

struct Interface {
    number: u16,
    port: Box<dyn Port>,
    /// File in /sys with the state of the carrier.
    carrier: Option<PathBuf>,
    waiting: VecDeque<Vec<u8>>,
    blocked: bool,
    /// Frames dropped because the queue for the busy interface was full.
    overflowed: u64,
    /// Frames that the interface did not take: it was down or gone, or they were too long for it.
    refused: u64,
    /// True once the interface was removed.
    lost: bool,
}

/// All interfaces of the switch.
pub struct Interfaces {
    open: Vec<Interface>,
    /// Account of the interfaces that were removed, and of packets to ports without an interface.
    account: PacketAccount,
}

impl Interfaces {
    /// Opens the interfaces of the command line. `ring_bytes` is the size of each receive ring.
    pub fn open(attachments: &[Attachment], ring_bytes: usize) -> Result<Self, Failure> {
        let ring = PacketOptions { ring_bytes, ..PacketOptions::default() };
        let mut numbers = Set::new();
        let mut all = Vec::new();
        for attachment in attachments {
            let number = attachment.port;
            if !numbers.insert(number) {
                return Err(Failure::usage(format!("port {number} has two interfaces")));
            }
            let port = attachment.to.open(&TapOptions::default(), &ring).map_err(Failure::run)?;
            let carrier = match &attachment.to {
                belljar_packetio::Attachment::Interface(name) => {
                    Some(Path::new("/sys/class/net").join(name).join("carrier"))
                }
                _ => None,
            };
            all.push(Interface {
                number,
                port,
                carrier,
                waiting: VecDeque::new(),
                blocked: false,
                overflowed: 0,
                refused: 0,
                lost: false,
            });
        }
        Ok(Self { open: all, account: PacketAccount::default() })
    }

    /// Number of interfaces.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Adds the descriptors to poll, one per interface.
    pub fn polled<'a>(&'a self, polled: &mut Vec<PollFd<'a>>) {
        polled.extend(self.open.iter().map(|interface| {
            let flags = if interface.blocked { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(interface.port.fd(), flags)
        }));
    }

    /// Passes received frames to the switch.
    pub fn receive(&mut self, ready: &[PollFlags], device: &mut SwitchDevice, now: SimTime) {
        for (interface, ready) in self.open.iter_mut().zip(ready) {
            if ready.is_empty() {
                continue;
            }
            let number = interface.number;
            let received =
                interface.port.receive(BATCH, &mut |frame| device.receive(now, number, frame.bytes.to_vec()));
            if let Err(error) = received {
                device.set_carrier(now, number, false);
                if error.is_fatal() {
                    interface.lost = true;
                    eprintln!("warning: port {number} has no interface any more: {error}");
                    interface.finish(&mut self.account);
                }
            }
        }
        self.open.retain(|interface| !interface.lost);
    }

    /// Transmits the packets that leave the switch. Returns true if there were any.
    pub fn send(&mut self, device: &mut SwitchDevice, now: SimTime) -> bool {
        let mut any = false;
        while let Some(leaving) = device.poll(now) {
            any = true;
            match self.open.iter_mut().find(|interface| interface.number == leaving.port) {
                Some(interface) => interface.send(leaving.packet),
                None => self.account.drop_for(INTERFACE_DOWN, 1),
            }
        }
        any
    }

    /// Flushes the queued frames to the kernel.
    pub fn flush(&mut self) {
        for interface in &mut self.open {
            interface.flush();
        }
    }

    /// Reports the state of each interface's carrier to the switch.
    pub fn look_at_carriers(&self, device: &mut SwitchDevice, now: SimTime) {
        for interface in &self.open {
            let up = match &interface.carrier {
                // The carrier of an interface that is down cannot be read.
                Some(path) => std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1"),
                None => true,
            };
            device.set_carrier(now, interface.number, up);
        }
    }

    /// Ends reception at all interfaces and prints their counters. Returns the account of the packets between the
    /// kernel and the switch.
    pub fn finish(mut self) -> PacketAccount {
        self.open.iter_mut().for_each(|interface| interface.finish(&mut self.account));
        self.account
    }
}

impl Interface {
    fn finish(&mut self, account: &mut PacketAccount) {
        let rest = self.port.finish();
        let counters = self.port.counters();
        let missed = counters.dropped_kernel + counters.dropped_port + counters.failed - counters.failed_down;
        let own = of_ports([counters; 2], [rest; 2], self.overflowed + missed);
        account.received += own.received;
        account.sent += own.sent;
        account.include(&own);
        account.held += self.waiting.len() as u64;
        account.drop_for(INTERFACE_DOWN, self.refused + counters.failed_down);
        eprintln!(
            "port {} ({}): {} frames in, {} out, {} dropped",
            self.number,
            self.port.name(),
            counters.received.frames,
            counters.sent.frames,
            self.overflowed + self.refused + missed + counters.failed_down
        );
    }

    fn send(&mut self, mut frame: Vec<u8>) {
        if frame.len() < MIN_FRAME {
            frame.resize(MIN_FRAME, 0);
        }
        if !self.waiting.is_empty() {
            self.wait(frame);
            return;
        }
        match self.port.send(&frame) {
            Ok(Sent::Queued) => {}
            Ok(Sent::Full) => self.wait(frame),
            Err(_) => self.refused += 1,
        }
    }

    fn wait(&mut self, frame: Vec<u8>) {
        self.blocked = true;
        if self.waiting.len() < WAITING {
            self.waiting.push_back(frame);
        } else {
            self.overflowed += 1;
        }
    }

    fn flush(&mut self) {
        while let Some(frame) = self.waiting.front() {
            match self.port.send(frame) {
                Ok(Sent::Queued) => {}
                Ok(Sent::Full) => break,
                Err(_) => self.refused += 1,
            }
            self.waiting.pop_front();
        }
        let flushed = self.port.flush().unwrap_or(true);
        self.blocked = !flushed || !self.waiting.is_empty();
    }
}
