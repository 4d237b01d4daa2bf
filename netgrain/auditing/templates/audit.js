// The plots of one audit.
const spectrum = report.spectrum;
const ranks = list(at(spectrum, "index")).map((i) => i + 1);
const leading = at(report, "leading", "count");
const spectral = {
  x: "rank of the direction (log)", y: "relative to the mean (log)", at: ranks, logx: true, logy: true,
  title: (i) => `Rank ${ranks[i]}`, mark: { at: leading, text: "leading" },
};
const has = (values) => list(values).some(isNumber);
const directions = list(report.directions).filter((d) => isNumber(d.index));

const compact = () => document.documentElement.clientWidth < 760;

const plots = {
  curve: (host, width) => {
    const points = list(at(report, "expected", "points"));
    const classes = at(report, "expected", "measure") === "accuracy";
    const name = classes ? "accuracy" : "variance explained";
    const values = points.map((p) => centre(p.score));
    const series = [{
      name, style: "s1", values, errors: points.map((p) => spread(p.score)), dots: true, band: true,
      open: points.map((p) => !p.measured),
    }];
    const alone = (label, style, samples, score) => {
      const place = points.findIndex((p) => p.samples === samples);
      if (!isNumber(centre(score)) || place < 0) return;
      const only = (v) => points.map((_, i) => (i === place ? v : null));
      series.push({ name: label, style, values: only(centre(score)), errors: only(spread(score)), dots: true, loose: true });
    };
    const measured = at(report, "expected", "settings", "samples");
    if (at(report, "expected", "warning")) {
      series[0].name = `${name} without learnt features`;
      alone("with a short training", "s3", measured, at(report, "expected", "combined"));
    }
    const reached = at(report, "checkpoint", "test"); // on new samples only: the curve is about those
    alone("this network, new samples", "s4", at(report, "checkpoint", "expected", "samples"), reached);
    const chance = at(report, "expected", "chance");
    lines(host, width, {
      label: `Expected ${name} by number of samples`, x: "samples (log)", y: name, logx: true, top: 1,
      at: points.map((p) => p.samples), series, show: percent, percents: true, height: compact() ? 172 : 236,
      level: { at: chance, text: classes ? `guessing ${percent(chance)}` : "guessing the mean" },
      title: (i) => `${points[i].samples} samples, ${points[i].measured ? "measured" : "forecast"}`,
    });
  },
  bands: (host, width) => bandsOf(host, width, report.scales, report.checkpoint),
  spectrum: (host, width) => {
    const curves = [
      { name: "this network", style: "s1", values: spectrum.network },
      { name: "no grain", style: "s2", values: spectrum.flat },
      { name: "data, own directions", style: "s3", values: spectrum.data },
      { name: "data along the network's", style: "s4", values: spectrum.data_along },
    ];
    const series = curves.filter((s) => has(s.values));
    lines(host, width, { ...spectral, label: "Spectrum", series });
  },
  linear: (host, width) => {
    const kinds = [["all", "all directions"], ["leading", "leading only"], ["weak", "weak only"]];
    const values = kinds.map(([key]) => at(report, "labels", "linear", key));
    const series = [{ name: "accuracy", style: "s1", values: values.map(centre), errors: values.map(spread) }];
    const rule = { at: at(report, "labels", "linear", "chance"), text: "chance" };
    const names = kinds.map(([, name]) => name);
    rows(host, width, { label: "Accuracy of linear rules", x: "accuracy", names, series, rule, top: 1, show: percent });
  },
  relevance: (host, width) => {
    const pick = (key) => directions.map((d) => (isNumber(d[key]) ? d[key] : null));
    const series = [{ name: "linear", style: "s1", values: pick("label_relevance"), dots: true, loose: true },
      { name: "non-linear", style: "s3", values: pick("nonlinear"), dots: true, loose: true }];
    lines(host, width, {
      label: "Label relevance", x: "rank of the direction (log)", y: "relevance", at: directions.map(rank),
      logx: true, zero: true, series, mark: spectral.mark,
      title: (i) => `Rank ${rank(directions[i])}, ${directions[i].group}`,
    });
  },
  scores: (host, width) => {
    const { edges, counts } = report.samples;
    const total = list(counts[0]).map((_, i) => counts.reduce((sum, row) => sum + (row[i] || 0), 0));
    const series = [{ name: "all classes", style: "s2 soft", values: total }];
    const chosen = document.getElementById("class");
    if (chosen && chosen.value !== "" && counts[chosen.value]) {
      series.push({ name: chosen.selectedOptions[0].textContent, style: "s1", values: counts[chosen.value] });
    }
    const title = (i) => `${number(edges[i])} to ${number(edges[i + 1])}`;
    columns(host, width, { label: "Histogram of scores", x: "score", y: "samples", edges, series, title });
  },
  dropped: (host, width) => {
    const steps = report.features.dropped.filter((s) => isNumber(s.directions));
    const [values, errors] = [steps.map((s) => centre(s.accuracy)), steps.map((s) => spread(s.accuracy))];
    lines(host, width, {
      label: "Accuracy of a linear rule after dropping directions", x: "directions dropped", y: "accuracy",
      at: steps.map((s) => s.directions), show: percent,
      series: [{ name: "accuracy", style: "s1", values, errors, dots: true }],
      title: (i) => `${steps[i].directions} dropped, ${percent(steps[i].variance)} of the variance`,
    });
  },
  named: (host, width) => {
    const named = [...report.features.named].sort((a, b) => b.share - a.share).slice(0, 60);
    const series = [{ name: "share", style: "s1", values: named.map((n) => n.share) }];
    const names = named.map((n) => String(n.name));
    rows(host, width, { label: "Features", x: "share", names, series, show: percent });
  },
  layers: (host, width) => {
    const layers = report.layers;
    const styles = [["strongest", "s1"], ["middle", "s3"], ["weakest", "s4"]];
    rows(host, width, {
      label: "What each layer lets through", x: "relative to a random direction (log)", log: true, base: 1,
      names: layers.map((l) => String(l.name)),
      series: styles.map(([key, style]) => ({ name: `${key} directions`, style, values: layers.map((l) => l[key]) })),
    });
  },
  what_if: (host, width) => {
    const series = [{ name: "as it is", style: "s2", values: list(spectrum.network) }];
    list(report.what_if).filter((w) => has(w.spectrum)).forEach((w, i) => {
      series.push({ name: String(w.change), style: `s${[1, 3, 4, 5, 6][i % 5]}`, values: w.spectrum });
    });
    lines(host, width, { ...spectral, label: "Spectrum before and after", series });
  },
};

for (const host of document.querySelectorAll("[data-plot]")) drawn(host, plots[host.dataset.plot]);
for (const place of document.querySelectorAll("[data-picture]")) {
  const [group, kind, i] = place.dataset.picture.split(",");
  const sample = at(report, "samples", "classes", group, kind, i);
  place.append(picture(at(sample, "picture"), `Sample ${at(sample, "index")}`) || "");
}
const strip = document.querySelector("[data-examples]");
if (strip) {
  const classes = list(at(report, "samples", "classes"));
  const each = classes.length > 4 ? 1 : 2;
  const chosen = classes.flatMap((c) => list(c.best).slice(0, each).map((s) => [s, String(c.name)]));
  // of a checkpoint: the part of each image that it reacts to, drawn over it
  const seen = list(at(report, "checkpoint", "pictures")).filter((p) => p.kind === "class" && p.overlay);
  const images = seen.length > 3 ? seen.map((p) => [{ picture: p.overlay }, String(p.true ?? `#${p.index}`)]) : chosen;
  for (const [sample, name] of images.slice(0, 16)) {
    const image = picture(at(sample, "picture"), name);
    if (image) strip.append(el("figure", {}, image, el("figcaption", {}, name)));
  }
}
const choice = document.getElementById("class");
if (choice) choice.addEventListener("change", redraw);
viewer([report]);
start();
