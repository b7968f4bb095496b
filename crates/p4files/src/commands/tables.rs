use super::{Call, Result, arguments, entry, milliseconds, number};
use belljar_p4::control::{ActionSpec, KeyMatch, ObjectKind};
use belljar_p4::hex;
use std::fmt::Write;

impl Call<'_> {
    pub(super) fn table_command(&mut self) -> Result<String> {
        match self.name {
            "table_add" => self.add(),
            "table_indirect_add" | "table_indirect_add_with_group" => self.indirect_add(),
            "table_set_default" => {
                let (table, words) = (self.table()?, self.take(2, usize::MAX)?);
                let action = self.switch.program().action_of(table, words[1])?;
                let action = ActionSpec::Direct { action, arguments: arguments(&words[2..])? };
                self.switch.set_default(table, &action)?;
                Ok(String::new())
            }
            "table_indirect_set_default" | "table_indirect_set_default_with_group" => {
                let (table, words) = (self.table()?, self.take(2, 2)?);
                let id = number(words[1])?;
                let group = self.name.ends_with("group");
                let action = if group { ActionSpec::Group(id) } else { ActionSpec::Member(id) };
                self.switch.set_default(table, &action)?;
                Ok(String::new())
            }
            "table_reset_default" | "table_indirect_reset_default" => {
                self.take(1, 1)?;
                self.switch.reset_default(self.table()?)?;
                Ok(String::new())
            }
            "table_modify" => {
                let (table, words) = (self.table()?, self.take(3, usize::MAX)?);
                let action = self.switch.program().action_of(table, words[1])?;
                let rest = if words.get(3) == Some(&"=>") { &words[4..] } else { &words[3..] };
                let action = ActionSpec::Direct { action, arguments: arguments(rest)? };
                self.switch.modify_entry(table, number(words[2])?, &action)?;
                Ok(String::new())
            }
            "table_delete" | "table_indirect_delete" => {
                let (table, words) = (self.table()?, self.take(2, 2)?);
                self.switch.delete_entry(table, number(words[1])?)?;
                Ok(String::new())
            }
            "table_clear" => {
                self.take(1, 1)?;
                self.switch.clear_table(self.table()?)?;
                Ok(String::new())
            }
            "table_set_timeout" => {
                let (table, words) = (self.table()?, self.take(3, 3)?);
                self.switch.set_idle_timeout(table, number(words[1])?, Some(milliseconds(words[2])?))?;
                Ok(String::new())
            }
            "table_num_entries" => {
                self.take(1, 1)?;
                Ok(format!("{}\n", self.switch.entry_count(self.table()?)?))
            }
            "table_dump" => {
                self.take(1, 1)?;
                self.dump(self.table()?)
            }
            "show_tables" => Ok(self.show_tables()),
            _ => Ok(self.show_actions()),
        }
    }

    fn add(&mut self) -> Result<String> {
        let (table, words) = (self.table()?, self.take(2, usize::MAX)?);
        let program = self.switch.program().clone();
        let action = program.action_of(table, words[1])?;
        let Some(arrow) = words.iter().position(|word| *word == "=>") else {
            return self.usage();
        };
        let (keys, rest) = (&words[2..arrow.max(2)], &words[arrow + 1..]);
        let info = program.table_info(table);
        let wanted = program.action_info(action).parameters.len();
        let (rest, priority) = match rest.split_last() {
            Some((last, before)) if info.priorities && before.len() == wanted => (before, Some(*last)),
            _ if info.priorities => {
                let message = "the entries of table '{}' need a priority after the arguments; write a number, the smallest wins";
                return Err(message.replace("{}", &info.name));
            }
            _ => (rest, None),
        };
        let action = ActionSpec::Direct { action, arguments: arguments(rest)? };
        let entry = entry(self.switch, table, keys, action, priority)?;
        let handle = self.switch.add_entry(table, &entry)?;
        Ok(format!("entry {handle} was added to {}\n", info.name))
    }

    fn indirect_add(&mut self) -> Result<String> {
        let (table, words) = (self.table()?, self.take(2, usize::MAX)?);
        let Some(arrow) = words.iter().position(|word| *word == "=>") else {
            return self.usage();
        };
        let (keys, rest) = (&words[1..arrow.max(1)], &words[arrow + 1..]);
        let (id, priority) = match rest {
            [id] => (number(id)?, None),
            [id, priority] => (number(id)?, Some(*priority)),
            _ => return self.usage(),
        };
        let action =
            if self.name.ends_with("group") { ActionSpec::Group(id) } else { ActionSpec::Member(id) };
        let entry = entry(self.switch, table, keys, action, priority)?;
        let handle = self.switch.add_entry(table, &entry)?;
        Ok(format!("entry {handle} was added to {}\n", self.switch.program().table_name(table)))
    }

    fn dump(&self, table: u32) -> Result<String> {
        let info = self.switch.program().table_info(table);
        let mut out = String::new();
        for handle in self.switch.entries(table)? {
            let entry = self.switch.entry(table, handle)?;
            let _ = write!(out, "{} {handle}:", info.name);
            for (key, value) in info.key.iter().zip(&entry.key) {
                let value = match value {
                    KeyMatch::Exact(value) => hex(value),
                    KeyMatch::Lpm { value, prefix } => format!("{}/{prefix}", hex(value)),
                    KeyMatch::Ternary { value, mask } => format!("{}&&&{}", hex(value), hex(mask)),
                    KeyMatch::Range { low, high } => format!("{}->{}", hex(low), hex(high)),
                    KeyMatch::Any => "any".to_owned(),
                };
                let _ = write!(out, " {}={value}", key.name);
            }
            if info.priorities {
                let _ = write!(out, " priority {}", entry.priority);
            }
            let _ = writeln!(out, " => {}", self.describe(&entry.action));
        }
        if let Some(action) = self.switch.default_of(table)? {
            let _ = writeln!(out, "{} default => {}", info.name, self.describe(&action));
        }
        Ok(out)
    }

    fn describe(&self, action: &ActionSpec) -> String {
        match action {
            ActionSpec::Member(id) => format!("member {id}"),
            ActionSpec::Group(id) => format!("group {id}"),
            ActionSpec::Direct { action, arguments } => {
                let arguments: Vec<_> = arguments.iter().map(|argument| hex(argument)).collect();
                format!("{}({})", self.switch.program().action_info(*action).name, arguments.join(", "))
            }
        }
    }

    fn show_tables(&self) -> String {
        let program = self.switch.program();
        let mut out = String::new();
        for n in 0..program.table_names().count() as u32 {
            let info = program.table_info(n);
            let key: Vec<_> = info
                .key
                .iter()
                .map(|key| format!("{}({}, {})", key.name, key.kind.name(), key.width))
                .collect();
            let _ = writeln!(out, "{} [{}]", info.name, key.join(", "));
        }
        out
    }

    fn show_actions(&self) -> String {
        let program = self.switch.program();
        let mut out = String::new();
        for n in 0..program.count(ObjectKind::Action) {
            let info = program.action_info(n);
            let parameters: Vec<_> =
                info.parameters.iter().map(|one| format!("{}({})", one.name, one.width)).collect();
            let _ = writeln!(out, "{} [{}]", info.name, parameters.join(", "));
        }
        out
    }
}
