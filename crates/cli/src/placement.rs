//! `--placement`.

/// Where the code of programs runs.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum Placement {
    /// In the simulator's own address space: fastest
    Near,
    /// In a native process each: isolated from the simulator's memory
    Far,
    /// The same, with everything at the addresses where Linux has it
    Linux,
    /// Near where the program's image allows it
    Auto,
}

impl Placement {
    /// As experiments have it.
    pub fn setting(self) -> belljar_config::Placement {
        match self {
            Placement::Near => belljar_config::Placement::Near,
            Placement::Far => belljar_config::Placement::Far,
            Placement::Linux => belljar_config::Placement::Linux,
            Placement::Auto => belljar_config::Placement::Auto,
        }
    }
}
