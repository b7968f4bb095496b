//! Meters.

use super::counters::{key_of, required};
use super::{Forwarding, found, indices, only_modify, tables, update};
use crate::pipeline::{Pipeline, Rates};
use crate::proto::entity::Entity as Kind;
use crate::proto::{DirectMeterEntry, Entity, Index, MeterConfig, MeterEntry, Update, UpdateType};
use crate::refusal::Refusal;
use belljar_p4info::proto::MeterType;
use belljar_p4info::{Missing, Table};
use std::sync::Arc;

impl From<Rates> for MeterConfig {
    fn from(rates: Rates) -> Self {
        Self {
            cir: rates.committed as i64,
            cburst: rates.committed_burst as i64,
            pir: rates.peak as i64,
            pburst: rates.peak_burst as i64,
            eburst: 0,
        }
    }
}

/// Validates the configuration of a meter against its type.
pub fn rates(config: &MeterConfig, kind: Option<MeterType>) -> Result<Rates, Refusal> {
    let single_rate = matches!(kind, Some(MeterType::SingleRateThreeColor | MeterType::SingleRateTwoColor));
    if single_rate && (config.cir != config.pir || config.cburst != config.pburst) {
        return Err(Refusal::invalid("a meter of one rate needs the same committed and peak rate and burst"));
    }
    if config.eburst != 0 {
        return Err(match kind {
            Some(MeterType::SingleRateThreeColor) => {
                Refusal::unimplemented("excess bursts are not supported")
            }
            _ => Refusal::invalid("a meter of this type has no excess burst"),
        });
    }
    let number =
        |value: i64| u64::try_from(value).map_err(|_| Refusal::invalid("a rate or burst is negative"));
    let rates = Rates {
        committed: number(config.cir)?,
        committed_burst: number(config.cburst)?,
        peak: number(config.pir)?,
        peak_burst: number(config.pburst)?,
    };
    if rates.committed > rates.peak {
        return Err(Refusal::invalid("the committed rate is above the peak rate"));
    }
    Ok(rates)
}

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_meter(
        &mut self,
        kind: UpdateType,
        entry: &MeterEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a meter")?;
        no_colours(entry.counter_data.is_some())?;
        let objects = Arc::clone(&self.state.objects);
        let meter =
            objects.meters.get(&entry.meter_id).ok_or(Missing { kind: "meter", id: entry.meter_id })?;
        let new = entry.config.map(|config| rates(&config, Some(meter.kind))).transpose()?;
        let mut undo = Vec::new();
        for index in indices(entry.index, meter.size)? {
            let config = self.pipeline.meter(&meter.name, index)?.map(Into::into);
            self.pipeline.set_meter(&meter.name, index, new)?;
            let old = MeterEntry {
                meter_id: entry.meter_id,
                index: Some(Index { index: index as i64 }),
                config,
                counter_data: None,
            };
            undo.push(update(UpdateType::Modify, Kind::MeterEntry(old)));
        }
        Ok(undo)
    }

    pub(super) fn read_meters(&self, request: &MeterEntry, all: &mut Vec<Entity>) -> Result<(), Refusal> {
        no_colours(request.counter_data.is_some())?;
        if request.meter_id != 0 && !self.state.objects.meters.contains_key(&request.meter_id) {
            return Err(Missing { kind: "meter", id: request.meter_id }.into());
        }
        for (id, meter) in
            self.state.objects.meters.iter().filter(|(id, _)| [0, **id].contains(&request.meter_id))
        {
            let index = request.index.filter(|_| request.meter_id != 0);
            for index in indices(index, meter.size)? {
                let config = self.pipeline.meter(&meter.name, index)?.map(Into::into);
                let entry = MeterEntry {
                    meter_id: *id,
                    index: Some(Index { index: index as i64 }),
                    config,
                    counter_data: None,
                };
                all.push(found(Kind::MeterEntry(entry)));
            }
        }
        Ok(())
    }

    pub(super) fn write_direct_meter(
        &mut self,
        kind: UpdateType,
        entry: &DirectMeterEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a direct meter")?;
        no_colours(entry.counter_data.is_some())?;
        let objects = Arc::clone(&self.state.objects);
        let key = required(entry.table_entry.as_ref())?;
        let table = with_meter(objects.table(key.table_id)?)?;
        let handle = self.stored(table, &tables::key(table, key)?.0)?.handle;
        let new = entry.config.map(|config| rates(&config, objects.direct_meter(table.id))).transpose()?;
        let config = self.pipeline.entry_meter(&table.name, handle)?.map(Into::into);
        self.pipeline.set_entry_meter(&table.name, handle, new)?;
        let undo = DirectMeterEntry { table_entry: entry.table_entry.clone(), config, counter_data: None };
        Ok(vec![update(UpdateType::Modify, Kind::DirectMeterEntry(Box::new(undo)))])
    }

    pub(super) fn read_direct_meters(
        &self,
        request: &DirectMeterEntry,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        no_colours(request.counter_data.is_some())?;
        let key = required(request.table_entry.as_ref())?;
        for table in self.tables_with(key.table_id, with_meter)? {
            let selected = self.select(table, key)?;
            if selected.is_empty() && !key.r#match.is_empty() {
                return Err(Refusal::not_found(format!("table '{}' has no entry with this key", table.name)));
            }
            for stored in selected {
                let config = self.pipeline.entry_meter(&table.name, stored.handle)?.map(Into::into);
                let entry =
                    DirectMeterEntry { table_entry: Some(key_of(&stored.entry)), config, counter_data: None };
                all.push(found(Kind::DirectMeterEntry(Box::new(entry))));
            }
        }
        Ok(())
    }
}

fn no_colours(asked: bool) -> Result<(), Refusal> {
    if asked { Err(Refusal::unimplemented("meters do not count their colours")) } else { Ok(()) }
}

fn with_meter(table: &Table) -> Result<&Table, Refusal> {
    if table.has_meter {
        Ok(table)
    } else {
        Err(Refusal::invalid(format!("table '{}' has no direct meter", table.name)))
    }
}
