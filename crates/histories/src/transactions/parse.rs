//! Transactions of a history, their keys and elements numbered.

use crate::symbols::Symbols;
use crate::{History, HistoryError, Operation, Outcome, Value};

/// Meaning of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// List that transactions append elements to.
    ListAppend,
    /// Register that transactions write.
    Register,
}

impl Kind {
    /// Name of the model, such as `list-append`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::ListAppend => "list-append",
            Kind::Register => "rw-register",
        }
    }

    /// Kind of the model with this name; `None` if its operations are no transactions.
    pub fn named(name: &str) -> Option<Kind> {
        [Kind::ListAppend, Kind::Register].into_iter().find(|kind| kind.name() == name)
    }
}

/// Transaction that may have committed, or that has failed.
pub(super) struct Transaction {
    /// Position of the operation in the history.
    pub operation: usize,
    pub outcome: Outcome,
    pub micros: Vec<Micro>,
}

/// Micro-operation: one access to one key.
pub(super) struct Micro {
    pub key: u32,
    pub action: Action,
}

/// Access to a key.
pub(super) enum Action {
    /// Append of an element or write of a value.
    Write(u32),
    /// Elements that were read; `None` if they are not known. A register's value is a list of one element, or of none for null.
    Read(Option<Vec<u32>>),
}

/// Write of an element.
#[derive(Clone, Copy)]
pub(super) struct Writer {
    /// Index of the transaction.
    pub transaction: u32,
    /// True if the transaction writes the key again after it.
    pub is_intermediate: bool,
}

/// Transactions, with the writers of all elements.
pub(super) struct Transactions<'a> {
    pub kind: Kind,
    pub history: &'a History,
    pub all: Vec<Transaction>,
    pub keys: Vec<Key>,
}

/// Key with all elements that occur with it.
#[derive(Default)]
pub(super) struct Key {
    pub name: Value,
    /// Elements by number.
    pub elements: Symbols,
    /// Writer of each element; `None` for an element without a write.
    pub writers: Vec<Option<Writer>>,
}

impl Key {
    fn number(&mut self, element: &Value) -> u32 {
        let number = self.elements.number(element);
        if number as usize == self.writers.len() {
            self.writers.push(None);
        }
        number
    }
}

impl Transactions<'_> {
    /// Operation of a transaction.
    pub fn operation(&self, transaction: u32) -> &Operation {
        &self.history.operations[self.all[transaction as usize].operation]
    }
}

/// Translates all operations of a history.
///
/// # Errors
/// The first operation that is no list of micro-operations, or that writes a value of a key a second time.
pub(super) fn parse(history: &History, kind: Kind) -> Result<Transactions<'_>, HistoryError> {
    let mut parser = Parser { kind, names: Symbols::default(), keys: Vec::new() };
    let mut all: Vec<Transaction> = Vec::with_capacity(history.operations.len());
    for (index, operation) in history.operations.iter().enumerate() {
        let is_ok = operation.outcome == Outcome::Ok;
        let line = if is_ok { operation.completed } else { None }.unwrap_or(operation.invoked);
        let value = if is_ok { &operation.result } else { &operation.argument };
        let shape = parser.shape();
        let refuse = |problem: String| HistoryError::new(line, problem, format!("write {shape}"));
        if operation.key.is_some() {
            let problem = "a transaction has a \"key\"".to_string();
            return Err(refuse(problem));
        }
        let Some(values) = value.list() else {
            return Err(refuse(format!("the value {value} is no list of micro-operations")));
        };
        let mut micros = Vec::with_capacity(values.len());
        for value in values {
            let micro = parser.micro(value, is_ok).ok_or_else(|| {
                refuse(format!("{value} is no micro-operation of the model {}", kind.name()))
            })?;
            micros.push(micro);
        }
        for (position, micro) in micros.iter().enumerate() {
            let Action::Write(element) = micro.action else { continue };
            let later = &micros[position + 1..];
            let is_intermediate =
                later.iter().any(|other| other.key == micro.key && matches!(other.action, Action::Write(_)));
            let key = &mut parser.keys[micro.key as usize];
            let writer = &mut key.writers[element as usize];
            if let Some(before) = writer {
                let above = all.get(before.transaction as usize).map_or(index, |other| other.operation);
                return Err(HistoryError::new(
                    line,
                    format!(
                        "writes {} to key {}, as the transaction of line {} does",
                        key.elements.value(element),
                        key.name,
                        history.operations[above].invoked
                    ),
                    "give each write of a key a value of its own, so that reads tell whose value they have",
                ));
            }
            *writer = Some(Writer { transaction: all.len() as u32, is_intermediate });
        }
        all.push(Transaction { operation: index, outcome: operation.outcome, micros });
    }
    Ok(Transactions { kind, history, all, keys: parser.keys })
}

struct Parser {
    kind: Kind,
    names: Symbols,
    keys: Vec<Key>,
}

impl Parser {
    fn shape(&self) -> &'static str {
        match self.kind {
            Kind::ListAppend => r#"a "value" such as [["append", "x", 1], ["r", "y", [2, 3]]]"#,
            Kind::Register => r#"a "value" such as [["w", "x", 1], ["r", "y", 2]], where null is only read"#,
        }
    }

    fn micro(&mut self, value: &Value, is_ok: bool) -> Option<Micro> {
        let [Value::Text(name), key, value] = value.list()? else { return None };
        let key = self.key(key);
        let elements = &mut self.keys[key as usize];
        let action = match (name.as_str(), self.kind) {
            ("r", _) if !is_ok => Action::Read(None),
            ("r", Kind::ListAppend) if value.is_null() => Action::Read(Some(Vec::new())),
            ("r", Kind::ListAppend) => {
                Action::Read(Some(value.list()?.iter().map(|element| elements.number(element)).collect()))
            }
            ("r", Kind::Register) if value.is_null() => Action::Read(Some(Vec::new())),
            ("r", Kind::Register) => Action::Read(Some(vec![elements.number(value)])),
            ("append", Kind::ListAppend) => Action::Write(elements.number(value)),
            ("w", Kind::Register) if !value.is_null() => Action::Write(elements.number(value)),
            _ => return None,
        };
        Some(Micro { key, action })
    }

    fn key(&mut self, name: &Value) -> u32 {
        let number = self.names.number(name);
        if number as usize == self.keys.len() {
            self.keys.push(Key { name: name.clone(), ..Key::default() });
        }
        number
    }
}
