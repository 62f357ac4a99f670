// Draw charts with Plotly, in the reader's colours, when they are scrolled to.
const visible = (values, log) => values.map((v) => (v === null || (log && typeof v === "number" && !(v > LEAST)) ? null : v));
const numbersOf = (panel, axis) => (panel.series || []).flatMap((s) => [...s[axis], ...(s.low && (axis === "x") === Boolean(s.across) ? [...s.low, ...s.high] : [])]);

const AROUND = 13; // pixels: a null is drawn around what was measured, so that both are seen where they are equal

function seriesTraces(panel, room, style) {
  const rows = inRows(panel), traces = [];
  const label = (value) => (typeof value === "string" ? wrapped(value, room) : value);
  for (const series of panel.series) {
    const look = style.get(nameOf(series));
    const x = visible(series.x.map(label), panel.log_x), y = visible(series.y.map(label), panel.log_y);
    const common = { name: safe(series.name), x, y, type: "scatter", line: { color: look.colour, dash: look.dash, width: look.width } };
    const size = series.key === "head" ? 6 : series.role === "null" && !alone(series) ? AROUND : 8;
    const marker = { color: look.colour, symbol: look.marker, size, line: { width: series.role === "null" ? 1.6 : 0 } };
    if (series.role === "line") {
      if (series.low) {
        const flat = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip" };
        traces.push({ ...flat, x, y: visible(series.low, panel.log_y) });
        traces.push({ ...flat, x, y: visible(series.high, panel.log_y), fill: "tonexty", fillcolor: faint(look.colour, 0.18) });
      }
      traces.push({ ...common, mode: x.length < 40 ? "lines+markers" : "lines", marker: { ...marker, size: 6 } });
    } else if (series.role === "reference" || series.role === "exact") {
      traces.push({ ...common, mode: x.length > 1 ? "lines" : "markers", marker: { color: look.colour, symbol: "line-ew-open", size: 16 } });
    } else {
      const hollow = series.role === "null", [middle, axis] = series.across ? [series.x, "error_x"] : [series.y, "error_y"];
      const spread = series.low && { type: "data", symmetric: false, color: look.colour, thickness: hollow ? 0.9 : 1.8, width: hollow ? 0 : 4,
        array: series.high.map((v, i) => (v === null ? 0 : v - middle[i])), arrayminus: series.low.map((v, i) => (v === null ? 0 : middle[i] - v)) };
      traces.push({ ...common, mode: hollow || rows || x.length < 2 ? "markers" : "lines+markers", marker: hollow ? marker : { ...marker, size: series.key === "measured" ? 7 : 9 }, ...(spread ? { [axis]: spread } : {}) });
    }
  }
  return traces;
}

// All matrices of a chart share one scale.
function heatRange(heats) {
  const values = heats.flatMap((heat) => heat.values.flat()).filter((v) => v !== null);
  return [heats[0].low ?? Math.min(0, ...values), heats[0].high ?? Math.max(...values)];
}

function heatTraces(heat, [low, high]) {
  const scale = [0, 1, 2, 3, 4, 5].map((level) => [level / 5, colour(`--s${level}`)]);
  const short = (values, room) => values.map((v) => wrapped(v, room));
  return [{ type: "heatmap", x: short(heat.columns, 10), y: short(heat.rows, 12), z: heat.values, colorscale: scale, zmin: low, zmax: high, showscale: false,
    xgap: 2, ygap: 2, hovertemplate: "%{y}, %{x}: %{z:.3g}<extra></extra>" }];
}

// Values written into the fields, where there is room, in whichever of two inks stands out more.
function writeValues(heat, [low, high], layout, width) {
  if (heat.rows.length > 15) return;
  const names = Math.max(...heat.rows.map((name) => Math.min(12, name.length))), letters = (width - 50 - 7 * names) / heat.columns.length / 7.4;
  const places = Math.max(0, 2 - Math.floor(Math.log10(high || 1)));
  const texts = (digits) => heat.values.map((row) => row.map((v) => (v === null ? "" : Math.abs(v) < 0.004 * (high - low) ? "≈0" : v.toFixed(Math.max(0, digits)).replace("-", "−"))));
  const fitting = [places, places - 1].map(texts).find((found) => Math.max(...found.flat().map((text) => text.length)) <= letters);
  (fitting || []).forEach((row, i) => row.forEach((text, j) => layout.annotations.push({ x: j, y: i, text, showarrow: false,
    font: { size: 12, color: inkOn((heat.values[i][j] - low) / (high - low || 1)) } })));
}

function cloudTraces(cloud, choice) {
  const values = cloud.colours[choice] || Object.values(cloud.colours)[0], traces = [];
  const names = typeof values[0] === "string" ? [...new Set(cloud.corners || values)] : [];
  if (cloud.outline) {
    const ring = [...cloud.outline, cloud.outline[0]];
    traces.push({ type: "scatter", mode: "lines", x: ring.map((p) => p[0]), y: ring.map((p) => p[1]), line: { color: colour("--soft"), width: 1 }, hoverinfo: "skip" });
    traces.push({ type: "scatter", mode: "text", x: cloud.outline.map((p) => 1.15 * p[0]), y: cloud.outline.map((p) => 1.15 * p[1]), hoverinfo: "skip",
      text: cloud.corners.map(safe), textfont: { color: names.map((_, index) => colour(`--c${index % 6}`)), size: 14 } });
  }
  names.forEach((name, index) => {
    const kept = values.map((v, i) => (v === name ? i : -1)).filter((i) => i >= 0);
    traces.push({ type: "scatter", mode: "markers", name: safe(name), x: kept.map((i) => cloud.x[i]), y: kept.map((i) => cloud.y[i]),
      marker: { color: colour(`--c${index % 6}`), symbol: data.markers[index % data.markers.length], size: 5, opacity: 0.6 } });
  });
  if (!names.length) {
    const scale = [0, 1, 2, 3, 4].map((level) => [level / 4, colour(`--v${level}`)]);
    traces.push({ type: "scatter", mode: "markers", x: cloud.x, y: cloud.y, hovertemplate: safe(choice) + " %{marker.color:.3g}<extra></extra>",
      marker: { color: values, colorscale: scale, size: 6, opacity: 0.85, line: { width: 0.4, color: colour("--soft") } } });
  }
  return traces;
}

function layoutOf(panel, room, width, shared) {
  const family = getComputedStyle(document.body).fontFamily, narrow = width < 420;
  const axis = (title) => ({ title: { text: safe(title || ""), standoff: 8, font: { size: 13 } }, gridcolor: colour("--line"), zeroline: false,
    linecolor: colour("--soft"), ticks: "outside", ticklen: 4, tickcolor: colour("--line"), automargin: true, tickangle: 0 });
  const layout = { font: { family, size: 12.5, color: colour("--ink") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
    margin: { l: 52, r: 14, t: 12, b: 44 }, height: 340, hovermode: "closest", hoverlabel: { font: { family } }, xaxis: axis(panel.x), yaxis: axis(panel.y), shapes: [], annotations: [] };
  const rows = inRows(panel);
  if (panel.series) {
    const xs = rows && panel.log_x ? panel.series.flatMap((s) => s.x) : numbersOf(panel, "x"); // an interval may span the world: the axis follows the values
    layout.xaxis.range = span([...xs, ...(panel.marks || []).map(([at]) => at)], panel.log_x);
    if (!rows) layout.yaxis.range = span(shared, panel.log_y, FLOOR);
    if (panel.log_x) Object.assign(layout.xaxis, { type: "log" }, logTicks(layout.xaxis.range, narrow ? (rows ? 3 : 4) : 8));
    if (panel.log_y) Object.assign(layout.yaxis, { type: "log" }, logTicks(layout.yaxis.range, 7));
    const steps = panel.series.flatMap((s) => s.x);
    if (!panel.log_x && steps.every(Number.isInteger) && Math.max(...steps) - Math.min(...steps) <= 12) layout.xaxis.dtick = 1;
  }
  for (const [at, words] of panel.marks || []) {
    layout.shapes.push({ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: colour("--ink"), width: 1.2, dash: "dash" } });
    layout.annotations.push({ x: panel.log_x ? Math.log10(at) : at, yref: "paper", y: 1, yanchor: "bottom", showarrow: false, text: safe(words), font: { size: 12 } });
    layout.margin.t = 24;
  }
  if (panel.heat) {
    const many = panel.heat.rows.length > 12;
    Object.assign(layout, { height: many ? Math.min(440, 0.95 * width) : Math.max(130, 60 + 34 * panel.heat.rows.length), margin: { l: 30, r: 8, t: 8, b: 30 } });
    layout.yaxis.autorange = "reversed";
    for (const a of [layout.xaxis, layout.yaxis]) Object.assign(a, { type: "category", showgrid: false, ticks: "", nticks: many ? 8 : undefined });
    if (panel.x) layout.height += 20;
  } else if (rows) {
    const names = [...new Set(panel.series.flatMap((s) => s.y))];
    Object.assign(layout.yaxis, { type: "category", title: { text: "" }, autorange: "reversed" });
    Object.assign(layout.xaxis, { zeroline: true, zerolinecolor: colour("--soft") }); // no effect
    const lines = names.reduce((sum, name) => sum + wrapped(name, room).split("<br>").length, 0);
    layout.height = layout.margin.t + (panel.x ? 60 : 36) + 11 * names.length + 16 * lines;
  } else if (panel.cloud && panel.cloud.outline) {
    const ends = (axis) => [Math.min(...panel.cloud.outline.map((p) => p[axis])) - 0.25, Math.max(...panel.cloud.outline.map((p) => p[axis])) + 0.25];
    layout.xaxis = { visible: false, range: ends(0) };
    layout.yaxis = { visible: false, range: ends(1), scaleanchor: "x" };
    Object.assign(layout, { margin: { l: 4, r: 4, t: 4, b: 4 }, height: Math.min(280, 0.95 * width) });
  }
  return layout;
}

// Names of reference lines beside their right ends, pushed apart where they would overlap; a key of grey dashes helps nobody.
function nameReferences(panel, layout) {
  const [low, high] = layout.yaxis.range, tall = layout.height - layout.margin.t - layout.margin.b, apart = 15;
  const lines = panel.series.filter((s) => s.role === "reference").map((s) => [s.name, s.y.findLast((v) => typeof v === "number" && (!panel.log_y || v > LEAST))]);
  const ends = lines.filter(([, v]) => v !== undefined).map(([name, v]) => ({ name, at: tall * (1 - ((panel.log_y ? Math.log10(v) : v) - low) / (high - low)) })).sort((a, b) => a.at - b.at);
  ends.forEach((end, i) => { end.put = i ? Math.max(end.at, ends[i - 1].put + apart) : end.at; });
  const over = ends.length ? Math.max(0, ends.at(-1).put - tall + 4) : 0;
  ends.reduceRight((limit, end) => { end.put = Math.min(end.put, limit); return end.put - apart; }, over ? tall - 4 : Infinity);
  for (const { name, at, put } of ends) {
    layout.annotations.push({ text: safe(name), x: 1, xref: "paper", y: 1 - at / tall, yref: "paper", ax: 16, ay: put - at, xanchor: "left", showarrow: true, arrowhead: 0, arrowwidth: 1,
      arrowcolor: colour("--soft"), font: { size: 12, color: colour("--soft") }, borderpad: 1, standoff: 1 });
  }
  layout.margin.r = 24 + 7.2 * Math.max(0, ...ends.map(({ name }) => name.length));
}

const MANY = 6; // lines from which on variants wait to be asked for
const crowded = (panel) => {
  const lines = (panel.series || []).filter((s) => s.role !== "reference");
  return lines.length > MANY && new Set(lines.filter((s) => s.role !== "exact").map((s) => Boolean(s.variant))).size > 1; // plain ones are left
};
const without = (panel, left) => (panel.series ? { ...panel, series: panel.series.filter((s) => !left(s)) } : panel);
// As it is drawn: no bar of an interval reaches what cannot be; the same as `within` in chart.py.
function within(panel) {
  if (!panel.bounds) return panel;
  const [least, most] = panel.bounds, clip = (ends) => ends && ends.map((v) => (v === null ? v : Math.min(Math.max(v, least ?? -Infinity), most ?? Infinity)));
  return { ...panel, series: panel.series.map((s) => ({ ...s, low: clip(s.low), high: clip(s.high) })) };
}
const WIDE = 460; // pixels from which on a panel has room for names beside its lines

// Plotly lies in the page deflated and becomes a script when the first chart comes into sight: it takes a second to start,
// which readers of the verdict need not wait for.  The page's policy knows it by its hash.
let plotlyText = null;
const unpackPlotly = async () => { plotlyText ??= await inflated("plotly"); };
function startPlotly() {
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = plotlyText;
  document.head.append(script);
}

// A choice that a chart offers only in some views; made when it is first needed.
function option(figure, name, node, before, after) {
  const found = figure.querySelector(`[data-${name}]`);
  if (found) return found;
  node.setAttribute(`data-${name}`, "");
  node.addEventListener("change", () => drawChart(figure));
  figure.querySelector(".picks").append(make("label", {}, before, node, after));
  return node;
}

function columnsFor(panels) {
  if (panels.length === 1) return 1;
  const rows = panels.flatMap((p) => (p.series || []).flatMap((s) => s.y)).filter((y) => typeof y === "string");
  if (rows.length) return panels.length === 3 && rows.every((name) => name.length < 22) ? 3 : "rows";
  return panels.length === 2 || panels.length === 4 ? (panels[0].cloud && panels.length === 4 ? 4 : 2) : 3;
}

function drawChart(figure) {
  startPlotly();
  const chart = data.charts[figure.dataset.chart], pick = figure.querySelector("[data-pick]");
  let panels = chart.views[pick ? pick.value : Object.keys(chart.views)[0]].map(within);
  const many = panels.some(crowded);
  if (many || figure.querySelector("[data-all]")) {
    const all = option(figure, "all", make("input", { type: "checkbox" }), "", "variants too");
    all.parentElement.hidden = !many;
    if (many && !all.checked) panels = panels.map((panel) => without(panel, (s) => s.variant));
  }
  const colours = [...new Set(panels.flatMap((p) => (p.cloud ? Object.keys(p.cloud.colours) : [])))];
  const choice = colours.length > 1 ? option(figure, "by", make("select", {}, ...colours.map((name) => make("option", {}, name))), "colour by ", "").value : colours[0];
  const place = figure.querySelector(".panels"), style = looks(panels), hidden = hiddenIn(figure);
  for (const old of place.querySelectorAll(".js-plotly-plot")) Plotly.purge(old);
  place.dataset.columns = columnsFor(panels);
  const boxes = panels.map((panel) => make("div", { class: "panel" }, ...(panel.title ? [make("h4", {}, panel.title)] : []),
    make("div", { class: "plot" }), ...(panel.note ? [make("p", { class: "quiet" }, panel.note)] : [])));
  place.replaceChildren(...boxes);
  const wide = boxes[0].clientWidth >= WIDE;
  const direct = new Set(wide && !panels.some(inRows) ? panels.flatMap((p) => (p.series || []).filter((s) => s.role === "reference").map((s) => s.name)) : []);
  const heats = panels.map((p) => p.heat).filter(Boolean);
  const shown = panels.map((panel) => without(panel, (s) => hidden.has(nameOf(s))));
  const alike = (panel) => shown.filter((other) => other.y === panel.y).flatMap((other) => numbersOf(other, "y")); // they share their axis
  const drawn = shown.map((panel, index) => {
    const plot = boxes[index].querySelector(".plot"), width = plot.clientWidth;
    const room = width < 420 ? 17 : width < 700 ? 30 : 52; // letters of a row's name on one line
    const layout = layoutOf(panel, room, width, alike(panel));
    if (direct.size) nameReferences(panel, layout);
    if (panel.heat) writeValues(panel.heat, heatRange(heats), layout, width);
    const traces = panel.heat ? heatTraces(panel.heat, heatRange(heats)) : panel.cloud ? cloudTraces(panel.cloud, choice) : seriesTraces(panel, room, style);
    return Plotly.newPlot(plot, traces, layout, { displayModeBar: false, responsive: true });
  });
  drawKeys(figure, panels, style, direct, choice);
  Promise.all(drawn).then(() => { figure.dataset.drawn = String(Number(figure.dataset.drawn || 0) + 1); });
}

window.addEventListener("load", () => {
  const figures = [...document.querySelectorAll("[data-chart]")];
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || entry.target.dataset.drawn) continue;
      watch.unobserve(entry.target);
      unpackPlotly().then(() => drawChart(entry.target));
    }
  }, { rootMargin: "300px" });
  const picks = figures.map((figure) => figure.querySelector("[data-pick]")).filter(Boolean);
  // A tunnel or a network that is chosen in one chart is chosen in all that have it.
  const choose = (value) => {
    for (const pick of picks) {
      const figure = pick.closest("[data-chart]");
      if (![...pick.options].some((one) => one.value === value) || pick.dataset.shown === value) continue;
      pick.value = pick.dataset.shown = value;
      if (figure.dataset.drawn) drawChart(figure);
    }
  };
  for (const pick of picks) {
    pick.dataset.shown = pick.value;
    pick.addEventListener("change", () => choose(pick.value));
  }
  for (const figure of figures) watch.observe(figure);
  const again = () => { for (const figure of figures) if (figure.dataset.drawn) drawChart(figure); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("beforeprint", () => { if (plotlyText) for (const figure of figures) if (!figure.dataset.drawn) drawChart(figure); });
  setTimeout(unpackPlotly, 1000); // so that it is at hand for a reader who prints without scrolling
});
