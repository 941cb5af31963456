"""The examination's assertions say what they compared, as a test's do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("crash.examination", "crash.story", "crash.adoption_story", "crash.commit_story")
