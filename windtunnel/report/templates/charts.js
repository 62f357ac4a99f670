// Draw charts with Plotly, in the reader's colours, when they are scrolled to.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const safe = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const faint = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");
const REFERENCE_DASHES = ["dot", "dash", "dashdot", "longdash", "longdashdot"];
const HOLLOW = ["circle-open", "square-open", "diamond-open", "triangle-up-open", "x-thin-open", "star-open"];

// A long name on several lines; Plotly's own line break is the only markup in it.
function wrapped(text, width) {
  const lines = [""];
  for (const word of String(text).split(" ")) {
    if (lines.at(-1) && (lines.at(-1) + " " + word).length > width) lines.push(word);
    else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines.map(safe).join("<br>");
}

// Equal keys get one colour; a second series of the same colour another dash and marker.
function looks(panel) {
  const used = {};
  let references = 0, nulls = 0;
  return (panel.series || []).map((series) => {
    if (series.role === "reference") return { colour: colour("--soft"), dash: REFERENCE_DASHES[references++ % 5], marker: "circle" };
    if (series.role === "exact") return { colour: colour("--ink"), dash: "solid", marker: "circle" };
    if (series.role === "null") return { colour: colour("--soft"), dash: "solid", marker: HOLLOW[series.key === "head" ? 0 : nulls++ % 6] };
    const hue = data.keys[series.key] ?? 5;
    const before = (used[hue] = (used[hue] ?? -1) + 1);
    return { colour: colour(`--c${hue}`), dash: data.dashes[before % data.dashes.length], marker: data.markers[(hue + before) % data.markers.length] };
  });
}

const LEAST = 1e-9; // bits; what is smaller is rounding, and has no place on a log axis
const visible = (values, log) => (log ? values.map((v) => (typeof v === "number" && !(v > LEAST) ? null : v)) : values);

function seriesTraces(panel, room, named) {
  const style = looks(panel);
  const categories = (panel.series || []).some((s) => typeof s.y[0] === "string");
  const label = (value) => (typeof value === "string" ? wrapped(value, room) : value);
  const traces = [];
  panel.series.forEach((series, index) => {
    const { colour: ink, dash, marker } = style[index];
    const x = visible(series.x.map(label), panel.log_x), y = visible(series.y.map(label), panel.log_y);
    const common = { name: safe(series.name), x, y, type: "scatter", legendgroup: "g" + index };
    const line = { color: ink, dash, width: series.role === "exact" ? 3 : series.role === "reference" ? 1.2 : 2.2 };
    const head = series.key === "head";
    if (series.low && series.role === "line") {
      const flat = { type: "scatter", mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false, legendgroup: "g" + index };
      traces.push({ ...flat, x, y: visible(series.low, panel.log_y) });
      traces.push({ ...flat, x, y: visible(series.high, panel.log_y), fill: "tonexty", fillcolor: faint(ink, 0.16) });
    }
    if (series.role === "line") traces.push({ ...common, mode: x.length < 40 ? "lines+markers" : "lines", line, marker: { color: ink, symbol: marker, size: 6 } });
    else if (series.role === "reference" || series.role === "exact") traces.push({ ...common, mode: x.length > 1 ? "lines" : "markers", line, marker: { color: ink, symbol: "line-ew-open", size: 16 }, showlegend: !named.has(series.name) });
    else if (series.role === "null") traces.push({ ...common, mode: "markers", marker: { color: ink, symbol: marker, size: head ? 6 : 9, line: { width: 1.4 } }, name: head ? "single heads" : common.name, legendgroup: head ? "head" : common.legendgroup, showlegend: !head || series.name === "head 0" });
    else {
      const spread = series.low ? { type: "data", symmetric: false, color: ink, thickness: 1.8,
        array: series.high.map((v, i) => (v === null ? 0 : v - (series.across ? series.x : series.y)[i])),
        arrayminus: series.low.map((v, i) => (v === null ? 0 : (series.across ? series.x : series.y)[i] - v)) } : undefined;
      traces.push({ ...common, mode: categories || x.length < 2 ? "markers" : "lines+markers", line, marker: { color: ink, symbol: marker, size: 9 },
        ...(spread ? { [series.across ? "error_x" : "error_y"]: spread } : {}), showlegend: !(categories && series.key !== "measured") });
    }
  });
  return traces;
}

function heatTraces(heat, narrow) {
  const scale = [0, 1, 2, 3, 4, 5].map((level) => [level / 5, colour(`--s${level}`)]);
  const short = (values, room) => values.map((v) => wrapped(v, room));
  const few = heat.columns.length * heat.rows.length <= 90 && heat.columns.length <= (narrow ? 6 : 10);
  const text = heat.values.map((row) => row.map((v) => (v === null ? "" : told(v, 2))));
  return [{ type: "heatmap", x: short(heat.columns, 10), y: short(heat.rows, 12), z: heat.values, colorscale: scale, zmin: heat.low ?? Math.min(0, ...heat.values.flat()), zmax: heat.high ?? Math.max(...heat.values.flat()),
    text, texttemplate: few ? "%{text}" : "", xgap: 2, ygap: 2, hovertemplate: "%{y}, %{x}: %{z:.3g}<extra></extra>",
    colorbar: { thickness: 10, outlinewidth: 0, title: { text: safe(heat.unit || ""), side: "right" }, tickfont: { size: 11 } } }];
}

function cloudTraces(cloud, choice) {
  const values = cloud.colours[choice] || Object.values(cloud.colours)[0];
  const traces = [];
  if (cloud.outline) {
    const ring = [...cloud.outline, cloud.outline[0]];
    traces.push({ type: "scatter", mode: "lines", x: ring.map((p) => p[0]), y: ring.map((p) => p[1]), line: { color: colour("--soft"), width: 1 }, hoverinfo: "skip", showlegend: false });
    traces.push({ type: "scatter", mode: "text", x: cloud.outline.map((p) => 1.13 * p[0]), y: cloud.outline.map((p) => 1.13 * p[1]), text: (cloud.corners || []).map(safe), hoverinfo: "skip", showlegend: false });
  }
  if (typeof values[0] === "string") {
    [...new Set(values)].sort().forEach((name, index) => {
      const kept = values.map((v, i) => (v === name ? i : -1)).filter((i) => i >= 0);
      traces.push({ type: "scatter", mode: "markers", name: safe(name), x: kept.map((i) => cloud.x[i]), y: kept.map((i) => cloud.y[i]),
        marker: { color: colour(`--c${index % 6}`), symbol: data.markers[index % data.markers.length], size: 5, opacity: 0.65 } });
    });
  } else {
    const scale = [0, 1, 2, 3, 4].map((level) => [level / 4, colour(`--v${level}`)]);
    traces.push({ type: "scatter", mode: "markers", x: cloud.x, y: cloud.y, hovertemplate: safe(choice) + " %{marker.color:.3g}<extra></extra>", showlegend: false,
      marker: { color: values, colorscale: scale, size: 6, opacity: 0.85, line: { width: 0.4, color: colour("--soft") },
        colorbar: { thickness: 10, outlinewidth: 0, title: { text: safe(choice), side: "right" }, tickfont: { size: 11 } } } });
  }
  return traces;
}

function layoutOf(panel, room) {
  const axis = (title, log) => ({ title: { text: safe(title || ""), standoff: 8, font: { size: 13 } }, type: log ? "log" : undefined, gridcolor: colour("--line"), zerolinecolor: colour("--line"),
    linecolor: colour("--soft"), ticks: "outside", ticklen: 4, tickcolor: colour("--line"), automargin: true, exponentformat: "power" });
  const numbers = (axis) => (panel.series || []).flatMap((s) => s[axis]).filter((v) => typeof v === "number" && v > LEAST);
  const layout = { font: { family: getComputedStyle(document.body).fontFamily, size: 12.5, color: colour("--ink") }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 52, r: 14, t: 10, b: 44 }, height: 340, hovermode: "closest", hoverlabel: { font: { family: getComputedStyle(document.body).fontFamily } },
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, font: { size: 12 }, maxheight: 1 }, xaxis: axis(panel.x, panel.log_x), yaxis: axis(panel.y, panel.log_y), shapes: [], annotations: [] };
  for (const [axis, log] of [["x", panel.log_x], ["y", panel.log_y]]) {
    const decades = log ? Math.log10(Math.max(...numbers(axis)) / Math.min(...numbers(axis))) : 0;
    if (log) Object.assign(layout[axis + "axis"], { dtick: decades > 2 ? Math.ceil(decades / (room < 20 ? 2.5 : 8)) : "D2", tickangle: 0 }); // powers of ten; on a short axis 2 and 5 too
  }
  const steps = (panel.series || []).flatMap((s) => s.x);
  if (!panel.log_x && steps.length && steps.every(Number.isInteger) && Math.max(...steps) - Math.min(...steps) <= 12) layout.xaxis.dtick = 1;
  for (const [at, words] of panel.marks || []) {
    layout.shapes.push({ type: "line", x0: at, x1: at, yref: "paper", y0: 0, y1: 1, line: { color: colour("--ink"), width: 1.2, dash: "dash" } });
    layout.annotations.push({ x: at, yref: "paper", y: 1, xanchor: "left", yanchor: "top", showarrow: false, text: " " + safe(words), font: { size: 12 } });
  }
  const rows = panel.heat ? panel.heat.rows.length : new Set((panel.series || []).flatMap((s) => (typeof s.y[0] === "string" ? s.y : []))).size;
  if (panel.heat) {
    Object.assign(layout, { height: Math.min(460, Math.max(170, 90 + 30 * rows)), margin: { l: 30, r: 8, t: 8, b: 30 } });
    layout.yaxis.autorange = "reversed";
    for (const a of [layout.xaxis, layout.yaxis]) Object.assign(a, { type: "category", showgrid: false, ticks: "", title: { text: "" } });
  } else if (rows) {
    Object.assign(layout.yaxis, { type: "category", title: { text: "" }, autorange: "reversed" });
    if (panel.log_x && numbers("x").length) { // an interval may span the world; the axis follows the values
      const [least, most] = [Math.log10(Math.min(...numbers("x"))), Math.log10(Math.max(...numbers("x")))];
      layout.xaxis.range = [least - 0.35 - 0.1 * (most - least), most + 0.35 + 0.1 * (most - least)];
    }
    const lines = Math.max(...panel.series.flatMap((s) => s.y.map((name) => wrapped(name, room).split("<br>").length)));
    layout.height = Math.max(160, 80 + (20 + 15 * lines) * rows);
  } else if (panel.cloud && panel.cloud.outline) {
    const ends = (axis) => [Math.min(...panel.cloud.outline.map((p) => p[axis])) - 0.22, Math.max(...panel.cloud.outline.map((p) => p[axis])) + 0.22];
    layout.xaxis = { visible: false, range: ends(0) };
    layout.yaxis = { visible: false, range: ends(1), scaleanchor: "x" };
    Object.assign(layout, { margin: { l: 4, r: 4, t: 4, b: 4 }, height: 250 });
  }
  return layout;
}

// Names of reference lines beside the lines themselves, where there is room: a legend of grey dashes helps nobody.
function nameReferences(panel, layout, narrow) {
  const lines = (panel.series || []).filter((s) => s.role === "reference");
  const upright = lines.length > 0 && typeof lines[0].y[0] === "string";
  const log = upright ? panel.log_x : panel.log_y;
  const all = (panel.series || []).flatMap((s) => (upright ? s.x : s.y)).filter((v) => typeof v === "number" && (!log || v > LEAST)).map((v) => (log ? Math.log10(v) : v));
  const room = (Math.max(...all) - Math.min(...all)) * (upright ? (narrow ? 0.11 : 0.05) : 0.075);
  const named = new Map();
  for (const series of lines) {
    const value = upright ? series.x[0] : series.y.at(-1);
    if (typeof value !== "number" || (log && !(value > LEAST))) continue;
    const at = log ? Math.log10(value) : value;
    if ([...named.values()].some((other) => Math.abs(other - at) < room)) continue;
    named.set(series.name, at);
    const text = { showarrow: false, text: safe(series.name), font: { size: 11, color: colour("--soft") }, bgcolor: faint(colour("--card"), 0.7), borderpad: 1 };
    layout.annotations.push(upright
      ? { ...text, x: at, xref: "x", y: 1, yref: "paper", yanchor: "bottom", xanchor: "left", textangle: -32 }
      : { ...text, x: 1, xref: "paper", y: at, yref: "y", xanchor: "right", yanchor: "bottom" });
  }
  if (upright && named.size) { Object.assign(layout.margin, { t: 70, r: 40 }); layout.height += 60; }
  return named;
}

// Room below the axis for as many lines as the legend will take.
function makeRoom(layout, traces, width) {
  const entries = traces.filter((t) => t.type === "scatter" && t.showlegend !== false && t.name);
  if (entries.length < 2) return;
  let lines = 1, used = 0;
  for (const { name } of entries) {
    const wide = 48 + 7.2 * name.length;
    if (used && used + wide > width - 20) { lines += 1; used = 0; }
    used += wide;
  }
  layout.margin.b += 8 + 20 * lines;
  layout.height += 8 + 20 * lines;
}

const MANY = 6; // lines from which on variants wait to be asked for
const crowded = (panels) => panels.some((p) => (p.series || []).some((s) => s.variant) && p.series.filter((s) => s.role !== "reference").length > MANY);
const plainOnly = (panel) => ({ ...panel, series: panel.series.filter((s) => !s.variant) });

function drawPanel(panel, choice) {
  const box = make("div", { class: "panel" });
  if (panel.title) box.append(make("h4", {}, panel.title));
  const plot = make("div", {});
  box.append(plot);
  return [box, () => {
    const narrow = plot.clientWidth < 420;
    const room = narrow ? 17 : plot.clientWidth < 700 ? 30 : 52; // letters of a row's name on one line
    const layout = layoutOf(panel, room);
    const named = nameReferences(panel, layout, narrow);
    const traces = panel.heat ? heatTraces(panel.heat, narrow) : panel.cloud ? cloudTraces(panel.cloud, choice) : seriesTraces(panel, room, named);
    makeRoom(layout, traces, plot.clientWidth);
    return Plotly.newPlot(plot, traces, layout, { displayModeBar: false, responsive: true });
  }];
}

// Plotly lies in the page as text and becomes a script when the first chart comes into sight: it takes a second to start,
// which readers of the verdict need not wait for.  The page's policy knows it by its hash.
function startPlotly() {
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = byId("plotly").textContent;
  document.head.append(script);
}

function drawChart(figure) {
  startPlotly();
  const chart = data.charts[figure.dataset.chart];
  const pick = figure.querySelector("[data-pick]");
  let panels = chart.views[pick ? pick.value : Object.keys(chart.views)[0]];
  let all = figure.querySelector("[data-all]");
  if (crowded(panels) && !all) {
    all = make("input", { type: "checkbox", "data-all": "" });
    all.addEventListener("change", () => drawChart(figure));
    figure.querySelector(".picks").append(make("label", {}, all, "variants too"));
  }
  if (all) all.parentElement.hidden = !crowded(panels);
  if (crowded(panels) && !all.checked) panels = panels.map(plainOnly);
  const colours = [...new Set(panels.flatMap((p) => (p.cloud ? Object.keys(p.cloud.colours) : [])))];
  let by = figure.querySelector("[data-by]");
  if (colours.length > 1 && !by) {
    by = make("select", { "data-by": "" }, ...colours.map((name) => make("option", {}, name)));
    by.addEventListener("change", () => drawChart(figure));
    figure.querySelector(".picks").append(make("label", {}, "colour by ", by));
  }
  const place = figure.querySelector(".panels");
  for (const old of place.querySelectorAll(".js-plotly-plot")) Plotly.purge(old);
  const drawn = panels.map((panel) => drawPanel(panel, by ? by.value : colours[0]));
  place.dataset.columns = panels.length === 1 ? 1 : panels.length === 2 || panels.length === 4 ? 2 : 3;
  place.replaceChildren(...drawn.map(([box]) => box));
  Promise.all(drawn.map(([, draw]) => draw())).then(() => { figure.dataset.drawn = String(Number(figure.dataset.drawn || 0) + 1); });
}

window.addEventListener("load", () => {
  const figures = [...document.querySelectorAll("[data-chart]")];
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || entry.target.dataset.drawn) continue;
      watch.unobserve(entry.target);
      drawChart(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const figure of figures) {
    watch.observe(figure);
    const pick = figure.querySelector("[data-pick]");
    if (pick) pick.addEventListener("change", () => drawChart(figure));
  }
  const again = () => { for (const figure of figures) if (figure.dataset.drawn) drawChart(figure); };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  window.addEventListener("beforeprint", () => { for (const figure of figures) if (!figure.dataset.drawn) drawChart(figure); });
});
