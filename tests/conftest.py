"""One thread per test process: two processes with two threads each fight over two cores. What needs Ray is marked."""

import pytest

from netgrain.runtime.threads import one_thread_for_good

one_thread_for_good()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share the Ray cluster are in its xdist group; `make test` leaves them to `make test-more`."""
    for item in items:
        if any("ray" in group.args for group in item.iter_markers("xdist_group")):
            item.add_marker(pytest.mark.ray)
