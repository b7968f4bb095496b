//! Requests about elements of sets.

use super::draft::{Draft, list};
use super::message::{Message, flag as message_flag};
use super::number;
use crate::attributes::{Attribute, Attributes, NetfilterError, Writer};
use crate::contents::{CATCHALL, Element, INTERVAL_END, has_timeouts};
use crate::expression::read_stateful;
use crate::operation::{Data, DumpScope, dump_value};
use crate::ruleset::Table;
use crate::set::{LIST_ELEM, Set, dump_expression, dump_expressions, flag};
use belljar_base::{SimDuration, SimTime};
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// `NFTA_SET_ELEM_LIST_*`.
pub(super) const LIST_TABLE: u16 = 1;
pub(super) const LIST_SET: u16 = 2;
pub(super) const LIST_ELEMENTS: u16 = 3;
const LIST_SET_ID: u16 = 4;

/// `NFTA_SET_ELEM_*`.
const KEY: u16 = 1;
const DATA: u16 = 2;
const FLAGS: u16 = 3;
const TIMEOUT: u16 = 4;
const EXPIRATION: u16 = 5;
const USERDATA: u16 = 6;
const EXPR: u16 = 7;
const OBJREF: u16 = 9;
const KEY_END: u16 = 10;
const EXPRESSIONS: u16 = 11;

/// Writes an element.
pub(super) fn dump(element: &Element, set: &Set, names: &dyn DumpScope, out: &mut Writer) {
    out.nest(LIST_ELEM, |out| {
        if element.flags & CATCHALL == 0 {
            dump_value(KEY, &element.key, out);
        }
        if let Some(end) = &element.key_end {
            dump_value(KEY_END, end, out);
        }
        if let Some(data) = &element.data {
            data.dump(DATA, names, out);
        }
        match &element.expressions[..] {
            [] => {}
            [one] => out.nest(EXPR, |out| dump_expression(&**one, names, out)),
            several => out.nest(EXPRESSIONS, |out| dump_expressions(several, names, out)),
        }
        if let Some(object) = &element.object {
            out.text(OBJREF, &object.name);
        }
        if element.flags != 0 {
            out.u32(FLAGS, element.flags);
        }
        if let Some(timeout) = element.timeout.filter(|timeout| *timeout != set.timeout) {
            out.u64(TIMEOUT, timeout);
        }
        if let Some(expires) = element.expires {
            out.u64(EXPIRATION, expires.since(names.now()).as_nanos() / 1_000_000);
        }
        if !element.userdata.is_empty() {
            out.bytes(USERDATA, &element.userdata);
        }
    });
}

/// The table and the set that a request names.
fn set_of(draft: &Draft<'_>, message: &Message<'_>) -> Result<(usize, Arc<Set>), NetfilterError> {
    let attributes = message.attributes();
    let at = draft.table_of(message)?;
    let name = attributes.need(LIST_SET)?;
    if let Some(set) = draft.tables[at].set(name.text()?) {
        return Ok((at, set.clone()));
    }
    let id = attributes.u32(LIST_SET_ID)?;
    let found = id.and_then(|id| draft.set_ids.iter().rev().find(|(other, _)| *other == id));
    found.map(|(_, set)| (at, set.clone())).ok_or(name.failure(Errno::ENOENT))
}

/// True if rules refer to a set.
fn is_bound(table: &Table, set: &Set) -> bool {
    table.uses_in_rules(crate::operation::Reference::Set(set.number)) > 0
}

/// `NFT_MSG_NEWSETELEM`.
pub(super) fn add(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let elements = message.attributes().need(LIST_ELEMENTS)?;
    let (at, set) = set_of(draft, message)?;
    if set.has(flag::CONSTANT | flag::ANONYMOUS) && is_bound(&draft.tables[at], &set) {
        return Err(Errno::EBUSY.into());
    }
    let now = draft.now();
    draft.contents.of_mut(set.number).collect(now);
    for (_, one) in elements.nested().iter() {
        let element = read(draft, at, &set, one.nested()).map_err(|failure| match failure.at {
            Some(_) => failure,
            None => one.failure(failure.errno),
        })?;
        insert(draft, at, &set, element, one, message)?;
    }
    if set.data_type == crate::set::DATA_VERDICT {
        draft.touch(at);
        if draft.careful {
            crate::validate::validate(&draft.tables[at], draft.contents)?;
        }
    }
    Ok(())
}

/// Adds an element to a set, if it is not there.
fn insert(
    draft: &mut Draft<'_>,
    at: usize,
    set: &Arc<Set>,
    element: Element,
    one: Attribute<'_>,
    message: &Message<'_>,
) -> Result<(), NetfilterError> {
    let now = draft.now();
    let elements = draft.contents.of(set.number);
    let position = element.position(set);
    if let Some(found) = elements.at(&position, now) {
        if found.data != element.data
            || found.object.as_ref().map(|o| o.handle) != element.object.as_ref().map(|o| o.handle)
        {
            return Err(one.failure(Errno::EBUSY));
        }
        return match message.has(message_flag::EXCL) {
            true => Err(one.failure(Errno::EEXIST)),
            false => Ok(()),
        };
    }
    if elements.is_inside(set, &position) {
        return Err(one.failure(Errno::ENOTEMPTY));
    }
    if set.size != 0 && !set.has(flag::INTERVAL) && elements.len() >= set.size as usize {
        return Err(one.failure(Errno::ENFILE));
    }
    draft.announce_element(number::NEWSETELEM, at, set, &element, message);
    let undo = draft.contents.put(set, element);
    draft.undo.push(undo);
    Ok(())
}

impl Draft<'_> {
    /// Queues a notification of an element of a set with a name.
    fn announce_element(
        &mut self,
        kind: u8,
        at: usize,
        set: &Arc<Set>,
        element: &Element,
        message: &Message<'_>,
    ) {
        if set.has(flag::ANONYMOUS) {
            return;
        }
        self.announce(kind, at, message, |table, names, out| {
            out.text(LIST_TABLE, &table.name);
            out.text(LIST_SET, &set.name);
            out.nest(LIST_ELEMENTS, |out| dump(element, set, names, out));
        });
    }
}

/// Reads the key of an element.
fn read_key(set: &Set, attributes: Attributes<'_>) -> Result<Element, NetfilterError> {
    let flags = attributes.u32(FLAGS)?.unwrap_or(0);
    if flags & !(INTERVAL_END | CATCHALL) != 0 || flags == INTERVAL_END | CATCHALL {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if flags & INTERVAL_END != 0 && !set.has(flag::INTERVAL) {
        return Err(Errno::EINVAL.into());
    }
    let mut element = Element { flags, ..Element::new(Vec::new()) };
    match attributes.get(KEY) {
        Some(_) if flags & CATCHALL != 0 => return Err(Errno::EINVAL.into()),
        Some(key) => element.key = Data::read_value(key.nested(), Some(set.key_len))?,
        None if flags & CATCHALL == 0 => return Err(Errno::EINVAL.into()),
        None => {}
    }
    if let Some(end) = attributes.get(KEY_END) {
        if !set.has(flag::INTERVAL) {
            return Err(Errno::EINVAL.into());
        }
        element.key_end = Some(Data::read_value(end.nested(), Some(set.key_len))?);
    }
    Ok(element)
}

/// Reads an element.
fn read(
    draft: &mut Draft<'_>,
    at: usize,
    set: &Set,
    attributes: Attributes<'_>,
) -> Result<Element, NetfilterError> {
    let mut element = read_key(set, attributes)?;
    let is_end = element.flags & INTERVAL_END != 0;
    match attributes.get(DATA) {
        Some(_) if !set.has(flag::MAP) || is_end => return Err(Errno::EINVAL.into()),
        None if set.has(flag::MAP) && !is_end => return Err(Errno::EINVAL.into()),
        None => {}
        Some(data) => {
            let data = draft.with_scope(at, |scope| Data::read(data.nested(), scope))?;
            let fits = match &data {
                Data::Value(value) => {
                    value.len() == set.data_len && set.data_type != crate::set::DATA_VERDICT
                }
                Data::Verdict(_) => set.data_type == crate::set::DATA_VERDICT,
            };
            if !fits {
                return Err(Errno::EINVAL.into());
            }
            element.data = Some(data);
        }
    }
    match attributes.get(OBJREF) {
        Some(_) if !set.has(flag::OBJECT) || is_end => return Err(Errno::EINVAL.into()),
        None if set.has(flag::OBJECT) && !is_end => return Err(Errno::EINVAL.into()),
        None => {}
        Some(name) => {
            let found = draft.tables[at].object(name.text()?, set.object_type);
            element.object = Some(found.cloned().ok_or(name.failure(Errno::ENOENT))?);
        }
    }
    read_timeout(set, attributes, is_end, draft.now(), &mut element)?;
    if let Some(data) = attributes.get(USERDATA) {
        element.userdata = data.value.to_vec();
    }
    element.expressions = draft.with_scope(at, |scope| {
        let mut found = Vec::new();
        if let Some(one) = attributes.get(EXPR) {
            found.push(read_stateful(one.nested(), scope)?);
        } else if let Some(several) = attributes.get(EXPRESSIONS) {
            for one in list(several.nested())? {
                found.push(read_stateful(one.nested(), scope)?);
            }
        }
        Ok(found)
    })?;
    if element.expressions.is_empty() && !is_end {
        element.expressions = set.expressions.iter().filter_map(|template| template.fresh()).collect();
    }
    Ok(element)
}

fn read_timeout(
    set: &Set,
    attributes: Attributes<'_>,
    is_end: bool,
    now: SimTime,
    element: &mut Element,
) -> Result<(), NetfilterError> {
    let timeout = match attributes.u64(TIMEOUT)? {
        Some(_) if !has_timeouts(set) => return Err(Errno::EINVAL.into()),
        Some(timeout) => timeout,
        None if is_end => 0,
        None => set.timeout,
    };
    let remaining = match attributes.u64(EXPIRATION)? {
        Some(_) if !has_timeouts(set) => return Err(Errno::EINVAL.into()),
        Some(remaining) if timeout == 0 || remaining > timeout => return Err(Errno::ERANGE.into()),
        Some(remaining) => remaining,
        None => timeout,
    };
    if timeout != 0 {
        element.timeout = Some(timeout);
        element.expires = Some(now.saturating_add(SimDuration::from_millis(remaining)));
    }
    Ok(())
}

/// `NFT_MSG_DELSETELEM`; without elements, all of the set.
pub(super) fn remove(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let (at, set) = set_of(draft, message)?;
    if set.has(flag::CONSTANT | flag::ANONYMOUS) && is_bound(&draft.tables[at], &set) {
        return Err(Errno::EBUSY.into());
    }
    let now = draft.now();
    let Some(elements) = message.attributes().get(LIST_ELEMENTS) else {
        let all: Vec<Element> = draft.contents.of(set.number).live(now).cloned().collect();
        all.iter().for_each(|element| take(draft, at, &set, element, message));
        return Ok(());
    };
    for (_, one) in elements.nested().iter() {
        let wanted = read_key(&set, one.nested()).map_err(|failure| one.failure(failure.errno))?;
        let found = draft.contents.of(set.number).at(&wanted.position(&set), now).cloned();
        let found = found.ok_or(one.failure(Errno::ENOENT))?;
        take(draft, at, &set, &found, message);
    }
    Ok(())
}

fn take(draft: &mut Draft<'_>, at: usize, set: &Arc<Set>, element: &Element, message: &Message<'_>) {
    draft.announce_element(number::DELSETELEM, at, set, element, message);
    let undo = draft.contents.take(set, element.position(set));
    draft.undo.push(undo);
}

/// The elements that a query names, or all.
pub(super) fn wanted<'e>(
    set: &Set,
    elements: &'e crate::contents::Elements,
    attributes: Attributes<'_>,
    now: SimTime,
) -> Result<Vec<&'e Element>, NetfilterError> {
    let Some(keys) = attributes.get(LIST_ELEMENTS) else { return Ok(elements.live(now).collect()) };
    let mut found = Vec::new();
    for (_, one) in keys.nested().iter() {
        let wanted = read_key(set, one.nested())?;
        let at_key = elements.at(&wanted.position(set), now);
        let within = || elements.find(set, &wanted.key, now);
        found.push(at_key.or_else(within).ok_or(one.failure(Errno::ENOENT))?);
    }
    Ok(found)
}
