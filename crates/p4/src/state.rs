use crate::control::CounterData;
use crate::hash::Hasher;
use crate::meter::Meter;
use crate::profile::{self, ProfileState};
use crate::program::Program;
use crate::registers::Registers;
use crate::table::TableState;
use belljar_base::{Seed, Set, Stream};

/// State of a program on one switch, which persists between packets.
#[derive(Debug)]
pub(crate) struct State {
    pub tables: Vec<TableState>,
    pub profiles: Vec<ProfileState>,
    pub counters: Vec<Vec<CounterData>>,
    pub meters: Vec<Vec<Meter>>,
    pub registers: Vec<Registers>,
    /// Members of the value sets, in the bytes of their width.
    pub vsets: Vec<Set<Vec<u8>>>,
    pub hashers: Vec<Hasher>,
    pub random: Stream,
}

impl State {
    pub fn new(program: &Program, seed: Seed, name: &str) -> State {
        let mut profiles = profile::states(program);
        let tables =
            (0..program.tables.len()).map(|n| TableState::new(program, n as u32, &mut profiles)).collect();
        State {
            tables,
            profiles,
            counters: program
                .counters
                .iter()
                .map(|array| vec![CounterData::default(); array.size as usize])
                .collect(),
            meters: program.meters.iter().map(|array| vec![Meter::default(); array.size as usize]).collect(),
            registers: program.registers.iter().map(Registers::new).collect(),
            vsets: vec![Set::new(); program.vsets.len()],
            hashers: program
                .calculations
                .iter()
                .map(|calculation| Hasher::new(calculation.algorithm))
                .collect(),
            random: seed.stream(&["p4", name, "random"]),
        }
    }
}
