use super::{ControlError, CounterData, ErrorKind, MeterRates, Result};
use crate::Switch;
use crate::hash::CrcParameters;

fn beyond(what: &str, name: &str, index: u64, size: u64) -> ControlError {
    let message = format!("{what} '{name}' has {size} elements and none with the index {index}");
    ControlError::new(ErrorKind::OutOfRange, message)
}
fn direct(what: &str, name: &str) -> ControlError {
    ControlError::invalid(format!("{what} '{name}' is direct: name an entry of its table"))
}

pub(super) fn check_rates(rates: Option<MeterRates>) -> Result<()> {
    match rates {
        Some(rates) if rates.peak < rates.committed => {
            Err(ControlError::invalid("the peak rate of a meter is below its committed rate"))
        }
        _ => Ok(()),
    }
}

/// Adjusts a big-endian integer to the bytes of `width`; an error if the value does not fit.
pub(crate) fn fit(what: &str, value: &[u8], width: u32) -> Result<Vec<u8>> {
    let start = value.iter().position(|byte| *byte != 0).unwrap_or(value.len());
    let value = &value[start..];
    let bits = value.first().map_or(0, |first| value.len() as u32 * 8 - first.leading_zeros());
    if bits > width {
        return Err(ControlError::invalid(format!("the value has {bits} bits, {what} {width}")));
    }
    let mut out = vec![0; width.div_ceil(8) as usize];
    let at = out.len() - value.len();
    out[at..].copy_from_slice(value);
    Ok(out)
}

impl Switch {
    fn counter_at(&self, counter: u32, index: u64) -> Result<usize> {
        let Some(array) = self.program.counters.get(counter as usize) else {
            return Err(ControlError::not_found(format!("the program has no counter number {counter}")));
        };
        if array.table.is_some() {
            return Err(direct("counter", &array.name));
        }
        if index >= array.size {
            return Err(beyond("counter", &array.name, index, array.size));
        }
        Ok(index as usize)
    }
    /// Returns a counter of an array.
    pub fn counter(&self, counter: u32, index: u64) -> Result<CounterData> {
        let at = self.counter_at(counter, index)?;
        Ok(self.state.counters[counter as usize][at])
    }
    /// Sets a counter of an array.
    pub fn set_counter(&mut self, counter: u32, index: u64, data: CounterData) -> Result<()> {
        let at = self.counter_at(counter, index)?;
        self.state.counters[counter as usize][at] = data;
        Ok(())
    }
    /// Sets all counters of an array, direct ones too, to zero.
    pub fn reset_counters(&mut self, counter: u32) -> Result<()> {
        let Some(array) = self.program.counters.get(counter as usize) else {
            return Err(ControlError::not_found(format!("the program has no counter number {counter}")));
        };
        let counters = match array.table {
            Some(table) => &mut self.state.tables[table as usize].counters,
            None => &mut self.state.counters[counter as usize],
        };
        counters.fill(CounterData::default());
        Ok(())
    }

    fn meter_at(&self, meter: u32, index: u64) -> Result<usize> {
        let Some(array) = self.program.meters.get(meter as usize) else {
            return Err(ControlError::not_found(format!("the program has no meter number {meter}")));
        };
        if array.table.is_some() {
            return Err(direct("meter", &array.name));
        }
        if index >= array.size {
            return Err(beyond("meter", &array.name, index, array.size));
        }
        Ok(index as usize)
    }
    /// Rates of a meter; `None` if unset.
    pub fn meter(&self, meter: u32, index: u64) -> Result<Option<MeterRates>> {
        let at = self.meter_at(meter, index)?;
        Ok(self.state.meters[meter as usize][at].rates)
    }
    /// Sets the rates of a meter; without rates, all packets are green.
    pub fn set_meter(&mut self, meter: u32, index: u64, rates: Option<MeterRates>) -> Result<()> {
        let at = self.meter_at(meter, index)?;
        check_rates(rates)?;
        self.state.meters[meter as usize][at].set(rates, self.now);
        Ok(())
    }

    fn register_at(&self, register: u32, index: u64) -> Result<u32> {
        let Some(array) = self.program.registers.get(register as usize) else {
            return Err(ControlError::not_found(format!("the program has no register number {register}")));
        };
        if index >= array.size {
            return Err(beyond("register", &array.name, index, array.size));
        }
        Ok(array.width)
    }
    /// The value of a register.
    pub fn register(&self, register: u32, index: u64) -> Result<Vec<u8>> {
        self.register_at(register, index)?;
        Ok(self.state.registers[register as usize].read(index).unwrap_or_default())
    }
    /// Sets a register.
    pub fn set_register(&mut self, register: u32, index: u64, value: &[u8]) -> Result<()> {
        let width = self.register_at(register, index)?;
        let value = fit("the register", value, width)?;
        self.state.registers[register as usize].write(index, &value);
        Ok(())
    }
    /// Sets all registers of an array to zero.
    pub fn reset_registers(&mut self, register: u32) -> Result<()> {
        let Some(registers) = self.state.registers.get_mut(register as usize) else {
            return Err(ControlError::not_found(format!("the program has no register number {register}")));
        };
        registers.fill(&[]);
        Ok(())
    }

    /// The values of a parser value set, in order.
    pub fn value_set(&self, set: u32) -> Result<Vec<Vec<u8>>> {
        match self.state.vsets.get(set as usize) {
            Some(values) => Ok(values.iter().cloned().collect()),
            None => Err(ControlError::not_found(format!("the program has no value set number {set}"))),
        }
    }
    /// Adds a value to a value set; a duplicate is ignored. The fields of the value are concatenated without
    /// padding.
    pub fn add_value(&mut self, set: u32, value: &[u8]) -> Result<()> {
        let len = self.value_set(set)?.len() as u64;
        let described = &self.program.vsets[set as usize];
        let value = fit("values of the set", value, described.bits)?;
        let values = &mut self.state.vsets[set as usize];
        if described.max_size.is_some_and(|max| len >= max) && !values.contains(&value) {
            let message = format!("value set '{}' is full with {len} values", described.name);
            return Err(ControlError::new(ErrorKind::ResourceExhausted, message));
        }
        values.insert(value);
        Ok(())
    }
    /// Removes a value from a value set, if present.
    pub fn remove_value(&mut self, set: u32, value: &[u8]) -> Result<()> {
        self.value_set(set)?;
        let value = fit("values of the set", value, self.program.vsets[set as usize].bits)?;
        self.state.vsets[set as usize].remove(&value);
        Ok(())
    }
    /// Removes all values from a value set.
    pub fn clear_value_set(&mut self, set: u32) -> Result<()> {
        self.value_set(set)?;
        self.state.vsets[set as usize].clear();
        Ok(())
    }

    /// Sets the parameters of a custom CRC.
    pub fn set_crc(&mut self, calculation: u32, parameters: CrcParameters) -> Result<()> {
        let Some(hasher) = self.state.hashers.get_mut(calculation as usize) else {
            return Err(ControlError::not_found(format!(
                "the program has no calculation number {calculation}"
            )));
        };
        if hasher.custom_width() != Some(parameters.width) {
            let name = &self.program.calculations[calculation as usize].name;
            let message = format!("calculation '{name}' is not a custom CRC of {} bits", parameters.width);
            return Err(ControlError::invalid(message));
        }
        hasher.set_crc(parameters);
        Ok(())
    }
    /// Sets the key of a Toeplitz hash, at least four bytes.
    pub fn set_toeplitz_key(&mut self, calculation: u32, key: &[u8]) -> Result<()> {
        let Some(hasher) = self.state.hashers.get_mut(calculation as usize) else {
            return Err(ControlError::not_found(format!(
                "the program has no calculation number {calculation}"
            )));
        };
        if !hasher.set_toeplitz_key(key) {
            let name = &self.program.calculations[calculation as usize].name;
            let message =
                format!("calculation '{name}' is not a Toeplitz hash, or the key has less than 4 bytes");
            return Err(ControlError::invalid(message));
        }
        Ok(())
    }
}
