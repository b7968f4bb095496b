//! Counters, meters and registers.

use super::{Lower, MAX_BYTES, MAX_WIDTH, Result, item};
use crate::program::{Counters, Meters, Registers};

impl Lower<'_> {
    pub(super) fn state(&mut self) -> Result<()> {
        let root = self.root;
        for (n, array) in root.counter_arrays.iter().enumerate() {
            self.place.push(item("counter_arrays", n, &array.name));
            let size = if array.is_direct { 0 } else { self.size(array.size.unwrap_or(0), 16)? };
            self.counters.insert(&array.name, n as u32);
            self.program.counters.push(Counters { name: array.name.clone(), size, table: None });
            self.place.pop();
        }
        for (n, array) in root.meter_arrays.iter().enumerate() {
            self.place.push(item("meter_arrays", n, &array.name));
            let size = if array.is_direct { 0 } else { self.size(array.size.unwrap_or(0), 80)? };
            let bytes = match array.kind.as_str() {
                "bytes" => true,
                "packets" => false,
                other => {
                    return Err(
                        self.error_with(format!("meters count '{other}'"), "write 'bytes' or 'packets'")
                    );
                }
            };
            let rates = array.rate_count.unwrap_or(2);
            if !(1..=2).contains(&rates) {
                return Err(self.error_with(format!("meters have {rates} rates"), "use 1 or 2"));
            }
            self.meters.insert(&array.name, n as u32);
            let name = array.name.clone();
            self.program.meters.push(Meters { name, size, bytes, rates: rates as u32, table: None });
            self.place.pop();
        }
        for (n, array) in root.register_arrays.iter().enumerate() {
            self.place.push(item("register_arrays", n, &array.name));
            if array.bitwidth > MAX_WIDTH {
                return Err(
                    self.error(format!("registers are {} bits wide, at most {MAX_WIDTH} go", array.bitwidth))
                );
            }
            let size = self.size(array.size, array.bitwidth.div_ceil(8).max(1))?;
            self.registers.insert(&array.name, n as u32);
            let width = array.bitwidth as u32;
            self.program.registers.push(Registers { name: array.name.clone(), size, width });
            self.place.pop();
        }
        Ok(())
    }

    fn size(&self, size: u64, each: u64) -> Result<u64> {
        if size.saturating_mul(each) > MAX_BYTES {
            return Err(self.error_with(
                format!("the array has {size} elements and would not fit 256 MiB"),
                "use a smaller array",
            ));
        }
        Ok(size)
    }
}
