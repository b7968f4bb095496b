// The drawing of the network: places of the graph and devices, hosts at them, and what links are.

// Springs along the edges, repulsion between all, from a circle: the same places for the same network, from 0 to 1 each way.
function layout(count, edges) {
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
  const share = (v, all) => {
    const low = Math.min(...all), high = Math.max(...all);
    return high - low < 1e-6 ? 0.5 : (v - low) / (high - low);
  };
  const xs = at.map((p) => p.x), ys = at.map((p) => p.y);
  return at.map((p) => ({ x: share(p.x, xs), y: share(p.y, ys) }));
}

// What an edge is: "" for the tie of a host on the graph that has links as well.
function edgeText(edge, kinds) {
  if (edge.link && kinds.includes("radio")) return edge.rate ? `radio, ${rate(edge.rate)}` : "radio";
  if (!edge.link && !edge.latency_ns) return "";
  const speed = edge.link ? `${edge.rate ? rate(edge.rate) : "unlimited"}, ` : "";
  const jitter = edge.jitter_ns ? ` ± ${duration(edge.jitter_ns)}` : "";
  const loss = edge.loss ? `, ${+(edge.loss * 100).toPrecision(3)} % lost` : "";
  return `${speed}${duration(edge.latency_ns)}${jitter}${loss}`;
}

// The shape of a node.
function nodeShape(kind, name, x, y, r) {
  const title = make("title", {}, kind && kind !== "host" ? `${kind} ${name}` : name);
  if (kind === "switch" || kind === "P4 switch")
    return make("rect", { x: x - 1.4 * r, y: y - r, width: 2.8 * r, height: 2 * r, rx: 3, class: "station switch" }, title);
  if (kind === "router")
    return make("path", { d: `M${x - 1.5 * r},${y}L${x},${y - 1.3 * r}L${x + 1.5 * r},${y}L${x},${y + 1.3 * r}Z`, class: "station router" }, title);
  if (kind === "radio")
    return make("g", {}, title, ...[1.5, 1, 0.5].map((part) => make("circle", { cx: x, cy: y, r: part * r, class: "station radio" })));
  return make("circle", { cx: x, cy: y, r, class: "place" }, title);
}

// Radius of a host's mark, for its share of the traffic from 0 to 1.
const markSize = (crowd, share) => (crowd ? 3 + 4 * Math.sqrt(share) : 9 + 10 * Math.sqrt(share));

// The network in a box that draws it anew for another width of the page. `traffic` gives a host's share of the traffic, `line` the elements
// of an edge from a to b, `pick` is called for a host that is pressed, and `drawn` after each drawing. With `labels`, edges say what they are.
function drawTopology(topology, { traffic, line, pick, drawn, labels }) {
  const { nodes, edges } = topology, index = new Map(nodes.map((node, n) => [node.id, n]));
  const links = edges.map((e) => [index.get(e.source), index.get(e.target)]).filter(([a, b]) => a !== undefined && b !== undefined);
  const unit = layout(nodes.length, links), box = document.createElement("div");
  const here = nodes.map(() => []);
  topology.hosts.forEach((host, order) => here[index.get(host.node)]?.push({ ...host, order }));
  fitted(box, 1180, (width) => {
    box.replaceChildren(topologyDrawing(topology, { index, here, unit, width, traffic, line, pick, labels }));
    drawn();
  });
  return box;
}

function topologyDrawing({ nodes, edges, hosts }, { index, here, unit, width, traffic, line, pick, labels }) {
  const crowd = nodes.length > 30 || hosts.length > 60 || here.some((all) => all.length > 20);
  const height = nodes.length > 8 || crowd ? 560 : nodes.length > 2 ? 400 : 300;
  // Hosts that share a place stand around it.
  const ring = (count) => (count < 2 ? 0 : Math.max(62, count * 7));
  const around = Math.max(0, ...here.map((all) => (crowd ? 0 : ring(all.length))));
  const [across, down] = [Math.max(Math.min(120, 0.12 * width), around + 22), Math.max(48, 0.8 * around + 40)];
  const at = unit.map((p) => ({ x: across + p.x * (width - 2 * across), y: down + p.y * (height - 2 * down) }));
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "topology", "data-crowd": String(crowd) });
  const room = roomOf(width, height), texts = make("g", {}), ties = make("g", {}), shapes = make("g", {}), marks = make("g", {});
  // A label at the first of the positions that is free, on paper of its own where it would be struck through.
  const label = (text, className, positions, hasPaper) => {
    const boxes = positions.map(([x, y]) => textBox(text, x, y)), n = room.free(boxes);
    if (n < 0) return null;
    const [x, y] = positions[n], [left, top, right, bottom] = boxes[n];
    const node = make("text", { x, y, "text-anchor": "middle", class: className }, text);
    if (hasPaper) texts.append(make("rect", { x: left, y: top, width: right - left, height: bottom - top, class: "paper" }));
    texts.append(node);
    return node;
  };
  const named = [];
  // Directions of the edges of each node.
  const leave = nodes.map(() => []);
  for (const { source, target } of edges) {
    const [from, to] = [index.get(source), index.get(target)];
    if (from === undefined || to === undefined || from === to) continue;
    const [dx, dy] = [at[to].x - at[from].x, at[to].y - at[from].y], length = Math.hypot(dx, dy) || 1;
    leave[from].push([dx / length, dy / length]);
    leave[to].push([-dx / length, -dy / length]);
  }
  // Positions of a label at a node, first those in whose direction no edge leaves.
  const clear = (n, positions) => {
    const struck = ([x, y]) => {
      const [dx, dy] = [x - at[n].x, y - 4 - at[n].y], length = Math.hypot(dx, dy) || 1;
      return leave[n].some(([ex, ey]) => (dx * ex + dy * ey) / length > 0.7);
    };
    return [...positions.filter((one) => !struck(one)), ...positions.filter(struck)];
  };
  nodes.forEach((node, n) => {
    const { x, y } = at[n], name = node.label ?? `node ${node.id}`, r = crowd ? 4 : 9, all = here[n];
    if ((all.length !== 1 || crowd) && node.kind !== "host") shapes.append(nodeShape(node.kind, name, x, y, r));
    room.take([x - 1.5 * r, y - 1.5 * r, x + 1.5 * r, y + 1.5 * r]);
    // Those of a crowd stand as seeds of a sunflower do, close enough for all to be on the page.
    const apart = Math.min(9, (height / 2 - 24) / 0.8 / Math.sqrt(all.length + 1), (width / 2 - 24) / Math.sqrt(all.length + 1));
    all.forEach((host, k) => {
      const angle = -Math.PI / 2 + (crowd ? 2.39996 * k : (2 * Math.PI * k) / all.length);
      // A host alone stands at its place, where its edges end.
      const away = all.length < 2 ? 0 : crowd ? apart * Math.sqrt(k + 1) : ring(all.length);
      const hx = x + away * Math.cos(angle), hy = y + away * 0.8 * Math.sin(angle);
      const size = markSize(crowd, traffic(host.name));
      const mark = make("g", { class: "host", "data-host": host.name },
        make("circle", { cx: hx, cy: hy, r: size, fill: colour(host.order) }),
        make("title", {}, `${host.name} ${host.address}${node.kind ? "" : `, at ${name}`}`));
      if (away && !crowd) ties.append(make("line", { x1: x, y1: y, x2: hx, y2: hy, class: "edge", "stroke-dasharray": "2 3" }));
      room.take([hx - size, hy - size, hx + size, hy + size]);
      // Names stand outside of the ring.
      const side = textWidth(host.name) / 2 + size + 5, centre = centred(host.name, hx, width);
      const positions = [[centre, hy + size + 14], [centre, hy - size - 6], [hx + side, hy + 4], [hx - side, hy + 4]];
      if (away > 0 && Math.sin(angle) < -0.1) positions.unshift(...positions.splice(1, 1));
      if ((!crowd || hosts.length <= 60) && all.length <= 14) named.push([host.name, "halo", away ? positions : clear(n, positions)]);
      pressable(mark, host.name, () => pick(host.name));
      marks.append(mark);
    });
    const up = all.length === 1 && !crowd ? 26 : 18, centre = centred(name, x, width);
    if (nodes.length <= 40 && node.kind !== "host" && (nodes.length > 1 || node.label))
      named.push([name, "soft halo", clear(n, [[centre, y - up], [centre, y + up + 10], [x + textWidth(name) / 2 + 18, y + 4],
        [x - textWidth(name) / 2 - 18, y + 4]])]);
  });
  named.forEach((one) => label(...one));
  edges.forEach((edge, n) => {
    const [from, to] = [index.get(edge.source), index.get(edge.target)], [a, b] = [at[from], at[to]];
    if (!a || !b) return;
    const text = edgeText(edge, [nodes[from].kind, nodes[to].kind]);
    svg.append(...line(edge, n, a, b, { text, crowd, label }));
    // An edge without room for its label has it in its title alone.
    if (labels && edges.length <= 40 && text) {
      const along = (share) => [a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share + 4];
      label(text, "soft", [0.5, 0.4, 0.6, 0.3, 0.7].map(along), true);
    }
  });
  svg.append(ties, shapes, texts, marks);
  return svg;
}
