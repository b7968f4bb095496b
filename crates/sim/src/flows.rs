//! Flows of the traffic models: table and statistics.

use crate::node::HostNode;
use belljar_base::{Map, SimDuration, SimTime};
use belljar_config::Experiment;
use belljar_models::{FlowOutcome, FlowRecord};
use belljar_results::names;
use belljar_results::{ModelStatistics, Quantiles, ResultsError, ResultsFolder};
use serde::{Deserialize, Serialize};

const COLUMNS: &str = "host,model,peer,started,connected,first_byte,ended,bytes_out,bytes_in,datagrams,lost,\
                       mean_delay,outcome";

/// Flows of the models of a run, or of some of its hosts.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Flows {
    /// Rows of the table, with end time in picoseconds and host id.
    rows: Vec<(u64, u32, String)>,
    models: Map<String, Sums>,
}

/// Statistics of all models of one name.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Sums {
    statistics: ModelStatistics,
    /// Durations of completed flows in picoseconds.
    times: Vec<u64>,
}

impl Flows {
    /// Adds the flows of other hosts.
    pub fn add(&mut self, other: Flows) {
        self.rows.extend(other.rows);
        for (name, sums) in other.models {
            let all = self.models.entry(name).or_default();
            all.statistics.add(sums.statistics);
            all.times.extend(sums.times);
        }
    }
}

/// Collects the flows of the models on these hosts.
pub fn collect(experiment: &Experiment, nodes: &[HostNode]) -> Flows {
    let mut flows = Flows::default();
    for node in nodes {
        let (id, settings) = (node.id(), &experiment.hosts[node.id().index()]);
        let name = |model: u32| &settings.models[model as usize].spec.name;
        for model in &settings.models {
            flows.models.entry(model.spec.name.clone()).or_default().statistics.models += 1;
        }
        for (model, failure) in node.host.models().problems() {
            let name = name(*model);
            let problem = format!("model {name} of host {} could not run: {failure}", settings.name);
            flows.models.entry(name.clone()).or_default().statistics.problems.push(problem);
        }
        for (model, flow) in node.host.models().flows() {
            let name = name(*model);
            flows.rows.push((flow.ended.as_picos(), id.0, row(&settings.name, name, flow)));
            if let Some(sums) = flows.models.get_mut(name) {
                sums.count(flow);
            }
        }
    }
    flows
}

impl Sums {
    fn count(&mut self, flow: &FlowRecord) {
        let sum = &mut self.statistics;
        match flow.outcome {
            FlowOutcome::Done => {
                sum.done += 1;
                self.times.push(flow.ended.since(flow.started).as_picos());
            }
            FlowOutcome::Cut => sum.cut += 1,
            FlowOutcome::Failed(why) => *sum.failed.entry(why.to_string()).or_default() += 1,
        }
        sum.bytes_out += flow.bytes_out;
        sum.bytes_in += flow.bytes_in;
        sum.datagrams += flow.datagrams;
        sum.lost += flow.lost;
    }
}

fn row(host: &str, model: &str, flow: &FlowRecord) -> String {
    let time = |at: Option<SimTime>| at.map_or(String::new(), |at| at.to_string());
    let delay = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    format!(
        "{host},{model},{},{},{},{},{},{},{},{},{},{},{}\n",
        flow.peer,
        flow.started,
        time(flow.connected),
        time(flow.first_byte),
        flow.ended,
        flow.bytes_out,
        flow.bytes_in,
        flow.datagrams,
        flow.lost,
        flow.mean_delay_ns.map_or(String::new(), delay),
        flow.outcome,
    )
}

/// Writes `flows.csv`, ordered by the end of the flows, if there are models; returns the statistics by
/// model name.
pub fn write(
    mut flows: Flows,
    experiment: &Experiment,
    folder: &ResultsFolder,
) -> Result<Map<String, ModelStatistics>, ResultsError> {
    if experiment.hosts.iter().any(|host| !host.models.is_empty()) {
        flows.rows.sort_by_key(|(ended, host, _)| (*ended, *host));
        let rows = flows.rows.iter().map(|(.., row)| row.as_str());
        let text: String = [COLUMNS, "\n"].into_iter().chain(rows).collect();
        folder.write(names::FLOWS, text.as_bytes())?;
    }
    let summed = flows.models.into_iter().map(|(name, mut sums)| {
        sums.statistics.problems.sort_unstable();
        let seconds = sums.times.iter().map(|picos| SimDuration::from_picos(*picos).as_secs_f64());
        let completion = Quantiles::of(seconds.collect());
        (name, ModelStatistics { completion, ..sums.statistics })
    });
    Ok(summed.collect())
}
