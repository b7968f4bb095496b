use super::{Call, Result, number};
use belljar_p4::switch::{CloneSession, Replica};
use std::fmt::Write;

/// Parses ports before a bar, and link aggregation groups after it.
fn ports_and_lags(words: &[&str]) -> Result<(Vec<u16>, Vec<u16>)> {
    let bar = words.iter().position(|word| *word == "|").unwrap_or(words.len());
    let list = |words: &[&str]| words.iter().map(|word| number(word)).collect::<Result<Vec<u16>>>();
    Ok((list(&words[..bar])?, list(words.get(bar + 1..).unwrap_or_default())?))
}

impl Call<'_> {
    pub(super) fn replication_command(&mut self) -> Result<String> {
        match self.name {
            "mc_mgrp_create" => self.switch.create_multicast_group(number(self.take(1, 1)?[0])?)?,
            "mc_mgrp_destroy" => self.switch.delete_multicast_group(number(self.take(1, 1)?[0])?)?,
            "mc_node_create" => {
                let words = self.take(1, usize::MAX)?;
                let (ports, lags) = ports_and_lags(&words[1..])?;
                let node = self.switch.create_multicast_node(number(words[0])?, &ports, &lags);
                return Ok(format!("node {node} was created\n"));
            }
            "mc_node_update" => {
                let words = self.take(1, usize::MAX)?;
                let (ports, lags) = ports_and_lags(&words[1..])?;
                self.switch.update_multicast_node(number(words[0])?, &ports, &lags)?;
            }
            "mc_node_destroy" => self.switch.delete_multicast_node(number(self.take(1, 1)?[0])?)?,
            "mc_node_associate" | "mc_node_dissociate" => {
                let words = self.take(2, 2)?;
                let (group, node) = (number(words[0])?, number(words[1])?);
                if self.name == "mc_node_associate" {
                    self.switch.associate_multicast_node(group, node)?;
                } else {
                    self.switch.dissociate_multicast_node(group, node)?;
                }
            }
            "mc_set_lag_membership" => {
                let words = self.take(1, usize::MAX)?;
                let (ports, _) = ports_and_lags(&words[1..])?;
                self.switch.set_lag(number(words[0])?, &ports);
            }
            "mirroring_add" | "mirroring_add_mc" => {
                let words = self.take(2, 2)?;
                let (id, to) = (number(words[0])?, number(words[1])?);
                let mut session = self.switch.clone_session(id).cloned().unwrap_or_default();
                if self.name == "mirroring_add" {
                    session.replicas = vec![Replica { port: to, instance: 0 }];
                } else {
                    session.group = Some(to);
                }
                self.switch.set_clone_session(id, session)?;
            }
            "mirroring_delete" => self.switch.delete_clone_session(number(self.take(1, 1)?[0])?)?,
            "mirroring_get" => {
                let id: u16 = number(self.take(1, 1)?[0])?;
                let session = self.switch.clone_session(id);
                let session = session.ok_or_else(|| format!("clone session {id} does not exist"))?;
                return Ok(describe(id, session));
            }
            _ => {
                self.take(0, 0)?;
                return Ok(self.multicast_dump());
            }
        }
        Ok(String::new())
    }

    fn multicast_dump(&self) -> String {
        let mut out = String::new();
        let nodes = self.switch.multicast_nodes();
        for group in self.switch.multicast_groups() {
            let _ = writeln!(out, "group {group}");
            for (handle, node) in nodes.iter().filter(|(_, node)| node.group == Some(group)) {
                let _ = writeln!(
                    out,
                    "  node {handle}: rid {}, ports {:?}, lags {:?}",
                    node.rid, node.ports, node.lags
                );
            }
        }
        out
    }
}

fn describe(id: u16, session: &CloneSession) -> String {
    let ports: Vec<_> = session.replicas.iter().map(|replica| replica.port).collect();
    let group = session.group.map_or_else(|| "none".to_owned(), |group| group.to_string());
    format!("session {id}: ports {ports:?}, group {group}\n")
}
