//! `drr`: deficit round robin of classes (Shreedhar and Varghese, 1995; `net/sched/sch_drr.c`, tc-drr(8)).

use super::class_table::ClassTable;
use super::default_child;
use super::prio::dispose;
use super::round::{self, Queue, Turn};
use crate::attributes::{Attributes, Out};
use crate::buffer::Buffer;
use crate::error::{TcError, error, invalid};
use crate::filters::Classified;
use crate::node::{
    ClassShown, Classful, Context, Discipline, MAJOR, MINOR, Node, Own, QueueCounters, ROOT, Setup,
    Statistics, Traffic, Verdict,
};
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;
use std::collections::VecDeque;

const QUANTUM: u16 = 1;

/// Class.
#[derive(Debug)]
struct Class {
    queue: Queue,
    drops: u32,
    traffic: Traffic,
}

/// Classes, of which those with packets take turns.
#[derive(Debug, Default)]
pub(super) struct Drr {
    classes: Map<u16, Class>,
    order: ClassTable,
    active: VecDeque<u16>,
}

impl Drr {
    pub(super) fn new(_: Option<Attributes<'_>>, _: &mut Setup<'_>) -> Result<Drr, TcError> {
        Ok(Drr::default())
    }
    fn find(&self, handle: u32, own: u32) -> Option<u16> {
        let id = (handle & MINOR) as u16;
        (handle & MAJOR == own && self.classes.contains_key(&id)).then_some(id)
    }
}

impl Discipline for Drr {
    fn kind(&self) -> &'static str {
        "drr"
    }
    fn enqueue(&mut self, mut buffer: Buffer, own: &mut Own, context: &mut Context<'_>) -> Verdict {
        let found = self.find(buffer.priority, own.handle);
        let id = match found {
            Some(id) => id,
            None => match own.filters.classify(&mut buffer, context) {
                Classified::Class(class) => match self.find(class, own.handle) {
                    Some(id) => id,
                    None => return dispose(buffer, Classified::Shot, context),
                },
                // A packet without a class is dropped.
                Classified::Unmatched => return dispose(buffer, Classified::Shot, context),
                disposition => return dispose(buffer, disposition, context),
            },
        };
        let Some(class) = self.classes.get_mut(&id) else { return Verdict::Stolen };
        let first = class.queue.child.len() == 0;
        let verdict = class.queue.child.enqueue(buffer, context);
        match verdict {
            Verdict::Queued | Verdict::Congested if first => {
                self.active.push_back(id);
                class.queue.deficit = i64::from(class.queue.quantum);
            }
            Verdict::Dropped | Verdict::Vanished => class.drops += 1,
            _ => {}
        }
        verdict
    }
    fn dequeue(&mut self, _: &mut Own, context: &mut Context<'_>) -> Option<Buffer> {
        round::next(&mut self.active, |id| {
            let class = self.classes.get_mut(&id)?;
            let turn = class.queue.serve(context);
            if let Turn::Packet(packet, _) = &turn {
                class.traffic.count(packet);
            }
            Some(turn)
        })
    }
    fn dump(&self, _: &mut Out) {}
    fn clear(&mut self, out: &mut Vec<Buffer>) {
        self.classes.values_mut().for_each(|class| class.queue.child.clear(out));
        self.active.clear();
    }
    fn classful(&self) -> Option<&dyn Classful> {
        Some(self)
    }
    fn classful_mut(&mut self) -> Option<&mut dyn Classful> {
        Some(self)
    }
}

impl Classful for Drr {
    fn classes(&self) -> Vec<u16> {
        self.order.iter().map(|handle| handle as u16).collect()
    }
    fn has(&self, class: u16) -> bool {
        self.classes.contains_key(&class)
    }
    fn child(&self, class: u16) -> Option<&Node> {
        self.classes.get(&class).map(|class| &class.queue.child)
    }
    fn children(&self) -> Vec<&Node> {
        self.classes.values().map(|class| &class.queue.child).collect()
    }
    fn children_mut(&mut self) -> Vec<&mut Node> {
        self.classes.values_mut().map(|class| &mut class.queue.child).collect()
    }
    fn graft(
        &mut self,
        class: u16,
        node: Option<Node>,
        setup: &mut Setup<'_>,
    ) -> Result<Option<Node>, TcError> {
        let node = node.unwrap_or_else(|| default_child(setup.handle | u32::from(class), setup));
        let found = self.classes.get_mut(&class).ok_or(Errno::ENOENT)?;
        self.active.retain(|active| *active != class);
        Ok(Some(std::mem::replace(&mut found.queue.child, node)))
    }
    fn change_class(
        &mut self,
        class: u32,
        _: u32,
        options: Option<Attributes<'_>>,
        setup: &mut Setup<'_>,
    ) -> Result<u16, TcError> {
        let options = options.ok_or(invalid("DRR options are required for this operation"))?;
        let quantum = options.u32(QUANTUM)?;
        if quantum == Some(0) {
            return Err(invalid("Specified DRR quantum cannot be zero"));
        }
        let id = (class & MINOR) as u16;
        let usual = setup.device.mtu + setup.device.header;
        if let Some(found) = self.classes.get_mut(&id) {
            found.queue.quantum = quantum.unwrap_or(found.queue.quantum);
            return Ok(id);
        }
        if class & MAJOR != setup.handle || id == 0 {
            return Err(Errno::EINVAL.into());
        }
        let child = default_child(class, setup);
        let quantum = quantum.unwrap_or(usual);
        self.classes.insert(
            id,
            Class { queue: Queue { quantum, deficit: 0, child }, drops: 0, traffic: Traffic::default() },
        );
        self.order.insert(class);
        Ok(id)
    }
    fn delete_class(&mut self, class: u16, in_use: bool, out: &mut Vec<Buffer>) -> Result<(), TcError> {
        if in_use {
            return Err(error(Errno::EBUSY, "DRR class is in use"));
        }
        let handle = self.order.iter().find(|handle| *handle as u16 == class);
        if let Some(mut found) = self.classes.remove(&class) {
            found.queue.child.clear(out);
        }
        if let Some(handle) = handle {
            self.order.remove(handle);
        }
        self.active.retain(|active| *active != class);
        Ok(())
    }
    fn show(&self, class: u16, _: u32, now: SimTime) -> ClassShown {
        let Some(found) = self.classes.get(&class) else { return ClassShown::default() };
        let below = found.queue.child.statistics(now).queue;
        let queue = QueueCounters {
            drops: found.drops,
            len: below.len,
            backlog: below.backlog,
            ..QueueCounters::default()
        };
        let deficit = if below.len > 0 { found.queue.deficit as u32 } else { 0 };
        let mut options = Out::default();
        options.nest(2, |out| out.u32(QUANTUM, found.queue.quantum));
        let own = Some(deficit.to_ne_bytes().to_vec());
        let statistics = Some(Statistics { traffic: found.traffic, queue, own });
        ClassShown { parent: ROOT, leaf: found.queue.child.handle(), options, statistics }
    }
}
