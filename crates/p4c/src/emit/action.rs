//! Assembles statements that apply no table into primitives and jumps.

use super::{Result, expression, field, header_name, parameter, shown_info, unsupported};
use crate::ir::*;
use crate::source::Sources;
use belljar_base::Map;
use num_bigint::BigInt;
use serde_json::{Value, json};

struct Assembler<'a> {
    program: &'a Program,
    sources: &'a Sources,
    code: Vec<Value>,
    /// Unresolved jumps: instruction, mark.
    jumps: Vec<(usize, usize)>,
    /// Instruction index of each mark.
    marks: Vec<usize>,
    /// Mark at the end of each block.
    ends: Map<Label, usize>,
}

/// Mark of the end of the action.
const END: usize = 0;

/// Assembles the primitives of a body.
pub fn primitives(program: &Program, sources: &Sources, body: &[Stmt]) -> Result<Vec<Value>> {
    let mut assembler =
        Assembler { program, sources, code: Vec::new(), jumps: Vec::new(), marks: vec![0], ends: Map::new() };
    assembler.body(body)?;
    assembler.marks[END] = assembler.code.len();
    for (at, mark) in assembler.jumps {
        let target = format!("0x{:x}", assembler.marks[mark]);
        if let Some(params) = assembler.code[at]["parameters"].as_array_mut() {
            params.push(json!({"type": "hexstr", "value": target}));
        }
    }
    Ok(assembler.code)
}

impl Assembler<'_> {
    fn mark(&mut self) -> usize {
        self.marks.push(0);
        self.marks.len() - 1
    }

    fn place(&mut self, mark: usize) {
        self.marks[mark] = self.code.len();
    }

    fn jump(&mut self, mark: usize) {
        self.jumps.push((self.code.len(), mark));
        self.code.push(json!({"op": "_jump", "parameters": []}));
    }

    /// Emits a jump taken if the condition is false, with the condition's source line for traces.
    fn jump_unless(&mut self, condition: &Ex, mark: usize) {
        self.jumps.push((self.code.len(), mark));
        let test = Ex::Op("b2d", None, Box::new(condition.clone()));
        let mut jump = json!({"op": "_jump_if_zero", "parameters": [parameter(self.program, &test)]});
        if let Ex::At(shown, _) = condition
            && let Some(info) = shown_info(self.sources, shown)
        {
            jump["source_info"] = info;
        }
        self.code.push(jump);
    }

    fn body(&mut self, body: &[Stmt]) -> Result<()> {
        for stmt in body {
            self.statement(stmt)?;
        }
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::If(condition, yes, no) => {
                // A branch that only leaves a block jumps to the end of the block.
                if let (true, [Stmt::Break(label)]) = (yes.is_empty(), no.as_slice())
                    && let Some(end) = self.ends.get(label).copied()
                {
                    self.jump_unless(condition, end);
                    return Ok(());
                }
                let (other, end) = (self.mark(), self.mark());
                self.jump_unless(condition, other);
                self.body(yes)?;
                if !no.is_empty() {
                    self.jump(end);
                }
                self.place(other);
                self.body(no)?;
                self.place(end);
            }
            Stmt::Block(label, body) => {
                let end = self.mark();
                self.ends.insert(*label, end);
                self.body(body)?;
                self.place(end);
            }
            Stmt::Loop(body) => {
                let start = self.mark();
                self.place(start);
                self.body(body)?;
                self.jump(start);
            }
            Stmt::Break(label) => match self.ends.get(label).copied() {
                Some(end) => self.jump(end),
                None => return unsupported("this jump"),
            },
            Stmt::Exit => {
                self.code.push(json!({"op": "exit", "parameters": []}));
                self.jump(END);
            }
            simple => {
                let code = primitive(self.program, simple)?;
                self.code.push(code);
            }
        }
        Ok(())
    }
}

/// One primitive.
pub fn primitive(program: &Program, stmt: &Stmt) -> Result<Value> {
    match stmt {
        Stmt::Assign(target, value) => {
            let value = masked(target, value);
            Ok(
                json!({"op": "assign", "parameters": [target_json(program, target), parameter(program, &value)]}),
            )
        }
        Stmt::Primitive(op, args) => {
            let args = args.iter().map(|arg| argument(program, op, arg)).collect::<Result<Vec<_>>>()?;
            Ok(json!({"op": op, "parameters": args}))
        }
        _ => unsupported("this statement"),
    }
}

/// Drops an outermost mask of the target's width: assignment truncates to that width.
pub fn masked(target: &FieldRef, value: &Ex) -> Ex {
    if let (Ex::Op("&", Some(inner), mask), Scalar::Bit(width)) = (value, target.scalar)
        && **mask == Ex::Int((BigInt::from(1) << width) - 1)
    {
        return (**inner).clone();
    }
    value.clone()
}

/// A field as the target of an assignment.
pub fn target_json(program: &Program, target: &FieldRef) -> Value {
    match target.header {
        HeaderRef::Element(..) | HeaderRef::UnionElement(..) => {
            json!({"type": "expression", "value": field(program, target)})
        }
        _ => field(program, target),
    }
}

fn argument(program: &Program, op: &str, arg: &Arg) -> Result<Value> {
    Ok(match arg {
        Arg::Ex(ex) if matches!(op, "assert" | "assume") => {
            json!({"type": "expression", "value": expression(program, ex)})
        }
        Arg::Ex(ex) => parameter(program, ex),
        Arg::Header(HeaderRef::Instance(index)) => {
            json!({"type": "header", "value": program.layout.headers[*index].name})
        }
        Arg::Header(header) => {
            return unsupported(&format!("this use of stack {}", header_name(program, header)));
        }
        Arg::Field(target) => target_json(program, target),
        Arg::Object(kind, name) => json!({"type": kind, "value": name}),
        Arg::Text(text) => json!({"type": "string", "value": text}),
        Arg::List(list) => {
            let list = list.iter().map(|ex| parameter(program, ex)).collect::<Vec<_>>();
            json!({"type": "parameters_vector", "value": list})
        }
    })
}
