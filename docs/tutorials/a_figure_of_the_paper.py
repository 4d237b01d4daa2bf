# %% [markdown]
# # A figure of the paper in ten minutes
# Every figure and table of the three papers is an experiment with a name. Each runs at three scales: `smoke` takes seconds and shows the
# steps, `laptop` takes minutes and gives verdicts, `paper` needs a GPU. Here is figure 9, the average geometries of four networks as
# matrices, at the smallest scale.

# %%
import tempfile
from pathlib import Path

from netgrain.experiments import run_experiment

folder = Path(tempfile.mkdtemp()) / "fig9"
finished = run_experiment("fig9", "smoke", folder, progress=False)
sorted(p.name for p in folder.iterdir())

# %% [markdown]
# The folder holds the picture, the claims with their verdicts, and one file for each finished piece of work, so that a run that was stopped
# can resume. On the command line, `netgrain run fig9 --scale laptop` takes minutes.

# %%
from IPython.display import Image

Image(folder / "figure.png", width=600)
