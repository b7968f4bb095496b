//! Settings that nodes inherit: `defaults`, then those of their kind, then of their group, and their own
//! last.

use super::entry;
use crate::error::Problem;
use crate::yaml::Entry;
use crate::yaml::section::{self, mapping};

pub(super) struct Inherited<'a> {
    defaults: Option<&'a [Entry]>,
    kinds: &'a [Entry],
    groups: &'a [Entry],
}

impl<'a> Inherited<'a> {
    pub(super) fn read(topology: &'a [Entry]) -> Result<Inherited<'a>, Problem> {
        let section = |key: &str| match entry(topology, key) {
            Some(found) => mapping(&found.value, &format!("'{key}'")),
            None => Ok(&[][..]),
        };
        let defaults =
            entry(topology, "defaults").map(|found| mapping(&found.value, "'defaults'")).transpose()?;
        Ok(Inherited { defaults, kinds: section("kinds")?, groups: section("groups")? })
    }

    /// The settings of a node, from the most general to its own, and its kind.
    pub(super) fn of(&self, own: &'a [Entry]) -> Result<(Vec<&'a [Entry]>, String), Problem> {
        let named = |section: &'a [Entry], name: &str| match entry(section, name) {
            Some(found) => mapping(&found.value, &format!("'{name}'")).map(Some),
            None => Ok(None),
        };
        let text = |entries: &'a [Entry], key: &str| {
            entry(entries, key).map(|found| section::string(&found.value, key)).transpose()
        };
        let mut group_name = text(own, "group")?;
        if let (None, Some(defaults)) = (group_name, self.defaults) {
            group_name = text(defaults, "group")?;
        }
        let group = match group_name {
            Some(group) => named(self.groups, group)?,
            None => None,
        };
        let mut kind = None;
        for entries in [Some(own), group, self.defaults].into_iter().flatten() {
            kind = kind.or(text(entries, "kind")?);
        }
        let kind = kind.unwrap_or("linux");
        let all = [self.defaults, named(self.kinds, kind)?, group, Some(own)];
        Ok((all.into_iter().flatten().collect(), kind.to_owned()))
    }
}
