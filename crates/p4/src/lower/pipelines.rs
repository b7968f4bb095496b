//! Ingress and egress: one graph of tables, conditions and calls.

use super::{Lower, Result, item, line_of};
use crate::program::{NONE, Node};
use belljar_base::Map;
use belljar_p4json::Pipeline;

impl Lower<'_> {
    pub(super) fn pipelines(&mut self) -> Result<()> {
        let root = self.root;
        let mut profiles: Map<&str, u32> = Map::new();
        for pipeline in &root.pipelines {
            for (n, profile) in pipeline.action_profiles.iter().enumerate() {
                profiles.insert(&profile.name, self.program.profiles.len() as u32);
                self.within(item("action_profiles", n, &profile.name), |lower| lower.profile(profile))?;
            }
        }
        for (n, pipeline) in root.pipelines.iter().enumerate() {
            self.place.push(item("pipelines", n, &pipeline.name));
            let first = self.pipeline(pipeline, &profiles)?;
            match pipeline.name.as_str() {
                "ingress" => self.program.ingress = first,
                "egress" => self.program.egress = first,
                other => {
                    let remedy = "only v1model programs run here: compile with --arch v1model";
                    return Err(self.error_with(format!("a pipeline '{other}' is not v1model's"), remedy));
                }
            }
            self.place.pop();
        }
        for pipeline in ["ingress", "egress"] {
            if !root.pipelines.iter().any(|one| one.name == pipeline) {
                let remedy = "only v1model programs run here: compile with --target bmv2 --arch v1model";
                self.place.push("pipelines".to_owned());
                return Err(self.error_with(format!("there is no pipeline '{pipeline}'"), remedy));
            }
        }
        for n in 0..self.program.tables.len() {
            let table = &self.program.tables[n];
            let (counters, meters, bytes) = (table.counters, table.meters, table.argument_bytes);
            if let Some(profile) = table.profile {
                let profile = &mut self.program.profiles[profile as usize];
                profile.tables.push(n as u32);
                profile.argument_bytes = profile.argument_bytes.max(bytes);
            }
            if let Some(counters) = counters {
                self.program.counters[counters as usize].table = Some(n as u32);
            }
            if let Some((meters, _)) = meters {
                self.program.meters[meters as usize].table = Some(n as u32);
            }
        }
        for n in 0..self.program.tables.len() {
            crate::table::check_initial(&self.program, n as u32)?;
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, profiles: &Map<&str, u32>) -> Result<u32> {
        let root = self.root;
        let Some(pipeline) = root.pipelines.iter().find(|one| std::ptr::eq(*one, pipeline)) else {
            return Ok(NONE);
        };
        let mut nodes: Map<&str, u32> = Map::new();
        let names = pipeline.tables.iter().map(|table| table.name.as_str());
        let names = names.chain(pipeline.conditionals.iter().map(|one| one.name.as_str()));
        let names = names.chain(pipeline.action_calls.iter().map(|one| one.name.as_str()));
        for (n, name) in names.enumerate() {
            if nodes.insert(name, (self.program.nodes.len() + n) as u32).is_some() {
                return Err(self.error(format!("two tables or conditions are named '{name}'")));
            }
        }
        for (n, table) in pipeline.tables.iter().enumerate() {
            let lowered =
                self.within(item("tables", n, &table.name), |lower| lower.table(table, &nodes, profiles))?;
            let number = self.program.tables.len() as u32;
            self.table_names.insert(&table.name, number);
            self.program.tables.push(lowered);
            self.program.nodes.push(Node::Table(number));
        }
        let next = |lower: &Self, name: Option<&str>| -> Result<u32> {
            let Some(name) = name else { return Ok(NONE) };
            nodes
                .get(name)
                .copied()
                .ok_or_else(|| lower.error(format!("no table or condition is named '{name}'")))
        };
        for (n, conditional) in pipeline.conditionals.iter().enumerate() {
            self.place.push(item("conditionals", n, &conditional.name));
            let condition = self.boolean(&conditional.expression)?;
            let (yes, no) = (
                next(self, conditional.true_next.as_deref())?,
                next(self, conditional.false_next.as_deref())?,
            );
            let line = line_of(conditional.source_info.as_ref());
            self.program.nodes.push(Node::If { name: conditional.name.clone(), condition, yes, no, line });
            self.place.pop();
        }
        for (n, call) in pipeline.action_calls.iter().enumerate() {
            self.place.push(item("action_calls", n, &call.name));
            let action = self.action(call.action_id)?;
            if !self.program.actions[action as usize].parameters.is_empty() {
                return Err(self.error("an action with parameters is called without a table"));
            }
            let next = next(self, call.next_node.as_deref())?;
            self.program.nodes.push(Node::Call { action, next });
            self.place.pop();
        }
        next(self, pipeline.init_table.as_deref())
    }
}
