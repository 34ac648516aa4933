// The structure as a graph, by Cytoscape.js: the places of the variables and the ways of the edges are given.
(function (fedbnsl) {
  "use strict";

  const SHAPES = { [fedbnsl.TAIL]: "none", [fedbnsl.ARROW]: "triangle", [fedbnsl.CIRCLE]: "circle" };
  const HEIGHT = 22, LARGEST = 1.7;

  fedbnsl.graph = function (view, describe, data) {
    const box = fedbnsl.add(view, "div");
    box.style.cssText = "position:absolute;inset:0";
    view.prepend(box);
    const cy = cytoscape({
      container: box,
      elements: [...data.nodes.map(node), ...data.edges.map((edge, number) => line(edge, number, data))],
      layout: { name: "preset" },
      minZoom: 0.02,
      maxZoom: 6,
      textureOnViewport: data.edges.length > 400,
      style: styles(),
    });
    const nodes = cy.nodes(), edges = cy.edges();

    function fit() {
      cy.fit(undefined, 20);
      if (cy.zoom() > LARGEST) {
        cy.zoom(LARGEST);
        cy.center();
      }
    }

    fit();

    function focus(chosen) {
      cy.batch(() => {
        cy.elements().removeClass("faded chosen");
        if (!chosen) return;
        cy.elements().not(chosen.closedNeighborhood()).addClass("faded");
        chosen.addClass("chosen");
      });
    }

    cy.on("mouseover", "node", (event) => describe(fedbnsl.nodeWords(event.target.data("number"), data)));
    cy.on("mouseover", "edge", (event) => {
      event.target.addClass("pointed");
      describe(fedbnsl.edgeWords(data.edges[event.target.data("number")], data.compared));
    });
    cy.on("mouseout", "edge", (event) => event.target.removeClass("pointed"));
    cy.on("tap", "node", (event) => {
      focus(event.target);
      describe(fedbnsl.nodeWords(event.target.data("number"), data));
    });
    cy.on("tap", (event) => { if (event.target === cy) { focus(null); describe(""); } });
    return {
      fit: () => { focus(null); fit(); },
      end: () => cy.destroy(),
      update: (state) => {
        cy.batch(() => edges.forEach((edge) => {
          edge.style("display", fedbnsl.visible(data.edges[edge.data("number")], state) ? "element" : "none");
        }));
        const found = state.found === null ? null : nodes[state.found];
        if (found && !found.hasClass("chosen")) {
          cy.animate({ center: { eles: found }, zoom: Math.max(cy.zoom(), 1), duration: 250 });
          describe(fedbnsl.nodeWords(state.found, data));
        }
        focus(found);
      },
    };
  };

  function node(one, number) {
    const shown = one.name.length > 18 ? `${one.name.slice(0, 17)}…` : one.name;
    return {
      data: { id: `n${number}`, number, label: shown, width: one.width },
      position: { x: one.x, y: one.y },
      classes: one.kind,
    };
  }

  function line(edge, number, data) {
    const style = data.styles[edge.category];
    const found = {
      id: `e${number}`, number, source: `n${edge.source}`, target: `n${edge.target}`,
      colour: style.colour, thick: edge.thick, label: edge.lag ? `t − ${edge.lag}` : edge.sign || "",
      from: SHAPES[edge.marks[0]], to: SHAPES[edge.marks[1]],
      fromFill: edge.marks[0] === fedbnsl.CIRCLE || edge.doubtful ? "hollow" : "filled",
      toFill: edge.marks[1] === fedbnsl.CIRCLE || edge.doubtful ? "hollow" : "filled",
      dash: style.dash.length ? style.dash.map((length) => 2.5 * length) : edge.lag ? [8, 4] : [1, 0],
    };
    const classes = [edge.required ? "required" : "", style.dash.length || edge.lag ? "dashed" : ""];
    if (edge.by) {
      Object.assign(found, bends(data.nodes[edge.source], data.nodes[edge.target], edge.by));
      classes.push("bent");
    }
    return { data: found, classes: classes.join(" ") };
  }

  // Cytoscape takes the points on an edge's way as shares of the line between its ends, and distances from it.
  function bends(from, to, by) {
    const dx = to.x - from.x, dy = to.y - from.y, length = Math.hypot(dx, dy) || 1;
    const along = by.map(([x, y]) => ((x - from.x) * dx + (y - from.y) * dy) / (length * length));
    const aside = by.map(([x, y]) => ((y - from.y) * dx - (x - from.x) * dy) / length);
    return { along, aside };
  }

  function styles() {
    return [
      { selector: "node", style: {
        shape: "round-rectangle", width: "data(width)", height: HEIGHT, "background-color": "#f2f5f9",
        "border-width": 1, "border-color": "#4a5a6e", label: "data(label)", "font-size": 9, color: "#16202c",
        "text-valign": "center", "text-halign": "center", "font-family": "system-ui, sans-serif" } },
      { selector: "node.labels", style: { shape: "rectangle", "background-color": "#fbeedd" } },
      { selector: "node.chosen", style: { "border-width": 3, "border-color": "#16202c" } },
      { selector: "edge", style: {
        width: "data(thick)", opacity: "data(opacity)", "line-color": "data(colour)", "curve-style": "bezier",
        "control-point-step-size": 26,
        "source-arrow-shape": "data(from)", "target-arrow-shape": "data(to)", "source-arrow-fill": "data(fromFill)",
        "target-arrow-fill": "data(toFill)", "source-arrow-color": "data(colour)", "target-arrow-color": "data(colour)",
        "arrow-scale": 0.8, label: "data(label)", "font-size": 9, color: "#16202c", "text-background-color": "#fff",
        "text-background-opacity": 0.85, "min-zoomed-font-size": 6 } },
      { selector: "edge.dashed", style: { "line-style": "dashed", "line-dash-pattern": "data(dash)" } },
      { selector: "edge.bent", style: {
        "curve-style": "round-segments", "segment-weights": "data(along)", "segment-distances": "data(aside)",
        "segment-radii": 14, "edge-distances": "node-position" } },
      { selector: "edge.required", style: {
        "underlay-color": "#f0e442", "underlay-opacity": 0.9, "underlay-padding": 3 } },
      { selector: "edge.pointed", style: { "overlay-color": "#16202c", "overlay-opacity": 0.15, "overlay-padding": 3 } },
      { selector: ".faded", style: { opacity: 0.1 } },
    ];
  }
})(window.fedbnsl);
