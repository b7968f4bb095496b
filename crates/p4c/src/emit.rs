//! BMv2 JSON of a lowered program.

use super::ir::*;
use super::source::{Diagnostic, Sources, Span};
use num_bigint::BigInt;
use num_traits::{Signed, Zero};
use serde_json::{Map as Object, Value, json};

mod action;
mod control;
mod layout;
mod parser;
mod table;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Format version of BMv2's JSON.
const VERSION: [u32; 2] = [2, 23];

/// Emits the JSON of a program.
pub fn emit(program: &mut Program, name: &str, sources: &Sources) -> Result<Value> {
    let states = parser::states(program, sources)?;
    let mut emitter = control::Emitter::new(program, sources);
    let pipelines = emitter.pipelines()?;
    let synthesized = emitter.into_actions();
    let actions = program.actions.iter().map(|action| action_json(program, sources, action));
    let mut actions = actions.collect::<Result<Vec<_>>>()?;
    for action in synthesized {
        actions.push(action);
    }
    number(&mut actions);
    let deparser = action::primitives(program, sources, &program.deparser)?;
    let order =
        program.emitted.iter().map(|header| json!(program.layout.headers[*header].name)).collect::<Vec<_>>();
    let mut root = Object::new();
    root.insert("program".into(), json!(name));
    root.insert("__meta__".into(), json!({"version": VERSION, "compiler": "belljar p4"}));
    layout::layout(program, &mut root)?;
    let errors = program.errors.iter().enumerate().map(|(index, name)| json!([&**name, index]));
    root.insert("errors".into(), errors.collect());
    root.insert("enums".into(), enums(program));
    let parser = json!({"name": "parser", "id": 0, "init_state": program.init_state, "parse_states": states});
    root.insert("parsers".into(), json!([parser]));
    let sets = program
        .value_sets
        .iter()
        .enumerate()
        .map(|(id, (name, width))| json!({"name": name, "id": id, "compressed_bitwidth": width}));
    root.insert("parse_vsets".into(), sets.collect());
    let mut deparser = json!({"name": "deparser", "id": 0, "order": order, "primitives": deparser});
    if let Some(info) = source_info(sources, program.controls[2]) {
        deparser["source_info"] = info;
    }
    root.insert("deparsers".into(), json!([deparser]));
    arrays(program, &mut root);
    root.insert("calculations".into(), calculations(program));
    root.insert("learn_lists".into(), lists(program, &program.learn_lists));
    root.insert("field_lists".into(), lists(program, &program.field_lists));
    root.insert("actions".into(), Value::Array(actions));
    root.insert("pipelines".into(), Value::Array(pipelines));
    root.insert("checksums".into(), checksums(program));
    root.insert("force_arith".into(), json!([]));
    root.insert("extern_instances".into(), json!([]));
    let aliases = program.aliases.iter().map(|(alias, header, field)| json!([alias, [header, field]]));
    root.insert("field_aliases".into(), aliases.collect());
    Ok(Value::Object(root))
}

/// Source position, for traces and other tools; `None` in Belljar's built-in files.
fn source_info(sources: &Sources, span: Span) -> Option<Value> {
    if span == Span::default() || sources.is_built_in(span) {
        return None;
    }
    let file = sources.files.get(span.file as usize)?;
    let (line, column) = sources.position(span);
    let text = sources.text(span).lines().next().unwrap_or_default();
    Some(json!({"filename": file.name, "line": line, "column": column, "source_fragment": text}))
}

/// Source information of a condition.
fn shown_info(sources: &Sources, shown: &Shown) -> Option<Value> {
    let mut info = source_info(sources, shown.span)?;
    if let Some(text) = &shown.text {
        info["source_fragment"] = json!(**text);
    }
    Some(info)
}

fn number(list: &mut [Value]) {
    for (id, item) in list.iter_mut().enumerate() {
        item["id"] = json!(id);
    }
}

fn action_json(program: &Program, sources: &Sources, action: &Action) -> Result<Value> {
    let name = &action.name;
    let data = action.params.iter().map(|(name, scalar)| json!({"name": name, "bitwidth": scalar.width()}));
    let data = data.collect::<Vec<_>>();
    let primitives = action::primitives(program, sources, &action.body)?;
    Ok(json!({"name": name, "id": 0, "runtime_data": data, "primitives": primitives}))
}

fn enums(program: &Program) -> Value {
    let list = program.enums.iter().map(|(name, members)| {
        let entries = members.iter().enumerate().map(|(index, member)| json!([&**member, index]));
        json!({"name": name, "entries": entries.collect::<Vec<_>>()})
    });
    list.collect()
}

fn arrays(program: &Program, root: &mut Object<String, Value>) {
    let attached = |array: &&Array| !array.direct || array.table.is_some();
    let counters = program.counters.iter().filter(attached).enumerate().map(|(id, array)| {
        let mut value = json!({"name": array.name, "id": id, "is_direct": array.direct});
        match &array.table {
            Some(table) => value["binding"] = json!(table),
            None => value["size"] = json!(array.size),
        }
        value
    });
    root.insert("counter_arrays".into(), counters.collect());
    let meters = program.meters.iter().filter(attached).enumerate().map(|(id, array)| {
        let mut value = json!({
            "name": array.name, "id": id, "is_direct": array.direct, "rate_count": 2,
            "type": if array.unit == "bytes" { "bytes" } else { "packets" },
        });
        match &array.table {
            Some(table) => {
                value["size"] =
                    json!(program.tables.iter().find(|other| other.name == *table).map_or(1024, |t| t.size));
                value["binding"] = json!(table);
                let target = array.target.as_ref().map(|field| field_name(program, field));
                value["result_target"] = target.unwrap_or_else(|| json!(["scalars", "_padding_0"]));
            }
            None => value["size"] = json!(array.size),
        }
        value
    });
    root.insert("meter_arrays".into(), meters.collect());
    let registers = program.registers.iter().enumerate().map(
        |(id, array)| json!({"name": array.name, "id": id, "size": array.size, "bitwidth": array.width}),
    );
    root.insert("register_arrays".into(), registers.collect());
}

fn input(program: &Program, ex: &Ex, scalar: Scalar) -> Value {
    match ex {
        Ex::Int(value) => {
            let width = scalar.width();
            json!({"type": "hexstr", "value": hex_bits(value, width), "bitwidth": width})
        }
        other => expression(program, other),
    }
}

fn calculations(program: &Program) -> Value {
    let list = program.calculations.iter().enumerate().map(|(id, calculation)| {
        let inputs = calculation.input.iter().map(|item| match item {
            Input::Value(ex, scalar) => input(program, ex, *scalar),
            Input::Payload => json!({"type": "payload", "value": null}),
        });
        json!({"name": calculation.name, "id": id, "algo": calculation.algorithm, "input": inputs.collect::<Vec<_>>()})
    });
    list.collect()
}

fn lists(program: &Program, lists: &[FieldList]) -> Value {
    let list = lists.iter().map(|list| {
        let elements =
            list.elements.iter().map(|(ex, scalar)| input(program, ex, *scalar)).collect::<Vec<_>>();
        json!({"id": list.id, "name": list.name, "elements": elements})
    });
    list.collect()
}

fn checksums(program: &Program) -> Value {
    let list = program.checksums.iter().enumerate().map(|(id, checksum)| {
        let condition = checksum.condition.as_ref().map(|condition| expression(program, condition));
        json!({
            "name": format!("cksum_{id}"), "id": id, "target": field_name(program, &checksum.target),
            "type": "generic", "calculation": program.calculations[checksum.calculation].name,
            "verify": checksum.verify, "update": !checksum.verify, "if_cond": condition,
        })
    });
    list.collect()
}

/// Hexadecimal number.
fn hex(value: &BigInt) -> String {
    if value.is_negative() { format!("-0x{:x}", -value) } else { format!("0x{value:x}") }
}

/// Hexadecimal number padded to whole bytes.
fn hex_bits(value: &BigInt, width: u32) -> String {
    if value.is_negative() {
        return hex(value);
    }
    format!("0x{value:0>digits$x}", digits = width.div_ceil(8).max(1) as usize * 2)
}

/// `[header, field]`.
fn field_name(program: &Program, field: &FieldRef) -> Value {
    match &field.header {
        HeaderRef::Instance(index) => {
            let header = &program.layout.headers[*index];
            json!([header.name, program.layout.types[header.ty].fields[field.field].0])
        }
        other => json!([header_name(program, other), field.field]),
    }
}

fn header_name(program: &Program, header: &HeaderRef) -> String {
    match header {
        HeaderRef::Instance(index) => program.layout.headers[*index].name.clone(),
        HeaderRef::Element(stack, _) | HeaderRef::Next(stack) | HeaderRef::Last(stack) => {
            program.layout.stacks[*stack].name.clone()
        }
        HeaderRef::UnionNext(stack, _)
        | HeaderRef::UnionLast(stack, _)
        | HeaderRef::UnionElement(stack, ..) => program.layout.union_stacks[*stack].name.clone(),
    }
}

fn operation(op: &str, left: Option<Value>, right: Value) -> Value {
    json!({"type": "expression", "value": {"op": op, "left": left, "right": right}})
}

/// A field as an operand.
fn field(program: &Program, reference: &FieldRef) -> Value {
    match &reference.header {
        HeaderRef::Instance(_) => json!({"type": "field", "value": field_name(program, reference)}),
        HeaderRef::Last(stack) | HeaderRef::Next(stack) => {
            let stack = &program.layout.stacks[*stack];
            json!({"type": "stack_field", "value": [stack.name, program.layout.types[stack.ty].fields[reference.field].0]})
        }
        HeaderRef::UnionLast(stack, member) | HeaderRef::UnionNext(stack, member) => {
            let stack = &program.layout.union_stacks[*stack];
            let (member, ty) = &program.layout.union_types[stack.ty].members[*member];
            let field = &program.layout.types[*ty].fields[reference.field].0;
            json!({"type": "union_stack_field", "value": [stack.name, member, field]})
        }
        HeaderRef::Element(stack, index) => {
            let stack = json!({"type": "header_stack", "value": program.layout.stacks[*stack].name});
            let element = operation("dereference_header_stack", Some(stack), expression(program, index));
            operation("access_field", Some(element), json!(reference.field))
        }
        HeaderRef::UnionElement(stack, member, index) => {
            let name = &program.layout.union_stacks[*stack].name;
            let stack = json!({"type": "header_union_stack", "value": name});
            let element = operation("dereference_union_stack", Some(stack), expression(program, index));
            let header = operation("access_union_header", Some(element), json!(member));
            operation("access_field", Some(header), json!(reference.field))
        }
    }
}

/// An expression.
fn expression(program: &Program, ex: &Ex) -> Value {
    match ex {
        Ex::Int(value) => json!({"type": "hexstr", "value": hex(value)}),
        Ex::Bool(value) => json!({"type": "bool", "value": value}),
        Ex::Field(reference) => field(program, reference),
        Ex::Data(index, _) => json!({"type": "local", "value": index}),
        Ex::Op(op, left, right) => {
            let left = left.as_ref().map(|left| expression(program, left));
            operation(op, left, expression(program, right))
        }
        Ex::Cond(condition, yes, no) => json!({"type": "expression", "value": {
            "op": "?", "left": expression(program, yes), "right": expression(program, no),
            "cond": expression(program, condition),
        }}),
        Ex::Valid(header) => {
            let valid = json!({"type": "field", "value": [header_name(program, header), "$valid$"]});
            operation("d2b", None, valid)
        }
        Ex::Lookahead(offset, width) => json!({"type": "lookahead", "value": [offset, width]}),
        Ex::At(_, inner) => expression(program, inner),
        Ex::LastIndex(stack) => {
            let stack = json!({"type": "header_stack", "value": program.layout.stacks[*stack].name});
            operation("last_stack_index", None, stack)
        }
        Ex::UnionLastIndex(stack) => {
            let name = &program.layout.union_stacks[*stack].name;
            let stack = json!({"type": "header_union_stack", "value": name});
            operation("last_stack_index", None, stack)
        }
    }
}

/// An expression as the parameter of a primitive or parser operation.
fn parameter(program: &Program, ex: &Ex) -> Value {
    match ex {
        Ex::Data(index, _) => json!({"type": "runtime_data", "value": index}),
        Ex::Int(_) | Ex::Bool(_) | Ex::Lookahead(..) => expression(program, ex),
        Ex::Field(reference)
            if !matches!(reference.header, HeaderRef::Element(..) | HeaderRef::UnionElement(..)) =>
        {
            field(program, reference)
        }
        other => json!({"type": "expression", "value": expression(program, other)}),
    }
}

fn is_zero(ex: &Ex) -> bool {
    matches!(ex, Ex::Int(value) if value.is_zero())
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(Diagnostic::error(Span::default(), format!("{what} is not possible on this target")))
}
