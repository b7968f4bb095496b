//! Coverage of programs instrumented for Antithesis, of all hosts together.

use belljar_config::{Claim, Experiment, Property};
use belljar_results::{Coverage, CoverageStatistics, ResultsError, ResultsFolder, names};

/// Adds the coverage that each host has in its folder, and writes the sum into the folder of the results. Returns its modules; none if
/// no program has reported any.
///
/// # Errors
/// The folder cannot be written.
pub fn collect_coverage(
    experiment: &Experiment,
    folder: &ResultsFolder,
) -> Result<Vec<CoverageStatistics>, ResultsError> {
    let has_library = |property: &Property| property.claim == Claim::Assertions;
    if !experiment.properties.iter().any(has_library) {
        return Ok(Vec::new());
    }
    let mut all = Coverage::default();
    for host in &experiment.hosts {
        let text = belljar_inputs::read_text(&folder.host(&host.name).join(names::SDK_COVERAGE));
        if let Some(coverage) = text.ok().and_then(|text| Coverage::parse(&text)) {
            all.add(coverage);
        }
    }
    if all.0.is_empty() {
        return Ok(Vec::new());
    }
    folder.write(names::SDK_COVERAGE, all.text().as_bytes())?;
    let modules = all.0.iter().map(|((module, edges), counts)| CoverageStatistics {
        module: module.clone(),
        edges: *edges,
        reached: counts.len() as u64,
    });
    Ok(modules.collect())
}
