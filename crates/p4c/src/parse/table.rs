//! Tables and parser states.

use super::{Parser, Result};
use crate::ast::*;

impl Parser {
    /// `table name { properties }`.
    pub(super) fn table(&mut self, annotations: Annotations) -> Result<Decl> {
        let start = self.expect_word("table")?;
        let name = self.identifier()?;
        self.expect("{")?;
        let mut properties = Vec::new();
        while !self.eat("}") {
            properties.push(self.property()?);
        }
        Ok(Decl { annotations, name, span: start.to(self.previous()), kind: DeclKind::Table(properties) })
    }

    fn property(&mut self) -> Result<Property> {
        let annotations = self.annotations()?;
        let is_const = self.eat_word("const");
        let name = self.identifier()?;
        self.expect("=")?;
        let braces = self.is("{");
        let value = match &*name.name {
            "key" if braces => PropertyValue::Key(self.keys()?),
            "actions" if braces => PropertyValue::Actions(self.actions()?),
            "entries" if braces => PropertyValue::Entries(self.entries()?),
            "key" | "actions" | "entries" => return Err(self.unexpected("'{'")),
            _ => {
                let value = self.expression()?;
                self.expect(";")?;
                PropertyValue::Value(value)
            }
        };
        if !matches!(value, PropertyValue::Value(_)) {
            self.eat(";");
        }
        Ok(Property { annotations, is_const, name, value })
    }

    fn keys(&mut self) -> Result<Vec<(Expr, Ident, Annotations)>> {
        self.expect("{")?;
        let mut keys = Vec::new();
        while !self.eat("}") {
            let value = self.expression()?;
            self.expect(":")?;
            let kind = self.identifier()?;
            let annotations = self.annotations()?;
            self.expect(";")?;
            keys.push((value, kind, annotations));
        }
        Ok(keys)
    }

    fn actions(&mut self) -> Result<Vec<(Expr, Annotations)>> {
        self.expect("{")?;
        let mut actions = Vec::new();
        while !self.eat("}") {
            let annotations = self.annotations()?;
            actions.push((self.expression()?, annotations));
            self.expect(";")?;
        }
        Ok(actions)
    }

    fn entries(&mut self) -> Result<Vec<Entry>> {
        self.expect("{")?;
        let mut entries = Vec::new();
        while !self.eat("}") {
            let start = self.peek().span;
            self.eat_word("const");
            let mut priority = None;
            if self.is_word("priority") && (self.peek_at(1).is("=") || self.peek_at(1).is("(")) {
                self.bump();
                self.eat("=");
                priority = Some(self.expression()?);
                self.expect(":")?;
            }
            let keys = self.keyset_tuple()?;
            self.expect(":")?;
            let action = self.expression()?;
            let annotations = self.annotations()?;
            let span = start.to(self.previous());
            self.expect(";")?;
            entries.push(Entry { annotations, priority, keys, action, span });
        }
        Ok(entries)
    }

    /// `(a, b)` as one key set per element; anything else as a single key set.
    pub(super) fn keyset_tuple(&mut self) -> Result<Vec<Expr>> {
        if self.is("(") {
            let tuple = self.attempt(|p| {
                p.bump();
                let mut sets = Vec::new();
                while !p.is(")") {
                    sets.push(p.keyset().ok()?);
                    if !p.eat(",") {
                        break;
                    }
                }
                (p.eat(")") && p.is(":")).then_some(sets)
            });
            if let Some(sets) = tuple {
                return Ok(sets);
            }
        }
        Ok(vec![self.keyset()?])
    }

    /// `state name { statements transition ...; }`.
    pub(super) fn state(&mut self) -> Result<State> {
        self.expect_word("state")?;
        let name = self.identifier()?;
        self.expect("{")?;
        self.scoped(|p| {
            let mut body = Vec::new();
            let mut transition = None;
            while !p.is("}") {
                if p.is_word("transition") {
                    p.bump();
                    transition = Some(p.transition()?);
                    if !p.is("}") {
                        return Err(p.unexpected("'}' after the transition"));
                    }
                    break;
                }
                body.push(p.statement()?);
            }
            p.expect("}")?;
            Ok(State { name, body, transition })
        })
    }

    fn transition(&mut self) -> Result<Transition> {
        if !self.is_word("select") {
            let name = self.identifier()?;
            self.expect(";")?;
            return Ok(Transition::To(name));
        }
        let start = self.bump().span;
        self.expect("(")?;
        let mut keys = Vec::new();
        while !self.is(")") {
            keys.push(self.expression()?);
            if !self.eat(",") {
                break;
            }
        }
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.eat("}") {
            let start = self.peek().span;
            let sets = self.keyset_tuple()?;
            self.expect(":")?;
            let next = self.identifier()?;
            let span = start.to(next.span);
            self.expect(";")?;
            cases.push(SelectCase { keys: sets, next, span });
        }
        self.eat(";");
        Ok(Transition::Select(start.to(self.previous()), keys, cases))
    }
}
