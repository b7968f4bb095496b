//! Requests of rtnetlink about traffic control: `RTM_*QDISC`, `RTM_*TCLASS`, `RTM_*TFILTER`, `RTM_*CHAIN` and
//! `RTM_*ACTION` (`net/sched/sch_api.c`, `cls_api.c`, `act_api.c`).

mod actions;
mod classes;
mod filters;
mod qdiscs;
#[cfg(test)]
mod tests;

use crate::attributes::{Attributes, Out, word};
use crate::control::{Results, TrafficControl};
use crate::error::TcError;
use crate::node::TcDevice;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// `RTM_*` types.
const NEWQDISC: u16 = 36;
const DELQDISC: u16 = 37;
const GETQDISC: u16 = 38;
const NEWTCLASS: u16 = 40;
const DELTCLASS: u16 = 41;
const GETTCLASS: u16 = 42;
const NEWTFILTER: u16 = 44;
const DELTFILTER: u16 = 45;
const GETTFILTER: u16 = 46;
const NEWACTION: u16 = 48;
const DELACTION: u16 = 49;
const GETACTION: u16 = 50;
const NEWCHAIN: u16 = 100;
const GETCHAIN: u16 = 102;
/// `NLM_F_REPLACE`, `NLM_F_EXCL` and `NLM_F_CREATE`; `NLM_F_ROOT`.
const REPLACE: u16 = 0x100;
const EXCL: u16 = 0x200;
const CREATE: u16 = 0x400;
/// Length of `struct tcmsg` in bytes.
const TCMSG: usize = 20;
/// `TCA_*`.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const XSTATS: u16 = 4;
const RATE: u16 = 5;
const STATS: u16 = 3;
const STATS2: u16 = 7;
const STAB: u16 = 8;
const DUMP_INVISIBLE: u16 = 10;
const CHAIN: u16 = 11;
const HW_OFFLOAD: u16 = 12;
const INGRESS_BLOCK: u16 = 13;
const EGRESS_BLOCK: u16 = 14;

/// True for the types of requests about traffic control.
pub fn is_tc_request(kind: u16) -> bool {
    (NEWQDISC..=GETACTION).contains(&kind) && kind & 3 != 3 || (NEWCHAIN..=GETCHAIN).contains(&kind)
}

/// Request.
#[derive(Clone, Copy, Debug)]
pub struct TcRequest<'a> {
    /// `nlmsg_type`.
    pub kind: u16,
    /// `nlmsg_flags`.
    pub flags: u16,
    /// True for a listing.
    pub dump: bool,
    /// Family header and attributes.
    pub body: &'a [u8],
    /// The time.
    pub now: SimTime,
}

/// Answer: types and bodies of messages.
#[derive(Debug, Default)]
pub struct TcReply {
    /// Messages for the requester.
    pub messages: Vec<(u16, Vec<u8>)>,
    /// Messages for the members of the group `RTNLGRP_TC`.
    pub announcements: Vec<(u16, Vec<u8>)>,
    /// Message of the extended ack of a success.
    pub warning: Option<String>,
}

/// Interfaces of the namespace with their numbers.
pub(crate) type Devices<'a> = &'a [(usize, TcDevice)];

/// Header of a message, `struct tcmsg`, with its attributes.
#[derive(Clone, Copy, Debug)]
struct Header<'a> {
    index: u32,
    handle: u32,
    parent: u32,
    info: u32,
    attributes: Attributes<'a>,
}

impl<'a> Header<'a> {
    fn read(body: &'a [u8]) -> Result<Header<'a>, TcError> {
        if body.len() < TCMSG {
            return Err(Errno::EINVAL.into());
        }
        Ok(Header {
            index: word(body, 4),
            handle: word(body, 8),
            parent: word(body, 12),
            info: word(body, 16),
            attributes: Attributes(&body[TCMSG..]),
        })
    }
    fn kind(&self) -> Option<&'a [u8]> {
        self.attributes.text(KIND)
    }
    /// Interface that the message names.
    fn device<'d>(&self, devices: Devices<'d>) -> Result<&'d (usize, TcDevice), TcError> {
        let found = devices.iter().find(|(_, device)| device.index == self.index);
        found.ok_or(Errno::ENODEV.into())
    }
}

/// Begins a message about an object.
fn message(index: u32, handle: u32, parent: u32, info: u32) -> Out {
    let mut bytes = vec![0; 4];
    for field in [index, handle, parent, info] {
        bytes.extend(field.to_ne_bytes());
    }
    Out(bytes)
}

impl TrafficControl {
    /// Answers a request. Packets that a change removes are left in `results`.
    pub fn request(
        &mut self,
        request: &TcRequest<'_>,
        devices: &[(usize, TcDevice)],
        results: &mut Results,
    ) -> Result<TcReply, TcError> {
        let mut reply = TcReply::default();
        let outcome = self.dispatch(request, devices, results, &mut reply);
        outcome.map(|()| reply)
    }
    fn dispatch(
        &mut self,
        request: &TcRequest<'_>,
        devices: Devices<'_>,
        results: &mut Results,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        if (NEWACTION..=GETACTION).contains(&request.kind) {
            return self.action_request(request, devices, reply);
        }
        if request.dump && request.body.len() < TCMSG {
            return Ok(());
        }
        let header = Header::read(request.body)?;
        match (request.kind, request.dump) {
            (GETQDISC, true) => self.list_qdiscs(&header, devices, request.now, reply),
            (GETTCLASS, true) => self.list_classes(&header, devices, request.now, reply),
            (GETTFILTER, true) => self.list_filters(&header, devices, request.now, reply),
            (GETCHAIN, true) => self.list_chains(&header, devices, reply),
            (NEWQDISC, _) => return self.new_qdisc(request, &header, devices, results, reply),
            (DELQDISC | GETQDISC, _) => return self.find_qdisc(request, &header, devices, results, reply),
            (NEWTCLASS | DELTCLASS | GETTCLASS, _) => {
                return self.class_request(request, &header, devices, results, reply);
            }
            (NEWTFILTER | DELTFILTER | GETTFILTER, _) => {
                return self.filter_request(request, &header, devices, reply);
            }
            _ => return Err(Errno::EOPNOTSUPP.into()),
        }
        Ok(())
    }
    /// Handle that no discipline of the interface has (`qdisc_alloc_handle`).
    fn free_handle(&mut self, interface: usize) -> u32 {
        for _ in 0..0x8000 {
            self.last_handle = match self.last_handle.wrapping_add(0x1_0000) {
                0xffff_0000 => 0x8000_0000,
                next => next,
            };
            if self.node(interface, self.last_handle).is_none() {
                return self.last_handle;
            }
        }
        0
    }
}

impl Out {
    /// Ends a message.
    fn finish(self, kind: u16) -> (u16, Vec<u8>) {
        (kind, self.0)
    }
}
