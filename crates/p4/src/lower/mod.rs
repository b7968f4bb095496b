//! Lowering of the JSON's names to the compact form of [`Program`]. Programs are lowered once; lowering
//! detects all errors of the file.

mod actions;
mod arithmetic;
mod checksums;
mod expressions;
mod headers;
mod parser;
mod pipelines;
mod references;
mod state;
mod tables;
mod unread;

pub(crate) use tables::ones;

use crate::program::{Errors, Field, NONE, Program, Standard};
use belljar_base::Map;
use belljar_p4json::LoadError;
use belljar_p4json::{Root, SourceInfo};

/// Maximum size in bytes of one program's headers, and of one of its arrays.
const MAX_BYTES: u64 = 1 << 28;
/// Maximum width of a field in bits.
const MAX_WIDTH: u64 = 1 << 16;

type Result<T> = std::result::Result<T, LoadError>;

impl Program {
    /// Reads and lowers a program from its JSON text.
    pub fn from_text(text: &str) -> Result<Program> {
        let root = Root::from_text(text)?;
        let mut lower = Lower::new(&root);
        lower.headers()?;
        lower.standard_fields()?;
        lower.state()?;
        lower.calculations()?;
        lower.actions()?;
        lower.header_lengths()?;
        lower.parser()?;
        lower.pipelines()?;
        lower.checksums()?;
        lower.deparser()?;
        lower.lists()?;
        unread::forget_unread(&mut lower.program);
        lower.program.json = text.into();
        Ok(lower.program)
    }
}

/// Locals in scope of an expression.
#[derive(Clone, Copy)]
enum Locals {
    None,
    /// Parameters of an action.
    Action(u32),
    /// Fields of a header.
    Header(u32),
}

struct Lower<'a> {
    root: &'a Root,
    program: Program,
    /// Path of the JSON element being lowered, for error messages.
    place: Vec<String>,
    locals: Locals,
    /// True while lowering an expression that the parser evaluates.
    in_parser: bool,
    /// Bytes that lookaheads of the current expression need.
    ahead: u32,
    types: Map<&'a str, u32>,
    headers: Map<&'a str, u32>,
    header_ids: Map<u64, u32>,
    stacks: Map<&'a str, u32>,
    union_types: Map<&'a str, &'a [(String, String)]>,
    unions: Map<&'a str, u32>,
    union_ids: Map<u64, u32>,
    union_stacks: Map<&'a str, u32>,
    registers: Map<&'a str, u32>,
    counters: Map<&'a str, u32>,
    meters: Map<&'a str, u32>,
    calculations: Map<&'a str, u32>,
    vsets: Map<&'a str, u32>,
    actions: Map<u64, u32>,
    table_names: Map<&'a str, u32>,
    /// Bounds of each integer expression: bits of its values, and of the widest subexpression.
    bounds: Vec<Bounds>,
}

#[derive(Clone, Copy)]
struct Bounds {
    bits: u32,
    need: u32,
    negative: bool,
}

impl<'a> Lower<'a> {
    fn new(root: &'a Root) -> Lower<'a> {
        let code = |name: &str, otherwise: u32| {
            let found = root.errors.iter().find(|(error, _)| error == name);
            found.map_or(otherwise, |(_, code)| *code as u32)
        };
        let errors = Errors {
            none: code("NoError", 0),
            packet_too_short: code("PacketTooShort", 1),
            stack_out_of_bounds: code("StackOutOfBounds", 3),
            header_too_short: code("HeaderTooShort", 4),
            timeout: code("ParserTimeout", 5),
            invalid_argument: code("ParserInvalidArgument", 6),
            names: root.errors.iter().map(|(name, code)| (*code as u32, name.clone())).collect(),
        };
        let program = Program {
            json: "".into(),
            name: root.program.clone().unwrap_or_default(),
            types: Vec::new(),
            headers: Vec::new(),
            stacks: Vec::new(),
            unions: Vec::new(),
            union_stacks: Vec::new(),
            phv_bytes: 0,
            metadata: Vec::new(),
            ints: Vec::new(),
            bools: Vec::new(),
            hrefs: Vec::new(),
            urefs: Vec::new(),
            wide: Vec::new(),
            code: Vec::new(),
            branches: Map::new(),
            logs: Vec::new(),
            actions: Vec::new(),
            states: Vec::new(),
            first_state: NONE,
            vsets: Vec::new(),
            errors,
            calculations: Vec::new(),
            verify: Vec::new(),
            update: Vec::new(),
            emit: Vec::new(),
            deparser: 0..0,
            nodes: Vec::new(),
            ingress: NONE,
            egress: NONE,
            tables: Vec::new(),
            profiles: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            registers: Vec::new(),
            field_lists: Vec::new(),
            learn_lists: Vec::new(),
            standard: Standard::default(),
        };
        Lower {
            root,
            program,
            place: Vec::new(),
            locals: Locals::None,
            in_parser: false,
            ahead: 0,
            types: Map::new(),
            headers: Map::new(),
            header_ids: Map::new(),
            stacks: Map::new(),
            union_types: Map::new(),
            unions: Map::new(),
            union_ids: Map::new(),
            union_stacks: Map::new(),
            registers: Map::new(),
            counters: Map::new(),
            meters: Map::new(),
            calculations: Map::new(),
            vsets: Map::new(),
            actions: Map::new(),
            table_names: Map::new(),
            bounds: Vec::new(),
        }
    }

    fn error(&self, problem: impl Into<String>) -> LoadError {
        self.error_with(problem, "write the file again with the compiler")
    }
    fn error_with(&self, problem: impl Into<String>, remedy: impl Into<String>) -> LoadError {
        LoadError::new(self.place.join("."), problem, remedy)
    }
    /// Runs `work` with `place` appended to the path for error messages.
    fn within<T>(
        &mut self,
        place: impl Into<String>,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        self.place.push(place.into());
        let result = work(self)?;
        self.place.pop();
        Ok(result)
    }
    /// Index of a name; an error if the name is unknown.
    fn find<T: Copy>(&self, what: &str, names: &Map<&'a str, T>, name: &str) -> Result<T> {
        names.get(name).copied().ok_or_else(|| {
            let near = belljar_p4json::nearest(name, names.keys().copied());
            let remedy = near.map_or_else(
                || format!("declare the {what}"),
                |near| format!("declare it, or write '{near}' if that is meant"),
            );
            self.error_with(format!("no {what} is named '{name}'"), remedy)
        })
    }

    fn standard_fields(&mut self) -> Result<()> {
        let root = self.root;
        let mut aliases: Map<&str, (&str, &str)> = Map::new();
        for (alias, (header, field)) in &root.field_aliases {
            aliases.insert(alias, (header, field));
        }
        let find = |name: &str, metadata: &str| -> Option<Field> {
            let full = format!("{metadata}.{name}");
            let (header, field) = aliases.get(full.as_str()).copied().unwrap_or((metadata, name));
            let header = self.headers.get(header).copied()?;
            self.fixed_field(header, field).filter(|field| field.width <= 64)
        };
        let standard = Standard {
            ingress_port: find("ingress_port", "standard_metadata"),
            egress_spec: find("egress_spec", "standard_metadata"),
            egress_port: find("egress_port", "standard_metadata"),
            instance_type: find("instance_type", "standard_metadata"),
            packet_length: find("packet_length", "standard_metadata"),
            parser_error: find("parser_error", "standard_metadata"),
            checksum_error: find("checksum_error", "standard_metadata"),
            ingress_timestamp: find("ingress_global_timestamp", "intrinsic_metadata"),
            egress_timestamp: find("egress_global_timestamp", "intrinsic_metadata"),
            mcast_grp: find("mcast_grp", "intrinsic_metadata"),
            egress_rid: find("egress_rid", "intrinsic_metadata"),
            priority: find("priority", "intrinsic_metadata"),
            enq_timestamp: find("enq_timestamp", "queueing_metadata"),
            enq_qdepth: find("enq_qdepth", "queueing_metadata"),
            deq_timedelta: find("deq_timedelta", "queueing_metadata"),
            deq_qdepth: find("deq_qdepth", "queueing_metadata"),
            qid: find("qid", "queueing_metadata"),
        };
        for (field, name) in [(standard.egress_spec, "egress_spec"), (standard.ingress_port, "ingress_port")]
        {
            if field.is_none() {
                let problem = format!("the program has no field standard_metadata.{name}");
                let remedy = "only v1model programs run here: compile with --target bmv2 --arch v1model";
                return Err(LoadError::new("headers", problem, remedy));
            }
        }
        self.program.standard = standard;
        Ok(())
    }
}

/// `name[n] (title)`.
fn item(list: &str, n: usize, title: &str) -> String {
    if title.is_empty() { format!("{list}[{n}]") } else { format!("{list}[{n}] ({title})") }
}

fn line_of(info: Option<&SourceInfo>) -> Option<SourceInfo> {
    info.filter(|info| info.line > 0).cloned()
}
