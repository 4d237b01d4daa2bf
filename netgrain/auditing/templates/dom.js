// What everything else is built from: the report, elements made without any parsing of markup, numbers, the tooltip.
const report = JSON.parse(document.getElementById("report").textContent);

const at = (from, ...path) => path.reduce((v, key) => (v === null || v === undefined ? null : v[key] ?? null), from);
const list = (v) => (Array.isArray(v) ? v : []);
const isNumber = (v) => typeof v === "number" && Number.isFinite(v);
const centre = (v) => (isNumber(v) ? v : isNumber(at(v, "value")) ? v.value : null);
const spread = (v) => (isNumber(at(v, "stderr")) ? v.stderr : null);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...children.filter((c) => c !== null)); // strings become text nodes
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const raised = (power) => String(power).replace(/[-0-9]/g, (c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]);
function number(v) {
  if (!isNumber(v)) return "not measured";
  const size = Math.abs(v);
  if (size && (size < 1e-3 || size >= 1e5)) {
    const [mantissa, power] = v.toExponential(2).split("e");
    return `${mantissa}×10${raised(Number(power))}`.replace("-", "−");
  }
  const shown = size >= 1000 ? v.toFixed(0) : String(Number(v.toPrecision(3)));
  return shown.replace("-", "−");
}
function digits(v) { // always three, so that numbers below each other line up
  const usual = isNumber(v) && Math.abs(v) >= 1e-3 && Math.abs(v) < 1000;
  return usual ? v.toPrecision(3).replace("-", "−") : number(v);
}
const percent = (v) => (isNumber(v) ? `${(100 * v).toFixed(1)} %` : "not measured");

function picture(source, alt) {
  if (typeof source !== "string" || !source.startsWith("data:image/")) return null;
  return el("img", { src: source, alt });
}

const tip = document.getElementById("tip");
function showTip(title, rows, x, y) {
  tip.replaceChildren(
    el("strong", {}, title),
    ...rows.map(([name, value, style]) =>
      el("span", { class: "row" }, el("i", { class: `key ${style || ""}` }), el("span", {}, name), el("b", {}, value))),
  );
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const room = document.documentElement.clientWidth;
  const left = x + 14 + width > room ? Math.max(4, x - width - 14) : x + 14;
  tip.style.left = `${Math.min(left, Math.max(4, room - width - 4))}px`;
  tip.style.top = `${y - height - 10 < 4 ? y + 16 : y - height - 10}px`;
}
function hideTip() {
  tip.hidden = true;
  showAgain = null;
}
let showAgain = null; // the tooltip stays at its mark when the page scrolls
addEventListener("scroll", () => showAgain && showAgain(), { passive: true });
