"""Tiers: `-m plain` imports no file of another tier (so no torch), and GPU tests are skipped where there is no GPU.

Examples of hypothesis are the same in every run, need no database and have no deadline: the gate depends on no luck and
on no other load. `--hypothesis-profile random` draws others (`benchmarks.random_properties`), whose finds become
explicit examples. A test that leaves a mode of torch changed fails, and the next one finds it as it was.
`--shuffle SEED` runs test files, and the tests of each, in another order.
"""

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SLOW = [HealthCheck.too_slow]
settings.register_profile("gate", derandomize=True, database=None, deadline=None, suppress_health_check=SLOW)
settings.register_profile("random", database=None, deadline=None, suppress_health_check=SLOW, max_examples=1000)
settings.load_profile("gate")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --shuffle."""
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in an order drawn from this seed")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of other tiers unread when only the plain tier is asked for."""
    if config.option.markexpr == "plain" and collection_path.name.startswith("test_"):
        return "pytest.mark.plain" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Shuffle the tests where that is asked for; skip GPU tests on a machine without one."""
    seed = config.getoption("shuffle")
    if seed is not None:
        drawn = random.Random(seed)
        places = {path: drawn.random() for path in dict.fromkeys(str(item.path) for item in items)}
        items.sort(key=lambda item: (places[str(item.path)], drawn.random()))
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="no GPU"))


@pytest.fixture(autouse=True)
def _modes_are_left_as_they_were() -> Iterator[None]:
    """Fail a test that leaves a mode of torch changed (gradients, autocast, default dtype ...), and put it back.

    Random numbers are put back without a word: what a test draws depends on no test before it.
    """
    if "torch" not in sys.modules:
        yield
        return
    from extract.isolation import Kept, put_back
    from extract.torch_state import MODES

    before = [Kept(row=row, value=row.read()) for row in MODES]
    yield
    changed = [kept.row.what for kept in put_back(before)]
    assert not [what for what in changed if what != "random numbers of torch"], f"the test left {changed} changed"
