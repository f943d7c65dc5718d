"""The words people use for columns, tables and variables, and what those words show about their purpose."""

from __future__ import annotations

import re

_KEY = re.compile(
    r"(^|_)(effective|valid|eff|scd|version|snapshot|batch|partition|part|run|business|report|as_?of|event|order|"
    r"start_date|end_date|expir\w*|from|to|since|until|day|month|year|hour|week|dt|ds|key|sk|id|hash|surrogate|"
    r"current_date|date|period|seq\w*)(_|$)",
    re.IGNORECASE,
)
_SURE_AUDIT = re.compile(
    r"(etl|load|insert|ingest|process|creat|updat|modif|extract|fetch|sync|audit|import|crawl|scrap|refresh|written|"
    r"download|generated|_at$|dwh?_|meta)",
    re.IGNORECASE,
)
_MARK = re.compile(
    r"watermark|high_?water|hwm|bookmark|checkpoint|last_?(run|load|sync|processed|extract|id|update|value|success|"
    r"ingest|fetch|offset|seen|pull|execution|date|timestamp)|offset_?(table|store)|etl_?(state|control|config)|"
    r"control_?table|load_?control|job_?state|sync_?state|cursor_?(state|value|file)|state_?(file|path|key|store)|since_?id|newest_?id|(^|/)state\.json|pipeline_?state|max_?(ts|id)_?loaded",
    re.IGNORECASE,
)
_PROCESS = (
    r"(etl|elt|load|job|run|task|dag|pipeline|batch|process|processing|execution|import|export|ingest|ingestion|sync|"
    r"migration|audit|dq|quality|validation|step|workflow|refresh|warehouse|dwh)"
)
# A table of logs or metrics is as often the data itself; only one about the pipeline's own work is a log here.
_LOG = re.compile(
    rf"(^|[._\"`]){_PROCESS}s?(_\w+)?_?(logs?|history|audits?|metrics?|runs?|errors?|status|stats)$"
    r"|^logs?$|(^|[._\"`])(audits?|audit_\w+|\w+_audit|dead_?letters?|dlq|quality_results?|dq_\w+|run_?history|error_log\w*)$"
    r"|(^|[.\"`])(etl|ops|audit|monitoring|meta|metadata|control|admin)\.\w*(log|run|audit|metric|error|history)\w*$",
    re.IGNORECASE,
)
_TEMPORARY = re.compile(
    r"^(#|@|tmp|temp)|(^|[._/])(tmp|temp|scratch)([._/]|$)|_(tmp|temp)$|^(tempdb|pg_temp)\.|/tmp/|\btemp_",
    re.IGNORECASE,
)
_STAGING = re.compile(
    r"(^|[._/])(stg|stage|staging|landing|raw_stage|work|wrk)([._/0-9]|$)|_(stg|stage|staging)$", re.IGNORECASE
)
_RUN = re.compile(
    r"\{(\w*_)?(ds|ds_nodash|ts|ts_nodash|execution_date|logical_date|data_interval_\w+|run_id|run_date|runid|dag_run\w*|"
    r"batch_id|job_id|load_id|process_date|processing_date|business_date|partition_date|target_date|date|date_str|dt|day|"
    r"yesterday_ds\w*|tomorrow_ds\w*|prev_ds\w*|next_ds\w*|epoch_id|year|month|hour|as_of_date|report_date|date_id|"
    r"execution_ts|start_date|end_date|snapshot_date|macros_\w+|data_date|etl_date|load_date|uuid\w*|timestamp)\w*\}",
    re.IGNORECASE,
)
_ATTEMPT = re.compile(
    r"\{\w*(run_?id|dag_run|batch_?id|job_id|load_id|epoch_id|uuid|ts_nodash|timestamp|execution_ts)\w*\}|\{ts\}",
    re.IGNORECASE,
)
_COUNTER = re.compile(
    r"retry|retries|attempt|hits?$|views?$|version|visits?|tries|fail(ure)?s?_?count|error_?count|seq", re.IGNORECASE
)
_DATE_ARGUMENT = re.compile(
    r"^(ds|ds_nodash|execution_date|logical_date|data_interval_\w+|run_date|process(ing)?_date|business_date|"
    r"partition_date|target_date|date|dt|day|start_date|end_date|date_str|report_date|load_date|snapshot_date|as_of_date|"
    r"run_day|as_of|since|until|start|end|etl_date|data_date|batch_date|date_from|date_to|from_date|to_date)$",
    re.IGNORECASE,
)


def is_audit_column(name: str) -> bool:
    """A column that only notes when the row was written; nobody joins, orders or partitions by it."""
    return not name or bool(_SURE_AUDIT.search(name)) or not _KEY.search(name)


def is_mark(name: str) -> bool:
    return bool(_MARK.search(name))


def is_log(name: str) -> bool:
    return bool(_LOG.search(name))


def is_temporary(name: str) -> bool:
    return bool(_TEMPORARY.search(name))


def is_staging(name: str) -> bool:
    return bool(_STAGING.search(name))


def names_the_run(name: str) -> bool:
    """A path or table name that holds the run's date or id."""
    return bool(_RUN.search(name))


def names_an_attempt(name: str) -> bool:
    """A name that only this run has. A date is none: the same day run again has the same name."""
    return bool(_ATTEMPT.search(name))


def is_counter(name: str) -> bool:
    return bool(_COUNTER.search(name))


def is_date_argument(name: str) -> bool:
    return bool(_DATE_ARGUMENT.match(name))


def table_name(text: str) -> str:
    """A table's name as it is compared: lower case, no quotes."""
    return re.sub(r"[\"'`\[\]]", "", text).strip().lower()


def same_table(one: str, other: str) -> bool:
    """Whether two names may mean one table; a missing schema is no difference, an unknown name is."""
    if not one or not other:
        return False
    if one == other:
        return one != "{}"
    short, long = sorted((one.split("."), other.split(".")), key=len)
    return len(short) < len(long) and long[-len(short) :] == short
