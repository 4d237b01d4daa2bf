// The plots of a comparison.
const audits = list(report.audits).filter((a) => a);
const measured = audits.filter((a) => list(at(a, "spectrum", "network")).some(isNumber));
const place = document.querySelector('[data-plot="ranking"]');
const places = list(report.ranking);
if (place && places.length) {
  const series = [{ name: "expected", style: "s1", values: places.map((p) => centre(p.score)),
    errors: places.map((p) => spread(p.score)) }];
  const rule = { at: at(audits[0], "expected", "chance"), text: "guessing" };
  drawn(place, (root, width) => rows(root, width, {
    label: "Expected score", x: "expected score", names: places.map((p) => String(p.model)), series, rule, top: 1,
    show: percent, percents: true,
  }));
}
for (const holder of document.querySelectorAll('[data-plot="bands"]')) {
  const scaled = audits.filter((a) => a.scales)[Number(holder.dataset.audit)];
  if (list(at(scaled, "scales", "bands")).length) {
    drawn(holder, (root, width) => bandsOf(root, width, scaled.scales));
  }
}
const host = document.querySelector('[data-plot="spectra"]');
if (measured.length) {
  const ranks = [...new Set(measured.flatMap((a) => list(a.spectrum.index)))].sort((a, b) => a - b);
  const series = measured.map((a, i) => {
    const known = new Map(a.spectrum.index.map((k, j) => [k, a.spectrum.network[j]]));
    const style = `s${[1, 3, 4, 5, 6, 2][i % 6]}`;
    return { name: String(a.model), style, values: ranks.map((k) => known.get(k) ?? null) };
  });
  drawn(host, (place, width) => lines(place, width, {
    label: "Spectra", x: "rank of the direction (log)", y: "relative to the mean (log)", logx: true, logy: true,
    at: ranks.map((k) => k + 1), series, title: (i) => `Rank ${ranks[i] + 1}`,
  }));
} else if (host) {
  host.append(el("p", { class: "none" }, "Spectra: not measured."));
}
if (audits.length) viewer(audits);
start();
