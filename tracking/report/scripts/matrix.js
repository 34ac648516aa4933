// The structure as a matrix on a canvas: row causes column, causes before effects. Only what is in sight is drawn.
(function (fedbnsl) {
  "use strict";

  const SIDE = 96, INK = "#16202c", SOFT = "#5b6878";

  fedbnsl.matrix = function (view, describe, data) {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d"), d = data.order.length;
    view.prepend(canvas);
    const rank = new Array(d);
    data.order.forEach((variable, place) => { rank[variable] = place; });
    const most = Math.max(...data.edges.map((edge) => Math.abs(edge.weight || 0)));
    let state = { lag: null, least: 0, found: null }, cells = new Map(), cell = 1, left = 0, top = 0, pointed = null;
    const high = () => view.clientHeight, wide = () => view.clientWidth;

    function fit() {
      cell = Math.max(0.5, Math.min((wide() - SIDE - 8) / d, (high() - SIDE - 8) / d, 80));
      left = top = 0;
      draw();
    }

    function resize() {
      const dots = window.devicePixelRatio || 1;
      canvas.width = wide() * dots;
      canvas.height = high() * dots;
      canvas.style.cssText = `width:${wide()}px;height:${high()}px;cursor:crosshair`;
      pen.setTransform(dots, 0, 0, dots, 0, 0);
    }

    function fill() {
      cells = new Map();
      data.edges.filter((edge) => fedbnsl.visible(edge, state)).forEach((edge) => {
        const directed = edge.marks[0] === fedbnsl.TAIL && edge.marks[1] === fedbnsl.ARROW;
        put(rank[edge.source], rank[edge.target], edge, edge.marks[1]);
        if (!directed && !edge.lag) put(rank[edge.target], rank[edge.source], edge, edge.marks[0]);
      });
    }

    // Of edges at several lags a cell shows the heaviest, and its words all.
    function put(row, column, edge, mark) {
      const there = cells.get(row * d + column);
      if (!there) { cells.set(row * d + column, { row, column, edge, mark, all: [edge] }); return; }
      there.all.push(edge);
      if (fedbnsl.size(edge) > fedbnsl.size(there.edge)) Object.assign(there, { edge, mark });
    }

    function colour(edge) {
      if (data.compared || edge.weight === undefined || !(most > 0)) return data.styles[edge.category].colour;
      const share = 0.25 + 0.75 * Math.abs(edge.weight) / most;
      return edge.weight < 0 ? `rgba(178,24,43,${share})` : `rgba(33,102,172,${share})`;
    }

    function draw() {
      pen.clearRect(0, 0, wide(), high());
      pen.save();
      pen.beginPath();
      pen.rect(SIDE, SIDE, wide() - SIDE, high() - SIDE);
      pen.clip();
      const x = (column) => SIDE + left + column * cell, y = (row) => SIDE + top + row * cell;
      // Below the diagonal lies what goes against the order.
      pen.fillStyle = "#f3f3f3";
      pen.beginPath();
      pen.moveTo(x(0), y(0)); pen.lineTo(x(0), y(d)); pen.lineTo(x(d), y(d));
      pen.fill();
      pen.strokeStyle = cell > 9 ? "#ececec" : "#e0e0e0";
      pen.lineWidth = 1;
      pen.beginPath();
      for (let k = 0; k <= d; k += cell > 9 ? 1 : 10) {
        pen.moveTo(x(k), y(0)); pen.lineTo(x(k), y(d)); pen.moveTo(x(0), y(k)); pen.lineTo(x(d), y(k));
      }
      pen.stroke();
      cells.forEach((one) => mark(one, x(one.column), y(one.row)));
      [pointed, state.found === null ? null : { row: rank[state.found], column: rank[state.found] }].forEach((at) => {
        if (!at) return;
        pen.fillStyle = "rgba(240,180,40,.18)";
        pen.fillRect(x(0), y(at.row), d * cell, cell);
        pen.fillRect(x(at.column), y(0), cell, d * cell);
      });
      pen.restore();
      names(x, y);
    }

    function mark(one, x, y) {
      if (x > wide() || y > high() || x + cell < SIDE || y + cell < SIDE) return;
      shape(one.edge, x + cell / 2, y + cell / 2, Math.max(0.8, cell / 2 - (cell > 6 ? 0.5 : 0)));
      if (one.mark === fedbnsl.CIRCLE) {
        pen.fillStyle = "#fff";
        pen.beginPath();
        pen.arc(x + cell / 2, y + cell / 2, Math.max(0.6, cell / 5), 0, 7);
        pen.fill();
      }
      if (one.edge.weight !== undefined && cell >= 30 && ["learned", "right"].includes(one.edge.category)) {
        pen.fillStyle = "#fff";
        pen.font = "9px system-ui, sans-serif";
        pen.textAlign = "center";
        pen.fillText(Number(one.edge.weight.toPrecision(2)), x + cell / 2, y + cell / 2 + 3);
      }
    }

    // A shape for each category, so that the matrix survives a grey printer: r is half of its width.
    function shape(edge, x, y, r) {
      pen.fillStyle = pen.strokeStyle = colour(edge);
      pen.lineWidth = Math.max(1, r / 3);
      pen.beginPath();
      if (edge.category === "missing") {
        pen.arc(x, y, Math.max(0.8, r - pen.lineWidth), 0, 7);
        pen.stroke();
      } else if (edge.category === "extra") {
        const q = 0.75 * r;
        pen.lineWidth = Math.max(1.2, r / 1.8);
        pen.moveTo(x - q, y - q); pen.lineTo(x + q, y + q); pen.moveTo(x - q, y + q); pen.lineTo(x + q, y - q);
        pen.stroke();
      } else if (edge.category === "reversed") {
        pen.moveTo(x, y - r); pen.lineTo(x + r, y + r); pen.lineTo(x - r, y + r);
        pen.fill();
      } else if (edge.category === "half-directed") {
        pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y);
        pen.fill();
      } else pen.fillRect(x - r, y - r, 2 * r, 2 * r);
    }

    function names(x, y) {
      const step = Math.max(1, Math.ceil(9 / cell)), size = Math.max(8, Math.min(11, 0.8 * cell * step));
      pen.fillStyle = INK;
      pen.font = `${size}px system-ui, sans-serif`;
      for (let k = 0; k < d; k += step) {
        const name = data.nodes[data.order[k]].name, shown = name.length > 14 ? `${name.slice(0, 13)}…` : name;
        if (y(k) >= SIDE - cell / 2 && y(k) < high()) {
          pen.textAlign = "right";
          pen.fillText(shown, SIDE - 5, y(k) + cell / 2 + size / 3);
        }
        if (x(k) >= SIDE - cell / 2 && x(k) < wide()) {
          pen.save();
          pen.translate(x(k) + cell / 2 + size / 3, SIDE - 5);
          pen.rotate(-Math.PI / 2);
          pen.textAlign = "left";
          pen.fillText(shown, 0, 0);
          pen.restore();
        }
      }
      pen.fillStyle = SOFT;
      pen.font = "11px system-ui, sans-serif";
      pen.textAlign = "left";
      pen.fillText("to (effect) →", 6, 16);
      pen.fillText("from (cause) ↓", 6, 32);
    }

    function at(event) {
      const box = canvas.getBoundingClientRect();
      const px = event.clientX - box.left, py = event.clientY - box.top;
      const column = Math.floor((px - SIDE - left) / cell), row = Math.floor((py - SIDE - top) / cell);
      const inside = px >= SIDE && py >= SIDE && row >= 0 && column >= 0 && row < d && column < d;
      return { px, py, row, column, inside };
    }

    function point(event) {
      const here = at(event);
      pointed = here.inside ? here : null;
      if (pointed) {
        const one = cells.get(here.row * d + here.column), name = (rankAt) => data.nodes[data.order[rankAt]].name;
        if (one) describe(one.all.map((edge) => fedbnsl.edgeWords(edge, data.compared)).join("\n"));
        else if (here.row === here.column) describe(fedbnsl.nodeWords(data.order[here.row], data));
        else describe(`${name(here.row)} → ${name(here.column)}: no edge`);
      } else describe("");
      draw();
    }

    let dragged = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { px, py } = at(event), before = cell;
      cell = Math.max(0.5, Math.min(120, cell * Math.exp(-0.0015 * event.deltaY)));
      left = (px - SIDE) - (px - SIDE - left) * cell / before;
      top = (py - SIDE) - (py - SIDE - top) * cell / before;
      keep();
      draw();
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      dragged = { x: event.clientX - left, y: event.clientY - top };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => { dragged = null; });
    canvas.addEventListener("pointerleave", () => { pointed = null; describe(""); draw(); });
    canvas.addEventListener("pointermove", (event) => {
      if (dragged) {
        left = event.clientX - dragged.x;
        top = event.clientY - dragged.y;
        keep();
      }
      point(event);
    });

    function keep() {
      left = Math.min(0, Math.max(left, Math.min(0, wide() - SIDE - d * cell - 8)));
      top = Math.min(0, Math.max(top, Math.min(0, high() - SIDE - d * cell - 8)));
    }

    const watched = () => { resize(); keep(); draw(); };
    window.addEventListener("resize", watched);
    resize();
    fit();
    return {
      fit,
      end: () => window.removeEventListener("resize", watched),
      update: (now) => {
        state = { ...now };
        fill();
        if (state.found !== null) {
          cell = Math.max(cell, 14);
          left = (wide() - SIDE) / 2 - rank[state.found] * cell;
          top = (high() - SIDE) / 2 - rank[state.found] * cell;
          keep();
          describe(fedbnsl.nodeWords(state.found, data));
        }
        draw();
      },
    };
  };
})(window.fedbnsl);
