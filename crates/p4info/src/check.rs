//! P4Info held against the program that it is said to describe.

use crate::objects::Objects;
use crate::proto::P4Info;
use belljar_p4::Program;
use std::fmt;

/// An object of a program, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object<'a> {
    /// A table with that many fields in its key.
    Table(&'a str, usize),
    /// An action with that many parameters.
    Action(&'a str, usize),
    /// An action profile or selector.
    Profile(&'a str),
    /// An indirect counter.
    Counter(&'a str),
    /// An indirect meter.
    Meter(&'a str),
    /// A register.
    Register(&'a str),
    /// A digest.
    Digest(&'a str),
    /// A parser's value set.
    ValueSet(&'a str),
}

impl Object<'_> {
    /// True if a program has the object.
    pub fn is_in(self, program: &Program) -> bool {
        match self {
            Self::Table(name, fields) => program.table(name).is_ok_and(|table| {
                program.table_name(table) == name && program.table_info(table).key.len() == fields
            }),
            Self::Action(name, parameters) => program.action(name).is_ok_and(|action| {
                let info = program.action_info(action);
                info.name == name && info.parameters.len() == parameters
            }),
            Self::Profile(name) => program.profile(name).is_ok(),
            Self::Counter(name) => program.counter(name).is_ok(),
            Self::Meter(name) => program.meter(name).is_ok(),
            Self::Register(name) => program.register(name).is_ok(),
            Self::Digest(name) => program.digest(name).is_ok(),
            Self::ValueSet(name) => program.value_set(name).is_ok(),
        }
    }
}

impl fmt::Display for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name, fields) => write!(f, "table '{name}' with {fields} fields in its key"),
            Self::Action(name, parameters) => write!(f, "action '{name}' with {parameters} parameters"),
            Self::Profile(name) => write!(f, "action profile '{name}'"),
            Self::Counter(name) => write!(f, "counter '{name}'"),
            Self::Meter(name) => write!(f, "meter '{name}'"),
            Self::Register(name) => write!(f, "register '{name}'"),
            Self::Digest(name) => write!(f, "digest '{name}'"),
            Self::ValueSet(name) => write!(f, "value set '{name}'"),
        }
    }
}

/// Checks that P4Info, as text or in binary, is valid and describes a program. The error is a message.
pub fn check(program: &Program, p4info: &[u8]) -> Result<(), String> {
    let info = P4Info::from_file_content(p4info)?;
    let objects = Objects::new(&info).map_err(|error| error.message)?;
    objects.check(|object| object.is_in(program)).map_err(|error| error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INFO: &[u8] = include_bytes!("../../../tests/p4/learning.p4info.txtpb");

    fn program(json: &str) -> Program {
        Program::from_text(json).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn p4info_fits_its_program_alone() {
        let learning = program(include_str!("../../../tests/p4/learning.json"));
        assert_eq!(check(&learning, INFO), Ok(()));
        let router = program(include_str!("../../../examples/p4-router.json"));
        let other = "P4Info and the device configuration do not belong together: the latter has no table 'MyIngress.mac' with 1 \
                     fields in its key";
        assert_eq!(check(&router, INFO), Err(other.to_owned()));
        assert_eq!(
            check(&learning, b"tables {"),
            Err("line 1: the text ends inside a message: '}' is missing".to_owned())
        );
        assert_eq!(check(&learning, b"actions { }"), Err("an object in P4Info has no id".to_owned()));
    }
}
