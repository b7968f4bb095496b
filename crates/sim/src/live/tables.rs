//! Tables of the current state of hosts and devices, as comma-separated values: connections, interfaces,
//! routes, neighbours, processes.

use crate::metrics::{TCP_COLUMNS, tcp_row};
use crate::node::HostNode;
use belljar_kernel::Host;
use belljar_net::neighbour::Neighbour;
use belljar_net::routes::{Ip, Route, RouteTable};
use belljar_netstack::Stack;
use belljar_wire::ethernet::Address;
use serde::Serialize;
use std::fmt::{Display, Write};

/// Table of a node's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Rows as comma-separated values (RFC 4180), preceded by a header with the names of the columns.
    pub csv: String,
}

/// Builder of a table.
pub struct Rows {
    name: &'static str,
    csv: String,
    count: usize,
}

impl Rows {
    /// Creates a table without rows; `columns` are the names of the columns, joined by commas.
    pub fn new(name: &'static str, columns: &str) -> Rows {
        Rows { name, csv: format!("{columns}\n"), count: 0 }
    }
    /// Adds a row.
    pub fn add(&mut self, cells: &[&dyn Display]) {
        for (n, value) in cells.iter().enumerate() {
            let text = value.to_string();
            let comma = if n > 0 { "," } else { "" };
            let _ = match text.contains([',', '"', '\n', '\r']) {
                true => write!(self.csv, "{comma}\"{}\"", text.replace('"', "\"\"")),
                false => write!(self.csv, "{comma}{text}"),
            };
        }
        self.csv.push('\n');
        self.count += 1;
    }
    /// Returns the table, if it has rows.
    pub fn finish(self) -> Option<Table> {
        (self.count > 0).then(|| Table { name: self.name.to_owned(), csv: self.csv })
    }
}

/// Tables of a host; those without rows are omitted.
pub fn of_host(node: &HostNode) -> Vec<Table> {
    let stack = node.host.stack();
    let tables = [
        node.host.linux().and_then(processes),
        connections(stack),
        interfaces(stack),
        routes(stack),
        neighbours(stack),
    ];
    tables.into_iter().flatten().collect()
}

fn processes(linux: &Host) -> Option<Table> {
    let mut rows = Rows::new("processes", "pid,command");
    for process in linux.debug_processes() {
        rows.add(&[&process.pid, &process.command]);
    }
    rows.finish()
}

fn connections(stack: &Stack) -> Option<Table> {
    let samples = stack.tcp_samples();
    // The columns time and host of the table of all hosts are omitted.
    let columns = TCP_COLUMNS.splitn(3, ',').nth(2).unwrap_or_default();
    let rows: String = samples.iter().map(|sample| tcp_row(sample) + "\n").collect();
    (!rows.is_empty())
        .then(|| Table { name: "TCP connections".to_owned(), csv: format!("{columns}\n{rows}") })
}

fn interfaces(stack: &Stack) -> Option<Table> {
    let mut rows = Rows::new("interfaces", "name,hardware address,mtu,state,addresses");
    for interface in stack.interfaces.iter().filter(|interface| interface.exists()) {
        let state = match (interface.up, interface.carrier) {
            (false, _) => "down",
            (true, false) => "no carrier",
            (true, true) => "up",
        };
        let v4 = interface.addresses.iter().map(ToString::to_string);
        let all: Vec<String> = v4.chain(interface.addresses6.iter().map(ToString::to_string)).collect();
        rows.add(&[&interface.name, &Address(interface.mac), &interface.mtu, &state, &all.join(" ")]);
    }
    rows.finish()
}

fn routes(stack: &Stack) -> Option<Table> {
    let name =
        |number: usize| stack.interfaces.get(number).map_or("", |interface| &*interface.name).to_owned();
    let mut rows = Rows::new("routes", ROUTE_COLUMNS);
    add_routes(&mut rows, &stack.routes, name);
    add_routes(&mut rows, &stack.v6.routes, name);
    rows.finish()
}

/// Columns of a table of routes.
pub const ROUTE_COLUMNS: &str = "to,metric,kind,next hops,protocol";

/// Adds the routes of a table; `name` returns the name of an interface.
pub fn add_routes<A: Ip>(rows: &mut Rows, table: &RouteTable<A>, name: impl Fn(usize) -> String) {
    for (prefix, metric, route) in table.iter() {
        let kind = format!("{:?}", route.kind).to_lowercase();
        rows.add(&[&prefix, &metric, &kind, &hops(route, &name), &route.protocol]);
    }
}

fn hops<A: Ip>(route: &Route<A>, name: impl Fn(usize) -> String) -> String {
    let hop = |hop: &belljar_net::routes::NextHop<A>| match hop.router() {
        Some(router) => format!("via {router} dev {}", name(hop.interface)),
        None => format!("dev {}", name(hop.interface)),
    };
    route.hops.iter().map(hop).collect::<Vec<_>>().join("; ")
}

fn neighbours(stack: &Stack) -> Option<Table> {
    let mut rows = Rows::new("neighbours", "address,interface,hardware address,state");
    stack.neighbours.iter().for_each(|neighbour| add_neighbour(&mut rows, stack, &neighbour));
    stack.v6.neighbours.iter().for_each(|neighbour| add_neighbour(&mut rows, stack, &neighbour));
    rows.finish()
}

fn add_neighbour<A: Display>(rows: &mut Rows, stack: &Stack, neighbour: &Neighbour<A>) {
    let interface = stack.interfaces.get(neighbour.interface).map_or("", |interface| &*interface.name);
    let address = neighbour.address.map_or(String::new(), |address| address.to_string());
    let state = format!("{:?}", neighbour.state).to_lowercase();
    rows.add(&[&neighbour.ip, &interface, &address, &state]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_are_called_does_not_break_rows() {
        let mut rows = Rows::new("processes", "pid,command");
        assert_eq!(Rows::new("processes", "pid,command").finish(), None);
        rows.add(&[&7, &"sh -c \"a, b\""]);
        rows.add(&[&8, &"plain"]);
        let table = rows.finish().unwrap();
        assert_eq!(table.csv, "pid,command\n7,\"sh -c \"\"a, b\"\"\"\n8,plain\n");
    }
}
