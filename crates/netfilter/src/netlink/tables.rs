//! Requests about tables.

use super::draft::{Draft, find_table};
use super::message::{Message, flag};
use super::number;
use crate::attributes::{NetfilterError, Writer};
use crate::family::TableFamily;
use crate::ruleset::{DORMANT, OWNER, Table};
use belljar_linux_abi::Errno;
use std::sync::Arc;

/// `NFTA_TABLE_*`.
const NAME: u16 = 1;
const FLAGS: u16 = 2;
const USE: u16 = 3;
const HANDLE: u16 = 4;
const USERDATA: u16 = 6;
const OWNER_PORT: u16 = 7;

/// Maximum length of user data in bytes, `NFT_USERDATA_MAXLEN`.
const USERDATA_LEN: usize = 256;

/// Writes the attributes of a table.
pub(super) fn dump(table: &Table, out: &mut Writer) {
    let uses = table.chains.len() + table.sets.len() + table.objects.len();
    out.text(NAME, &table.name);
    out.u32(USE, uses as u32);
    out.u64(HANDLE, table.handle);
    out.u32(FLAGS, table.flags);
    if let Some(owner) = table.owner {
        out.u32(OWNER_PORT, owner);
    }
    if !table.userdata.is_empty() {
        out.bytes(USERDATA, &table.userdata);
    }
}

/// `NFT_MSG_NEWTABLE`.
pub(super) fn add(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let (family, attributes) = (TableFamily::of_request(message.family())?, message.attributes());
    let name = attributes.need(NAME)?;
    let flags = attributes.u32(FLAGS)?;
    if flags.unwrap_or(0) & !(DORMANT | OWNER) != 0 {
        return Err(Errno::EOPNOTSUPP.into());
    }
    if find_table(&draft.tables, family, name.text()?).is_some() {
        let at = draft.table_named(family, name)?;
        if message.has(flag::EXCL) {
            return Err(name.failure(Errno::EEXIST));
        }
        if message.has(flag::REPLACE) {
            return Err(Errno::EOPNOTSUPP.into());
        }
        let Some(flags) = flags.filter(|flags| *flags != draft.tables[at].flags) else { return Ok(()) };
        if (flags ^ draft.tables[at].flags) & OWNER != 0 {
            return Err(Errno::EOPNOTSUPP.into());
        }
        draft.table_mut(at).flags = flags;
        draft.announce(number::NEWTABLE, at, message, |table, _, out| dump(table, out));
        return Ok(());
    }
    if name.text()?.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    draft.counters.table += 1;
    let mut table = Table::new(family, name.text()?, draft.counters.table);
    table.flags = flags.unwrap_or(0);
    table.owner = (table.flags & OWNER != 0).then_some(draft.requester.port);
    if let Some(userdata) = attributes.get(USERDATA) {
        if userdata.value.len() > USERDATA_LEN {
            return Err(userdata.failure(Errno::ERANGE));
        }
        table.userdata = userdata.value.to_vec();
    }
    draft.tables.push(Arc::new(table));
    let at = draft.tables.len() - 1;
    draft.announce(number::NEWTABLE, at, message, |table, _, out| dump(table, out));
    Ok(())
}

/// `NFT_MSG_DELTABLE`; without a table named, all tables of the family, or all.
pub(super) fn remove(draft: &mut Draft<'_>, message: &Message<'_>) -> Result<(), NetfilterError> {
    let attributes = message.attributes();
    let (name, handle) = (attributes.get(NAME), attributes.get(HANDLE));
    if message.family() == 0 || name.is_none() && handle.is_none() {
        let family = match message.family() {
            0 => None,
            number => Some(TableFamily::of_request(number)?),
        };
        let mut at = 0;
        while at < draft.tables.len() {
            let table = &draft.tables[at];
            let named = match name {
                Some(name) => name.text()? == table.name,
                None => true,
            };
            let foreign = table.owner.is_some_and(|owner| owner != draft.requester.port);
            if foreign || !named || family.is_some_and(|family| family != table.family) {
                at += 1;
            } else {
                remove_table(draft, at, message);
            }
        }
        return Ok(());
    }
    let family = TableFamily::of_request(message.family())?;
    let at = match (handle, name) {
        (Some(handle), _) => {
            let wanted = handle.u64()?;
            let found =
                draft.tables.iter().position(|table| table.handle == wanted && table.family == family);
            found.ok_or(handle.failure(Errno::ENOENT))?
        }
        (None, Some(name)) => draft.table_named(family, name)?,
        (None, None) => return Err(Errno::EINVAL.into()),
    };
    let table = &draft.tables[at];
    let used = !table.chains.is_empty() || !table.sets.is_empty() || !table.objects.is_empty();
    if message.has(flag::NONREC) && used {
        return Err(Errno::EBUSY.into());
    }
    remove_table(draft, at, message);
    Ok(())
}

/// Removes a table with all that is in it, in the order of Linux (`nft_flush_table`).
fn remove_table(draft: &mut Draft<'_>, at: usize, message: &Message<'_>) {
    let chains: Vec<u64> = draft.tables[at].chains.keys().copied().collect();
    for chain in &chains {
        super::rules::clear(draft, at, *chain, message);
    }
    let sets: Vec<u64> = draft.tables[at].sets.keys().copied().collect();
    sets.into_iter().for_each(|set| super::sets::drop_set(draft, at, set, message));
    let objects: Vec<u64> = draft.tables[at].objects.keys().copied().collect();
    objects.into_iter().for_each(|object| super::objects::drop_object(draft, at, object, message));
    for chain in chains {
        super::chains::drop_chain(draft, at, chain, message);
    }
    draft.announce(number::DELTABLE, at, message, |table, _, out| dump(table, out));
    draft.tables.remove(at);
}
