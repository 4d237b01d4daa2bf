"""Settings of every experiment at every scale, and where they come from: writes docs/settings.md (`make pages`).

The numbers are the presets themselves. docs/settings.toml says for each setting of the paper scale whether the source's
text gives it, the authors' code, or neither; the script refuses notes on settings that do not exist.
"""

from __future__ import annotations

import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import Any

from netgrain.experiments.contract import SCALES, Experiment
from netgrain.experiments.registry import everything, names, own_studies, studies

DOCS = Path(__file__).parent


def page() -> str:
    notes = tomllib.loads((DOCS / "settings.toml").read_text(encoding="utf-8"))
    every = everything()
    unknown = set(notes) - set(every) - {"opening", "shared"}
    if unknown:
        raise SystemExit(f"docs/settings.toml speaks of experiments that do not exist: {', '.join(sorted(unknown))}")
    blocks = ["# Settings, and where they come from", notes["opening"].strip(), notes["shared"].strip()]
    for study, title in studies().items():
        if study in own_studies():  # its settings follow no source
            continue
        blocks.append(f"## {title}")
        blocks += [_experiment(every[name], notes.get(name, {})) for name in names() if every[name].study == study]
    return "\n\n".join(blocks) + "\n"


def _experiment(experiment: Experiment, notes: dict[str, str]) -> str:
    """One table: a row for each setting that differs between scales, or of which there is something to say."""
    presets = {scale: asdict(experiment.PRESETS[scale]) for scale in SCALES}
    fields = list(presets["paper"])
    strays = set(notes) - set(fields) - {"note"}
    if strays:
        raise SystemExit(f"{experiment.name} has no setting {', '.join(sorted(strays))}")
    rows = []
    for field in fields:
        values = {scale: preset.get(field) for scale, preset in presets.items()}
        if field in notes or any(value != values["paper"] for value in values.values()):
            told = [_written(values[scale]) for scale in ("paper", "laptop", "smoke")]
            rows.append(f"| {field} | {' | '.join(told)} | {notes.get(field, '')} |")
    table = ["| setting | paper | laptop | smoke | remark |", "| --- | --- | --- | --- | --- |", *rows]
    lines = [f"### `{experiment.name}`: {experiment.title}", *([notes["note"]] if "note" in notes else [])]
    return "\n\n".join([*lines, "\n".join(table)] if rows else [*lines, "The same at every scale."])


def _written(value: Any) -> str:
    if isinstance(value, dict):
        if len({repr(v) for v in value.values()}) == 1 and len(value) > 1:
            return f"{_written(next(iter(value.values())))} (each)"
        return ", ".join(f"{k}: {_written(v)}" for k, v in value.items()) or "–"
    if isinstance(value, list | tuple):
        if len(value) > 12:
            return f"{_written(value[0])} … {_written(value[-1])} ({len(value)})"
        return ", ".join(map(_written, value))
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "\\|")


if __name__ == "__main__":
    (DOCS / "settings.md").write_text(page(), encoding="utf-8")
