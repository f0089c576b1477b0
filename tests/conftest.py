"""Tiers: `-m plain` imports no file of another tier (so no torch), and GPU tests are skipped where there is no GPU.

Examples of hypothesis have no deadline: machines are shared.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("passnet", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("passnet")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files of other tiers unread when only the plain tier is asked for."""
    if config.option.markexpr == "plain" and collection_path.name.startswith("test_"):
        return "pytest.mark.plain" not in collection_path.read_text(encoding="utf-8") or None
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip GPU tests on a machine without one."""
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    if not wanted:
        return
    import torch

    if not torch.cuda.is_available():
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason="no GPU"))
