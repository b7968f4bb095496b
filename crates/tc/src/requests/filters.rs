//! `RTM_NEWTFILTER`, `RTM_DELTFILTER`, `RTM_GETTFILTER` and `RTM_GETCHAIN` (`net/sched/cls_api.c`).

use super::{
    CHAIN, CREATE, DELTFILTER, Devices, EXCL, Header, KIND, NEWCHAIN, NEWTFILTER, TcReply, TcRequest, message,
};
use crate::action::Actions;
use crate::control::TrafficControl;
use crate::error::{TcError, error, invalid};
use crate::filters::{FilterSetup, Filters, Found, PRIORITY, Selection};
use crate::node::{MAJOR, MINOR, Node, TcDevice};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// `TC_ACT_EXT_VAL_MASK`: highest number of a chain.
const LAST_CHAIN: u32 = (1 << 28) - 1;

/// Filters of a node, or of one of its classes (`tcf_block`).
fn block(node: &mut Node, minor: u16) -> Option<&mut Filters> {
    let has_own = ["ingress", "clsact"].contains(&node.discipline.kind());
    let classful = node.discipline.classful_mut()?;
    if has_own || minor != 0 {
        return classful.class_filters(minor);
    }
    classful.has_filters().then_some(&mut node.own.filters)
}

impl TrafficControl {
    /// Filters that a request means, with the handle of their parent (`__tcf_qdisc_find`, `__tcf_block_find`).
    fn block_of(
        &mut self,
        interface: usize,
        parent: u32,
    ) -> Result<(&mut Filters, u32, &mut Actions), TcError> {
        let root = self.ports.get(&interface).and_then(|port| port.root.as_ref()).map_or(0, Node::handle);
        let parent = if parent == 0 { root } else { parent };
        const NONE: TcError = invalid("Parent Qdisc doesn't exists");
        let port = self.ports.get_mut(&interface);
        let Some(port) = port else {
            // The default discipline is found, and has no classes.
            return Err(if parent == 0 { invalid("Qdisc not classful") } else { NONE });
        };
        if parent == 0 {
            return Err(invalid("Qdisc not classful"));
        }
        let handle = parent & MAJOR;
        let ingress = port.ingress.as_mut().filter(|node| node.handle() == handle);
        let node = match port.root.as_mut().and_then(|root| root.find_mut(handle)) {
            Some(node) => node,
            None => ingress.ok_or(NONE)?,
        };
        let classful = node.discipline.classful().ok_or(invalid("Qdisc not classful"))?;
        if !classful.has_filters() {
            return Err(error(Errno::EOPNOTSUPP, "Class doesn't support blocks"));
        }
        let minor = (parent & MINOR) as u16;
        if minor != 0 && !classful.has(minor) {
            return Err(error(Errno::ENOENT, "Specified class doesn't exist"));
        }
        let filters = block(node, minor).ok_or(error(Errno::EOPNOTSUPP, "Class doesn't support blocks"))?;
        Ok((filters, parent, &mut self.actions))
    }
    /// Makes, changes, deletes or describes a filter.
    pub(super) fn filter_request(
        &mut self,
        request: &TcRequest<'_>,
        header: &Header<'_>,
        devices: Devices<'_>,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let create = request.flags & CREATE != 0;
        let is_new = request.kind == NEWTFILTER;
        let kind = header.kind();
        if is_new && header.info & PRIORITY == 0 && !create {
            return Err(error(Errno::ENOENT, "Invalid filter command with priority of zero"));
        }
        let some = header.info & !PRIORITY != 0 || header.handle != 0 || kind.is_some();
        if request.kind == DELTFILTER && header.info & PRIORITY == 0 && some {
            return Err(error(Errno::ENOENT, "Cannot flush filters with protocol, handle or kind set"));
        }
        let (interface, device) = header.device(devices)?;
        let chain = header.attributes.u32(CHAIN)?.unwrap_or(0);
        let (filters, parent, actions) = self.block_of(*interface, header.parent)?;
        if chain > LAST_CHAIN {
            return Err(invalid("Specified chain index exceeds upper limit"));
        }
        let selection = Selection { info: header.info, handle: header.handle, kind, chain };
        let now = request.now;
        match request.kind {
            NEWTFILTER => {
                let find = |index: u32| {
                    devices.iter().find(|(_, device)| device.index == index).map(|(number, _)| *number)
                };
                let exclusive = request.flags & EXCL != 0;
                let setup = &mut FilterSetup { actions, now, devices: &find };
                let found = filters.change(selection, (create, exclusive), header.attributes, setup)?;
                let message = describe(filters, &found, parent, device, (actions, now));
                reply.announcements.push((NEWTFILTER, message));
            }
            DELTFILTER => {
                let listed = filters.list(selection.info, Some(chain));
                let before: Vec<(Found, Vec<u8>)> = listed
                    .iter()
                    .map(|found| (*found, describe(filters, found, parent, device, (actions, now))))
                    .collect();
                for deleted in filters.delete(selection, actions)? {
                    let same =
                        |found: &Found| (found.priority, found.handle) == (deleted.priority, deleted.handle);
                    let message = before.iter().find(|(found, _)| same(found));
                    reply.announcements.extend(message.map(|(_, message)| (DELTFILTER, message.clone())));
                }
            }
            _ => {
                let found = filters.get(selection)?;
                let message = describe(filters, &found, parent, device, (actions, now));
                reply.messages.push((NEWTFILTER, message));
            }
        }
        Ok(())
    }
    /// Lists the filters of a parent (`tc_dump_tfilter`).
    pub(super) fn list_filters(
        &mut self,
        header: &Header<'_>,
        devices: Devices<'_>,
        now: SimTime,
        reply: &mut TcReply,
    ) {
        let Ok((interface, device)) = header.device(devices) else { return };
        let chain = header.attributes.u32(CHAIN).ok().flatten();
        let Ok((filters, parent, actions)) = self.block_of(*interface, header.parent) else { return };
        for found in filters.list(header.info, chain) {
            let message = describe(filters, &found, parent, device, (actions, now));
            reply.messages.push((NEWTFILTER, message));
        }
    }
    /// Lists the chains of a parent (`tc_dump_chain`).
    pub(super) fn list_chains(&mut self, header: &Header<'_>, devices: Devices<'_>, reply: &mut TcReply) {
        let Ok((interface, device)) = header.device(devices) else { return };
        let Ok((filters, parent, _)) = self.block_of(*interface, header.parent) else { return };
        for chain in filters.chains() {
            let mut out = message(device.index, 0, parent, 0);
            out.u32(CHAIN, chain);
            reply.messages.push((NEWCHAIN, out.0));
        }
    }
}

/// Body of a message about a filter (`tcf_fill_node`).
fn describe(
    filters: &Filters,
    found: &Found,
    parent: u32,
    device: &TcDevice,
    (actions, now): (&Actions, SimTime),
) -> Vec<u8> {
    let info = found.priority | u32::from(found.protocol.to_be());
    let mut out = message(device.index, found.handle.unwrap_or(0), parent, info);
    out.text(KIND, filters.kind(found));
    out.u32(CHAIN, found.chain);
    filters.dump(found, actions, now, &mut out);
    out.0
}
