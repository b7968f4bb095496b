//! Filters of a discipline or class: chains of classifiers by priority (`net/sched/cls_api.c`).

use crate::action::{ActionKey, Actions, verdict};
use crate::attributes::{Attributes, Out};
use crate::buffer::Buffer;
use crate::classifiers::{Change, Classifier};
use crate::error::{TcError, error, invalid};
use crate::node::Context;
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;

/// EtherType of a filter for all protocols.
const ALL_PROTOCOLS: u16 = 3;
/// Number of classifications anew after which a packet is dropped.
const MAX_RECLASSIFICATIONS: u32 = 16;
/// Mask of the priority in `tcm_info`; the protocol is below.
pub(crate) const PRIORITY: u32 = 0xffff_0000;
/// First priority that is chosen where a request has none.
const AUTO_PRIORITY: u32 = 0xc000_0000;

/// Result of the filters for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classified {
    /// No filter matched.
    Unmatched,
    /// Handle of the class.
    Class(u32),
    /// The packet is dropped.
    Shot,
    /// The packet is consumed.
    Stolen,
}

/// Match of a filter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Match {
    /// `TC_ACT_*`.
    pub(crate) verdict: i32,
    pub(crate) class: u32,
}

/// Classifier of one priority and protocol (`struct tcf_proto`).
#[derive(Debug)]
struct Proto {
    priority: u32,
    protocol: u16,
    classifier: Classifier,
}

/// Chains of classifiers by number (`struct tcf_block`).
#[derive(Debug, Default)]
pub(crate) struct Filters {
    chains: Map<u32, Vec<Proto>>,
    tables: crate::classifiers::Tables,
}

/// Selection of filters by a request: `tcm_info`, the handle, the kind and the chain.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a> {
    pub(crate) info: u32,
    pub(crate) handle: u32,
    pub(crate) kind: Option<&'a [u8]>,
    pub(crate) chain: u32,
}

impl Selection<'_> {
    fn priority(&self) -> u32 {
        self.info & PRIORITY
    }
    /// Protocol in host order.
    fn protocol(&self) -> u16 {
        u16::from_be((self.info & !PRIORITY) as u16)
    }
}

/// Filter that a request has made, changed or found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) chain: u32,
    pub(crate) priority: u32,
    pub(crate) protocol: u16,
    /// Handle of the filter; `None` for its classifier as a whole.
    pub(crate) handle: Option<u32>,
}

/// Surroundings of a change of filters.
pub(crate) struct FilterSetup<'a> {
    pub(crate) actions: &'a mut Actions,
    pub(crate) now: SimTime,
    pub(crate) devices: &'a dyn Fn(u32) -> Option<usize>,
}

const NOT_FOUND: TcError = error(Errno::ENOENT, "Filter with specified priority/protocol not found");
const WRONG_KIND: TcError = invalid("Specified filter kind does not match existing one");
const NEEDS_CREATE: TcError =
    error(Errno::ENOENT, "Need both RTM_NEWTFILTER and NLM_F_CREATE to create a new filter");

impl Filters {
    pub(crate) fn is_empty(&self) -> bool {
        self.chains.is_empty()
    }
    /// Classifies a packet (`tcf_classify`).
    pub(crate) fn classify(&mut self, buffer: &mut Buffer, context: &mut Context<'_>) -> Classified {
        match self.decide(buffer, context) {
            None => Classified::Unmatched,
            Some(matched) => match matched.verdict {
                verdict::SHOT => Classified::Shot,
                verdict::STOLEN | verdict::QUEUED | verdict::TRAP => Classified::Stolen,
                _ => Classified::Class(matched.class),
            },
        }
    }
    fn decide(&mut self, buffer: &mut Buffer, context: &mut Context<'_>) -> Option<Match> {
        let (mut chain, mut rounds) = (0, 0);
        'chain: loop {
            let protocol = buffer.protocol();
            for proto in self.chains.get_mut(&chain)? {
                if ![protocol, ALL_PROTOCOLS].contains(&proto.protocol) {
                    continue;
                }
                let Some(matched) = proto.classifier.classify(&mut self.tables, buffer, context) else {
                    continue;
                };
                let goes = matched.verdict & !verdict::OPERAND == verdict::GOTO_CHAIN;
                if !goes && matched.verdict != verdict::RECLASSIFY {
                    return Some(matched);
                }
                rounds += 1;
                if rounds > MAX_RECLASSIFICATIONS {
                    return Some(Match { verdict: verdict::SHOT, ..matched });
                }
                chain = if goes { (matched.verdict & verdict::OPERAND) as u32 } else { 0 };
                continue 'chain;
            }
            return None;
        }
    }
    /// Position of the classifier of a priority, or the place for a new one (`tcf_chain_tp_find`).
    fn position(&self, selection: &Selection<'_>, allocates: bool) -> Result<(usize, bool), TcError> {
        let all = self.chains.get(&selection.chain).map_or(&[][..], Vec::as_slice);
        let priority = if allocates { 0x8000_0000 } else { selection.priority() };
        let at = all.iter().position(|proto| proto.priority >= priority).unwrap_or(all.len());
        let Some(proto) = all.get(at).filter(|proto| proto.priority == priority) else {
            return Ok((at, false));
        };
        if allocates {
            return Err(error(Errno::ENOSPC, "Lowest ID from auto-alloc range already in use"));
        }
        let protocol = selection.protocol();
        if protocol != 0 && proto.protocol != protocol {
            return Err(invalid("Protocol mismatch for filter with specified priority"));
        }
        Ok((at, true))
    }
    /// Makes or changes a filter (`tc_new_tfilter`).
    pub(crate) fn change(
        &mut self,
        selection: Selection<'_>,
        (create, exclusive): (bool, bool),
        attributes: Attributes<'_>,
        setup: &mut FilterSetup<'_>,
    ) -> Result<Found, TcError> {
        let allocates = selection.priority() == 0;
        let (at, exists) = self.position(&selection, allocates)?;
        let mut made = false;
        if !exists {
            let kind = selection.kind.filter(|_| selection.protocol() != 0);
            let kind = kind.ok_or(invalid("Filter kind and protocol must be specified"))?;
            if !create {
                return Err(NEEDS_CREATE);
            }
            let all = self.chains.get(&selection.chain).map_or(&[][..], Vec::as_slice);
            let next = all.get(at).map_or(AUTO_PRIORITY, |proto| proto.priority.wrapping_sub(1));
            let priority = if allocates { next & PRIORITY } else { selection.priority() };
            let classifier = Classifier::new(kind, &mut self.tables, priority);
            let classifier = classifier.ok_or(error(Errno::ENOENT, "TC classifier not found"))?;
            let proto = Proto { priority, protocol: selection.protocol(), classifier };
            self.chains.entry(selection.chain).or_default().insert(at, proto);
            made = true;
        }
        let changed = self.change_at(at, selection, (create, exclusive), attributes, setup);
        if made && changed.is_err() {
            self.remove_at(selection.chain, at, setup.actions);
        }
        changed
    }
    fn change_at(
        &mut self,
        at: usize,
        selection: Selection<'_>,
        (create, exclusive): (bool, bool),
        attributes: Attributes<'_>,
        setup: &mut FilterSetup<'_>,
    ) -> Result<Found, TcError> {
        let protos = self.chains.get_mut(&selection.chain).ok_or(NOT_FOUND)?;
        let proto = protos.get_mut(at).ok_or(NOT_FOUND)?;
        if selection.kind.is_some_and(|kind| kind != proto.classifier.kind().as_bytes()) {
            return Err(WRONG_KIND);
        }
        let exists = proto.classifier.has(&self.tables, selection.handle);
        if !exists && !create {
            return Err(NEEDS_CREATE);
        }
        if exists && exclusive {
            return Err(error(Errno::EEXIST, "Filter already exists"));
        }
        let options = attributes.nested(2);
        let change = Change { handle: selection.handle, exists, create, priority: proto.priority, options };
        let handle = proto.classifier.change(&mut self.tables, change, setup)?;
        let Proto { priority, protocol, .. } = *proto;
        Ok(Found {
            chain: selection.chain,
            priority,
            protocol,
            handle: Some(handle).filter(|handle| *handle != 0),
        })
    }
    fn remove_at(&mut self, chain: u32, at: usize, actions: &mut Actions) {
        let Some(protos) = self.chains.get_mut(&chain) else { return };
        if at < protos.len() {
            let mut proto = protos.remove(at);
            proto.classifier.clear(&mut self.tables, proto.priority, actions);
        }
        if protos.is_empty() {
            self.chains.remove(&chain);
        }
    }
    /// Deletes filters (`tc_del_tfilter`). Returns those deleted.
    pub(crate) fn delete(
        &mut self,
        selection: Selection<'_>,
        actions: &mut Actions,
    ) -> Result<Vec<Found>, TcError> {
        if !self.chains.contains_key(&selection.chain) {
            return match selection.priority() {
                0 => Ok(Vec::new()),
                _ => Err(error(Errno::ENOENT, "Cannot find specified filter chain")),
            };
        }
        let whole = |proto: &Proto| Found {
            chain: selection.chain,
            priority: proto.priority,
            protocol: proto.protocol,
            handle: None,
        };
        if selection.priority() == 0 {
            let found = self.chains.get(&selection.chain).map(|all| all.iter().map(whole).collect());
            while self.chains.contains_key(&selection.chain) {
                self.remove_at(selection.chain, 0, actions);
            }
            return Ok(found.unwrap_or_default());
        }
        let (at, exists) = self.position(&selection, false)?;
        let protos = self.chains.get_mut(&selection.chain).ok_or(NOT_FOUND)?;
        let proto = protos.get_mut(at).filter(|_| exists).ok_or(NOT_FOUND)?;
        if selection.kind.is_some_and(|kind| kind != proto.classifier.kind().as_bytes()) {
            return Err(WRONG_KIND);
        }
        let mut found = whole(proto);
        if selection.handle == 0 {
            self.remove_at(selection.chain, at, actions);
            return Ok(vec![found]);
        }
        if !proto.classifier.has(&self.tables, selection.handle) {
            return Err(error(Errno::ENOENT, "Specified filter handle not found"));
        }
        found.handle = Some(selection.handle);
        if proto.classifier.delete(&mut self.tables, selection.handle, actions)? {
            self.remove_at(selection.chain, at, actions);
        }
        Ok(vec![found])
    }
    /// Finds one filter (`tc_get_tfilter`).
    pub(crate) fn get(&self, selection: Selection<'_>) -> Result<Found, TcError> {
        if selection.priority() == 0 {
            return Err(error(Errno::ENOENT, "Invalid filter command with priority of zero"));
        }
        if !self.chains.contains_key(&selection.chain) {
            return Err(invalid("Cannot find specified filter chain"));
        }
        let (at, exists) = self.position(&selection, false)?;
        let protos = self.chains.get(&selection.chain).ok_or(NOT_FOUND)?;
        let proto = protos.get(at).filter(|_| exists).ok_or(NOT_FOUND)?;
        if selection.kind.is_some_and(|kind| kind != proto.classifier.kind().as_bytes()) {
            return Err(WRONG_KIND);
        }
        if !proto.classifier.has(&self.tables, selection.handle) {
            return Err(error(Errno::ENOENT, "Specified filter handle not found"));
        }
        let Proto { priority, protocol, .. } = *proto;
        Ok(Found { chain: selection.chain, priority, protocol, handle: Some(selection.handle) })
    }
    /// All filters that a listing with these conditions shows, each classifier before its filters.
    pub(crate) fn list(&self, info: u32, chain: Option<u32>) -> Vec<Found> {
        let (priority, protocol) = (info & PRIORITY, u16::from_be((info & !PRIORITY) as u16));
        let mut all = Vec::new();
        for (number, protos) in self.chains.iter() {
            if chain.is_some_and(|chain| chain != *number) {
                continue;
            }
            for proto in protos {
                let wanted = (priority == 0 || priority == proto.priority)
                    && (protocol == 0 || protocol == proto.protocol);
                if !wanted {
                    continue;
                }
                let Proto { priority, protocol, .. } = *proto;
                let found = Found { chain: *number, priority, protocol, handle: None };
                all.push(found);
                let handles = proto.classifier.handles(&self.tables, priority);
                all.extend(handles.into_iter().map(|handle| Found { handle: Some(handle), ..found }));
            }
        }
        all
    }
    /// Numbers of the chains.
    pub(crate) fn chains(&self) -> Vec<u32> {
        self.chains.keys().copied().collect()
    }
    /// Kind of the classifier of a filter.
    pub(crate) fn kind(&self, found: &Found) -> &'static str {
        self.proto(found).map_or("", |proto| proto.classifier.kind())
    }
    fn proto(&self, found: &Found) -> Option<&Proto> {
        self.chains.get(&found.chain)?.iter().find(|proto| proto.priority == found.priority)
    }
    /// Appends the options of a filter.
    pub(crate) fn dump(&self, found: &Found, actions: &Actions, now: SimTime, out: &mut Out) {
        if let (Some(proto), Some(handle)) = (self.proto(found), found.handle) {
            out.nest(2, |out| proto.classifier.dump(&self.tables, handle, actions, now, out));
        }
    }
    /// True if a filter leads to a class.
    pub(crate) fn use_class(&self, class: u32) -> bool {
        let protos = self.chains.values().flatten();
        protos.into_iter().any(|proto| proto.classifier.uses(&self.tables, proto.priority, class))
    }
    /// Deletes all filters.
    pub(crate) fn clear(&mut self, actions: &mut Actions) {
        while let Some((&chain, _)) = self.chains.first_key_value() {
            self.remove_at(chain, 0, actions);
        }
    }
}

/// Actions of a filter, with the class that it leads to.
#[derive(Debug, Default)]
pub(crate) struct Target {
    pub(crate) class: u32,
    pub(crate) actions: Vec<ActionKey>,
    /// True if the actions were given as the police of an older `tc`.
    police: bool,
}

/// Attributes of a classifier's options: the class, the actions, the old police, and the input interface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetAttributes {
    pub(crate) class: u16,
    pub(crate) actions: u16,
    pub(crate) police: u16,
    pub(crate) device: u16,
}

impl Target {
    /// Reads class and actions of a filter (`tcf_exts_validate`).
    pub(crate) fn read(
        options: Attributes<'_>,
        kinds: TargetAttributes,
        create: bool,
        setup: &mut FilterSetup<'_>,
    ) -> Result<Target, TcError> {
        let class = options.u32(kinds.class)?.unwrap_or(0);
        if kinds.device != 0 && options.get(kinds.device).is_some() {
            return Err(error(Errno::EOPNOTSUPP, "filters by input interface are not supported"));
        }
        let FilterSetup { actions, now, devices } = setup;
        let police = options.nested(kinds.police).filter(|_| kinds.police != 0);
        let made = match (police, options.nested(kinds.actions)) {
            (Some(police), _) => {
                let request = crate::action::ActionRequest {
                    attributes: Attributes(&[]),
                    replace: !create,
                    bind: true,
                };
                vec![actions.make_kind(b"police", Some(police), request, *now, *devices)?]
            }
            (None, Some(list)) => actions.make_all(list, (!create, true), *now, *devices)?,
            (None, None) => Vec::new(),
        };
        Ok(Target { class, actions: made, police: police.is_some() })
    }
    /// Executes the actions; `None` if they let the search go on.
    pub(crate) fn execute(
        &self,
        class: u32,
        buffer: &mut Buffer,
        context: &mut Context<'_>,
    ) -> Option<Match> {
        let verdict = match self.actions.is_empty() {
            true => verdict::OK,
            false => Actions::execute(&self.actions, buffer, context),
        };
        (verdict >= 0).then_some(Match { verdict, class })
    }
    /// Appends class and actions.
    pub(crate) fn dump(&self, kinds: TargetAttributes, actions: &Actions, now: SimTime, out: &mut Out) {
        if self.class != 0 {
            out.u32(kinds.class, self.class);
        }
        match self.actions.first() {
            None => {}
            Some(key) if self.police => {
                out.nest(kinds.police, |out| actions.dump_options(key, now, out));
            }
            Some(_) => out.nest(kinds.actions, |out| {
                for (number, key) in self.actions.iter().enumerate() {
                    out.nest(number as u16 + 1, |out| actions.dump(key, false, now, out));
                }
            }),
        }
    }
}
