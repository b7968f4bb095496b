//! Options of `belljar emulate` for dilated time.

use crate::failure::Failure;
use belljar_config::{Experiment, parse_time};
use belljar_emulation::p4;
use belljar_emulation::quanta::Factor;

/// Interval between two barriers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantum {
    /// The experiment's shortest latency.
    Auto,
    /// Interval in nanoseconds.
    Of(u64),
}

/// Argument of `--tdf`.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// The factor adapts to the machine.
    Auto,
    /// A factor, of all nodes or of one, from a time on.
    Factor(Factor),
}

/// Upper bound on the first factor of `auto`, in thousandths.
const FIRST_MOST: u64 = 16_000;

/// Parses the argument of `--tdf`.
pub fn parse(text: &str) -> Result<Setting, String> {
    if text == "auto" {
        return Ok(Setting::Auto);
    }
    let (node, rest) = match text.split_once('=') {
        Some((node, rest)) => (Some(node.to_owned()), rest),
        None => (None, text),
    };
    let (number, at_ns) = match rest.split_once('@') {
        Some((number, at)) => (number, parse_time(at)?.as_nanos()),
        None => (rest, 0),
    };
    match number.parse::<f64>() {
        Ok(tdf) if (1.0..=1_000.0).contains(&tdf) => {
            Ok(Setting::Factor(Factor { node, at_ns, tdf_milli: (tdf * 1e3).round() as u64 }))
        }
        _ => Err(format!("'{number}' is no factor from 1 to 1000, such as 10, and not 'auto'")),
    }
}

/// Parses the argument of `--quantum`.
pub fn parse_quantum(text: &str) -> Result<Quantum, String> {
    const BOUNDS: std::ops::RangeInclusive<u64> = 10_000..=1_000_000_000;
    match text {
        "auto" => Ok(Quantum::Auto),
        _ => match parse_time(text)?.as_nanos() {
            ns if BOUNDS.contains(&ns) => Ok(Quantum::Of(ns)),
            _ => Err(format!("'{text}' is no time from 10 us to 1 s, such as 1 ms, and not 'auto'")),
        },
    }
}

/// Combined settings of the options.
#[derive(Debug, Default, PartialEq)]
pub struct Dilated {
    /// First factor in thousandths, if time is dilated.
    pub tdf_milli: Option<u64>,
    /// True if the factor adapts to the machine.
    pub is_auto: bool,
    /// Later factors, and factors of single nodes.
    pub factors: Vec<Factor>,
    /// Nanoseconds between two barriers, if there are any; 0 stands for the shortest latency.
    pub quantum_ns: Option<u64>,
}

impl Dilated {
    /// Combines the options, and checks them against the experiment.
    pub fn new(
        settings: &[Setting],
        quantum: Option<Quantum>,
        experiment: &Experiment,
    ) -> Result<Dilated, Failure> {
        let hosts = experiment.hosts.iter().map(|host| &*host.name);
        let nodes: Vec<&str> = hosts.chain(p4::names(experiment)).collect();
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Dilated::of(settings, quantum, &nodes, processors).map_err(Failure::usage)
    }

    fn of(
        settings: &[Setting],
        quantum: Option<Quantum>,
        nodes: &[&str],
        processors: usize,
    ) -> Result<Dilated, String> {
        let mut dilated = Dilated::default();
        for setting in settings {
            match setting {
                Setting::Auto => dilated.is_auto = true,
                Setting::Factor(Factor { node: None, at_ns: 0, tdf_milli }) => {
                    dilated.tdf_milli = Some(*tdf_milli);
                }
                Setting::Factor(factor) => dilated.factors.push(factor.clone()),
            }
        }
        if let Some(name) = dilated
            .factors
            .iter()
            .filter_map(|factor| factor.node.as_deref())
            .find(|name| !nodes.contains(name))
        {
            return Err(format!("--tdf: '{name}' is no host and no P4 switch of the experiment"));
        }
        if dilated.is_auto && dilated.factors.iter().any(|factor| factor.node.is_none()) {
            return Err("--tdf: 'auto' changes the factor by itself: leave factors with a time out".into());
        }
        dilated.quantum_ns = match quantum {
            Some(Quantum::Of(ns)) => Some(ns),
            Some(Quantum::Auto) => Some(0),
            // Clocks with different rates need barriers to stay in step.
            None => dilated.factors.iter().any(|factor| factor.node.is_some()).then_some(0),
        };
        if dilated.is_auto && dilated.quantum_ns.is_none() {
            // Factor for nodes that each keep a processor busy: TCP is slow to recover from losses under too
            // low a factor.
            let share = (nodes.len() as u64 * 1_000 / processors as u64).clamp(1_000, FIRST_MOST);
            dilated.tdf_milli.get_or_insert(share);
        }
        if dilated.is_auto || !dilated.factors.is_empty() || dilated.quantum_ns.is_some() {
            dilated.tdf_milli.get_or_insert(1_000);
        }
        Ok(dilated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &[&str], quantum: Option<&str>) -> Result<Dilated, String> {
        let settings: Vec<Setting> = settings.iter().map(|text| parse(text).unwrap()).collect();
        Dilated::of(&settings, quantum.map(|text| parse_quantum(text).unwrap()), &["a", "s1", "s2"], 2)
    }

    fn factor(node: Option<&str>, at_ns: u64, tdf_milli: u64) -> Factor {
        Factor { node: node.map(str::to_owned), at_ns, tdf_milli }
    }

    #[test]
    fn factors_have_nodes_and_times() {
        assert_eq!(parse("2.5"), Ok(Setting::Factor(factor(None, 0, 2_500))));
        assert_eq!(parse("a=8@1500ms"), Ok(Setting::Factor(factor(Some("a"), 1_500_000_000, 8_000))));
        assert_eq!(parse("auto"), Ok(Setting::Auto));
        for text in ["0.5", "fast", "2000", "nan", "a=", "a=auto", "4@", "4@soon", ""] {
            assert!(parse(text).is_err(), "{text}");
        }
        for text in ["1 us", "2 s", "short"] {
            assert!(parse_quantum(text).is_err(), "{text}");
        }
    }

    #[test]
    fn options_imply_others() {
        assert_eq!(of(&[], None).unwrap(), Dilated::default());
        assert_eq!(of(&["4"], None).unwrap(), Dilated { tdf_milli: Some(4_000), ..Dilated::default() });
        let auto = Dilated { tdf_milli: Some(1_500), is_auto: true, ..Dilated::default() };
        assert_eq!(of(&["auto"], None).unwrap(), auto);
        assert_eq!(of(&["auto", "3"], None).unwrap(), Dilated { tdf_milli: Some(3_000), ..auto });
        assert_eq!(of(&["auto"], Some("auto")).unwrap().tdf_milli, Some(1_000));
        let turns = of(&["a=8"], None).unwrap();
        assert_eq!(
            (turns.tdf_milli, turns.quantum_ns, turns.factors),
            (Some(1_000), Some(0), vec![factor(Some("a"), 0, 8_000)])
        );
        assert_eq!(of(&["2", "6@5s"], Some("1 ms")).unwrap().quantum_ns, Some(1_000_000));
        assert!(of(&["b=2"], None).unwrap_err().contains("'b' is no host"));
        assert!(of(&["auto", "6@5s"], None).unwrap_err().contains("'auto' changes the factor by itself"));
    }
}
