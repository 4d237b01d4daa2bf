// Three kinds of plot: lines over a number, columns over bins, rows over names.
// Each is drawn at the width it has, and again when that changes.
const drawings = [];
function drawn(host, draw) {
  drawings.push([host, draw]);
  draw(host, widthOf(host));
  offerNumbers(host);
}
// What a plot shows, as rows of a table: whoever wants the numbers gets them as CSV.
const numbersOf = new Map();
function offerNumbers(host) {
  const title = host.closest("figure, .halves > div")?.querySelector("figcaption, h3");
  if (!title || !numbersOf.has(host) || title.querySelector(".csv")) return;
  const button = el("button", { type: "button", class: "csv quiet", title: "The numbers of this plot as CSV" }, "CSV");
  button.addEventListener("click", () => {
    const text = numbersOf.get(host).map((row) => row.map((v) => cell(v ?? "")).join(",")).join("\n");
    save(`${host.dataset.plot || "numbers"}.csv`, "text/csv", `${text}\n`);
  });
  title.append(button);
}
function keepNumbers(host, first, places, series) {
  const head = series.flatMap((s) => (s.errors ? [s.name, `${s.name}: standard error`] : [s.name]));
  const body = places.map((place, i) =>
    [place, ...series.flatMap((s) => (s.errors ? [s.values[i], s.errors[i]] : [s.values[i]]))]);
  numbersOf.set(host, [[first, ...head], ...body]);
}
function widthOf(host) {
  const inside = document.querySelector("main").clientWidth - 72; // of a card, where the host is in a closed tab
  return Math.round(Math.max(260, host.clientWidth || inside));
}
function redraw() {
  for (const [host, draw] of drawings) if (host.isConnected) draw(host, widthOf(host));
}

const segment = (style, x1, y1, x2, y2) => svg("line", { class: style, x1, y1, x2, y2 });
const area = (style, x, y, width, height) => svg("rect", { class: style, x, y, width, height });
const dot = (style, cx, cy) => svg("circle", { class: `dot ${style}`, cx, cy, r: 4.2 });
const words = (style, x, y, anchor, text) => svg("text", { class: style, x, y, "text-anchor": anchor }, text);
const errorAt = (s, i) => (s.errors && isNumber(s.errors[i]) ? s.errors[i] : null);
const around = (v, error) => (isNumber(v) ? [v - (error || 0), v + (error || 0)] : []);
const reach = (s) => s.values.flatMap((v, i) => around(v, errorAt(s, i)));
function told(s, i, show) {
  const error = errorAt(s, i);
  return [s.name, show(s.values[i]) + (error === null ? "" : ` ± ${show(error)}`), s.style];
}

function grid(root, x, y, box, spec) {
  const g = svg("g", { class: "grid" });
  for (const [v, text] of y ? y.ticks : []) {
    g.append(segment("", box.left, y(v), box.right, y(v)), words("", box.left - 8, y(v) + 4, "end", text));
  }
  for (const [v, text] of x ? x.ticks : []) {
    g.append(segment("", x(v), box.bottom, x(v), y ? box.bottom + 5 : box.top));
    g.append(words("", x(v), box.bottom + 19, "middle", text));
  }
  if (spec.x) g.append(words("title", (box.left + box.right) / 2, box.bottom + 38, "middle", spec.x));
  if (spec.y) g.append(words("title", 4, 13, "start", spec.y));
  root.append(g);
}

function frame(host, width, height, spec, left) {
  const root = canvas(host, width, height, spec.label);
  return [root, { left, right: width - 14, top: spec.compact ? 4 : 26, bottom: height - (spec.x ? 46 : 26) }];
}

// spec: label, x and y (titles), at (numbers), logx, logy, zero, top, mark {at, text}, title(i), show,
//       series [{name, style, values, errors, dots, loose (not joined)}]
function lines(host, width, spec) {
  const tall = spec.height ?? Math.round(Math.max(240, Math.min(380, width * 0.5)));
  const [root, box] = frame(host, width, tall, spec, 50);
  const x = scale(spec.at, spec.logx, box.left, box.right);
  const shown = [...spec.series.flatMap(reach), ...(isNumber(at(spec, "level", "at")) ? [spec.level.at] : [])];
  const y = scale(spec.top ? shown.map((v) => Math.min(v, spec.top)) : shown, spec.logy, box.bottom, box.top, spec);
  keepNumbers(host, spec.x, spec.at, spec.series);
  if (spec.mark && isNumber(spec.mark.at)) {
    const edge = x(spec.mark.at);
    const flip = edge - box.left < 90;
    root.append(
      area("inside", box.left, box.top, edge - box.left, box.bottom - box.top),
      segment("edge", edge, box.top, edge, box.bottom),
      words("note", edge + (flip ? 6 : -6), box.bottom - 8, flip ? "start" : "end", spec.mark.text),
    );
  }
  grid(root, x, y, box, spec);
  if (spec.level && isNumber(spec.level.at)) {
    const level = y(spec.level.at);
    root.append(segment("edge", box.left, level, box.right, level));
    root.append(words("note", box.right, level - 6, "end", spec.level.text));
  }
  for (const s of spec.series) {
    const inside = spec.at.map((_, i) => i).filter((i) => isNumber(s.values[i]) && errorAt(s, i) !== null);
    if (s.band && inside.length > 1) {
      const edge = (i, sign) => `${x(spec.at[i]).toFixed(1)} ${y(s.values[i] + sign * s.errors[i]).toFixed(1)}`;
      const outline = [...inside.map((i) => edge(i, 1)), ...inside.slice().reverse().map((i) => edge(i, -1))];
      root.append(svg("path", { class: `band ${s.style}`, d: `M${outline.join("L")}Z` }));
    }
    let path = "";
    let pen = "M";
    const marks = [];
    spec.at.forEach((where, i) => {
      const v = s.values[i];
      const e = errorAt(s, i);
      if (isNumber(v)) path += `${pen}${x(where).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = isNumber(v) ? "L" : "M";
      if (isNumber(v) && e !== null && !s.band) marks.push(segment(`whisker ${s.style}`, x(where), y(v - e), x(where), y(v + e)));
      if (isNumber(v) && s.dots) marks.push(dot(`${s.style}${s.open && s.open[i] ? " open" : ""}`, x(where), y(v)));
    });
    if (path && !s.loose) root.append(svg("path", { class: `curve ${s.style}`, d: path }));
    root.append(...marks);
  }
  const cursor = svg("g", { class: "cursor" });
  root.append(cursor);
  readable(root, spec.at.map(x), {
    clear: () => cursor.replaceChildren(),
    show: (i) => {
      const px = x(spec.at[i]);
      const known = spec.series.filter((s) => isNumber(s.values[i]));
      const dots = known.map((s) => dot(s.style, px, y(s.values[i])));
      cursor.replaceChildren(segment("", px, box.top, px, box.bottom), ...dots);
      const height = known.length ? y(known[0].values[i]) : box.top;
      return [spec.title(i), known.map((s) => told(s, i, spec.show || number)), px, height];
    },
  });
  legend(host, spec.series);
}

// spec: label, x, y, edges (n + 1 numbers; without them equal bins), series [{name, style, values}], title(i)
function columns(host, width, spec) {
  const [root, box] = frame(host, width, Math.round(Math.max(220, Math.min(300, width * 0.4))), spec, 50);
  const count = spec.series[0].values.length;
  const bins = spec.series[0].values.map((_, i) => (spec.edges ? spec.edges[i] : spec.title(i)));
  keepNumbers(host, spec.edges ? `${spec.x}, from` : "name", bins, spec.series);
  const ends = spec.edges || Array.from({ length: count + 1 }, (_, i) => i);
  const x = scale([ends[0], ends[count]], false, box.left, box.right, { top: ends[count] });
  const y = scale(spec.series.flatMap((s) => s.values), false, box.bottom, box.top, { zero: true });
  grid(root, spec.edges ? x : null, y, box, spec);
  for (const s of spec.series) {
    s.values.forEach((v, i) => {
      if (!isNumber(v)) return;
      const gap = x(ends[i + 1]) - x(ends[i]) > 4 ? 1 : 0;
      const [a, b] = [x(ends[i]) + gap, x(ends[i + 1]) - gap];
      root.append(area(`bar ${s.style}`, a, Math.min(y(v), y(0)), Math.max(0.5, b - a), Math.abs(y(v) - y(0))));
    });
  }
  const cursor = svg("g", { class: "cursor" });
  root.append(cursor);
  const places = Array.from({ length: count }, (_, i) => (x(ends[i]) + x(ends[i + 1])) / 2);
  readable(root, places, {
    clear: () => cursor.replaceChildren(),
    show: (i) => {
      cursor.replaceChildren(segment("", places[i], box.top, places[i], box.bottom));
      return [spec.title(i), spec.series.map((s) => told(s, i, number)), places[i], y(spec.series[0].values[i] || 0)];
    },
  });
  legend(host, spec.series);
}

function shortened(name, most) {
  if (name.length <= most) return name;
  return `${name.slice(0, Math.ceil(most / 2) - 1)}…${name.slice(1 - Math.floor(most / 2))}`;
}

// spec: label, x, names, log, base (where bars start), top, rule {at, text}, show,
//       series [{name, style, values, errors}]
function rows(host, width, spec) {
  keepNumbers(host, "name", spec.names, spec.series);
  const above = width < 560 && !spec.compact; // names above their bars
  const wide = above ? 8 : Math.min(220, 24 + 7.2 * Math.max(...spec.names.map((n) => n.length)));
  const thick = spec.series.length > 1 ? (spec.compact && spec.series.length > 2 ? 5 : 7) : 14;
  const tall = spec.series.length * (thick + 1);
  const each = tall + (above ? 26 : spec.compact ? 6 : 12);
  const margin = spec.compact ? 4 : 26;
  const [root, box] = frame(host, width, margin + each * spec.names.length + (spec.x ? 46 : 26), spec, wide);
  box.right -= 10;
  const base = spec.base ?? 0;
  const values = [base, at(spec, "rule", "at"), ...spec.series.flatMap(spec.log ? (s) => s.values : reach)];
  const x = scale(values, spec.log, box.left, box.right, { zero: true, top: spec.top, percents: spec.percents });
  grid(root, x, null, box, spec);
  const most = Math.floor(above ? width / 7.2 : (wide - 16) / 7);
  const places = spec.names.map((name, i) => {
    const start = box.top + i * each + (above ? 20 : 6);
    const text = shortened(name, most);
    if (above) root.append(words("name", box.left, start - 5, "start", text));
    else root.append(words("name", wide - 10, start + tall / 2 + 4, "end", text));
    spec.series.forEach((s, k) => {
      const v = s.values[i];
      const e = errorAt(s, i);
      if (!isNumber(v)) return;
      const y = start + k * (thick + 1);
      root.append(area(`bar ${s.style}`, Math.min(x(v), x(base)), y, Math.max(1, Math.abs(x(v) - x(base))), thick));
      if (e !== null) root.append(segment("whisker ink", x(v - e), y + thick / 2, x(v + e), y + thick / 2));
    });
    return start + tall / 2;
  });
  root.append(segment("base", x(base), box.top, x(base), box.bottom));
  if (spec.rule && isNumber(spec.rule.at)) {
    const rule = x(spec.rule.at);
    root.append(segment("edge", rule, box.top, rule, box.bottom));
    root.append(words("note", rule, box.top - 6, "middle", spec.rule.text));
  }
  const cursor = svg("g", { class: "cursor" });
  root.append(cursor);
  readable(root, places, {
    vertical: true,
    clear: () => cursor.replaceChildren(),
    show: (i) => {
      cursor.replaceChildren(area("", 0, box.top + i * each, width, each));
      const px = Math.max(wide, x(spec.series[0].values[i] ?? base));
      return [spec.names[i], spec.series.map((s) => told(s, i, spec.show || number)), px, places[i]];
    },
  });
  legend(host, spec.series);
}
