"""Everything a long computation needs that has nothing to do with networks.

Independent work is cut into units. A unit is a plain JSON configuration, its outcome is numbers and tensors, and units
can be repeated: an engine may run them anywhere, in any order, and again after a failure, with bit-identical results.

    units, answers, backlog            what goes to a worker, what comes back, what is waiting, lost or late
    local, processes, on_ray, on_slurm the engines; engine_kinds, engines their table; engine_in_use the current one
    streams                            members of an ensemble through an engine, several to a unit
    run_folder, runners, cost          one file per finished unit; time, memory and disk before they are spent
    files, packed                      written whole or not at all; tensors with a checked header
    errors, arguments, samples         sentences about what is wrong, with arguments and with data
    devices, memory, threads, randomness, environment, progress, versions
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
