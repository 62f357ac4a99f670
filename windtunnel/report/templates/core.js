// What the parts of the page share: the data, numbers as text, and CSV.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// What `deflate` in episodes.py packed into an element of the page.
async function inflated(id) {
  const packed = Uint8Array.from(atob(byId(id).textContent.replaceAll('"', "")), (c) => c.charCodeAt(0));
  return JSON.parse(await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text());
}

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
const powerOfTen = (exponent) => "10" + [...String(exponent)].map((sign) => RAISED[sign]).join("");

// Three significant digits, as a reader wants them; the same as `short` in words.py.
function told(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (value === "inf") return "∞";
  if (typeof value !== "number") return String(value);
  const [figures, power] = value.toExponential(digits - 1).split("e");
  const plain = value === 0 || (power >= -4 && power < 5);
  return (plain ? String(Number(value.toPrecision(digits))) : `${Number(figures)} × ${powerOfTen(Number(power))}`).replace(/^-/, "−");
}

function csvText(columns, rows) {
  const field = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  };
  return [columns, ...rows].map((row) => row.map(field).join(",")).join("\n") + "\n";
}

function download(name, columns, rows) {
  const url = URL.createObjectURL(new Blob([csvText(columns, rows)], { type: "text/csv" }));
  const link = make("a", { href: url, download: name + ".csv" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Every number of a chart, one row each; the same as `tidy` in chart.py.
function tidy(chart) {
  const picks = chart.picks || "view";
  const panels = Object.entries(chart.views).flatMap(([view, found]) => found.map((panel) => [view, panel]));
  const title = (panel) => panel.title || "";
  if (panels.every(([, p]) => p.heat)) {
    const rows = panels.flatMap(([view, p]) =>
      p.heat.rows.flatMap((row, i) => p.heat.columns.map((column, j) => [view, title(p), row, column, p.heat.values[i][j]])));
    return { columns: [picks, "panel", "row", "column", "value"], rows };
  }
  if (panels.every(([, p]) => p.cloud)) {
    const colours = [...new Set(panels.flatMap(([, p]) => Object.keys(p.cloud.colours)))];
    const rows = panels.flatMap(([view, p]) =>
      p.cloud.x.map((x, i) => [view, title(p), x, p.cloud.y[i], ...colours.map((c) => (p.cloud.colours[c] || [])[i])]));
    return { columns: [picks, "panel", "x", "y", ...colours], rows };
  }
  const names = new Set(panels.map(([, p]) => JSON.stringify([p.x || "x", p.y || "y"])));
  const [x, y] = names.size === 1 ? JSON.parse([...names][0]) : ["x", "y"];
  const rows = panels.flatMap(([view, p]) => (p.series || []).flatMap((s) =>
    s.x.map((at, i) => [view, title(p), s.name, at, s.y[i], (s.low || [])[i], (s.high || [])[i]])));
  return { columns: [picks, "panel", "series", x, y, "low", "high"], rows };
}

const tableOf = (id) => data.tables[id] || tidy(data.charts[id]);

for (const button of document.querySelectorAll("[data-csv]")) {
  button.addEventListener("click", () => {
    const { columns, rows } = tableOf(button.dataset.csv);
    download(button.dataset.csv, columns, rows);
  });
}

// Numbers as a table, made when they are asked for.
const MOST_ROWS = 200;
for (const box of document.querySelectorAll("[data-numbers]")) {
  box.parentElement.addEventListener("toggle", () => {
    if (box.childElementCount) return;
    const { columns, rows } = tableOf(box.dataset.numbers);
    const row = (cells, tag) => make("tr", {}, ...cells.map((cell) => make(tag, tag === "th" ? { scope: "col" } : {}, told(cell))));
    const body = rows.slice(0, MOST_ROWS).map((cells) => row(cells, "td"));
    box.setAttribute("tabindex", "0");
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Numbers of this chart");
    box.append(make("table", {}, make("thead", {}, row(columns, "th")), make("tbody", {}, ...body)));
    if (rows.length > MOST_ROWS) box.append(make("p", { class: "quiet" }, `${rows.length - MOST_ROWS} more rows are in the CSV.`));
  });
}
