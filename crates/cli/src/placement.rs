//! `--placement`.

/// Where the code of programs runs.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub enum PlacementOption {
    /// In the simulator's own address space: fastest
    Near,
    /// In a native process each: isolated from the simulator's memory
    Far,
    /// As far, with everything at the addresses where Linux has it
    Linux,
    /// Near where the program's image allows it
    Auto,
}

impl PlacementOption {
    /// Value of the experiment's setting.
    pub fn setting(self) -> belljar_config::PlacementSetting {
        match self {
            PlacementOption::Near => belljar_config::PlacementSetting::Near,
            PlacementOption::Far => belljar_config::PlacementSetting::Far,
            PlacementOption::Linux => belljar_config::PlacementSetting::Linux,
            PlacementOption::Auto => belljar_config::PlacementSetting::Auto,
        }
    }
}
