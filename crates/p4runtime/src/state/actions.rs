//! Conversion of actions of entries and members between `Action` and [`Call`].

use crate::bytestring;
use crate::grpc::Code;
use crate::pipeline::Call;
use crate::proto::{Action, Param};
use crate::refusal::Refusal;
use belljar_p4info::proto::Scope;
use belljar_p4info::{Objects, Table};

/// Context in which an action is used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Entry,
    Default,
}

/// Checks that a table allows an action in a context.
pub fn allowed(table: &Table, action: &Action, place: Place) -> Result<(), Refusal> {
    match (table.actions.get(&action.action_id), place) {
        (None, _) => {
            Err(Refusal::invalid(format!("table '{}' has no action {:#010x}", table.name, action.action_id)))
        }
        (Some(Scope::TableOnly), Place::Default) => Err(Refusal::new(
            Code::PermissionDenied,
            format!("the action is for entries of '{}' only", table.name),
        )),
        (Some(Scope::DefaultOnly), Place::Entry) => Err(Refusal::new(
            Code::PermissionDenied,
            format!("the action is for the default entry of '{}' only", table.name),
        )),
        _ => Ok(()),
    }
}

/// Validates an action's arguments; returns the action in canonical form and as a call.
pub fn canonical(objects: &Objects, action: &Action) -> Result<(Action, Call), Refusal> {
    let info = objects.action(action.action_id).map_err(|missing| Refusal::invalid(missing.to_string()))?;
    let at = |refusal: Refusal| Refusal::invalid(refusal.message).at(&format!("action '{}'", info.name));
    if let Some(unknown) =
        action.params.iter().find(|param| info.parameters.iter().all(|known| known.id != param.param_id))
    {
        return Err(at(Refusal::invalid(format!("there is no parameter {}", unknown.param_id))));
    }
    let (mut params, mut arguments) = (Vec::new(), Vec::new());
    for parameter in &info.parameters {
        let mut given = action.params.iter().filter(|param| param.param_id == parameter.id);
        let (Some(param), None) = (given.next(), given.next()) else {
            return Err(at(Refusal::invalid(format!("parameter '{}' must be given once", parameter.name))));
        };
        let value = bytestring::unsigned(&param.value, parameter.width);
        let value = value.map_err(|refusal| at(refusal.at(&format!("parameter '{}'", parameter.name))))?;
        params.push(Param { param_id: parameter.id, value: value.clone() });
        arguments.push(value);
    }
    Ok((Action { action_id: action.action_id, params }, Call { action: info.name.clone(), arguments }))
}

/// Action of a call that was set by the program or by another interface.
pub fn from_call(objects: &Objects, call: &Call) -> Option<Action> {
    let action_id = objects.action_id(&call.action)?;
    let info = objects.actions.get(&action_id)?;
    let params = info.parameters.iter().zip(&call.arguments);
    let params = params.map(|(parameter, value)| Param {
        param_id: parameter.id,
        value: bytestring::shortest(value).to_vec(),
    });
    Some(Action { action_id, params: params.collect() })
}
