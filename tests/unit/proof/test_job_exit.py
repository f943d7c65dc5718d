"""A job that says sys.exit(): its proof must not end with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from twice.errors import UserCodeError
from twice.proof.jobs.job import call_job


def test_a_job_that_exits_has_failed_and_does_not_end_the_process_of_the_proof() -> None:
    def leaving(session: Any, where: Path) -> None:
        sys.exit(0)

    with pytest.raises(UserCodeError, match=r"the job raised SystemExit: 0\. Your tables are unchanged.*sys\.exit"):
        call_job(leaving, None, Path("nowhere"))  # type: ignore[arg-type]
