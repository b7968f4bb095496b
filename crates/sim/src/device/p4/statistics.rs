//! Statistics of a P4 switch.

use super::{Attachment, P4Switch};
use belljar_p4::switch::Drop;
use belljar_results::{P4PortStatistics, P4Statistics, P4TableStatistics};

/// Drop reason of packets that arrived before a program was installed.
const NO_PROGRAM: &str = "no_program";

impl P4Switch {
    /// Statistics of the switch at the end of the run.
    pub(super) fn statistics(&self) -> P4Statistics {
        let without = self.device.without_program();
        let mut statistics = P4Statistics { notifications: self.told, ..P4Statistics::default() };
        if let Some((_, control)) = &self.control {
            statistics.controllers = control.accepted;
        }
        statistics.received = without;
        if without > 0 {
            statistics.drops.insert(NO_PROGRAM.to_owned(), without);
        }
        let Some(switch) = self.device.look() else { return statistics };
        statistics.received += switch.received();
        statistics.memory = switch.memory();
        let drops = Drop::ALL.iter().map(|reason| (reason.name().to_owned(), switch.dropped(*reason)));
        statistics.drops.extend(drops.filter(|(_, count)| *count > 0));
        for (n, name) in switch.program().table_names().enumerate() {
            let counts = switch.table_counts(n as u32);
            let table = P4TableStatistics {
                entries: counts.entries as u64,
                hits: counts.hits,
                misses: counts.misses,
            };
            statistics.tables.insert(name.to_owned(), table);
        }
        for (name, attachment) in self.names.iter().zip(&self.interfaces) {
            let Attachment::Port(port, _) = attachment else { continue };
            let counters = switch.port_counters(*port).copied().unwrap_or_default();
            let port = P4PortStatistics {
                packets_in: counters.packets_in,
                packets_out: counters.packets_out,
                queue_full: counters.queue_full,
                most_queued: counters.most_queued,
                queued: switch.queue_len(*port) as u64,
            };
            statistics.ports.insert(name.clone(), port);
        }
        statistics
    }
}
