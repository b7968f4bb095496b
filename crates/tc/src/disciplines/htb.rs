//! `htb`: the hierarchy token bucket (`net/sched/sch_htb.c`, tc-htb(8)). [`htb_tree`](super::htb_tree) has its
//! scheduler.

use super::default_child;
use super::htb_tree::{Class, PRIORITIES, Tree};
use super::prio::dispose;
use crate::attributes::{Attributes, Out, word, words};
use crate::buffer::Buffer;
use crate::error::{TcError, error, invalid};
use crate::filters::{Classified, Filters};
use crate::node::{
    ClassShown, Classful, Context, Discipline, MAJOR, MINOR, Node, Own, QueueCounters, ROOT, Setup,
    Statistics, Verdict,
};
use crate::rate::{Rate, ns_to_ticks, ticks_to_ns};
use belljar_base::SimTime;
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

const PARMS: u16 = 1;
const INIT: u16 = 2;
const DIRECT_QLEN: u16 = 5;
const RATE64: u16 = 6;
const CEIL64: u16 = 7;
const OFFLOAD: u16 = 9;
/// `HTB_VER`: the version in listings, and its major one, that of requests.
const VERSION: u32 = 0x3_0011;
/// Length of `struct tc_htb_opt` in bytes.
const OPT: usize = 44;

/// Tree of classes with rates and ceilings.
#[derive(Debug)]
pub(super) struct Htb {
    tree: Tree,
    rate_to_quantum: u32,
    default: u32,
    /// Packets without a class, which precede all others.
    direct: VecDeque<Buffer>,
    direct_len: u32,
    direct_packets: u32,
}

/// Destination of a packet.
enum Target {
    Direct,
    Leaf(u16),
}

impl Htb {
    pub(super) fn new(options: Option<Attributes<'_>>, setup: &mut Setup<'_>) -> Result<Htb, TcError> {
        let options = options.ok_or(Errno::EINVAL)?;
        let init = options.array::<20>(INIT)?.ok_or(Errno::EINVAL)?;
        if word(&init, 0) != VERSION >> 16 {
            return Err(Errno::EINVAL.into());
        }
        if options.get(OFFLOAD).is_some() {
            return Err(error(Errno::EOPNOTSUPP, "hw-tc-offload ethtool feature flag must be on"));
        }
        Ok(Htb {
            tree: Tree::default(),
            rate_to_quantum: word(&init, 4).max(1),
            default: word(&init, 8),
            direct: VecDeque::new(),
            direct_len: options.u32(DIRECT_QLEN)?.unwrap_or(setup.device.queue_len),
            direct_packets: 0,
        })
    }
    fn find(&self, handle: u32, own: u32) -> Option<u16> {
        let id = (handle & MINOR) as u16;
        (handle & MAJOR == own && self.tree.classes.contains_key(&id)).then_some(id)
    }
    /// Class of a packet (`htb_classify`).
    fn classify(
        &mut self,
        buffer: &mut Buffer,
        own: &mut Own,
        context: &mut Context<'_>,
    ) -> Result<Target, Classified> {
        if buffer.priority == own.handle {
            return Ok(Target::Direct);
        }
        let mut at = self.find(buffer.priority, own.handle);
        loop {
            let classified = match at {
                Some(id) if self.tree.classes[&id].level == 0 => return Ok(Target::Leaf(id)),
                Some(id) => match self.tree.classes.get_mut(&id) {
                    Some(class) => class.filters.classify(buffer, context),
                    None => Classified::Unmatched,
                },
                None => own.filters.classify(buffer, context),
            };
            match classified {
                Classified::Class(class) if class == own.handle => return Ok(Target::Direct),
                Classified::Class(class) => match self.find(class, own.handle) {
                    // Inner filters must lead down, or the walk would not end.
                    Some(next) if at.is_none_or(|at| self.level(next) < self.level(at)) => at = Some(next),
                    _ => break,
                },
                Classified::Unmatched => break,
                disposition => return Err(disposition),
            }
        }
        let default = self.find(own.handle | (self.default & MINOR), own.handle);
        match default.filter(|id| *id != 0 && self.level(*id) == 0) {
            Some(id) => Ok(Target::Leaf(id)),
            None => Ok(Target::Direct),
        }
    }
    fn level(&self, id: u16) -> usize {
        self.tree.classes.get(&id).map_or(0, |class| class.level)
    }
}

impl Discipline for Htb {
    fn kind(&self) -> &'static str {
        "htb"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        match self.classify(&mut buffer, own, context) {
            Err(disposition) => dispose(buffer, disposition, context),
            Ok(Target::Direct) if self.direct.len() < self.direct_len as usize => {
                self.direct.push_back(buffer);
                self.direct_packets += 1;
                Verdict::Queued
            }
            Ok(Target::Direct) => {
                context.drop(buffer);
                Verdict::Dropped
            }
            Ok(Target::Leaf(id)) => {
                let Some(class) = self.tree.classes.get_mut(&id) else { return Verdict::Stolen };
                let Some(leaf) = &mut class.leaf else { return Verdict::Stolen };
                let verdict = leaf.enqueue(buffer, context);
                match verdict {
                    Verdict::Dropped => class.drops += 1,
                    Verdict::Queued | Verdict::Congested => self.tree.activate(id),
                    Verdict::Vanished => class.drops += 1,
                    Verdict::Stolen => {}
                }
                verdict
            }
        }
    }
    fn dequeue(&mut self, own: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        let direct = self.direct.pop_front();
        let taken = direct.or_else(|| self.tree.dequeue(context));
        own.queue.overlimits = self.tree.overlimits;
        taken
    }
    fn dump(&self, out: &mut Out) {
        out.nest(2, |out| {
            let init = [VERSION, self.rate_to_quantum, self.default, 0, self.direct_packets];
            out.put(INIT, &words(init));
            out.u32(DIRECT_QLEN, self.direct_len);
        });
    }
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        out.extend(self.direct.drain(..));
        for class in self.tree.classes.values_mut() {
            if let Some(leaf) = &mut class.leaf {
                leaf.clear(out);
            }
        }
        self.tree.reset();
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for Htb {
    fn classes(&self) -> Vec<u16> {
        self.tree.order.iter().map(|handle| handle as u16).collect()
    }
    fn has(&self, class: u16) -> bool {
        self.tree.classes.contains_key(&class)
    }
    fn child(&self, class: u16) -> Option<&Node> {
        self.tree.classes.get(&class)?.leaf.as_ref()
    }
    fn children(&self) -> Vec<&Node> {
        self.tree.classes.values().filter_map(|class| class.leaf.as_ref()).collect()
    }
    fn children_mut(&mut self) -> Vec<&mut Node> {
        self.tree.classes.values_mut().filter_map(|class| class.leaf.as_mut()).collect()
    }
    fn graft(
        &mut self,
        class: u16,
        node: Option<Node>,
        setup: &mut Setup<'_>,
    ) -> Result<Option<Node>, TcError> {
        let node = node.unwrap_or_else(|| default_child(setup.handle | u32::from(class), setup));
        let found = self.tree.classes.get_mut(&class).ok_or(Errno::ENOENT)?;
        if found.level > 0 {
            return Err(Errno::EINVAL.into());
        }
        Ok(found.leaf.replace(node))
    }
    fn change_class(
        &mut self,
        class: u32,
        parent: u32,
        options: Option<Attributes<'_>>,
        setup: &mut Setup<'_>,
    ) -> Result<u16, TcError> {
        let options = options.ok_or(Errno::EINVAL)?;
        let opt = options.array::<OPT>(PARMS)?.ok_or(Errno::EINVAL)?;
        let parent = if parent == ROOT { None } else { self.find(parent, setup.handle) };
        if word(&opt, 8) == 0 || word(&opt, 20) == 0 {
            return Err(Errno::EINVAL.into());
        }
        let rate = Rate::new(&opt[..12], options.u64(RATE64)?);
        let ceil = Rate::new(&opt[12..24], options.u64(CEIL64)?);
        let (buffer, cbuffer) = (ticks_to_ns(word(&opt, 24)), ticks_to_ns(word(&opt, 28)));
        let (quantum, priority) = (word(&opt, 32), word(&opt, 40));
        let id = (class & MINOR) as u16;
        let now = setup.now.as_nanos() as i64;
        if self.find(class, setup.handle).is_none() {
            if class == 0 || class & MAJOR != setup.handle {
                return Err(Errno::EINVAL.into());
            }
            let level = parent.map(|parent| &self.tree.classes[&parent]).and_then(|class| class.parent);
            if level.is_some_and(|above| self.level(above) < 2) {
                return Err(invalid("sch_htb: tree is too deep"));
            }
            if let Some(parent) = parent {
                if self.level(parent) == 0 {
                    if let Some(mut leaf) =
                        self.tree.classes.get_mut(&parent).and_then(|class| class.leaf.take())
                    {
                        leaf.clear(setup.purged);
                    }
                    self.tree.make_inner(parent);
                }
                if let Some(parent) = self.tree.classes.get_mut(&parent) {
                    parent.children += 1;
                }
            }
            let mut made = Class::new(parent, now, default_child(class, setup));
            (made.tokens, made.ctokens) = (buffer, cbuffer);
            self.tree.classes.insert(id, made);
            self.tree.order.insert(class);
        }
        let divisor = self.rate_to_quantum;
        let Some(found) = self.tree.classes.get_mut(&id) else { return Err(Errno::ENOENT.into()) };
        (found.rate, found.ceil, found.buffer, found.cbuffer) = (rate, ceil, buffer, cbuffer);
        let mut moved = None;
        if found.level == 0 {
            let computed = (rate.bytes / u64::from(divisor)).min(i32::MAX as u64) as i64;
            let bounded = computed.clamp(1_000, 200_000);
            found.quantum = if quantum != 0 { i64::from(quantum) } else { bounded };
            if quantum == 0 && bounded != computed {
                let size = if computed < bounded { "small" } else { "big" };
                *setup.warning =
                    Some(format!("sch_htb: quantum of class {class:X} is {size}. Consider r2q change."));
            }
            let priority = (priority as usize).min(PRIORITIES - 1);
            moved = Some(priority).filter(|priority| *priority != found.priority);
        }
        if let Some(priority) = moved {
            self.tree.deactivate(id);
            if let Some(found) = self.tree.classes.get_mut(&id) {
                found.priority = priority;
                if found.leaf.as_ref().is_some_and(|leaf| leaf.len() > 0) {
                    self.tree.activate(id);
                }
            }
        }
        Ok(id)
    }
    fn delete_class(&mut self, class: u16, in_use: bool, out: &mut Vec<Buffer>) -> Result<(), TcError> {
        let found = self.tree.classes.get(&class).ok_or(Errno::ENOENT)?;
        if found.children > 0 || in_use {
            return Err(error(Errno::EBUSY, "HTB class in use"));
        }
        self.tree.unschedule(class);
        let handle = self.tree.order.iter().find(|handle| *handle as u16 == class);
        let Some(mut found) = self.tree.classes.remove(&class) else { return Ok(()) };
        if let Some(handle) = handle {
            self.tree.order.remove(handle);
        }
        if let Some(leaf) = &mut found.leaf {
            leaf.clear(out);
        }
        if let Some(parent) = found.parent
            && let Some(above) = self.tree.classes.get_mut(&parent)
        {
            above.children -= 1;
            if above.children == 0 {
                let leaf = Node::hidden(0, Box::new(super::Fifo::packets(self.direct_len)));
                self.tree.make_leaf(parent, leaf, found.updated);
            }
        }
        Ok(())
    }
    fn show(&self, class: u16, handle: u32, now: SimTime) -> ClassShown {
        let Some(found) = self.tree.classes.get(&class) else { return ClassShown::default() };
        let mut opt = found.rate.spec();
        opt.extend(found.ceil.spec());
        let quantum = found.quantum as u32;
        let (buffer, cbuffer) = (ns_to_ticks(found.buffer), ns_to_ticks(found.cbuffer));
        opt.extend(words([buffer, cbuffer, quantum, found.level as u32, found.priority as u32]));
        let mut options = Out::default();
        options.nest(2, |out| {
            out.put(PARMS, &opt);
            if let Some(bytes) = found.rate.large() {
                out.u64(RATE64, bytes);
            }
            if let Some(bytes) = found.ceil.large() {
                out.u64(CEIL64, bytes);
            }
        });
        let tokens = |ns: i64| (ns >> 6).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32;
        let own = words([found.lends, found.borrows, 0, tokens(found.tokens), tokens(found.ctokens)]);
        let below = found.leaf.as_ref().map(|leaf| leaf.statistics(now).queue).unwrap_or_default();
        let queue = QueueCounters {
            drops: found.drops,
            overlimits: found.overlimits,
            len: below.len,
            backlog: below.backlog,
            requeues: 0,
        };
        ClassShown {
            parent: found.parent.map_or(ROOT, |parent| handle | u32::from(parent)),
            leaf: found.leaf.as_ref().map_or(0, Node::handle),
            options,
            statistics: Some(Statistics { traffic: found.traffic, queue, own: Some(own) }),
        }
    }
    fn class_filters(&mut self, class: u16) -> Option<&mut Filters> {
        self.tree.classes.get_mut(&class).map(|class| &mut class.filters)
    }
    fn class_filters_ref(&self, class: u16) -> Option<&Filters> {
        self.tree.classes.get(&class).map(|class| &class.filters)
    }
}
