//! Agreement of all ranks on the run: the same program, experiment and files on each machine.

use super::{Ranks, inputs};
use crate::failure::Failure;
use crate::workers::Workers;
use belljar_base::hex;
use belljar_config::Experiment;
use belljar_sim::{Difference, differences, hashes};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// Description of the run that a rank is about to start.
#[derive(Serialize, Deserialize)]
struct Introduction {
    program: String,
    version: String,
    /// Hash of the experiment file.
    file: String,
    /// Hash of the resolved experiment.
    resolved: String,
    results: PathBuf,
    workers: usize,
}

/// Hashes of files, by path.
pub type Hashes = Vec<(OsString, String)>;

fn digest(mut content: impl io::Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    io::copy(&mut content, &mut hasher)?;
    Ok(hex(&hasher.finalize()))
}

impl Ranks {
    /// Compares the experiment in `file`, as loaded by this rank, with those of all ranks. Returns it with
    /// this rank's workers and the number of workers of all ranks.
    pub fn agree(
        &self,
        file: &Path,
        prepared: Result<(Experiment, Workers), Failure>,
    ) -> Result<(Experiment, Workers, usize), Failure> {
        let (kept, mine) = match prepared {
            Ok((experiment, workers)) => {
                let mine = introduction(file, &experiment, workers.count);
                (Some((experiment, workers)), mine.map_err(Failure::run))
            }
            Err(failure) => (None, Err(failure)),
        };
        let total = self.step(mine, |all| self.compare(file, &all))?;
        let (experiment, workers) = kept.expect("the others went on, so this rank has an experiment");
        let keepers = self.roster.other_keepers();
        if !keepers.is_empty() {
            let is_keeper = self.is_first() || keepers.contains(&self.place.rank);
            let named = if is_keeper { hashes(&inputs::named(&experiment)) } else { Default::default() };
            self.step(Ok(named.into_iter().collect::<Hashes>()), |all| {
                for keeper in keepers {
                    self.compare_files(keeper, &all[0], &all[keeper]).map_err(Failure::usage)?;
                }
                Ok(())
            })?;
            if self.is_first() {
                self.note_processors();
            }
        }
        Ok((experiment, workers, total))
    }

    fn compare(&self, file: &Path, all: &[Introduction]) -> Result<usize, Failure> {
        let first = &all[0];
        for (rank, other) in all.iter().enumerate() {
            let label = self.roster.label(rank);
            let same = self.roster.label(0);
            let differs = if other.program != first.program {
                format!(
                    "{label} runs another program than {same} (belljar {} and {}): install the same build on all machines",
                    other.version, first.version
                )
            } else if other.file != first.file {
                format!(
                    "{label} has another {} than {same}: give all ranks the same experiment; runs of their own are started with \
                     --no-ranks",
                    file.display()
                )
            } else if other.results != first.results {
                format!(
                    "{label} would write its results to {}, and {same} to {}: start all ranks in the same folder",
                    other.results.display(),
                    first.results.display()
                )
            } else if other.resolved != first.resolved {
                format!(
                    "{label} makes another experiment of {} than {same}: options, variables BELLJAR_* and the files that it names \
                     must be the same (belljar run --show-config prints it)",
                    file.display()
                )
            } else {
                continue;
            };
            return Err(Failure::usage(differs));
        }
        Ok(all.iter().map(|introduction| introduction.workers).sum())
    }

    /// Compares the files of a machine with those of rank 0's. The error names the first difference.
    pub fn compare_files(&self, keeper: usize, first: &Hashes, other: &Hashes) -> Result<(), String> {
        let found = differences(&first.iter().cloned().collect(), &other.iter().cloned().collect());
        let (label, same) = (self.roster.label(keeper), self.roster.label(0));
        let text = match found.first() {
            None => return Ok(()),
            Some(Difference::Other(path)) => format!("{label} has another {} than {same}", path.display()),
            Some(Difference::Missing(path)) => format!("{label} lacks {}, which {same} has", path.display()),
            Some(Difference::Added(path)) => format!("{label} has {}, which {same} lacks", path.display()),
        };
        let more = match found.len() - 1 {
            0 => String::new(),
            more => format!(" ({more} more differ)"),
        };
        Err(format!("{text}{more}: guests read this machine's files, which must be the same on all machines"))
    }

    fn note_processors(&self) {
        let members = &self.roster.members;
        let other = members.iter().position(|member| member.processor != members[0].processor);
        if let Some(rank) = other {
            eprintln!(
                "note: {} has another processor than {}: a program that chooses its code by the processor may do something else there",
                self.roster.label(rank),
                self.roster.label(0)
            );
        }
    }
}

fn introduction(file: &Path, experiment: &Experiment, workers: usize) -> io::Result<Introduction> {
    Ok(Introduction {
        program: digest(File::open("/proc/self/exe")?)?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        file: digest(belljar_inputs::open(file)?)?,
        resolved: digest(experiment.to_yaml().as_bytes())?,
        results: std::path::absolute(experiment.general.results())?,
        workers,
    })
}
