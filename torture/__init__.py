"""Everything that can go wrong during a run, done on purpose: nothing may be lost, and no number may change.

python -m torture [--only NAME ...] [--minutes 20] [--out out/torture]

parts.py       what a part finds: facts, and what was lost
subject.py     the runs that are disturbed, as programs of their own
comparison.py  a disturbed run against one that was left alone
system.py      processes, network namespaces and small disks
kills.py, disk.py, clock.py, files.py, ray_worker.py, ray_host.py, fuzz.py, large.py   the parts
"""
