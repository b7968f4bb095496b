//! Multicast (the service `simple_pre_lag`), clone sessions and queues (the service `simple_switch`).

use super::call::{Answer, Call, Failure, code_of};
use super::value::Value;
use belljar_p4::control::{ControlError, ErrorKind};
use belljar_p4::switch::{CloneSession, Replica};
use std::fmt::Write;

/// `McOperationErrorCode`.
const INVALID_MGID: i32 = 2;
const INVALID_MGRP_HANDLE: i32 = 3;
const INVALID_L1_HANDLE: i32 = 4;
const MC_ERROR: i32 = 5;
/// `MirroringOperationErrorCode`.
const SESSION_NOT_FOUND: i32 = 1;
/// Maximum number of ports in a port map.
const MAX_PORTS: usize = 512;

/// Executes a method of the service `simple_pre_lag`; `None` for other methods.
pub fn multicast(call: &mut Call<'_>) -> Option<Answer> {
    Some(match call.method {
        "bm_mc_mgrp_create" => call.multicast_group(INVALID_MGID).and_then(|group| {
            code_of(call.switch.create_multicast_group(group), &[], INVALID_MGID)?;
            Ok(Some(Value::I32(group.into())))
        }),
        "bm_mc_mgrp_destroy" => call.multicast_group(INVALID_MGRP_HANDLE).and_then(|group| {
            code_of(call.switch.delete_multicast_group(group), &[], INVALID_MGRP_HANDLE).map(|()| None)
        }),
        "bm_mc_node_create" => call.maps().and_then(|(ports, lags)| {
            let rid = u16::try_from(call.int(2)?).map_err(|_| Failure::Code(MC_ERROR))?;
            Ok(Some(Value::I32(call.switch.create_multicast_node(rid, &ports, &lags) as i32)))
        }),
        "bm_mc_node_update" => call.maps().and_then(|(ports, lags)| {
            let node = call.index(2, INVALID_L1_HANDLE)?;
            node_result(call.switch.update_multicast_node(node, &ports, &lags))
        }),
        "bm_mc_node_destroy" => call
            .index(2, INVALID_L1_HANDLE)
            .and_then(|node| node_result(call.switch.delete_multicast_node(node))),
        "bm_mc_node_associate" | "bm_mc_node_dissociate" => {
            call.multicast_group(INVALID_MGRP_HANDLE).and_then(|group| {
                let node = call.index(3, INVALID_L1_HANDLE)?;
                if !call.switch.multicast_groups().contains(&group) {
                    return Err(Failure::Code(INVALID_MGRP_HANDLE));
                }
                node_result(match call.method {
                    "bm_mc_node_associate" => call.switch.associate_multicast_node(group, node),
                    _ => call.switch.dissociate_multicast_node(group, node),
                })
            })
        }
        "bm_mc_set_lag_membership" => call.ports(3).and_then(|ports| {
            let lag = u16::try_from(call.int(2)?).map_err(|_| Failure::Code(MC_ERROR))?;
            call.switch.set_lag(lag, &ports);
            Ok(None)
        }),
        "bm_mc_get_entries" => Ok(Some(Value::text(call.multicast_entries()))),
        _ => return None,
    })
}

/// Executes a method of the service `simple_switch`; `None` for other methods.
pub fn simple_switch(call: &mut Call<'_>) -> Option<Answer> {
    Some(match call.method {
        "mirroring_session_add" => call.session().and_then(|session| {
            let config = call.fields(2)?;
            let optional = |number| config.get(number).map(|_| super::call::int(config, number)).transpose();
            let narrow = |value: i32| u16::try_from(value).map_err(|_| Failure::Code(SESSION_NOT_FOUND));
            let port = optional(1)?.map(narrow).transpose()?;
            let destination = CloneSession {
                replicas: port.map(|port| Replica { port, instance: 0 }).into_iter().collect(),
                group: optional(2)?.map(narrow).transpose()?,
                length: None,
            };
            let set = call.switch.set_clone_session(session, destination);
            code_of(set, &[], SESSION_NOT_FOUND).map(|()| None)
        }),
        "mirroring_session_delete" => call.session().and_then(|session| {
            code_of(call.switch.delete_clone_session(session), &[], SESSION_NOT_FOUND).map(|()| None)
        }),
        "mirroring_session_get" => call.session().and_then(|session| {
            let session = call.switch.clone_session(session).ok_or(Failure::Code(SESSION_NOT_FOUND))?;
            let port = session.replicas.first().map(|replica| (1, Value::I32(replica.port.into())));
            let group = session.group.map(|group| (2, Value::I32(group.into())));
            Ok(Some(Value::of(port.into_iter().chain(group))))
        }),
        // Older methods return a status number instead of an exception.
        "mirroring_mapping_add" => call.session().and_then(|session| {
            let port = u16::try_from(call.int(2)?).map_err(|_| Failure::Code(SESSION_NOT_FOUND))?;
            let destination =
                CloneSession { replicas: vec![Replica { port, instance: 0 }], ..CloneSession::default() };
            Ok(Some(status(call.switch.set_clone_session(session, destination))))
        }),
        "mirroring_mapping_delete" => {
            call.session().map(|session| Some(status(call.switch.delete_clone_session(session))))
        }
        "mirroring_mapping_get_egress_port" => call.session().map(|session| {
            let port = call.switch.clone_session(session).and_then(|session| session.replicas.first());
            Some(Value::I32(port.map_or(-1, |replica| replica.port.into())))
        }),
        name if name.starts_with("set_") => call.queues(),
        "get_time_elapsed_us" => Ok(Some(Value::I64((call.now.as_nanos() / 1_000) as i64))),
        "get_time_since_epoch_us" => Ok(Some(Value::I64((call.epoch_ns / 1_000) as i64))),
        _ => return None,
    })
}

fn node_result(result: Result<(), ControlError>) -> Answer {
    code_of(result, &[(ErrorKind::NotFound, INVALID_L1_HANDLE)], MC_ERROR).map(|()| None)
}

/// Status number: 0 for success.
fn status(result: Result<(), ControlError>) -> Value {
    Value::I32(result.is_err().into())
}

/// Bit numbers set in a port map, whose text has the highest bit first.
fn numbers_of(map: &str) -> Option<Vec<u16>> {
    let valid = map.len() <= MAX_PORTS && map.bytes().all(|bit| matches!(bit, b'0' | b'1'));
    let ones = map.bytes().rev().zip(0..).filter(|(bit, _)| *bit == b'1');
    valid.then(|| ones.map(|(_, number)| number).collect())
}

impl Call<'_> {
    fn multicast_group(&self, code: i32) -> Result<u16, Failure> {
        u16::try_from(self.int(2)?).map_err(|_| Failure::Code(code))
    }
    fn session(&self) -> Result<u16, Failure> {
        let session = super::call::int(self.arguments, 1)?;
        u16::try_from(session).map_err(|_| Failure::Code(SESSION_NOT_FOUND))
    }
    fn ports(&self, number: i16) -> Result<Vec<u16>, Failure> {
        numbers_of(self.text(number)?).ok_or(Failure::Code(MC_ERROR))
    }
    fn maps(&self) -> Result<(Vec<u16>, Vec<u16>), Failure> {
        Ok((self.ports(3)?, self.ports(4)?))
    }

    /// Sets queue limits: of one queue of a port, of all queues of a port, or of all ports.
    fn queues(&mut self) -> Answer {
        let (port, queue, value) = match self.method {
            "set_egress_priority_queue_depth" => (1, 2, self.int(3)?.into()),
            "set_egress_queue_depth" => (1, 0, self.int(2)?.into()),
            "set_all_egress_queue_depths" => (0, 0, self.int(1)?.into()),
            "set_egress_priority_queue_rate" => (1, 2, self.long(3)?),
            "set_egress_queue_rate" => (1, 0, self.long(2)?),
            "set_all_egress_queue_rates" => (0, 0, self.long(1)?),
            _ => return Err(super::unknown(self.method)),
        };
        let number = |at: i16| (at > 0).then(|| self.int(at)).transpose();
        let (port, queue) = (number(port)?, number(queue)?);
        let narrow = (
            port.map(u16::try_from).transpose(),
            queue.map(usize::try_from).transpose(),
            u64::try_from(value),
        );
        let (Ok(port), Ok(queue), Ok(value)) = narrow else { return Ok(Some(Value::I32(1))) };
        let is_depth = self.method.contains("depth");
        // As in BMv2, rate 0 removes the limit.
        let changed = self.switch.change_queues(port, queue, |limits| match is_depth {
            true => limits.packets = value.min(u32::MAX.into()) as u32,
            false => limits.packets_per_second = (value > 0).then_some(value),
        });
        Ok(Some(status(changed)))
    }

    /// Groups, nodes and link aggregation groups as JSON with BMv2's names.
    fn multicast_entries(&self) -> String {
        let nodes = self.switch.multicast_nodes();
        let join = |items: Vec<String>| items.join(", ");
        let groups = self.switch.multicast_groups().into_iter().map(|group| {
            let own = nodes.iter().filter(|(_, node)| node.group == Some(group));
            let handles = own.map(|(handle, _)| handle.to_string()).collect();
            format!("{{\"id\": {group}, \"l1_handles\": [{}]}}", join(handles))
        });
        // A node has a single set of ports here, so L1 and L2 handles are equal.
        let first = nodes.iter().map(|(handle, node)| {
            format!("{{\"handle\": {handle}, \"rid\": {}, \"l2_handle\": {handle}}}", node.rid)
        });
        let second = nodes.iter().map(|(handle, node)| {
            format!("{{\"handle\": {handle}, \"ports\": {:?}, \"lags\": {:?}}}", node.ports, node.lags)
        });
        let lags = self.switch.lags();
        let lags = lags.iter().map(|(lag, ports)| format!("{{\"id\": {lag}, \"ports\": {ports:?}}}"));
        let mut out = String::new();
        let _ = write!(
            out,
            "{{\"mgrps\": [{}], \"l1_handles\": [{}], \"l2_handles\": [{}], \"lags\": [{}]}}",
            join(groups.collect()),
            join(first.collect()),
            join(second.collect()),
            join(lags.collect()),
        );
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_begin_with_their_highest_bit() {
        assert_eq!(numbers_of("100110"), Some(vec![1, 2, 5]));
        assert_eq!(numbers_of(""), Some(vec![]));
        assert_eq!(numbers_of("12"), None);
    }
}
