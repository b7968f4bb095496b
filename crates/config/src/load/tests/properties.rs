use super::round_trip::round_trip;
use super::*;
use crate::events::ProcessRef;
use crate::properties::{Claim, FileSet};
use crate::yaml::Setting;
use belljar_properties::{After, Condition, HistoryClaim, HistoryModel, Level, Quantifier};
use std::path::Path;

const WORLD: &str = "\
general: { stop_time: 60 s }
network: { graph: { type: 1_gbit_switch } }
hosts:
  a: { network_node_id: 0, processes: [ { path: sh }, { path: sh }, { path: cat } ] }
  b: { network_node_id: 0, processes: [ { path: cat } ] }
  idle: { network_node_id: 0, processes: [] }
events:
- { at: 10 s, crash: a, for: 2 s }
";

const PROPERTIES: &str = r#"
properties:
- { name: all, always: '^ok (?<ms>[0-9]+)', lines: ok, where: ["ms < 100", 'ms != "7"'] }
- { name: none, never: "panic \"x\" \\\\", files: stderr, hosts: [b, a], process: cat }
- { name: some, sometimes: leader, files: [stdout, log/*.txt, /var/log/app.log], process: 1, hosts: a }
- { name: soon, eventually: { matches: served, within: 30 s, after: faults } }
- { name: later, eventually: { matches: served, within: 500 ms, after: 59 s } }
- { name: start, eventually: { matches: served, within: 1 min }, hosts: all }
- { name: register, history: history.jsonl, model: cas-register, hosts: '*' }
- { name: bank, history: '*.jsonl', model: list-append, consistency: serializable }
- { name: sdk, assertions: /var/log/sdk.jsonl, hosts: a }
- { name: reset, never: RST, packets: eth0, filter: "tcp port 80 and not host a", lines: TCP }
- { name: telnet, never: { filter: tcp port 23 }, packets: [lo, 'eth*'], hosts: idle }
- { name: back, eventually: { filter: src host a, within: 2 s, after: 5 s }, packets: '*' }
"#;

fn world(properties: &str) -> String {
    format!("{WORLD}{}", properties.trim_start())
}

/// Properties without the host that could not write.
fn valid() -> String {
    world(&PROPERTIES.replace(", hosts: '*'", ""))
}

#[test]
fn properties_are_read() {
    let experiment = parse(&valid());
    let names: Vec<&str> = experiment.properties.iter().map(|property| property.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "all", "none", "some", "soon", "later", "start", "register", "bank", "sdk", "reset", "telnet",
            "back"
        ]
    );
    let [all, none, some, soon, later, start, register, bank, sdk, reset, telnet, back] =
        &experiment.properties[..]
    else {
        panic!()
    };
    assert_eq!((&all.hosts, &all.process), (&None, &None));
    assert_eq!(all.files, [FileSet::Stdout, FileSet::Stderr]);
    let Claim::Lines(claim) = &all.claim else { panic!() };
    assert_eq!((claim.quantifier, claim.comparisons.len()), (Quantifier::Always, 2));
    assert_eq!(none.hosts, Some(vec![HostId(0), HostId(1)]));
    assert_eq!(none.process, Some(ProcessRef::Program("cat".into())));
    assert_eq!(some.process, Some(ProcessRef::Number(1)));
    assert_eq!(
        some.files[1..],
        [FileSet::Matching("log/*.txt".into()), FileSet::Matching("/var/log/app.log".into())]
    );
    let after = |property: &crate::Property| match &property.claim {
        Claim::Lines(claim) => match claim.quantifier {
            Quantifier::Eventually { after, .. } => after,
            _ => panic!(),
        },
        _ => panic!(),
    };
    assert_eq!(after(soon), After::Faults);
    assert_eq!(
        [after(later), after(start)],
        [After::Time(SimTime::from_secs(59)), After::Time(SimTime::ZERO)]
    );
    let history = |property: &crate::Property| match &property.claim {
        Claim::History(HistoryClaim { model: HistoryModel::Named(model), consistency }) => {
            (model.clone(), *consistency)
        }
        _ => panic!(),
    };
    assert_eq!(history(register), ("cas-register".to_owned(), None));
    assert_eq!(history(bank), ("list-append".to_owned(), Some(Level::Serializable)));
    let file = [FileSet::Matching("/var/log/sdk.jsonl".into())];
    assert_eq!((&sdk.claim, &sdk.files[..]), (&Claim::Assertions, &file[..]));
    let set = |interfaces: &[&str], filter: &str| {
        let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
        [FileSet::Packets(crate::PacketSet { interfaces, filter: filter.into() })]
    };
    assert_eq!(reset.files, set(&["eth0"], "tcp port 80 and not host a"));
    assert_eq!(telnet.files, set(&["lo", "eth*"], ""));
    let Claim::Lines(claim) = &telnet.claim else { panic!() };
    assert_eq!(claim.condition, Condition::Passes("tcp port 23".into()));
    let filters = |host, interface| experiment.judged_packets(HostId(host), interface);
    assert_eq!(filters(0, "lo").as_deref(), Some(""));
    assert_eq!(filters(2, "wg0").as_deref(), Some(""));
    assert_eq!((back.packets().is_some(), soon.packets()), (true, None));
    // Hosts without programs are none of a property's, but for one about packets.
    let concerned = |property: &crate::Property| {
        let hosts = experiment.hosts.iter().enumerate();
        hosts
            .filter(|(n, host)| property.concerns(HostId(*n as u32), host))
            .map(|(n, _)| n)
            .collect::<Vec<_>>()
    };
    assert_eq!([concerned(all), concerned(none), concerned(some)], [vec![0, 1], vec![0, 1], vec![0]]);
    assert_eq!([concerned(reset), concerned(telnet)], [vec![0, 1, 2], vec![2]]);
    round_trip(&valid());
}

#[test]
fn a_run_that_the_command_line_ends_before_all_faults_counts_from_the_start() {
    let stop = [Setting::parse("general.stop_time=\"9 s\"").unwrap()];
    let load = |text: &str| Experiment::parse_with("test.yaml", text, Path::new("/nowhere"), &stop);
    let error = |text: &str| load(text).unwrap_err().message;
    assert_eq!(error(&valid()), "the window ends at 30 s or later, and the simulation stops at 9 s");
    let short = valid().replace("within: 30 s", "within: 8 s").replace("within: 1 min", "within: 9 s");
    assert_eq!(error(&short), "no line can follow: the simulation stops at 9 s");
    let experiment = load(&short.replace("after: 59 s", "after: 5 s"));
    let experiment = experiment.unwrap_or_else(|error| panic!("{error}"));
    assert!(experiment.events.is_empty());
    let Claim::Lines(claim) = &experiment.properties[3].claim else { panic!() };
    let within = SimDuration::from_secs(8);
    assert_eq!(claim.quantifier, Quantifier::Eventually { within, after: After::Time(SimTime::ZERO) });
}

#[test]
fn programs_are_given_the_file_of_their_assertions() {
    let variables = |file: &str, environment: &str| {
        let text = world(&format!("properties: [ {{ name: sdk, assertions: {file}, hosts: a }} ]"));
        let text = text.replacen("path: sh", &format!("path: sh, environment: {environment}"), 1);
        let hosts = parse(&text).hosts;
        let of = |host: &crate::Host| {
            let all = host
                .processes
                .iter()
                .map(|process| process.environment.clone().into_iter().collect::<Vec<_>>());
            all.collect::<Vec<_>>()
        };
        (of(&hosts[0]).remove(0), of(&hosts[1]))
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let (own, others) = variables("/var/log/sdk.jsonl", "{}");
    let output = pair("ANTITHESIS_SDK_LOCAL_OUTPUT", "/var/log/sdk.jsonl");
    assert_eq!(own, [pair("ANTITHESIS_OUTPUT_DIR", "/var/log"), output]);
    assert!(others.iter().all(Vec::is_empty));
    let (own, _) = variables("sdk.jsonl", "{ ANTITHESIS_OUTPUT_DIR: /x }");
    assert_eq!(own, [pair("ANTITHESIS_OUTPUT_DIR", "/x"), pair("ANTITHESIS_SDK_LOCAL_OUTPUT", "sdk.jsonl")]);
    let (own, _) = variables("/out.jsonl", "{}");
    assert_eq!(own, [pair("ANTITHESIS_SDK_LOCAL_OUTPUT", "/out.jsonl")]);
}

#[test]
fn filters_of_several_properties_are_joined() {
    let text = "properties:\n- { name: x, never: y, packets: eth0, filter: tcp }\n\
                - { name: z, never: y, packets: '*', filter: udp or icmp }\n";
    let experiment = parse(&world(text));
    let filters = |interface| experiment.judged_packets(HostId(0), interface);
    assert_eq!(filters("eth0").as_deref(), Some("(tcp) or (udp or icmp)"));
    assert_eq!(filters("lo").as_deref(), Some("udp or icmp"));
    assert_eq!(parse(&world("properties: []")).judged_packets(HostId(0), "eth0"), None);
}

#[test]
fn other_backends_refuse_what_needs_times() {
    let refused = parse(&valid()).timed_properties();
    let paths: Vec<&str> = refused.iter().map(|refusal| refusal.path.as_str()).collect();
    let expected = ["3.eventually", "4.eventually", "5.eventually", "6.history", "7.history"];
    assert_eq!(paths, expected.map(|path| format!("properties.{path}")));
    assert_eq!(refused[0].message, "property 'soon': the times of lines are recorded in simulations alone");
    let hosts = "property 'register': the order of lines in files of 2 hosts is known in simulations alone";
    assert_eq!(refused[3].message, hosts);
    let packets = parse(&valid()).refuse_packet_properties();
    let paths: Vec<&str> = packets.iter().map(|refusal| refusal.path.as_str()).collect();
    assert_eq!(paths, ["properties.9.packets", "properties.10.packets", "properties.11.packets"]);
    assert_eq!(packets[0].message, "property 'reset': a deployment captures no packets");
    let one = world("properties: [ { name: r, history: h.jsonl, model: register, hosts: a } ]");
    assert_eq!(parse(&one).timed_properties(), []);
}
