"""Whose records a project's are: the environment of the user's own word, or the place of the tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from twice import Whole, replace, task
from twice.config import explain, load
from twice.core.ledger.record_owner import RecordOwner
from twice.core.project.project import assemble
from twice.core.task import Task
from twice.errors import DeclarationError
from twice.wiring.open_project import open_project
from twice.wiring.record_owner import record_owner_of

URL = "postgresql://twice:s3kr1t@db.example.com:5433/shop"


def declared(target: str, name: str = "revenue") -> Task:
    return task(target, scope=Whole(), write=replace(), name=name)(lambda: None)


def home(root: Path, *targets: str, toml: str = "", profile: str | None = None, project: str = "p") -> RecordOwner:
    root.mkdir(parents=True, exist_ok=True)
    (root / "twice.toml").write_text(f'project = "{project}"\n{toml}')
    tasks = [declared(target, f"t{number}") for number, target in enumerate(targets or ("shop.revenue",))]
    return record_owner_of(load(root, profile), assemble("p", tasks).tasks.values())


def test_a_profile_that_changes_only_the_warehouse_is_another_environment(tmp_path: Path) -> None:
    toml = '[profiles.prod]\nwarehouse = "/data/prod"'
    dev, prod = (home(tmp_path, toml=toml, profile=profile) for profile in (None, "prod"))
    assert (dev.environment, prod.environment) == ("./warehouse", "/data/prod")
    assert dev.key("t0") != prod.key("t0")


@pytest.mark.parametrize(
    "toml", ["", 'warehouse = "/data/prod"', 'environment = "prod"', 'ledger = "postgresql://h/l"']
)
def test_what_config_show_calls_the_environment_is_what_the_ledger_is_opened_for(tmp_path: Path, toml: str) -> None:
    opened = home(tmp_path, toml=toml)
    shown = {setting.name: setting.value for setting in explain(load(tmp_path))}
    assert shown["environment"] == opened.environment


def test_a_project_that_moves_with_its_ledger_and_its_tables_stays_the_same_and_is_known_elsewhere_by_its_path(
    tmp_path: Path,
) -> None:
    before, after = home(tmp_path / "here"), home(tmp_path / "there")
    assert before.key("t0") == after.key("t0")
    assert before.effect_owner("t0") != after.effect_owner("t0")


def test_a_missing_url_is_named_with_the_connection_and_the_task_that_wants_it(tmp_path: Path) -> None:
    toml = '[connections.bikes]\nurl = "${env:NO_SUCH_URL}"'
    with pytest.raises(DeclarationError) as refused:
        home(tmp_path, "shop.rides", "bikes:public.stations", toml=toml)
    assert "connections.bikes.url" in refused.value.where
    assert refused.value.what.startswith("the environment variable NO_SUCH_URL is not set; t1 writes bikes:public.")
    assert home(tmp_path, "shop.rides", toml=toml).tables, "a connection that no task writes to is not read"


def test_two_clones_with_one_shared_ledger_are_distinguished(tmp_path: Path) -> None:
    for ledger in ("postgresql://host/ledger", str(tmp_path / "shared.db")):
        one, other = (home(tmp_path / name, toml=f'ledger = "{ledger}"') for name in ("one", "other"))
        assert one.environment == str(tmp_path / "one" / "warehouse")
        assert one.key("t0") != other.key("t0")


def test_two_ways_to_one_warehouse_are_one_environment(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    ways = [home(tmp_path / "p", toml=f'warehouse = "{tmp_path}/{name}"') for name in ("real", "link")]
    assert ways[0].key("t0") == ways[1].key("t0")


def test_a_name_of_the_users_is_the_environment_of_every_table(tmp_path: Path) -> None:
    toml = f'environment = "prod"\n[connections.postgres]\nurl = "{URL}"'
    named = home(tmp_path, "shop.revenue", "postgres:shop.orders", toml=toml)
    assert named.environments == ("prod",)
    assert named.effect_owner("t1") == ("p", "prod", "postgres:shop.orders")
    assert named.table_of("t0").formerly == ("./warehouse", str(tmp_path / "warehouse"))


def test_the_environment_can_be_set_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWICE_ENVIRONMENT", "staging")
    assert home(tmp_path).environment == "staging"


def test_a_table_on_a_server_belongs_to_that_server_and_no_secret_is_in_its_name(tmp_path: Path) -> None:
    toml = '[connections.postgres]\nurl = "{}"'
    one = home(tmp_path, "postgres:shop.orders", toml=toml.format(URL))
    other = home(tmp_path, "postgres:shop.orders", toml=toml.format(URL.replace("db.", "db2.")))
    assert one.table_of("t0").environment == "postgresql://db.example.com:5433/shop"
    assert one.key("t0") != other.key("t0")
    assert "s3kr1t" not in str(one) and "twice:" not in str(one)


def test_a_server_behind_a_socket_has_a_place_too(tmp_path: Path) -> None:
    toml = '[connections.postgres]\nurl = "postgresql://twice@/shop?host=/run/pg&port=5433"'
    assert (
        home(tmp_path, "postgres:shop.orders", toml=toml).table_of("t0").environment == "postgresql:///run/pg:5433/shop"
    )


@pytest.mark.parametrize("environment", [None, "prod"])
def test_a_connection_in_libpqs_form_leaves_no_secret_in_the_ledger(tmp_path: Path, environment: str | None) -> None:
    dsn = "host=db.example.com dbname=shop user=twice password=s3kr1t"
    named = f'environment = "{environment}"\n' if environment else ""
    owner = home(tmp_path, "postgres:shop.orders", toml=f'{named}[connections.postgres]\nurl = "{dsn}"')
    table = owner.table_of("t0")
    assert table.environment == (environment or "postgresql://db.example.com/shop")
    assert table.formerly[-1] == f"postgresql:///{dsn}"
    assert owner.retired == {f"postgresql:///{dsn}": table.environment}
    assert "s3kr1t" not in str(owner.effect_owner("t0")) + str(owner.environments) + owner.key("t0")


def test_one_table_has_one_key_however_its_name_is_written(tmp_path: Path) -> None:
    assert home(tmp_path, "shop.revenue").key("t0") == home(tmp_path, "delta:shop.revenue").key("t0")


def test_projects_environments_tables_and_tasks_all_make_a_key_of_their_own(tmp_path: Path) -> None:
    ways = [
        home(tmp_path),
        home(tmp_path, "shop.other"),
        home(tmp_path, project="q"),
        home(tmp_path, toml='environment = "dev"'),
    ]
    assert len({way.key("t0") for way in ways}) == 4


def test_a_project_opens_its_ledger_for_its_own_environment(tmp_path: Path) -> None:
    (tmp_path / "twice.toml").write_text('project = "p"\nenvironment = "prod"\n')
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "revenue.py").write_text(
        "from twice import Whole, replace, task\n\n\n"
        '@task("shop.revenue", scope=Whole(), write=replace())\ndef revenue():\n    ...\n'
    )
    with open_project(tmp_path) as opened:
        assert opened.ledger.owner.effect_owner("revenue") == ("p", "prod", "delta:shop.revenue")
