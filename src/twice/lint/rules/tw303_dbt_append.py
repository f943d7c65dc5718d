from __future__ import annotations

from collections.abc import Iterator

from twice.lint.file_facts import FileFacts, ProjectFacts
from twice.lint.finding import Finding
from twice.lint.rules.rule import Case, Rule

_REPLACING = ("insert_overwrite", "microbatch", "delete+insert", "merge", "replace_where")


class DbtAppend(Rule):
    """A dbt incremental model with no unique key: each run appends.

    What it does
        Finds models materialized as `incremental` with no `unique_key` and the default or `append`
        strategy, wherever that is configured, and models with a `unique_key` that `append` ignores.

    Why it breaks a re-run
        Without a key dbt only inserts. A job that is killed after the insert and run again, or a filter
        that lets equal timestamps through, stores rows twice, and the exit code is 0.

    When it is fine
        `insert_overwrite` and `microbatch` replace what they write. A model that leaves out the rows it
        already has (`not exists` on `{{ this }}`) is not reported, nor is a table of ClickHouse's
        ReplacingMergeTree, which keeps one row of each key.
    """

    code = "TW303"
    name = "dbt-append"
    severity = "error"
    BAD = (
        Case(
            "{{ config(materialized='incremental') }}\nselect * from {{ ref('events') }}\n"
            "{% if is_incremental() %}\nwhere ts >= (select max(ts) from {{ this }})\n{% endif %}\n",
            "models/events.sql",
        ),
        Case(
            "{{ config(materialized='incremental', incremental_strategy='append', unique_key='id') }}\n"
            "select * from {{ ref('visits') }}\n"
            "{% if is_incremental() %}\nwhere seen_at >= (select max(seen_at) from {{ this }})\n{% endif %}\n",
            "models/visits.sql",
        ),
    )
    GOOD = (
        Case(
            "{{ config(materialized='incremental', incremental_strategy='append', "
            "engine='ReplacingMergeTree(version)', order_by='(id)') }}\n"
            "select * from {{ ref('visits') }}\n"
            "{% if is_incremental() %}\nwhere seen_at >= (select max(seen_at) from {{ this }})\n{% endif %}\n",
            "models/visits.sql",
        ),
        Case(
            "{{ config(materialized='incremental', unique_key='event_id') }}\n"
            "select * from {{ ref('events') }}\n"
            "{% if is_incremental() %}\n"
            "where ts >= (select max(ts) from {{ this }})\n"
            "{% endif %}\n",
            "models/events.sql",
        ),
        Case(
            "{{ config(materialized='incremental', incremental_strategy='insert_overwrite', "
            "partition_by={'field': 'day'}) }}\n"
            "select * from {{ ref('events') }}\n"
            "{% if is_incremental() %}\n"
            "where day = '{{ var(\"day\") }}'\n"
            "{% endif %}\n",
            "models/events.sql",
        ),
    )

    def check(self, file: FileFacts, _: ProjectFacts, /) -> Iterator[Finding]:
        for model in file.models:
            if model.materialized != "incremental" or model.anti_join or model.engine_replaces:
                continue
            if model.unique_key and model.strategy != "append":
                continue
            if model.strategy in _REPLACING and model.strategy not in ("merge", "delete+insert"):
                continue
            how = f"strategy `{model.strategy}` without unique_key" if model.strategy else "no unique_key"
            if model.unique_key:
                how = "strategy `append`, which does not look at its unique_key"
            yield self.finding(
                file,
                model.span,
                f"`{model.name}` is incremental with {how}: dbt only inserts. A run killed "
                "after its insert and "
                "started again stores the same rows twice and exits 0.",
                "Give a unique_key (and keep it unique in the model), or use insert_overwrite or microbatch.",
                declaration=f'sql_task("{model.name}.sql", scope=Daily(…), write=replace())',
            )
