// How things look: the reader's colours, one look for each name within a chart, numbers on an axis.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const safe = (text) => String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const faint = (hex, alpha) => hex + Math.round(255 * alpha).toString(16).padStart(2, "0");
const HOLLOW = ["circle-open", "square-open", "diamond-open", "triangle-up-open", "triangle-down-open", "cross-open"];
const LEAST = 1e-9; // bits; what is smaller is rounding, and has no place on a log axis
const FLOOR = -6; // power of ten below which a line may leave its panel: no reader needs to see a millionth of a bit

// A long name on several lines; Plotly's own line break is the only markup in it.
function wrapped(text, width) {
  const lines = [""];
  for (const word of String(text).split(" ")) {
    if (lines.at(-1) && (lines.at(-1) + " " + word).length > width) lines.push(word);
    else lines[lines.length - 1] += (lines.at(-1) ? " " : "") + word;
  }
  return lines.map(safe).join("<br>");
}

const nameOf = (series) => (series.key === "head" ? "single heads" : series.name);
const alone = (series) => series.key === "baseline" || series.key === "head"; // hollow, but no null of anything
const inRows = (panel) => (panel.series || []).some((s) => typeof s.y[0] === "string");

// Name -> colour, dash, marker: the same in all panels of a chart, and in print (`styles` in print_charts.py).  Equal keys share a
// colour; a second name of the same colour gets another dash and marker.
function looks(panels) {
  const found = new Map(), used = {};
  let references = 0, nulls = 0;
  for (const series of panels.flatMap((panel) => panel.series || [])) {
    const name = nameOf(series), soft = colour("--soft");
    if (found.has(name)) continue;
    if (series.role === "reference") found.set(name, { colour: soft, dash: data.dashes[1 + (references++ % 5)], width: 1.4 });
    else if (series.role === "exact") found.set(name, { colour: faint(colour("--ink"), 0.28), dash: "solid", width: 8 });
    else if (series.role === "null") found.set(name, { colour: soft, marker: HOLLOW[alone(series) ? 0 : nulls++ % 6] });
    else {
      const hue = data.keys[series.key] ?? 5;
      const before = (used[hue] = (used[hue] ?? -1) + 1);
      found.set(name, { colour: colour(`--c${hue}`), dash: data.dashes[(hue + before) % data.dashes.length], width: 2,
        marker: data.markers[(hue + before) % data.markers.length] });
    }
  }
  return found;
}

// The range of an axis (of logarithms on a log axis); `floor` cuts off what is too small to matter.
function span(values, log, floor) {
  const found = values.filter((v) => typeof v === "number" && (!log || v > LEAST)).map((v) => (log ? Math.log10(v) : v));
  if (!found.length) return [0, 1];
  const high = Math.max(...found), low = floor === undefined ? Math.min(...found) : Math.max(Math.min(...found), Math.min(floor, high));
  const pad = Math.max(0.06 * (high - low), log ? 0.12 : 1e-3 * Math.max(Math.abs(high), 0.1));
  return [low - pad, high + pad];
}

// Ticks of a log axis: powers of ten, as many as there is room for; on a short axis some between.
function logTicks([low, high], room) {
  const powers = [];
  for (let p = Math.floor(low); p <= Math.ceil(high); p += 1) powers.push(p);
  const inside = (at) => at >= low && at <= high;
  const whole = powers.filter(inside);
  const apart = Math.max(1, Math.ceil(whole.length / room));
  let at = whole.filter((p) => p % apart === 0);
  const between = (parts) => powers.flatMap((p) => parts.map((part) => p + Math.log10(part))).filter(inside);
  if (whole.length < 3) at = [[1, 2, 5], [1, 3]].map(between).find((found) => found.length <= room) || whole;
  if (at.length < 2) at = between([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  const text = (p) => (p < -3.0001 || p > 4.9999 ? powerOfTen(Math.round(p)) : String(Number((10 ** p).toPrecision(1))));
  return { tickmode: "array", tickvals: at.map((p) => 10 ** p), ticktext: at.map(text) };
}

// Black or white, whichever stands out more from a field of that share (0 … 1) of the scale --s0 … --s5: at least 4.58 on
// any colour, in either theme.  The same as `ink_on` in palette.py.
function inkOn(share) {
  const at = 5 * Math.min(1, Math.max(0, share)), low = Math.min(4, Math.floor(at));
  const parts = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
  const [below, above] = [parts(colour(`--s${low}`)), parts(colour(`--s${low + 1}`))];
  const linear = below.map((v, i) => v + (above[i] - v) * (at - low)).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  const light = 0.05 + 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  return light / 0.05 > 1.05 / light ? "#000000" : "#ffffff";
}
