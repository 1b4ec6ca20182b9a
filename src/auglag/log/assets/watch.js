// A run, drawn from the rows of its log: those embedded in the page, or those that the page's server sends as the run
// goes. Text from the log only ever becomes text (textContent), never markup.
(() => {
  const {byId, make, draw, power} = drawing;
  const EMBEDDED = JSON.parse(byId("data").textContent);
  const store = {generation: -1, start: null, end: null, iterations: [], tests: [], course: [], state: "waiting", words: "waiting"};

  const known = (value) => typeof value === "number" && Number.isFinite(value);

  function shown(value, digits = 3) {
    if (!known(value)) return "–";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(digits - 1).replace("e+", "e").replace(/\.?0+e/, "e");
    return String(Number(value.toPrecision(digits)));
  }

  function duration(seconds) {
    if (!known(seconds)) return "–";
    if (seconds < 60) return `${seconds.toFixed(1)} s`;
    const whole = Math.round(seconds), pad = (v) => String(v).padStart(2, "0");
    const hours = Math.floor(whole / 3600), minutes = Math.floor((whole % 3600) / 60);
    return hours ? `${hours}:${pad(minutes)}:${pad(whole % 60)}` : `${minutes}:${pad(whole % 60)}`;
  }

  // ------------------------------------------------------------------------------------------------------------ charts

  const WIDTH = 420, HEIGHT = 220, LEFT = 52, RIGHT = 14, TOP = 10, BOTTOM = 36, MOST = 1500;

  function ticks(low, high, log, most, least = 0) {
    if (log && high - low >= 1) {
      const first = Math.ceil(low - 1e-9), last = Math.floor(high + 1e-9), step = Math.max(1, Math.ceil((last - first + 1) / most));
      const found = [];
      for (let k = first; k <= last; k += step) found.push([k, power(k)]);
      return found;
    }
    const raw = Math.max(high - low, 1e-300) / most, base = 10 ** Math.floor(Math.log10(raw));
    const step = Math.max(least, [1, 2, 5, 10].map((d) => d * base).find((s) => s >= raw * 0.999));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9)), found = [];
    const plain = (t) => (digits > 7 || Math.max(Math.abs(low), Math.abs(high)) >= 1e7 ? shown(t, 6) : t.toFixed(digits).replace("-", "−"));
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++)
      found.push([i * step, log ? shown(10 ** (i * step)) : plain(i * step)]);
    return found;
  }

  // Every so-many-th point, and the extremes in between, so that a long run stays quick to draw.
  function thinned(points) {
    if (points.length <= MOST) return points;
    const size = Math.ceil(points.length / (MOST / 2)), kept = [];
    for (let i = 0; i < points.length; i += size) {
      const part = points.slice(i, i + size);
      let low = part[0], high = part[0];
      for (const p of part) { if (p[1] < low[1]) low = p; if (p[1] > high[1]) high = p; }
      kept.push(...(low[0] <= high[0] ? [low, high] : [high, low]));
    }
    kept.push(points.at(-1));
    return kept;
  }

  // Not Math.min(...values): a long run has more rows than a call may have arguments.
  const extent = (values) => values.reduce(([a, b], v) => [v < a ? v : a, v > b ? v : b], [Infinity, -Infinity]);

  function limits(values, log) {
    const [low, high] = extent(values);
    if (log) {
      const room = Math.max(0.15, (1.2 - high + low) / 2, 0.03 * (high - low));
      return [low - room, high + room];
    }
    const room = high > low ? 0.06 * (high - low) : Math.max(0.5, Math.abs(high) * 0.1);
    return [low - room, high + room];
  }

  // series: [{name, points: [[x, y], ...], colour, dash}]; bars: widths in x, drawn from 0.
  function chart(figure, {title, series, log, xname, level, bars, restarts}) {
    figure.replaceChildren();
    const caption = make(figure, "figcaption", title);
    const drawn = series.map((s) => ({...s, points: thinned(s.points.filter((p) => known(p[0]) && known(p[1]) && (!log || p[1] > 0))
      .map(([x, y]) => [x, log ? Math.log10(y) : y]))})).filter((s) => s.points.length);
    if (series.length > 1) for (const s of drawn.slice(0, 8)) {
      const name = make(caption, "span");
      const mark = draw(name, "svg", {viewBox: "0 0 22 8", width: 22, height: 8, "aria-hidden": "true"});
      draw(mark, "path", {class: "line", d: "M1 4H21", style: `stroke:${s.colour}`, "stroke-dasharray": s.dash || "none"});
      name.append(s.name);
    }
    const svg = draw(figure, "svg", {class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img"});
    if (!drawn.length) {
      svg.setAttribute("aria-label", `${title}: nothing to draw`);
      draw(svg, "text", {x: WIDTH / 2, y: HEIGHT / 2, "text-anchor": "middle"}, log ? "no positive values" : "no values");
      return;
    }
    const xs = series.flatMap((s) => s.points.map((p) => p[0])).filter(known), ys = drawn.flatMap((s) => s.points.map((p) => p[1]));
    if (level > 0) ys.push(log ? Math.log10(level) : level);
    if (bars) ys.push(0);
    let [x0, x1] = extent(xs);
    if (bars) { x0 -= 0.6 * bars; x1 += 0.6 * bars; }
    if (x1 <= x0) { x0 -= 0.5; x1 += 0.5; }
    let [y0, y1] = limits(ys, log);
    if (bars) y0 = 0;
    const px = (v) => LEFT + ((v - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
    const py = (v) => HEIGHT - BOTTOM - ((v - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    for (const [t, text] of ticks(x0, x1, false, 6, /iterations|tests|steps/.test(xname) ? 1 : 0)) {
      draw(svg, "line", {class: "grid", x1: px(t), x2: px(t), y1: TOP, y2: HEIGHT - BOTTOM});
      draw(svg, "text", {x: px(t), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle"}, text);
    }
    for (const [t, text] of ticks(y0, y1, log, 6)) {
      draw(svg, "line", {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(t), y2: py(t)});
      draw(svg, "text", {x: LEFT - 6, y: py(t) + 4, "text-anchor": "end"}, text);
    }
    draw(svg, "path", {class: "axis", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}`});
    draw(svg, "text", {x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle"}, xname);
    for (const at of restarts || []) draw(svg, "line", {class: "restart", x1: px(at), x2: px(at), y1: TOP, y2: HEIGHT - BOTTOM});
    if (level > 0) {
      const at = py(log ? Math.log10(level) : level);
      draw(svg, "line", {class: "tol", x1: LEFT, x2: WIDTH - RIGHT, y1: at, y2: at});
      draw(svg, "text", {x: LEFT + 4, y: at - 4}, "tol");
    }
    drawn.forEach((s, i) => {
      if (bars) {
        const wide = Math.max(1, (px(x0 + bars) - px(x0)) * (i ? 0.4 : 0.8));
        for (const [x, y] of s.points)
          draw(svg, "rect", {x: px(x) - wide / 2, y: py(y), width: wide, height: Math.max(0, py(0) - py(y)), style: `fill:${s.colour}`, opacity: i ? 1 : 0.45});
        return;
      }
      const path = s.points.map(([x, y], j) => `${j ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
      draw(svg, "path", {class: "line", d: path, style: `stroke:${s.colour}`, "stroke-dasharray": s.dash || "none"});
      const [x, y] = s.points.at(-1);
      draw(svg, "circle", {cx: px(x), cy: py(y), r: 3.2, style: `fill:${s.colour}`});
    });
    const back = (v) => (log ? 10 ** v : v);
    const last = drawn.map((s) => `${s.name} ${shown(back(s.points.at(-1)[1]))}`).join(", ");
    svg.setAttribute("aria-label", `${title}, last: ${last}`);
    reading(svg, drawn, {x0, x1, px, py, back, xname});
  }

  // The values under the pointer.
  function reading(svg, drawn, {x0, x1, px, py, back, xname}) {
    const layer = draw(svg, "g", {"aria-hidden": "true"});
    svg.addEventListener("pointerleave", () => layer.replaceChildren());
    svg.addEventListener("pointermove", (event) => {
      layer.replaceChildren();
      const box = svg.getBoundingClientRect(), at = ((event.clientX - box.left) / box.width) * WIDTH;
      if (at < LEFT || at > WIDTH - RIGHT) return;
      const x = x0 + ((at - LEFT) / (WIDTH - LEFT - RIGHT)) * (x1 - x0);
      const near = drawn.map((s) => s.points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a)));
      const place = near[0][0], flip = px(place) > WIDTH / 2;
      draw(layer, "line", {class: "cross", x1: px(place), x2: px(place), y1: TOP, y2: HEIGHT - BOTTOM});
      const write = (text, i) => draw(layer, "text", {class: "read", x: px(place) + (flip ? -7 : 7), y: TOP + 12 + 15 * i, "text-anchor": flip ? "end" : "start"}, text);
      write(`${xname === "seconds" ? "" : "at "}${shown(place, 4)}${xname === "seconds" ? " s" : ""}`, 0);
      near.slice(0, 8).forEach((p, i) => write(`${drawn[i].name} ${shown(back(p[1]))}`, i + 1));
    });
  }

  // -------------------------------------------------------------------------------------------------------- the page

  const FIGURES = ["residual", "violation", "penalty", "multiplier", "inner", "objective"];
  const figures = Object.fromEntries(FIGURES.map((name) => [name, make(byId("charts"), "figure", undefined, {id: `chart-${name}`})]));
  const COLOURS = Array.from({length: 8}, (_, i) => `var(--c${i})`);

  function axis(rows, sampled) {
    const kind = byId("axis").value;
    if (kind === "seconds") return [rows.map((r) => r.seconds), "seconds"];
    if (kind === "work" && sampled) return [rows.map((r) => r.work?.epochs), "passes over the data"];
    if (kind === "work") {
      let total = 0;
      return [rows.map((r) => (total += r.evaluations || 0)), "gradients of the subproblems"];
    }
    return [rows.map((_, i) => i + 1), sampled ? "full-batch tests" : kind === "steps" && rows === store.course ? "steps" : "outer iterations"];
  }

  function charts() {
    const sampled = store.tests.length > 0, outer = store.iterations;
    const stepwise = ["steps", "seconds"].includes(byId("axis").value) && store.course.length > 0;
    const rows = sampled ? store.tests : stepwise ? store.course : outer;
    const log = byId("log").checked, tol = store.start?.tol;
    const [x, xname] = axis(rows, sampled), [xo, xoname] = axis(outer, false);
    const changes = (found, at) => found.flatMap((r, i) => (i && r.attempt !== found[i - 1].attempt ? [(at[i] + at[i - 1]) / 2] : []));
    const starts = changes(outer, xo);
    const line = (name, column, i, dash) => ({name, colour: COLOURS[i], dash, points: rows.map((r, j) => [x[j], r[column]])});
    const outerLine = (name, column, i, dash) => ({name, colour: COLOURS[i], dash, points: outer.map((r, j) => [xo[j], r[column]])});
    const common = {log, xname, restarts: sampled ? [] : changes(rows, x)};
    chart(figures.residual, {...common, title: "Residual", level: tol,
      series: [line("R", "residual", 0), ...(stepwise && !sampled ? [] : [line("stationarity", "stationarity", 3, "6 4")])]});
    chart(figures.violation, {...common, title: "Constraint violation", level: tol, series: [line("violation", "violation", 1)]});
    const across = {xname: xoname, restarts: starts};
    chart(figures.penalty, {...across, log, title: "Penalty β", series: [outerLine("β", "beta", 2)]});
    chart(figures.multiplier, {...across, log: false, title: "Multipliers y", series: multipliers(outer, xo)});
    const steps = outer.map((_, i) => i + 1);
    chart(figures.inner, {xname: "outer iterations", log: false, title: "Inner work", bars: 1, series: [
      {name: "gradients", colour: COLOURS[0], points: outer.map((r, j) => [steps[j], r.evaluations])},
      {name: "inner iterations", colour: COLOURS[7], points: outer.map((r, j) => [steps[j], r.inner_iterations])}]});
    chart(figures.objective, {...common, log: false, title: "Objective f + g", series: [line("f + g", "objective", 5)]});
  }

  // |y|, or the entries that are largest now.
  function largest(most) {
    const y = store.iterations.at(-1)?.multipliers;
    if (!Array.isArray(y)) return [];
    return y.map((v, i) => [Math.abs(v ?? 0), i]).sort((a, b) => b[0] - a[0]).slice(0, most).map(([, i]) => i);
  }

  const rowName = (i) => store.start?.rows?.[i] ?? `row ${i + 1}`;

  function multipliers(outer, x) {
    const found = largest(7).map((i, j) => ({name: rowName(i), colour: COLOURS[(j + 1) % 8], dash: j % 2 ? "6 4" : "",
      points: outer.map((r, k) => [x[k], r.multipliers?.[i]])}));
    if (found.length === 1) return found;
    return [{name: "|y|", colour: COLOURS[0], points: outer.map((r, k) => [x[k], r.multiplier_norm])}, ...found];
  }

  function tiles() {
    const row = (store.tests.length ? store.tests : store.iterations).at(-1) ?? {}, outer = store.iterations.at(-1) ?? {};
    const end = store.end ?? {}, value = (name) => (known(end[name]) ? end[name] : row[name]);
    const list = byId("tiles");
    list.replaceChildren();
    const sampled = store.tests.length > 0;
    const entries = [["residual R", shown(value("residual"))], ["violation", shown(value("violation"))],
      ["stationarity", shown(value("stationarity"))], ["f + g", shown(value("objective"), 6)], ["penalty β", shown(outer.beta)],
      ["|y|", shown(outer.multiplier_norm)], ["outer iterations", String(store.iterations.length)],
      sampled ? ["passes", shown(row.work?.epochs, 4)] : ["inner iterations", String(store.iterations.reduce((s, r) => s + (r.inner_iterations || 0), 0))],
      ["time", duration(end.seconds ?? row.seconds)]];
    for (const [name, text] of entries) {
      const tile = make(list, "div");
      make(tile, "dt", name);
      make(tile, "dd", text);
    }
  }

  const COLUMNS = [["k", "k"], ["f + g", "objective", 10], ["residual", "residual"], ["violation", "violation"], ["stationarity", "stationarity"],
    ["penalty", "beta"], ["|y|", "multiplier_norm"], ["inner", "inner_iterations"], ["gradients", "evaluations"], ["status", "inner_status"], ["s", "seconds"]];

  function tables() {
    const most = 200, outer = store.iterations;
    const part = byId("iterations"), head = part.querySelector("thead"), body = part.querySelector("tbody");
    part.hidden = !outer.length;
    if (!head.childElementCount) {
      const row = make(head, "tr");
      for (const [name, column] of COLUMNS) make(row, "th", name, {scope: "col", class: column === "inner_status" ? "" : "n"});
    }
    byId("count").textContent = `${outer.length}, the newest first${outer.length > most ? `; the last ${most} are shown` : ""}.`;
    body.replaceChildren();
    for (const r of outer.slice(-most).reverse()) {
      const row = make(body, "tr");
      for (const [, column, digits] of COLUMNS) {
        const text = column === "inner_status" ? String(r[column] ?? "").toLowerCase()
          : column === "k" && r.attempt ? `${r.k} (restart ${r.attempt})` : shown(r[column], digits ?? 3);
        make(row, "td", text, {class: column === "inner_status" ? "" : "n"});
      }
    }
    const y = outer.at(-1)?.multipliers, list = byId("multipliers"), rows = list.querySelector("tbody");
    list.hidden = !Array.isArray(y) || !y.length;
    rows.replaceChildren();
    for (const i of largest(50)) {
      const row = make(rows, "tr");
      make(row, "td", rowName(i));
      make(row, "td", shown(y[i], 5), {class: "n"});
    }
  }

  function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
  }

  function render() {
    const {start, end, state} = store, badge = byId("status");
    const mood = state === "finished" && !end?.success ? "failed" : state;
    badge.className = `badge ${mood}`;
    put(badge, state === "finished" ? String(end?.status ?? "ended").toLowerCase().replaceAll("_", " ") : state === "gone" ? "ended unexpectedly" : state === "lost" ? "no connection" : state);
    put(byId("name"), start ? start.problem || "a problem without a name" : "Waiting for a run");
    document.title = start ? `${start.problem || "auglag"}: ${badge.textContent}` : "auglag watch";
    const options = start?.options ?? {};
    put(byId("facts"), start ? `${start.n} variables, ${start.m} constraint row${start.m === 1 ? "" : "s"}, tol ${shown(start.tol)}; ` +
      [options.method, options.rules].filter(Boolean).join(", ") + `; began ${start.time}` + (start.resumed ? ", resumed" : "") +
      `; auglag ${start.versions?.auglag ?? ""}` + (store.bad ? `; ${store.bad} lines could not be read` : "") : store.words);
    const said = end ? [end.message, ...(end.advice ?? []).map((a) => `Try: ${a}`)].join("\n") : state === "gone" || state === "lost" ? store.words : "";
    byId("message").hidden = !said;
    put(byId("message"), said);
    tiles();
    charts();
    tables();
  }

  // ------------------------------------------------------------------------------------------------------ new rows

  function take(news) {
    if (news.generation !== store.generation) Object.assign(store, {generation: news.generation, iterations: [], tests: [], course: []});
    const before = JSON.stringify([store.state, store.words, store.start, store.end, store.bad]);
    const {iterations, tests, course = [], ...rest} = news;
    Object.assign(store, rest);
    for (const row of iterations) store.iterations.push(row);
    for (const row of tests) store.tests.push(row);
    for (const row of course) store.course.push(row);
    return iterations.length + tests.length + course.length > 0 || before !== JSON.stringify([store.state, store.words, store.start, store.end, store.bad]);
  }

  async function poll() {
    let wait = 700;
    try {
      const place = `generation=${store.generation}&iterations=${store.iterations.length}&tests=${store.tests.length}&course=${store.course.length}`;
      const answer = await fetch(`rows?${place}`, {cache: "no-store"});
      if (!answer.ok) throw new Error(String(answer.status));
      if (take(await answer.json())) render();
      if (store.state === "finished" || store.state === "gone") wait = 3000; // another run may begin
    } catch {
      if (store.state !== "finished" && store.state !== "lost") {
        Object.assign(store, {state: "lost", words: "auglag watch, which serves this page, does not answer; what is shown is the last it sent."});
        render();
      }
      wait = 3000;
    }
    setTimeout(poll, wait);
  }

  // ------------------------------------------------------------------------------------------------------- controls

  const dark = matchMedia("(prefers-color-scheme: dark)");
  let theme = "auto";
  try { theme = localStorage.getItem("auglag-theme") || "auto"; } catch { /* a page from a file may have no storage */ }
  function dress() {
    document.documentElement.dataset.theme = theme === "auto" ? (dark.matches ? "dark" : "light") : theme;
    byId("theme").textContent = `theme: ${theme}`;
  }
  byId("theme").addEventListener("click", () => {
    theme = {auto: "dark", dark: "light", light: "auto"}[theme] ?? "auto";
    try { localStorage.setItem("auglag-theme", theme); } catch { /* as above */ }
    dress();
  });
  dark.addEventListener("change", dress);
  byId("axis").addEventListener("change", charts);
  byId("log").addEventListener("change", charts);
  dress();
  if (EMBEDDED) {
    take(EMBEDDED);
    render();
  } else {
    render();
    poll();
  }
})();
