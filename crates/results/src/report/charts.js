// Curves over simulated time, with a legend that hides them and a line under the pointer that shows their values.

const tip = document.createElement("div");
tip.className = "tip";
document.body.append(tip);

// Round numbers from `low` to beyond `high`, 1, 2, 2.5 or 5 times a power of ten apart, about `most` of them.
function ticks(low, high, most, whole) {
  const least = (high - low || 1) / most, power = 10 ** Math.floor(Math.log10(least));
  const apart = [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= least * 0.999 && (!whole || step % 1 === 0)) ?? 1;
  const first = Math.ceil(low / apart - 1e-9), count = Math.ceil((high - low) / apart - 1e-9);
  // Products of whole numbers have fewer digits to round than sums of steps.
  return [...Array(Math.max(count, 1) + 1).keys()].map((n) => +((first + n) * apart).toPrecision(12));
}

// Texts of times, all in the unit of the latest.
function timeTexts(all) {
  const [unit, size] = [["s", 1], ["ms", 1e-3], ["µs", 1e-6], ["ns", 1e-9]].find(([, size]) => all.at(-1) >= size * 0.999) ?? ["ns", 1e-9];
  return all.map((t) => `${+(t / size).toPrecision(6)} ${unit}`);
}

// curves: [{name, colour, points: [[x, y], ...], steps, hidden}]; a curve with `steps` keeps its value until the next point, a hidden one
// is drawn when its legend is pressed.
function chart(curves, { start = 0, end, show, unit = "", height = 230 }) {
  const box = document.createElement("div"), right = 14, top = 10, bottom = 24;
  const usual = curves.filter((c) => c.hidden).map((c) => c.name), hidden = new Set(usual);
  const svg = make("svg", {}), whole = curves.every((c) => c.points.every((p) => p[1] % 1 === 0));
  let width = 580, left;
  const x = (t) => left + ((t - start) / (end - start)) * (width - left - right);
  function draw(cross) {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren();
    const seen = curves.filter((c) => !hidden.has(c.name));
    const values = ticks(0, seen.reduce((high, c) => c.points.reduce((most, p) => Math.max(most, p[1]), high), 0) || 1, 4, whole);
    const high = values.at(-1), texts = values.map(show);
    left = 14 + Math.max(...texts.map(textWidth));
    const y = (v) => height - bottom - (v / high) * (height - top - bottom);
    values.forEach((v, n) => svg.append(make("line", { x1: left, x2: width - right, y1: y(v), y2: y(v), class: "grid" }),
      make("text", { x: left - 8, y: y(v) + 4, "text-anchor": "end", class: "soft" }, texts[n])));
    const moments = ticks(start, end, Math.max(2, Math.floor((width - left) / 85))).filter((t) => t <= end + (end - start) * 1e-9);
    timeTexts(moments).forEach((text, n) => {
      // Half of the last text may not find room at its mark.
      const anchor = x(moments[n]) + textWidth(text) / 2 > width ? "end" : x(moments[n]) - textWidth(text) / 2 < left - 30 ? "start" : "middle";
      svg.append(make("line", { x1: x(moments[n]), x2: x(moments[n]), y1: height - bottom, y2: height - bottom + 4, class: "mark" }),
        make("text", { x: anchor === "end" ? width : x(moments[n]), y: height - 6, "text-anchor": anchor, class: "soft" }, text));
    });
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
    label.classList.toggle("off", hidden.has(curve.name));
    pressable(label, "", () => {
      hidden.has(curve.name) ? hidden.delete(curve.name) : hidden.add(curve.name);
      label.classList.toggle("off", hidden.has(curve.name));
      label.setAttribute("aria-pressed", String(!hidden.has(curve.name)));
      draw();
    });
    legend.append(label);
  }
  box.append(svg);
  fitted(box, width, (now) => {
    width = Math.max(now, 260);
    draw();
  });
  if (curves.length > 1) box.append(legend);
  box.only = (name) => {
    hidden.clear();
    if (!name) usual.forEach((own) => hidden.add(own));
    if (name && curves.some((c) => c.name === name)) curves.forEach((c) => c.name !== name && hidden.add(c.name));
    [...legend.children].forEach((label, n) => label.classList.toggle("off", hidden.has(curves[n].name)));
    draw();
  };
  return box;
}
