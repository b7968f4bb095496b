//! Requests about chains.

use super::draft::{Draft, by_handle};
use super::message::{Message, flag};
use super::{number, rules};
use crate::attributes::{Attribute, NetfilterError, Writer};
use crate::contents::Contents;
use crate::family::{ChainType, FilterHook};
use crate::operation::Reference;
use crate::ruleset::{Base, CHAIN_BASE, CHAIN_BINDING, Chain, Table};
use crate::stateful::Counter;
use crate::validate::jumps_of_set;
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// `NFTA_CHAIN_*`.
const TABLE: u16 = 1;
const HANDLE: u16 = 2;
const NAME: u16 = 3;
const HOOK: u16 = 4;
const POLICY: u16 = 5;
const USE: u16 = 6;
const TYPE: u16 = 7;
const COUNTERS: u16 = 8;
const FLAGS: u16 = 10;
const ID: u16 = 11;
const USERDATA: u16 = 12;

/// `NFTA_HOOK_*`.
const HOOKNUM: u16 = 1;
const PRIORITY: u16 = 2;
const DEV: u16 = 3;
const DEVS: u16 = 4;

/// `NFT_CHAIN_HW_OFFLOAD`.
const HW_OFFLOAD: u32 = 2;
/// Priority of connection tracking, after which NAT chains come.
const CONNTRACK_PRIORITY: i32 = -200;

/// Writes the attributes of a chain.
pub(super) fn dump(table: &Table, chain: &Chain, contents: &Contents, out: &mut Writer) {
    out.text(TABLE, &table.name);
    out.u64(HANDLE, chain.handle);
    out.text(NAME, &chain.name);
    if let Some(base) = &chain.base {
        out.nest(HOOK, |out| {
            out.u32(HOOKNUM, base.hook as u32);
            out.u32(PRIORITY, base.priority as u32);
        });
        out.u32(POLICY, u32::from(!base.drops));
        out.text(TYPE, base.kind.name());
        if let Some(counters) = &base.counters {
            out.nest(COUNTERS, |out| counters.write(out));
        }
    }
    if chain.flags != 0 {
        out.u32(FLAGS, chain.flags);
    }
    out.u32(USE, chain.rules.len() as u32 + uses(table, chain.handle, contents));
    if !chain.userdata.is_empty() {
        out.bytes(USERDATA, &chain.userdata);
    }
}

/// Number of jumps to a chain, of rules and of elements.
fn uses(table: &Table, chain: u64, contents: &Contents) -> u32 {
    let of_sets = table.sets.values().flat_map(|set| jumps_of_set(contents, set.number));
    table.uses_in_rules(Reference::Chain(chain)) + of_sets.filter(|to| *to == chain).count() as u32
}

fn announce(draft: &mut Draft<'_>, kind: u8, at: usize, chain: &Chain, message: &Message<'_>) {
    let mut writer = Writer::default();
    dump(&draft.tables[at], chain, draft.contents, &mut writer);
    draft.announce(kind, at, message, |_, _, out| *out = writer);
}

/// The policy of a request.
fn policy(attribute: Option<Attribute<'_>>) -> Result<Option<bool>, NetfilterError> {
    let Some(attribute) = attribute else { return Ok(None) };
    match attribute.u32()? {
        0 => Ok(Some(true)),
        1 => Ok(Some(false)),
        _ => Err(Errno::EINVAL.into()),
    }
}

/// The hook of a request.
fn hook(
    attribute: Attribute<'_>,
    kind: Option<Attribute<'_>>,
    former: Option<&Base>,
) -> Result<(ChainType, FilterHook, i32), NetfilterError> {
    let nested = attribute.nested();
    let number = nested.u32(HOOKNUM)?;
    let priority = nested.u32(PRIORITY)?.map(|priority| priority as i32);
    let (number, priority) = match (number, priority, former) {
        (Some(number), Some(priority), _) => (number, priority),
        (None, None, Some(former)) => (former.hook as u32, former.priority),
        _ => return Err(Errno::EINVAL.into()),
    };
    let kind = match (kind, former) {
        (Some(kind), _) => ChainType::by_name(kind.text()?).ok_or(kind.failure(Errno::ENOENT))?,
        (None, Some(former)) => former.kind,
        (None, None) => ChainType::Filter,
    };
    let hook = FilterHook::ALL.get(number as usize).copied().filter(|hook| kind.fits(*hook));
    let hook = hook.ok_or(NetfilterError::from(Errno::EOPNOTSUPP))?;
    let early = kind == ChainType::Nat && priority <= CONNTRACK_PRIORITY;
    if early || nested.get(DEV).is_some() || nested.get(DEVS).is_some() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    Ok((kind, hook, priority))
}

/// `NFT_MSG_NEWCHAIN`.
pub(super) fn add(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let at = draft.table_of(message)?;
    let name = attributes.get(NAME);
    let (named_by, chain) = match (attributes.get(HANDLE), name) {
        (Some(handle), _) => (handle, Some(by_handle(&draft.tables[at].chains, handle)?.clone())),
        (None, Some(name)) => (name, draft.tables[at].chain(name.text()?).cloned()),
        (None, None) => (attributes.need(ID)?, None),
    };
    let policy_attribute = attributes.get(POLICY);
    if let Some(policy) = policy_attribute
        && match &chain {
            Some(chain) => chain.base.is_none(),
            None => attributes.get(HOOK).is_none(),
        }
    {
        return Err(policy.failure(Errno::EOPNOTSUPP));
    }
    let drops = policy(policy_attribute)?;
    let flags = match (attributes.u32(FLAGS)?, &chain) {
        (Some(flags), _) => flags,
        (None, Some(chain)) => chain.flags,
        (None, None) => 0,
    };
    if flags & !(CHAIN_BASE | HW_OFFLOAD | CHAIN_BINDING) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    match chain {
        Some(_) if message.has(flag::EXCL) => Err(named_by.failure(Errno::EEXIST)),
        Some(_) if message.has(flag::REPLACE) => Err(Errno::EOPNOTSUPP.into()),
        Some(chain) => change(draft, at, &chain, message, drops),
        None => create(draft, at, message, flags, drops),
    }
}

/// Creates a chain (`nf_tables_addchain`).
fn create(
    draft: &mut Draft<'_>,
    at: usize,
    message: &Message<'_>,
    mut flags: u32,
    drops: Option<bool>,
) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let mut base = None;
    if let Some(attribute) = attributes.get(HOOK) {
        if flags & (CHAIN_BINDING | HW_OFFLOAD) != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let (kind, hook, priority) = hook(attribute, attributes.get(TYPE), None)?;
        let counters = match attributes.get(COUNTERS) {
            Some(counters) => Some(Arc::new(Counter::read(counters.nested())?)),
            None => None,
        };
        draft.counters.base += 1;
        let sequence = draft.counters.base;
        base = Some(Base { kind, hook, priority, drops: drops.unwrap_or(false), counters, sequence });
        flags |= CHAIN_BASE;
    } else {
        if flags & CHAIN_BASE != 0 {
            return Err(Errno::EINVAL.into());
        }
        if flags & HW_OFFLOAD != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
    }
    let name = match attributes.get(NAME) {
        Some(name) if name.text()?.is_empty() => return Err(Errno::EINVAL.into()),
        Some(name) => name.text()?.to_string(),
        None if flags & CHAIN_BINDING != 0 => {
            draft.counters.binding += 1;
            format!("__chain{}", draft.counters.binding)
        }
        None => return Err(Errno::EINVAL.into()),
    };
    let userdata = attributes.get(USERDATA).map(|data| data.value.to_vec()).unwrap_or_default();
    let handle = draft.table_mut(at).new_handle();
    let chain = Chain { name, handle, flags, base, userdata, rules: Vec::new() };
    draft.table_mut(at).add_chain(chain.clone());
    if let Some(id) = attributes.u32(ID)? {
        draft.chain_ids.push((id, handle));
    }
    announce(draft, number::NEWCHAIN, at, &chain, message);
    Ok(())
}

/// Changes a chain (`nf_tables_updchain`).
fn change(
    draft: &mut Draft<'_>,
    at: usize,
    chain: &Chain,
    message: &Message<'_>,
    drops: Option<bool>,
) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    if let Some(attribute) = attributes.get(HOOK) {
        let named_by = attributes.get(NAME).unwrap_or(attribute);
        let Some(base) = &chain.base else { return Err(named_by.failure(Errno::EEXIST)) };
        let (kind, hook, priority) = hook(attribute, attributes.get(TYPE), Some(base))?;
        if (kind, hook, priority) != (base.kind, base.hook, base.priority) {
            return Err(named_by.failure(Errno::EEXIST));
        }
    }
    let mut changed = chain.clone();
    if let Some(counters) = attributes.get(COUNTERS) {
        let Some(base) = &mut changed.base else { return Err(Errno::EOPNOTSUPP.into()) };
        base.counters = Some(Arc::new(Counter::read(counters.nested())?));
    }
    if let (Some(drops), Some(base)) = (drops, &mut changed.base) {
        base.drops = drops;
    }
    if attributes.get(HANDLE).is_some()
        && let Some(name) = attributes.get(NAME)
    {
        if draft.tables[at].chain(name.text()?).is_some() {
            return Err(name.failure(Errno::EEXIST));
        }
        changed.name = name.text()?.to_string();
    }
    let table = draft.table_mut(at);
    table.chain_names.remove(&chain.name);
    table.add_chain(changed.clone());
    announce(draft, number::NEWCHAIN, at, &changed, message);
    Ok(())
}

/// `NFT_MSG_DELCHAIN`.
pub(super) fn remove(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let at = draft.table_of(message)?;
    let table = &draft.tables[at];
    let (handle, name) = (attributes.get(HANDLE), attributes.get(NAME));
    let (named_by, chain) = match (handle, name) {
        (Some(handle), _) => (handle, by_handle(&table.chains, handle)?.clone()),
        (None, Some(name)) => (name, super::draft::chain_named(table, name)?),
        (None, None) => return Err(Errno::EINVAL.into()),
    };
    if attributes.get(HOOK).is_some() {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if message.has(flag::NONREC) && (!chain.rules.is_empty() || uses(table, chain.handle, draft.contents) > 0)
    {
        return Err(Errno::EBUSY.into());
    }
    rules::clear(draft, at, chain.handle, message);
    if uses(&draft.tables[at], chain.handle, draft.contents) > 0 {
        return Err(named_by.failure(Errno::EBUSY));
    }
    drop_chain(draft, at, chain.handle, message);
    Ok(())
}

/// Removes a chain that has no rules.
pub(super) fn drop_chain(draft: &mut Draft<'_>, at: usize, handle: u64, message: &Message<'_>) {
    if let Some(chain) = draft.table_mut(at).remove_chain(handle) {
        announce(draft, number::DELCHAIN, at, &chain, message);
    }
}
