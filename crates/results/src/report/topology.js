// The drawing of the network: places of the graph, hosts around them.

const SVG = "http://www.w3.org/2000/svg";
const PALETTE = ["#2f6fde", "#e8833a", "#2a9d6f", "#c94f7c", "#8259d6", "#b59b1f", "#1b98b0", "#d1493f",
  "#6b7f99", "#7aa52c", "#a0643c", "#4e57c9"];
const colour = (n) => PALETTE[n % PALETTE.length];

function make(name, attributes, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function duration(ns) {
  for (const [unit, size] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]])
    if (ns >= size) return `${+(ns / size).toPrecision(4)} ${unit}`;
  return `${ns} ns`;
}

// Springs along the edges, repulsion between all, from a circle: the same places for the same network.
function layout(count, edges, width, height) {
  const at = [...Array(count).keys()].map((n) => {
    const angle = (2 * Math.PI * n) / count;
    return { x: Math.cos(angle), y: Math.sin(angle) };
  });
  const wanted = count > 1 ? 2.2 / Math.sqrt(count) : 0;
  for (let step = 0; step < 400 && count > 1; step++) {
    const heat = 0.12 * (1 - step / 400);
    const force = at.map(() => ({ x: 0, y: 0 }));
    for (let a = 0; a < count; a++)
      for (let b = a + 1; b < count; b++) {
        const dx = at[a].x - at[b].x, dy = at[a].y - at[b].y, d = Math.max(Math.hypot(dx, dy), 1e-3);
        const push = (wanted * wanted) / d / d;
        force[a].x += dx * push; force[a].y += dy * push; force[b].x -= dx * push; force[b].y -= dy * push;
      }
    for (const [a, b] of edges) {
      const dx = at[a].x - at[b].x, dy = at[a].y - at[b].y, d = Math.hypot(dx, dy);
      const pull = d / wanted;
      force[a].x -= dx * pull; force[a].y -= dy * pull; force[b].x += dx * pull; force[b].y += dy * pull;
    }
    at.forEach((p, n) => {
      const f = Math.hypot(force[n].x, force[n].y) || 1, move = Math.min(f, heat);
      p.x += (force[n].x / f) * move; p.y += (force[n].y / f) * move;
    });
  }
  const xs = at.map((p) => p.x), ys = at.map((p) => p.y);
  const fit = (v, all, size, margin) => {
    const low = Math.min(...all), high = Math.max(...all);
    return high - low < 1e-6 ? size / 2 : margin + ((v - low) / (high - low)) * (size - 2 * margin);
  };
  return at.map((p) => ({ x: fit(p.x, xs, width, 120), y: fit(p.y, ys, height, 76) }));
}

function drawTopology(data, pick) {
  const { nodes, edges, hosts } = data.topology;
  const width = 1180, crowd = nodes.length > 30 || hosts.length > 60;
  const height = nodes.length > 8 || crowd ? 560 : nodes.length > 2 ? 400 : 300;
  const index = new Map(nodes.map((node, n) => [node.id, n]));
  const links = edges.map((e) => [index.get(e.source), index.get(e.target)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const at = layout(nodes.length, links, width, height);
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "topology" });
  const labels = make("g", {});
  edges.forEach((edge, n) => {
    const [a, b] = [at[index.get(edge.source)], at[index.get(edge.target)]];
    if (!a || !b) return;
    const speed = edge.link ? `${edge.rate ? rate(edge.rate) : "unlimited"}, ` : "";
    const carried = Object.entries(data.statistics.links?.[edge.link] ?? {}).map(([way, w]) => `\n${way}: ${bytes(w.bytes)}`).join("");
    const loss = edge.loss ? `, ${+(edge.loss * 100).toPrecision(3)} % lost` : "";
    const jitter = edge.jitter_ns ? ` ± ${duration(edge.jitter_ns)}` : "";
    const where = edges.length > 12 ? 0.36 : 0.5;
    // A host that is on the graph as well stands beside its place there.
    const tie = !edge.link && !edge.latency_ns;
    const text = tie ? "" : `${speed}${duration(edge.latency_ns)}${jitter}${loss}`;
    svg.append(make("line", { x1: a.x, y1: a.y, x2: b.x, y2: b.y, class: "edge", "stroke-width": crowd ? 0.8 : 2 },
      make("title", {}, `${edge.link ? `${edge.link}: ` : ""}${text}${carried}`)));
    if (edges.length <= 40 && text)
      // Long edges cross in the middle: their labels stand nearer to one end.
      labels.append(make("text", { x: a.x + (b.x - a.x) * where, y: a.y + (b.y - a.y) * where - 5, "text-anchor": "middle", class: "soft halo" }, text));
  });
  svg.append(labels);
  const most = Math.max(1, ...Object.values(data.statistics.hosts).map((h) => h.bytes_out + h.bytes_in));
  nodes.forEach((node, n) => {
    const here = hosts.filter((host) => host.node === node.id), { x, y } = at[n];
    const name = node.label ?? `node ${node.id}`;
    const r = crowd ? 4 : 9;
    if (node.kind === "switch")
      svg.append(make("rect", { x: x - 1.4 * r, y: y - r, width: 2.8 * r, height: 2 * r, rx: 3, class: "station switch" }, make("title", {}, `switch ${name}`)));
    else if (node.kind === "router")
      svg.append(make("path", { d: `M${x - 1.5 * r},${y}L${x},${y - 1.3 * r}L${x + 1.5 * r},${y}L${x},${y + 1.3 * r}Z`, class: "station router" }, make("title", {}, `router ${name}`)));
    else if ((here.length !== 1 || crowd) && node.kind !== "host")
      svg.append(make("circle", { cx: x, cy: y, r, class: "place" }, make("title", {}, name)));
    const ring = here.length === 1 ? 0 : Math.max(62, here.length * 7);
    // Those of a crowd stand as seeds of a sunflower do, close enough for all to be on the page.
    const apart = Math.min(9, (height / 2 - 24) / 0.8 / Math.sqrt(here.length + 1));
    here.forEach((host, k) => {
      const angle = -Math.PI / 2 + (crowd ? 2.39996 * k : (2 * Math.PI * k) / here.length);
      const away = crowd ? apart * Math.sqrt(k + 1) : ring;
      const hx = x + away * Math.cos(angle), hy = y + away * 0.8 * Math.sin(angle);
      const traffic = data.statistics.hosts[host.name], order = hosts.indexOf(host);
      const r = (crowd ? 3 : 9) + (crowd ? 4 : 10) * Math.sqrt(traffic ? (traffic.bytes_out + traffic.bytes_in) / most : 0);
      const group = make("g", { class: "host", "data-host": host.name },
        make("circle", { cx: hx, cy: hy, r, fill: colour(order) }),
        make("title", {}, `${host.name} ${host.address}${node.kind ? "" : `, at ${name}`}`));
      if (away && !crowd) svg.append(make("line", { x1: x, y1: y, x2: hx, y2: hy, class: "edge", "stroke-dasharray": "2 3" }));
      // Names stand outside of the ring.
      const above = away > 0 && Math.sin(angle) < -0.1;
      if (!crowd && here.length <= 14)
        group.append(make("text", { x: hx, y: above ? hy - r - 6 : hy + r + 15, "text-anchor": "middle", class: "halo" }, host.name));
      pressable(group, host.name, () => pick(host.name));
      svg.append(group);
    });
    const label = make("text", { x, y: y - (here.length === 1 && !crowd ? 26 : 14), "text-anchor": "middle", class: "soft halo" }, name);
    if (nodes.length <= 40 && node.kind !== "host" && (nodes.length > 1 || node.label)) svg.append(label);
  });
  return svg;
}
