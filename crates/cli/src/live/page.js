// Asks the run for its state again and again, shows it, and passes on what is to be done. Nothing of a run is ever put into the page as
// HTML: all text goes through textContent.
const $ = (id) => document.getElementById(id);
const node = (tag, text, props) => Object.assign(document.createElement(tag), text === undefined ? {} : { textContent: text }, props || {});
const count = (value) => value.toLocaleString("en");
const seconds = (ns, digits = 6) => `${(ns / 1e9).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })} s`;

async function ask(question) {
  const answer = await fetch("", { method: "POST", body: JSON.stringify(question) });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error);
  return body;
}

// The columns of the hosts' table.
const COLUMNS = [["name", "host"], ["running", "run"], ["ended", "ended"], ["connections", "connections"], ["syscalls", "calls"],
  ["bytes_in", "received", bytes], ["bytes_out", "sent", bytes], ["dropped", "dropped"], ["queued", "queued"]];
const SHOWN = 200;
let by = "name", state = null, names = [], over = false, chosen = null;
const speeds = [];

function say(text) {
  $("said").textContent = text || "";
}

async function act(question) {
  try {
    say();
    await ask(question);
    await refresh();
  } catch (error) {
    say(over ? "the run is over" : error.message);
  }
}
const actions = {
  pause: () => act({ ask: state && state.is_paused ? "go_on" : "pause" }),
  step: () => act({ ask: "step" }),
  next: () => act({ ask: "next_event" }),
  for: () => act({ ask: "go_for", duration: $("span").value }),
  close: () => choose(null),
};
for (const [id, action] of Object.entries(actions)) $(id).addEventListener("click", action);

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else choose(null);
    return;
  }
  if (typing) {
    if (event.key === "Enter" && event.target.id === "span") actions.for();
    return;
  }
  // A button that has the focus is pressed by the space key itself.
  if (event.key === " " && event.target.matches("button, a")) return;
  const key = { " ": actions.pause, s: actions.step, n: actions.next, f: actions.for, w: () => $("snapshot").click(),
    "/": () => $("filter").focus() }[event.key];
  if (key) {
    event.preventDefault();
    key();
  }
});
$("filter").addEventListener("input", () => refresh());

function head() {
  const row = node("tr");
  for (const [column, title] of COLUMNS) {
    const cell = node("th", undefined, { className: column === "name" ? "" : "n", scope: "col" });
    const button = node("button", title, { title: "sort" });
    button.addEventListener("click", () => {
      by = column;
      for (const other of row.children) other.removeAttribute("aria-sort");
      cell.setAttribute("aria-sort", column === "name" ? "ascending" : "descending");
      refresh();
    });
    cell.append(button);
    row.append(cell);
  }
  $("hosts").tHead.append(row);
}

function showHosts() {
  const body = $("hosts").tBodies[0];
  while (body.rows.length > state.hosts.length) body.deleteRow(-1);
  state.hosts.forEach((host, n) => {
    let row = body.rows[n];
    // Rows are filled anew and not made anew: the focus stays where it is.
    if (!row) {
      row = body.insertRow();
      const button = node("button", "", { title: "show its tables" });
      button.addEventListener("click", () => choose(button.textContent));
      row.insertCell().append(button);
      for (let n = 1; n < COLUMNS.length; n++) row.insertCell().className = "n";
    }
    row.cells[0].firstChild.textContent = host.name;
    for (let n = 1; n < COLUMNS.length; n++) {
      const [column, , format] = COLUMNS[n];
      row.cells[n].textContent = (format || count)(host[column]);
    }
  });
  $("shown").textContent = state.matching > state.hosts.length
    ? `${count(state.hosts.length)} of ${count(state.matching)} are shown: find others by their names`
    : `${count(state.matching)} of ${count(state.host_count)}`;
}

function showMap() {
  const map = $("map");
  map.hidden = state.host_count > 5000;
  if (map.hidden) return;
  while (map.children.length > state.activity.length) map.lastChild.remove();
  [...state.activity].forEach((digit, n) => {
    const square = map.children[n] || map.appendChild(node("i", undefined, { title: names[n] || "" }));
    const opacity = String(0.12 + Number(digit) * 0.097);
    if (square.style.opacity !== opacity) square.style.opacity = opacity;
  });
}

function showTiles() {
  const total = state.total;
  const tiles = [["hosts", count(state.host_count)], ["devices", count(state.device_count)], ["programs run", count(total.running)],
    ["programs ended", count(total.ended)], ["TCP connections", count(total.connections)], ["system calls", count(total.syscalls)],
    ["sent", bytes(total.bytes_out)], ["packets wait", count(total.queued)], ["packets dropped", count(total.dropped)],
    ["workers", count(state.workers)]];
  const box = $("tiles");
  tiles.forEach(([what, value], n) => {
    let tile = box.children[n];
    if (!tile) {
      tile = box.appendChild(node("div", undefined, { className: "tile" }));
      tile.append(node("b"), node("span", what));
    }
    tile.firstChild.textContent = value;
  });
}

// Each half of a line is the direction that its end sends: the wider the more, coloured by its share of the link's rate.
let network = null;
function halves(edge, n, a, b, { label }) {
  const middle = { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
  const few = network.topology.edges.length <= 40 && edge.link;
  const [dx, dy] = [b.x - a.x, b.y - a.y], length = Math.hypot(dx, dy) || 1, [across, down] = [-dy / length, dx / length];
  // Distance from the line of the middle of a text of 72 by 16 px that does not touch it.
  const apart = 36 * Math.abs(across) + 8 * Math.abs(down) + 5;
  return [a, b].flatMap((from, direction) => {
    // Beside the line or, without room there, on it; the load is in the text later.
    const at = (side) => [0.55, 0.75, 0.4].map((share) => [from.x + (middle.x - from.x) * share + side * apart * across,
      from.y + (middle.y - from.y) * share + side * apart * down + 4]);
    const text = few && label("888 Mbit/s", "halo load", [-1, 1, 0].flatMap(at));
    if (text) Object.assign(text.dataset, { edge: n, direction }), text.replaceChildren();
    return [make("line", { x1: from.x, y1: from.y, x2: middle.x, y2: middle.y, class: "edge", "data-edge": n, "data-direction": direction }, make("title", {}))];
  });
}

function showLoads() {
  const svg = $("network").querySelector("svg");
  if (!svg || !state) return;
  const { edges, hosts } = state.loads, { topology, rates } = network;
  const ends = (edge) => [edge.source, edge.target].map((id) => network.names.get(id));
  for (const line of $("network").querySelectorAll("line[data-edge]")) {
    const { edge: n, direction } = line.dataset, edge = topology.edges[n], load = edges[n]?.[direction] ?? 0, most = rates[n][direction];
    const share = most ? load / most : 0;
    line.classList.toggle("loaded", load > 0);
    line.classList.toggle("half", share >= 0.5);
    line.classList.toggle("full", share >= 0.9);
    line.setAttribute("stroke-width", load ? Math.max(2, Math.min(Math.log10(load) - 1, 8)) : 1.5);
    const [from, to] = direction === "0" ? ends(edge) : ends(edge).reverse();
    line.firstChild.textContent = edge.link
      ? `${edge.link}, ${from} to ${to}: ${rate(load)}${most ? ` of ${rate(most)} (${(100 * share).toFixed(0)} %)` : ""}` : edgeText(edge, []);
  }
  for (const text of $("network").querySelectorAll("text.load")) {
    const load = edges[text.dataset.edge]?.[text.dataset.direction] ?? 0;
    text.textContent = load ? rate(load) : "";
  }
  const most = hosts.reduce((a, b) => Math.max(a, b), 1), crowd = svg.dataset.crowd === "true";
  const order = new Map(topology.hosts.map((host, n) => [host.name, n]));
  for (const mark of $("network").querySelectorAll(".host")) {
    const n = order.get(mark.dataset.host), circle = mark.querySelector("circle");
    circle.setAttribute("r", markSize(crowd, (hosts[n] ?? 0) / most));
    mark.querySelector("title").textContent = `${mark.dataset.host} ${topology.hosts[n].address}: ${rate(hosts[n] ?? 0)}`;
  }
}

async function drawNetwork() {
  network = await ask({ ask: "network" });
  const { topology } = network;
  // Names of the drawing's nodes: hosts on links have theirs in the list of hosts.
  network.names = new Map(topology.nodes.map((node) => [node.id, node.label ?? topology.hosts.find((host) => host.node === node.id)?.name ?? `node ${node.id}`]));
  if (!topology.nodes.length) return;
  $("h-network").parentElement.hidden = false;
  $("network").append(drawTopology(topology, { traffic: () => 1, line: halves, pick: choose, drawn: showLoads }));
  if (topology.omitted_nodes) $("omitted").textContent = `${count(topology.omitted_nodes)} nodes of the graph without hosts are left out.`;
}

function showEvents() {
  const item = (entry, className) => {
    const line = node("li", undefined, { className });
    line.append(node("time", seconds(entry.at_ns)), node("span", entry.text));
    return line;
  };
  const more = (what, n) => (n ? [node("li", `${count(n)} ${what}`, { className: "soft" })] : []);
  $("events").replaceChildren(...more("earlier", state.earlier), ...state.past.map((entry) => item(entry, "done")),
    ...state.to_come.map((entry, n) => item(entry, n ? "" : "now")), ...more("later", state.later));
  if (!$("events").children.length) $("events").append(node("li", "nothing is scheduled", { className: "soft" }));
}

function showLinks() {
  const rows = [node("tr")];
  for (const [title, className] of [["from and to", ""], ["wait", "n"], ["dropped", "n"], ["frames", "n"]])
    rows[0].append(node("th", title, { className, scope: "col" }));
  for (const link of state.links) {
    const row = node("tr");
    const button = node("button", link.name, { title: `show the tables of ${link.from}` });
    button.addEventListener("click", () => choose(link.from));
    const cell = node("td");
    cell.append(button);
    row.append(cell, ...[link.queued, link.dropped, link.frames].map((n) => node("td", count(n), { className: "n" })));
    rows.push(row);
  }
  // The focus stays at the direction that it was at.
  const focused = $("links").contains(document.activeElement) ? document.activeElement.textContent : null;
  if (state.links.length) $("links").replaceChildren(...rows);
  else $("links").replaceChildren(node("caption", "The experiment has no links; what waits at hosts is in their table.", { className: "soft" }));
  if (focused !== null) [...$("links").querySelectorAll("button")].find((button) => button.textContent === focused)?.focus();
  $("h-queues").textContent = state.link_count > state.links.length ? `Queues: the longest of ${count(state.link_count)}` : "Queues";
}

function showWarnings() {
  const warnings = Object.entries(state.warnings).map(([text, n]) => node("li", n > 1 ? `${text} (${count(n)}x)` : text, { className: "warn" }));
  $("warnings").replaceChildren(...warnings, ...state.notes.map((note) => node("li", note)));
  if (!$("warnings").children.length) $("warnings").append(node("li", "none", { className: "soft" }));
}

function showSpeed() {
  if (state.speed !== null) speeds.push(state.speed);
  if (speeds.length > 200) speeds.shift();
  const most = Math.max(...speeds, 1e-9);
  const points = speeds.map((speed, n) => `${(400 * n / 199).toFixed(1)},${(112 - 96 * speed / most).toFixed(1)}`);
  const svg = (tag, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text) made.textContent = text;
    return made;
  };
  $("speed").replaceChildren(svg("path", { d: points.length ? `M${points.join("L")}` : "" }),
    svg("text", { x: 0, y: 11 }, speeds.length ? `${most.toPrecision(3)} simulated seconds per second at most` : ""));
}

function show() {
  const done = 100 * state.time_ns / Math.max(state.stop_ns, 1);
  $("time").textContent = seconds(state.time_ns, 9);
  $("of").textContent = `of ${seconds(state.stop_ns, 0)}, ${state.real_s.toFixed(0)} s of real time`;
  $("bar").setAttribute("aria-valuenow", done.toFixed(1));
  $("bar").firstElementChild.style.width = `${done}%`;
  const pausing = state.pause_at_ns === null ? "" : `, pauses at ${seconds(state.pause_at_ns)}`;
  const how = state.is_over ? "writing results" : state.is_paused ? "paused"
    : state.is_late ? "a program computes for long: what is shown of hosts is older"
      : state.speed === null ? `running${pausing}` : `running, ${state.speed.toPrecision(3)} simulated seconds per second${pausing}`;
  if ($("how").textContent !== how) $("how").textContent = how;
  $("pause").firstElementChild.textContent = state.is_paused ? "Go on" : "Pause";
  for (const id of ["pause", "step", "next", "for"]) {
    $(id).disabled = state.is_over || state.no_pause !== null;
    if (state.no_pause) $(id).title = state.no_pause;
  }
  showTiles();
  showMap();
  showLoads();
  showHosts();
  showEvents();
  showLinks();
  showWarnings();
  showSpeed();
  document.body.dataset.ready = "yes";
  document.body.dataset.paused = state.is_paused ? "yes" : "no";
}

// Rows of comma-separated values: cells may be quoted.
function rowsOf(csv) {
  const rows = [[]];
  for (const [, quoted, plain, end] of csv.matchAll(/(?:"((?:[^"]|"")*)"|([^,\n]*))(,|\n|$)/g)) {
    rows[rows.length - 1].push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\n") rows.push([]);
    if (end === "") break;
  }
  return rows.filter((row) => row.length > 1 || row[0]);
}

async function choose(name) {
  const before = chosen;
  chosen = name;
  $("node").hidden = name === null;
  if (name === null) {
    if (before !== null) [...$("hosts").querySelectorAll("td button")].find((button) => button.textContent === before)?.focus();
    return;
  }
  await showTables();
  $("node").focus();
}

async function showTables() {
  try {
    const { time_ns, tables } = await ask({ ask: "tables", node: chosen });
    $("h-node").textContent = `${chosen} at ${seconds(time_ns, 9)}`;
    $("tables").replaceChildren(...tables.flatMap(({ name, csv }) => {
      const table = node("table");
      rowsOf(csv).forEach((cells, n) => {
        const row = table.insertRow();
        for (const cell of cells) row.append(node(n ? "td" : "th", cell));
      });
      const box = node("div", undefined, { className: "scroll", tabIndex: 0 });
      box.append(table);
      return [node("h3", name), box];
    }));
    if (!tables.length) $("tables").append(node("p", "It has no tables.", { className: "soft" }));
  } catch (error) {
    say(error.message);
  }
}

// Devices have tables too: those of the links are named at their queues.
let shownAt = null, busy = false;
async function refresh() {
  if (busy || over) return;
  busy = true;
  try {
    if (!names.length) names = await ask({ ask: "names" });
    if (!network) await drawNetwork();
    const [filter, order] = [$("filter").value, by];
    state = await ask({ ask: "state", filter, by: order, limit: SHOWN });
    show();
    if (chosen !== null && shownAt !== state.time_ns) await showTables();
    shownAt = state.time_ns;
  } catch {
    over = true;
    $("how").textContent = state ? `the run is over: its results are in ${state.folder}` : "the run is over";
    for (const id of ["pause", "step", "next", "for"]) $(id).disabled = true;
    document.body.dataset.over = "yes";
  }
  busy = false;
}

head();
refresh().then(function again() {
  if (!over) setTimeout(() => refresh().then(again), 500);
});
