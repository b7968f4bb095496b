use super::*;
use crate::{Experiment, PathContext};

fn import(
    format: &'static dyn Importer,
    text: &str,
    scripts: &[(&str, &str)],
) -> Result<Imported, ConfigError> {
    let source = Source { name: "lab".to_owned(), text: text.to_owned() };
    let options = Options { folder: Path::new(""), program: None };
    let script = |file: &str| {
        let (_, text) = scripts.iter().find(|(machine, _)| *file == format!("{machine}.startup"))?;
        Some((*text).to_owned())
    };
    import_source(&source, Format(format), &options, &script)
}
fn take(format: &'static dyn Importer, text: &str, scripts: &[(&str, &str)]) -> (Experiment, Vec<String>) {
    let imported = import(format, text, scripts).unwrap_or_else(|e| panic!("{e}"));
    let loaded = Experiment::parse_in("out.yaml", &imported.yaml, &PathContext::default());
    (loaded.unwrap_or_else(|e| panic!("{e}\n{}", imported.yaml)), imported.notes)
}
fn error(format: &'static dyn Importer, text: &str) -> String {
    let error = import(format, text, &[]).unwrap_err();
    let place = error.position.map_or("-".to_owned(), |(line, column)| format!("{line}:{column}"));
    format!("{place} {}", error.message)
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
        "links to 'host' are left out: they lead out of the topology",
        "nodes of kind 'nokia_srlinux' become routers with routes of shortest paths",
        "line 4: 'image' of nodes has no meaning here",
        "line 6: 'SRL_1' is called 'srl-1' here",
        "line 6: 'type' of nodes has no meaning here",
        "line 10: 'image' of nodes has no meaning here",
    ];
    assert_eq!(notes, expected);
    assert_eq!(e.hosts[0].processes[0].args[..], ["-c", "sleep infinity"]);
}

#[test]
fn a_lab_of_kathara() {
    let (e, notes) = take(
        &kathara::Kathara,
        "LAB_DESCRIPTION=\"two networks\"\n# comment\npc1[0]=\"A\"\npc1[image]=\"kathara/base\"\nr1[0]=A\nr1[1]=\"B/02:00:00:00:00:01\"\n\
         r2[0]='B'\nr2[1]=\"C\"\npc2[0]=\"C\"\npc3[0]=\"C\"\npc3[bridged]=true\n",
        &[
            ("pc1", "ip address add 195.11.14.5/24 dev eth0\nip route add default via 195.11.14.1\n"),
            (
                "r1",
                "ifconfig eth0 195.11.14.1 netmask 255.255.255.0 up\nifconfig eth1 100.0.0.9/30 up\n/etc/init.d/frr start\n",
            ),
            ("r2", "ip a add 100.0.0.10/30 dev eth0\nroute add -net 195.11.14.0/24 gw 100.0.0.9\nmystery\n"),
        ],
    );
    let expected = [
        "pc1:eth0 195.11.14.5/24 = r1:eth0 195.11.14.1/24",
        "r1:eth1 100.0.0.9/30 = r2:eth0 100.0.0.10/30",
        "r2:eth1 10.0.0.1/24 = c:p1 -",
        "pc2:eth0 10.0.0.2/24 = c:p2 -",
        "pc3:eth0 10.0.0.3/24 = c:p3 -",
    ];
    assert_eq!(ends(&e), expected);
    assert_eq!((e.topology.devices[0].name.as_str(), e.topology.devices[1].name.as_str()), ("c", "r1"));
    assert!(e.hosts.iter().any(|host| host.name == "r2" && host.forwarding));
    let expected = ["line 11: option 'bridged' of machines has no meaning here"];
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
    let r = &host("r").processes[0];
    assert_eq!(r.args[..], ["-c", "echo all\necho own"]);
    assert_eq!(r.environment.get("COLOUR").map(String::as_str), Some("blue"));
    assert_eq!(host("a").processes[0].environment.get("COLOUR").map(String::as_str), Some("red"));
    let ecn = |name: &str| host(name).options.sysctls.values().cloned().collect::<Vec<_>>();
    assert_eq!((ecn("a"), ecn("b")), (vec!["1".to_owned()], vec!["2".to_owned()]));
    // Containers forward packets unless forwarding is disabled.
    assert!(
        host("r").forwarding && host("a").forwarding && host("b").forwarding && !host("middle").forwarding
    );
    let bind = "line 10: './a:/a' is not bound: hosts see the machine's files, and what general.template_directory brings";
    let setting = "line 9: the setting 'net.ipv4.conf.all.log_martians=0' has no effect here";
    assert_eq!(notes, [setting, bind]);
}

#[test]
fn settings_of_machines_of_kathara() {
    let (e, notes) = take(
        &kathara::Kathara,
        "r[0]=A\nr[1]=B\nr[sysctl]=\"net.ipv4.tcp_congestion_control=reno\"\nr[sysctl]=net.ipv4.ip_forward=0\nr[env]=\"X=y\"\n\
         r[exec]=\"hostname -f\"\nr[sysctl]=\"net.ipv6.conf.all.keep_addr_on_down=0\"\na[0]=A\nb[0]=B\n",
        &[("r", "ifconfig eth0 10.0.1.1/24\necho started\n")],
    );
    let r = e.hosts.iter().find(|host| host.name == "r").unwrap();
    assert!(!r.forwarding);
    assert_eq!(r.processes[0].args[..], ["-c", "echo started\nhostname -f"]);
    assert_eq!(r.processes[0].environment.get("X").map(String::as_str), Some("y"));
    assert_eq!(r.options.sysctls.len(), 1);
    assert_eq!(notes, ["line 7: the setting 'net.ipv6.conf.all.keep_addr_on_down=0' has no effect here"]);
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
    assert_eq!(error(&kathara::Kathara, "pc1\n"), "1:1 this is not a line of lab.conf");
    assert_eq!(error(&kathara::Kathara, "pc1[image]=x\n"), "- no machine of this lab has an interface");
}
