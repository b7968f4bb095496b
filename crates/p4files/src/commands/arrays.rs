use super::{Call, Result, number, values};
use belljar_p4::CrcParameters;
use belljar_p4::control::{CounterData, MeterRates};

/// Parses the two rates of a meter, `RATE:BURST` each; rates are per microsecond.
fn rates(committed: &str, peak: &str) -> Result<MeterRates> {
    let one = |word: &str| -> Result<(u64, u64)> {
        let (rate, burst) =
            word.split_once(':').ok_or_else(|| format!("'{word}' is not written as RATE:BURST"))?;
        let per_microsecond: f64 = rate.parse().map_err(|_| format!("'{rate}' is not a rate"))?;
        if !(0.0..=1e12).contains(&per_microsecond) {
            return Err(format!("the rate {rate} is not between 0 and 1e12"));
        }
        Ok(((per_microsecond * 1e6).round() as u64, number(burst)?))
    };
    let (committed, committed_burst) = one(committed)?;
    let (peak, peak_burst) = one(peak)?;
    Ok(MeterRates { committed, committed_burst, peak, peak_burst })
}

fn flag(text: &str) -> Result<bool> {
    match text {
        "true" | "True" | "1" => Ok(true),
        "false" | "False" | "0" => Ok(false),
        _ => Err(format!("'{text}' is not true or false")),
    }
}

fn decimal(bytes: &[u8]) -> String {
    num_bigint::BigUint::from_bytes_be(bytes).to_string()
}

impl Call<'_> {
    pub(super) fn array_command(&mut self) -> Result<String> {
        match self.name {
            "counter_read" | "counter_write" | "counter_reset" => self.counter_command(),
            "meter_set_rates" | "meter_array_set_rates" | "meter_get_rates" => self.meter_command(),
            "register_read" | "register_write" | "register_reset" => self.register_command(),
            "pvs_add" | "pvs_remove" | "pvs_clear" | "pvs_get" => self.value_set_command(),
            "set_queue_depth" | "set_queue_rate" => self.queue_command(),
            _ => {
                let words = self.take(6, 6)?;
                let calculation = self.switch.program().calculation(words[0])?;
                let parameters = CrcParameters {
                    width: if self.name.contains("16") { 16 } else { 32 },
                    polynomial: number(words[1])?,
                    initial: number(words[2])?,
                    xor_out: number(words[3])?,
                    reflect_in: flag(words[4])?,
                    reflect_out: flag(words[5])?,
                };
                self.switch.set_crc(calculation, parameters)?;
                Ok(String::new())
            }
        }
    }

    fn counter_command(&mut self) -> Result<String> {
        let words = self.take(1, 4)?;
        let counter = self.switch.program().counter(words[0])?;
        let table = self.switch.program().table_of_counter(counter);
        match self.name {
            "counter_reset" => {
                self.take(1, 1)?;
                self.switch.reset_counters(counter)?;
                Ok(String::new())
            }
            "counter_read" => {
                let index = number(self.take(2, 2)?[1])?;
                let data = match table {
                    Some(table) => self.switch.entry_counter(table, index as u32)?,
                    None => self.switch.counter(counter, index)?,
                };
                Ok(format!("{}[{index}] = {} packets, {} bytes\n", words[0], data.packets, data.bytes))
            }
            _ => {
                let words = self.take(4, 4)?;
                let index: u64 = number(words[1])?;
                let data = CounterData { packets: number(words[2])?, bytes: number(words[3])? };
                match table {
                    Some(table) => self.switch.set_entry_counter(table, index as u32, data)?,
                    None => self.switch.set_counter(counter, index, data)?,
                }
                Ok(String::new())
            }
        }
    }

    fn meter_command(&mut self) -> Result<String> {
        let words = self.take(1, 4)?;
        let meter = self.switch.program().meter(words[0])?;
        let table = self.switch.program().table_of_meter(meter);
        match self.name {
            "meter_array_set_rates" => {
                let words = self.take(3, 3)?;
                let rates = rates(words[1], words[2])?;
                match table {
                    Some(table) => {
                        for entry in self.switch.entries(table)? {
                            self.switch.set_entry_meter(table, entry, Some(rates))?;
                        }
                    }
                    None => {
                        for index in 0..self.switch.program().meter_size(meter) {
                            self.switch.set_meter(meter, index, Some(rates))?;
                        }
                    }
                }
                Ok(String::new())
            }
            "meter_set_rates" => {
                let words = self.take(4, 4)?;
                let (index, rates) = (number::<u64>(words[1])?, rates(words[2], words[3])?);
                match table {
                    Some(table) => self.switch.set_entry_meter(table, index as u32, Some(rates))?,
                    None => self.switch.set_meter(meter, index, Some(rates))?,
                }
                Ok(String::new())
            }
            _ => {
                let index: u64 = number(self.take(2, 2)?[1])?;
                let rates = match table {
                    Some(table) => self.switch.entry_meter(table, index as u32)?,
                    None => self.switch.meter(meter, index)?,
                };
                Ok(match rates {
                    None => format!("{}[{index}] is unset\n", words[0]),
                    Some(rates) => format!(
                        "{}[{index}] = {} per second, burst {}; {} per second, burst {}\n",
                        words[0], rates.committed, rates.committed_burst, rates.peak, rates.peak_burst
                    ),
                })
            }
        }
    }

    fn register_command(&mut self) -> Result<String> {
        let words = self.take(1, 3)?;
        let register = self.switch.program().register(words[0])?;
        match (self.name, words) {
            ("register_reset", [_]) => {
                self.switch.reset_registers(register)?;
                Ok(String::new())
            }
            ("register_read", [name, index]) => {
                let index = number(index)?;
                Ok(format!("{name}[{index}] = {}\n", decimal(&self.switch.register(register, index)?)))
            }
            ("register_read", [name]) => {
                let (size, _) = self.switch.program().register_size(register);
                let values: Vec<String> = (0..size)
                    .map(|index| Ok(decimal(&self.switch.register(register, index)?)))
                    .collect::<Result<_>>()?;
                Ok(format!("{name} = {}\n", values.join(", ")))
            }
            ("register_write", [_, index, value]) => {
                self.switch.set_register(register, number(index)?, &values::parse(value)?)?;
                Ok(String::new())
            }
            _ => self.usage(),
        }
    }

    fn value_set_command(&mut self) -> Result<String> {
        let words = self.take(1, 2)?;
        let set = self.switch.program().value_set(words[0])?;
        match (self.name, words) {
            ("pvs_add", [_, value]) => self.switch.add_value(set, &values::parse(value)?)?,
            ("pvs_remove", [_, value]) => self.switch.remove_value(set, &values::parse(value)?)?,
            ("pvs_clear", [_]) => self.switch.clear_value_set(set)?,
            ("pvs_get", [_]) => {
                return Ok(self.switch.value_set(set)?.iter().map(|value| decimal(value) + "\n").collect());
            }
            _ => return self.usage(),
        }
        Ok(String::new())
    }

    fn queue_command(&mut self) -> Result<String> {
        let words = self.take(1, 3)?;
        let value: u64 = number(words[0])?;
        let port = words.get(1).map(|word| number(word)).transpose()?;
        let queue = words.get(2).map(|word| number(word)).transpose()?;
        if self.name == "set_queue_depth" {
            let packets = u32::try_from(value).map_err(|_| format!("the depth {value} is too large"))?;
            self.switch.change_queues(port, queue, |limits| limits.packets = packets)?;
        } else {
            // As in BMv2, rate 0 removes the limit.
            let rate = (value > 0).then_some(value);
            self.switch.change_queues(port, queue, |limits| limits.packets_per_second = rate)?;
        }
        Ok(String::new())
    }
}
