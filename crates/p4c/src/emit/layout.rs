//! Header types and instances.

use super::Result;
use crate::ir::*;
use serde_json::{Map as Object, Value, json};

/// Writes header types, header instances and stacks.
pub fn layout(program: &Program, root: &mut Object<String, Value>) -> Result<()> {
    let layout = &program.layout;
    let types =
        layout.types.iter().enumerate().map(|(id, ty)| header_type(program, id, ty)).collect::<Vec<_>>();
    root.insert("header_types".into(), json!(types));
    let headers = layout.headers.iter().enumerate().map(|(id, header)| {
        let ty = &layout.types[header.ty].name;
        json!({"name": header.name, "id": id, "header_type": ty, "metadata": header.metadata, "pi_omit": true})
    });
    root.insert("headers".into(), headers.collect());
    let stacks = layout.stacks.iter().enumerate().map(|(id, stack)| {
        let ty = &layout.types[stack.ty].name;
        json!({"name": stack.name, "id": id, "header_type": ty, "size": stack.headers.len(), "header_ids": stack.headers})
    });
    root.insert("header_stacks".into(), stacks.collect());
    let types = layout.union_types.iter().enumerate().map(|(id, ty)| {
        let members =
            ty.members.iter().map(|(name, ty)| json!([name, layout.types[*ty].name])).collect::<Vec<_>>();
        json!({"name": ty.name, "id": id, "headers": members})
    });
    root.insert("header_union_types".into(), types.collect());
    let unions = layout.unions.iter().enumerate().map(|(id, union)| {
        let ty = &layout.union_types[union.ty].name;
        json!({"name": union.name, "id": id, "union_type": ty, "header_ids": union.headers, "pi_omit": true})
    });
    root.insert("header_unions".into(), unions.collect());
    let stacks = layout.union_stacks.iter().enumerate().map(|(id, stack)| {
        let ty = &layout.union_types[stack.ty].name;
        json!({"name": stack.name, "id": id, "union_type": ty, "size": stack.unions.len(), "header_union_ids": stack.unions})
    });
    root.insert("header_union_stacks".into(), stacks.collect());
    Ok(())
}

fn header_type(program: &Program, id: usize, ty: &HeaderType) -> Value {
    let mut fields = Vec::new();
    let mut bits = 0u64;
    let mut variable = false;
    for (name, scalar) in &ty.fields {
        match scalar {
            Scalar::Varbit(width) => {
                variable = true;
                bits += u64::from(*width);
                fields.push(json!([name, "*"]));
            }
            other => {
                bits += u64::from(other.width());
                // BMv2 has no signed 1-bit field.
                let signed = matches!(other, Scalar::Signed(width) if *width > 1);
                fields.push(json!([name, other.width(), signed]));
            }
        }
    }
    let extracted = program.layout.headers.iter().any(|header| header.ty == id && !header.metadata);
    let rest = (8 - bits % 8) % 8;
    if rest != 0 && (!extracted || !variable) {
        let mut name = "_padding".to_string();
        while ty.fields.iter().any(|(other, _)| *other == name) {
            name.push('_');
        }
        fields.push(json!([name, rest, false]));
    }
    let mut value = json!({"name": ty.name, "id": id, "fields": fields});
    if variable {
        value["max_length"] = json!(bits.div_ceil(8));
    }
    value
}
