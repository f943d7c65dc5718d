"""A model is read as the statement dbt would run, with its configuration from wherever it was given."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from twice.lint.facts import ModelFact, TextSpan
from twice.lint.file_facts import FileFacts
from twice.lint.frontends.context import ReadContext
from twice.lint.frontends.dbt_project import fingerprint, surroundings
from twice.lint.frontends.reader import read
from twice.lint.frontends.template import TemplateFailure, render

INCREMENTAL = """{{ config(materialized='incremental') }}
select id, ts from {{ ref('events') }}
{% if is_incremental() %}
where ts > (select max(ts) from {{ this }})
{% endif %}
"""


def facts_of(text: str, file: Path | None = None, path: str = "models/m.sql") -> FileFacts:
    return read(path, text, replace(ReadContext(), file=file))


def model_of(text: str, file: Path | None = None) -> ModelFact:
    return facts_of(text, file).models[0]


def project(tmp_path: Path, settings: str, model: str, **more: str) -> Path:
    (tmp_path / "dbt_project.yml").write_text(settings, encoding="utf-8")
    for name, text in more.items():
        (tmp_path / "models" / "marts").mkdir(parents=True, exist_ok=True)
        (tmp_path / "models" / "marts" / f"{name}.yml").write_text(text, encoding="utf-8")
    file = tmp_path / "models" / "marts" / "m.sql"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(model, encoding="utf-8")
    return file


def test_the_configuration_in_the_model_becomes_facts() -> None:
    model = model_of(
        "{{ config(materialized='incremental', unique_key=['A', 'b'], incremental_strategy='merge') }}select 1"
    )
    assert (model.materialized, model.unique_key, model.strategy) == ("incremental", ("a", "b"), "merge")
    assert not model.incremental_filter


def test_a_key_only_the_run_knows_is_still_a_key() -> None:
    assert model_of("{{ config(materialized='incremental', unique_key=var('key')) }}select 1").unique_key


def test_the_filter_is_seen_and_its_strict_comparison_located() -> None:
    model = model_of(INCREMENTAL)
    assert model.incremental_filter
    assert model.strict_mark is not None
    assert (model.strict_mark.line, model.strict_mark.column) == (4, 10)


def test_a_model_that_leaves_out_what_it_has_is_an_anti_join() -> None:
    text = INCREMENTAL.replace("ts > (select max(ts) from {{ this }})", "id not in (select id from {{ this }})")
    assert model_of(text).anti_join
    assert not model_of(INCREMENTAL).anti_join


def test_our_own_statement_around_the_model_is_no_write() -> None:
    assert facts_of(INCREMENTAL).writes == ()


def test_both_branches_are_read_and_what_they_share_is_reported_once() -> None:
    text = (
        "{{ config(materialized='incremental') }}\n"
        "select now() as snapshot_date, uuid_string() as id from {{ ref('e') }}\n"
        "{% if is_incremental() %}\nwhere d >= current_date - 1\n"
        "{% else %}\nwhere d >= current_date - 900\n{% endif %}\n"
    )
    facts = facts_of(text)
    assert sorted((clock.use, clock.place.span.line) for clock in facts.clocks if clock.use == "filter") == [
        ("filter", 4),
        ("filter", 6),
    ]
    assert len(facts.ids) == 1


def test_positions_survive_lines_that_disappear_and_loops() -> None:
    text = (
        "{{\n  config(\n    materialized='table'\n  )\n}}\n{% set days = [1, 2] %}\n{% for day in days %}\n"
        "select {{ day }} as a, current_timestamp as effective_date\n"
        "{% if not loop.last %}union all{% endif %}\n{% endfor %}\n"
    )
    assert [(clock.place.span.line, clock.place.span.column) for clock in facts_of(text).clocks] == [(8, 24)]


@pytest.mark.parametrize(
    "moment",
    ["run_started_at.strftime('%Y-%m-%d')", "modules.datetime.date.today() - modules.datetime.timedelta(days=1)"],
)
def test_the_clock_of_dbt_is_a_clock_also_in_quotes(moment: str) -> None:
    text = (
        "{{ config(materialized='table') }}\nselect a from {{ ref('x') }} where d >= '{{ " + moment + " }}' and b = 1\n"
    )
    clocks = facts_of(text).clocks
    assert [(clock.use, clock.place.span.line, clock.place.span.column) for clock in clocks] == [("filter", 2, 42)]


def test_the_clock_of_a_view_is_its_readers() -> None:
    assert facts_of("select current_date as snapshot_date from {{ ref('a') }}").clocks == ()


def test_what_stands_under_the_development_target_is_not_read() -> None:
    text = (
        "{{ config(materialized='table') }}select 1 from {{ ref('a') }}{% if target.name == 'dev' %} limit 5{% endif %}"
    )
    assert facts_of(text).orders == ()


def test_configuration_comes_from_the_project_file(tmp_path: Path) -> None:
    settings = (
        "name: shop\nmodels:\n  +materialized: view\n  shop:\n    marts:\n"
        "      +materialized: incremental\n      +unique_key: id\n"
    )
    model = model_of("select * from {{ ref('a') }}", project(tmp_path, settings, "x"))
    assert (model.materialized, model.unique_key) == ("incremental", ("id",))


def test_the_model_overrules_the_property_file_which_overrules_the_project(tmp_path: Path) -> None:
    settings = (
        "name: shop\nmodels:\n  shop:\n    +materialized: table\n    +unique_key: a\n"
        "    +incremental_strategy: append\n"
    )
    properties = (
        "models:\n  - name: m\n    config: {unique_key: b, incremental_strategy: merge}\n"
        "    columns:\n      - {name: C, tests: [unique]}\n"
    )
    file = project(tmp_path, settings, "x", schema=properties)
    model = model_of("{{ config(unique_key='c') }}select * from {{ ref('a') }}", file)
    assert (model.materialized, model.unique_key, model.strategy) == ("table", ("c",), "merge")
    assert model.unique_tested


def test_a_broken_project_file_is_a_notice(tmp_path: Path) -> None:
    file = project(tmp_path, "name: [", "x")
    assert "dbt_project.yml cannot be read" in facts_of("select * from {{ ref('a') }}", file).notices[0].message


def test_compiled_sql_shows_what_a_macro_hides(tmp_path: Path) -> None:
    text = "{{ config(materialized='table') }}\nselect a\nfrom {{ recent('events') }}\n"
    file = project(tmp_path, "name: shop\n", text)
    assert facts_of(text, file).clocks == ()
    compiled = tmp_path / "target" / "compiled" / "shop" / "models" / "marts" / "m.sql"
    compiled.parent.mkdir(parents=True)
    compiled.write_text("\nselect a\nfrom (select * from events where d = current_date)\n", encoding="utf-8")
    assert [clock.use for clock in facts_of(text, file).clocks] == ["filter"]


def test_compiled_sql_older_than_the_model_is_not_used(tmp_path: Path) -> None:
    text = "{{ config(materialized='table') }}select a from {{ recent('events') }}"
    file = project(tmp_path, "name: shop\n", text)
    compiled = tmp_path / "target" / "compiled" / "shop" / "models" / "marts" / "m.sql"
    compiled.parent.mkdir(parents=True)
    compiled.write_text("select a from e where d = current_date", encoding="utf-8")
    os.utime(compiled, (1, 1))
    assert facts_of(text, file).clocks == ()


def test_the_fingerprint_follows_the_project_files(tmp_path: Path) -> None:
    file = project(tmp_path, "name: shop\n", "x")
    before = fingerprint(file)
    (tmp_path / "dbt_project.yml").write_text("name: other\n", encoding="utf-8")
    assert fingerprint(file) != before
    assert fingerprint(tmp_path.parent / "elsewhere.sql") == ""


def test_a_hook_that_writes_is_read_and_stands_at_the_configuration() -> None:
    text = "\n{{ config(materialized='table', post_hook=\"insert into audit.t select '{{ this }}'\") }}\nselect 1"
    writes = facts_of(text).writes
    assert [(write.target, write.place.span.line) for write in writes] == [("audit.t", 2)]


def test_a_template_that_cannot_be_rendered_is_read_as_plain_sql_and_reported() -> None:
    facts = facts_of("{% include 'x' %}\ninsert into {{ ref('t') }} select 1")
    assert "could not be rendered" in facts.notices[0].message
    assert len(facts.writes) == 1


def test_a_macro_file_is_no_model() -> None:
    facts = facts_of("{% macro cents(c) %}({{ c }} / 100){% endmacro %}", path="macros/cents.sql")
    assert (facts.models, facts.notices) == ((), ())


def test_a_snapshot_is_a_model_that_is_stored() -> None:
    model = model_of("{% snapshot s %}{{ config(unique_key='id') }}select * from {{ ref('a') }}{% endsnapshot %}")
    assert model.materialized == "snapshot"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ config.__init__.__globals__ }}",
        "{{ ref.__globals__['__builtins__']['open']('/etc/hostname').read() }}",
        "{{ modules.os.system('true') }}",
    ],
)
def test_a_template_reaches_nothing_outside(template: str) -> None:
    assert render(template, model="m", incremental=True).text.startswith("ʔ")


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(10**9) %}x{% endfor %}",
        "{{ 'a' * 10**9 }}",
        "{{ lipsum(9999999) }}",
        "{{ 'x'.ljust(10**9) }}",
        "{{ 'x' | center(999999999) }}",
        "{{ '%999999999d' % 3 }}",
        "{{ '%*d' % (999999999, 3) }}",
        "{% for a in range(99) %}{% for b in range(99) %}{% for c in range(99) %}{% for d in range(99) %}"
        "{% for e in range(99) %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
    ],
)
def test_a_template_cannot_keep_us_busy(template: str) -> None:
    try:
        assert len(render(template, model="m", incremental=True).text) < 10_000
    except TemplateFailure as failure:
        assert str(failure)


def test_a_macro_that_calls_itself_is_a_failure_not_a_crash() -> None:
    with pytest.raises(TemplateFailure):
        render("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", model="m", incremental=True)


def test_every_plain_character_is_mapped_to_itself() -> None:
    source = "a {{ ref('x') }} b\n{% if is_incremental() %}\n  c {# note #} d\n{% endif %}\ne '{{ var(\"v\") }}' f\n"
    rendered = render(source, model="m", incremental=True)
    where = rendered.where()
    for line, text in enumerate(rendered.text.splitlines(), 1):
        for column, outgoing in enumerate(text, 1):
            if (
                outgoing in "abcdef"
                and (column == 1 or text[column - 2] == " ")
                and text[column : column + 1] in ("", " ")
            ):
                span = where(TextSpan(line, column))
                assert source.splitlines()[span.line - 1][span.column - 1] == outgoing


def test_a_file_without_a_project_has_no_surroundings(tmp_path: Path) -> None:
    assert surroundings(tmp_path / "m.sql").config == {}
