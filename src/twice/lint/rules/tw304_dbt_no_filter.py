from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule


class DbtNoFilter(Rule):
    """An incremental dbt model reads everything on each run.

    What it does
        Finds incremental models without an is_incremental() block, except microbatch and insert_overwrite.

    Why it breaks a re-run
        Each run inserts the whole history again; with a unique_key it is merged again, at the full price.

    When it is fine
        A filter inside a macro: then it is a warning.
    """

    code = "TW304"
    name = "dbt-no-filter"
    severity = "error"
    preview = True
    BAD = (
        Case(
            "{{ config(materialized='incremental') }}\nselect * from {{ ref('events') }}\n",
            "models/events.sql",
        ),
    )
    GOOD = (
        Case(
            "{{ config(materialized='incremental', unique_key='id') }}\nselect * from "
            "{{ ref('events') }}\n{% if is_incremental() %}\nwhere ts > 1\n{% endif %}\n",
            "models/events.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for model in file.models:
            if model.materialized != "incremental" or model.incremental_filter or model.anti_join:
                continue
            if model.strategy in ("microbatch", "insert_overwrite"):
                continue
            uncertain = model.filter_in_macro or bool(model.unique_key) or model.engine_replaces
            yield self.finding(
                file,
                model.span,
                f"`{model.name}` is incremental and has no is_incremental() filter: each run works on all rows again.",
                "Filter to the new slice under is_incremental(), or materialize as a table.",
                severity="warning" if uncertain else "error",
            )
