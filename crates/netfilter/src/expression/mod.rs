//! The kinds of expressions, by name.

mod arithmetic;
mod exthdr;
mod fib;
mod generators;
mod log;
mod lookup;
mod meta;
mod payload;
mod reject;
pub(crate) mod tracked;
pub(crate) mod translation;

use crate::attributes::{Attribute, Attributes, NetfilterError};
use crate::compat;
use crate::operation::{Operation, Scope};
use crate::stateful::{Counter, Last, Limit, Quota};
use belljar_linux_abi::Errno;
pub(crate) use exthdr::{tcp_option, write_covered};
pub(crate) use meta::packet_type;
use std::sync::Arc;

/// `NFTA_EXPR_*`.
const NAME: u16 = 1;
const DATA: u16 = 2;

/// Reads an expression. A kind that is not known is refused as by a kernel without its module.
pub(crate) fn read(
    expression: Attributes<'_>,
    scope: &mut dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    let name = expression.need(NAME)?.text()?;
    let empty = Attribute { value: &[], at: 0 };
    let attributes = expression.get(DATA).unwrap_or(empty).nested();
    Ok(match name {
        "immediate" => Arc::new(arithmetic::Immediate::read(attributes, scope)?),
        "cmp" => Arc::new(arithmetic::Compare::read(attributes)?),
        "range" => Arc::new(arithmetic::Range::read(attributes)?),
        "bitwise" => Arc::new(arithmetic::Bitwise::read(attributes)?),
        "byteorder" => Arc::new(arithmetic::ByteOrder::read(attributes)?),
        "payload" => payload::read(attributes, scope)?,
        "meta" => meta::read(attributes, scope)?,
        "lookup" => Arc::new(lookup::Lookup::read(attributes, scope)?),
        "objref" => lookup::read_objref(attributes, scope)?,
        "dynset" => Arc::new(lookup::DynamicSet::read(attributes, scope)?),
        "match" => compat::read(attributes, false, scope)?,
        "target" => compat::read(attributes, true, scope)?,
        "ct" => tracked::read(attributes, scope)?,
        "notrack" => Arc::new(tracked::NoTrack),
        "nat" => Arc::new(translation::Translate::read(attributes, scope)?),
        "masq" => Arc::new(translation::Masquerade::read(attributes)?),
        "redir" => Arc::new(translation::Redirect::read(attributes)?),
        "counter" | "limit" | "quota" | "last" | "connlimit" => read_stateful(expression, scope)?,
        "log" => Arc::new(log::Log::read(attributes, scope)?),
        "reject" => Arc::new(reject::Reject::read(attributes, scope)?),
        "numgen" => Arc::new(generators::NumberGenerator::read(attributes)?),
        "hash" => Arc::new(generators::Hash::read(attributes, scope)?),
        "fib" => Arc::new(fib::Fib::read(attributes)?),
        "rt" => Arc::new(fib::Route::read(attributes, scope)?),
        "exthdr" => exthdr::read(attributes, scope)?,
        _ => {
            scope.refuse(format!("expression {name} in rules"));
            return Err(Errno::ENOENT.into());
        }
    })
}

/// Reads a stateful expression, which may be in elements of sets.
pub(crate) fn read_stateful(
    expression: Attributes<'_>,
    scope: &mut dyn Scope,
) -> Result<Arc<dyn Operation>, NetfilterError> {
    let name = expression.need(NAME)?.text()?;
    let empty = Attribute { value: &[], at: 0 };
    let attributes = expression.get(DATA).unwrap_or(empty).nested();
    Ok(match name {
        "counter" => Arc::new(Counter::read(attributes)?),
        "limit" => Arc::new(Limit::read(attributes, scope.now())?),
        "quota" => Arc::new(Quota::read(attributes)?),
        "last" => Arc::new(Last::read(attributes, scope.now())?),
        "connlimit" => Arc::new(tracked::ConnectionLimit::read(attributes)?),
        _ => {
            scope.refuse(format!("expression {name} in elements of sets"));
            return Err(Errno::EOPNOTSUPP.into());
        }
    })
}
