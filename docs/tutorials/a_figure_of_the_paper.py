# %% [markdown]
# # A figure of the paper in a minute
# Every figure and table of the three papers is an experiment with a name. Each has three scales; `smoke` takes seconds and shows the
# mechanics, `laptop` gives verdicts.

# %%
import tempfile
from pathlib import Path

from netgrain.experiments import run_experiment

folder = Path(tempfile.mkdtemp()) / "fig9"
finished = run_experiment("fig9", "smoke", folder, progress=False)
sorted(p.name for p in folder.iterdir())

# %% [markdown]
# The folder holds the picture, the claims with their verdicts, and one file for each finished unit, so that a run that was stopped
# resumes. On the command line: `netgrain run fig9 --scale laptop`.

# %%
from IPython.display import Image

Image(folder / "figure.png", width=600)
