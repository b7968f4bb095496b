//! Queries of the ruleset: dumps with filters, and single objects.

use super::draft::{Names, by_handle, chain_named, find_table};
use super::message::{Message, NetfilterSender, Reply, flag};
use super::{chains, elements, number, objects, rules, tables};
use crate::attributes::{Attribute, NetfilterError};
use crate::engine::Netfilter;
use crate::family::TableFamily;
use crate::ruleset::{Chain, Table};
use crate::set;
use belljar_base::SimTime;
use belljar_linux_abi::Errno;

/// Maximum length of a list of elements in one message, in bytes.
const LIST_LEN: usize = 3_500;

/// A query being answered.
pub(super) struct Query<'a> {
    pub(super) netfilter: &'a Netfilter,
    pub(super) message: Message<'a>,
    pub(super) requester: &'a NetfilterSender,
    pub(super) now: SimTime,
    /// True if counters are reset by the dump.
    pub(super) resets: bool,
}

impl Query<'_> {
    /// Answers the query; the messages of the answer.
    pub(super) fn answer(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        match self.message.number() {
            number::GETTABLE => self.tables(),
            number::GETCHAIN => self.chains(),
            number::GETRULE | number::GETRULE_RESET => self.rules(),
            number::GETSET => self.sets(),
            number::GETSETELEM | number::GETSETELEM_RESET => self.elements(),
            number::GETOBJ | number::GETOBJ_RESET => self.objects(),
            number::GETGEN => Ok(vec![self.netfilter.generation_message(self.reply(), self.requester)]),
            // There are no flowtables.
            number::GETFLOWTABLE if self.is_dump() => Ok(Vec::new()),
            number::GETFLOWTABLE => Err(Errno::ENOENT.into()),
            _ => Err(Errno::EINVAL.into()),
        }
    }
    fn is_dump(&self) -> bool {
        self.message.has(flag::DUMP)
    }
    fn reply(&self) -> Reply {
        Reply {
            flags: if self.is_dump() { flag::MULTI } else { 0 },
            sequence: self.message.sequence,
            port: self.requester.port,
            generation: self.netfilter.generation as u16,
        }
    }
    /// True if a table is of the queried family; family 0 is all.
    fn is_queried(&self, table: &Table) -> bool {
        [0, table.family.number()].contains(&self.message.family())
    }
    /// The table that an attribute names.
    fn table(&self, name: Attribute<'_>) -> Result<&Table, NetfilterError> {
        let tables = &self.netfilter.tables;
        let at = find_table(tables, TableFamily::of_request(self.message.family())?, name.text()?);
        at.map(|at| &*tables[at]).ok_or(name.failure(Errno::ENOENT))
    }
    fn names<'t>(&self, table: &'t Table) -> Names<'t> {
        Names { table, now: self.now }
    }

    fn tables(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let one = |table: &Table| {
            self.reply().message(number::NEWTABLE, Some(table.family), |out| tables::dump(table, out))
        };
        if self.is_dump() {
            let queried = self.netfilter.tables.iter().filter(|table| self.is_queried(table));
            return Ok(queried.map(|table| one(table)).collect());
        }
        Ok(vec![one(self.table(self.message.attributes().need(1)?)?)])
    }

    fn chains(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let one = |table: &Table, chain: &Chain| {
            let contents = &self.netfilter.contents;
            self.reply().message(number::NEWCHAIN, Some(table.family), |out| {
                chains::dump(table, chain, contents, out);
            })
        };
        let attributes = self.message.attributes();
        if self.is_dump() {
            let mut found = Vec::new();
            for table in self.netfilter.tables.iter().filter(|table| self.is_queried(table)) {
                found.extend(table.chains.values().map(|chain| one(table, chain)));
            }
            return Ok(found);
        }
        let table = self.table(attributes.need(1)?)?;
        Ok(vec![one(table, &*chain_named(table, attributes.need(3)?)?)])
    }

    fn rules(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let attributes = self.message.attributes();
        let one = |table: &Table, chain: &Chain, at: usize| {
            let before = at.checked_sub(1).map(|before| chain.rules[before].handle);
            let rule = &chain.rules[at];
            let message = self.reply().message(number::NEWRULE, Some(table.family), |out| {
                rules::dump(table, chain, rule, before, &self.names(table), out);
            });
            if self.resets {
                rule.expressions.iter().for_each(|expression| expression.reset());
            }
            message
        };
        let of_table = attributes.text(rules::TABLE)?;
        let of_chain = attributes.text(rules::CHAIN)?;
        if self.is_dump() {
            let mut found = Vec::new();
            for table in self.netfilter.tables.iter().filter(|table| self.is_queried(table)) {
                if of_table.is_some_and(|name| name != table.name) {
                    continue;
                }
                for chain in table.chains.values() {
                    if of_table.is_none() || of_chain.is_none_or(|name| name == chain.name) {
                        found.extend((0..chain.rules.len()).map(|at| one(table, chain, at)));
                    }
                }
            }
            return Ok(found);
        }
        let table = self.table(attributes.need(rules::TABLE)?)?;
        let chain = chain_named(table, attributes.need(rules::CHAIN)?)?;
        let handle = attributes.need(rules::HANDLE)?;
        let wanted = handle.u64()?;
        let at = chain.rules.iter().position(|rule| rule.handle == wanted);
        Ok(vec![one(table, &chain, at.ok_or(handle.failure(Errno::ENOENT))?)])
    }

    fn sets(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let attributes = self.message.attributes();
        let one = |table: &Table, set: &set::Set| {
            self.reply().message(number::NEWSET, Some(table.family), |out| {
                set.dump(&table.name, &self.names(table), out);
            })
        };
        let of_table = attributes.get(set::attribute::TABLE);
        if self.is_dump() {
            if let Some(name) = of_table.filter(|_| self.message.family() != 0) {
                self.table(name)?;
            }
            let mut found = Vec::new();
            for table in self.netfilter.tables.iter().filter(|table| self.is_queried(table)) {
                let named = match of_table {
                    Some(name) => name.text()? == table.name,
                    None => true,
                };
                if named {
                    found.extend(table.sets.values().map(|set| one(table, set)));
                }
            }
            return Ok(found);
        }
        let table = self.table(attributes.need(set::attribute::TABLE)?)?;
        let name = attributes.need(set::attribute::NAME)?;
        let found = table.set(name.text()?).ok_or(name.failure(Errno::ENOENT))?;
        Ok(vec![one(table, found)])
    }

    fn elements(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let attributes = self.message.attributes();
        let table = self.table(attributes.need(elements::LIST_TABLE)?)?;
        let name = attributes.need(elements::LIST_SET)?;
        let set = table.set(name.text()?).ok_or(name.failure(Errno::ENOENT))?;
        if !self.is_dump() {
            attributes.need(elements::LIST_ELEMENTS)?;
        }
        let wanted = elements::wanted(set, self.netfilter.contents.of(set.number), attributes, self.now)?;
        let mut rest = wanted.into_iter().peekable();
        let mut found = Vec::new();
        while rest.peek().is_some() {
            found.push(self.reply().message(number::NEWSETELEM, Some(table.family), |out| {
                out.text(elements::LIST_TABLE, &table.name);
                out.text(elements::LIST_SET, &set.name);
                out.nest(elements::LIST_ELEMENTS, |out| {
                    while out.0.len() < LIST_LEN
                        && let Some(element) = rest.next()
                    {
                        elements::dump(element, set, &self.names(table), out);
                        if self.resets {
                            element.expressions.iter().for_each(|expression| expression.reset());
                        }
                    }
                });
            }));
        }
        if found.is_empty() {
            found.push(self.reply().message(number::NEWSETELEM, Some(table.family), |out| {
                out.text(elements::LIST_TABLE, &table.name);
                out.text(elements::LIST_SET, &set.name);
                out.nest(elements::LIST_ELEMENTS, |_| {});
            }));
        }
        Ok(found)
    }

    fn objects(&self) -> Result<Vec<Vec<u8>>, NetfilterError> {
        let attributes = self.message.attributes();
        let one = |table: &Table, object: &crate::stateful::Object| {
            let message = self.reply().message(number::NEWOBJ, Some(table.family), |out| {
                objects::dump(table, object, &self.names(table), out);
            });
            if self.resets {
                object.operation.reset();
            }
            message
        };
        let kind = attributes.u32(objects::TYPE)?;
        if self.is_dump() {
            let of_table = attributes.text(objects::TABLE)?;
            let mut found = Vec::new();
            for table in self.netfilter.tables.iter().filter(|table| self.is_queried(table)) {
                if of_table.is_some_and(|name| name != table.name) {
                    continue;
                }
                let wanted = table.objects.values().filter(|one| kind.is_none_or(|kind| kind == one.kind));
                found.extend(wanted.map(|object| one(table, object)));
            }
            return Ok(found);
        }
        let table = self.table(attributes.need(objects::TABLE)?)?;
        if let Some(handle) = attributes.get(objects::HANDLE) {
            return Ok(vec![one(table, by_handle(&table.objects, handle)?)]);
        }
        let name = attributes.need(objects::NAME)?;
        let found = table.object(name.text()?, kind.ok_or(NetfilterError::from(Errno::EINVAL))?);
        Ok(vec![one(table, found.ok_or(name.failure(Errno::ENOENT))?)])
    }
}
