// Show claims by verdict, a first dozen of them until more are asked for.
if (byId("ledger")) {
  const FIRST = 12;
  const buttons = [...document.querySelectorAll("[data-filter]")];
  const claims = [...document.querySelectorAll("[data-outcome]")];
  const more = byId("more");
  let wanted = "", all = false;

  function show() {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.filter === wanted));
    const matching = claims.filter((claim) => wanted === "" || claim.dataset.outcome === wanted);
    const shown = new Set(all ? matching : matching.slice(0, FIRST));
    for (const claim of claims) claim.hidden = !shown.has(claim);
    byId("shown").textContent = `${shown.size} of ${matching.length} claims shown` + (wanted ? `: ${wanted}` : "");
    more.hidden = matching.length <= FIRST;
    more.textContent = all ? `Show the first ${FIRST}` : `Show all ${matching.length}`;
  }

  for (const button of buttons) button.addEventListener("click", () => { wanted = button.dataset.filter; all = false; show(); });
  more.addEventListener("click", () => { all = !all; show(); });
  show();
}
