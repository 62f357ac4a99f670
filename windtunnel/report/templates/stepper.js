// Step through an episode: by slider, buttons, arrow keys, or a click on the trail of KLs.
if (byId("stepper") && data.stepper.length) {
  const TOP = 12; // outcomes shown where there are many
  const state = { network: 0, episode: 0, step: 0, layer: 0, head: 0 };
  const opened = new Map();
  let shown = null; // the episodes of the chosen network

  async function open(index) {
    if (!opened.has(index)) {
      const found = await inflated(`episodes-${index}`);
      if (found.attention) found.attention = Uint8Array.from(atob(found.attention), (c) => c.charCodeAt(0));
      opened.set(index, found);
    }
    return opened.get(index);
  }

  const fill = (select, options, chosen) => {
    select.replaceChildren(...options.map(([value, text]) => make("option", { value }, text)));
    select.value = String(chosen);
  };
  const count = (n, first) => Array.from({ length: n }, (_, i) => [i, String(i + (first || 0))]);

  function attentionAt() {
    const { layers, heads } = data.stepper[state.network];
    const [reads, length] = [shown.readout.length, shown.tokens[0].length];
    const row = (((state.episode * layers + state.layer) * heads + state.head) * reads + state.step) * length;
    return shown.attention ? shown.attention.subarray(row, row + length) : null;
  }

  // Where the bars end: one scale for all steps of an episode, so that a bar that grows is a belief that does.
  function barEnd() {
    const most = [shown.exact, shown.model].flatMap((who) => who[state.episode].map((belief) => Math.max(...belief)));
    return [0.1, 0.25, 0.5, 1].find((end) => Math.max(...most) <= end) ?? 1;
  }

  function drawBeliefs(exact, model, label) {
    const order = exact.map((_, i) => i);
    if (order.length > 2 * TOP) { // the likeliest, and the truth wherever it is
      order.sort((a, b) => Math.max(exact[b], model[b]) - Math.max(exact[a], model[a])).splice(TOP);
      if (!order.includes(label)) order[TOP - 1] = label;
    }
    byId("step-beliefs").classList.toggle("few", order.length <= 8);
    const full = barEnd();
    byId("step-scale").textContent = `bars from 0 to ${full}`;
    byId("step-beliefs").replaceChildren(...order.map((i) => {
      const bar = (kind, value) => make("div", { class: "bar " + kind, style: `width: ${Math.min(100, (100 * value) / full)}%` });
      const row = make("div", { class: "belief" + (i === label ? " truth" : "") },
        make("span", { class: "name" }, shown.classes[i]),
        make("div", {}, bar("exact", exact[i]), bar("model", model[i])),
        make("div", { class: "numbers2" }, make("span", { "data-exact": exact[i] }, exact[i].toFixed(3)), make("span", { "data-model": model[i] }, model[i].toFixed(3))));
      if (i === label) row.setAttribute("title", "the sampled truth");
      return row;
    }));
  }

  function drawTrail(kls) {
    const box = byId("step-trail"), width = 1000, height = 64, each = width / kls.length;
    const top = Math.max(...kls.map((v) => (v === "inf" ? 0 : v)), 1e-12), thick = Math.min(0.64 * each, 40);
    box.setAttribute("viewBox", `0 0 ${width} ${height}`);
    box.setAttribute("preserveAspectRatio", "none");
    box.replaceChildren(...kls.flatMap((v, i) => {
      const tall = Math.max(2, (height - 6) * (v === "inf" ? 1 : v / top));
      const now = i === state.step;
      return [svg("rect", { x: i * each, y: 0, width: each, height, fill: now ? "var(--mark)" : "transparent", "data-step": i }),
        svg("rect", { x: (i + 0.5) * each - thick / 2, y: height - tall, width: thick, height: tall, fill: now ? "var(--accent)" : "var(--soft)", "data-step": i })];
    }));
    byId("step-trail-scale").textContent = `KL at each step of this episode, at most ${told(top)} bits; click to go there`;
    box.setAttribute("aria-label", `KL at every step of this episode, at most ${told(top)} bits; now step ${state.step + 1}`);
  }

  function drawSimplex(exact, model) {
    const corners = shown.corners;
    byId("step-simplex-box").hidden = !corners;
    byId("step-simplex-box").parentElement.classList.toggle("wide", !corners);
    if (!corners) return;
    const at = (belief) => [0, 1].map((axis) => (axis ? -1 : 1) * belief.reduce((sum, p, s) => sum + p * corners[s][axis], 0));
    const path = (beliefs) => beliefs.map((b) => at(b).join(",")).join(" ");
    const so = state.step + 1, episode = state.episode;
    const [ex, ey] = at(exact), [mx, my] = at(model);
    const [left, right] = [Math.min, Math.max].map((f) => f(...corners.map((c) => c[0])));
    const [low, high] = [Math.min, Math.max].map((f) => f(...corners.map((c) => -c[1])));
    byId("step-simplex").setAttribute("viewBox", `${left - 0.25} ${low - 0.25} ${right - left + 0.5} ${high - low + 0.45}`);
    byId("step-simplex").replaceChildren(
      svg("polygon", { points: corners.map(([x, y]) => `${x},${-y}`).join(" "), fill: "none", stroke: "var(--soft)", "stroke-width": 0.012 }),
      ...corners.map(([x, y], s) => svg("text", { x: 1.13 * x, y: -1.13 * y + 0.05, "text-anchor": "middle", "font-size": 0.14, fill: "var(--ink)" }, shown.classes[s])),
      svg("polyline", { points: path(shown.exact[episode].slice(0, so)), fill: "none", stroke: "var(--ink)", "stroke-width": 0.014, opacity: 0.55 }),
      svg("polyline", { points: path(shown.model[episode].slice(0, so)), fill: "none", stroke: "var(--c0)", "stroke-width": 0.014, "stroke-dasharray": "0.05 0.03", opacity: 0.8 }),
      svg("circle", { cx: ex, cy: ey, r: 0.06, fill: "var(--ink)" }),
      svg("circle", { cx: mx, cy: my, r: 0.075, fill: "none", stroke: "var(--c0)", "stroke-width": 0.032 }));
    byId("step-simplex").setAttribute("aria-label", `Belief in the simplex: exact ${told(ex, 2)}, ${told(-ey, 2)}; network ${told(mx, 2)}, ${told(-my, 2)}`);
  }

  // The header's two matrices as small tables, the stronger the likelier.
  function drawChain() {
    byId("step-chain").hidden = !shown.chain;
    if (!shown.chain) return;
    const states = shown.chain.transition[0].map((_, s) => `s${s}`);
    const fill = (id, values, columns) => {
      const cell = (v) => make("td", { class: `level${Math.min(5, Math.round(5 * v))}` }, v.toFixed(2));
      const head = make("tr", {}, make("td", {}), ...columns.map((name) => make("th", { scope: "col" }, name)));
      byId(id).replaceChildren(make("thead", {}, head), make("tbody", {}, ...values.map((row, s) => make("tr", {}, make("th", { scope: "row" }, states[s]), ...row.map(cell)))));
    };
    fill("step-transition", shown.chain.transition[state.episode], states);
    fill("step-emission", shown.chain.emission[state.episode], shown.chain.emission[0][0].map((_, o) => `o${o}`));
  }

  function drawTokens() {
    const last = shown.readout[state.step], attention = attentionAt();
    const tokens = shown.tokens[state.episode].slice(0, last + 1);
    byId("step-tokens").classList.toggle("long", tokens.length > 80);
    byId("step-tokens").replaceChildren(...tokens.map((name, i) => {
      const share = attention ? attention[i] / 255 : 0;
      const node = make("li", { class: "token" + (i === last ? " now" : "") }, name);
      if (attention) {
        node.append(make("small", {}, share >= 0.005 ? Math.round(100 * share) + "%" : ""));
        node.style.backgroundColor = `color-mix(in srgb, var(--glow) ${Math.round(100 * Math.sqrt(share))}%, var(--card))`;
        node.setAttribute("title", `attention ${told(share, 2)}`);
      }
      return node;
    }));
  }

  function draw() {
    const { episode, step } = state;
    const [exact, model] = [shown.exact[episode][step], shown.model[episode][step]];
    const kl = shown.kl_bits[episode][step];
    const show = (id, value) => { byId(id).textContent = told(value); byId(id).dataset.value = value; };
    show("step-kl", kl);
    show("step-exact-bits", shown.exact_bits[episode][step]);
    show("step-model-bits", shown.model_bits[episode][step]);
    const total = shown.readout.length;
    byId("step-where").textContent = `step ${step + 1} of ${total}`;
    byId("step-slider").value = String(step + 1);
    byId("step-slider").setAttribute("aria-valuetext", `step ${step + 1} of ${total}, KL ${told(kl)} bits`);
    const top = (p) => shown.classes[p.indexOf(Math.max(...p))] + " " + Math.max(...p).toFixed(2);
    byId("step-live").textContent = `Step ${step + 1} of ${total}: KL ${told(kl)} bits; likeliest, exact ${top(exact)}, network ${top(model)}`;
    byId("step-back").disabled = step === 0;
    byId("step-on").disabled = step === total - 1;
    drawBeliefs(exact, model, shown.labels[episode][step]);
    drawTrail(shown.kl_bits[episode]);
    drawSimplex(exact, model);
    drawChain();
    drawTokens();
    byId("stepper").dataset.ready = "yes";
  }

  function go(step) {
    if (!shown) return;
    state.step = Math.min(shown.readout.length - 1, Math.max(0, step));
    draw();
  }

  async function choose(network) {
    Object.assign(state, { network, layer: 0, head: 0 });
    const about = data.stepper[network];
    byId("stepper").dataset.ready = "";
    const found = await open(network);
    if (state.network !== network) return; // another was chosen meanwhile
    shown = found;
    byId("step-say").textContent = about.say;
    state.episode = Math.min(state.episode, about.count - 1);
    fill(byId("step-episode"), count(about.count), state.episode);
    fill(byId("step-layer"), count(about.layers), 0);
    fill(byId("step-head"), count(about.heads), 0);
    byId("step-heads").hidden = !shown.attention;
    byId("step-no-attention").hidden = Boolean(shown.attention);
    byId("step-slider").max = String(shown.readout.length);
    go(state.step);
  }

  function chooseWorld(world) {
    const here = data.stepper.map((n, i) => [i, n]).filter(([, n]) => n.world === world);
    fill(byId("step-network"), here.map(([i, n]) => [i, `${n.short}, seed ${n.seed}`]), here[0][0]);
    choose(here[0][0]);
  }

  const worlds = [...new Set(data.stepper.map((n) => n.world))];
  fill(byId("step-world"), worlds.map((w) => [w, w]), worlds[0]);
  byId("step-world").addEventListener("change", (event) => chooseWorld(event.target.value));
  byId("step-network").addEventListener("change", (event) => choose(Number(event.target.value)));
  for (const name of ["episode", "layer", "head"]) {
    byId("step-" + name).addEventListener("change", (event) => { state[name] = Number(event.target.value); draw(); });
  }
  byId("step-slider").addEventListener("input", (event) => go(Number(event.target.value) - 1));
  byId("step-back").addEventListener("click", () => go(state.step - 1));
  byId("step-on").addEventListener("click", () => go(state.step + 1));
  byId("step-trail").addEventListener("click", (event) => { if (event.target.dataset.step) go(Number(event.target.dataset.step)); });
  byId("stepper").addEventListener("keydown", (event) => {
    if (["SELECT", "INPUT"].includes(event.target.tagName)) return; // they have arrow keys of their own
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    event.preventDefault();
    go(Math.max(-1e9, Math.min(1e9, state.step + moves[event.key])));
  });
  byId("step-csv").addEventListener("click", () => {
    const { episode } = state, about = data.stepper[state.network];
    const columns = ["network", "episode", "step", "label", "kl_bits", "exact_bits", "model_bits", ...shown.classes.map((c) => `exact ${c}`), ...shown.classes.map((c) => `model ${c}`)];
    const rows = shown.readout.map((_, k) => [about.name, episode, k + 1, shown.classes[shown.labels[episode][k]], shown.kl_bits[episode][k],
      shown.exact_bits[episode][k], shown.model_bits[episode][k], ...shown.exact[episode][k], ...shown.model[episode][k]]);
    download(`episode-${about.name}-${episode}`, columns, rows);
  });
  chooseWorld(worlds[0]);
}
