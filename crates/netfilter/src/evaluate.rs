//! Evaluation of a base chain on a packet (`nft_do_chain`).
//!
//! The expressions of a rule are evaluated in order until one does not match or gives a verdict. A jump
//! returns to the rule after it at the end of the chain, a `goto` to where its own chain would have
//! returned; the end of the base chain is its policy. Jumps are no deeper than [`JUMP_DEPTH`], which is
//! checked when rules are added (`validate.rs`).

use crate::operation::{Outcome, Passing, Verdict};
use crate::registers::Registers;
use crate::ruleset::{Chain, Rule, Table};

/// Maximum number of nested jumps, `NFT_JUMP_STACK_SIZE`.
pub(crate) const JUMP_DEPTH: usize = 16;

/// True if the base chain accepts the packet.
pub(crate) fn accepts(table: &Table, base: &Chain, passing: &mut Passing<'_>) -> bool {
    let mut registers = Registers::new();
    let mut callers: Vec<(&Chain, usize)> = Vec::new();
    let (mut chain, mut next) = (base, 0);
    loop {
        let Some(rule) = chain.rules.get(next) else {
            match callers.pop() {
                Some(caller) => (chain, next) = caller,
                None => return policy(base, passing),
            }
            continue;
        };
        next += 1;
        match evaluate_rule(rule, &mut registers, passing) {
            Verdict::Accept => return true,
            Verdict::Drop => return false,
            Verdict::Continue | Verdict::Break => {}
            Verdict::Return => next = chain.rules.len(),
            Verdict::Jump(to) => {
                let Some(to) = table.chains.get(&to) else { return false };
                if callers.len() >= JUMP_DEPTH {
                    return false;
                }
                callers.push((chain, next));
                (chain, next) = (to, 0);
            }
            Verdict::Goto(to) => {
                let Some(to) = table.chains.get(&to) else { return false };
                (chain, next) = (to, 0);
            }
        }
    }
}

fn evaluate_rule(rule: &Rule, registers: &mut Registers, passing: &mut Passing<'_>) -> Verdict {
    for expression in &rule.expressions {
        match expression.evaluate(registers, passing) {
            Outcome::Continue => {}
            Outcome::Break => return Verdict::Break,
            Outcome::Verdict(Verdict::Continue) => {}
            Outcome::Verdict(verdict) => return verdict,
        }
    }
    Verdict::Continue
}

/// The decision of the base chain's policy.
fn policy(base: &Chain, passing: &Passing<'_>) -> bool {
    let Some(base) = &base.base else { return true };
    if let Some(counters) = &base.counters {
        counters.count(passing.headers.end);
    }
    !base.drops
}
