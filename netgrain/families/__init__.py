"""One reading of any module: members, outputs, gradients, probes, its trace and its initialisation."""
