// What the views have in common: elements, numbers for reading, and what is known of an edge or a variable in words.
window.fedbnsl = (function () {
  "use strict";

  const TAIL = 1, ARROW = 2, CIRCLE = 3;

  function add(parent, tag, kind, text) {
    const element = document.createElement(tag);
    if (kind) element.className = kind;
    if (text) element.textContent = text;
    return parent.appendChild(element);
  }

  const short = (value) => String(Number(value.toPrecision(4)));
  const signed = (value) => (value > 0 ? "+" : "") + short(value);
  const sure = (data) => data.edges.some((edge) => edge.strength !== undefined);
  const size = (edge) => (edge.strength !== undefined ? edge.strength : Math.abs(edge.weight || 0));

  // An edge that the truth has and the learner has not is never filtered out by its size: it has none.
  const visible = (edge, state) =>
    (state.lag === null || (edge.lag || 0) === state.lag) && (edge.category === "missing" || size(edge) >= state.least);

  function edgeWords(edge, compared) {
    const lines = [edge.text];
    if (compared) lines.push(edge.category === "missing" ? "missing: the truth has it" : edge.category);
    if (edge.weight !== undefined) lines.push(`weight ${signed(edge.weight)}`);
    if (edge.true !== undefined) lines.push(`true weight ${signed(edge.true)}`);
    if (edge.strength !== undefined) lines.push(`strength ${short(edge.strength)}: share of the resamples that have it`);
    if (edge.direction !== undefined) lines.push(`direction ${short(edge.direction)}: share of these that point this way`);
    if (edge.lag) lines.push(`across time: ${edge.lag} step${edge.lag > 1 ? "s" : ""} before`);
    if (edge.required) lines.push("required beforehand");
    return lines.join("\n");
  }

  function nodeWords(at, data) {
    const node = data.nodes[at], parents = [], children = [], others = [];
    // A parent lies before, a child after.
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

  return { TAIL, ARROW, CIRCLE, add, short, sure, size, visible, edgeWords, nodeWords };
})();
