"""pytest rewrites the examination's assertions, so that they show the compared values."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("crash.examination", "crash.story", "crash.adoption_story", "crash.commit_story")
