//! Answers of a step function, each asked once, and the model that is made of them.

use super::{Question, Start, Steps};
use crate::symbols::Symbols;
use crate::{HistoryError, Model, Operation, Outcome, Value};
use belljar_base::Map;
use std::cell::RefCell;
use std::rc::Rc;

/// Largest number of questions that are asked twice.
const ASKED_TWICE: usize = 256;
/// Length of the text of a state in explanations.
const SHOWN: usize = 200;

/// Step function with its answers.
pub(super) struct Memo {
    steps: Box<dyn Steps>,
    start: Start,
    /// States; the initial one is 0.
    states: Symbols,
    questions: Vec<Question>,
    /// Numbers of the questions, by their members.
    numbers: Map<Value, u32>,
    /// Answers, by state and question.
    answers: Vec<Map<u32, Option<u32>>>,
    /// States and questions in the order in which they were asked.
    asked: Vec<(u32, u32)>,
    /// Memory of states and answers, in bytes.
    bytes: usize,
    limit: usize,
    /// First failure; all later answers are that nothing is possible.
    failure: Option<HistoryError>,
}

impl Memo {
    /// Memory without answers, which forgets them where they are of more than `limit` bytes and a search begins.
    pub fn new(mut steps: Box<dyn Steps>, limit: usize) -> Result<Memo, HistoryError> {
        let start = steps.start()?;
        let mut memo = Memo {
            steps,
            start,
            states: Symbols::default(),
            questions: Vec::new(),
            numbers: Map::new(),
            answers: Vec::new(),
            asked: Vec::new(),
            bytes: 0,
            limit,
            failure: None,
        };
        memo.forget();
        Ok(memo)
    }

    fn forget(&mut self) {
        self.states = Symbols::default();
        self.answers.clear();
        self.asked.clear();
        self.bytes = 0;
        let initial = self.start.state.clone();
        self.state(&initial);
    }

    /// Number of a state.
    fn state(&mut self, state: &Value) -> u32 {
        let number = self.states.number(state);
        if number as usize == self.answers.len() {
            self.answers.push(Map::new());
            self.bytes += weight(state);
        }
        number
    }

    /// Number of the question about an operation.
    fn question(&mut self, operation: &Operation) -> u32 {
        let result = (operation.outcome == Outcome::Ok).then(|| operation.result.clone());
        let process = self.start.needs_process.then(|| operation.process.clone());
        let option = |value: &Option<Value>| Value::List(value.iter().cloned().collect());
        let members = Value::List(vec![
            Value::Text(operation.function.clone()),
            operation.argument.clone(),
            option(&result),
            option(&process),
        ]);
        if let Some(&number) = self.numbers.get(&members) {
            return number;
        }
        let number = self.questions.len() as u32;
        self.questions.push(Question {
            function: operation.function.clone(),
            argument: operation.argument.clone(),
            result,
            process,
            lines: operation.lines(),
        });
        self.numbers.insert(members, number);
        number
    }

    /// Answer from memory, or else from the function.
    fn step(&mut self, state: u32, question: u32) -> Option<u32> {
        if self.failure.is_some() {
            return None;
        }
        if let Some(&answer) = self.answers[state as usize].get(&question) {
            return answer;
        }
        match self.ask(state, question) {
            Ok(after) => {
                let answer = after.map(|after| self.state(&after));
                self.answers[state as usize].insert(question, answer);
                self.asked.push((state, question));
                self.bytes += size_of::<(u32, u32)>() * 3;
                answer
            }
            Err(failure) => {
                self.failure = Some(failure);
                None
            }
        }
    }

    fn ask(&mut self, state: u32, question: u32) -> Result<Option<Value>, HistoryError> {
        let (state, question) = (self.states.value(state), &self.questions[question as usize]);
        let after = self.steps.step(state, question)?;
        if self.is_read(&question.function) && after.as_ref().is_some_and(|after| after != state) {
            let problem = format!(
                "\"{}\" of {} changes the state {} to {}, and is among \"reads\"",
                question.function,
                question.lines,
                shown(state),
                shown(after.as_ref().unwrap_or(state)),
            );
            return Err(self
                .steps
                .error(problem, "leave it out of \"reads\", or return the state as it was"));
        }
        Ok(after)
    }

    fn is_read(&self, function: &str) -> bool {
        self.start.reads.iter().any(|read| read == function)
    }

    /// Ends the use of the function, of which some questions are asked again, in another order.
    ///
    /// # Errors
    /// The function has failed, or an answer is another than before.
    pub fn finish(&mut self) -> Result<(), HistoryError> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        self.steps.restart();
        let remedy =
            "let an answer depend on its state and operation alone, not on earlier questions, time or chance";
        let start = self.steps.start()?;
        if start != self.start {
            let (once, then) = (shown(&self.start.state), shown(&start.state));
            let problem = format!("asked twice for the initial state, it answered {once}, then {then}");
            return Err(self.steps.error(problem, remedy));
        }
        let stride = self.asked.len().div_ceil(ASKED_TWICE).max(1);
        let again: Vec<(u32, u32)> = self.asked.iter().rev().step_by(stride).copied().collect();
        for (state, question) in again {
            let once = self.answers[state as usize].get(&question).copied().flatten();
            let then = self.ask(state, question)?;
            if once.map(|once| self.states.value(once)) != then.as_ref() {
                let named = |answer: Option<&Value>| {
                    answer.map_or("that it is impossible".to_string(), |state| {
                        format!("the state {}", shown(state))
                    })
                };
                let problem = format!(
                    "asked twice for \"{}\" of {} in the state {}, it answered {}, then {}",
                    self.questions[question as usize].function,
                    self.questions[question as usize].lines,
                    shown(self.states.value(state)),
                    named(once.map(|once| self.states.value(once))),
                    named(then.as_ref()),
                );
                return Err(self.steps.error(problem, remedy));
            }
        }
        Ok(())
    }
}

/// Memory of a value, in bytes.
fn weight(value: &Value) -> usize {
    let inner: usize = match value {
        Value::Number(text) | Value::Text(text) => text.len(),
        Value::List(values) => values.iter().map(weight).sum(),
        Value::Object(members) => members.iter().map(|(name, value)| 24 + name.len() + weight(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Integer(_) => 0,
    };
    // Once as the key of a map, once in a list.
    size_of::<Value>() * 2 + inner * 2
}

/// Value as text, its beginning if that is long.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Model of an object with this step function.
pub(super) struct Stepped {
    memo: Rc<RefCell<Memo>>,
}

impl Stepped {
    pub fn new(memo: &Rc<RefCell<Memo>>) -> Stepped {
        Stepped { memo: memo.clone() }
    }
}

/// Number of a question.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Call {
    question: u32,
    is_read: bool,
}

impl Model for Stepped {
    type Call = Call;
    type State = u32;

    fn call(&mut self, operation: &Operation) -> Result<Call, String> {
        let mut memo = self.memo.borrow_mut();
        let is_read = memo.is_read(&operation.function);
        let question = memo.question(operation);
        if operation.outcome != Outcome::Ok {
            // The search may never ask about it, and it may be no operation of the model.
            memo.step(0, question);
        }
        Ok(Call { question, is_read })
    }

    fn initial(&self) -> u32 {
        let mut memo = self.memo.borrow_mut();
        // No search is under way, so no state but the initial one is in use.
        if memo.bytes > memo.limit {
            memo.forget();
        }
        0
    }

    fn step(&self, state: &u32, call: &Call) -> Option<u32> {
        self.memo.borrow_mut().step(*state, call.question)
    }

    fn is_read(&self, call: &Call) -> bool {
        call.is_read
    }

    fn is_guess(&self) -> bool {
        true
    }

    fn bytes(&self, state: &u32) -> usize {
        weight(self.memo.borrow().states.value(*state))
    }

    fn describe(&self, state: &u32) -> String {
        format!("the state is {}", shown(self.memo.borrow().states.value(*state)))
    }
}
