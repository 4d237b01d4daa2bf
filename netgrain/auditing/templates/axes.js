// Scales, ticks, and the reading of values by pointer, touch and keyboard.
function scale(values, log, from, to, { zero = false, top = null, percents = false } = {}) {
  let usable = values.filter((v) => isNumber(v) && (!log || v > 0));
  if (!usable.length) usable = [log ? 1 : 0];
  let high = Math.max(...usable, top ?? -Infinity);
  let low = Math.min(...usable);
  if (log) {
    low = Math.max(low, high * 1e-6); // what is smaller is drawn at the edge
    if (high / low < 4) [low, high] = [low / 2, high * 2];
  } else {
    if (zero) [low, high] = [Math.min(0, low), Math.max(0, high)];
    if (high === low) high = low + 1;
    if (high !== top) high += 0.04 * (high - low);
    if (low < 0) low -= 0.04 * (high - low);
  }
  const f = log ? Math.log : (v) => v;
  const place = (v) => {
    if (!isNumber(v)) return from;
    const inside = Math.min(high, Math.max(low, v));
    return from + ((to - from) * (f(inside) - f(low))) / (f(high) - f(low));
  };
  place.ticks = log ? powers(low, high) : steps(low, high, percents);
  return place;
}

function powers(low, high) {
  const decades = Math.log10(high / low);
  const every = Math.max(1, Math.ceil(decades / 7));
  const found = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high) + 1e-9; p += 1) {
    for (const m of decades < 2.1 ? [1, 2, 5] : [1]) {
      const v = Number(`${m}e${p}`);
      if (p % every === 0 && v >= low * 0.999 && v <= high * 1.001) {
        found.push([v, p >= -2 && p <= 3 ? String(v) : `${m > 1 ? `${m}·` : ""}10${raised(p)}`]);
      }
    }
  }
  return found;
}

function steps(low, high, percents) {
  const raw = (high - low) / 5;
  const unit = 10 ** Math.floor(Math.log10(raw));
  const step = unit * [1, 2, 5, 10].find((m) => m * unit >= raw);
  const found = [];
  for (let k = Math.ceil(low / step); k * step <= high * (1 + 1e-9); k += 1) {
    const v = Number((k * step).toPrecision(12));
    found.push([v, percents ? `${number(100 * v)} %` : number(v)]);
  }
  return found;
}

function canvas(host, width, height, label) {
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "img" });
  root.setAttribute("aria-label", `${label}. Use the arrow keys to read values.`);
  host.replaceChildren(root);
  return root;
}

function legend(host, series) {
  if (series.length < 2) return;
  const entries = series.map((s) => el("span", {}, el("i", { class: `key ${s.style}` }), s.name));
  host.prepend(el("p", { class: "legend" }, ...entries));
}

const MOVES = {
  ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9,
};
// One focus stop per plot; hover, touch or arrow keys choose the nearest of `places` along an axis and show its values.
function readable(root, places, { vertical = false, show, clear }) {
  let current = -1;
  const choose = (i, x, y) => {
    current = Math.max(0, Math.min(places.length - 1, i));
    const [title, rows, px, py] = show(current);
    const box = root.getBoundingClientRect();
    const zoom = box.width / root.viewBox.baseVal.width;
    showAgain = () => choose(current);
    showTip(title, rows, x ?? box.left + px * zoom, y ?? box.top + py * zoom);
  };
  const leave = () => {
    clear();
    hideTip();
  };
  const point = (event) => {
    const box = root.getBoundingClientRect();
    const zoom = root.viewBox.baseVal.width / box.width;
    const p = vertical ? (event.clientY - box.top) * zoom : (event.clientX - box.left) * zoom;
    let best = 0;
    places.forEach((q, i) => {
      if (Math.abs(q - p) < Math.abs(places[best] - p)) best = i;
    });
    choose(best, event.clientX, event.clientY);
  };
  if (!places.length) return;
  root.addEventListener("pointermove", point);
  root.addEventListener("pointerdown", point);
  root.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
  root.addEventListener("focus", () => root.matches(":focus-visible") && choose(Math.max(0, current)));
  root.addEventListener("blur", leave);
  root.addEventListener("keydown", (event) => {
    const move = MOVES[event.key];
    if (event.key === "Escape") leave();
    if (!move) return;
    event.preventDefault();
    choose(current + move);
  });
}
