//! Section `explore` as YAML.

use super::{Writer, quoted, time};
use crate::event_kinds::dns_answer_text;
use crate::events::CrashFiles;
use crate::exploration::FaultKind;
use crate::model::Experiment;
use belljar_net::units::format_duration;

impl Experiment {
    pub(super) fn exploration_section(&self, out: &mut Writer) {
        let Some(explore) = &self.explore else { return };
        out.section(0, "explore");
        let names: Vec<String> = explore.hosts.iter().map(|id| quoted(self.node_name(*id))).collect();
        out.plain(1, "hosts", format_args!("[{}]", names.join(", ")));
        out.plain(1, "between", format_args!("[{}, {}]", time(explore.between.0), time(explore.between.1)));
        out.plain(1, "faults", format_args!("[{}, {}]", explore.faults.0, explore.faults.1));
        let (shortest, longest) = explore.lasting;
        out.plain(1, "for", format_args!("[{}, {}]", format_duration(shortest), format_duration(longest)));
        let orders: Vec<&str> = explore.scheduling.iter().map(|order| order.name()).collect();
        out.plain(1, "scheduling", format_args!("[{}]", orders.join(", ")));
        out.section(1, "kinds");
        for kind in &explore.kinds {
            out.plain(2, kind.name(), bounds(self, kind));
        }
    }
}

fn bounds(experiment: &Experiment, kind: &FaultKind) -> String {
    match kind {
        FaultKind::Calls { results, share: (least, most) } => {
            let names: Vec<&str> = results.iter().map(|result| result.name()).collect();
            format!("{{ results: [{}], share: [{least}, {most}] }}", names.join(", "))
        }
        FaultKind::Disk { faults, sync_time: (least, most) } => {
            let names: Vec<&str> = faults.iter().map(|fault| fault.name()).collect();
            let times = format!("[{}, {}]", format_duration(*least), format_duration(*most));
            format!("{{ faults: [{}], sync_time: {times} }}", names.join(", "))
        }
        FaultKind::Clock { step } => format!("{{ step: {} }}", format_duration(*step)),
        FaultKind::Crash { files } => {
            let words: Vec<&str> = files.iter().map(|files| files.name()).collect();
            let profile = files.iter().find_map(|files| match files {
                CrashFiles::Unsynced { disk, .. } => Some(format!(", disk: {}", disk.name())),
                _ => None,
            });
            format!("{{ files: [{}]{} }}", words.join(", "), profile.unwrap_or_default())
        }
        FaultKind::Dns { names, answers } => {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            let answers: Vec<String> = answers.iter().map(dns_answer_text).collect();
            format!("{{ names: [{}], answers: [{}] }}", names.join(", "), answers.join(", "))
        }
        FaultKind::Cpu { share: (least, most), period: (shortest, longest) } => {
            let periods = format!("[{}, {}]", format_duration(*shortest), format_duration(*longest));
            format!("{{ share: [{least}, {most}], period: {periods} }}")
        }
        FaultKind::Kill { names } | FaultKind::PauseProcess { names } if names.is_empty() => "{}".to_owned(),
        FaultKind::Kill { names } | FaultKind::PauseProcess { names } => {
            let names: Vec<String> = names.iter().map(|name| quoted(name)).collect();
            format!("{{ names: [{}] }}", names.join(", "))
        }
        FaultKind::Lossy { loss: (least, most) } => format!("{{ packet_loss: [{least}, {most}] }}"),
        FaultKind::Memory { limit: (least, most) } => format!("{{ limit: [{least} B, {most} B] }}"),
        FaultKind::Slow { latency: (least, most) } => {
            format!("{{ latency: [{}, {}] }}", format_duration(*least), format_duration(*most))
        }
        FaultKind::Reset { ends } => {
            let ends: Vec<&str> = ends.iter().map(|ends| ends.name()).collect();
            format!("{{ ends: [{}] }}", ends.join(", "))
        }
        FaultKind::OneWay | FaultKind::Partition | FaultKind::Pause | FaultKind::Stop => "{}".to_owned(),
        FaultKind::Upgrade { upgrades } => {
            let texts: Vec<String> =
                upgrades.iter().map(|action| format!("{{ {} }}", experiment.action_text(action))).collect();
            format!("{{ upgrades: [{}] }}", texts.join(", "))
        }
    }
}
