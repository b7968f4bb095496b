//! References to headers, unions and stacks, resolved statically or at run time.

use super::expressions::{Typed, short};
use super::{Lower, Result};
use crate::program::code::{Href, Uref};
use serde_json::Value;

impl Lower<'_> {
    fn push_href(&mut self, href: Href) -> u32 {
        self.program.hrefs.push(href);
        self.program.hrefs.len() as u32 - 1
    }
    fn push_uref(&mut self, uref: Uref) -> u32 {
        self.program.urefs.push(uref);
        self.program.urefs.len() as u32 - 1
    }

    pub(super) fn href(&mut self, value: &Value) -> Result<u32> {
        let href = match self.typed(value)? {
            Typed::Value { kind: "header", value } => {
                let name = self.name(value)?;
                Href::Static(self.find("header", &self.headers, name)?)
            }
            Typed::Operation { op: "dereference_header_stack", left, right, .. } => {
                let stack = self.stack(left)?;
                Href::Stack { stack, index: self.value(right)? }
            }
            Typed::Operation { op: "access_union_header", left, right, .. } => {
                let union = self.uref(left)?;
                let member = match right.as_u64() {
                    Some(member) => member as u32,
                    None => return Err(self.error(format!("{} is not the number of a member", short(right)))),
                };
                Href::Member { union, member }
            }
            _ => return Err(self.error(format!("{} is not a header", short(value)))),
        };
        let href = self.push_href(href);
        self.example(href)?;
        Ok(href)
    }

    pub(super) fn uref(&mut self, value: &Value) -> Result<u32> {
        let uref = match self.typed(value)? {
            Typed::Value { kind: "header_union", value } => {
                let name = self.name(value)?;
                Uref::Static(self.find("header union", &self.unions, name)?)
            }
            Typed::Operation { op: "dereference_union_stack", left, right, .. } => {
                let stack = self.union_stack(left)?;
                Uref::Stack { stack, index: self.value(right)? }
            }
            _ => return Err(self.error(format!("{} is not a header union", short(value)))),
        };
        Ok(self.push_uref(uref))
    }

    pub(super) fn stack(&mut self, value: &Value) -> Result<u32> {
        match self.typed(value)? {
            Typed::Value { kind: "header_stack", value } => {
                let name = self.name(value)?;
                self.find("header stack", &self.stacks, name)
            }
            _ => Err(self.error(format!("{} is not a header stack", short(value)))),
        }
    }
    pub(super) fn union_stack(&mut self, value: &Value) -> Result<u32> {
        match self.typed(value)? {
            Typed::Value { kind: "header_union_stack", value } => {
                let name = self.name(value)?;
                self.find("header union stack", &self.union_stacks, name)
            }
            _ => Err(self.error(format!("{} is not a stack of header unions", short(value)))),
        }
    }

    pub(super) fn union_stack_type(&self, stack: u32) -> &str {
        &self.root.header_union_stacks[stack as usize].union_type
    }
    /// Index of a union member by name.
    pub(super) fn member(&mut self, union: u32, kind: &str, name: &str) -> Result<u32> {
        let members = self.find("header union type", &self.union_types, kind)?;
        let member = members.iter().position(|(member, _)| member == name);
        let member =
            member.ok_or_else(|| self.error(format!("union type '{kind}' has no member '{name}'")))? as u32;
        let header = self.push_href(Href::Member { union, member });
        self.example(header)?;
        Ok(header)
    }

    /// Any header of the type that a reference has.
    pub(super) fn example(&self, href: u32) -> Result<u32> {
        let stack = |stack: u32| self.program.stacks[stack as usize].headers.first().copied();
        let found = match self.program.hrefs[href as usize] {
            Href::Static(header) => Some(header),
            Href::Stack { stack: n, .. } | Href::Last(n) => stack(n),
            Href::Member { union, member } => {
                let union = self.example_union(union);
                union.and_then(|union| {
                    self.program.unions[union as usize].headers.get(member as usize).copied()
                })
            }
        };
        found.ok_or_else(|| self.error("the reference leads to no header"))
    }
    fn example_union(&self, uref: u32) -> Option<u32> {
        match self.program.urefs[uref as usize] {
            Uref::Static(union) => Some(union),
            Uref::Stack { stack, .. } | Uref::Last(stack) => {
                self.program.union_stacks[stack as usize].unions.first().copied()
            }
        }
    }

    pub(super) fn same_type(&self, left: u32, right: u32) -> Result<()> {
        let kind = |href: u32| Ok(self.program.headers[self.example(href)? as usize].kind);
        if kind(left)? != kind(right)? {
            return Err(self.error("the two headers are of different types"));
        }
        Ok(())
    }
    pub(super) fn same_union_type(&self, left: u32, right: u32) -> Result<()> {
        let kinds = |uref: u32| -> Option<Vec<u32>> { Some(self.union_kinds(self.example_union(uref)?)) };
        if kinds(left).is_none() || kinds(left) != kinds(right) {
            return Err(self.error("the two unions are of different types"));
        }
        Ok(())
    }
    fn union_kinds(&self, union: u32) -> Vec<u32> {
        let headers = &self.program.unions[union as usize].headers;
        headers.iter().map(|header| self.program.headers[*header as usize].kind).collect()
    }
    pub(super) fn same_stack_type(&self, left: u32, right: u32) -> Result<()> {
        let kinds = |stack: u32| -> Vec<u32> {
            let headers = &self.program.stacks[stack as usize].headers;
            headers.iter().map(|header| self.program.headers[*header as usize].kind).collect()
        };
        if kinds(left) != kinds(right) {
            return Err(self.error("the two stacks are of different types"));
        }
        Ok(())
    }
    pub(super) fn same_union_stack_type(&self, left: u32, right: u32) -> Result<()> {
        let kinds = |stack: u32| -> Vec<Vec<u32>> {
            let unions = &self.program.union_stacks[stack as usize].unions;
            unions.iter().map(|union| self.union_kinds(*union)).collect()
        };
        if kinds(left) != kinds(right) {
            return Err(self.error("the two stacks of unions are of different types"));
        }
        Ok(())
    }
}
