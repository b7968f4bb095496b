// The page: panels made from the data.

const data = JSON.parse(document.getElementById("data").textContent);
const stats = data.statistics, end = stats.simulated_seconds || 1e-9;
const main = document.querySelector("main"), nav = document.querySelector("nav");
const hostNames = Object.keys(stats.hosts);
const hostColour = (name) => {
  const n = hostNames.indexOf(name);
  return n < 0 ? "#8a93a3" : colour(n);
};

function element(name, text, className) {
  const node = document.createElement(name);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

const count = (v) => scaled(v, ["", "k", "M", "G"]);
const exact = (v) => v.toLocaleString("en");
const plural = (n, word) => `${exact(n)} ${word}${n === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;

function panel(title, wide, id, short) {
  const box = element("section", undefined, wide ? "panel wide" : "panel");
  box.append(element("h2", title));
  main.append(box);
  if (id) {
    box.id = id;
    const link = element("a", short ?? title);
    link.href = `#${id}`;
    nav.append(link);
  }
  return box;
}

// rows: arrays of cells; a cell is text, a number, or {text, className, sort}.
function table(columns, rows) {
  const box = element("div", undefined, "scroll"), node = element("table"), head = element("tr"), body = element("tbody");
  let order;
  const fill = () => body.replaceChildren(...rows.map((row) => {
    const line = element("tr");
    row.forEach((cell, n) => {
      const shown = cell !== null && typeof cell === "object" ? cell.text : typeof cell === "number" ? exact(cell) : cell;
      const classes = [columns[n].startsWith("#") && "n", cell?.className].filter(Boolean).join(" ");
      line.append(element("td", shown ?? "–", classes));
    });
    return line;
  }));
  columns.forEach((column, n) => {
    const cell = element("th", undefined, column.startsWith("#") ? "n" : ""), button = element("button", column.replace("#", "") || "result");
    cell.append(button);
    button.addEventListener("click", () => {
      const key = (row) => row[n]?.sort ?? row[n]?.text ?? row[n] ?? "";
      order = order === n ? undefined : n;
      const sign = order === n ? -1 : 1;
      for (const other of head.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
      rows.sort((a, b) => sign * (key(a) < key(b) ? -1 : key(a) > key(b) ? 1 : 0));
      fill();
    });
    head.append(cell);
  });
  fill();
  const top = element("thead");
  top.append(head);
  node.append(top, body);
  box.append(node);
  // One that scrolls is reached by the keyboard.
  box.tabIndex = 0;
  return box;
}

const hosts = Object.entries(stats.hosts);
const processes = hosts.flatMap(([host, h]) => h.processes.map((p) => ({ host, ...p })));
const sum = (of) => hosts.reduce((total, [, h]) => total + of(h), 0);
// Results of earlier versions have no accounts of packets.
const drops = Object.entries(stats.packets ?? {}).flatMap(([at, account]) => Object.entries(account.drops ?? {}).map(([why, n]) => [at, why, n]));
const dropped = stats.packets ? drops.reduce((total, [, , n]) => total + n, 0) : sum((h) => Object.values(h.drops).reduce((a, b) => a + b, 0));
const bad = processes.filter((p) => !p.as_expected);
const properties = stats.properties ?? [], broken = properties.filter((p) => !p.holds);
const calls = Object.values(stats.syscalls).reduce((a, b) => a + b, 0);
document.getElementById("subtitle").textContent =
  `${plural(hosts.length, "host")}, ${plural(processes.length, "process")}, ${+end.toPrecision(6)} s of simulated time, seed ${data.topology.seed ?? "unknown"}`;

const tiles = element("div", undefined, "tiles wide");
for (const [value, label, className] of [
  ...(stats.interrupted ? [["ended early", stats.interrupted, "bad"]] : []),
  [bad.length ? `${bad.length} failed` : "all as expected", "processes", bad.length ? "bad" : "good"],
  ...(properties.length ? [[broken.length ? `${broken.length} not held` : "all hold", "properties", broken.length ? "bad" : "good"]] : []),
  [bytes(sum((h) => h.bytes_out)), `sent in ${plural(sum((h) => h.packets_out), "packet")}`],
  [exact(dropped), "packets dropped", dropped ? "warn" : ""],
  [exact(calls), "system calls"],
  [exact(Object.keys(stats.warnings).length + Object.keys(stats.preempted).length), "kinds of warnings",
    Object.keys(stats.warnings).length ? "warn" : ""],
]) {
  const tile = element("div", undefined, "tile");
  tile.append(element("b", value, className), element("span", label));
  tiles.append(tile);
}
main.append(tiles);

const charts = [];
let picked;
const dimHosts = () => document.querySelectorAll(".host").forEach((g) => g.classList.toggle("dim", picked !== undefined && g.dataset.host !== picked));
function pick(name) {
  picked = picked === name ? undefined : name;
  charts.forEach((c) => c.only(picked));
  dimHosts();
}
const most = Math.max(1, ...hosts.map(([, h]) => h.bytes_out + h.bytes_in));
const traffic = (name) => (stats.hosts[name] ? (stats.hosts[name].bytes_out + stats.hosts[name].bytes_in) / most : 0);
// An edge, with what a link carried in its title.
function edgeLine(edge, n, a, b, { text, crowd }) {
  const carried = Object.entries(stats.links?.[edge.link] ?? {}).map(([way, w]) => `\n${way}: ${bytes(w.bytes)}`).join("");
  return [make("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: "edge", "stroke-width": crowd ? 0.8 : 2 },
    make("title", {}, `${edge.link ? `${edge.link}: ` : ""}${text}${carried}`))];
}
if (data.topology.nodes?.length) {
  const box = panel("Topology", true, "topology");
  box.append(drawTopology(data.topology, { traffic, line: edgeLine, pick, drawn: dimHosts, labels: true }));
  const notes = ["The area of a host is its traffic; click one to see it alone below."];
  const kinds = new Set(data.topology.nodes.map((n) => n.kind));
  const shapes = [["boxes", "switches", kinds.has("switch") || kinds.has("P4 switch")], ["diamonds", "routers", kinds.has("router")],
    ["rings", "radio channels", kinds.has("radio")]].filter(([, , is]) => is).map(([shape, what], n) => `${shape}${n ? "" : " are"} ${what}`).join(", ");
  if (shapes) notes.push(`${shapes[0].toUpperCase()}${shapes.slice(1)}; point at a line to see what it carried.`);
  if (data.topology.omitted_nodes) notes.push(`${plural(data.topology.omitted_nodes, "node")} of the graph without hosts left out.`);
  box.append(element("p", notes.join(" "), "soft"));
}

for (const radio of data.topology.radios ?? []) {
  const box = panel(`Radio ${radio.name}`, true, `radio-${radio.name}`);
  box.append(playRadio(radio, end, pick));
  box.append(element("p", `Lines join stations in reach of each other, ${+radio.range.toPrecision(3)} m; point at one to see its reach.`, "soft"));
}

if (data.has_series) {
  const width = data.width;
  const curves = (of, scale) => data.hosts.map((h) => ({
    name: h.name, colour: hostColour(h.name), hidden: h.is_sum, points: h[of].map((v, n) => [(n + 0.5) * width, v * scale]) }));
  for (const [title, of, scale, show] of [["Sent", "bytes_out", 8 / width, rate], ["Received", "bytes_in", 8 / width, rate],
    ["Packets dropped", "drops", 1, count], ["System calls", "syscalls", 1 / width, (v) => `${count(v)}/s`]]) {
    // What devices have dropped is in the table of drops.
    if (of === "drops" && !data.hosts.some((h) => h.drops.some(Boolean))) continue;
    const box = panel(title, false, of === "bytes_out" ? "traffic" : undefined, "Traffic");
    const drawn = chart(curves(of, scale), { end: data.span, show });
    charts.push(drawn);
    box.append(drawn);
    const sum = data.hosts.find((h) => h.is_sum);
    if (of === "bytes_out" && sum) box.append(element("p", `The curve of the ${sum.name} is their sum; press its name to see it.`, "soft"));
    if (of === "bytes_out" && data.span < 0.999 * end)
      box.append(element("p", `Nothing is sent in the last ${+(end - data.span).toPrecision(3)} s, which are left out.`, "soft"));
  }
} else {
  panel("Time series", true).append(element("p",
    "This run has none: add belljar: {metrics: {interval: 100 ms}} to the experiment, or run with --set belljar.metrics.interval=\"100 ms\".", "soft"));
}

if (data.links.length) {
  const box = panel("Links", true, "links"), select = element("select"), cells = element("div", undefined, "cells");
  const links = [...new Set(data.links.map((l) => l.link))];
  [["", "all links"], ...links.map((l) => [l, l])].forEach(([value, text]) => select.append(Object.assign(element("option", text), { value })));
  const fill = () => {
    const shown = data.links.filter((l) => !select.value || l.link === select.value);
    cells.replaceChildren(...[["sent", "bytes", 8 / data.width, rate], ["frames that wait", "queue", 1, count], ["frames dropped", "drops", 1, count]]
      .filter(([, of]) => of !== "drops" || shown.some((l) => l.drops.some(Boolean))).map(([title, of, scale, show]) => {
        const cell = element("div");
        const curves = shown.map((l, n) => ({ name: `${select.value ? "" : `${l.link}: `}${l.from} → ${l.to}`, colour: colour(n),
          points: l[of].map((v, k) => [(k + 0.5) * data.width, v * scale]) }));
        cell.append(element("div", title, "soft"), chart(curves, { end: data.span, show }));
        return cell;
      }));
  };
  select.addEventListener("change", fill);
  box.querySelector("h2").append(select);
  box.append(cells);
  const directions = Object.values(stats.links ?? {}).reduce((n, ways) => n + Object.keys(ways).length, 0);
  if (directions > data.links.length)
    box.append(element("p", `The ${data.links.length} of ${exact(directions)} directions that carried the most bytes; Link totals has all.`, "soft"));
  fill();
}

if (data.connections.length) {
  const box = panel("TCP connections", true, "tcp"), select = element("select"), cells = element("div", undefined, "cells");
  const title = (c) => `${c.host}: ${c.local} → ${c.remote}, ${bytes(c.bytes)}${c.retransmitted ? `, ${c.retransmitted} retransmitted` : ""}`;
  data.connections.forEach((c, n) => select.append(Object.assign(element("option", title(c)), { value: n })));
  const fill = () => {
    const c = data.connections[select.value], times = c.points.map((p) => p[0]);
    const from = Math.min(...times), to = Math.max(...times), margin = Math.max((to - from) * 0.1, end / 1000);
    const life = { start: Math.max(0, from - margin), end: Math.min(end, to + margin) };
    cells.replaceChildren(...[["congestion window, segments", 1, count], ["smoothed round-trip time, ms", 2, count],
      ["not yet acknowledged, bytes", 3, bytes]].map(([name, column, show], n) => {
      const cell = element("div");
      cell.append(element("div", name, "soft"), chart([{ name, colour: colour(n), steps: true, points: c.points.map((p) => [p[0], p[column]]) }], { ...life, show }));
      return cell;
    }));
  };
  select.addEventListener("change", fill);
  box.querySelector("h2").append(select);
  box.append(cells);
  fill();
}

const seconds = (v) => v === null ? null : { text: v.toFixed(6), sort: v };
panel("Processes", true, "processes").append(table(["", "host", "process", "#started / s", "#ended / s", "state", "problem"],
  processes.map((p) => [{ text: p.as_expected ? "ok" : "failed", className: p.as_expected ? "good" : "bad" }, p.host,
    p.pid === null ? p.program : `${p.program}.${p.pid}`, seconds(p.started), seconds(p.ended), p.state, p.problem ?? ""])));

if (properties.length) {
  const judged = (p) => [p.reason, p.host && `${p.host}: ${p.file}${p.line === null ? "" : `:${p.line}`}`, p.text].filter(Boolean).join("; ");
  panel("Properties", true, "properties").append(table(["", "property", "kind", "#judged", "why"],
    properties.map((p) => [{ text: p.holds ? "holds" : "broken", className: p.holds ? "good" : "bad" }, p.name, p.kind, p.judged,
      p.holds ? "" : judged(p)])));
}

const models = Object.entries(stats.models ?? {});
if (models.length) {
  const box = panel("Models", true, "models");
  box.append(table(["model", "#count", "#done", "#failed", "#cut", "#sent", "#received", "#datagrams", "#lost", "#median / s", "#99 % / s", "why"],
    models.map(([name, m]) => [name, m.models, m.done, Object.values(m.failed).reduce((a, b) => a + b, 0), m.cut,
      { text: bytes(m.bytes_out), sort: m.bytes_out }, { text: bytes(m.bytes_in), sort: m.bytes_in }, m.datagrams, m.lost,
      seconds(m.completion?.median ?? null), seconds(m.completion?.p99 ?? null),
      { text: [...Object.entries(m.failed).map(([why, n]) => `${why} ${n}`), ...m.problems].join(", "), className: m.problems.length ? "bad" : "" }])));
  const times = Object.entries(data.completions).filter(([, t]) => t.length > 1);
  if (times.length) {
    const longest = Math.max(...times.map(([, t]) => t.at(-1)));
    const drawn = chart(times.map(([name, t], n) => ({ name, colour: colour(n), steps: true,
        points: [[0, 0], ...t.map((v, k) => [v, (100 * (k + 1)) / t.length]), [longest * 1.02, 100]] })),
      { end: longest * 1.02, show: (v) => `${+v.toPrecision(3)} %`, height: 200 });
    drawn.style.maxWidth = "680px";
    box.append(element("p", "How many of a model's flows are done within a time:", "soft"), drawn);
  }
}

if (stats.drawn_events) panel("Events drawn by the seed", true, "events").append(element("pre", stats.drawn_events));

const hasCpu = hosts.some(([, h]) => h.cpu);
const cpuOf = (h) => (hasCpu ? (h.cpu ? [{ text: `${(100 * h.cpu.busy).toFixed(1)} %`, sort: h.cpu.busy }, h.cpu.longest_backlog] : ["", ""]) : []);
panel("Hosts", true, "hosts").append(table(["host", "address", "#packets out", "#sent", "#packets in", "#received", "#dropped", "why",
  ...(hasCpu ? ["#CPU busy", "#longest backlog"] : [])],
  hosts.map(([name, h]) => [name, h.address, h.packets_out, { text: bytes(h.bytes_out), sort: h.bytes_out }, h.packets_in,
    { text: bytes(h.bytes_in), sort: h.bytes_in }, Object.values(h.drops).reduce((a, b) => a + b, 0),
    Object.entries(h.drops).map(([why, n]) => `${why} ${n}`).join(", "), ...cpuOf(h)])));

if (drops.length) panel("Dropped packets", true, "drops", "Drops")
  .append(table(["location", "reason", "#packets"], drops.sort((a, b) => b[2] - a[2])));

const carried = Object.entries(stats.links ?? {}).flatMap(([link, ways]) => Object.entries(ways).map(([way, w]) => [link, way, w.frames,
  { text: bytes(w.bytes), sort: w.bytes }, Object.values(w.drops).reduce((a, b) => a + b, 0),
  Object.entries(w.drops).map(([why, n]) => `${why} ${n}`).join(", ")]));
if (carried.length) panel("Link totals", true, data.links.length ? undefined : "links", "Links")
  .append(table(["link", "direction", "#frames", "#sent", "#dropped", "why"], carried));
const stations = Object.entries(stats.radios ?? {}).flatMap(([radio, r]) => Object.entries(r.stations).map(([name, s]) => [radio, name, s]));
if (stations.length) panel("Radio stations", true).append(table(["radio", "station", "#to all", "#to one", "#retries", "#received", "#dropped", "#sending", "#busy", "why"],
  stations.map(([radio, name, s]) => [radio, name, s.broadcasts, s.unicasts, s.retries, s.received, Object.values(s.drops).reduce((a, b) => a + b, 0),
    ...[s.airtime_seconds, s.busy_seconds].map((part) => ({ text: `${((100 * part) / end).toFixed(2)} %`, sort: part })),
    Object.entries(s.drops).map(([why, n]) => `${why} ${n}`).join(", ")])));
const routers = Object.entries(stats.routers ?? {});
if (routers.length) panel("Routers", true).append(table(["router", "#forwarded", "#hop limit reached", "#no route", "#no answer to ARP", "#malformed"],
  routers.map(([name, r]) => [name, r.forwarded, r.expired, r.no_route, r.unanswered, r.malformed])));

const p4 = Object.entries(stats.p4_switches ?? {});
if (p4.length) {
  panel("P4 tables", true).append(table(["switch", "table", "#entries", "#hits", "#misses"],
    p4.flatMap(([name, s]) => Object.entries(s.tables ?? {}).map(([own, t]) => [name, own, t.entries, t.hits, t.misses]))));
  panel("P4 ports", true).append(table(["switch", "port", "#packets in", "#packets out", "#most queued", "#queue full"],
    p4.flatMap(([name, s]) => Object.entries(s.ports ?? {}).map(([own, p]) =>
      [name, own, p.packets_in, p.packets_out, p.most_queued, p.queue_full]))));
  const dropped = p4.flatMap(([name, s]) => Object.entries(s.drops).map(([why, n]) => [name, why, n]));
  if (dropped.length) panel("P4 drops", true).append(table(["switch", "why", "#packets"], dropped));
}

const happened = processes.flatMap((p) => {
  const name = p.pid === null ? p.program : `${p.program}.${p.pid}`;
  return [p.started !== null && [seconds(p.started), p.host, `${name} starts`],
    p.ended !== null && [seconds(p.ended), p.host, { text: `${name}: ${p.state}`, className: p.as_expected ? "" : "bad" }]];
}).filter(Boolean).sort((a, b) => a[0].sort - b[0].sort);
const eventsBox = panel("Events", false, "events");
if (data.events) eventsBox.append(element("div", "of the experiment", "soft"), element("pre", data.events));
eventsBox.append(table(["#time / s", "host", "what"], happened));

panel("System calls", false, "syscalls").append(table(["call", "#count", "#share"],
  Object.entries(stats.syscalls).sort((a, b) => b[1] - a[1]).map(([name, n]) => [name, n,
    { text: `${((100 * n) / calls).toFixed(1)} %`, sort: n }])));

const warnings = [...Object.entries(stats.warnings),
  ...Object.entries(stats.preempted).map(([p, n]) => [`${p} was preempted: not deterministic from there on`, n])];
const warningsBox = panel("Warnings", true, "warnings");
warningsBox.append(warnings.length ? table(["what", "#count"], warnings) : element("p", "none", "soft"));

const outputs = panel("Output", true, "output");
for (const o of data.outputs) {
  const box = element("details"), head = element("summary", `${o.host}/${o.name}`);
  const cut = new TextEncoder().encode(o.text).length < o.len ? ", beginning shown" : "";
  head.append(element("span", `${bytes(o.len)}${cut}`));
  box.append(head, element("pre", o.text));
  box.open = data.outputs.length <= 6;
  outputs.append(box);
}
if (!data.outputs.length) outputs.append(element("p", "none of the processes has written anything", "soft"));
if (data.omitted_outputs) outputs.append(element("p", `and ${data.omitted_outputs} more files`, "soft"));
// Paper shows what a press would open.
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((box) => { box.open = true; }));
document.body.dataset.ready = "yes";
