"""What gives another result on the next run, by Catalyst class, with the reason and the shortest remedy.

By class, because Spark's own flag is not enough: `first`, `collect_list` and `current_timestamp` are
"deterministic" in an analysed plan (Spark 4.1). What only the flag knows is `nondeterministic`.

Left out on purpose, unless a proof has seen a difference and looks for its cause (`thorough`):
- `sum` and `avg` of DOUBLE: they differ in the last bits with the order of addition. Half of all pipelines have
  one, so an error would be noise; `twice prove` finds those where it shows.
- ties in `max_by`, `min_by` and in an ORDER BY (windows, `limit`): an order is there, and whether it is total is a
  matter of the data, not of the plan.
Left out always:
- `approx_percentile`: exact up to its accuracy; beyond that, as for sums.
- `repartition(n, rand())`: it moves rows, it changes none.
"""

from __future__ import annotations

from dataclasses import dataclass

WORDS = {
    "Rand": "rand",
    "Randn": "randn",
    "Uniform": "uniform",
    "RandStr": "randstr",
    "Uuid": "uuid",
    "Shuffle": "shuffle",
    "MonotonicallyIncreasingID": "monotonically_increasing_id",
    "SparkPartitionID": "spark_partition_id",
    "CurrentTimestamp": "current_timestamp",
    "Now": "current_timestamp",
    "CurrentBatchTimestamp": "current_timestamp",
    "LocalTimestamp": "localtimestamp",
    "CurrentDate": "current_date",
    "CurrentTime": "current_time",
    "CurrentUser": "current_user",
    "InputFileName": "input_file_name",
    "InputFileBlockStart": "input_file_name",
    "InputFileBlockLength": "input_file_name",
}
"""Expressions that differ wherever they are."""

ORDER_WORDS = {
    "First": "first",
    "Last": "last",
    "AnyValue": "any_value",
    "CollectList": "collect_list",
    "CollectSet": "collect_set",
    "ListAgg": "listagg",
    "Mode": "mode",
    "RowNumber": "row_number",
    "NTile": "ntile",
    "Lag": "lag",
    "Lead": "lead",
    "NthValue": "nth_value",
}
"""Functions that depend on the order of rows, which is given only inside a window with an ORDER BY."""

DOUBLES, BY = "sum of doubles", "ties"
ADDING = frozenset(
    {"Sum", "Average", "StddevSamp", "StddevPop", "VarianceSamp", "VariancePop", "Corr", "CovSample", "CovPopulation"}
)
"""Of floating-point numbers, they differ in the last bits with the order of addition."""
CHOOSING = frozenset({"MaxBy", "MinBy"})
"""Of rows with equal order they take any."""

LISTS = frozenset({"collect_list", "collect_set"})
"""Their elements are certain; only the order is not."""

LIMIT, SAMPLE, DROP_DUPLICATES, UDF, METADATA = "limit", "sample", "drop_duplicates", "udf", "_metadata"
NONDETERMINISTIC = "nondeterministic"


PLAN_WORDS = ("GlobalLimit", "Offset", "Tail", "Sample", "Deduplicate", "_metadata#", "string_agg(")
"""What else a plan's text shows if it holds a suspect; the others show their own name as a call."""


@dataclass(frozen=True)
class Reason:
    why: str
    fix: str


_CLOCK = Reason("it is the time of the run, so a rerun gives another value", "Use the slice's date (run.slice, :ds).")
_RANDOM = Reason("it draws other values on each run", "Derive the value from the row's key, e.g. surrogate_key(…).")
_PLACE = Reason(
    "it numbers rows by where they are stored, which is elsewhere on the next run",
    "Use surrogate_key(…), or row_number() over an ORDER BY of the row's key.",
)
_PICK = Reason(
    "it takes whichever row comes first, and rows come in any order",
    "Use min_by/max_by with a column that decides, or a window with an ORDER BY.",
)
_LIST = Reason("its elements come in any order", "Wrap it: sort_array(collect_list(…)).")
_WINDOW = Reason(
    "its window has no ORDER BY that decides between rows, and they come in any order",
    "Order the window by columns that decide, e.g. the row's key.",
)
_FILE = Reason("it names files, and the same rows may be in other files next time", "Use a column of the data.")

REASONS = {
    **dict.fromkeys(("rand", "randn", "uniform", "randstr", "uuid"), _RANDOM),
    **dict.fromkeys(("current_timestamp", "localtimestamp", "current_date", "current_time"), _CLOCK),
    **dict.fromkeys(("monotonically_increasing_id", "spark_partition_id"), _PLACE),
    **dict.fromkeys(("first", "last", "any_value"), _PICK),
    **dict.fromkeys(("collect_list", "collect_set"), _LIST),
    **dict.fromkeys(("row_number", "ntile", "lag", "lead", "nth_value"), _WINDOW),
    **dict.fromkeys(("input_file_name", METADATA), _FILE),
    "shuffle": Reason("it shuffles the elements again on each run", "Sort them: sort_array(…)."),
    "current_user": Reason("it is whoever runs the task", "Write the name as a constant."),
    "listagg": Reason("it joins values in any order", "Add WITHIN GROUP (ORDER BY …)."),
    "mode": Reason("among equally frequent values it takes any", "Use mode(…, deterministic=True)."),
    LIMIT: Reason("without an ORDER BY it keeps any rows", "Put an orderBy of columns that decide before it."),
    SAMPLE: Reason("which rows it keeps depends on how they are split", "Filter by a hash of the row's key."),
    DROP_DUPLICATES: Reason(
        "of rows with the same key it keeps any one",
        "Keep row_number() = 1 over a window ordered by columns that decide.",
    ),
    DOUBLES: Reason(
        "floating-point numbers give another sum when they are added in another order",
        "Use decimals: sum(cast(amount AS decimal(18,2))), or round the result.",
    ),
    BY: Reason(
        "rows with equal values in its order come in any order, and it takes whichever is first",
        "Order by more columns, until no two rows are equal: the row's key last.",
    ),
    UDF: Reason("the function is declared non-deterministic", "Make it a function of its arguments only."),
    NONDETERMINISTIC: Reason("Spark marks an expression in it as non-deterministic", "Replace it."),
}
