//! BMv2's Thrift interface, used by `simple_switch_CLI` and p4-utils, as a state machine over byte streams.
//!
//! The protocol is Thrift's binary protocol on plain streams (`TBufferedTransport`) with the multiplexed
//! services `standard`, `simple_pre_lag` and `simple_switch`. [`value`] contains the protocol messages,
//! [`call`] the arguments and failures of a call; the other modules execute calls, one module per kind of
//! object.
//!
//! [`Server`] gets bytes by [`Connections`], and [`poll`](Server::poll) executes calls on the switch. Not
//! supported: loading and swapping programs (`CONFIG_SWAP_DISABLED`, which BMv2 too answers unless started
//! for it), adding and removing ports, and BMv2's nanomsg notifications (digests, ageing), for which
//! P4Runtime is available. P4Runtime sees entries added here like entries from start-up files.

mod arrays;
mod call;
mod profiles;
mod replication;
mod tables;
pub mod value;

use belljar_base::{SimDuration, SimTime};
use belljar_p4::SwitchDevice;
use belljar_p4::control::ObjectKind as Kind;
use belljar_p4::servers::Connections;
use call::{Answer, Call, Failure, INTERNAL_ERROR, PROTOCOL_ERROR, UNKNOWN_METHOD};
use md5::{Digest, Md5};
use slab::Slab;
use value::{Message, MessageType, ReadError, Struct, Value, types};

/// Maximum number of bytes of pending calls per connection.
const MAX_INPUT: usize = 5 << 20;
/// `SwapOperationErrorCode`.
const CONFIG_SWAP_DISABLED: i32 = 1;
/// `DevMgrErrorCode`.
const PORT_ERROR: i32 = 1;
/// `IdLookupErrorCode`.
const INVALID_RESOURCE_TYPE: i32 = 0;
const INVALID_RESOURCE_NAME: i32 = 1;

fn unknown(method: &str) -> Failure {
    Failure::Application(UNKNOWN_METHOD, format!("there is no method '{method}'"))
}

#[derive(Default)]
struct Peer {
    input: Vec<u8>,
    output: Vec<u8>,
    input_ended: bool,
    /// True after malformed input: nothing more is read.
    broken: bool,
    /// Call being delayed, and its completion time.
    under_way: Option<(SimTime, Message)>,
}

/// Thrift server of one switch.
pub struct Server {
    device_id: u64,
    port: u16,
    write_time: SimDuration,
    peers: Slab<Peer>,
}

impl Server {
    /// Creates the server of the switch with this device id, listening at this TCP port.
    pub fn new(device_id: u64, port: u16) -> Server {
        Server { device_id, port, write_time: SimDuration::ZERO, peers: Slab::new() }
    }
    /// Sets the processing time of a modifying call.
    pub fn set_write_time(&mut self, time: SimDuration) {
        self.write_time = time;
    }
    /// Time at which [`poll`](Self::poll) executes the next delayed call.
    pub fn next_event(&self) -> Option<SimTime> {
        self.peers.iter().filter_map(|(_, peer)| peer.under_way.as_ref().map(|(at, _)| *at)).min()
    }
    /// Executes received calls on the switch at `epoch_ns` after 1970; returns true if anything may have
    /// changed.
    pub fn poll(&mut self, device: &mut SwitchDevice, epoch_ns: u64) -> bool {
        let mut changed = false;
        let connections: Vec<usize> = self.peers.iter().map(|(connection, _)| connection).collect();
        for connection in connections {
            while let Some(message) = self.next_call(connection, device.now()) {
                changed |= !is_reading(&message.name);
                let answer = self.answer(device, epoch_ns, &message);
                if message.kind == MessageType::Call {
                    answer.write(&mut self.peers[connection].output);
                }
            }
        }
        changed
    }

    /// Next call of a connection that is due.
    fn next_call(&mut self, connection: usize, now: SimTime) -> Option<Message> {
        let peer = &mut self.peers[connection];
        if let Some((at, _)) = &peer.under_way {
            return if *at <= now { peer.under_way.take().map(|(_, message)| message) } else { None };
        }
        if peer.broken || peer.input.is_empty() {
            return None;
        }
        match Message::read(&peer.input) {
            Ok((message, length)) => {
                peer.input.drain(..length);
                if self.write_time.is_zero() || is_reading(&message.name) {
                    return Some(message);
                }
                peer.under_way = Some((now + self.write_time, message));
                None
            }
            Err(ReadError::Incomplete) => None,
            Err(ReadError::Malformed) => {
                peer.broken = true;
                None
            }
        }
    }

    fn answer(&self, device: &mut SwitchDevice, epoch_ns: u64, message: &Message) -> Message {
        let (kind, fields) = match self.carry_out(device, epoch_ns, message) {
            Ok(result) => (MessageType::Reply, result.map(|value| (0, value))),
            Err(Failure::Code(code)) => (MessageType::Reply, Some((1, Value::of([(1, Value::I32(code))])))),
            Err(Failure::Application(kind, text)) => {
                let fields = Struct(vec![(1, Value::text(text)), (2, Value::I32(kind))]);
                let name = method_of(&message.name).to_owned();
                return Message { kind: MessageType::Exception, name, sequence: message.sequence, fields };
            }
        };
        let fields = Struct(fields.into_iter().collect());
        Message { kind, name: method_of(&message.name).to_owned(), sequence: message.sequence, fields }
    }

    fn carry_out(&self, device: &mut SwitchDevice, epoch_ns: u64, message: &Message) -> Answer {
        if !matches!(message.kind, MessageType::Call | MessageType::OneWay) {
            return Err(Failure::Application(PROTOCOL_ERROR, "this is no call".to_owned()));
        }
        let Some((service, method)) = message.name.split_once(':') else {
            let text =
                format!("'{}' names no service: calls are multiplexed, as 'standard:...'", message.name);
            return Err(Failure::Application(PROTOCOL_ERROR, text));
        };
        let (now, arguments) = (device.now(), &message.fields);
        if service == "standard"
            && let Some(answer) = self.manage(device, method, arguments)
        {
            return answer;
        }
        let Some(switch) = device.switch() else {
            return Err(Failure::Application(INTERNAL_ERROR, "the switch has no program".to_owned()));
        };
        let mut call = Call { switch, method, arguments, now, epoch_ns };
        let answer = match service {
            "standard" => standard(&mut call),
            "simple_pre_lag" => replication::multicast(&mut call),
            "simple_switch" => replication::simple_switch(&mut call),
            _ => None,
        };
        answer.unwrap_or_else(|| Err(unknown(&message.name)))
    }

    /// Executes a method that concerns the switch as a whole and needs no program; `None` for other methods.
    fn manage(&self, device: &mut SwitchDevice, method: &str, arguments: &Struct) -> Option<Answer> {
        Some(match method {
            "bm_mgmt_get_info" => Ok(Some(Value::of([
                (1, Value::I64(self.device_id as i64)),
                (2, Value::I32(self.port.into())),
            ]))),
            "bm_get_config" => Ok(Some(Value::text(device.json().unwrap_or_default()))),
            "bm_get_config_md5" => {
                Ok(Some(Value::Bytes(Md5::digest(device.json().unwrap_or_default()).to_vec())))
            }
            "bm_load_new_config" | "bm_swap_configs" => Err(Failure::Code(CONFIG_SWAP_DISABLED)),
            "bm_dev_mgr_show_ports" => {
                let ports = device.ports().into_iter().map(|(port, up)| {
                    Value::of([
                        (1, Value::I32(port.into())),
                        (2, Value::text(format!("p{port}"))),
                        (3, Value::Bool(up)),
                        (4, Value::Map(types::STRING, types::STRING, Vec::new())),
                    ])
                });
                Ok(Some(Value::list(types::STRUCT, ports)))
            }
            "bm_dev_mgr_add_port" | "bm_dev_mgr_remove_port" => Err(Failure::Code(PORT_ERROR)),
            "bm_get_id_from_name" => id_from_name(device, arguments),
            _ => return None,
        })
    }
}

impl Connections for Server {
    fn accept(&mut self) -> usize {
        self.peers.insert(Peer::default())
    }
    fn receive(&mut self, connection: usize, bytes: &[u8]) {
        self.peers[connection].input.extend(bytes);
    }
    fn end_input(&mut self, connection: usize) {
        self.peers[connection].input_ended = true;
    }
    fn room(&self, connection: usize) -> usize {
        let peer = &self.peers[connection];
        if peer.broken { 0 } else { MAX_INPUT.saturating_sub(peer.input.len()) }
    }
    fn transmit(&mut self, connection: usize, limit: usize) -> Vec<u8> {
        let output = &mut self.peers[connection].output;
        output.drain(..limit.min(output.len())).collect()
    }
    fn outgoing(&self, connection: usize) -> usize {
        self.peers[connection].output.len()
    }
    fn is_closed(&self, connection: usize) -> bool {
        let peer = &self.peers[connection];
        peer.broken || peer.input_ended && peer.under_way.is_none()
    }
    fn close(&mut self, connection: usize) {
        self.peers.remove(connection);
    }
}

fn standard(call: &mut Call<'_>) -> Option<Answer> {
    match call.method {
        "bm_reset_state" => return Some(reset(call)),
        "bm_serialize_state" => {
            let saved = belljar_p4files::commands::save(call.switch);
            let refused = |problem| Failure::Application(INTERNAL_ERROR, problem);
            return Some(saved.map(|text| Some(Value::text(text))).map_err(refused));
        }
        _ => {}
    }
    tables::call(call).or_else(|| profiles::call(call)).or_else(|| arrays::call(call))
}

/// Resets the switch: removes all configured state except constant entries, and zeroes counters and
/// registers.
fn reset(call: &mut Call<'_>) -> Answer {
    let (program, switch) = (call.program(), &mut *call.switch);
    let all = |kind| 0..program.count(kind);
    // Constant entries cannot be deleted and stay.
    for table in 0..program.table_names().count() as u32 {
        let _ = switch.clear_table(table);
        let _ = switch.reset_default(table);
    }
    for profile in all(Kind::Profile) {
        for group in switch.groups(profile).unwrap_or_default() {
            let _ = switch.delete_group(profile, group.id);
        }
        for member in switch.members(profile).unwrap_or_default() {
            let _ = switch.delete_member(profile, member.id);
        }
    }
    for counter in all(Kind::Counter) {
        let _ = switch.reset_counters(counter);
    }
    for meter in all(Kind::Meter) {
        for index in 0..program.meter_size(meter) {
            let _ = switch.set_meter(meter, index, None);
        }
    }
    for register in all(Kind::Register) {
        let _ = switch.reset_registers(register);
    }
    for set in all(Kind::ValueSet) {
        let _ = switch.clear_value_set(set);
    }
    for group in switch.multicast_groups() {
        let _ = switch.delete_multicast_group(group);
    }
    for (node, _) in switch.multicast_nodes() {
        let _ = switch.delete_multicast_node(node);
    }
    for session in switch.clone_sessions() {
        let _ = switch.delete_clone_session(session);
    }
    Ok(None)
}

/// Index of a table, profile, counter, meter, register or digest by name.
fn id_from_name(device: &mut SwitchDevice, arguments: &Struct) -> Answer {
    let kind = call::int(arguments, 2)?;
    let name = std::str::from_utf8(call::bytes(arguments, 3)?).unwrap_or_default();
    let Some(switch) = device.switch() else { return Err(Failure::Code(INVALID_RESOURCE_NAME)) };
    let program = switch.program();
    let found = match kind {
        0 => program.table(name),
        1 => program.profile(name),
        2 => program.counter(name),
        3 => program.meter(name),
        4 => program.register(name),
        5 => program.digest(name),
        _ => return Err(Failure::Code(INVALID_RESOURCE_TYPE)),
    };
    found.map(|id| Some(Value::I32(id as i32))).map_err(|_| Failure::Code(INVALID_RESOURCE_NAME))
}

/// Method in a message name `service:method`.
fn method_of(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, method)| method)
}

/// True if the method is read-only.
fn is_reading(name: &str) -> bool {
    let method = method_of(name);
    method.ends_with("_get")
        || ["_get_", "get_time_", "_read", "_show_", "_serialize_"].iter().any(|part| method.contains(part))
}
