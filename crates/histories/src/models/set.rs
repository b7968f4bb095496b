//! Set: elements that are added and removed, and reads of one or of all.

use super::{listed, unknown};
use crate::symbols::Symbols;
use crate::{Model, Operation, Outcome, Value};

/// Set that starts empty. Its elements are numbered by symbols.
#[derive(Default)]
pub(super) struct ElementSet {
    symbols: Symbols,
}

/// Set of symbols: one bit for each, without zeros at the end.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    fn contains(&self, element: u32) -> bool {
        self.0.get(element as usize / 64).is_some_and(|word| word >> (element % 64) & 1 == 1)
    }

    fn set(&mut self, element: u32, is_in: bool) {
        let words = &mut self.0;
        let (word, bit) = (element as usize / 64, 1 << (element % 64));
        if words.len() <= word {
            words.resize(word + 1, 0);
        }
        if is_in {
            words[word] |= bit;
        } else {
            words[word] &= !bit;
        }
        while words.last() == Some(&0) {
            words.pop();
        }
    }

    fn with(&self, element: u32, is_in: bool) -> Bits {
        let mut after = self.clone();
        after.set(element, is_in);
        after
    }
}

/// Call on a set.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Call {
    Add(u32),
    Remove(u32),
    /// Question whether an element is in the set, with its answer if that is known.
    Contains(u32, Option<bool>),
    /// Read of these elements, or of any.
    Read(Option<Bits>),
}

impl Model for ElementSet {
    type Call = Call;
    type State = Bits;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        let known = operation.outcome == Outcome::Ok;
        match operation.function.as_str() {
            "add" => Ok(Call::Add(self.symbols.number(&operation.argument))),
            "remove" => Ok(Call::Remove(self.symbols.number(&operation.argument))),
            "contains" => match (known, operation.result.pair(), &operation.result) {
                (true, _, Value::Bool(answer)) | (true, Some((_, Value::Bool(answer))), _) => {
                    Ok(Call::Contains(self.symbols.number(&operation.argument), Some(*answer)))
                }
                (true, _, other) => {
                    Err(format!("the result of \"contains\" is {other}, not true, false or [ELEMENT, true]"))
                }
                (false, ..) => Ok(Call::Contains(self.symbols.number(&operation.argument), None)),
            },
            "read" if !known => Ok(Call::Read(None)),
            "read" => {
                let Some(elements) = operation.result.list() else {
                    return Err(format!("the result of \"read\" is {}, not a list", operation.result));
                };
                let mut read = Bits::default();
                for element in elements {
                    read.set(self.symbols.number(element), true);
                }
                Ok(Call::Read(Some(read)))
            }
            _ => Err(unknown(operation, "add, remove, contains and read")),
        }
    }

    fn initial(&self) -> Bits {
        Bits::default()
    }

    fn step(&self, state: &Bits, call: &Call) -> Option<Bits> {
        let accepted = match call {
            Call::Add(element) => return Some(state.with(*element, true)),
            Call::Remove(element) => return Some(state.with(*element, false)),
            Call::Contains(element, Some(answer)) => state.contains(*element) == *answer,
            Call::Read(Some(elements)) => state == elements,
            Call::Contains(_, None) | Call::Read(None) => true,
        };
        accepted.then(|| state.clone())
    }

    fn is_read(&self, call: &Call) -> bool {
        matches!(call, Call::Contains(..) | Call::Read(_))
    }

    fn supports(&self, provider: &Call, observer: &Call) -> bool {
        let (element, is_in) = match provider {
            Call::Add(element) => (*element, true),
            Call::Remove(element) => (*element, false),
            Call::Contains(..) | Call::Read(_) => return false,
        };
        match observer {
            Call::Contains(other, Some(answer)) => *other == element && *answer == is_in,
            Call::Read(Some(elements)) => elements.contains(element) == is_in,
            _ => false,
        }
    }

    fn bytes(&self, state: &Bits) -> usize {
        size_of::<Bits>() + state.0.len() * 8
    }

    fn describe(&self, state: &Bits) -> String {
        let elements = (0..state.0.len() as u32 * 64).filter(|&element| state.contains(element));
        let elements = &mut elements.map(|element| self.symbols.value(element).to_string());
        format!("the set is [{}]", listed(elements))
    }
}
