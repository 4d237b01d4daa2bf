// Shares by size of pattern: where labels differ (or the data vary), and what the network reacts to.
function bandsOf(host, width, scales, checkpoint) {
  const { bands, unit } = scales;
  const known = at(scales, "weak", "labels_found");
  const key = known ? "labels" : "variance";
  const reaction = bands.map((b) => (centre(b.gain) ?? 0) * (b.dimensions ?? 0));
  const total = reaction.reduce((sum, v) => sum + v, 0) || 1;
  const errors = bands.map((b) => ((spread(b.gain) ?? 0) * (b.dimensions ?? 0)) / total);
  const series = [
    { name: known ? "labels differ" : "your data vary", style: "s3",
      values: bands.map((b) => centre(b[key])), errors: bands.map((b) => spread(b[key])) },
  ];
  const parts = list(at(checkpoint, "parts")); // the same sizes, of the checkpoint and of fresh networks beside it
  const shares = (kind) => ({ values: parts.map((p) => centre(p[kind])), errors: parts.map((p) => spread(p[kind])) });
  if (parts.length === bands.length) {
    series.push({ name: "it reacts", style: "s4", ...shares("trained") });
    if (parts.some((p) => isNumber(centre(p.fresh)))) {
      series.push({ name: "fresh ones react", style: "s1", ...shares("fresh") });
    }
  } else {
    series.push({ name: "it reacts", style: "s1", values: reaction.map((v) => v / total), errors });
  }
  rows(host, width, {
    label: "Shares by size of pattern", x: `share, by size of pattern in ${unit}`, compact: true, show: percent,
    names: bands.map((b) => String(b.name).replace(` ${unit}`, "").replace("and coarser", "and up")), series,
    percents: true,
  });
}

// The slider through the directions of one audit, or of several side by side.
const GROUPS = { strongest: "Strongest", middle: "Middle", weakest: "Weakest" };
const FIELDS = [
  ["eigenvalue", "Eigenvalue", digits],
  ["cumulative", "Cumulative", percent],
  ["data_variance", "Data variance", digits],
  ["label_relevance", "Label relevance", digits],
  ["nonlinear", "Non-linear relevance", digits],
];
const rank = (d) => (isNumber(at(d, "index")) ? d.index + 1 : "?");

function bars(host, width, audit, d) {
  const names = d.bars.map((_, i) => String(at(audit, "data", "features", i) ?? `feature ${i}`));
  const spec = { label: `Weights of direction ${rank(d)}`, series: [{ name: "weight", style: "s1", values: d.bars }] };
  if (names.length <= 40) rows(host, width, { ...spec, names });
  else columns(host, width, { ...spec, y: "weight", title: (i) => names[i] });
}

function face(audit, many) {
  const holder = el("article", { class: "face" });
  const images = el("div", { class: "images" });
  const values = Object.fromEntries(FIELDS.map(([key]) => [key, el("dd", { "data-field": key })]));
  const facts = el("dl", { class: "pairs" }, ...FIELDS.flatMap(([key, name]) => [el("dt", {}, name), values[key]]));
  const note = el("p", { class: "small" });
  const place = el("p", { class: "small" });
  if (many) holder.append(el("h3", {}, String(audit.model)), place);
  holder.append(images, el("div", {}, facts, note));
  const plotted = el("div", { class: "plot" });
  let current = null;
  const show = (i) => {
    const d = list(audit.directions)[i];
    for (const [key, , format] of FIELDS) values[key].textContent = format(at(d, key));
    place.textContent = d ? `rank ${rank(d)}, ${d.group}` : "no direction here";
    const block = list(at(d, "block"));
    note.textContent = block[1] - block[0] > 1 // [start, stop), from zero
      ? `Ranks ${block[0] + 1} to ${block[1]} share one eigenvalue: only the space they span is defined; ` +
        "this is one vector of it." : "";
    if (d && Array.isArray(d.bars)) {
      current = d;
      holder.classList.add("flat");
      if (plotted.isConnected) return bars(plotted, widthOf(plotted), audit, d);
      images.replaceChildren(plotted);
      return drawn(plotted, (host, width) => bars(host, width, audit, current));
    }
    const shown = [["picture", "in pixels"], ["fourier", "in Fourier space"]].map(([key, where]) => {
      const image = picture(at(d, key), `Direction ${rank(d)} ${where}`);
      const content = image || el("span", { class: "none" }, "no picture");
      return el("figure", { "data-kind": key }, content, el("figcaption", {}, where));
    });
    return images.replaceChildren(...shown);
  };
  return [holder, show];
}

function viewer(audits) {
  const root = document.querySelector("[data-viewer]");
  if (!root) return;
  const slider = root.querySelector("input");
  const output = root.querySelector("output");
  const longest = audits.reduce((a, b) => (list(b.directions).length > list(a.directions).length ? b : a));
  const directions = list(longest.directions);
  const faces = audits.map((audit) => face(audit, audits.length > 1));
  root.querySelector(".faces").append(...faces.map(([holder]) => holder));
  const thumbs = [];
  const go = (i) => {
    slider.value = String(i);
    const d = directions[i];
    const words = `${rank(d)} of ${at(longest, "geometry", "d") ?? directions.length}`;
    output.textContent = `${words} · ${d.group}`;
    slider.setAttribute("aria-valuetext", `rank ${words}, ${d.group}, eigenvalue ${number(d.eigenvalue)}`);
    for (const [, show] of faces) show(i);
    thumbs.forEach((t, k) => (k === i ? t.setAttribute("aria-current", "true") : t.removeAttribute("aria-current")));
    for (const jump of root.querySelectorAll("[data-group]")) {
      jump.classList.toggle("on", jump.dataset.group === d.group);
    }
  };
  slider.addEventListener("input", () => go(Number(slider.value)));
  for (const button of root.querySelectorAll("[data-step]")) {
    button.addEventListener("click", () => {
      const next = Number(slider.value) + Number(button.dataset.step);
      go(Math.max(0, Math.min(directions.length - 1, next)));
    });
  }
  for (const [group, name] of Object.entries(GROUPS)) {
    const first = directions.findIndex((d) => d.group === group);
    if (first < 0) continue;
    const jump = el("button", { type: "button", class: "quiet", "data-group": group }, name);
    jump.addEventListener("click", () => go(first));
    root.querySelector(".jumps").append(jump);
  }
  const gallery = document.querySelector("[data-gallery]");
  if (gallery) {
    for (const [group, name] of Object.entries(GROUPS)) {
      const strip = el("div", { class: "strip" });
      directions.forEach((d, i) => {
        if (d.group !== group) return;
        const thumb = el("button", { type: "button", "aria-label": `Direction ${rank(d)}` });
        thumb.append(picture(d.picture, "") || "", el("span", {}, String(rank(d))));
        thumb.addEventListener("click", () => go(i));
        thumbs[i] = thumb;
        strip.append(thumb);
      });
      if (strip.childElementCount) gallery.append(el("h3", {}, name), strip);
    }
  }
  go(0);
}
