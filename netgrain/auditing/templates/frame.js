// The page around the content: tabs, light and dark, downloads, printing.
const tabs = [...document.querySelectorAll('[role="tab"]')];
const panels = tabs.map((tab) => document.getElementById(tab.getAttribute("aria-controls")));
let open = 0;

function openTab(index, { focus = false, remember = true } = {}) {
  open = (index + tabs.length) % tabs.length;
  hideTip();
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === open));
    tab.tabIndex = i === open ? 0 : -1;
    panels[i].hidden = i !== open;
  });
  const strip = tabs[open].parentElement;
  strip.scrollLeft = tabs[open].offsetLeft - strip.offsetLeft - (strip.clientWidth - tabs[open].offsetWidth) / 2;
  if (focus) tabs[open].focus({ preventScroll: true });
  if (remember) {
    try {
      // not the panel's own id: the browser would scroll to it
      history.replaceState(null, "", `#/${panels[open].id}`);
    } catch {
      // a page inside another one may not change its address
    }
  }
  redraw();
}

tabs.forEach((tab, i) => {
  tab.addEventListener("click", () => openTab(i));
  tab.addEventListener("keydown", (event) => {
    const next = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    openTab(next, { focus: true });
  });
});

const themeButton = document.getElementById("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
function nameTheme() {
  themeButton.textContent = isDark() ? "Light" : "Dark";
  themeButton.setAttribute("aria-label", isDark() ? "Switch to light colours" : "Switch to dark colours");
  themeButton.removeAttribute("aria-pressed");
}
themeButton.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
prefersDark.addEventListener("change", nameTheme);
nameTheme();

function save(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = el("a", { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
// One cell of a CSV file: numbers as they are, text so that no spreadsheet takes it for a formula.
function cell(value) {
  const plain = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : `${value}`;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
const files = {
  kept: () => save("kept.csv", "text/csv", `${["index", ...list(at(report, "samples", "kept"))].map(cell).join("\n")}\n`),
  json: () => save("netgrain.json", "application/json", JSON.stringify(report, null, 1)),
};
for (const button of document.querySelectorAll("[data-download]")) {
  button.addEventListener("click", () => files[button.dataset.download]());
}

// Tables sort by a click on a column and, where they are long, show only rows with a word.
const LONG = 12;
function sortable(table) {
  const heads = [...table.querySelectorAll("thead th")];
  const body = table.tBodies[0];
  if (!heads.length || !body || body.rows.length < 3) return;
  const value = (row, i) => {
    const text = row.cells[i] ? row.cells[i].textContent.trim() : "";
    const plain = text.replaceAll("−", "-").replace(/[\s\u202f](?=\d)/g, "").replace(/^[<±]/, "");
    const power = plain.match(/^(-?[\d.]+)×10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/);
    if (power) return Number(`${power[1]}e${[...power[2]].map((c) => "-0123456789"["⁻⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(c)]).join("")}`);
    const found = parseFloat(plain);
    return Number.isNaN(found) ? text : found;
  };
  heads.forEach((head, i) => {
    const button = el("button", { type: "button", class: "sort" }, ...head.childNodes);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const compare = (a, b) => {
        const [p, q] = [value(a, i), value(b, i)];
        if (typeof p !== typeof q) return typeof p === "number" ? -1 : 1; // what was not measured is last
        const order = typeof p === "number" ? p - q : p.localeCompare(q);
        return up ? order : -order;
      };
      body.append(...[...body.rows].sort(compare));
    });
  });
  if (body.rows.length <= LONG) return;
  const input = el("input", { type: "search", placeholder: "Show rows with …", "aria-label": "Show rows with" });
  input.addEventListener("input", () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.before(el("label", { class: "filter" }, input));
}
for (const table of document.querySelectorAll("table")) sortable(table);
for (const button of document.querySelectorAll("[data-tab]")) {
  button.addEventListener("click", () => {
    openTab(panels.findIndex((panel) => panel.id === button.dataset.tab), { focus: true });
    tabs[open].scrollIntoView();
  });
}

// On paper everything is open.
let closed = null;
function printing(on) {
  if (on && !closed) {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const d of closed) d.open = true;
    for (const panel of panels) panel.hidden = false;
    redraw();
  } else if (!on && closed) {
    for (const d of closed) d.open = false;
    closed = null;
    openTab(open, { remember: false });
  }
}
addEventListener("beforeprint", () => printing(true));
addEventListener("afterprint", () => printing(false));
matchMedia("print").addEventListener("change", (event) => printing(event.matches));

// Called once, when all plots are registered.
function start() {
  const asked = panels.findIndex((panel) => `#/${panel.id}` === location.hash);
  openTab(Math.max(0, asked), { remember: false });
  let last = document.documentElement.clientWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      if (document.documentElement.clientWidth !== last) redraw();
      last = document.documentElement.clientWidth;
    });
  });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
}
