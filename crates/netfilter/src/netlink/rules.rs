//! Requests about rules.

use super::draft::{Draft, chain_named, list};
use super::message::{Message, flag};
use super::number;
use crate::attributes::{Attribute, NetfilterError, Writer};
use crate::expression;
use crate::operation::{DumpScope, Reference};
use crate::ruleset::{CHAIN_BINDING, Chain, Rule, Table};
use crate::set::{self, dump_expressions};
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// `NFTA_RULE_*`.
pub(super) const TABLE: u16 = 1;
pub(super) const CHAIN: u16 = 2;
pub(super) const HANDLE: u16 = 3;
const EXPRESSIONS: u16 = 4;
const COMPAT: u16 = 5;
const POSITION: u16 = 6;
const USERDATA: u16 = 7;
const ID: u16 = 9;
const POSITION_ID: u16 = 10;
const CHAIN_ID: u16 = 11;

/// Maximum number of expressions of a rule, `NFT_RULE_MAXEXPRS`.
const MAX_EXPRESSIONS: usize = 128;

/// Writes the attributes of a rule after the rule of handle `before`.
pub(super) fn dump(
    table: &Table,
    chain: &Chain,
    rule: &Rule,
    before: Option<u64>,
    names: &dyn DumpScope,
    out: &mut Writer,
) {
    out.text(TABLE, &table.name);
    out.text(CHAIN, &chain.name);
    out.u64(HANDLE, rule.handle);
    if let Some(before) = before {
        out.u64(POSITION, before);
    }
    out.nest(EXPRESSIONS, |out| dump_expressions(&rule.expressions, names, out));
    if !rule.userdata.is_empty() {
        out.bytes(USERDATA, &rule.userdata);
    }
}

/// The chain that a request names.
fn chain_of(draft: &Draft<'_>, at: usize, message: &Message<'_>) -> Result<Arc<Chain>, NetfilterError> {
    let (attributes, table) = (message.attributes(), &draft.tables[at]);
    if let Some(name) = attributes.get(CHAIN) {
        return chain_named(table, name);
    }
    let id = attributes.need(CHAIN_ID)?;
    let wanted = id.u32()?;
    let found = draft.chain_ids.iter().rev().find(|(other, _)| *other == wanted);
    let found = found.and_then(|(_, handle)| table.chains.get(handle));
    found.cloned().ok_or(id.failure(Errno::ENOENT))
}

/// Position of a rule in a chain, by handle.
fn position(chain: &Chain, handle: Attribute<'_>) -> Result<usize, NetfilterError> {
    let wanted = handle.u64()?;
    let found = chain.rules.iter().position(|rule| rule.handle == wanted);
    found.ok_or(handle.failure(Errno::ENOENT))
}

/// Position of a rule of the same batch in a chain, by identifier.
fn position_by_id(draft: &Draft<'_>, chain: &Chain, id: Attribute<'_>) -> Result<usize, NetfilterError> {
    let wanted = id.u32()?;
    let handle = draft.rule_ids.iter().rev().find(|(other, _)| *other == wanted).map(|(_, handle)| *handle);
    let found = chain.rules.iter().position(|rule| Some(rule.handle) == handle);
    found.ok_or(id.failure(Errno::ENOENT))
}

/// `NFT_MSG_NEWRULE`.
pub(super) fn add(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let at = draft.table_of(message)?;
    let chain = chain_of(draft, at, message)?;
    let mut replaced = None;
    let mut beside = None;
    if let Some(handle) = attributes.get(HANDLE) {
        let found = position(&chain, handle)?;
        if message.has(flag::EXCL) {
            return Err(handle.failure(Errno::EEXIST));
        }
        if !message.has(flag::REPLACE) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        replaced = Some(found);
    } else {
        if !message.has(flag::CREATE) || message.has(flag::REPLACE) {
            return Err(Errno::EINVAL.into());
        }
        if let Some(handle) = attributes.get(POSITION) {
            beside = Some(position(&chain, handle)?);
        } else if let Some(id) = attributes.get(POSITION_ID) {
            beside = Some(position_by_id(draft, &chain, id)?);
        }
    }
    let rule = read(draft, at, message)?;
    if let Some(id) = attributes.u32(ID)? {
        draft.rule_ids.push((id, rule.handle));
    }
    let append = message.has(flag::APPEND);
    let index = match (replaced, beside) {
        (Some(replaced), _) => {
            remove_at(draft, at, chain.handle, replaced, message);
            replaced
        }
        (None, Some(beside)) => beside + usize::from(append),
        (None, None) if append => chain.rules.len(),
        (None, None) => 0,
    };
    let Some(target) = draft.table_mut(at).chain_mut(chain.handle) else { return Err(Errno::ENOENT.into()) };
    let index = index.min(target.rules.len());
    target.rules.insert(index, Arc::new(rule));
    draft.touch(at);
    draft.announce(number::NEWRULE, at, message, |table, names, out| {
        let Some(chain) = table.chains.get(&chain.handle) else { return };
        let before = index.checked_sub(1).map(|before| chain.rules[before].handle);
        dump(table, chain, &chain.rules[index], before, names, out);
    });
    if draft.careful {
        crate::validate::validate(&draft.tables[at], draft.contents)?;
    }
    Ok(())
}

/// Reads a rule of a request.
fn read(draft: &mut Draft<'_>, at: usize, message: &Message<'_>) -> Result<Rule, NetfilterError> {
    let attributes = message.attributes();
    let handle = draft.table_mut(at).new_handle();
    let mut expressions = Vec::new();
    if let Some(found) = attributes.get(EXPRESSIONS) {
        for one in list(found.nested())? {
            if expressions.len() == MAX_EXPRESSIONS {
                return Err(Errno::ENOMEM.into());
            }
            let _ = attributes.get(COMPAT);
            expressions.push(draft.with_scope(at, |scope| expression::read(one.nested(), scope))?);
        }
    }
    let userdata = attributes.get(USERDATA).map(|data| data.value.to_vec()).unwrap_or_default();
    Ok(Rule { handle, expressions, userdata })
}

/// `NFT_MSG_DELRULE`: a rule, all of a chain, or all of a table.
pub(super) fn remove(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let at = draft.table_of(message)?;
    if attributes.get(CHAIN).is_none() {
        let chains: Vec<u64> = draft.tables[at].chains.keys().copied().collect();
        for chain in chains {
            clear(draft, at, chain, message);
        }
        return Ok(());
    }
    let chain = chain_of(draft, at, message)?;
    let index = match (attributes.get(HANDLE), attributes.get(ID)) {
        (Some(handle), _) => position(&chain, handle)?,
        (None, Some(id)) => position_by_id(draft, &chain, id)?,
        (None, None) => {
            clear(draft, at, chain.handle, message);
            return Ok(());
        }
    };
    remove_at(draft, at, chain.handle, index, message);
    Ok(())
}

/// Removes all rules of a chain.
pub(super) fn clear(draft: &mut Draft<'_>, at: usize, chain: u64, message: &Message<'_>) {
    while draft.tables[at].chains.get(&chain).is_some_and(|chain| !chain.rules.is_empty()) {
        remove_at(draft, at, chain, 0, message);
    }
}

/// Removes a rule, with the sets and chains without names that belong to it.
fn remove_at(draft: &mut Draft<'_>, at: usize, chain: u64, index: usize, message: &Message<'_>) {
    draft.announce(number::DELRULE, at, message, |table, names, out| {
        let Some(chain) = table.chains.get(&chain) else { return };
        dump(table, chain, &chain.rules[index], None, names, out);
    });
    let Some(holder) = draft.table_mut(at).chain_mut(chain) else { return };
    let rule = holder.rules.remove(index);
    let mut own = Vec::new();
    rule.references(&mut |reference| own.push(reference));
    for reference in own {
        match reference {
            Reference::Set(number) => {
                let table = &draft.tables[at];
                let found = table.sets.values().find(|set| set.number == number);
                let anonymous = found.filter(|set| set.has(set::flag::ANONYMOUS)).map(|set| set.handle);
                if let Some(handle) = anonymous {
                    super::sets::drop_set(draft, at, handle, message);
                }
            }
            Reference::Chain(handle) => {
                let bound = draft.tables[at].chains.get(&handle);
                if bound.is_some_and(|chain| chain.flags & CHAIN_BINDING != 0) {
                    clear(draft, at, handle, message);
                    super::chains::drop_chain(draft, at, handle, message);
                }
            }
            Reference::Object(_) => {}
        }
    }
}
