"""Files of targets that others may have written."""

import pytest

from jaxobs.model.addresses import MAX_BYTES, read_targets


@pytest.mark.parametrize(
    ("content", "says"), [(b"[" * MAX_BYTES, "nested too deeply"), (b"{", "Expecting"), (b"\xff", "decode")]
)
def test_what_is_no_json_is_a_value_error(content: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        list(read_targets(content))
