"""Tiers: `-m plain` imports no file of another tier (so no torch), and GPU tests are skipped where there is no GPU."""

from pathlib import Path

import pytest


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
