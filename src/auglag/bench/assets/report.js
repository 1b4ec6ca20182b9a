// The page's own script: reads the embedded data, draws charts as SVG, and the table of problems. Text from the data
// only ever becomes text (textContent), never markup.
(() => {
  const {byId, make, draw, power} = drawing;
  const DATA = JSON.parse(byId("data").textContent);
  const [SOLVED, GRADIENTS, ENDING, MESSAGE, RESIDUAL, VIOLATION, STATIONARITY, BETA, CPU, OUTER, HISTORY] =
    Array.from({length: 11}, (_, i) => i);

  // Black lines take the colour of the text, so that they are seen on a dark page.
  const colour = (solver) => "--c:" + (solver.colour === "#000000" ? "var(--ink)" : solver.colour);

  const dashes = (solver) => solver.dashes.map((d) => d * 1.5).join(" ");

  function shown(value) {
    if (value === null || value === undefined) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(2).replace("e+", "e").replace(/\.?0+e/, "e");
    return String(Number(value.toPrecision(3)));
  }

  // ------------------------------------------------------------------------------------------------------------ charts

  function ticks(low, high, log, most) {
    if (log) {
      const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9);
      if (high - low < 2.3) {
        const few = [];
        for (let k = Math.floor(low); k <= Math.ceil(high); k++)
          for (const d of [1, 2, 5]) few.push(k + Math.log10(d));
        return few.filter((t) => t >= low - 1e-9 && t <= high + 1e-9).map((t) => [t, shown(10 ** t)]);
      }
      const step = Math.max(1, Math.ceil((last - first) / most));
      return Array.from({length: Math.floor((last - first) / step) + 1}, (_, i) => first + i * step).map((k) => [k, power(k)]);
    }
    const raw = (high - low) / most, base = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((d) => d * base).find((s) => s >= raw);
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) found.push([t, shown(t)]);
    return found;
  }

  // Nearest positions at least `gap` apart: pool neighbours that would overlap.
  function spread(wanted, gap, low, high) {
    const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
    gap = Math.min(gap, (high - low) / Math.max(1, order.length - 1));
    const pools = [];
    order.forEach((i, rank) => {
      let pool = [wanted[i] - rank * gap, 1];
      while (pools.length && pools.at(-1)[0] > pool[0]) {
        const [mean, size] = pools.pop();
        pool = [(pool[0] * pool[1] + mean * size) / (pool[1] + size), pool[1] + size];
      }
      pools.push(pool);
    });
    const flat = pools.flatMap(([mean, size]) => Array(size).fill(mean));
    const placed = [];
    order.forEach((i, rank) => {
      placed[i] = Math.min(Math.max(flat[rank], low), high - (order.length - 1) * gap) + rank * gap;
    });
    return placed;
  }

  // lines: [{solver, points: [[x, y], ...]}], coordinates already logarithms where an axis is logarithmic.
  function chart(parent, {title, lines, x, y, step, named, height = 300}) {
    const figure = make(parent, "figure");
    make(figure, "figcaption", title);
    const width = named ? 560 : 360, longest = Math.max(4, ...lines.map((line) => line.solver.name.length));
    const sampled = named && lines.length > 8; // then colours repeat, and the dashes have to be seen at the name
    const left = 48, right = named ? Math.min(220, (sampled ? 50 : 22) + 6.6 * longest) : 12, top = 8, bottom = 40;
    const svg = draw(figure, "svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title});
    const px = (v) => left + ((v - x.low) / (x.high - x.low)) * (width - left - right);
    const py = (v) => height - bottom - ((v - y.low) / (y.high - y.low)) * (height - top - bottom);
    for (const [t, text] of ticks(x.low, x.high, x.log, named ? 8 : 5)) {
      draw(svg, "line", {class: "grid", x1: px(t), x2: px(t), y1: top, y2: height - bottom});
      draw(svg, "text", {x: px(t), y: height - bottom + 15, "text-anchor": "middle"}, text);
    }
    for (const [t, text] of ticks(y.low, y.high, y.log, 6)) {
      draw(svg, "line", {class: "grid", x1: left, x2: width - right, y1: py(t), y2: py(t)});
      draw(svg, "text", {x: left - 6, y: py(t) + 4, "text-anchor": "end"}, text);
    }
    draw(svg, "path", {class: "axis", fill: "none", d: `M${left} ${top}V${height - bottom}H${width - right}`});
    draw(svg, "text", {x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle"}, x.name);
    const inside = (p) => [Math.min(Math.max(p[0], x.low), x.high), p[1]];
    for (const line of lines) {
      line.points = line.points.filter((p) => p[0] <= x.high || !step).map(inside);
      if (!line.points.length) continue;
      let path = "", before = null;
      for (const [u, v] of line.points) {
        path += before === null ? `M${px(u).toFixed(1)} ${py(v).toFixed(1)}`
          : step ? `H${px(u).toFixed(1)}V${py(v).toFixed(1)}` : `L${px(u).toFixed(1)} ${py(v).toFixed(1)}`;
        before = v;
      }
      if (step) path += `H${px(x.high).toFixed(1)}`;
      draw(svg, "path", {class: "line", d: path, style: colour(line.solver),
        "stroke-dasharray": dashes(line.solver)});
      if (!step) {
        const [u, v] = line.points.at(-1);
        draw(svg, "circle", {class: "dot", cx: px(u), cy: py(v), r: 3, style: colour(line.solver)});
      }
    }
    const drawn = lines.filter((line) => line.points.length);
    if (named) {
      const ends = drawn.map((line) => py(line.points.at(-1)[1]));
      spread(ends, 15, top + 4, height - bottom).forEach((at, i) => {
        const edge = width - right, style = colour(drawn[i].solver);
        draw(svg, "line", {class: "tie", style, x1: edge, y1: ends[i], x2: edge + 10, y2: at});
        if (sampled) draw(svg, "path", {class: "line", style, d: `M${edge + 12} ${at}h26`, "stroke-dasharray": dashes(drawn[i].solver)});
        draw(svg, "text", {class: "name", style, x: edge + (sampled ? 42 : 13), y: at + 4}, drawn[i].solver.name);
      });
    }
    reading(svg, drawn, {x, y, px, py, left, right, top, bottom, width, height, step});
  }

  // The values under the pointer.
  function reading(svg, lines, {x, y, px, py, left, right, top, bottom, width, height, step}) {
    const cross = draw(svg, "line", {class: "cross", y1: top, y2: height - bottom});
    const texts = lines.map((line) => draw(svg, "text", {class: "read", style: colour(line.solver)}));
    const head = draw(svg, "text", {class: "read"});
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * width;
      const on = at >= left && at <= width - right;
      svg.classList.toggle("reading", on);
      if (!on) return;
      const value = x.low + ((at - left) / (width - left - right)) * (x.high - x.low);
      cross.setAttribute("x1", at);
      cross.setAttribute("x2", at);
      const flip = at > (left + width - right) / 2, side = flip ? at - 6 : at + 6, anchor = flip ? "end" : "start";
      const found = lines.map((line) => {
        const before = line.points.filter((p) => p[0] <= value + 1e-12);
        return before.length && (step || value <= line.points.at(-1)[0]) ? before.at(-1)[1] : null;
      });
      const places = spread(found.map((v) => (v === null ? height : py(v))), 13, top + 18, height - bottom);
      head.textContent = `${shown(x.log ? 10 ** value : value)}`;
      [head, ...texts].forEach((text) => { text.setAttribute("x", side); text.setAttribute("text-anchor", anchor); });
      head.setAttribute("y", top + 8);
      texts.forEach((text, i) => {
        text.textContent = found[i] === null ? "" : shown(y.log ? 10 ** found[i] : found[i]);
        text.setAttribute("y", places[i]);
      });
    });
    svg.addEventListener("pointerleave", () => svg.classList.remove("reading"));
  }

  // ---------------------------------------------------------------------------------------------------------- profiles

  const KINDS = {
    paper: ["Performance, α < 100", "Fraction of all problems that a solver solves with at most α times the gradient " +
      "evaluations of the best one. Failures have the ratio 100, as in the paper."],
    uncapped: ["Performance, all α", "The same without a limit: each curve ends at the fraction solved at any cost."],
    data: ["Data profile", "Fraction of all problems solved within κ (n + 1) gradient evaluations."],
  };
  const AXES = {paper: "performance factor α", uncapped: "performance factor α", data: "κ: gradient evaluations / (n + 1)"};

  function profiles(kind) {
    const panels = byId("panels");
    panels.replaceChildren();
    byId("kind-note").textContent = KINDS[kind][1];
    for (const section of DATA.sections) {
      const total = section.problems.length;
      const curves = section.profiles[kind];
      const all = curves.filter(Boolean).flatMap(([at]) => at).filter((a) => a > 0);
      const low = kind === "data" ? Math.log10(Math.min(1, ...all) / 1.2) : 0;
      const high = kind === "paper" ? 2 : Math.max(1, Math.log10(Math.max(10, ...all)) + 0.1);
      const lines = DATA.solvers.flatMap((solver, j) => curves[j] === null ? [] : [{solver,
        points: curves[j][0].map((a, i) => [a > 0 ? Math.log10(a) : low, curves[j][1][i] / total])}]);
      chart(panels, {title: section.title, lines, step: true, named: true, height: Math.max(300, 70 + 15 * lines.length),
        x: {low, high, log: true, name: AXES[kind]}, y: {low: 0, high: 1, log: false}});
    }
  }

  function kinds() {
    const bar = byId("kinds");
    const buttons = Object.entries(KINDS).map(([kind, [name]]) => {
      const button = make(bar, "button", name, {type: "button"});
      button.addEventListener("click", () => choose(kind));
      return [kind, button];
    });
    const choose = (kind) => {
      for (const [name, button] of buttons) button.setAttribute("aria-pressed", String(name === kind));
      profiles(kind);
    };
    choose("paper");
  }

  // ---------------------------------------------------------------------------------------------------------- problems

  const state = {section: 0, text: "", outcome: "all", sort: "name", down: false, open: new Set(), axis: "gradients"};

  const OUTCOMES = {
    all: ["all problems", () => true],
    every: ["solved by all", (runs) => runs.every((r) => r && r[SOLVED])],
    some: ["solved by some, not by all", (runs) => runs.some((r) => r && r[SOLVED]) && runs.some((r) => !r || !r[SOLVED])],
    none: ["solved by none", (runs) => !runs.some((r) => r && r[SOLVED])],
  };
  DATA.solvers.forEach(({name}, j) => {
    OUTCOMES["fail" + j] = [`${name} fails`, (runs) => !runs[j] || !runs[j][SOLVED]];
    OUTCOMES["only" + j] = [`only ${name} solves`, (runs) => runs.every((r, i) => Boolean(r && r[SOLVED]) === (i === j))];
  });

  function present(section) {
    return DATA.solvers.map((_, j) => j).filter((j) => section.profiles.paper[j] !== null);
  }

  function controls() {
    const bar = byId("controls");
    const listen = (element, name, kind) => element.addEventListener(kind, () => { state[name] = element.value; table(); });
    if (DATA.sections.length > 1) {
      const choice = make(bar, "select", undefined, {"aria-label": "setting"});
      DATA.sections.forEach((section, i) => make(choice, "option", section.title, {value: i}));
      choice.addEventListener("change", () => { state.section = Number(choice.value); table(); });
    }
    listen(make(bar, "input", undefined, {type: "search", placeholder: "name contains…", "aria-label": "name contains"}), "text", "input");
    const outcome = make(bar, "select", undefined, {"aria-label": "outcome"});
    for (const [key, [name]] of Object.entries(OUTCOMES)) make(outcome, "option", name, {value: key});
    listen(outcome, "outcome", "change");
    const axis = make(bar, "select", undefined, {"aria-label": "horizontal axis of histories"});
    make(axis, "option", "histories over gradients of the subproblems", {value: "gradients"});
    make(axis, "option", "histories over outer iterations", {value: "outer"});
    listen(axis, "axis", "change");
  }

  function key(section, i) {
    const [name, n, m] = section.problems[i];
    if (state.sort === "name") return name;
    if (state.sort === "n") return n;
    if (state.sort === "m") return m;
    const run = section.runs[i][state.sort];
    return run === null ? Infinity : run[SOLVED] ? run[GRADIENTS] : 1e12 + run[GRADIENTS];
  }

  function chosen(section) {
    const text = state.text.trim().toLowerCase(), test = OUTCOMES[state.outcome][1], columns = present(section);
    const rows = section.problems.map((_, i) => i).filter((i) =>
      section.problems[i][0].toLowerCase().includes(text) && test(section.runs[i].map((r, j) => (columns.includes(j) ? r : null))));
    const sign = state.down ? -1 : 1, plain = new Intl.Collator("en", {numeric: true});
    return rows.sort((a, b) => {
      const p = key(section, a), q = key(section, b);
      const order = typeof p === "string" ? plain.compare(p, q) : p === q ? 0 : p < q ? -1 : 1;
      return sign * order || a - b;
    });
  }

  function table() {
    const section = DATA.sections[state.section], columns = present(section);
    if (typeof state.sort === "number" && !columns.includes(state.sort)) state.sort = "name";
    const head = document.querySelector("#runs thead"), body = document.querySelector("#runs tbody");
    head.replaceChildren();
    body.replaceChildren();
    const row = make(head, "tr");
    const heads = [["name", "problem"], ["n", "n"], ["m", "m"], ...columns.map((j) => [j, DATA.solvers[j].name])];
    for (const [name, text] of heads) {
      const sorted = state.sort === name;
      const cell = make(row, "th", undefined, {class: name === "name" ? "" : "n", scope: "col",
        "aria-sort": sorted ? (state.down ? "descending" : "ascending") : "none"});
      make(cell, "button", text + (sorted ? (state.down ? " ▾" : " ▴") : ""), {type: "button"}).addEventListener("click", () => {
        state.down = sorted && !state.down;
        state.sort = name;
        table();
      });
    }
    const rows = chosen(section);
    byId("count").textContent = `${rows.length} of ${section.problems.length} problems; gradient evaluations, ` +
      `✗ where the run failed (solved: ${section.test}), bold the fewest. Choose a problem to see its histories.`;
    for (const i of rows) problem(body, section, i, columns);
  }

  function problem(body, section, i, columns) {
    const [name, n, m] = section.problems[i], runs = section.runs[i];
    const best = Math.min(...columns.map((j) => (runs[j] && runs[j][SOLVED] ? runs[j][GRADIENTS] : Infinity)));
    const row = make(body, "tr");
    const button = make(make(row, "td"), "button", name, {type: "button", "aria-expanded": String(state.open.has(name))});
    make(row, "td", n || "–", {class: "n"});
    make(row, "td", n ? m : "–", {class: "n"});
    for (const j of columns) {
      const run = runs[j];
      if (run === null) make(row, "td", "no record", {class: "n failed"});
      else if (run[SOLVED]) make(row, "td", run[GRADIENTS], {class: run[GRADIENTS] === best ? "n best" : "n"});
      else make(row, "td", `✗ ${run[GRADIENTS]}`, {class: "n failed", title: `${DATA.strings[run[ENDING]]}: ${DATA.strings[run[MESSAGE]]}`});
    }
    const toggle = () => {
      const next = row.nextElementSibling;
      if (next && next.classList.contains("detail")) next.remove();
      else detail(row, section, i, columns);
    };
    button.addEventListener("click", () => {
      if (!state.open.delete(name)) state.open.add(name);
      button.setAttribute("aria-expanded", String(state.open.has(name)));
      toggle();
    });
    if (state.open.has(name)) toggle();
  }

  // Differences back to values; gaps stay gaps.
  function summed(differences) {
    let last = 0;
    return differences.map((d) => (d === null ? null : (last += d)));
  }

  function history(run) {
    const [work, ...columns] = run[HISTORY].map(summed), count = run[OUTER];
    const kept = work.map((_, i) => 1 + (count <= DATA.points ? i : Math.floor((i * (count - 1)) / (DATA.points - 1) + 0.5)));
    const across = state.axis === "gradients" ? work : kept;
    return columns.map((column) => column.flatMap((v, i) => (v === null ? [] : [[across[i], v / 100]])));
  }

  function detail(row, section, i, columns) {
    const line = document.createElement("tr");
    line.className = "detail";
    row.after(line);
    const cell = make(line, "td", undefined, {colspan: columns.length + 3});
    const drawn = columns.filter((j) => section.runs[i][j] && section.runs[i][j][HISTORY]);
    const found = new Map(drawn.map((j) => [j, history(section.runs[i][j])]));
    const trio = make(cell, "div", undefined, {class: "trio"});
    ["R", "constraint violation", "penalty β"].forEach((title, c) => {
      const lines = drawn.map((j) => ({solver: DATA.solvers[j], points: found.get(j)[c]}));
      const points = lines.flatMap((l) => l.points);
      if (!points.length) return;
      const span = (k) => points.reduce(([a, b], p) => [Math.min(a, p[k]), Math.max(b, p[k])], [Infinity, -Infinity]);
      const [, right] = span(0), [low, high] = span(1), room = Math.max(0.1, 0.05 * (high - low));
      chart(trio, {title, lines, step: false, named: false, height: 240,
        x: {low: 0, high: Math.max(1, right * 1.03), log: false, name: state.axis === "gradients" ? "gradients of the subproblems" : "outer iterations"},
        y: {low: low - room, high: high + room, log: true}});
    });
    runs(cell, section.runs[i], columns);
  }

  function runs(cell, data, columns) {
    const wide = make(cell, "div", undefined, {class: "wide"}), inner = make(wide, "table");
    const head = make(make(inner, "thead"), "tr"), body = make(inner, "tbody");
    const names = ["solver", "solved", "ending", "gradients", "outer", "R", "violation", "stationarity", "last β", "CPU s", "message"];
    names.forEach((name, i) => make(head, "th", name, {class: i >= 3 && i < 10 ? "n" : ""}));
    for (const j of columns) {
      const run = data[j], row = make(body, "tr"), title = make(row, "td");
      const swatch = draw(title, "svg", {class: "swatch chart", viewBox: "0 0 26 8", style: "width:26px;height:8px"});
      draw(swatch, "path", {class: "line", d: "M0 4H26", style: colour(DATA.solvers[j]),
        "stroke-dasharray": dashes(DATA.solvers[j])});
      title.append(DATA.solvers[j].name);
      if (run === null) {
        make(row, "td", "no record", {colspan: names.length - 1, class: "failed"});
        continue;
      }
      make(row, "td", run[SOLVED] ? "yes" : "no", {class: run[SOLVED] ? "" : "failed"});
      make(row, "td", DATA.strings[run[ENDING]]);
      make(row, "td", run[GRADIENTS], {class: "n"});
      make(row, "td", run[OUTER] || "–", {class: "n"});
      for (const k of [RESIDUAL, VIOLATION, STATIONARITY, BETA, CPU]) make(row, "td", shown(run[k]), {class: "n"});
      make(row, "td", DATA.strings[run[MESSAGE]], {class: "said"});
    }
  }

  // #problem=NAME opens that problem.
  function linked() {
    const match = /^#problem=(.+)$/.exec(decodeURIComponent(location.hash));
    if (!match) return;
    state.text = match[1];
    state.open.add(match[1]);
    document.querySelector("#controls input").value = match[1];
    table();
    byId("problems").scrollIntoView();
  }

  kinds();
  controls();
  table();
  linked();
  addEventListener("hashchange", linked);
})();
