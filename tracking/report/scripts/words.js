// Helpers of both views: elements, number formats, and descriptions of edges and variables.
window.fedbnsl = (function () {
  "use strict";

  const TAIL = 1, ARROW = 2, CIRCLE = 3;

  function add(parent, tag, kind, text) {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    if (text) element.textContent = text;
    return parent.appendChild(element);
  }

  const label = (category) => (category === "right" ? "correct" : category);
  const short = (value) => String(Number(value.toPrecision(4)));
  const signed = (value) => (value > 0 ? "+" : "") + short(value);
  const sure = (data) => data.edges.some((edge) => edge.strength !== undefined);
  const size = (edge) => (edge.strength !== undefined ? edge.strength : Math.abs(edge.weight || 0));

  // A missing edge has no size, so the slider never hides it.
  const visible = (edge, state) =>
    (state.lag === null || (edge.lag || 0) === state.lag) && (edge.category === "missing" || size(edge) >= state.least);

  function edgeWords(edge, compared) {
    const lines = [edge.text];
    if (compared) lines.push(edge.category === "missing" ? "missing: in the true graph only" : label(edge.category));
    if (edge.weight !== undefined) lines.push(`weight ${signed(edge.weight)}`);
    if (edge.true !== undefined) lines.push(`true weight ${signed(edge.true)}`);
    if (edge.strength !== undefined) lines.push(`strength ${short(edge.strength)}: share of resamples with this edge`);
    if (edge.direction !== undefined) lines.push(`direction ${short(edge.direction)}: share of those with this direction`);
    if (edge.basis && edge.basis !== "time") lines.push(`the direction rests on ${edge.basis}`);
    if (edge.lag) lines.push(`across time: lag ${edge.lag}`);
    if (edge.required) lines.push("required by background knowledge");
    return lines.join("\n");
  }

  function nodeWords(at, data) {
    const node = data.nodes[at], parents = [], children = [], others = [];
    // A lagged parent is in the past, a lagged child in the future.
    const named = (other, edge, when) => data.nodes[other].name + (edge.lag ? `[t${when}${edge.lag}]` : "")
      + (edge.weight !== undefined ? ` (${signed(edge.weight)})` : "");
    data.edges.forEach((edge) => {
      if (edge.category === "missing" || (edge.source !== at && edge.target !== at)) return;
      const directed = edge.marks[0] === TAIL && edge.marks[1] === ARROW;
      if (!directed) others.push(edge.text);
      else if (edge.target === at) parents.push(named(edge.source, edge, "-"));
      else children.push(named(edge.target, edge, "+"));
    });
    const lines = [node.name + (node.kind ? `: ${node.kind}` : "")];
    [["parents", parents], ["children", children], ["other edges", others]].forEach(([what, list]) => {
      if (list.length || what !== "other edges") lines.push(`${list.length} ${what}${list.length ? ": " : ""}${listed(list)}`);
    });
    return lines.join("\n").replace(/^1 parents/m, "1 parent").replace(/^1 children/m, "1 child")
      .replace(/^1 other edges/m, "1 other edge");
  }

  const listed = (list) => list.slice(0, 15).join(", ") + (list.length > 15 ? `, … (${list.length})` : "");

  return { TAIL, ARROW, CIRCLE, add, label, short, sure, size, visible, edgeWords, nodeWords };
})();
