//! `RTM_NEWTCLASS`, `RTM_DELTCLASS` and `RTM_GETTCLASS` (`net/sched/sch_api.c`).

use super::qdiscs::bucket;
use super::{
    CREATE, DELTCLASS, Devices, EXCL, GETTCLASS, Header, KIND, NEWTCLASS, OPTIONS, STATS, STATS2, TcReply,
    TcRequest, XSTATS, message,
};
use crate::control::{Results, TrafficControl};
use crate::error::{TcError, error};
use crate::node::{MAJOR, MINOR, Node, ROOT, Setup, TcDevice};
use belljar_base::{Seed, SimTime};
use belljar_linux_abi::Errno;

impl TrafficControl {
    /// Makes, changes, deletes or describes a class (`tc_ctl_tclass`).
    pub(super) fn class_request(
        &mut self,
        request: &TcRequest<'_>,
        header: &Header<'_>,
        devices: Devices<'_>,
        results: &mut Results,
        reply: &mut TcReply,
    ) -> Result<(), TcError> {
        let (interface, device) = header.device(devices)?;
        let port = self.ports.get(interface);
        let root = port.and_then(|port| port.root.as_ref()).map_or(0, Node::handle);
        let (mut parent, mut major) = (header.parent, header.handle & MAJOR);
        if parent != ROOT {
            let given = parent & MAJOR;
            match (major, given) {
                (0, 0) => major = root,
                (0, given) => major = given,
                (_, 0) => {}
                (one, other) if one != other => return Err(Errno::EINVAL.into()),
                _ => {}
            }
            if parent != 0 {
                parent = major | parent & MINOR;
            }
        } else if major == 0 {
            major = root;
        }
        let node = self.node(*interface, major).ok_or(Errno::ENOENT)?;
        let classful = node.discipline.classful().ok_or(Errno::EINVAL)?;
        let mut class = header.handle;
        if class != 0 {
            class = major | class & MINOR;
        } else if parent == ROOT {
            class = major;
        }
        let minor = (class & MINOR) as u16;
        let exists = class != 0 && classful.has(minor) && (minor != 0 || node.discipline.kind() != "htb");
        let is_new = request.kind == NEWTCLASS;
        let creates = is_new && request.flags & CREATE != 0;
        if !exists && !creates {
            return Err(Errno::ENOENT.into());
        }
        if exists && is_new && request.flags & EXCL != 0 {
            return Err(Errno::EEXIST.into());
        }
        match request.kind {
            DELTCLASS => {
                let in_use = self.class_in_use(*interface, class);
                let message = self.class_message((*interface, device), major, minor, request.now);
                let mut purged = Vec::new();
                let node = self.node_mut(*interface, major).ok_or(Errno::ENOENT)?;
                let classful = node.discipline.classful_mut().ok_or(Errno::EINVAL)?;
                classful.delete_class(minor, in_use, &mut purged)?;
                self.removed(*interface, major, &purged);
                results.purge(purged);
                reply.announcements.extend(message.map(|message| (DELTCLASS, message)));
            }
            GETTCLASS => {
                let message = self.class_message((*interface, device), major, minor, request.now);
                reply.messages.extend(message.map(|message| (NEWTCLASS, message)));
            }
            _ => {
                if header.attributes.get(super::RATE).is_some() {
                    return Err(error(Errno::EOPNOTSUPP, "rate estimators are not supported"));
                }
                let mut purged = Vec::new();
                let warning = &mut reply.warning;
                let seed = Seed(self.serial);
                let now = request.now;
                let node = self.node_mut(*interface, major).ok_or(Errno::ENOENT)?;
                let above = node.parent;
                let setup = &mut Setup {
                    device,
                    handle: major,
                    parent: above,
                    now,
                    seed,
                    warning,
                    purged: &mut purged,
                };
                let options = header.attributes.nested(OPTIONS);
                let classful = node.discipline.classful_mut().ok_or(Errno::EINVAL)?;
                let changed = classful.change_class(class, parent, options, setup);
                self.removed(*interface, major, &purged);
                results.purge(purged);
                let minor = changed?;
                let message = self.class_message((*interface, device), major, minor, now);
                reply.announcements.extend(message.map(|message| (NEWTCLASS, message)));
            }
        }
        Ok(())
    }
    /// True if a filter of the discipline or of one of its classes leads to a class.
    fn class_in_use(&self, interface: usize, class: u32) -> bool {
        let Some(node) = self.node(interface, class & MAJOR) else { return false };
        let of_classes = node.discipline.classful().is_some_and(|classful| {
            let mut all = classful.classes().into_iter();
            all.any(|other| classful.class_filters_ref(other).is_some_and(|filters| filters.use_class(class)))
        });
        of_classes || node.own.filters.use_class(class)
    }
    /// Body of a message about a class (`tc_fill_tclass`).
    fn class_message(
        &self,
        (interface, device): (usize, &TcDevice),
        major: u32,
        minor: u16,
        now: SimTime,
    ) -> Option<Vec<u8>> {
        let node = self.node(interface, major)?;
        let shown = node.discipline.classful()?.show(minor, major, now);
        let mut out = message(device.index, major | u32::from(minor), shown.parent, shown.leaf);
        out.text(KIND, node.discipline.kind());
        out.0.extend(shown.options.0);
        match &shown.statistics {
            Some(statistics) => statistics.write(&mut out, (STATS2, Some(STATS), Some(XSTATS))),
            None => out.put(STATS2, &[]),
        }
        Some(out.0)
    }
    /// Lists the classes of an interface (`tc_dump_tclass`).
    pub(super) fn list_classes(
        &self,
        header: &Header<'_>,
        devices: Devices<'_>,
        now: SimTime,
        reply: &mut TcReply,
    ) {
        let Ok((interface, device)) = header.device(devices) else { return };
        let Some(port) = self.ports.get(interface) else { return };
        let Some(root) = &port.root else { return };
        let mut nodes: Vec<&Node> = root.below().into_iter().filter(|node| !node.invisible).collect();
        nodes.sort_by_key(|node| (bucket(node.handle()), std::cmp::Reverse(node.serial)));
        for node in std::iter::once(root).chain(nodes) {
            let wanted = header.parent == 0 || header.parent & MAJOR == node.handle();
            let Some(classful) = node.discipline.classful().filter(|_| wanted) else { continue };
            for class in classful.classes() {
                let message = self.class_message((*interface, device), node.handle(), class, now);
                reply.messages.extend(message.map(|message| (NEWTCLASS, message)));
            }
        }
    }
}
