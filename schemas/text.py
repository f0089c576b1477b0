"""A long text as a type of its own: `large_string` in Arrow.

Is: `Text`; import it from `schemas.rows`. Reads and writes nothing.
"""

from typing import NewType

Text = NewType("Text", str)
"""A long text."""
