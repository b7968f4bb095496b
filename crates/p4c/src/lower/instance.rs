//! Instances and their control-plane names.

use super::{Bound, Lower, Result, Val, Where};
use crate::ast::{Annotation, Annotations};
use crate::ir::*;
use crate::lex::{Kind, unescape};
use crate::source::{Diagnostic, Span};
use crate::typed::{Call, DeclKind, Stmt as TypedStmt};
use crate::types::{DeclId, DefId, DefKind, Type};
use num_bigint::BigInt;
use num_traits::ToPrimitive;
use std::rc::Rc;

/// Instance of an extern, a control, a parser or a package.
#[derive(Clone, Debug)]
pub struct Instance {
    /// Control-plane name.
    pub path: String,
    pub def: DefId,
    pub ty: Type,
    /// Constructor arguments in parameter order.
    args: Vec<Option<Val>>,
    pub annotations: Annotations,
    pub span: Span,
}

impl Instance {
    pub(super) fn arg(&self, index: usize) -> Option<&Val> {
        self.args.get(index).and_then(Option::as_ref)
    }

    /// Unit of a counter or meter.
    pub(super) fn unit(&self, index: usize) -> &'static str {
        match self.arg(index).and_then(constant).and_then(|value| value.to_u32()) {
            Some(0) => "packets",
            Some(1) => "bytes",
            _ => "both",
        }
    }

    pub(super) fn number(&self, index: usize) -> u64 {
        match self.arg(index) {
            Some(Val::Ex(Ex::Int(value))) => value.to_u64().unwrap_or(0),
            _ => 0,
        }
    }
}

/// String argument of an annotation such as `@name("x")`.
pub fn annotation_text(annotations: &[Annotation], name: &str) -> Option<String> {
    let annotation = find_annotation(annotations, name)?;
    if let Some(text) = annotation.texts().next() {
        return Some(text.to_string());
    }
    let mut text = String::new();
    for token in &annotation.body {
        match &token.kind {
            Kind::Str(part) => text.push_str(&unescape(part)),
            Kind::Ident(part) => text.push_str(part),
            _ => return None,
        }
    }
    Some(text)
}

/// First annotation with a name.
pub fn find_annotation<'a>(annotations: &'a [Annotation], name: &str) -> Option<&'a Annotation> {
    annotations.iter().find(|annotation| &*annotation.name.name == name)
}

/// True if an annotation with this name is present.
pub fn has_annotation(annotations: &[Annotation], name: &str) -> bool {
    annotations.iter().any(|annotation| &*annotation.name.name == name)
}

/// Control-plane name of `name` inside `path`. `@name` replaces `name`; with a leading dot it replaces the
/// path as well.
pub fn join(path: &str, name: &str, annotations: &[Annotation]) -> String {
    let name = annotation_text(annotations, "name").unwrap_or_else(|| name.to_string());
    match name.strip_prefix('.') {
        Some(global) => global.to_string(),
        None if path.is_empty() => name,
        None => format!("{path}.{name}"),
    }
}

impl Lower<'_> {
    /// Control-plane name of a declaration of the block being lowered.
    pub(super) fn full_name(&self, id: DeclId) -> String {
        let decl = self.decl(id);
        join(&self.path, &decl.name.name, &decl.annotations)
    }

    /// Lowers a local declaration of a block.
    pub(super) fn declare(&mut self, id: DeclId) -> Result<()> {
        match &self.decl(id).kind {
            DeclKind::Instance(..) => {
                let instance = self.declare_instance(id)?;
                self.bound.insert(id, Bound::Instance(instance));
            }
            DeclKind::ValueSet(size) => {
                let name = self.full_name(id);
                self.claim("value set", &name, self.decl(id).name.span)?;
                let Type::Set(element) = self.types.ty(&self.decl(id).ty) else { return Ok(()) };
                let width = self.types.width_of(&element);
                let span = size.span;
                let Some(size) = constant(&self.val(size, &mut Vec::new())?).and_then(|size| size.to_u64())
                else {
                    return self
                        .error(span, "the size of a value set must be a number known at compile time");
                };
                if !self.out.value_sets.iter().any(|(other, _)| *other == name) {
                    self.out.value_sets.push((name.clone(), width));
                    self.info.value_set(&name, id, (*element).clone(), size);
                }
            }
            DeclKind::Table(_) => {}
            _ => {}
        }
        Ok(())
    }

    /// Instance of a declaration, in the current block or at the top level.
    pub(super) fn declare_instance(&mut self, id: DeclId) -> Result<Rc<Instance>> {
        let top = self.is_top(id);
        let path = if top { String::new() } else { self.path.clone() };
        if let Some(instance) = self.instances.get(&(path.clone(), id)) {
            return Ok(instance.clone());
        }
        let decl = self.decl(id);
        let DeclKind::Instance(call) = &decl.kind else {
            return self.error(decl.name.span, "this is not an instance");
        };
        let name = join(&path, &decl.name.name, &decl.annotations);
        let instance = self.instance(name, &decl.ty, call, &decl.annotations, decl.name.span)?;
        self.info.instances.insert((path.clone(), id), (instance.path.clone(), instance.def));
        self.instances.insert((path, id), instance.clone());
        self.register(&instance, id)?;
        Ok(instance)
    }

    fn is_top(&self, id: DeclId) -> bool {
        self.program.top_decls.contains(&id)
    }

    pub(super) fn instance(
        &mut self,
        path: String,
        ty: &Type,
        call: &Call,
        annotations: &Annotations,
        span: Span,
    ) -> Result<Rc<Instance>> {
        let ty = self.types.ty(ty);
        let Type::Named(def, _) = &ty else { return self.error(span, "this cannot be instantiated") };
        let def = *def;
        let mut args = Vec::new();
        for (index, arg) in call.args.iter().enumerate() {
            let value = match arg {
                Some(arg) => Some(self.constructor_arg(arg, &path, index)?),
                None => None,
            };
            args.push(value);
        }
        Ok(Rc::new(Instance { path, def, ty, args, annotations: annotations.clone(), span }))
    }

    /// Lowers a constructor argument.
    fn constructor_arg(&mut self, arg: &crate::typed::Expr, _path: &str, _index: usize) -> Result<Val> {
        self.val(arg, &mut Vec::new())
    }

    /// Adds an extern instance to the output program.
    fn register(&mut self, instance: &Rc<Instance>, id: DeclId) -> Result<()> {
        let def = &self.program.defs[instance.def];
        if !matches!(def.kind, DefKind::Extern(_)) {
            return Ok(());
        }
        let source = (instance.annotations.clone(), self.decl(id).name.span);
        let kind = &*def.name.name;
        if matches!(kind, "counter" | "meter" | "register" | "direct_counter" | "direct_meter") {
            self.claim(kind, &instance.path, source.1)?;
        }
        let mut array = Array {
            name: instance.path.clone(),
            size: instance.number(0),
            width: 0,
            unit: String::new(),
            table: None,
            target: None,
            direct: false,
        };
        match &*def.name.name {
            "counter" => {
                array.unit = instance.unit(1).into();
                self.out.counters.push(array.clone());
                self.info.array("counter", &array, source.clone(), None);
            }
            "meter" => {
                array.unit = instance.unit(1).into();
                self.out.meters.push(array.clone());
                self.info.array("meter", &array, source.clone(), None);
            }
            "register" => {
                let Type::Named(_, args) = &instance.ty else { return Ok(()) };
                let element = args.first().cloned().unwrap_or(Type::Bit(32));
                array.width = match self.types.record_width(&element) {
                    Some(width) => width,
                    None => {
                        let text = "a register of this target holds numbers and structs of numbers";
                        return self.error(instance.span, text);
                    }
                };
                self.out.registers.push(array.clone());
                self.info.array("register", &array, source.clone(), Some(element));
            }
            "direct_counter" | "direct_meter" => {
                array.unit = instance.unit(0).into();
                array.direct = true;
                array.size = 0;
                if &*def.name.name == "direct_counter" {
                    self.out.counters.push(array.clone());
                    self.info.array("direct_counter", &array, source.clone(), None);
                } else {
                    self.out.meters.push(array.clone());
                    self.info.array("direct_meter", &array, source.clone(), None);
                }
            }
            "action_profile" | "action_selector" => self.profile(instance)?,
            _ => {}
        }
        Ok(())
    }

    /// Refuses a second instance of a kind with one name.
    pub(super) fn claim(&mut self, kind: &str, name: &str, span: Span) -> Result<()> {
        let Some(first) = self.info.names.insert((kind.to_string(), name.to_string()), span) else {
            return Ok(());
        };
        let kind = kind.replace('_', " ");
        let text = format!("another {kind} has the name '{name}' in the control plane");
        Err(Diagnostic::error(span, text)
            .note(first, "the other")
            .help("write @name(\"...\") before one of them"))
    }

    /// Adds an action profile or selector.
    pub(super) fn profile(&mut self, instance: &Rc<Instance>) -> Result<()> {
        let kind = "action profile";
        match self.info.names.get(&(kind.to_string(), instance.path.clone())) {
            Some(first) if *first == instance.span => return Ok(()),
            _ => self.claim(kind, &instance.path, instance.span)?,
        }
        let selector = &*self.program.defs[instance.def].name.name == "action_selector";
        let (size, algorithm) = if selector {
            (instance.number(1), Some(self.algorithm(instance.arg(0), instance.span)?))
        } else {
            (instance.number(0), None)
        };
        let profile = Profile {
            name: instance.path.clone(),
            size,
            algorithm,
            input: Vec::new(),
            pipeline: self.pipeline,
        };
        self.info.profiles.push((profile.clone(), instance.annotations.clone()));
        self.out.profiles.push(profile);
        Ok(())
    }

    /// BMv2 name of the hash algorithm that a `HashAlgorithm` member denotes.
    pub(super) fn algorithm(&self, value: Option<&Val>, span: Span) -> Result<String> {
        let members = self.program.defs.iter().find_map(|def| match &def.kind {
            DefKind::Enum(members) if &*def.name.name == "HashAlgorithm" => Some(members.clone()),
            _ => None,
        });
        let number = value.and_then(constant).and_then(|number| number.to_usize());
        match number.and_then(|number| members?.get(number).map(ToString::to_string)) {
            Some(name) if name == "random" => self.error(span, "the target has no hash algorithm 'random'"),
            Some(name) => Ok(name),
            None => Err(Diagnostic::error(span, "the algorithm must be known at compile time")
                .help("write a member of HashAlgorithm")),
        }
    }

    /// Lowers the local declarations of a block whose parameters are bound.
    pub(super) fn block_locals(&mut self, def: DefId, out: &mut Vec<Stmt>) -> Result<()> {
        let Some(block) = self.program.bodies.get(&def).cloned() else { return Ok(()) };
        for local in &block.locals {
            match local {
                TypedStmt::Declare(id) => {
                    self.declare(*id)?;
                }
                TypedStmt::Var(id, value) => self.variable(*id, value.as_ref(), out)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Binds the constructor parameters of an instance.
    pub(super) fn bind_constructor(&mut self, instance: &Instance) {
        let DefKind::Block(_, _, constructor) = &self.program.defs[instance.def].kind else { return };
        for (index, param) in constructor.params.iter().enumerate() {
            let value = instance.arg(index).cloned();
            match value {
                Some(Val::Instance(inner)) => {
                    self.bound.insert(param.decl, Bound::Instance(inner));
                }
                Some(value) => {
                    self.bound.insert(param.decl, Bound::Value(value));
                }
                None => {}
            }
        }
    }

    /// Storage of a variable from an earlier lowering of the same code.
    pub(super) fn kept(&self, id: DeclId) -> Option<Place> {
        self.kept_places.get(&(self.path.clone(), id)).cloned()
    }

    /// Records the storage of a variable for later lowerings of the same code.
    pub(super) fn keep(&mut self, id: DeclId, place: &Place) {
        self.kept_places.insert((self.path.clone(), id), place.clone());
    }

    pub(super) fn in_table_action(&self) -> bool {
        self.place == Where::TableAction
    }
}

/// Constant number; `None` for values computed at run time.
pub(super) fn constant(value: &Val) -> Option<BigInt> {
    match value {
        Val::Ex(Ex::Int(value)) => Some(value.clone()),
        _ => None,
    }
}
