//! Calculations, checksums, field lists and digests.

use super::expressions::{Typed, short};
use super::{Lower, Result, item};
use crate::hash::Algorithm;
use crate::number::{Number, parse_hex};
use crate::program::{Calculation, Checksum, Field, FieldList, Input, LearnList, Source};
use serde_json::Value;

impl Lower<'_> {
    pub(super) fn calculations(&mut self) -> Result<()> {
        let root = self.root;
        for (n, calculation) in root.calculations.iter().enumerate() {
            let lowered = self.within(item("calculations", n, &calculation.name), |lower| {
                lower.calculation(&calculation.name, &calculation.algo, &calculation.input)
            })?;
            self.calculations.insert(&calculation.name, n as u32);
            self.program.calculations.push(lowered);
        }
        Ok(())
    }

    pub(super) fn calculation(
        &mut self,
        name: &str,
        algorithm: &str,
        inputs: &[Value],
    ) -> Result<Calculation> {
        let Some(algorithm) = Algorithm::by_name(algorithm) else {
            let remedy = format!("use one of {}", Algorithm::NAMES.join(", "));
            return Err(self.error_with(format!("hash algorithm '{algorithm}' is not known"), remedy));
        };
        let (mut input, mut payload) = (Vec::new(), false);
        for value in inputs {
            let Typed::Value { kind, value: what } = self.typed(value)? else {
                return Err(self.error(format!("{} cannot be hashed", short(value))));
            };
            match kind {
                "field" => {
                    let (header, field) = match (what[0].as_str(), what[1].as_str()) {
                        (Some(header), Some(field)) => (self.find("header", &self.headers, header)?, field),
                        _ => {
                            return Err(
                                self.error(format!("{} is not written as [header, field]", short(what)))
                            );
                        }
                    };
                    let number = self.field_number(header, field)?;
                    match self.fixed_field(header, field) {
                        Some(_) => push_field(&mut input, self.program.field_of(header, number)),
                        None => input.push(Input::Variable(header)),
                    }
                }
                "hexstr" => {
                    let bits = value["bitwidth"].as_u64().filter(|bits| *bits <= super::MAX_WIDTH);
                    let bits =
                        bits.ok_or_else(|| self.error(format!("{} has no bitwidth", short(value))))? as u32;
                    let number = parse_hex(self.name(what)?)
                        .ok_or_else(|| self.error(format!("{} is not a number", short(what))))?;
                    let mut bytes = vec![0; bits.div_ceil(8) as usize + crate::bits::PADDING];
                    let end = bits.div_ceil(8) as usize;
                    number.to_bytes(&mut bytes[..end]);
                    input.push(Input::Constant { bytes, bits });
                }
                "header" => {
                    let name = self.name(what)?;
                    input.push(Input::Header(self.find("header", &self.headers, name)?));
                }
                "payload" => payload = true,
                other => return Err(self.error(format!("a value of type '{other}' cannot be hashed"))),
            }
        }
        Ok(Calculation { name: name.to_owned(), algorithm, input, payload })
    }

    pub(super) fn checksums(&mut self) -> Result<()> {
        let root = self.root;
        for (n, checksum) in root.checksums.iter().enumerate() {
            self.place.push(item("checksums", n, &checksum.name));
            let (header, field) = &checksum.target;
            let number = self.find("header", &self.headers, header)?;
            let target = match self.fixed_field(number, field) {
                Some(field) => field,
                None => {
                    return Err(
                        self.error(format!("header '{header}' has no field '{field}' of fixed width"))
                    );
                }
            };
            let calculation = self.find("calculation", &self.calculations, &checksum.calculation)?;
            if target.width > 64 {
                return Err(self.error("the checksum's field is wider than 64 bits"));
            }
            let condition = match &checksum.if_cond {
                None | Some(Value::Null) => None,
                Some(condition) => Some(self.within("if_cond", |lower| lower.boolean(condition))?),
            };
            let lowered = || Checksum { name: checksum.name.clone(), target, calculation, condition };
            if checksum.verify {
                self.program.verify.push(lowered());
            }
            if checksum.update {
                self.program.update.push(lowered());
            }
            self.place.pop();
        }
        Ok(())
    }

    pub(super) fn source(&self, value: &Value) -> Result<(Source, u32)> {
        let Typed::Value { kind: "field", value } = self.typed(value)? else {
            return Err(self.error(format!("{} is not a field", short(value))));
        };
        self.source_field(value)
    }
    /// Header of a field of variable width, if the value denotes one.
    fn variable_field(&self, value: &Value) -> Result<Option<u32>> {
        let (Some(name), Some(field)) = (value[0].as_str(), value[1].as_str()) else { return Ok(None) };
        if field == "$valid$" {
            return Ok(None);
        }
        let header = self.find("header", &self.headers, name)?;
        let kind = self.program.kind_of(header);
        let named = kind.variable.and_then(|variable| kind.fields.get(variable.index as usize));
        Ok(named.is_some_and(|named| named.name == field).then_some(header))
    }
    pub(super) fn source_field(&self, value: &Value) -> Result<(Source, u32)> {
        let (Some(name), Some(field)) = (value[0].as_str(), value[1].as_str()) else {
            return Err(self.error(format!("{} is not written as [header, field]", short(value))));
        };
        if field == "$valid$"
            && let Some(union) = self.unions.get(name)
        {
            return Ok((Source::ValidUnion(*union), 1));
        }
        let header = self.find("header", &self.headers, name)?;
        if field == "$valid$" {
            return Ok((Source::Valid(header), 1));
        }
        self.field_number(header, field)?;
        match self.fixed_field(header, field) {
            Some(field) => Ok((Source::Field(field), field.width)),
            None => Err(self.error(format!("'{name}.{field}' has a variable width"))),
        }
    }

    pub(super) fn lists(&mut self) -> Result<()> {
        let root = self.root;
        for (n, list) in root.field_lists.iter().enumerate() {
            self.place.push(item("field_lists", n, &list.name));
            let (mut fields, mut variable) = (Vec::new(), Vec::new());
            for element in &list.elements {
                match self.typed(element)? {
                    Typed::Value { kind: "hexstr", .. } => {} // A constant has no field to preserve.
                    Typed::Value { kind: "field", value } => match self.variable_field(value)? {
                        Some(header) => variable.push(header),
                        None => {
                            if let (Source::Field(field), _) = self.source_field(value)? {
                                fields.push(field);
                            }
                        }
                    },
                    _ => return Err(self.error(format!("{} is not a field", short(element)))),
                }
            }
            self.program.field_lists.push(FieldList { id: list.id, fields, variable });
            self.place.pop();
        }
        for (n, list) in root.learn_lists.iter().enumerate() {
            self.place.push(item("learn_lists", n, &list.name));
            let (mut elements, mut widths) = (Vec::new(), Vec::new());
            for element in &list.elements {
                let (source, width) = self.source(element)?;
                elements.push(source);
                widths.push(width);
            }
            self.program.learn_lists.push(LearnList {
                name: list.name.clone(),
                id: list.id,
                elements,
                widths,
            });
            self.place.pop();
        }
        Ok(())
    }
}

/// Appends a field to the input of a hash. Adjacent fields of a header are merged into one range, copied at
/// once.
fn push_field(input: &mut Vec<Input>, field: Field) {
    match input.last_mut() {
        Some(Input::Field(last))
            if last.header == field.header && last.offset + last.width == field.offset =>
        {
            last.width += field.width;
        }
        _ => input.push(Input::Field(field)),
    }
}
