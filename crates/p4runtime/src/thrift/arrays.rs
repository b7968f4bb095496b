//! Counters, meters, registers, value sets and hash parameters.

use super::call::{Answer, Call, Failure, bytes, code_of, double, fields, flag, int, long};
use super::value::{Struct, Value, types};
use belljar_p4::CrcParameters;
use belljar_p4::control::{ControlError, CounterData, ErrorKind, MeterRates};

/// First two codes shared by `CounterOperationErrorCode`, `MeterOperationErrorCode` and
/// `RegisterOperationErrorCode`; `ParseVSetOperationErrorCode` shares the first.
const INVALID_NAME: i32 = 1;
const INVALID_INDEX: i32 = 2;
/// `MeterOperationErrorCode`.
const BAD_RATES_LIST: i32 = 3;
const INVALID_RATE: i32 = 4;
const INVALID_BURST_SIZE: i32 = 5;
/// Codes named `ERROR` of counters and registers, of meters, and of value sets.
const ERROR: i32 = 3;
const METER_ERROR: i32 = 6;
const VALUE_SET_ERROR: i32 = 2;
/// `CrcErrorCode` and `ToeplitzHashErrorCode`.
const WRONG_CALCULATION: i32 = 2;
const INVALID_KEY: i32 = 3;

/// Executes a method on arrays; `None` for other methods.
pub fn call(call: &mut Call<'_>) -> Option<Answer> {
    Some(match call.method {
        "bm_counter_read" => call.counter().and_then(|(counter, index)| {
            Ok(Some(counter_value(found(call.switch.counter(counter, index))?)))
        }),
        "bm_counter_write" => call.counter().and_then(|(counter, index)| {
            let data = counter_data(call.fields(4)?)?;
            found(call.switch.set_counter(counter, index, data)).map(|()| None)
        }),
        "bm_counter_reset_all" => named(call.program().counter(call.text(2).unwrap_or_default()))
            .and_then(|counter| found(call.switch.reset_counters(counter)).map(|()| None)),
        "bm_meter_get_rates" => call.meter().and_then(|meter| {
            let index = call.index(3, INVALID_INDEX)?;
            Ok(Some(rates_value(found(call.switch.meter(meter, index.into()))?)))
        }),
        "bm_meter_set_rates" => call.meter().and_then(|meter| {
            let (index, rates) = (call.index(3, INVALID_INDEX)?, meter_rates(call.list(4)?)?);
            meter_set(call.switch.set_meter(meter, index.into(), Some(rates)))
        }),
        "bm_meter_array_set_rates" => call.meter().and_then(|meter| {
            let rates = meter_rates(call.list(3)?)?;
            for index in 0..call.program().meter_size(meter) {
                meter_set(call.switch.set_meter(meter, index, Some(rates)))?;
            }
            Ok(None)
        }),
        name if name.starts_with("bm_register_") => call.register(),
        name if name.starts_with("bm_parse_vset_") => call.value_set(),
        "bm_set_crc16_custom_parameters" => call.crc(16),
        "bm_set_crc32_custom_parameters" => call.crc(32),
        "bm_set_toeplitz_hash_key" => call.calculation().and_then(|calculation| {
            let key = bytes(call.arguments, 3)?;
            code_of(call.switch.set_toeplitz_key(calculation, key), &[], INVALID_KEY).map(|()| None)
        }),
        _ => return None,
    })
}

fn named(result: Result<u32, ControlError>) -> Result<u32, Failure> {
    code_of(result, &[], INVALID_NAME)
}
fn found<T>(result: Result<T, ControlError>) -> Result<T, Failure> {
    let codes = [(ErrorKind::NotFound, INVALID_INDEX), (ErrorKind::OutOfRange, INVALID_INDEX)];
    code_of(result, &codes, ERROR)
}
fn meter_set(result: Result<(), ControlError>) -> Answer {
    let codes = [(ErrorKind::NotFound, INVALID_INDEX), (ErrorKind::OutOfRange, INVALID_INDEX)];
    code_of(result, &codes, METER_ERROR).map(|()| None)
}

/// Encodes a `BmCounterValue`.
pub fn counter_value(data: CounterData) -> Value {
    Value::of([(1, Value::I64(data.bytes as i64)), (2, Value::I64(data.packets as i64))])
}
/// Decodes a `BmCounterValue`.
pub fn counter_data(value: &Struct) -> Result<CounterData, Failure> {
    let (bytes, packets) = (long(value, 1)?, long(value, 2)?);
    Ok(CounterData { packets: packets as u64, bytes: bytes as u64 })
}
/// Encodes a list of `BmMeterRateConfig`: committed and peak rate, each with its burst; empty without rates.
pub fn rates_value(rates: Option<MeterRates>) -> Value {
    let pairs = rates.map(|rates| [(rates.committed, rates.committed_burst), (rates.peak, rates.peak_burst)]);
    let value = |(rate, burst): (u64, u64)| {
        Value::of([(1, Value::Double(rate as f64 / 1e6)), (2, Value::I32(burst.min(i32::MAX as u64) as i32))])
    };
    Value::list(types::STRUCT, pairs.into_iter().flatten().map(value))
}
/// Decodes a list of `BmMeterRateConfig`.
pub fn meter_rates(list: &[Value]) -> Result<MeterRates, Failure> {
    let one = |value: &Value| {
        let Value::Struct(rate) = value else { return Err(Failure::Code(BAD_RATES_LIST)) };
        let per_second = double(rate, 1)? * 1e6;
        let burst = u64::try_from(int(rate, 2)?).map_err(|_| Failure::Code(INVALID_BURST_SIZE))?;
        match (0.0..=1e18).contains(&per_second) {
            true => Ok((per_second.round() as u64, burst)),
            false => Err(Failure::Code(INVALID_RATE)),
        }
    };
    let [first, second] = list else { return Err(Failure::Code(BAD_RATES_LIST)) };
    let ((committed, committed_burst), (peak, peak_burst)) = (one(first)?, one(second)?);
    if peak < committed {
        return Err(Failure::Code(INVALID_RATE));
    }
    Ok(MeterRates { committed, committed_burst, peak, peak_burst })
}

impl Call<'_> {
    fn counter(&self) -> Result<(u32, u64), Failure> {
        let counter = named(self.program().counter(self.text(2)?))?;
        Ok((counter, self.index(3, INVALID_INDEX)?.into()))
    }
    fn meter(&self) -> Result<u32, Failure> {
        named(self.program().meter(self.text(2)?))
    }

    fn register(&mut self) -> Answer {
        let register = named(self.program().register(self.text(2)?))?;
        let (size, width) = self.program().register_size(register);
        // A register wider than 64 bits is truncated to its lowest 64.
        let low = |value: Vec<u8>| {
            let value = value.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            Value::I64(value as i64)
        };
        // Negative numbers are stored as two's complement of the register's width.
        let written = |value: i64| {
            let bits = if width < 64 { value as u64 & ((1 << width) - 1) } else { value as u64 };
            bits.to_be_bytes()
        };
        match self.method {
            "bm_register_read" => {
                let index = self.index(3, INVALID_INDEX)?;
                Ok(Some(low(found(self.switch.register(register, index.into()))?)))
            }
            "bm_register_read_all" => {
                let all = (0..size).map(|index| Ok(low(found(self.switch.register(register, index))?)));
                Ok(Some(Value::list(types::I64, all.collect::<Result<Vec<_>, Failure>>()?)))
            }
            "bm_register_write" => {
                let (index, value) = (self.index(3, INVALID_INDEX)?, self.long(4)?);
                found(self.switch.set_register(register, index.into(), &written(value))).map(|()| None)
            }
            "bm_register_write_range" => {
                let (first, end) = (self.index(3, INVALID_INDEX)?, self.index(4, INVALID_INDEX)?);
                let value = written(self.long(5)?);
                if first > end || u64::from(end) > size {
                    return Err(Failure::Code(INVALID_INDEX));
                }
                for index in first..end {
                    found(self.switch.set_register(register, index.into(), &value))?;
                }
                Ok(None)
            }
            "bm_register_reset" => found(self.switch.reset_registers(register)).map(|()| None),
            _ => Err(super::unknown(self.method)),
        }
    }

    fn value_set(&mut self) -> Answer {
        let set = named(self.program().value_set(self.text(2)?))?;
        let refuse = |result: Result<(), ControlError>| code_of(result, &[], VALUE_SET_ERROR).map(|()| None);
        match self.method {
            "bm_parse_vset_add" => refuse(self.switch.add_value(set, bytes(self.arguments, 3)?)),
            "bm_parse_vset_remove" => refuse(self.switch.remove_value(set, bytes(self.arguments, 3)?)),
            "bm_parse_vset_clear" => refuse(self.switch.clear_value_set(set)),
            "bm_parse_vset_get" => {
                let values = code_of(self.switch.value_set(set), &[], VALUE_SET_ERROR)?;
                Ok(Some(Value::list(types::STRING, values.into_iter().map(Value::Bytes))))
            }
            _ => Err(super::unknown(self.method)),
        }
    }

    fn calculation(&self) -> Result<u32, Failure> {
        named(self.program().calculation(self.text(2)?))
    }
    fn crc(&mut self, width: u32) -> Answer {
        let calculation = self.calculation()?;
        let config = fields(self.arguments, 3)?;
        let mask = (1u64 << width) - 1;
        let word = |number| int(config, number).map(|value| value as u64 & mask);
        let parameters = CrcParameters {
            width,
            polynomial: word(1)?,
            initial: word(2)?,
            xor_out: word(3)?,
            reflect_in: flag(config, 4)?,
            reflect_out: flag(config, 5)?,
        };
        code_of(self.switch.set_crc(calculation, parameters), &[], WRONG_CALCULATION).map(|()| None)
    }
}
