// One key for all panels of a chart, as HTML: what each look means; a click hides a name, another brings it back.
const SHAPES = {
  circle: "M4,0A4,4 0 1,1 -4,0A4,4 0 1,1 4,0Z", square: "M-3.5,-3.5H3.5V3.5H-3.5Z", diamond: "M0,-4.6L4.6,0L0,4.6L-4.6,0Z",
  "triangle-up": "M0,-4.4L4.4,3.4H-4.4Z", "triangle-down": "M0,4.4L4.4,-3.4H-4.4Z",
  cross: "M-1.6,-4.4H1.6V-1.6H4.4V1.6H1.6V4.4H-1.6V1.6H-4.4V-1.6H-1.6Z",
};
const STROKES = { dot: "2 2", dash: "6 3", dashdot: "6 2 2 2", longdash: "9 3", longdashdot: "9 2 2 2" };

const svg = (tag, attributes, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};

function swatch(look) {
  const picture = svg("svg", { viewBox: "-15 -6 30 12", width: 30, height: 12, "aria-hidden": "true" });
  if (look.dash && !look.bare) picture.append(svg("path", { d: "M-14,0H14", stroke: look.colour, "stroke-width": Math.min(look.width, 6), "stroke-dasharray": STROKES[look.dash] || "none" }));
  const [shape, open] = (look.marker || "").split("-open");
  if (shape) picture.append(svg("path", { d: SHAPES[shape], fill: open === "" ? "none" : look.colour, stroke: look.colour, "stroke-width": 1.3 }));
  return picture;
}

// From low to high in the colours --s0 … (matrices) or --v0 … (clouds).
function scaleBar(letter, steps, low, high, title) {
  const stops = Array.from({ length: steps }, (_, i) => `var(--${letter}${i})`).join(", ");
  return make("span", { class: "scale" }, told(low, 2), make("i", { style: `background: linear-gradient(90deg, ${stops})` }), told(high, 2), make("span", {}, title));
}

// `direct` names are written beside their lines; names of rows stand on the axis.
function drawKeys(figure, panels, style, direct, choice) {
  const focused = document.activeElement && document.activeElement.dataset.key;
  const hidden = hiddenIn(figure), rows = panels.some(inRows);
  const onAxis = (series) => series.key === "baseline" || (rows && series.role === "points" && series.key !== "measured");
  const named = new Set(panels.flatMap((p) => p.series || []).filter((s) => !onAxis(s) && !direct.has(s.name)).map(nameOf));
  const order = [...style].filter(([name]) => named.has(name)).sort(([a], [b]) => (b === "measured") - (a === "measured"));
  const items = order.map(([name, look]) => {
    const button = make("button", { type: "button", class: "key", "data-key": name, "aria-pressed": String(!hidden.has(name)) }, swatch({ ...look, bare: rows }), name);
    button.addEventListener("click", () => { hidden[hidden.has(name) ? "delete" : "add"](name); drawChart(figure); });
    return button;
  });
  const heat = panels.map((p) => p.heat).filter(Boolean), cloud = panels.map((p) => p.cloud).find(Boolean);
  if (heat.length) items.push(scaleBar("s", 6, ...heatRange(heat), heat[0].unit || ""));
  const values = cloud && (cloud.colours[choice] || []);
  if (cloud && typeof values[0] === "number") items.push(scaleBar("v", 5, Math.min(...values), Math.max(...values), choice));
  const box = figure.querySelector(".keys");
  box.replaceChildren(...items); // of one line too: nothing else names it
  if (focused) [...box.children].find((item) => item.dataset.key === focused)?.focus();
}

const hiddenNames = new WeakMap();
const hiddenIn = (figure) => hiddenNames.get(figure) || hiddenNames.set(figure, new Set()).get(figure);
