"""A task's function has a recipe only where nothing beside its inputs can change the plan it makes."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from twice import param
from twice.core.task import Task
from twice.engine.code.recipe import recipe

_COUNT = itertools.count()
_HEAD = """
import json, os, time
from pathlib import Path
import pyspark.sql
from pyspark.sql import SparkSession, functions as F
from twice import Daily, param, read, replace, task

HERE = Path(__file__).parent
"""
_CACHED = """
import functools
class Rule:
    @functools.lru_cache
    def read(self):
        return 2
    @property
    def rate(self):
        return self.read()
RULE = Rule()
"""
_PATCHED = """
from pyspark.sql import DataFrame
def with_usd(self):
    return self
DataFrame.with_usd = with_usd
"""
_TASK = """

@task("shop.revenue", scope=Daily("day", start="2026-06-01"), inputs={{"orders": read("shop.orders", by="day")}},
      write=replace())
def revenue(orders{parameters}):
    {body}
"""


def _load(folder: Path, body: str, above: str = "", parameters: str = "") -> Task:
    text = _HEAD + above + _TASK.format(body=body.replace("\n", "\n    "), parameters=parameters)
    path = folder / f"pipeline_{next(_COUNT)}.py"
    path.write_text(text)
    return _module(path).revenue  # type: ignore[no-any-return]


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("above", "parameters", "body"),
    [
        ("", "", 'return orders.groupBy("day").agg(F.sum("amount").alias("amount"))'),
        ("RATE = 1.2", "", 'return orders.withColumn("gross", F.col("amount") * RATE)'),
        ("def rated(frame):\n    return frame.where(F.col('rate') > 1)", "", "return rated(orders)"),
        ("SETTINGS = json.loads('{\"rate\": 2}')", "", 'return orders.withColumn("x", F.lit(SETTINGS["rate"]))'),
        ("", "", 'return orders.groupBy("day").agg(F.count("*").alias("orders"), F.first("id").alias("id"))'),
        ("", "", 'return orders.select(*[F.col(name).cast("string") for name in orders.columns])'),
        ("from twice import surrogate_key", "", 'return orders.withColumn("key", surrogate_key("day", "region"))'),
        ("", ", run", 'return orders.withColumn("of", F.lit(run.slice.label))'),
    ],
)
def test_a_function_of_its_inputs_alone_has_one(tmp_path: Path, above: str, parameters: str, body: str) -> None:
    assert recipe(_load(tmp_path, body, above, parameters)) is not None


@pytest.mark.parametrize(
    ("above", "parameters", "body"),
    [
        ("", "", 'return orders.withColumn("r", F.lit(json.loads((HERE / "rate.json").read_text())["rate"]))'),
        ("", "", 'return orders.withColumn("r", F.lit(json.load(open(HERE / "rate.json"))["rate"]))'),
        ("", "", 'return orders.withColumn("r", F.lit(os.environ["RATE"]))'),
        ("", "", 'return orders.withColumn("r", F.lit(os.getenv("RATE")))'),
        ("", "", 'return orders.withColumn("r", F.lit(time.time()))'),
        ("", "", 'return orders.join(orders.sparkSession.table("rates"), "day")'),
        ("", "", 'return orders.join(getattr(orders, "sparkSession").table("rates"), "day")'),
        ("", "", 'return orders.join(SparkSession.getActiveSession().table("rates"), "day")'),
        ("", "", 'return orders.join(SparkSession.builder.getOrCreate().table("rates"), "day")'),
        ("", "", 'return orders.join(pyspark.sql.SparkSession.getActiveSession().table("rates"), "day")'),
        ("", "", "from pyspark.sql import SparkSession as S\nreturn S.getActiveSession().table('rates')"),
        ("", "", 'return orders.withColumn("r", F.lit(orders.rdd.first()))'),
        ("", ", run", 'return orders.join(run.spark.table("rates"), "day")'),
        ("", ", run", 'return orders.join(run.read("shop.rates"), "day")'),
        ("", ", run", 'return orders.withColumn("r", F.lit((run.root / "rate").read_text()))'),
        ("", "", 'return orders.withColumn("r", F.lit(eval("1")))'),
        ("", "", 'import importlib\nreturn importlib.import_module("rates").add(orders)'),
        ("", "", 'return orders.withColumn("r", F.lit(orders.count()))'),
        ("", "", 'return orders.withColumn("r", F.lit(orders.first()["amount"]))'),
        ("", "", 'return orders.withColumn("r", F.lit(hash("eur")))'),
        ("", "", 'return orders.select(*{"day", "region"})'),
        (_CACHED, "", 'return orders.withColumn("r", F.lit(RULE.rate))'),
        (_PATCHED, "", "return orders.with_usd()"),
        ("class Rule: rate = 2", "", 'return orders.withColumn("r", F.lit(Rule.rate))'),
        (
            "from functools import partial\nRATED = partial(max, 2)",
            "",
            'return orders.withColumn("r", F.lit(RATED(1)))',
        ),
        ("import tests.sample as helper\nGET = {'rate': helper.sample}", "", "return orders.limit(len(GET))"),
        ("import logging", "", 'return orders.withColumn("r", F.lit(logging.root.name))'),
        (
            "def wrapped(f):\n    return lambda orders: f(orders)\n@wrapped\ndef rated(o):\n    return o",
            "",
            "return rated(orders)",
        ),
        ("import yaml", "", 'return orders.withColumn("r", F.lit(yaml.safe_load("1")))'),
        ("def rate():\n    return float((HERE / 'rate').read_text())", "", "return orders.limit(rate())"),
    ],
)
def test_a_function_that_may_read_beside_its_inputs_has_none(
    tmp_path: Path, above: str, parameters: str, body: str
) -> None:
    assert recipe(_load(tmp_path, body, above, parameters)) is None


def test_a_task_with_a_secret_has_none(tmp_path: Path) -> None:
    """What it makes of the rows is seen in the plan alone."""
    declared = _load(tmp_path, 'return orders.withColumn("day", F.col("day"))')
    assert recipe(declared) is not None
    secret = {**declared.inputs, "pepper": param.json("pepper.json", secret=True)}
    assert recipe(replace(declared, inputs=secret)) is None


def test_a_value_that_was_read_when_the_file_was_loaded_counts_by_its_content(tmp_path: Path) -> None:
    def of(rate: str) -> str | None:
        (tmp_path / "rate.json").write_text(rate)
        above = 'RATES = json.loads((HERE / "rate.json").read_text())\nLIMIT = os.environ.get("TWICE_NO_SUCH", "3")'
        return recipe(_load(tmp_path, 'return orders.withColumn("r", F.lit(RATES["r"])).limit(int(LIMIT))', above))

    first, again, other = of('{"r": 1}'), of('{"r": 1}'), of('{"r": 2}')
    assert first is not None
    assert first == again
    assert first != other
