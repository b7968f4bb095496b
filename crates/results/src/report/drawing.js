// Elements of drawings, texts of quantities, and room for labels: what the report and the live view draw with.

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

function scaled(value, units, step = 1000) {
  let n = 0;
  while (value >= step && n + 1 < units.length) { value /= step; n += 1; }
  return `${n || value % 1 ? +value.toPrecision(3) : value} ${units[n]}`.trim();
}
const bytes = (v) => scaled(v, ["B", "kB", "MB", "GB", "TB"]);
const rate = (v) => scaled(v, ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"]);

// Lets something that is no button of HTML's be pressed like one, by pointer and by keys.
function pressable(node, name, press) {
  node.setAttribute("role", "button");
  node.setAttribute("tabindex", "0");
  if (name) node.setAttribute("aria-label", name);
  node.addEventListener("click", press);
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    press();
  });
}

// Draws at once, and again when the box has another width: drawings have the pixels of the page, so that their text is never scaled.
function fitted(box, usual, draw) {
  let width = usual;
  draw(width);
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now === 0 || now === width) return;
    width = now;
    // A drawing of another height, made within the notification, would be notified again in vain.
    requestAnimationFrame(() => draw(width));
  }).observe(box);
}

// Approximate width of a text of 12 px.
const textWidth = (text) => 6.9 * text.length;

// The room of a drawing: `take` marks a box [left, top, right, bottom] as taken, `free` takes the first of some boxes that is free and
// returns its number, -1 if none is.
function roomOf(width, height) {
  const taken = [];
  const isFree = (box) => box[0] >= 0 && box[1] >= 0 && box[2] <= width && box[3] <= height
    && !taken.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3]);
  return {
    take: (box) => taken.push(box),
    free: (boxes) => {
      const n = boxes.findIndex(isFree);
      if (n >= 0) taken.push(boxes[n]);
      return n;
    },
  };
}

// Centre of a text as near to x as the drawing allows.
const centred = (text, x, width) => Math.min(Math.max(x, textWidth(text) / 2 + 2), Math.max(width - textWidth(text) / 2 - 2, width / 2));
// Box of a text that is centred at x and has its base line at y.
const textBox = (text, x, y) => [x - textWidth(text) / 2, y - 11, x + textWidth(text) / 2, y + 3];
