use crate::{Executor, Explored, Fault, ForcedCall, ForcedChoice, Symptom, Trial, shrink};
use belljar_base::{SimDuration, SimTime};
use belljar_config::{
    Action, CallFault, CrashFiles, Experiment, HostSet, PathContext, ProcessRef, ResetEnds, Scheduling, When,
};
use std::convert::Infallible;

fn experiment(more: &str) -> Experiment {
    let text = format!(
        "general: {{ stop_time: 100 s, seed: 7 }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\n\
        hosts:\n  a: &h {{ network_node_id: 0, processes: [ {{ path: /bin/sh, args: '-c true', expected_final_state: running }} ] }}\n  \
        b: *h\n  c: *h\n  d: {{ network_node_id: 0, processes: [ {{ path: /bin/sh, args: '-c true' }} ] }}\n{more}"
    );
    let loaded = Experiment::parse_in("test.yaml", &text, &PathContext::default());
    loaded.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn draw(experiment: &Experiment, run: u64) -> Vec<Fault> {
    Explored::new(experiment, &experiment.exploration()).draw(run)
}

fn faults(more: &str, runs: u64) -> Vec<Fault> {
    let experiment = experiment(more);
    let explore = experiment.exploration();
    let explored = Explored::new(&experiment, &explore);
    (0..runs).flat_map(|run| explored.draw(run)).collect()
}

fn trial(experiment: &Experiment, run: u64) -> Trial {
    Trial::of_run(&Explored::new(experiment, &experiment.exploration()), run)
}

#[test]
fn run_0_has_no_faults_and_others_are_drawn_by_seed_and_number() {
    let experiment = experiment("");
    assert!(draw(&experiment, 0).is_empty());
    assert_eq!(draw(&experiment, 5), draw(&experiment, 5));
    assert_ne!(draw(&experiment, 5), draw(&experiment, 6));
    let mut other = experiment.clone();
    other.general.seed = 8;
    assert_ne!(draw(&experiment, 5), draw(&other, 5));
}

#[test]
fn every_kind_is_drawn_within_its_bounds() {
    let bounds = "explore: { hosts: [a, b, c], between: [20 s, 50 s], faults: [2, 4], for: [1 s, 10 s], kinds: \
        { clock: { step: 3 s }, crash: { files: [kept, lost] }, lossy: { packet_loss: [0.1, 0.2] }, slow: { latency: [10 ms, 80 ms] }, \
        one_way: , partition: , pause: , stop: , reset: { ends: [first, second] }, kill: , dns: { names: db, answers: timeout }, memory: { limit: [8 MiB, 60 MiB] }, calls: { share: [0.01, 0.1] }, cpu: { share: [0.05, 0.2], period: [20 ms, 60 ms] }, pause_process: , disk: { faults: [sync_time, full, bit_rot], sync_time: [5 ms, 80 ms] } } }";
    let all = faults(bounds, 500);
    let mut kinds: Vec<&str> = all.iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "calls",
            "clock",
            "cpu",
            "crash",
            "disk",
            "dns",
            "kill",
            "lossy",
            "memory",
            "one_way",
            "partition",
            "pause",
            "pause_process",
            "reset",
            "slow",
            "stop"
        ]
    );
    let (first, last) = (SimTime::from_secs(20), SimTime::from_secs(50));
    let mut losing = 0;
    for event in all.iter().flat_map(|fault| &fault.events) {
        let When::At(at) = event.when else { panic!("{event:?} has no fixed time") };
        let end = at + event.lasting.unwrap_or(SimDuration::ZERO);
        assert!(at >= first && end <= last, "{event:?}");
        assert!(
            event.lasting.is_none_or(|time| (1_000..=10_000).contains(&(time.as_nanos() / 1_000_000))),
            "{event:?}"
        );
        match &event.action {
            Action::Partition(groups) => {
                let [HostSet::Some(one), HostSet::Some(other)] = &groups[..] else { panic!("{groups:?}") };
                assert!(!one.is_empty() && !other.is_empty() && one.len() + other.len() == 3);
            }
            Action::Clock { step_ns: Some(step), .. } => {
                assert!(step.unsigned_abs() <= 3_000_000_000 && *step != 0)
            }
            Action::CallFault { fault: CallFault::Drawn { rate, .. }, .. } => {
                assert!((0.01..=0.1).contains(rate), "{rate}");
            }
            Action::DiskFault { fault, .. } => {
                let times =
                    fault.sync_time.map(|(least, most)| (least == most, least.as_nanos() / 1_000_000));
                assert!(times.is_none_or(|(is_one, time)| is_one && (5..=80).contains(&time)), "{fault:?}");
                assert!(fault.sync_time.is_some() || fault.full || (0.001..=0.1).contains(&fault.bit_rot));
            }
            Action::Kill(HostSet::Some(hosts), ProcessRef::Number(0)) => assert_eq!(hosts.len(), 1),
            Action::DnsAnswers { fault, .. } => assert_eq!(fault.names, ["db"]),
            Action::Memory { limit, .. } => assert!((8 << 20..=60 << 20).contains(limit), "{limit}"),
            Action::PauseProcess(HostSet::Some(hosts), ProcessRef::Number(0)) => assert_eq!(hosts.len(), 1),
            Action::Cpu { share, .. } => {
                assert!((0.049..=0.201).contains(&share.share()), "{share:?}");
                assert!((20..=60).contains(&(share.period.as_nanos() / 1_000_000)), "{share:?}");
            }
            Action::PauseProcess(..) | Action::Kill(..) => panic!("{event:?}"),
            Action::ConnectionReset { between, ends } => {
                assert!(between[0] != between[1] && *ends != ResetEnds::Both, "{event:?}");
            }
            Action::Crash { files, .. } => losing += usize::from(*files == CrashFiles::Lost),
            Action::Change(_, change) => {
                assert!(change.loss.is_none_or(|loss| (0.1..=0.2).contains(&loss)), "{change:?}");
                let latency = change.latency.map(|latency| latency.as_nanos() / 1_000_000);
                assert!(latency.is_none_or(|latency| (10..=80).contains(&latency)), "{change:?}");
            }
            _ => {}
        }
    }
    let crashes = all.iter().filter(|fault| fault.kind == "crash").count();
    assert!(losing > crashes / 4 && losing < crashes * 3 / 4, "{losing} of {crashes}");
}

#[test]
fn kills_name_the_processes_that_are_to_run_or_those_of_the_section() {
    let named = faults("explore: { kinds: { kill: { names: [worker*, 'postgres: checkpointer'] } } }", 100);
    let names = named.iter().flat_map(|fault| &fault.events).map(|event| match &event.action {
        Action::Kill(_, ProcessRef::Program(name)) => name.clone(),
        other => panic!("{other:?}"),
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    assert_eq!(names, ["postgres: checkpointer", "worker*"]);
}

/// Three hosts with three versions of a program.
fn rolling(upgrades: &str) -> Experiment {
    let text = format!(
        "general: {{ stop_time: 100 s, seed: 7 }}\nnetwork: {{ graph: {{ type: 1_gbit_switch }} }}\n\
        hosts:\n  a: &h {{ network_node_id: 0, processes: [ &p {{ path: /bin/sh, args: '-c true', expected_final_state: running }}, \
        {{ <<: *p, start_time: never }}, {{ <<: *p, start_time: never }} ] }}\n  b: *h\n  c: *h\n\
        explore: {{ between: [10 s, 60 s], kinds: {{ upgrade: {{ upgrades: {upgrades} }} }} }}\n"
    );
    let loaded = Experiment::parse_in("test.yaml", &text, &PathContext::default());
    loaded.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn upgrades_of_several_hosts_are_drawn_in_any_order_and_back() {
    let experiment = rolling("{ upgrade: 0, to: 1, hosts: all }");
    let (mut orders, mut back) = (Vec::new(), 0);
    for run in 1..200 {
        let faults = trial(&experiment, run).faults;
        let mut order = Vec::new();
        for event in faults.iter().flat_map(|fault| &fault.events) {
            let Action::Upgrade { hosts: HostSet::Some(hosts), .. } = &event.action else {
                panic!("{event:?}")
            };
            let end = event.first() + event.lasting.unwrap_or(SimDuration::ZERO);
            assert!(event.first() >= SimTime::from_secs(10) && end <= SimTime::from_secs(60), "{event:?}");
            back += usize::from(event.lasting.is_some());
            order.push(hosts[0].0);
        }
        orders.push(order);
    }
    let first: Vec<&[u32]> = orders.iter().filter_map(|order| order.get(..3)).collect();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert!(first.contains(&&order[..]), "{order:?} of {first:?}");
    }
    assert!(back > 100, "{back}");
    assert_eq!(
        Experiment::parse_in("again.yaml", &experiment.to_yaml(), &PathContext::default()).unwrap().explore,
        experiment.explore
    );
}

#[test]
fn upgrades_follow_each_other_whatever_is_removed() {
    let experiment =
        rolling("[{ upgrade: 0, to: 1, hosts: all }, { upgrade: 1, to: 2, hosts: { one_of: [a, b] } }]");
    let mut thirds = 0;
    for run in 1..300 {
        let whole = trial(&experiment, run);
        for left_out in 0..=whole.faults.len() {
            let mut trial = whole.clone();
            if left_out < trial.faults.len() {
                trial.faults.remove(left_out);
            }
            let mut current = [0; 3];
            let mut changes = Vec::new();
            for event in trial.experiment().events {
                let Action::Upgrade { hosts: HostSet::Some(hosts), process, to, .. } = &event.action else {
                    panic!()
                };
                let (ProcessRef::Number(from), ProcessRef::Number(to)) = (process, to) else { panic!() };
                changes.push((event.first(), hosts[0].index(), *from, *to));
                changes
                    .extend(event.lasting.map(|time| (event.first() + time, hosts[0].index(), *to, *from)));
            }
            changes.sort();
            for (at, host, from, to) in changes {
                assert_eq!(current[host], from, "run {run} without {left_out} at {at:?}");
                current[host] = to;
                thirds += usize::from(to == 2);
            }
        }
    }
    assert!(thirds > 50, "{thirds}");
}

#[test]
fn runs_have_from_the_least_to_the_largest_number_of_faults() {
    let experiment = experiment("explore: { faults: [2, 4] }");
    let counts: Vec<usize> = (1..200).map(|run| draw(&experiment, run).len()).collect();
    assert_eq!((counts.iter().min(), counts.iter().max()), (Some(&2), Some(&4)));
}

#[test]
fn the_default_spares_hosts_that_are_to_end() {
    let experiment = experiment("");
    let names: Vec<&str> =
        experiment.exploration().hosts.iter().map(|id| experiment.node_name(*id)).collect();
    assert_eq!(names, ["a", "b", "c"]);
}

#[test]
fn a_trial_is_an_experiment_that_loads_again() {
    let more = "events:\n- { every: 10 s, probability: 0.5, crash: { one_of: [a, b] }, for: 2 s }\n\
        - { at: 80 s, partition: [a, b], name: own }\n- { at: 90 s, heal: own }\n\
        properties:\n- { name: p, eventually: { matches: x, within: 1 s, after: faults } }\nexplore: {}";
    let experiment = experiment(more);
    for run in 0..50 {
        let trial = trial(&experiment, run);
        let of_run = trial.experiment();
        assert_eq!(of_run.general.seed, 7 + run);
        let text = of_run.to_yaml();
        let again = Experiment::parse_in("again.yaml", &text, &PathContext::default());
        let again = again.unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(again.to_yaml(), text);
        assert_eq!(of_run.explore, None);
    }
}

/// Executor that looks at trials.
struct Oracle<'a> {
    shows: &'a dyn Fn(&Trial) -> bool,
    unusual: Vec<ForcedChoice>,
    executed: usize,
}

impl Executor for Oracle<'_> {
    type Error = Infallible;
    fn first_that_shows(&mut self, trials: &[Trial]) -> Result<Option<usize>, Infallible> {
        self.executed += trials.len();
        Ok(trials.iter().position(|trial| (self.shows)(trial)))
    }
    fn unusual_choices(&mut self, _: &Trial) -> Result<Vec<ForcedChoice>, Infallible> {
        Ok(self.unusual.clone())
    }
}

/// Shrinks a run by an oracle that looks at the experiment.
fn shrunk(experiment: &Experiment, is_safety: bool, shows: &dyn Fn(&Experiment) -> bool) -> Trial {
    let runs = 1..1_000;
    let trials = runs.map(|run| trial(experiment, run));
    let trial = trials.into_iter().find(|trial| shows(&trial.experiment())).expect("a run that shows it");
    let symptom = Symptom { text: "s".to_owned(), is_safety };
    let mut oracle = Oracle { shows: &|trial| shows(&trial.experiment()), unusual: Vec::new(), executed: 0 };
    let Ok(shrunk) = shrink(trial, &symptom, &[], 2_000, &mut oracle);
    assert!(shrunk.is_minimal && shows(&shrunk.trial.experiment()));
    shrunk.trial
}

fn crashes(experiment: &Experiment, name: &str) -> usize {
    let id = experiment.host_by_name(name).expect("a host");
    let crash = |action: &Action| matches!(action, Action::Crash { hosts: HostSet::Some(hosts), .. } if hosts[..] == [id]);
    experiment.events.iter().filter(|event| crash(&event.action)).count()
}

#[test]
fn shrinking_keeps_what_the_symptom_needs_and_nothing_else() {
    let experiment = experiment("explore: { faults: [6, 9] }");
    let needs = |experiment: &Experiment| {
        let is_partition = |action: &Action| matches!(action, Action::Partition(_));
        let b = experiment.host_by_name("b").expect("a host");
        crashes(experiment, "a") >= 2
            && experiment.events.iter().any(|event| is_partition(&event.action))
            && !experiment.hosts[b.index()].processes.is_empty()
    };
    let trial = shrunk(&experiment, true, &needs);
    let mut kinds: Vec<&str> = trial.faults.iter().map(|fault| fault.kind).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["crash", "crash", "partition"]);
    assert_eq!(trial.busy_hosts().len(), 1, "b alone is needed");
    let last = trial.faults.iter().map(|fault| fault.events[0].first()).max();
    assert!(
        trial.stop > last.expect("faults") && trial.stop <= last.expect("faults") + SimDuration::from_secs(1)
    );
    for fault in &trial.faults {
        let lasting = fault.events[0].lasting.expect("a duration");
        assert!(lasting <= SimDuration::from_millis(1), "{lasting}");
    }
}

#[test]
fn a_host_whose_absence_is_the_failure_stays() {
    let experiment = experiment("explore: { faults: [4, 6] }");
    let runs = |experiment: &Experiment, name: &str| {
        let id = experiment.host_by_name(name).expect("a host");
        !experiment.hosts[id.index()].processes.is_empty()
    };
    // Client d gets no answer where server a is away, for a time or altogether.
    let shows = |experiment: &Experiment| {
        runs(experiment, "d") && (crashes(experiment, "a") >= 1 || !runs(experiment, "a"))
    };
    let trial = shrunk(&experiment, true, &shows);
    let busy: Vec<&str> = trial.busy_hosts().iter().map(|id| experiment.node_name(*id)).collect();
    assert_eq!((trial.faults.len(), busy), (1, vec!["a", "d"]));
}

#[test]
fn what_did_not_happen_in_time_is_not_looked_for_in_shorter_runs() {
    let experiment = experiment("explore: { faults: [4, 6] }");
    let trial = shrunk(&experiment, false, &|experiment| crashes(experiment, "a") >= 1);
    assert_eq!((trial.faults.len(), trial.stop, trial.idle.len()), (1, SimTime::from_secs(100), 0));
}

#[test]
fn slow_processors_become_as_fast_as_the_symptom_allows() {
    let experiment = experiment("explore: { faults: [2, 3], kinds: { cpu: { share: [0.01, 0.1] } } }");
    let shows = |experiment: &Experiment| {
        let is_slow = |action: &Action| matches!(action, Action::Cpu { share, .. } if share.share() < 0.3 && share.period > SimDuration::from_millis(4));
        experiment.events.iter().any(|event| is_slow(&event.action))
    };
    let trial = shrunk(&experiment, false, &shows);
    let [fault] = &trial.faults[..] else { panic!("{:?}", trial.faults) };
    let Action::Cpu { share, .. } = &fault.events[0].action else { panic!("{fault:?}") };
    assert!((0.15..0.3).contains(&share.share()) && share.period < SimDuration::from_millis(10), "{share:?}");
}

#[test]
fn the_limit_of_executed_trials_holds() {
    let experiment = experiment("explore: { faults: [8, 8] }");
    let trial = trial(&experiment, 1);
    let mut none = Oracle { shows: &|_| false, unusual: Vec::new(), executed: 0 };
    let symptom = Symptom { text: "s".to_owned(), is_safety: true };
    let Ok(shrunk) = shrink(trial, &symptom, &[], 5, &mut none);
    assert!(!shrunk.is_minimal);
    assert_eq!((none.executed, shrunk.trial.faults.len()), (5, 8));
}

#[test]
fn drawn_results_of_calls_become_single_calls() {
    let experiment = experiment("explore: { faults: [2, 3], kinds: [calls, pause] }");
    let is_drawn = |event: &belljar_config::Event| {
        matches!(event.action, Action::CallFault { fault: CallFault::Drawn { .. }, .. })
    };
    let one_call =
        |trial: &Trial| trial.experiment().events.iter().filter(|event| is_drawn(event)).count() == 1;
    let trial =
        (1..100).map(|run| trial(&experiment, run)).find(one_call).expect("a run with one such fault");
    let event = trial.experiment().events.into_iter().find(is_drawn).expect("an event");
    let Action::CallFault { hosts: HostSet::Some(hosts), .. } = &event.action else { panic!("{event:?}") };
    let record: String = (1..=40)
        .map(|number| {
            format!(
                "{{\"time\":1,\"since\":{},\"pid\":1000,\"call\":\"read\",\"number\":{number},\"result\":\"short\"}}\n",
                event.first().as_secs_f64()
            )
        })
        .collect();
    let forced = ForcedCall::of_host(experiment.node_name(hosts[0]), &record);
    assert_eq!(forced.len(), 40);
    // The symptom needs the calls 7 and 31.
    let shows = |experiment: &Experiment| {
        let number = |event: &belljar_config::Event| match &event.action {
            Action::CallFault { fault: CallFault::One(one), .. } => Some(one.number),
            _ => None,
        };
        let numbers: Vec<u64> = experiment.events.iter().filter_map(number).collect();
        numbers.contains(&7) && numbers.contains(&31) || experiment.events.iter().any(is_drawn)
    };
    let symptom = Symptom { text: "s".to_owned(), is_safety: false };
    let mut oracle = Oracle { shows: &|trial| shows(&trial.experiment()), unusual: Vec::new(), executed: 0 };
    let Ok(shrunk) = shrink(trial, &symptom, &forced, 500, &mut oracle);
    assert!(shrunk.is_minimal);
    let lines = shrunk.trial.event_lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains("results: [short], pid: 1000, call: read, number: 7"), "{lines:?}");
    let text = shrunk.trial.experiment().to_yaml();
    let again = Experiment::parse_in("again.yaml", &text, &PathContext::default());
    assert_eq!(again.unwrap_or_else(|error| panic!("{error}\n{text}")).to_yaml(), text);
}

#[test]
fn choices_that_the_symptom_does_not_need_take_their_default() {
    let experiment = experiment("explore: { scheduling: random, kinds: [pause] }");
    let trial = trial(&experiment, 1);
    let choice = |number: u64| ForcedChoice {
        stream: format!("host/{}/scheduling/slices", if number < 400 { "a" } else { "b" }),
        index: number % 400,
        value: 1 + number % 7,
    };
    let unusual: Vec<ForcedChoice> = (0..900).map(choice).collect();
    // The symptom needs random order and the choices 17, 18 and 777, as long as choices are forced at all.
    let needed = [17, 18, 777].map(choice);
    let shows = |trial: &Trial| {
        let holds = |choices: &Vec<ForcedChoice>| needed.iter().all(|one| choices.contains(one));
        trial.scheduling == Scheduling::Random && trial.choices.as_ref().is_none_or(holds)
    };
    let symptom = Symptom { text: "s".to_owned(), is_safety: false };
    let mut oracle = Oracle { shows: &shows, unusual, executed: 0 };
    let Ok(shrunk) = shrink(trial.clone(), &symptom, &[], 300, &mut oracle);
    assert!(shrunk.is_minimal && oracle.executed < 120, "{}", oracle.executed);
    assert_eq!(shrunk.trial.choices.as_deref(), Some(&needed[..]));
    assert_eq!(
        shrunk.trial.choice_file().expect("a file").text(),
        "belljar choices 1\n* * default\nhost/a/scheduling/slices 17 4\nhost/a/scheduling/slices 18 5\nhost/b/scheduling/slices 377 1\n"
    );
    // Choices that make no difference stay as drawn.
    let unusual = (0..5).map(choice).collect();
    let mut oracle = Oracle { shows: &|trial| trial.scheduling == Scheduling::Random, unusual, executed: 0 };
    let Ok(shrunk) = shrink(trial, &symptom, &[], 300, &mut oracle);
    assert_eq!((shrunk.is_minimal, shrunk.trial.choices), (true, None));
}
