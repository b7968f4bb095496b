//! Launchers of parallel programs, detected by the environment variables of each process.

/// Upper bound on the number of ranks: each pair has a connection.
pub const MOST: usize = 1_024;

/// Position of this process among those started by a launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Rank of the process.
    pub rank: usize,
    /// Number of ranks.
    pub count: usize,
    /// Name of the job, if the launcher gives one. It distinguishes jobs that run at the same time.
    pub job: Option<String>,
    /// True if the launcher states that all ranks are on one machine, false if it states that they are not.
    pub on_one_machine: Option<bool>,
    /// Descriptor of the launcher's PMI connection, if it has one.
    pub pmi: Option<i32>,
}

/// Environment variables of a launcher.
struct Launcher {
    rank: &'static str,
    count: &'static str,
    /// Number of ranks on this machine.
    local: &'static str,
    /// Number of machines.
    machines: &'static str,
    job: &'static [&'static str],
    pmi: &'static str,
}

/// Known launchers, the most specific first: an `mpirun` inside a Slurm job starts its helpers by `srun`,
/// whose variables then describe the helpers.
const LAUNCHERS: [Launcher; 3] = [
    // Open MPI.
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        count: "OMPI_COMM_WORLD_SIZE",
        local: "OMPI_COMM_WORLD_LOCAL_SIZE",
        machines: "",
        job: &["PMIX_NAMESPACE"],
        pmi: "",
    },
    // MPICH and its derivatives, such as Intel MPI; and Slurm with --mpi=pmi2, which alone sets the number of
    // machines.
    Launcher {
        rank: "PMI_RANK",
        count: "PMI_SIZE",
        local: "MPI_LOCALNRANKS",
        machines: "SLURM_STEP_NUM_NODES",
        job: &[],
        pmi: "PMI_FD",
    },
    // Slurm. A batch script, which is one process, has SLURM_NTASKS too; SLURM_STEP_NUM_TASKS is set only in
    // processes started by srun.
    Launcher {
        rank: "SLURM_PROCID",
        count: "SLURM_STEP_NUM_TASKS",
        local: "",
        machines: "SLURM_STEP_NUM_NODES",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        pmi: "",
    },
];

/// Determines this process's position from its environment; `None` if it was started alone.
///
/// # Errors
/// A message, if the variables contradict each other or there are too many ranks.
pub fn place(variable: impl Fn(&str) -> Option<String>) -> Result<Option<Place>, String> {
    let found = LAUNCHERS
        .iter()
        .find_map(|launcher| Some((launcher, variable(launcher.rank)?, variable(launcher.count)?)));
    let Some((launcher, rank, count)) = found else { return Ok(None) };
    let number = |text: &str| text.parse::<usize>().ok();
    let (rank, count) = match (number(&rank), number(&count)) {
        (Some(rank), Some(count)) if rank < count => (rank, count),
        _ => {
            let Launcher { rank: name, count: of, .. } = launcher;
            return Err(format!(
                "{name} is '{rank}' and {of} is '{count}', which is no place among processes: start them by a launcher, or run \
                 alone by --no-ranks"
            ));
        }
    };
    if count > MOST {
        return Err(format!(
            "there are {count} ranks, and at most {MOST} can run one simulation: start fewer"
        ));
    }
    let given = |name: &str| variable(name).as_deref().and_then(number);
    let on_one_machine = given(launcher.local).map(|local| local == count);
    let on_one_machine = on_one_machine.or(given(launcher.machines).map(|machines| machines == 1));
    let job: Option<Vec<String>> = launcher.job.iter().map(|name| variable(name)).collect();
    let job = job.filter(|parts| !parts.is_empty()).map(|parts| parts.join("."));
    let pmi = variable(launcher.pmi).and_then(|text| text.parse().ok());
    Ok((count > 1).then_some(Place { rank, count, job, on_one_machine, pmi }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(environment: &[(&str, &str)]) -> Result<Option<Place>, String> {
        place(|name| environment.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_process_that_was_started_alone_has_no_place() {
        assert_eq!(of(&[("PATH", "/bin")]), Ok(None));
        assert_eq!(of(&[("PMI_RANK", "0"), ("PMI_SIZE", "1")]), Ok(None));
        // Batch script of Slurm.
        assert_eq!(of(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_JOB_ID", "7")]), Ok(None));
    }

    #[test]
    fn each_launcher_is_known_and_the_inner_one_counts() {
        let slurm = [
            ("SLURM_PROCID", "1"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_STEP_NUM_NODES", "2"),
            ("SLURM_JOB_ID", "7"),
            ("SLURM_STEP_ID", "0"),
        ];
        let found = of(&slurm).unwrap().unwrap();
        assert_eq!((found.rank, found.count, found.on_one_machine), (1, 2, Some(false)));
        assert_eq!((found.job.as_deref(), found.pmi), (Some("7.0"), None));
        let pmi = [("PMI_RANK", "3"), ("PMI_SIZE", "4"), ("PMI_FD", "9"), ("MPI_LOCALNRANKS", "4")];
        let found = of(&[&slurm[..], &pmi].concat()).unwrap().unwrap();
        assert_eq!((found.rank, found.count, found.on_one_machine), (3, 4, Some(true)));
        assert_eq!((found.job, found.pmi), (None, Some(9)));
        // srun --mpi=pmi2 does not set the number of ranks on this machine.
        let found = of(&[&slurm[..], &pmi[..3]].concat()).unwrap().unwrap();
        assert_eq!((found.rank, found.on_one_machine, found.pmi), (3, Some(false), Some(9)));
        let open = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "8"), ("PMIX_NAMESPACE", "a@1")];
        let found = of(&[&slurm[..], &pmi, &open].concat()).unwrap().unwrap();
        assert_eq!((found.rank, found.count, found.on_one_machine), (0, 8, None));
        assert_eq!(found.job.as_deref(), Some("a@1"));
    }

    #[test]
    fn contradictions_are_named() {
        for (rank, count) in [("4", "4"), ("x", "2"), ("0", "")] {
            let error = of(&[("PMI_RANK", rank), ("PMI_SIZE", count)]).unwrap_err();
            assert!(error.contains("PMI_RANK is") && error.contains("--no-ranks"), "{error}");
        }
        let error = of(&[("PMI_RANK", "0"), ("PMI_SIZE", "5000")]).unwrap_err();
        assert!(error.contains("at most 1024"), "{error}");
    }
}
