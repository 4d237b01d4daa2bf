"""One thread per test process, since two with two threads each fight over two cores; slow tests are marked."""

import gc
from collections.abc import Iterator

import pytest

from netgrain.runtime.threads import one_thread_for_good

one_thread_for_good()

# tests of more than four seconds of one core: `make test` leaves them to `make test-more`
SLOW = {
    "tests/auditing/test_planted.py": (
        "test_the_verdict_turns_with_the_place_of_the_labels",
        "test_shuffled_labels_are_nothing_to_learn_also_with_a_short_training",
        "test_a_mark_anywhere_is_predicted_with_a_short_training",
    ),
    "tests/end_to_end/test_help_examples.py": ("test_every_example_runs",),
    "tests/auditing/sections/test_changes.py": ("test_the_catalogue_is_tried_and_a_clear_gain_raises_an_alert",),
    "tests/auditing/sections/test_labels.py": ("test_labels_planted_at_the_top_and_at_the_bottom",),
    "tests/auditing/sections/test_scales.py": (
        *("test_labels_in_stripes_that_networks_lose", "test_shares_within_their_errors_are_not_shown"),
    ),
    "tests/auditing/test_axes.py": ("test_a_large_geometry_has_its_leading_directions_only",),
    "tests/cli/test_audit.py": ("test_every_example_of_the_help_runs",),
    "tests/cli/test_geometry.py": ("test_real_process_interrupted_by_the_keyboard",),
    "tests/end_to_end/test_demo.py": ("test_small_demo_writes_everything",),
    "tests/end_to_end/test_examples.py": ("test_example",),
    "tests/end_to_end/test_notebook.py": (
        *("test_a_picture_is_shown_once", "test_a_result_is_a_table", "test_nothing_is_warned_about"),
    ),
    "tests/end_to_end/test_random_modules.py": (
        "test_more_random_modules",
        "test_norms_over_groups_of_two_and_three_channels",
    ),
    "tests/experiments/learnability/test_pretrained.py": ("test_units_of_a_run",),
    "tests/experiments/test_contract.py": tuple(
        f"test_contract[{name}]"
        for name in (
            *("fig1", "fig2", "fig3", "fig4", "fig8", "fig9", "fig10", "fig12", "fig14", "probes", "pretrained"),
            *("eq-d8-columns", "eq-d8-gaussians", "eq-ordering"),
        )
    ),
    "tests/experiments/test_registry.py": ("test_paper_settings_run_from_start_to_end",),
    "tests/experiments/test_reproduction.py": ("test_killed_at_random_moments_and_resumed_gives_the_same_scorecard",),
    "tests/geometry/test_closed.py": (
        *("test_batch_norm_with_data_statistics", "test_layer_norm_has_no_origin_but_a_wide_limit"),
        *("test_residual_relu_observes_members", "test_relu_with_gaussian_probes"),
    ),
    "tests/models/test_specs.py": ("test_family_works_in_a_spawned_process",),
    "tests/runtime/test_on_slurm.py": ("test_slurm_in_its_local_mode",),
    "tests/geometry/test_stem_bias.py": ("test_against_plain_and_integrated_samples",),
}


@pytest.hookimpl(hookwrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """What is imported and collected stays until the end: looking through it for garbage is a fifth of collecting."""
    gc.disable()
    yield
    gc.enable()
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share the Ray cluster are in its xdist group; they and slow ones are run by `make test-more`."""
    for item in items:
        if any("ray" in group.args for group in item.iter_markers("xdist_group")):
            item.add_marker(pytest.mark.ray)
        file, _, test = item.nodeid.partition("::")
        if {test, test.partition("[")[0]} & set(SLOW.get(file, ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True, scope="session")
def no_catalogue() -> Iterator[None]:
    """Audits try no changes unless a test asks for them: it is most of their time."""
    from netgrain.auditing.sections import changes

    changes.TRIED, before = False, changes.TRIED
    yield
    changes.TRIED = before
