//! Validation of a table before its commit: loops and depth of jumps, and expressions in chains where they
//! may not be (`nft_chain_validate`).

use crate::contents::Contents;
use crate::evaluate::JUMP_DEPTH;
use crate::operation::{Data, Reference, Surroundings};
use crate::ruleset::{Chain, Table};
use belljar_base::{Map, SimTime};
use belljar_linux_abi::Errno;

/// Validates all base chains of a table.
pub(crate) fn validate(table: &Table, contents: &Contents) -> Result<(), Errno> {
    let mut validator = Validator { table, contents, depths: Map::new() };
    for chain in table.chains.values() {
        if let Some(base) = &chain.base {
            validator.depths = Map::new();
            let surroundings = Surroundings { family: table.family, base: Some((base.kind, base.hook)) };
            validator.chain(chain, &surroundings, 0)?;
        }
    }
    Ok(())
}

struct Validator<'a> {
    table: &'a Table,
    contents: &'a Contents,
    /// Greatest depth at which each chain has been validated, by handle.
    depths: Map<u64, usize>,
}

impl Validator<'_> {
    fn chain(&mut self, chain: &Chain, surroundings: &Surroundings, depth: usize) -> Result<(), Errno> {
        if depth == JUMP_DEPTH {
            return Err(Errno::EMLINK);
        }
        if self.depths.get(&chain.handle).is_some_and(|before| *before >= depth) {
            return Ok(());
        }
        for rule in &chain.rules {
            for expression in &rule.expressions {
                expression.validate(surroundings)?;
                let mut found = Vec::new();
                expression.references(&mut |reference| found.push(reference));
                for reference in found {
                    match reference {
                        Reference::Chain(to) => self.jump(to, surroundings, depth)?,
                        Reference::Set(set) => {
                            for to in jumps_of_set(self.contents, set) {
                                self.jump(to, surroundings, depth)?;
                            }
                        }
                        Reference::Object(_) => {}
                    }
                }
            }
        }
        self.depths.insert(chain.handle, depth);
        Ok(())
    }
    fn jump(&mut self, to: u64, surroundings: &Surroundings, depth: usize) -> Result<(), Errno> {
        match self.table.chains.get(&to) {
            Some(chain) => self.chain(&chain.clone(), surroundings, depth + 1),
            None => Ok(()),
        }
    }
}

/// Handles of the chains to which the elements of a verdict map jump.
pub(crate) fn jumps_of_set(contents: &Contents, set: u64) -> Vec<u64> {
    let data = contents.of(set).live(SimTime::ZERO).filter_map(|element| element.data.as_ref());
    let verdicts = data.filter_map(|data| match data {
        Data::Verdict(verdict) => verdict.chain(),
        Data::Value(_) => None,
    });
    verdicts.collect()
}
