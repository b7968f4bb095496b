//! Elimination of writes to architecture fields that the program never reads.
//!
//! v1model defines many timestamps, queue depths and ports, of which a program uses few. The others are
//! unobservable: they are part of no emitted header, and traces, digests and clones contain only fields that
//! the program names.

use crate::program::code::{Href, Instruction, Int};
use crate::program::{Field, Input, Program, Source};
use std::ops::Range;

/// Bit ranges of the packet state that the program reads.
#[derive(Default)]
struct Read(Vec<Range<u32>>);

impl Read {
    fn field(&mut self, field: &Field) {
        self.0.push(field.offset..field.offset + field.width);
    }
    fn source(&mut self, source: &Source) {
        if let Source::Field(field) = source {
            self.field(field);
        }
    }
    fn header(&mut self, program: &Program, header: u32) {
        let place = &program.headers[header as usize];
        self.0.push(place.at * 8..(place.at + program.types[place.kind as usize].bytes) * 8);
    }
    fn inputs(&mut self, program: &Program, inputs: &[Input]) {
        for input in inputs {
            match input {
                Input::Field(field) => self.field(field),
                Input::Header(header) | Input::Variable(header) => self.header(program, *header),
                Input::Constant { .. } => {}
            }
        }
    }
    fn has(&self, field: &Field) -> bool {
        self.0.iter().any(|range| range.start < field.offset + field.width && field.offset < range.end)
    }
}

fn read(program: &Program) -> Read {
    let mut read = Read::default();
    for int in &program.ints {
        if let Int::Field(field) = int {
            read.field(field);
        }
    }
    for instruction in &program.code {
        if let Instruction::CopyField { from, .. } = instruction {
            read.field(from);
        }
    }
    // Headers that are copied, compared as a whole, emitted, or resolved at run time.
    let named = program.hrefs.iter().filter_map(|href| match href {
        Href::Static(header) => Some(*header),
        _ => None,
    });
    let members = program.stacks.iter().flat_map(|stack| &stack.headers);
    let members = members.chain(program.unions.iter().flat_map(|union| &union.headers)).copied();
    for header in named.chain(members).chain(program.emit.iter().copied()) {
        read.header(program, header);
    }
    for table in &program.tables {
        table.key.iter().for_each(|key| read.source(&key.source));
    }
    for calculation in &program.calculations {
        read.inputs(program, &calculation.input);
    }
    for selector in program.profiles.iter().filter_map(|profile| profile.selector.as_ref()) {
        read.inputs(program, &selector.input);
    }
    for checksum in program.verify.iter().chain(&program.update) {
        read.field(&checksum.target);
    }
    program.field_lists.iter().flat_map(|list| &list.fields).for_each(|field| read.field(field));
    program.learn_lists.iter().flat_map(|list| &list.elements).for_each(|source| read.source(source));
    read
}

/// Removes fields that the program never reads from its [`Standard`](crate::program::Standard) fields. Fields
/// that the switch itself reads are kept.
pub(super) fn forget_unread(program: &mut Program) {
    let read = read(program);
    let standard = &mut program.standard;
    for field in [
        &mut standard.ingress_port,
        &mut standard.egress_port,
        &mut standard.instance_type,
        &mut standard.packet_length,
        &mut standard.parser_error,
        &mut standard.checksum_error,
        &mut standard.ingress_timestamp,
        &mut standard.egress_timestamp,
        &mut standard.egress_rid,
        &mut standard.enq_timestamp,
        &mut standard.enq_qdepth,
        &mut standard.deq_timedelta,
        &mut standard.deq_qdepth,
        &mut standard.qid,
    ] {
        *field = field.filter(|field| read.has(field));
    }
}
