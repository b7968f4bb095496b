//! [`Model`]: an object as a state machine, and the form in which the search uses one.

use crate::{Operation, Outcome, sort};
use belljar_base::Map;
use std::rc::Rc;

/// Sequential object: what each operation does to its state, and which results it can have.
///
/// [`Model::call`] is called once for each operation, in the order of their invocations. The checker then explores orders of the calls by
/// [`Model::initial`] and [`Model::step`], and drops and removes operations by [`Model::is_read`] and [`Model::supports`].
///
/// ```
/// use belljar_histories::{History, Limits, Model, Operation, Outcome, Verdict, check_linearizable};
///
/// /// Counter that is never above 2.
/// struct Bounded;
///
/// #[derive(PartialEq, Eq, PartialOrd, Ord)]
/// enum Call {
///     Increment,
///     Decrement,
///     /// Read of this value, or of any.
///     Read(Option<i64>),
/// }
///
/// impl Model for Bounded {
///     type Call = Call;
///     type State = i64;
///
///     fn call(&mut self, operation: &Operation) -> Result<Call, String> {
///         match operation.function.as_str() {
///             "increment" => Ok(Call::Increment),
///             "decrement" => Ok(Call::Decrement),
///             "read" if operation.outcome == Outcome::Ok => {
///                 let value = operation.result.to_string().parse();
///                 Ok(Call::Read(Some(value.map_err(|_| "a read is of a whole number")?)))
///             }
///             "read" => Ok(Call::Read(None)),
///             other => Err(format!("a counter has no {other}")),
///         }
///     }
///
///     fn initial(&self) -> i64 {
///         0
///     }
///
///     fn step(&self, state: &i64, call: &Call) -> Option<i64> {
///         match call {
///             Call::Increment => (*state < 2).then_some(state + 1),
///             Call::Decrement => Some(state - 1),
///             Call::Read(value) => value.is_none_or(|value| value == *state).then_some(*state),
///         }
///     }
///
///     fn is_read(&self, call: &Call) -> bool {
///         matches!(call, Call::Read(_))
///     }
/// }
///
/// let text = r#"
///     {"process": 0, "type": "invoke", "f": "increment"}
///     {"process": 0, "type": "ok", "f": "increment"}
///     {"process": 1, "type": "invoke", "f": "read"}
///     {"process": 1, "type": "ok", "f": "read", "value": 1}
/// "#;
/// let check = |text: &str| {
///     let history = History::read(text.as_bytes())?;
///     check_linearizable(&history, "bounded", || Bounded, Limits::default())
/// };
/// assert_eq!(check(text)?.verdict, Verdict::Valid);
/// assert_eq!(check(&text.replace("\"value\": 1", "\"value\": 2"))?.verdict, Verdict::Invalid);
/// # Ok::<(), belljar_histories::HistoryError>(())
/// ```
pub trait Model {
    /// Operation with its argument and its result as far as it is known.
    type Call: Ord;
    /// State of the object.
    type State: Ord;

    /// Translates an operation, whose outcome is [`Outcome::Ok`] or [`Outcome::Info`]. The result of the latter is not known.
    ///
    /// # Errors
    /// The reason why the object has no such operation.
    fn call(&mut self, operation: &Operation) -> Result<Self::Call, String>;

    /// State before all operations.
    fn initial(&self) -> Self::State;

    /// State after the call, or none if the call cannot have its result in this state. An unknown result is any.
    fn step(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// True if the call leaves every state as it is.
    fn is_read(&self, _call: &Self::Call) -> bool {
        false
    }

    /// True if the absence of `provider` alone can make `observer` impossible. Operations of unknown outcome that support no other are not
    /// searched, and an explanation keeps all supporters of what it keeps. An answer of true is always right.
    fn supports(&self, provider: &Self::Call, _observer: &Self::Call) -> bool {
        !self.is_read(provider)
    }

    /// True if [`Model::supports`] is true of too many operations for an explanation to be the smallest.
    fn is_guess(&self) -> bool {
        false
    }

    /// Memory that a state occupies, in bytes.
    fn bytes(&self, _state: &Self::State) -> usize {
        size_of::<Self::State>()
    }

    /// State in words for explanations, such as `the value is 3`; empty if there are none.
    fn describe(&self, _state: &Self::State) -> String {
        String::new()
    }
}

/// Model whose calls and states are numbers: the search is compiled once for all models.
pub(super) trait Machine {
    /// State after a call.
    fn step(&mut self, state: u32, call: u32) -> Option<u32>;
    /// [`Model::is_read`].
    fn is_read(&self, call: u32) -> bool;
    /// [`Model::supports`].
    fn supports(&self, provider: u32, observer: u32) -> bool;
    /// [`Model::is_guess`].
    fn is_guess(&self) -> bool;
    /// Number that equal calls share.
    fn class(&self, call: u32) -> u32;
    /// Memory of all states that were met, in bytes.
    fn bytes(&self) -> usize;
    /// [`Model::describe`].
    fn describe(&self, state: u32) -> String;
    /// Forgets all states but the initial one, which is 0.
    fn forget(&mut self);
}

/// [`Machine`] of a model and the operations of one object.
pub(super) struct Numbered<M: Model> {
    model: M,
    calls: Vec<M::Call>,
    classes: Vec<u32>,
    states: Vec<Rc<M::State>>,
    numbers: Map<Rc<M::State>, u32>,
    bytes: usize,
}

impl<M: Model> Numbered<M> {
    /// Machine of the operations, whose calls are numbered in their order.
    ///
    /// # Errors
    /// The position of the first operation that the model does not have, and the reason.
    pub fn new(mut model: M, operations: &[&Operation]) -> Result<Numbered<M>, (usize, String)> {
        let mut calls = Vec::with_capacity(operations.len());
        for (position, operation) in operations.iter().enumerate() {
            debug_assert!(operation.outcome != Outcome::Fail);
            calls.push(model.call(operation).map_err(|problem| (position, problem))?);
        }
        let order = sort::order(calls.len(), &|one, other| calls[one].cmp(&calls[other]));
        let mut classes = vec![0; calls.len()];
        for pair in order.windows(2) {
            classes[pair[1]] = classes[pair[0]] + u32::from(calls[pair[0]] != calls[pair[1]]);
        }
        let (states, numbers) = (Vec::new(), Map::new());
        let mut machine = Numbered { model, calls, classes, states, numbers, bytes: 0 };
        machine.forget();
        Ok(machine)
    }

    fn number(&mut self, state: M::State) -> u32 {
        if let Some(&number) = self.numbers.get(&state) {
            return number;
        }
        let number = self.states.len() as u32;
        self.bytes += self.model.bytes(&state) + 64;
        let state = Rc::new(state);
        self.states.push(state.clone());
        self.numbers.insert(state, number);
        number
    }
}

impl<M: Model> Machine for Numbered<M> {
    fn step(&mut self, state: u32, call: u32) -> Option<u32> {
        let before = self.states[state as usize].clone();
        let after = self.model.step(&before, &self.calls[call as usize])?;
        Some(if after == *before { state } else { self.number(after) })
    }

    fn is_read(&self, call: u32) -> bool {
        self.model.is_read(&self.calls[call as usize])
    }

    fn supports(&self, provider: u32, observer: u32) -> bool {
        self.model.supports(&self.calls[provider as usize], &self.calls[observer as usize])
    }

    fn is_guess(&self) -> bool {
        self.model.is_guess()
    }

    fn class(&self, call: u32) -> u32 {
        self.classes[call as usize]
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn describe(&self, state: u32) -> String {
        self.model.describe(&self.states[state as usize])
    }

    fn forget(&mut self) {
        self.states.clear();
        self.numbers.clear();
        self.bytes = 0;
        let initial = self.model.initial();
        self.number(initial);
    }
}
