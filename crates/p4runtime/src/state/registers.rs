//! Registers.

use super::{Forwarding, found, indices, only_modify, update};
use crate::data;
use crate::pipeline::Pipeline;
use crate::proto::entity::Entity as Kind;
use crate::proto::{Entity, Index, RegisterEntry, Update, UpdateType};
use crate::refusal::Refusal;
use belljar_p4info::{Array, DataType, Missing};
use std::sync::Arc;

impl<P: Pipeline> Forwarding<'_, P> {
    pub(super) fn write_register(
        &mut self,
        kind: UpdateType,
        entry: &RegisterEntry,
    ) -> Result<Vec<Update>, Refusal> {
        only_modify(kind, "a register")?;
        let objects = Arc::clone(&self.state.objects);
        let register = objects
            .registers
            .get(&entry.register_id)
            .ok_or(Missing { kind: "register", id: entry.register_id })?;
        let data = entry.data.as_ref().ok_or_else(|| Refusal::invalid("the register's data is missing"))?;
        let value = data::number(data_type(register)?, data)?;
        let mut undo = Vec::new();
        for index in indices(entry.index, register.size)? {
            let old = self.read_register(entry.register_id, register, index)?;
            self.pipeline.set_register(&register.name, index, &value)?;
            undo.push(update(UpdateType::Modify, Kind::RegisterEntry(old)));
        }
        Ok(undo)
    }

    pub(super) fn read_registers(
        &self,
        request: &RegisterEntry,
        all: &mut Vec<Entity>,
    ) -> Result<(), Refusal> {
        if request.register_id != 0 && !self.state.objects.registers.contains_key(&request.register_id) {
            return Err(Missing { kind: "register", id: request.register_id }.into());
        }
        for (id, register) in
            self.state.objects.registers.iter().filter(|(id, _)| [0, **id].contains(&request.register_id))
        {
            let index = request.index.filter(|_| request.register_id != 0);
            for index in indices(index, register.size)? {
                all.push(found(Kind::RegisterEntry(self.read_register(*id, register, index)?)));
            }
        }
        Ok(())
    }

    fn read_register(
        &self,
        id: u32,
        register: &Array<Option<DataType>>,
        index: usize,
    ) -> Result<RegisterEntry, Refusal> {
        let value = self.pipeline.register(&register.name, index)?;
        let data = data::pack(data_type(register)?, &mut std::iter::once(value));
        Ok(RegisterEntry { register_id: id, index: Some(Index { index: index as i64 }), data })
    }
}

fn data_type(register: &Array<Option<DataType>>) -> Result<&DataType, Refusal> {
    match &register.kind {
        Some(kind @ (DataType::Bit(_) | DataType::Int(_) | DataType::Bool | DataType::Enum(_))) => Ok(kind),
        _ => Err(Refusal::unimplemented(format!(
            "register '{}' holds structs, which are not supported",
            register.name
        ))),
    }
}
