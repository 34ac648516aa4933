// Builds the interactive view of the graph: a toolbar, the view and the legend.
(function (fedbnsl) {
  "use strict";

  function start() {
    const place = document.getElementById("explore"), source = document.getElementById("structure");
    if (!place || !source) return;
    const data = JSON.parse(source.textContent), whole = place.closest("details");
    place.closest("[hidden]").hidden = false;
    const begin = () => { if (whole.open && !place.firstChild) build(place, data); };
    whole.addEventListener("toggle", begin);
    begin();
  }

  function build(place, data) {
    const bar = fedbnsl.add(place, "div", "bar"), key = fedbnsl.add(place, "div", "key");
    const view = fedbnsl.add(place, "div", "view"), details = document.createElement("div");
    details.className = "details";
    details.setAttribute("role", "status");
    const kinds = [["Matrix", fedbnsl.matrix]];
    if (data.nodes[0].x !== undefined && typeof cytoscape === "function") kinds.unshift(["Graph", fedbnsl.graph]);
    const state = { lag: null, least: 0, found: null };
    let shown = null;
    const describe = (text) => { details.textContent = text; };
    const buttons = kinds.map(([name, make]) => {
      const button = fedbnsl.add(bar, "button", "", name);
      button.type = "button";
      button.addEventListener("click", () => show(button, make));
      return button;
    });

    function show(button, make) {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      if (shown) shown.end();
      view.replaceChildren(details);
      describe("");
      shown = make(view, describe, data);
      shown.update(state);
    }

    searching(bar, data, (name) => { state.found = name; shown.update(state); });
    lagging(bar, data, (lag) => { state.lag = lag; shown.update(state); });
    weighing(bar, data, (least) => { state.least = least; shown.update(state); });
    const fit = fedbnsl.add(bar, "button", "", "Show all");
    fit.type = "button";
    fit.addEventListener("click", () => shown.fit());
    const save = fedbnsl.add(bar, "button", "", "Save edges");
    save.type = "button";
    save.addEventListener("click", () => download("edges.csv", data.csv));
    legend(key, data);
    show(buttons[0], kinds[0][1]);
  }

  function download(name, text) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  function searching(bar, data, change) {
    const field = fedbnsl.add(bar, "input"), list = fedbnsl.add(bar, "datalist");
    list.id = "explore-names";
    field.setAttribute("list", list.id);
    field.type = "search";
    field.placeholder = "find a variable";
    field.setAttribute("aria-label", "find a variable");
    data.nodes.forEach((node) => { fedbnsl.add(list, "option").value = node.name; });
    field.addEventListener("input", () => {
      const query = field.value.trim().toLowerCase(), names = data.nodes.map((node) => node.name.toLowerCase());
      const exact = names.indexOf(query);
      const at = exact >= 0 ? exact : names.findIndex((name) => name.startsWith(query));
      change(query && at >= 0 ? at : null);
    });
  }

  function lagging(bar, data, change) {
    if (!data.lags) return;
    const field = fedbnsl.add(bar, "select");
    field.setAttribute("aria-label", "edges shown");
    const texts = ["all edges", "within one time step", ...Array.from({ length: data.lags }, (_, k) => `from t − ${k + 1}`)];
    texts.forEach((text, k) => { fedbnsl.add(field, "option", "", text).value = String(k - 1); });
    field.addEventListener("change", () => change(Number(field.value) < 0 ? null : Number(field.value)));
  }

  function weighing(bar, data, change) {
    const most = Math.max(...data.edges.map(fedbnsl.size));
    if (!(most > 0)) return;
    const field = fedbnsl.add(bar, "label", "", "minimum "), range = fedbnsl.add(field, "input");
    const caption = fedbnsl.add(field, "span", "soft", " every edge");

    Object.assign(range, { type: "range", min: "0", max: "100", value: "0" });
    range.addEventListener("input", () => {
      const least = most * Number(range.value) / 100;
      caption.textContent = least ? ` ${fedbnsl.sure(data) ? "strength" : "|weight|"} ${fedbnsl.short(least)}` : " every edge";
      change(least);
    });
  }

  function legend(key, data) {
    const counts = new Map();
    data.edges.forEach((edge) => counts.set(edge.category, (counts.get(edge.category) || 0) + 1));
    const signs = { learned: "■", right: "■", extra: "✕", missing: "○", reversed: "▲", "half-directed": "◆" };
    counts.forEach((number, name) => {
      const one = fedbnsl.add(key, "span"), line = fedbnsl.add(one, "i");
      fedbnsl.add(one, "b", "", `${signs[name]} `).style.color = data.styles[name].colour;
      line.style.borderTopColor = data.styles[name].colour;
      line.style.borderTopStyle = data.styles[name].dash.length ? "dashed" : "solid";
      one.append(`${number} ${fedbnsl.label(name)}`);
    });
    data.signs.forEach((text) => fedbnsl.add(key, "span", "", text));
    if (data.edges.some((edge) => edge.lag)) key.append("dashed: across time, labelled with the lag t − k");
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})(window.fedbnsl);
