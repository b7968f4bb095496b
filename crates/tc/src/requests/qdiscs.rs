//! `RTM_NEWQDISC`, `RTM_DELQDISC` and `RTM_GETQDISC` (`net/sched/sch_api.c`).

use super::{
    CREATE, DELQDISC, DUMP_INVISIBLE, Devices, EGRESS_BLOCK, EXCL, HW_OFFLOAD, Header, INGRESS_BLOCK, KIND,
    NEWQDISC, OPTIONS, RATE, REPLACE, STAB, STATS, STATS2, TcReply, TcRequest, XSTATS, message,
};
use crate::attributes::Out;
use crate::buffer::Buffer;
use crate::control::{Results, TrafficControl, release};
use crate::disciplines::{UNKNOWN_KIND, bands, make};
use crate::error::{TcError, error, invalid};
use crate::node::{
    DefaultDiscipline, INGRESS, MAJOR, MINOR, Node, ROOT, Setup, Statistics, TcDevice, Traffic,
};
use crate::size_table::SizeTable;
use belljar_base::{Seed, SimTime};
use belljar_linux_abi::Errno;

impl TrafficControl {
    /// Node of a handle on an interface (`qdisc_lookup`).
    pub(super) fn node(&self, interface: usize, handle: u32) -> Option<&Node> {
        let port = self.ports.get(&interface).filter(|_| handle != 0)?;
        let ingress = port.ingress.as_ref().filter(|node| node.handle() == handle);
        port.root.as_ref().and_then(|root| root.find(handle)).or(ingress)
    }
    /// Node of a handle on an interface, to be changed.
    pub(super) fn node_mut(&mut self, interface: usize, handle: u32) -> Option<&mut Node> {
        let port = self.ports.get_mut(&interface).filter(|_| handle != 0)?;
        let ingress = port.ingress.as_mut().filter(|node| node.handle() == handle);
        port.root.as_mut().and_then(|root| root.find_mut(handle)).or(ingress)
    }
    /// Discipline below a class (`qdisc_leaf`): its handle and kind.
    fn leaf(&self, interface: usize, class: u32, missing: &'static str) -> Result<Option<&Node>, TcError> {
        let parent = self.node(interface, class & MAJOR).ok_or(error(Errno::ENOENT, missing))?;
        let classful = parent.discipline.classful();
        let classful = classful.ok_or(error(Errno::EOPNOTSUPP, "Parent qdisc is not classful"))?;
        let minor = (class & MINOR) as u16;
        if !classful.has(minor) {
            return Err(error(Errno::ENOENT, "Specified class not found"));
        }
        Ok(classful.child(minor))
    }
    /// Node that a request means by its parent or handle.
    fn meant(
        &self,
        interface: usize,
        header: &Header<'_>,
        missing: &'static str,
    ) -> Result<Option<&Node>, TcError> {
        let port = self.ports.get(&interface);
        Ok(match header.parent {
            ROOT => port.and_then(|port| port.root.as_ref()),
            INGRESS => port.and_then(|port| port.ingress.as_ref()),
            class => self.leaf(interface, class, missing)?,
        })
    }
    /// Makes or changes a discipline (`tc_modify_qdisc`).
    pub(super) fn new_qdisc(
        &mut self,
        request: &TcRequest<'_>,
        header: &Header<'_>,
        devices: Devices<'_>,
        results: &mut Results,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let (interface, device) = header.device(devices)?;
        refuse_unsupported(header)?;
        let has = |flag: u16| request.flags & flag != 0;
        let kind = header.kind();
        let differs = |node: &Node| kind.is_some_and(|kind| kind != node.discipline.kind().as_bytes());
        let mut found = None;
        if header.parent == INGRESS && kind.is_some_and(is_known) {
            return Err(invalid("Specified parent ID is reserved for ingress and clsact Qdiscs"));
        }
        if header.parent != 0 {
            let node = self.meant(*interface, header, "Failed to find specified qdisc")?;
            let exists = node.is_some_and(|node| node.handle() != 0);
            let node = node.filter(|node| node.handle() != 0);
            let same = node.is_some_and(|node| header.handle != 0 && node.handle() == header.handle);
            let mut creates = false;
            if !same && header.handle != 0 {
                if node.is_some() && !has(REPLACE) {
                    return Err(error(Errno::EEXIST, "NLM_F_REPLACE needed to override"));
                }
                if header.handle & MINOR != 0 {
                    return Err(invalid("Invalid minor handle"));
                }
                match self.node(*interface, header.handle) {
                    None => creates = true,
                    Some(other) if other.parent != header.parent => {
                        return Err(invalid("Cannot move an existing qdisc to a different parent"));
                    }
                    Some(_) if has(EXCL) => {
                        return Err(error(Errno::EEXIST, "Exclusivity flag on, cannot override"));
                    }
                    Some(other) if differs(other) => {
                        return Err(invalid("Invalid qdisc name: must match existing qdisc"));
                    }
                    Some(_) => return Ok(()),
                }
            } else if !same {
                creates = match node {
                    None => true,
                    // A discipline of another kind is put in its place.
                    Some(node) => differs(node),
                };
            }
            if creates {
                if !exists && !has(CREATE) {
                    let words = "Qdisc not found. To create specify NLM_F_CREATE flag";
                    return Err(error(Errno::ENOENT, words));
                }
                return self.create(request, header, (*interface, device), results, reply);
            }
            found = node.map(Node::handle);
        } else if header.handle == 0 {
            return Err(invalid("Handle cannot be zero"));
        } else if let Some(node) = self.node(*interface, header.handle) {
            found = Some(node.handle());
        }
        let handle = found.ok_or(error(Errno::ENOENT, "Specified qdisc not found"))?;
        if has(EXCL) {
            return Err(error(Errno::EEXIST, "Exclusivity flag on, cannot modify"));
        }
        if self.node(*interface, handle).is_some_and(differs) {
            return Err(invalid("Invalid qdisc name: must match existing qdisc"));
        }
        self.change(header, (*interface, device), handle, request.now, results, reply)?;
        self.announce(NEWQDISC, (*interface, device), handle, request.now, reply);
        Ok(())
    }
    /// Changes the settings of a discipline (`qdisc_change`).
    fn change(
        &mut self,
        header: &Header<'_>,
        (interface, device): (usize, &TcDevice),
        handle: u32,
        now: SimTime,
        results: &mut Results,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let seed = self.next_seed();
        let sizes = header.attributes.nested(STAB).map(SizeTable::read).transpose()?;
        let options = header.attributes.nested(OPTIONS);
        let mut purged = Vec::new();
        let node = self.node_mut(interface, handle).ok_or(Errno::ENOENT)?;
        let mut changed = Ok(());
        if options.is_some() {
            let (warning, parent) = (&mut reply.warning, node.parent);
            let setup = &mut Setup { device, handle, parent, now, seed, warning, purged: &mut purged };
            changed = node.discipline.change(options, setup);
        }
        if changed.is_ok() && sizes.is_some() {
            node.sizes = sizes;
        }
        self.removed(interface, handle, &purged);
        results.purge(purged);
        changed
    }
    fn next_seed(&mut self) -> Seed {
        self.serial += 1;
        Seed(self.seed.stream(&["tc", &self.serial.to_string()]).next_u64())
    }
    /// Creates a discipline and puts it in its place (`qdisc_create`, `qdisc_graft`).
    fn create(
        &mut self,
        request: &TcRequest<'_>,
        header: &Header<'_>,
        (interface, device): (usize, &TcDevice),
        results: &mut Results,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let kind = header.kind().ok_or(UNKNOWN_KIND)?;
        let parent = header.parent;
        let handle = match (parent, header.handle) {
            (INGRESS, _) => INGRESS & MAJOR,
            (_, 0) => self.free_handle(interface),
            (_, handle) => handle,
        };
        if handle == 0 {
            return Err(error(Errno::ENOSPC, "Maximum number of qdisc handles was exceeded"));
        }
        let seed = self.next_seed();
        let sizes = header.attributes.nested(STAB).map(SizeTable::read).transpose()?;
        let mut purged = Vec::new();
        let warning = &mut reply.warning;
        let now = request.now;
        let setup = &mut Setup { device, handle, parent, now, seed, warning, purged: &mut purged };
        let options = header.attributes.nested(OPTIONS);
        let made = match make(kind, options, setup) {
            Some(made) => made?,
            None => return Err(UNKNOWN_KIND),
        };
        let mut node = Node::new(handle, parent, made);
        (node.sizes, node.serial) = (sizes, self.serial);
        let port = self.ports.entry(interface).or_default();
        let old = match parent {
            ROOT => port.root.replace(node),
            INGRESS => {
                port.had_ingress = true;
                port.ingress.replace(node)
            }
            class => {
                if kind == b"noqueue" {
                    return Err(invalid("Cannot assign noqueue to a class"));
                }
                if node.sizes.is_some() {
                    return Err(invalid("STAB not supported on a non root"));
                }
                self.graft(interface, class, Some(node), (device, now), reply)?
            }
        };
        self.destroy(interface, old, results);
        self.announce(NEWQDISC, (interface, device), handle, now, reply);
        Ok(())
    }
    /// Puts a discipline, or the default one, below a class; returns the former one.
    fn graft(
        &mut self,
        interface: usize,
        class: u32,
        node: Option<Node>,
        (device, now): (&TcDevice, SimTime),
        reply: &mut TcReply,
    ) -> Result<Option<Node>, TcError> {
        let seed = self.next_seed();
        let mut purged = Vec::new();
        let parent = self.node_mut(interface, class & MAJOR).ok_or(Errno::ENOENT)?;
        let (handle, above) = (parent.handle(), parent.parent);
        let classful = parent.discipline.classful_mut().ok_or(Errno::EOPNOTSUPP)?;
        let warning = &mut reply.warning;
        let setup = &mut Setup { device, handle, parent: above, now, seed, warning, purged: &mut purged };
        classful.graft((class & MINOR) as u16, node, setup)
    }
    /// Destroys a discipline that has been replaced, with its packets and filters.
    fn destroy(&mut self, interface: usize, old: Option<Node>, results: &mut Results) {
        let Some(mut old) = old else { return };
        let mut purged = Vec::new();
        old.clear(&mut purged);
        release(&mut old, &mut self.actions);
        self.removed(interface, old.parent & MAJOR, &purged);
        results.purge(purged);
    }
    /// Reduces the queue lengths of a node and those above it by packets that were removed from it.
    pub(super) fn removed(&mut self, interface: usize, handle: u32, purged: &[Buffer]) {
        if purged.is_empty() {
            return;
        }
        let count = purged.len() as u32;
        let bytes: u32 = purged.iter().map(|buffer| buffer.len).sum();
        let mut at = handle;
        while let Some(node) = self.node_mut(interface, at) {
            node.own.queue.len = node.own.queue.len.saturating_sub(count);
            node.own.queue.backlog = node.own.queue.backlog.saturating_sub(bytes);
            if [ROOT, INGRESS].contains(&node.parent) {
                break;
            }
            at = node.parent & MAJOR;
        }
    }
    /// Deletes or describes a discipline (`tc_get_qdisc`).
    pub(super) fn find_qdisc(
        &mut self,
        request: &TcRequest<'_>,
        header: &Header<'_>,
        devices: Devices<'_>,
        results: &mut Results,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let (interface, device) = header.device(devices)?;
        let found = match header.parent {
            0 => {
                let node = self.node(*interface, header.handle);
                Some(node.ok_or(error(Errno::ENOENT, "Failed to find qdisc with specified handle"))?)
            }
            _ => self.meant(*interface, header, "Failed to find qdisc with specified classid")?,
        };
        // Without one of the administrator, a root has the default discipline, of handle zero.
        let has_default = header.parent == ROOT && device.up
            || header.parent == INGRESS && self.ports.get(interface).is_some_and(|port| port.had_ingress);
        let (handle, kind) = match found {
            Some(node) => (node.handle(), node.discipline.kind()),
            None if has_default && header.parent == INGRESS => (0, "noop"),
            None if has_default => (0, default_kind(device)),
            None => return Err(error(Errno::ENOENT, "Cannot find specified qdisc on specified device")),
        };
        if header.handle != 0 && handle != header.handle {
            return Err(invalid("Invalid handle"));
        }
        if header.kind().is_some_and(|given| given != kind.as_bytes()) {
            return Err(invalid("Invalid qdisc name: must match existing qdisc"));
        }
        if request.kind != DELQDISC {
            if let Some(message) = self.describe((*interface, device), handle, request.now) {
                reply.messages.push(message.finish(NEWQDISC));
            }
            return Ok(());
        }
        if header.parent == 0 {
            return Err(invalid("Classid cannot be zero"));
        }
        if handle == 0 {
            return Err(error(Errno::ENOENT, "Cannot delete qdisc with handle of zero"));
        }
        self.announce(DELQDISC, (*interface, device), handle, request.now, reply);
        let old = match header.parent {
            ROOT => self.ports.get_mut(interface).and_then(|port| port.root.take()),
            INGRESS => self.ports.get_mut(interface).and_then(|port| port.ingress.take()),
            class => self.graft(*interface, class, None, (device, request.now), reply)?,
        };
        self.destroy(*interface, old, results);
        Ok(())
    }
    /// Describes the discipline of a handle, or the default one of the root.
    fn describe(&self, (interface, device): (usize, &TcDevice), handle: u32, now: SimTime) -> Option<Out> {
        if handle == 0 {
            return Some(default_message(device));
        }
        let node = self.node(interface, handle)?;
        Some(node_message(device, node, now))
    }
    /// Leaves a message about a discipline for the members of the group.
    fn announce(
        &self,
        kind: u16,
        (interface, device): (usize, &TcDevice),
        handle: u32,
        now: SimTime,
        reply: &mut TcReply,
    ) {
        if let Some(message) = self.describe((interface, device), handle, now) {
            reply.announcements.push(message.finish(kind));
        }
    }
    /// Lists the disciplines of all interfaces or of one (`tc_dump_qdisc`).
    pub(super) fn list_qdiscs(
        &self,
        header: &Header<'_>,
        devices: Devices<'_>,
        now: SimTime,
        reply: &mut TcReply,
    ) {
        let invisible = header.attributes.get(DUMP_INVISIBLE).is_some();
        for (interface, device) in devices {
            if header.index != 0 && header.index != device.index {
                continue;
            }
            let port = self.ports.get(interface);
            match port.and_then(|port| port.root.as_ref()) {
                Some(root) => {
                    reply.messages.push(node_message(device, root, now).finish(NEWQDISC));
                    let mut below = root.below();
                    below.sort_by_key(|node| (bucket(node.handle()), std::cmp::Reverse(node.serial)));
                    let shown = below.into_iter().filter(|node| invisible || !node.invisible);
                    reply.messages.extend(shown.map(|node| node_message(device, node, now).finish(NEWQDISC)));
                }
                None if device.up => reply.messages.push(default_message(device).finish(NEWQDISC)),
                None => {}
            }
            if let Some(node) = port.and_then(|port| port.ingress.as_ref()) {
                reply.messages.push(node_message(device, node, now).finish(NEWQDISC));
            }
        }
    }
}

/// Bucket of a handle in `qdisc_hash`, which determines the order of listings (`hash_32`).
pub(super) fn bucket(handle: u32) -> u32 {
    handle.wrapping_mul(0x61c8_8647) >> 28
}

/// True if a discipline of this kind exists.
fn is_known(kind: &[u8]) -> bool {
    const KINDS: [&[u8]; 5] = [b"pfifo", b"bfifo", b"pfifo_fast", b"noqueue", b"pfifo_head_drop"];
    const CLASSFUL: [&[u8]; 10] =
        [b"tbf", b"htb", b"prio", b"netem", b"codel", b"fq_codel", b"red", b"sfq", b"drr", b"ets"];
    KINDS.contains(&kind) || CLASSFUL.contains(&kind)
}

/// Refuses attributes that are not supported.
fn refuse_unsupported(header: &Header<'_>) -> Result<(), TcError> {
    const ATTRIBUTES: [(u16, &str); 3] = [
        (RATE, "rate estimators are not supported"),
        (INGRESS_BLOCK, "shared blocks are not supported"),
        (EGRESS_BLOCK, "shared blocks are not supported"),
    ];
    for (kind, words) in ATTRIBUTES {
        if header.attributes.get(kind).is_some() {
            return Err(error(Errno::EOPNOTSUPP, words));
        }
    }
    Ok(())
}

/// Kind of the default discipline.
fn default_kind(device: &TcDevice) -> &'static str {
    match device.default {
        DefaultDiscipline::None => "noqueue",
        DefaultDiscipline::Bands => "pfifo_fast",
        DefaultDiscipline::Queue { kind, .. } => kind,
    }
}

/// Message about the default discipline.
fn default_message(device: &TcDevice) -> Out {
    let mut out = message(device.index, 0, ROOT, 2);
    out.text(KIND, default_kind(device));
    match device.default {
        DefaultDiscipline::None => {}
        DefaultDiscipline::Bands => out.put(OPTIONS, &bands::options(3, &bands::PRIORITY_MAP)),
        DefaultDiscipline::Queue { kind: "pfifo" | "bfifo", limit } => out.u32(OPTIONS, limit),
        DefaultDiscipline::Queue { .. } => {}
    }
    out.u8(HW_OFFLOAD, 0);
    let (bytes, packets, drops) = device.sent;
    let mut statistics = Statistics { traffic: Traffic { bytes, packets }, ..Statistics::default() };
    statistics.queue.drops = drops;
    statistics.write(&mut out, (STATS2, Some(STATS), Some(XSTATS)));
    out
}

/// Message about a discipline (`tc_fill_qdisc`).
fn node_message(device: &TcDevice, node: &Node, now: SimTime) -> Out {
    let references = if node.parent == ROOT { 2 } else { 1 };
    let mut out = message(device.index, node.handle(), node.parent, references);
    out.text(KIND, node.discipline.kind());
    node.discipline.dump(&mut out);
    out.u8(HW_OFFLOAD, 0);
    if let Some(sizes) = &node.sizes {
        sizes.write(&mut out);
    }
    node.statistics(now).write(&mut out, (STATS2, Some(STATS), Some(XSTATS)));
    out
}
