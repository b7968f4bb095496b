// Radio channels: stations where they are at a time, and lines between those in reach of each other.

// The place of a station at a time: waypoints are [seconds, x, y, z].
function placeAt(path, time) {
  let next = path.findIndex(([at]) => at > time);
  if (next < 0) next = path.length;
  const from = path[Math.max(next - 1, 0)], to = path[Math.min(next, path.length - 1)];
  const share = to[0] > from[0] ? Math.min(Math.max((time - from[0]) / (to[0] - from[0]), 0), 1) : 1;
  return [1, 2, 3].map((n) => from[n] + (to[n] - from[n]) * share);
}

// The drawing of a channel, and a function that moves it to a time.
function drawRadio(radio, width, pick) {
  const all = radio.stations.flatMap((station) => station.path);
  const bounds = [1, 2].map((n) => [Math.min(...all.map((w) => w[n])), Math.max(...all.map((w) => w[n]))]);
  const size = Math.max(...bounds.map(([low, high]) => high - low), radio.range / 2, 1);
  const margin = Math.max(...radio.stations.map((station) => textWidth(station.node) / 2), 30) + 8;
  const height = Math.min(Math.max(((bounds[1][1] - bounds[1][0]) / size) * (width - 2 * margin) + 2 * margin, 160), 640);
  const scale = Math.min((width - 2 * margin) / Math.max(bounds[0][1] - bounds[0][0], size / 4), (height - 2 * margin) / Math.max(bounds[1][1] - bounds[1][0], 1));
  const middle = bounds.map(([low, high]) => (low + high) / 2);
  // North is up.
  const shown = ([x, y]) => [width / 2 + (x - middle[0]) * scale, height / 2 - (y - middle[1]) * scale];
  const svg = make("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `radio ${radio.name}` });
  const reach = make("circle", { r: radio.range * scale, fill: "none", class: "edge", "stroke-dasharray": "4 4", visibility: "hidden" });
  const lines = make("g", { class: "edge" });
  svg.append(lines, reach);
  let hovered = null;
  const crowd = radio.stations.length > 60;
  const marks = radio.stations.map((station, n) => {
    const mark = make("g", { class: "host", "data-host": station.node }, make("circle", { r: crowd ? 4 : 8, fill: hostColour(station.node) }), make("title", {}, `${station.node}:${station.interface}`));
    if (!crowd) mark.append(make("text", { y: 22, "text-anchor": "middle", class: "halo" }, station.node));
    pressable(mark, station.node, () => pick(station.node));
    mark.addEventListener("focus", () => { hovered = n; move(last); });
    mark.addEventListener("blur", () => { hovered = null; move(last); });
    mark.addEventListener("mouseenter", () => { hovered = n; move(last); });
    mark.addEventListener("mouseleave", () => { hovered = null; move(last); });
    svg.append(mark);
    return mark;
  });
  let last = 0;
  function move(time) {
    last = time;
    const at = radio.stations.map((station) => placeAt(station.path, time));
    const drawn = [];
    at.forEach((a, n) => at.slice(n + 1).forEach((b) => {
      if (Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) > radio.range) return;
      const [[x1, y1], [x2, y2]] = [shown(a), shown(b)];
      drawn.push(make("line", { x1, y1, x2, y2, class: "edge", "stroke-width": crowd ? 0.6 : 1.4 }));
    }));
    lines.replaceChildren(...drawn);
    marks.forEach((mark, n) => mark.setAttribute("transform", `translate(${shown(at[n]).join(",")})`));
    reach.setAttribute("visibility", hovered === null ? "hidden" : "visible");
    if (hovered !== null) ["cx", "cy"].forEach((key, n) => reach.setAttribute(key, shown(at[hovered])[n]));
  }
  move(0);
  return { svg, move };
}

// The drawing with its controls: a slider over the run, and a button that plays it in half a minute.
function playRadio(radio, end, pick) {
  const box = element("div"), picture = element("div");
  let move;
  const controls = element("p", undefined, "controls"), play = element("button", "play"), time = element("span");
  const slider = element("input");
  Object.assign(slider, { type: "range", min: 0, max: 1000, value: 0 });
  slider.setAttribute("aria-label", "time");
  const show = () => {
    const now = (slider.value / 1000) * end;
    move(now);
    time.textContent = ` ${now.toFixed(1)} s`;
  };
  let timer = null;
  const stop = () => { clearInterval(timer); timer = null; play.textContent = "play"; };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (+slider.value >= 1000) slider.value = 0;
    play.textContent = "stop";
    timer = setInterval(() => {
      slider.value = +slider.value + 1;
      show();
      if (+slider.value >= 1000) stop();
    }, 30);
  });
  slider.addEventListener("input", show);
  controls.append(play, slider, time);
  box.append(picture, controls);
  fitted(picture, 1180, (width) => {
    const drawn = drawRadio(radio, width, pick);
    move = drawn.move;
    picture.replaceChildren(drawn.svg);
    show();
    dimHosts();
  });
  return box;
}
