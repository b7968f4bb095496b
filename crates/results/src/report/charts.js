// Curves over simulated time, with a legend that hides and a line under the pointer that tells values.

const tip = document.createElement("div");
tip.className = "tip";
document.body.append(tip);

function rounded(most) {
  const scale = 10 ** Math.floor(Math.log10(most || 1));
  return [1, 2, 2.5, 5, 10].map((m) => m * scale).find((m) => m >= most) || 1;
}

// curves: [{name, colour, points: [[x, y], ...], steps}]; a curve with `steps` keeps its value until the next point.
function chart(curves, { start = 0, end, show, unit = "", height = 230 }) {
  const box = document.createElement("div"), width = 580, left = 84, right = 10, top = 10, bottom = 24;
  const hidden = new Set();
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}` });
  const x = (t) => left + ((t - start) / (end - start)) * (width - left - right);
  function draw(cross) {
    svg.replaceChildren();
    const seen = curves.filter((c) => !hidden.has(c.name));
    const high = rounded(Math.max(0, ...seen.flatMap((c) => c.points.map((p) => p[1]))));
    const y = (v) => height - bottom - (v / high) * (height - top - bottom);
    for (let n = 0; n <= 4; n++) {
      const v = (high * n) / 4;
      svg.append(make("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
        make("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", class: "soft" }, show(v)));
    }
    for (let n = 0; n <= 5; n++) {
      const t = start + ((end - start) * n) / 5;
      svg.append(make("text", { x: x(t), y: height - 6, "text-anchor": n ? (n < 5 ? "middle" : "end") : "start", class: "soft" }, `${+t.toPrecision(3)} s`));
    }
    for (const curve of seen) {
      let path = "", before;
      for (const p of curve.points) {
        if (before && curve.steps) path += `L${x(p[0]).toFixed(1)},${y(before[1]).toFixed(1)}`;
        path += `${before ? "L" : "M"}${x(p[0]).toFixed(1)},${y(p[1]).toFixed(1)}`;
        before = p;
      }
      svg.append(make("path", { d: path, fill: "none", stroke: curve.colour, "stroke-width": 1.7, "stroke-linejoin": "round" }));
    }
    if (cross !== undefined) svg.append(make("line", { x1: x(cross), x2: x(cross), y1: top, y2: height - bottom, class: "cross" }));
    return seen;
  }
  svg.addEventListener("pointermove", (event) => {
    const area = svg.getBoundingClientRect();
    const t = ((((event.clientX - area.left) / area.width) * width - left) / (width - left - right)) * (end - start) + start;
    if (t < start || t > end) return leave();
    const rows = draw(t).map((c) => {
      const near = c.points.findLast((p) => p[0] <= t) ?? (c.steps ? undefined : c.points[0]);
      return near && { curve: c, value: near[1] };
    }).filter(Boolean).sort((a, b) => b.value - a.value).slice(0, 10);
    tip.replaceChildren(Object.assign(document.createElement("div"), { className: "soft", textContent: `${t.toFixed(3)} s` }),
      ...rows.map((row) => {
        const line = document.createElement("div"), mark = document.createElement("b");
        mark.textContent = "■ "; mark.style.color = row.curve.colour;
        line.append(mark, `${row.curve.name}: ${show(row.value)}${unit}`);
        return line;
      }));
    tip.style.display = "block";
    tip.style.left = `${Math.min(event.clientX + 16, innerWidth - tip.offsetWidth - 12)}px`;
    tip.style.top = `${Math.min(event.clientY + 12, innerHeight - tip.offsetHeight - 12)}px`;
  });
  const leave = () => { tip.style.display = "none"; draw(); };
  svg.addEventListener("pointerleave", leave);
  const legend = document.createElement("div");
  legend.className = "legend";
  for (const curve of curves) {
    const label = document.createElement("span"), mark = document.createElement("i");
    mark.style.background = curve.colour;
    label.append(mark, curve.name);
    pressable(label, "", () => {
      hidden.has(curve.name) ? hidden.delete(curve.name) : hidden.add(curve.name);
      label.classList.toggle("off", hidden.has(curve.name));
      label.setAttribute("aria-pressed", String(!hidden.has(curve.name)));
      draw();
    });
    legend.append(label);
  }
  draw();
  box.append(svg);
  if (curves.length > 1) box.append(legend);
  box.only = (name) => {
    hidden.clear();
    if (name && curves.some((c) => c.name === name)) curves.forEach((c) => c.name !== name && hidden.add(c.name));
    [...legend.children].forEach((label, n) => label.classList.toggle("off", hidden.has(curves[n].name)));
    draw();
  };
  return box;
}
