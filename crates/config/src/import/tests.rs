use super::*;
use crate::{Experiment, FinalState, PathContext};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A folder with a topology file, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Folder {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("belljar-lab-{}-{number}", std::process::id()));
        for (file, text) in files {
            let file = path.join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn file_of(format: &'static dyn Importer) -> &'static str {
    match format.name() {
        "kathara" => "lab.conf",
        "netlab" => "topology.yml",
        "graphml" => "net.graphml",
        "gml" => "net.gml",
        "as-relationships" => "as-rel.txt",
        _ => "lab.clab.yml",
    }
}

fn import(
    format: &'static dyn Importer,
    text: &str,
    files: &[(&str, &str)],
    tolerate_failures: bool,
) -> Result<Imported, ConfigError> {
    let files: Vec<_> = files.iter().copied().chain([(file_of(format), text)]).collect();
    let folder = Folder::new(&files);
    let options = Options { tolerate_failures, ..Options::new(Path::new("")) };
    let mut imported = Format(format).import(&folder.0.join(file_of(format)), &options)?;
    let prefix = format!("{}/", folder.0.display());
    let lab = format!("{}: ", file_of(format));
    for note in &mut imported.notes {
        *note = note.replace(&prefix, "").replace(&lab, "");
    }
    Ok(imported)
}
fn take(format: &'static dyn Importer, text: &str, files: &[(&str, &str)]) -> (Experiment, Vec<String>) {
    let imported = import(format, text, files, false).unwrap_or_else(|e| panic!("{e}"));
    (loaded(&imported), imported.notes)
}
fn loaded(imported: &Imported) -> Experiment {
    let loaded = Experiment::parse_in("out.yaml", &imported.yaml, &PathContext::default());
    loaded.unwrap_or_else(|e| panic!("{e}\n{}", imported.yaml))
}
fn error(format: &'static dyn Importer, text: &str) -> String {
    let error = import(format, text, &[], false).unwrap_err();
    let place = error.position.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
    format!("{place} {}", error.message)
}
/// Lines of the script of a host's only process, without the traps.
fn script(e: &Experiment, host: &str) -> Vec<String> {
    let host = e.hosts.iter().find(|one| one.name == host).unwrap();
    assert_eq!(host.processes.len(), 1, "{:?}", host.processes);
    lines(&host.processes[0])
}
fn lines(process: &crate::Process) -> Vec<String> {
    let is_own = |line: &&str| !line.starts_with("trap ") && *line != "set -E";
    process.args[1].lines().filter(is_own).map(str::to_owned).collect()
}
fn kinds(e: &Experiment) -> Vec<&str> {
    e.topology.devices.iter().map(|device| device.kind.noun().0).collect()
}
fn ends(e: &Experiment) -> Vec<String> {
    let end = |end: &crate::topology::LinkEnd| {
        let interface = &e.node_interfaces(end.node)[end.port];
        let own = interface.addresses.first().map_or("-".to_owned(), |own| own.to_string());
        format!("{}:{} {own}", e.node_name(end.node), interface.name)
    };
    e.topology.links.iter().map(|link| link.ends.each_ref().map(end).join(" = ")).collect()
}

const IMAGE: &str = "programs are those of this machine, not of the image: a host's 'root' takes an image as 'docker save' writes it";

#[test]
fn a_topology_of_containerlab() {
    let (e, notes) = take(
        &containerlab::Containerlab,
        r#"
name: lab
topology:
  kinds: { nokia_srlinux: { image: ghcr.io/nokia/srlinux } }
  nodes:
    SRL_1: { kind: nokia_srlinux, type: ixrd3 }
    br1: { kind: bridge }
    h1:
      kind: linux
      image: alpine
      exec:
      - ip addr add 192.168.1.2/24 dev eth1
      - ip route add default via 192.168.1.1
      - sleep infinity
    h2: { kind: linux }
  links:
  - endpoints: ["SRL_1:ethernet-1/1", "br1:e1"]
    mtu: 9000
  - endpoints: ["h1:eth1", "br1:e2"]
  - type: veth
    endpoints: [ { node: h2, interface: eth1, mac: 02:00:00:00:00:AA }, { node: br1, interface: e3 } ]
  - endpoints: ["h2:eth2", "host:veth0"]
"#,
        &[],
    );
    let expected = [
        "srl-1:ethernet-1-1 192.168.1.1/24 = br1:e1 -",
        "h1:eth1 192.168.1.2/24 = br1:e2 -",
        "h2:eth1 192.168.1.3/24 = br1:e3 -",
    ];
    assert_eq!(ends(&e), expected);
    assert_eq!((e.topology.links[0].mtu, kinds(&e)), (9_000, vec!["switch", "router"]));
    assert_eq!(e.hosts[0].routing.routes[0].via, [std::net::Ipv4Addr::new(192, 168, 1, 1)]);
    assert_eq!(e.hosts[1].interfaces[0].mac, Some([2, 0, 0, 0, 0, 0xaa]));
    let expected = [
        "'h2' has no address at eth1: one is assigned".to_owned(),
        "'srl-1' has no address at ethernet-1-1: one is assigned".to_owned(),
        format!("line 4: {IMAGE}"),
        "line 6: 'SRL_1' is called 'srl-1' here".to_owned(),
        "line 6: 'srl-1' of kind 'nokia_srlinux' becomes a router with routes of shortest paths".to_owned(),
        "line 6: 'type' of nodes is not taken over".to_owned(),
        format!("line 10: {IMAGE}"),
        "line 17: interface 'ethernet-1/1' of 'srl-1' is called 'ethernet-1-1' here".to_owned(),
        "line 22: a link to 'host' is left out: it leads out of the topology".to_owned(),
    ];
    assert_eq!(notes, expected);
    assert_eq!(script(&e, "h1"), ["sleep infinity"]);
    assert_eq!(e.hosts[0].processes[0].expected_final_state, FinalState::Exited(0));
}

#[test]
fn a_lab_of_kathara() {
    let (e, notes) = take(
        &kathara::Kathara,
        "LAB_DESCRIPTION=\"two networks\"\n# comment\npc1[0]=\"A\"\npc1[image]=\"kathara/base\"\nr1[0]=A\nr1[1]=\"B/02:00:00:00:00:01\"\n\
         r2[0]='B'\nr2[1]=\"C\"\npc2[0]=\"C\"\npc3[0]=\"C\"\npc3[bridged]=true\n",
        &[
            ("pc1.startup", "ip address add 195.11.14.5/24 dev eth0\nip route add default via 195.11.14.1\n"),
            (
                "r1.startup",
                "ifconfig eth0 195.11.14.1 netmask 255.255.255.0 up\nifconfig eth1 100.0.0.9/30 up\n/etc/init.d/frr start\n",
            ),
            (
                "r2.startup",
                "ip a add 100.0.0.10/30 dev eth0\nroute add -net 195.11.14.0/24 gw 100.0.0.9\nmystery\n",
            ),
        ],
    );
    let expected = [
        "pc1:eth0 195.11.14.5/24 = r1:eth0 195.11.14.1/24",
        "r1:eth1 100.0.0.9/30 = r2:eth0 100.0.0.10/30",
        "r2:eth1 - = c:p1 -",
        "pc2:eth0 10.0.0.1/24 = c:p2 -",
        "pc3:eth0 10.0.0.2/24 = c:p3 -",
    ];
    assert_eq!(ends(&e), expected);
    assert_eq!((e.topology.devices[0].name.as_str(), e.topology.devices[1].name.as_str()), ("c", "r1"));
    assert!(e.hosts.iter().any(|host| host.name == "r2" && host.forwarding));
    assert_eq!(script(&e, "r2"), ["mystery"]);
    let expected = [
        "'pc2' has no address at eth0: one is assigned".to_owned(),
        "'pc3' has no address at eth0: one is assigned".to_owned(),
        format!("line 4: {IMAGE}"),
        "line 11: option 'bridged' of machines is not taken over".to_owned(),
        "r1.startup: line 3: 'r1' does not run 'frr': it is a router with routes of shortest paths"
            .to_owned(),
    ];
    assert_eq!(notes, expected);
}

#[test]
fn nodes_of_containerlab_inherit() {
    let (e, notes) = take(
        &containerlab::Containerlab,
        r#"
topology:
  defaults:
    kind: linux
    env: { COLOUR: red, SIZE: 3 }
    exec: [ "echo all" ]
  kinds:
    linux:
      sysctls: { net.ipv4.tcp_ecn: 1, net.ipv4.conf.all.log_martians: 0 }
      binds: [ "./a:/a" ]
  groups:
    routers:
      sysctls: { net.ipv4.ip_forward: "1" }
      env: { COLOUR: blue }
  nodes:
    r:
      group: routers
      exec: [ "ip addr add 10.1.0.1/24 dev eth1", "ip addr add 10.2.0.1/24 dev eth2", "echo own" ]
    a: { exec: [ "ip addr add 10.1.0.2/24 dev eth1", "ip route add default via 10.1.0.1" ] }
    b: { exec: [ "ip addr add 10.2.0.2/24 dev eth1" ], sysctls: { net.ipv4.tcp_ecn: 2 } }
    middle: { exec: [ "sysctl -w net.ipv4.ip_forward=0" ] }
  links:
  - endpoints: ["r:eth1", "a:eth1"]
  - endpoints: ["r:eth2", "b:eth1"]
  - endpoints: ["a:eth2", "middle:eth1"]
  - endpoints: ["b:eth2", "middle:eth2"]
"#,
        &[],
    );
    let host = |name: &str| e.hosts.iter().find(|host| host.name == name).unwrap();
    assert_eq!(script(&e, "r"), ["echo all", "echo own"]);
    assert_eq!(host("r").processes[0].environment.get("COLOUR").map(String::as_str), Some("blue"));
    assert_eq!(host("a").processes[0].environment.get("COLOUR").map(String::as_str), Some("red"));
    let ecn = |name: &str| host(name).options.sysctls.values().cloned().collect::<Vec<_>>();
    assert_eq!((ecn("a"), ecn("b")), (vec!["1".to_owned()], vec!["2".to_owned()]));
    // Containers forward packets unless forwarding is disabled.
    assert!(
        host("r").forwarding && host("a").forwarding && host("b").forwarding && !host("middle").forwarding
    );
    let setting = "line 9: the setting 'net.ipv4.conf.all.log_martians=0' has no effect here";
    assert_eq!(notes[..2], ["'middle' has no address at eth1, eth2: one is assigned", setting]);
    assert!(notes[2].starts_with("line 10: './a:/a' is not bound: there is no "), "{notes:?}");
    assert_eq!(notes.len(), 3, "{notes:?}");
}

#[test]
fn settings_of_machines_of_kathara() {
    let (e, notes) = take(
        &kathara::Kathara,
        "r[0]=A\nr[1]=B\nr[sysctl]=\"net.ipv4.tcp_congestion_control=reno\"\nr[sysctl]=net.ipv4.ip_forward=0\nr[env]=\"X=y\"\n\
         r[exec]=\"hostname -f\"\nr[sysctl]=\"net.ipv6.conf.all.keep_addr_on_down=0\"\na[0]=A\nb[0]=B\n",
        &[("r.startup", "ifconfig eth0 10.0.1.1/24\necho started\n")],
    );
    let r = e.hosts.iter().find(|host| host.name == "r").unwrap();
    assert!(!r.forwarding);
    assert_eq!(script(&e, "r"), ["(", "echo started", ")", "hostname -f"]);
    assert_eq!(r.processes[0].environment.get("X").map(String::as_str), Some("y"));
    assert_eq!(r.options.sysctls.len(), 1);
    assert_eq!(
        notes[2..],
        ["line 7: the setting 'net.ipv6.conf.all.keep_addr_on_down=0' has no effect here"]
    );
}

#[test]
fn what_is_no_topology_is_refused_where_it_goes_wrong() {
    let lab = |text: &str| error(&containerlab::Containerlab, text);
    assert_eq!(lab(""), "- this file is empty");
    assert_eq!(lab("hosts: {}"), "1:1 there is no 'topology' in this file");
    assert_eq!(
        lab("topology: { nodes: { a: {} } }"),
        "- this topology has no links that could be taken over"
    );
    let link = |ends: &str| {
        lab(&format!("topology:\n  nodes: {{ a: {{}}, b: {{}} }}\n  links:\n  - endpoints: {ends}\n"))
    };
    assert_eq!(link("[\"a:e1\"]"), "4:16 a link has two endpoints");
    assert_eq!(link("[\"a:e1\", \"c:e1\"]"), "4:25 there is no node 'c'");
    assert_eq!(link("[\"a\", \"b:e1\"]"), "4:17 'a' is not an endpoint");
    assert_eq!(
        lab("topology:\n  nodes: { A: {}, a: {} }\n"),
        "2:19 there are two nodes that would be called 'a'"
    );
    assert_eq!(
        lab("topology:\n  nodes: {{.nodes}}\n"),
        "2:1 this is a template, which Containerlab renders before it reads it"
    );
    assert_eq!(
        lab(
            "topology: { nodes: { a: { kind: bridge }, b: { kind: bridge } }, links: [ { endpoints: [\"a:e1\", \"b:e1\"] } ] }"
        ),
        "- this topology has bridges only"
    );
    assert_eq!(error(&kathara::Kathara, "pc1\n"), "1:1 this is not a line of lab.conf");
    assert_eq!(error(&kathara::Kathara, "pc1[image]=x\n"), "- no machine of this lab has an interface");
}

#[test]
fn commands_are_settings_until_one_runs() {
    let (e, notes) = take(
        &containerlab::Containerlab,
        r#"
topology:
  nodes:
    a:
      exec:
      - ip link set eth1 up
      - ip addr add 10.0.0.1/24 dev eth1
      - ip addr add 10.0.9.1/24 dev lo
      - ip link add dum type dummy
      - ip route replace 10.2.0.0/16 via 10.0.0.2 dev eth1 metric 5
      - ip route add 10.3.0.0/16 via 10.0.9.2
      - ip route del default via 172.20.20.1 dev eth0
      - ip route add default via 10.0.0.2
      - ip link set eth1 mtu 1400 up
      - ip addr add 10.0.1.1/24 dev eth1
    b:
      exec: [ "sleep 1", "ip addr add 10.0.0.2/24 dev eth1" ]
  links:
  - endpoints: ["a:eth1", "b:eth1"]
"#,
        &[],
    );
    let expected = [
        "ip addr add 10.0.9.1/24 dev lo",
        "ip link add dum type dummy",
        "ip route add 10.3.0.0/16 via 10.0.9.2",
        "ip link set eth1 mtu 1400 up",
        "ip addr add 10.0.1.1/24 dev eth1",
    ];
    assert_eq!(script(&e, "a"), expected);
    assert_eq!(script(&e, "b"), ["sleep 1", "ip addr add 10.0.0.2/24 dev eth1"]);
    assert_eq!(ends(&e), ["a:eth1 10.0.0.1/24 = b:eth1 -"]);
    let (a, b) = (&e.hosts[0].routing, &e.hosts[1].routing);
    assert_eq!(a.routes.iter().map(|route| route.metric).collect::<Vec<_>>(), [5, 0]);
    assert!(!a.computed && !b.computed && b.routes.is_empty());
    assert_eq!(notes, ["line 12: there is no default route of a management network to delete"]);
}

#[test]
fn addresses_that_an_experiment_cannot_have_are_set_by_commands() {
    let address = |text: &str| {
        let lab = format!(
            "topology:\n  nodes:\n    a: {{ exec: [ \"ip addr add 10.0.0.1/24 dev eth1\", \"{text}\" ] }}\n    b: {{ exec: [ \"ip addr add 10.0.0.2/24 dev eth1\" ] }}\n\
             \x20 links: [ {{ endpoints: [\"a:eth1\", \"b:eth1\"] }}, {{ endpoints: [\"a:eth2\", \"b:eth2\"] }} ]\n"
        );
        let (e, notes) = take(&containerlab::Containerlab, &lab, &[]);
        assert_eq!(notes, [""; 0]);
        let a = &e.hosts[0];
        (a.interfaces[1].addresses.len(), if a.processes.is_empty() { Vec::new() } else { script(&e, "a") })
    };
    assert_eq!(address("ip addr add 10.0.1.1/24 brd + dev eth2"), (1, vec![]));
    assert_eq!(
        address("ifconfig eth2 10.0.1.1 netmask 255.255.255.128 broadcast 10.0.1.127 up"),
        (1, vec![])
    );
    for command in [
        "ip addr add 10.0.0.9/24 dev eth2",
        "ip addr add 10.0.0.2/24 dev eth2",
        "ip addr add 10.0.1.0/24 dev eth2",
        "ip addr add 10.0.1.1/24 dev eth2 label eth2:1",
        "ip addr add 10.0.1.1/24 brd 10.0.1.254 dev eth2",
        "ip addr add 127.0.0.2/8 dev eth2",
        "ip addr add 10.0.1.1/24 dev eth3",
        "ifconfig eth2 10.0.1.1 netmask 255.0.255.0",
        "ifconfig eth2 10.0.1.1",
    ] {
        assert_eq!(address(command), (0, vec![command.to_owned()]));
    }
}

#[test]
fn ipv6_of_commands() {
    let lab = r#"
topology:
  nodes:
    a: { exec: [ "ip -6 addr add 2001:db8::1/64 dev eth1", "ip -6 route add default via 2001:db8::2" ] }
    b: { exec: [ "ip addr add 10.0.0.2/24 dev eth1", "ip addr add 2001:db8::2/64 dev eth1" ] }
  links: [ { endpoints: [ "a:eth1", "b:eth1" ] } ]
"#;
    let (e, notes) = take(&containerlab::Containerlab, lab, &[]);
    assert!(e.hosts.iter().all(|host| host.ipv6 && host.processes.is_empty()));
    assert_eq!(e.hosts[0].routing.routes6.len(), 1);
    assert_eq!((e.hosts[0].interfaces[0].addresses.len(), e.hosts[0].interfaces[0].addresses6.len()), (0, 1));
    assert_eq!(notes, ["IPv6 is on: an interface with an IPv4 address only is assigned one of IPv6 too"]);
}

#[test]
fn every_key_of_containerlab_is_imported_or_noted() {
    let (_, notes) = take(
        &containerlab::Containerlab,
        r#"
name: keys
prefix: ""
mgmt: { network: x }
topology:
  colour: red
  nodes:
    a:
      kind: host
      labels: { a: b }
      user: root
      cmd: --flag
      env: { HOME: $HOME }
      mgmt-ipv4: 172.20.20.2
      volumes: [ "data:/data:rw,foo" ]
      exec: [ "ls ${UNKNOWN:-x}" ]
    b: { kind: bridge, exec: [ "ip addr add 10.0.0.1/24 dev eth1" ], env: { X: y }, cmd: bash }
    c: { kind: srl, exec: [ "ip addr add 10.0.0.1/24 dev eth1", "ip addr add 10.9.0.1/32 dev lo" ] }
    d: {}
  links:
  - { endpoints: [ "a:eth1", "b:eth1" ], labels: { x: y }, vars: { z: 1 } }
  - { type: vxlan, endpoint: { node: a, interface: eth9 } }
  - endpoints: [ { node: c, interface: eth1, vars: { x: y } }, "b:eth2" ]
"#,
        &[],
    );
    let expected = [
        "'a' has no address at eth1: one is assigned",
        "'d' is left out: it has no links",
        "line 3: 'prefix' of a topology file is not taken over",
        "line 4: 'mgmt' of a topology file is not taken over",
        "line 6: 'colour' of 'topology' is not taken over",
        "line 8: 'a' of kind 'host' becomes a host like any other",
        "line 10: 'labels' of nodes is not taken over",
        "line 11: 'user' of nodes is not taken over",
        "line 12: 'cmd' is not run: these are arguments of the image's program",
        "line 13: '$HOME' stays as it is: variables of the environment are not replaced",
        "line 14: 'mgmt-ipv4' is left out: there is no management network",
        "line 15: option 'foo' of the bind 'data:/data:rw,foo' is left out",
        "line 15: the volume 'data' is empty, and each host has its own",
        "line 16: '$UNKNOWN' stays as it is: variables of the environment are not replaced",
        "line 17: 'b' does not run 'ip addr add 10.0.0.1/24 dev eth1': it is no host",
        "line 17: 'b' has no command left to run: the variable X is left out",
        "line 17: 'bash' is not run: it has no terminal",
        "line 18: 'c' does not run 'ip addr add 10.9.0.1/32 dev lo': it is no host",
        "line 18: 'c' of kind 'srl' becomes a router with routes of shortest paths",
        "line 21: 'labels' of links is not taken over",
        "line 21: 'vars' of links is not taken over",
        "line 22: a link of type 'vxlan' is left out: it leads out of the topology",
        "line 23: 'vars' of endpoints is not taken over",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn addresses_of_endpoints_in_containerlab() {
    let lab = r#"
topology:
  nodes: { a: {}, b: {} }
  links:
  - { endpoints: [ "a:eth1", "b:eth1" ], ipv4: [ 10.0.0.1/24, 10.0.0.2/24 ] }
  - endpoints: [ { node: a, interface: eth2, ipv4: 10.0.1.1/24 }, { node: b, interface: eth2, ipv4: 10.0.1.2/24 } ]
"#;
    let (e, notes) = take(&containerlab::Containerlab, lab, &[]);
    assert_eq!(notes, [""; 0]);
    assert_eq!(
        ends(&e),
        ["a:eth1 10.0.0.1/24 = b:eth1 10.0.0.2/24", "a:eth2 10.0.1.1/24 = b:eth2 10.0.1.2/24"]
    );
}

#[test]
fn two_interfaces_on_one_bridge_get_no_addresses() {
    let lab = r#"
topology:
  nodes: { a: {}, br: { kind: bridge } }
  links: [ { endpoints: [ "a:eth1", "br:e1" ] }, { endpoints: [ "a:eth2", "br:e2" ] } ]
"#;
    let (e, _) = take(&containerlab::Containerlab, lab, &[]);
    assert_eq!(ends(&e), ["a:eth1 - = br:e1 -", "a:eth2 - = br:e2 -"]);
}

#[test]
fn what_a_lab_of_kathara_cannot_mean_is_an_error() {
    let lab = |text: &str| error(&kathara::Kathara, text);
    assert_eq!(lab("a[0]=A\na[0]=B\n"), "2:1 'a' has two interfaces 0");
    assert_eq!(lab("a[0]=A\nA[0]=B\n"), "2:1 there are two machines that would be called 'a'");
    assert_eq!(lab("a[0]=A/xx\n"), "1:1 'xx' is not a hardware address");
    assert_eq!(lab("a[0]=A\na[env]=x\n"), "2:1 'x' sets no variable");
    assert_eq!(lab("a[0]=A\na[volume]=x\n"), "2:1 'x' is not a volume");
    assert_eq!(lab("a[0]=A\na[ipv6]=maybe\n"), "2:1 'ipv6' is true or false");
}

#[test]
fn failures_are_tolerated_on_request() {
    let lab = "a[0]=A\nb[0]=A\na[exec]=\"ls /\"\n";
    let files = [("a.startup", "ip addr add 10.0.0.1/24 dev eth0\n\n# comment\nfalse\n")];
    let imported = import(&kathara::Kathara, lab, &files, true).unwrap();
    assert_eq!(loaded(&imported).hosts[0].processes[0].expected_final_state, FinalState::Any);
    let expected = ["line 3: 'a' may fail at 'ls /'", "a.startup: line 4: 'a' may fail at 'false'"];
    assert_eq!(imported.notes[1..], expected);
    let imported = import(&kathara::Kathara, lab, &files, false).unwrap();
    assert_eq!(loaded(&imported).hosts[0].processes[0].expected_final_state, FinalState::Exited(0));
}

#[test]
fn a_lab_of_routers_gets_hosts() {
    let text = "topology: { nodes: { a: { kind: srl }, b: { kind: srl } }, links: [ { endpoints: [\"a:e1\", \"b:e1\"] } ] }";
    let (e, notes) = take(&containerlab::Containerlab, text, &[]);
    let names: Vec<&str> = e.hosts.iter().map(|host| &*host.name).collect();
    assert_eq!(names, ["h-a", "h-b"]);
    assert!(
        notes.contains(
            &"no node is a host: each router has been given one, h-ROUTER, for programs".to_owned()
        ),
        "{notes:?}"
    );
}

#[path = "tests_graphs.rs"]
mod graphs;
