//! Tables: entries, default actions, direct counters and meters.

use super::arrays::{counter_value, meter_rates, rates_value};
use super::call::{Answer, Call, Failure, bytes, code_of, fields, flag, int, table_error as code};
use super::value::{Struct, Value, types};
use crate::bytestring::shortest;
use belljar_base::SimDuration;
use belljar_p4::control::{
    ActionSpec, ControlError, CounterData, Entry, ErrorKind, KeyInfo, KeyMatch, MatchKind, TableInfo,
};

/// `BmMatchParamType`.
const EXACT: i32 = 0;
const LPM: i32 = 1;
const TERNARY: i32 = 2;
const VALID: i32 = 3;
const RANGE: i32 = 4;
/// `BmActionEntryType`.
const NO_ACTION: i32 = 0;
const ACTION_DATA: i32 = 1;
const MEMBER: i32 = 2;
const GROUP: i32 = 3;

/// Executes a method on tables; `None` for other methods.
pub fn call(call: &mut Call<'_>) -> Option<Answer> {
    Some(match call.method {
        "bm_mt_get_num_entries" => call.with_table(|call, table| {
            let count = call.refuse(call.switch.entry_count(table))?;
            Ok(Some(Value::I64(count as i64)))
        }),
        "bm_mt_clear_entries" => call.with_table(|call, table| {
            let cleared = call.switch.clear_table(table);
            call.refuse(cleared)?;
            if flag(call.arguments, 3)? {
                let reset = call.switch.reset_default(table);
                call.refuse_default(reset)?;
            }
            Ok(None)
        }),
        "bm_mt_add_entry" => call.with_table(|call, table| {
            call.is_direct(table, true)?;
            let action = call.action(table, 4, 5)?;
            call.add(table, action, 6)
        }),
        "bm_mt_indirect_add_entry" => call.with_table(|call, table| {
            call.is_direct(table, false)?;
            let action = ActionSpec::Member(call.index(4, code::INVALID_MBR_HANDLE)?);
            call.add(table, action, 5)
        }),
        "bm_mt_indirect_ws_add_entry" => call.with_table(|call, table| {
            call.is_direct(table, false)?;
            let action = ActionSpec::Group(call.index(4, code::INVALID_GRP_HANDLE)?);
            call.add(table, action, 5)
        }),
        "bm_mt_set_default_action" => call.with_table(|call, table| {
            let action = call.action(table, 3, 4)?;
            call.set_default(table, &action)
        }),
        "bm_mt_indirect_set_default_member" => call.with_table(|call, table| {
            let action = ActionSpec::Member(call.index(3, code::INVALID_MBR_HANDLE)?);
            call.set_default(table, &action)
        }),
        "bm_mt_indirect_ws_set_default_group" => call.with_table(|call, table| {
            let action = ActionSpec::Group(call.index(3, code::INVALID_GRP_HANDLE)?);
            call.set_default(table, &action)
        }),
        "bm_mt_reset_default_entry" | "bm_mt_indirect_reset_default_entry" => {
            call.with_table(|call, table| {
                let reset = call.switch.reset_default(table);
                call.refuse_default(reset)?;
                Ok(None)
            })
        }
        "bm_mt_delete_entry" | "bm_mt_indirect_delete_entry" => call.with_entry(|call, table, entry| {
            let deleted = call.switch.delete_entry(table, entry);
            call.refuse(deleted)?;
            Ok(None)
        }),
        "bm_mt_modify_entry" => call.with_entry(|call, table, entry| {
            let action = call.action(table, 4, 5)?;
            call.modify(table, entry, &action)
        }),
        "bm_mt_indirect_modify_entry" => call.with_entry(|call, table, entry| {
            let action = ActionSpec::Member(call.index(4, code::INVALID_MBR_HANDLE)?);
            call.modify(table, entry, &action)
        }),
        "bm_mt_indirect_ws_modify_entry" => call.with_entry(|call, table, entry| {
            let action = ActionSpec::Group(call.index(4, code::INVALID_GRP_HANDLE)?);
            call.modify(table, entry, &action)
        }),
        "bm_mt_set_entry_ttl" | "bm_mt_indirect_set_entry_ttl" => call.with_entry(|call, table, entry| {
            if !call.program().table_info(table).timeouts {
                return Err(Failure::Code(code::AGEING_DISABLED));
            }
            let timeout = SimDuration::from_millis(call.index(4, code::ERROR)?.into());
            let timeout = (!timeout.is_zero()).then_some(timeout);
            let set = call.switch.set_idle_timeout(table, entry, timeout);
            call.refuse(set)?;
            Ok(None)
        }),
        "bm_mt_get_entries" => call.with_table(|call, table| {
            let handles = call.refuse(call.switch.entries(table))?;
            let entries: Result<Vec<Value>, Failure> =
                handles.into_iter().map(|handle| call.entry_value(table, handle)).collect();
            Ok(Some(Value::list(types::STRUCT, entries?)))
        }),
        "bm_mt_get_entry" => call.with_entry(|call, table, entry| Ok(Some(call.entry_value(table, entry)?))),
        "bm_mt_get_entry_from_key" => call.with_table(|call, table| {
            let key = call.key(table, 3)?;
            let action = ActionSpec::Direct { action: 0, arguments: Vec::new() };
            let entry = Entry { key, priority: call.priority(4)?, action, idle_timeout: None };
            let found = call.switch.find_entry(table, &entry);
            let handle =
                code_of(found, &[(ErrorKind::InvalidArgument, code::BAD_MATCH_KEY)], code::BAD_MATCH_KEY)?;
            Ok(Some(call.entry_value(table, handle)?))
        }),
        "bm_mt_get_default_entry" => call.with_table(|call, table| {
            let action = call.refuse(call.switch.default_of(table))?;
            Ok(Some(match action {
                Some(action) => call.action_value(&action),
                None => Value::of([(1, Value::I32(NO_ACTION))]),
            }))
        }),
        "bm_mt_read_counter" => call.with_entry(|call, table, entry| {
            call.has_counters(table)?;
            Ok(Some(counter_value(call.refuse(call.switch.entry_counter(table, entry))?)))
        }),
        "bm_mt_write_counter" => call.with_entry(|call, table, entry| {
            call.has_counters(table)?;
            let data = super::arrays::counter_data(call.fields(4)?)?;
            let set = call.switch.set_entry_counter(table, entry, data);
            call.refuse(set)?;
            Ok(None)
        }),
        "bm_mt_reset_counters" => call.with_table(|call, table| {
            call.has_counters(table)?;
            for entry in call.refuse(call.switch.entries(table))? {
                let set = call.switch.set_entry_counter(table, entry, CounterData::default());
                call.refuse(set)?;
            }
            Ok(None)
        }),
        "bm_mt_set_meter_rates" => call.with_entry(|call, table, entry| {
            call.has_meters(table)?;
            // As BMv2, whose tables have one code for all errors of a meter.
            let rates = meter_rates(call.list(4)?).map_err(|_| Failure::Code(code::ERROR))?;
            let set = call.switch.set_entry_meter(table, entry, Some(rates));
            call.refuse(set)?;
            Ok(None)
        }),
        "bm_mt_get_meter_rates" => call.with_entry(|call, table, entry| {
            call.has_meters(table)?;
            Ok(Some(rates_value(call.refuse(call.switch.entry_meter(table, entry))?)))
        }),
        _ => return None,
    })
}

impl Call<'_> {
    fn with_table(&mut self, then: impl FnOnce(&mut Self, u32) -> Answer) -> Answer {
        let table =
            self.program().table(self.text(2)?).map_err(|_| Failure::Code(code::INVALID_TABLE_NAME))?;
        then(self, table)
    }
    fn with_entry(&mut self, then: impl FnOnce(&mut Self, u32, u32) -> Answer) -> Answer {
        self.with_table(|call, table| {
            let entry = call.index(3, code::INVALID_HANDLE)?;
            then(call, table, entry)
        })
    }
    /// Maps an error about a handle or an entry to a code.
    fn refuse<T>(&self, result: Result<T, ControlError>) -> Result<T, Failure> {
        let codes = [
            (ErrorKind::NotFound, code::INVALID_HANDLE),
            (ErrorKind::AlreadyExists, code::DUPLICATE_ENTRY),
            (ErrorKind::ResourceExhausted, code::TABLE_FULL),
            (ErrorKind::PermissionDenied, code::IMMUTABLE_TABLE_ENTRIES),
            (ErrorKind::InvalidArgument, code::BAD_MATCH_KEY),
        ];
        code_of(result, &codes, code::ERROR)
    }
    fn refuse_default(&self, result: Result<(), ControlError>) -> Result<(), Failure> {
        let codes = [
            (ErrorKind::PermissionDenied, code::DEFAULT_ACTION_IS_CONST),
            (ErrorKind::InvalidArgument, code::BAD_ACTION_DATA),
        ];
        code_of(result, &codes, code::ERROR)
    }
    fn is_direct(&self, table: u32, wanted: bool) -> Result<(), Failure> {
        match self.program().table_info(table).profile.is_none() == wanted {
            true => Ok(()),
            false => Err(Failure::Code(code::WRONG_TABLE_TYPE)),
        }
    }
    fn has_counters(&self, table: u32) -> Result<(), Failure> {
        let has = self.program().table_info(table).counters;
        has.then_some(()).ok_or(Failure::Code(code::COUNTERS_DISABLED))
    }
    fn has_meters(&self, table: u32) -> Result<(), Failure> {
        let has = self.program().table_info(table).meters;
        has.then_some(()).ok_or(Failure::Code(code::METERS_DISABLED))
    }

    /// Action whose name and data are arguments of the call.
    fn action(&self, table: u32, name: i16, data: i16) -> Result<ActionSpec, Failure> {
        let program = self.program();
        let action = program
            .action_of(table, self.text(name)?)
            .map_err(|_| Failure::Code(code::INVALID_ACTION_NAME))?;
        let arguments = self.byte_strings(data)?;
        match program.action_info(action).parameters.len() == arguments.len() {
            true => Ok(ActionSpec::Direct { action, arguments }),
            false => Err(Failure::Code(code::BAD_ACTION_DATA)),
        }
    }
    fn add(&mut self, table: u32, action: ActionSpec, options: i16) -> Answer {
        let entry =
            Entry { key: self.key(table, 3)?, priority: self.priority(options)?, action, idle_timeout: None };
        let added = self.switch.add_entry(table, &entry);
        Ok(Some(Value::I32(self.refuse(added)? as i32)))
    }
    fn modify(&mut self, table: u32, entry: u32, action: &ActionSpec) -> Answer {
        let modified = self.switch.modify_entry(table, entry, action);
        let codes = [
            (ErrorKind::NotFound, code::INVALID_HANDLE),
            (ErrorKind::InvalidArgument, code::BAD_ACTION_DATA),
            (ErrorKind::PermissionDenied, code::IMMUTABLE_TABLE_ENTRIES),
        ];
        code_of(modified, &codes, code::ERROR).map(|()| None)
    }
    fn set_default(&mut self, table: u32, action: &ActionSpec) -> Answer {
        let set = self.switch.set_default(table, action);
        self.refuse_default(set).map(|()| None)
    }

    fn priority(&self, options: i16) -> Result<i32, Failure> {
        let options = self.fields(options)?;
        match options.get(1) {
            Some(_) => int(options, 1),
            None => Ok(0),
        }
    }
    /// Key argument of the call: a list of `BmMatchParam`.
    fn key(&self, table: u32, number: i16) -> Result<Vec<KeyMatch>, Failure> {
        let info = self.program().table_info(table);
        let given = self.list(number)?;
        let bad = Failure::Code(code::BAD_MATCH_KEY);
        if given.len() != info.key.len() {
            return Err(bad);
        }
        let fields = info.key.iter().zip(given);
        fields.map(|(field, given)| key_match(field.kind, given).ok_or(bad.clone())).collect()
    }

    /// Encodes a `BmMtEntry`.
    fn entry_value(&self, table: u32, handle: u32) -> Result<Value, Failure> {
        let info = self.program().table_info(table);
        let entry = self.refuse(self.switch.entry(table, handle))?;
        let key = info.key.iter().zip(&entry.key).map(|(field, value)| match_value(field, value));
        let mut all = vec![
            (1, Value::list(types::STRUCT, key)),
            (2, options_value(&info, &entry)),
            (3, Value::I32(handle as i32)),
            (4, self.action_value(&entry.action)),
        ];
        if info.timeouts {
            let idle = self.refuse(self.switch.idle_for(table, handle))?.as_millis() as i32;
            let timeout = entry.idle_timeout.unwrap_or_default().as_millis() as i32;
            all.push((5, Value::of([(1, Value::I32(timeout)), (2, Value::I32(idle))])));
        }
        Ok(Value::of(all))
    }
    /// Encodes a `BmActionEntry`.
    fn action_value(&self, action: &ActionSpec) -> Value {
        match action {
            ActionSpec::Direct { action, arguments } => {
                let (name, data) = self.action_data(*action, arguments);
                Value::of([(1, Value::I32(ACTION_DATA)), (2, name), (3, data)])
            }
            ActionSpec::Member(id) => Value::of([(1, Value::I32(MEMBER)), (4, Value::I32(*id as i32))]),
            ActionSpec::Group(id) => Value::of([(1, Value::I32(GROUP)), (5, Value::I32(*id as i32))]),
        }
    }
    /// Name of an action and its arguments, without leading zeros as in BMv2.
    pub(super) fn action_data(&self, action: u32, arguments: &[Vec<u8>]) -> (Value, Value) {
        let data = arguments.iter().map(|value| Value::Bytes(shortest(value).to_vec()));
        let data = Value::list(types::STRING, data);
        (Value::text(self.program().action_info(action).name), data)
    }
}

/// Encodes `BmAddEntryOptions`; as in BMv2, the priority is -1 in tables without priorities.
fn options_value(info: &TableInfo, entry: &Entry) -> Value {
    Value::of([(1, Value::I32(if info.priorities { entry.priority } else { -1 }))])
}

/// Value padded to the number of bytes of `width` bits.
fn padded(value: &[u8], width: u32) -> Vec<u8> {
    let length = width.div_ceil(8) as usize;
    let start = value.len().saturating_sub(length);
    let mut out = vec![0; length.saturating_sub(value.len())];
    out.extend(&value[start..]);
    out
}

/// Decodes a `BmMatchParam`.
fn key_match(kind: MatchKind, given: &Value) -> Option<KeyMatch> {
    let Value::Struct(given) = given else { return None };
    let part = |number| fields(given, number).ok();
    let owned = |of: &Struct, number| bytes(of, number).ok().map(<[u8]>::to_vec);
    match (kind, int(given, 1).ok()?) {
        (MatchKind::Exact, EXACT) => Some(KeyMatch::Exact(owned(part(2)?, 1)?)),
        (MatchKind::Valid, VALID) => Some(KeyMatch::Exact(vec![u8::from(flag(part(5)?, 1).ok()?)])),
        (MatchKind::Lpm, LPM) => {
            let prefix = u32::try_from(int(part(3)?, 2).ok()?).ok()?;
            Some(KeyMatch::Lpm { value: owned(part(3)?, 1)?, prefix })
        }
        (MatchKind::Ternary | MatchKind::Optional, TERNARY) => {
            Some(KeyMatch::Ternary { value: owned(part(4)?, 1)?, mask: owned(part(4)?, 2)? })
        }
        (MatchKind::Range, RANGE) => {
            Some(KeyMatch::Range { low: owned(part(6)?, 1)?, high: owned(part(6)?, 2)? })
        }
        _ => None,
    }
}

/// Encodes a `BmMatchParam`.
fn match_value(field: &KeyInfo, value: &KeyMatch) -> Value {
    let full = |value: &[u8]| Value::Bytes(padded(value, field.width));
    let ones = || {
        let mut ones = vec![0xff; field.width.div_ceil(8) as usize];
        if let Some(first) = ones.first_mut() {
            *first >>= (8 - field.width % 8) % 8;
        }
        Value::Bytes(ones)
    };
    let zeros = || full(&[]);
    let (kind, number, parts) = match (field.kind, value) {
        (MatchKind::Valid, KeyMatch::Exact(value)) => {
            (VALID, 5, vec![(1, Value::Bool(value.iter().any(|byte| *byte != 0)))])
        }
        (_, KeyMatch::Exact(value)) => (EXACT, 2, vec![(1, full(value))]),
        (_, KeyMatch::Lpm { value, prefix }) => {
            (LPM, 3, vec![(1, full(value)), (2, Value::I32(*prefix as i32))])
        }
        (_, KeyMatch::Ternary { value, mask }) => (TERNARY, 4, vec![(1, full(value)), (2, full(mask))]),
        (_, KeyMatch::Range { low, high }) => (RANGE, 6, vec![(1, full(low)), (2, full(high))]),
        (MatchKind::Lpm, KeyMatch::Any) => (LPM, 3, vec![(1, zeros()), (2, Value::I32(0))]),
        (MatchKind::Range, KeyMatch::Any) => (RANGE, 6, vec![(1, zeros()), (2, ones())]),
        (_, KeyMatch::Any) => (TERNARY, 4, vec![(1, zeros()), (2, zeros())]),
    };
    Value::of([(1, Value::I32(kind)), (number, Value::of(parts))])
}
