"""The HTML report, looked at by a real browser without a network."""

import json
import re

import pytest
import yaml
from conftest import EXAMPLES, execute, look

@pytest.fixture
def page(belljar, run_experiment, workdir):
    text = yaml.safe_load((EXAMPLES / "first.yaml").read_text())
    text["belljar"] = {"metrics": {"interval": "10 ms"}}
    # What a program writes is shown, never executed.
    evil = "</script><script>document.body.dataset.evil = 1</script><img src=x onerror='document.body.dataset.evil=2'>"
    text["hosts"]["berlin"]["processes"].append({"path": "/bin/echo", "args": [evil], "expected_final_state": {"exited": 1}})
    ran = run_experiment(text, status=1)
    file = workdir / "page.html"
    done = execute([belljar, "report", ran.path, "-o", file])
    assert done.status == 0 and done.out.strip() == str(file), done
    return file


def test_the_page_in_a_browser(browser, workdir, page):
    dom = look(browser, workdir, page, "--dump-dom")
    body = re.search(r"<body([^>]*)>", dom)[1]
    assert 'data-ready="yes"' in body, "the script has not run to its end"
    assert "data-evil" not in body
    for heading in ("Topology", "Sent", "Received", "System calls", "TCP connections", "Processes", "Hosts", "Events",
                    "Warnings", "Output"):
        assert re.search(rf"<h2>{heading}\b", dom), heading
    assert len(re.findall(r'<g class="host"', dom)) == 4
    # The three cities share their processes by a merge key.
    for text in ("server room", "50 ms, 1 % lost", "3 failed", "curl.1001", "bytes: connected after"):
        assert text in dom, text
    curves = re.findall(r'<path d="(M[^"]+)"', dom)
    assert len(curves) >= 4 * 3 and all("NaN" not in curve for curve in curves)


def test_the_page_has_something_to_look_at(browser, workdir, page):
    look(browser, workdir, page, f"--screenshot={workdir / 'shot.png'}", "--window-size=1300,1600")
    # A page that is blank compresses to next to nothing.
    assert (workdir / "shot.png").stat().st_size > 60_000


def test_the_page_stands_alone(page):
    text = page.read_text()
    assert not re.search(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", text) and "@import" not in text
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])
    assert data["statistics"]["hosts"]["tokyo"]["processes"][0]["state"] == "exited 0"
    assert sum(map(sum, (h["bytes_out"] for h in data["hosts"]))) == sum(h["bytes_out"] for h in data["statistics"]["hosts"].values())


def test_models_have_a_table_and_curves(belljar, run_experiment, workdir, browser):
    ran = run_experiment({"general": {"stop_time": "20 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {
        "web": {"network_node_id": 0, "processes": [{"model": {"type": "http_server", "delay": {"exponential": "5 ms"}}}]},
        "home": {"network_node_id": 0, "processes": [{"model": {"type": "http", "name": "browsing", "to": "web", "count": 30}},
                                                     {"model": {"type": "http", "name": "lost", "to": "web:81"}}]}}})
    execute([belljar, "report", ran.path, "-o", workdir / "models.html"])
    dom = look(browser, workdir, workdir / "models.html", "--dump-dom")
    assert re.search(r"<h2>Models\b", dom) and "refused 1" in dom and "flows are done within a time" in dom
    table = execute([belljar, "inspect", ran.path, "models"]).out
    assert re.search(r"browsing +1 +30 +0 +0 ", table) and re.search(r"lost +1 +0 +1 .* refused 1", table), table
    assert "traffic models" in execute([belljar, "inspect", ran.path]).out


def test_links_are_drawn_and_have_curves(belljar, run_experiment, workdir, browser):
    model = {"model": {"type": "bulk", "to": "web:5001", "size": "2 MB"}}
    ran = run_experiment({
        "general": {"stop_time": "8 s"}, "belljar": {"metrics": {"interval": "100 ms"}}, "switches": ["lan"], "routers": ["border"],
        "hosts": {"web": {"processes": [{"model": {"type": "sink", "port": 5001}}]}, "home": {"processes": [model]}},
        "links": [{"between": ["home", "lan"], "rate": "100 Mbit"}, {"between": ["lan", "border"]},
                  {"between": ["border", "web"], "name": "uplink", "rate": "4 Mbit", "latency": "5 ms", "packet_loss": 0.001, "queue": {"packets": 20}}]})
    execute([belljar, "report", ran.path, "-o", workdir / "links.html"])
    dom = look(browser, workdir, workdir / "links.html", "--dump-dom")
    assert len(re.findall(r'class="station switch"', dom)) == 1 == len(re.findall(r'class="station router"', dom))
    for text in ("uplink: 4 Mbit/s, 5 ms, 0.1 % lost", "border to web: 2.", "frames that wait", "frames dropped"):
        assert text in dom, text
    assert not re.search(r">node \d", dom), "places of hosts with links have no names of their own"
    for heading in ("Links", "Link totals", "Routers"):
        assert re.search(rf"<h2>{heading}\b", dom), heading
    # A link that is full all the time is a straight line, not one that goes up and down with the samples in a stretch.
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', (workdir / "links.html").read_text(), re.S)[1])
    uplink = next(one for one in data["links"] if one["link"] == "uplink" and one["to"] == "web")
    full = uplink["bytes"][10:30]
    assert data["width"] == pytest.approx(0.1) and min(full) > 0.8 * max(full) > 0, full
    assert max(uplink["queue"]) in (19, 20) and sum(uplink["drops"]) > 0
    shown = execute([belljar, "inspect", ran.path, "links"]).out
    assert re.search(r"uplink +border to web +\d+ +2\.\d MB +\d+ +(19|20) +egress_full \d+", shown), shown


def test_hosts_of_a_large_network_stand_at_their_links(belljar, run_experiment, workdir, browser):
    names = [f"h{n:02}" for n in range(40)]
    ran = run_experiment({"general": {"stop_time": "1 s"}, "hosts": {name: {"processes": []} for name in names},
                          "links": [{"between": [a, b]} for a, b in zip(names, names[1:])]})
    execute([belljar, "report", ran.path, "-o", workdir / "chain.html"])
    dom = look(browser, workdir, workdir / "chain.html", "--dump-dom")
    drawn = dom[dom.index("<h2>Topology"):]
    drawn = drawn[:drawn.index("</svg>")]
    ends = {end for x1, y1, x2, y2 in re.findall(r'<line x1="(.*?)" y1="(.*?)" x2="(.*?)" y2="(.*?)"', drawn) for end in ((x1, y1), (x2, y2))}
    hosts = set(re.findall(r'<circle cx="(.*?)" cy="(.*?)"', drawn))
    assert 'data-crowd="true"' in drawn and len(hosts) == 40 and hosts == ends
    assert sum(f">{name}</text>" in drawn for name in names) > 30


def test_properties_are_judged_on_the_page(belljar, run_experiment, workdir, browser):
    says = {"processes": [{"path": "/bin/echo", "args": ["three failed"]}]}
    ran = run_experiment({"general": {"stop_time": "1 s"}, "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": {"a": {"network_node_id": 0, **says}},
                          "properties": [{"name": "calm", "never": "failed", "files": "*stdout"}, {"name": "counts", "sometimes": "three", "files": "*stdout"}]},
                         status=1)
    execute([belljar, "report", ran.path, "-o", workdir / "judged.html"])
    dom = look(browser, workdir, workdir / "judged.html", "--dump-dom")
    assert re.search(r"<h2>Properties\b", dom) and ">1 not held</b>" in dom and ">all as expected</b>" in dom
    assert re.search(r"broken</td><td[^>]*>calm</td><td[^>]*>never</td>.*?a: echo.1000.stdout:1; three failed</td>", dom)
    assert re.search(r"holds</td><td[^>]*>counts</td>", dom)


def marks(dom):
    """Texts at the axes of the curves."""
    return re.findall(r"<text [^>]*class=\"soft\">(-?[\d.]+) ?([a-zA-Z/µ]*)</text>", dom)


def test_a_radio_channel_is_no_unlimited_link_and_a_sum_hides_no_curve(belljar, run_experiment, workdir, browser):
    sender = {"processes": [{"model": {"type": "constant_rate", "to": "h00:9", "rate": "300 Kbit", "datagram_size": "500 B", "duration": "2 s"}}]}
    hosts = {f"h{n:02}": sender if n else {"processes": [{"model": {"type": "sink", "port": 9, "protocol": "udp"}}]} for n in range(30)}
    ran = run_experiment({"general": {"stop_time": "2.3 s"}, "belljar": {"metrics": {"interval": "100 ms"}}, "hosts": hosts,
                          "radios": {"air": {"rate": "54 Mbit", "stations": {name: [n, 0] for n, name in enumerate(hosts)}}}})
    execute([belljar, "report", ran.path, "-o", workdir / "radio.html"])
    dom = look(browser, workdir, workdir / "radio.html", "--dump-dom")
    drawn = dom[dom.index("<h2>Topology"):dom.index("<h2>Sent")]
    assert drawn.count("radio, 54 Mbit/s") >= 30 and "unlimited" not in drawn and drawn.count('class="station radio"') == 3
    assert "press its name to see it" in dom and re.search(r'<span class="off"[^>]*>(?:<[^>]*></[^>]*>)?7 others', dom)
    # The scale is that of the hosts, not of their sum; its marks are round.
    sent = dom[dom.index("<h2>Sent"):dom.index("<h2>Received")]
    rates = [float(number) * {"bit/s": 1, "kbit/s": 1e3, "Mbit/s": 1e6}[unit] for number, unit in marks(sent) if unit.endswith("bit/s")]
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', dom, re.S)[1])
    one, together = (8 / data["width"] * max(max(host["bytes_out"]) for host in data["hosts"] if host["is_sum"] == is_sum) for is_sum in (False, True))
    assert 3 <= len(rates) <= 6 and rates[0] == 0 and one <= rates[-1] < together, (rates, one, together)
    assert f"{rates[1]:e}"[:3] in ("1.0", "2.0", "2.5", "5.0") and all(rate == n * rates[1] for n, rate in enumerate(rates))
    assert ("1", "s") in marks(sent) and ("0.5", "s") in marks(sent)


def test_without_time_series_or_processes(belljar, run_experiment, workdir, browser):
    ran = run_experiment({"general": {"stop_time": "1 s"}, "network": {"graph": {"type": "1_gbit_switch"}},
                          "hosts": {"idle": {"network_node_id": 0, "processes": []}}})
    assert execute([belljar, "report", ran.path]).status == 0
    dom = look(browser, workdir, ran.path / "report.html", "--dump-dom")
    assert 'data-ready="yes"' in dom and "belljar.metrics.interval" in dom


def test_a_page_that_cannot_be_written(belljar, run_experiment):
    ran = run_experiment(EXAMPLES / "first.yaml")
    done = execute([belljar, "report", ran.path, "-o", "/no/such/folder/page.html"])
    assert done.status == 1 and re.match("error: /no/such/folder/page.html cannot be written", done.err), done


#: Presses what a keyboard reaches, and writes down what came of it.
PRESSES = """<script>
addEventListener("load", () => {
  const press = (node, key) => { node.focus(); node.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })); return document.activeElement === node; };
  const hosts = [...document.querySelectorAll(".host")], said = {};
  said.focused = press(hosts[1], "Enter");
  said.dim = hosts.filter((host) => host.classList.contains("dim")).length;
  press(hosts[1], " ");
  said.undimmed = hosts.every((host) => !host.classList.contains("dim"));
  const table = document.querySelector("#hosts table"), button = table.querySelector("th button");
  button.click();
  said.first = table.querySelector("td").textContent;
  said.order = button.closest("th").getAttribute("aria-sort");
  const drawing = document.querySelector("#topology svg").getBoundingClientRect();
  said.outside = hosts.filter((host) => {
    const box = host.querySelector("circle").getBoundingClientRect();
    return box.left < drawing.left || box.right > drawing.right || box.top < drawing.top || box.bottom > drawing.bottom;
  }).length;
  said.unreachable = [...document.querySelectorAll(".scroll, .legend span, .host")].filter((node) => node.tabIndex < 0).length;
  document.body.dataset.said = JSON.stringify(said);
});
</script>"""


def usable_by_keyboard(browser, workdir, page, hosts):
    (workdir / "pressed.html").write_text(page.read_text().replace("</body>", PRESSES + "</body>"))
    dom = look(browser, workdir, workdir / "pressed.html", "--dump-dom")
    said = json.loads(re.search(r'data-said="([^"]*)"', dom)[1].replace("&quot;", '"'))
    assert said == {"focused": True, "dim": len(hosts) - 1, "undimmed": True, "first": max(hosts), "order": "descending", "outside": 0, "unreachable": 0}


def pages_on_paper(browser, workdir, page):
    look(browser, workdir, page, f"--print-to-pdf={workdir / 'page.pdf'}")
    return len(re.findall(rb"/Type /Page\b", (workdir / "page.pdf").read_bytes()))


def test_it_is_used_by_keyboard_and_printed(browser, workdir, page):
    usable_by_keyboard(browser, workdir, page, ["berlin", "boston", "server", "tokyo"])
    assert 2 <= pages_on_paper(browser, workdir, page) <= 12


@pytest.mark.slow
def test_a_thousand_hosts(belljar, run_experiment, workdir, browser):
    names = [f"host{n:04}" for n in range(1_000)]
    hosts = {name: {"network_node_id": 0, "processes": [{"path": "/bin/sh", "args": ["-c", "echo $0; getent hosts host0999", name]}]} for name in names}
    ran = run_experiment({"general": {"stop_time": "5 s"}, "belljar": {"metrics": {"interval": "500 ms"}},
                          "network": {"graph": {"type": "1_gbit_switch"}}, "hosts": hosts}, timeout=600)
    file = workdir / "page.html"
    execute([belljar, "report", ran.path, "-o", file])
    usable_by_keyboard(browser, workdir, file, names)
    # All rows are on paper, not only those that a box on the screen has room for.
    assert pages_on_paper(browser, workdir, file) > 30
    image = pytest.importorskip("PIL.Image")
    brightness = []
    for name, more in (("light", []), ("dark", ["--blink-settings=preferredColorScheme=0"])):
        look(browser, workdir, file, f"--screenshot={workdir / name}.png", "--window-size=1300,1500", *more)
        values = image.open(workdir / f"{name}.png").convert("L").resize((100, 100)).tobytes()
        brightness.append(sum(values) / len(values))
        assert (workdir / f"{name}.png").stat().st_size > 50_000
    assert brightness[0] > 180 and brightness[1] < 75, brightness
