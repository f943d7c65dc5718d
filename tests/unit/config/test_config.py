"""Settings: found upwards, merged key by key, every value with its origin, no secret ever shown."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from twice.config import Secret, Settings, explain, load
from twice.errors import DeclarationError

Write = Callable[..., Path]


@pytest.fixture(autouse=True)
def _no_settings_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.upper().startswith("TWICE_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str, name: str = "twice.toml") -> Path:
        (tmp_path / name).write_text(text, encoding="utf-8")
        return tmp_path

    return written


def values_of(settings: Settings) -> dict[str, tuple[str, str]]:
    return {row.name: (row.value, row.origin) for row in explain(settings)}


class TestFinding:
    def test_a_project_needs_only_its_name(self, write: Write) -> None:
        root = write('project = "my-shop_2"')
        settings = load(root)
        assert settings.project == "my-shop_2"
        assert (settings.root, settings.file) == (root, root / "twice.toml")
        assert settings.pipelines == (root / "pipelines",)
        assert settings.warehouse == root / "warehouse"
        assert settings.ledger_url == f"sqlite:///{root}/.twice/ledger.db"
        assert (settings.format, settings.lease_seconds, settings.internal) == ("delta", 300, True)
        assert (settings.spark.master, settings.spark.memory, settings.spark.short_jobs) == ("local[*]", None, False)
        assert (settings.spark.revealed(), settings.profile) == ({}, None)

    def test_the_file_is_found_from_a_folder_below(self, write: Write) -> None:
        root = write('project = "shop"')
        below = root / "a" / "b"
        below.mkdir(parents=True)
        assert load(below).root == root

    def test_a_start_that_does_not_exist_is_looked_for_above(self, write: Write) -> None:
        root = write('project = "shop"')
        assert load(root / "not" / "there").root == root

    def test_the_nearest_file_counts(self, write: Write) -> None:
        root = write('project = "outer"')
        inner = root / "inner"
        inner.mkdir()
        (inner / "twice.toml").write_text('project = "inner"')
        assert load(inner).project == "inner"

    def test_a_table_of_pyproject_will_do(self, write: Write) -> None:
        root = write('[tool.twice]\nproject = "shop"\n[tool.twice.spark]\nmemory = "1g"', "pyproject.toml")
        settings = load(root)
        assert (settings.project, settings.spark.memory) == ("shop", "1g")
        assert settings.file == root / "pyproject.toml"

    def test_a_pyproject_that_only_tells_lint_what_to_do_is_no_project(self, write: Write) -> None:
        write('[tool.twice.lint]\nignore = ["TW1"]', "pyproject.toml")
        root = write('project = "shop"')
        assert load(root).file == root / "twice.toml"

    def test_two_configurations_side_by_side_are_refused(self, write: Write) -> None:
        write('[tool.twice]\nproject = "a"', "pyproject.toml")
        with pytest.raises(DeclarationError, match=r"both twice\.toml and \[tool\.twice\].*Keep one"):
            load(write('project = "b"'))

    def test_no_file_anywhere_says_how_to_make_one(self, tmp_path: Path) -> None:
        with pytest.raises(DeclarationError, match=r"no twice\.toml at or above .*twice init"):
            load(tmp_path)

    def test_what_is_not_toml_is_reported_with_its_place(self, write: Write) -> None:
        with pytest.raises(DeclarationError, match=r"twice\.toml: cannot be read as TOML.*line 2"):
            load(write('project = "a"\nwarehouse = \n'))

    def test_lint_settings_are_lints_own(self, write: Write) -> None:
        assert load(write('project = "shop"\n[lint]\nanything = 1')).project == "shop"


class TestPaths:
    def test_paths_are_relative_to_the_file(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        root = write('project = "s"\nwarehouse = "../tables"\npipelines = ["jobs", "more/jobs"]')
        monkeypatch.chdir("/")
        settings = load(root)
        assert settings.warehouse == root.parent / "tables"
        assert settings.pipelines == (root / "jobs", root / "more" / "jobs")

    @pytest.mark.parametrize(
        ("ledger", "url"),
        [
            ("state/l.db", "sqlite:///{root}/state/l.db"),
            ("/var/l.db", "sqlite:////var/l.db"),
            ("sqlite:///state/l.db", "sqlite:///{root}/state/l.db"),
            ("sqlite:////var/l.db?cache=private", "sqlite:////var/l.db?cache=private"),
            ("what?#100%.db", "sqlite:///{root}/what%3F%23100%25.db"),
            ("postgresql+psycopg://me@host/db", "postgresql+psycopg://me@host/db"),
        ],
    )
    def test_a_ledger_is_a_file_or_a_url(self, write: Write, ledger: str, url: str) -> None:
        root = write(f'project = "s"\nledger = "{ledger}"')
        assert load(root).ledger_url == url.format(root=root)

    def test_a_ledger_file_with_odd_letters_is_opened_where_it_was_named(self, write: Write) -> None:
        from twice.ledgers.ledger import Ledger

        root = write('project = "s"\nledger = "what? 100%#ü.db"')
        Ledger.open(load(root).ledger_url).close()
        assert (root / "what? 100%#ü.db").is_file()

    @pytest.mark.parametrize("scheme", ["s3a", "s3", "hdfs", "gs", "abfss", "wasbs", "dbfs", "HDFS", "http"])
    def test_a_location_that_is_no_folder_is_refused_and_never_made_one(self, write: Write, scheme: str) -> None:
        """As a path it would be a folder of this machine, and every run would say that it had published there."""
        for place in (f"{scheme}://bucket/x", f"{scheme}:/x", f" {scheme}://bucket/x ", f"\\t{scheme}:/x"):
            with pytest.raises(DeclarationError) as refused:
                load(write(f'project = "s"\nwarehouse = "{place}"'))
            assert str(refused.value).endswith(
                f"twice.toml: warehouse: {scheme}: locations are not supported yet, only folders that this machine "
                "sees. Name a folder, e.g. one on a mounted disk."
            )
            assert refused.value.exit_code == 2

    def test_a_location_in_a_variable_or_a_profile_is_refused_too(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = write('project = "s"\nwarehouse = "${env:TABLES}"\n[profiles.prod]\nwarehouse = "gs://bucket/x"')
        monkeypatch.setenv("TABLES", "s3a://bucket/x")
        with pytest.raises(DeclarationError, match="warehouse: s3a: locations"):
            load(root)
        with pytest.raises(DeclarationError, match=r"profiles\.prod.*warehouse: gs: locations"):
            load(root, "prod")
        monkeypatch.setenv("TWICE_WAREHOUSE", "hdfs://name/x")
        with pytest.raises(DeclarationError, match=r"TWICE_WAREHOUSE: warehouse: hdfs: locations"):
            load(root)

    @pytest.mark.parametrize(
        ("text", "folder"),
        [("file:///data/a%20b", "/data/a b"), ("file:/data/x", "/data/x"), ("file://localhost/data/x", "/data/x")],
    )
    def test_a_file_location_is_the_folder_it_names(self, write: Write, text: str, folder: str) -> None:
        settings = load(write(f'project = "s"\nwarehouse = "{text}"\nledger = "{text}.db"'))
        assert settings.warehouse == Path(folder)
        assert settings.ledger_url == f"sqlite:///{folder}.db"
        padded = load(write(f'project = "s"\nwarehouse = " {text} "\nledger = " {text}.db "'))
        assert (padded.warehouse, padded.ledger_url) == (settings.warehouse, settings.ledger_url)

    @pytest.mark.parametrize("text", ["file:data", "file://host/data", "file:"])
    def test_a_file_location_of_another_machine_is_refused(self, write: Write, text: str) -> None:
        with pytest.raises(DeclarationError, match="warehouse is not a file: location of this machine"):
            load(write(f'project = "s"\nwarehouse = "{text}"'))

    def test_roots_are_folders_of_this_machine_relative_to_the_file(self, write: Write) -> None:
        settings = load(write('project = "s"\nroots = ["/data/landing", "../shared"]'))
        assert settings.roots == (Path("/data/landing"), settings.root.parent / "shared")
        with pytest.raises(DeclarationError, match="roots: s3: locations are not supported yet"):
            load(write('project = "s"\nroots = ["s3://bucket"]'))

    @pytest.mark.parametrize("folder", ["..", ".", "/somewhere", "a/../../b"])
    def test_pipelines_lie_inside_the_project(self, write: Write, folder: str) -> None:
        with pytest.raises(DeclarationError, match=r"twice\.toml: pipelines: .* not a folder inside the project"):
            load(write(f'project = "s"\npipelines = ["{folder}"]'))

    def test_a_path_may_name_a_variable(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        root = write('project = "s"\nwarehouse = "${env:TABLES}/x"')
        with pytest.raises(
            DeclarationError, match=r"twice\.toml: warehouse: the environment variable TABLES is not set"
        ):
            load(root)
        monkeypatch.setenv("TABLES", "/data")
        assert load(root).warehouse == Path("/data/x")


class TestLayers:
    TEXT = """
        project = "shop"
        lease_seconds = 60
        [spark]
        memory = "1g"
        conf = { "a" = "file", "b" = "file" }
        [profiles.prod]
        lease_seconds = 600
        [profiles.prod.spark]
        master = "yarn"
        conf = { "b" = "profile" }
        [profiles.test]
    """

    def test_a_profile_overrides_key_by_key(self, write: Write) -> None:
        settings = load(write(self.TEXT), "prod")
        assert (settings.lease_seconds, settings.spark.master, settings.spark.memory) == (600, "yarn", "1g")
        assert settings.spark.revealed() == {"a": "file", "b": "profile"}

    def test_without_a_profile_none_counts(self, write: Write) -> None:
        assert load(write(self.TEXT)).lease_seconds == 60

    def test_the_environment_chooses_a_profile_unless_one_is_asked_for(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = write(self.TEXT)
        monkeypatch.setenv("TWICE_PROFILE", "prod")
        assert values_of(load(root))["profile"] == ("prod", "environment TWICE_PROFILE")
        assert values_of(load(root, "test"))["profile"] == ("test", "asked for")
        monkeypatch.setenv("TWICE_PROFILE", "")
        assert values_of(load(root))["profile"] == ("", "default")

    def test_an_unknown_profile_names_the_known_ones(self, write: Write) -> None:
        with pytest.raises(DeclarationError, match=r"twice\.toml: there is no profile 'prd'\. Known: prod, test\."):
            load(write(self.TEXT), "prd")

    def test_the_environment_overrides_file_and_profile(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in {
            "LEASE_SECONDS": "5",
            "SPARK_MASTER": "local[1]",
            "SPARK_SHORT_JOBS": "true",
            "SPARK_CONF": '{"b": "env"}',
            "PIPELINES": "one, two",
        }.items():
            monkeypatch.setenv(f"TWICE_{name}", value)
        root = write(self.TEXT)
        settings = load(root, "prod")
        assert (settings.lease_seconds, settings.spark.master, settings.spark.short_jobs) == (5, "local[1]", True)
        assert settings.spark.revealed() == {"a": "file", "b": "env"}
        assert settings.pipelines == (root / "one", root / "two")

    def test_every_value_says_where_it_came_from(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TWICE_SPARK_MEMORY", "4g")
        root = write(self.TEXT)
        rows = values_of(load(root, "prod"))
        file = str(root / "twice.toml")
        assert rows["project"] == ("shop", file)
        assert rows["lease_seconds"] == ("600", f"{file} [profiles.prod]")
        assert rows["spark.memory"] == ("4g", "environment TWICE_SPARK_MEMORY")
        assert rows["spark.conf.a"] == ("file", file)
        assert rows["spark.conf.b"] == ("profile", f"{file} [profiles.prod]")
        assert rows["format"] == ("delta", "default")

    def test_other_variables_of_ours_are_no_settings(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("TWICE_CACHE", "TWICE_FAILPOINT", "TWICE_LEDGER_URL"):
            monkeypatch.setenv(name, "x")
        assert load(write(self.TEXT)).lease_seconds == 60

    def test_the_projects_name_cannot_be_changed_by_a_profile_or_the_environment(
        self, write: Write, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        root = write('project = "shop"\n[profiles.prod]\nproject = "other"')
        with pytest.raises(DeclarationError, match=r"\[profiles\.prod\]: the project's name is fixed"):
            load(root, "prod")
        monkeypatch.setenv("TWICE_PROJECT", "other")
        with pytest.raises(DeclarationError, match=r"environment TWICE_PROJECT: the project's name is fixed"):
            load(root)
        monkeypatch.setenv("TWICE_PROJECT", "shop")
        assert load(root).project == "shop"


class TestMistakes:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ('project = "s"\nledgr = "x"', "unknown setting 'ledgr'. Did you mean ledger?"),
            ('project = "s"\n[spark]\nmastr = "x"', "unknown setting 'spark.mastr'. Did you mean spark.master?"),
            ('project = "s"\nzzz = 1', "unknown setting 'zzz'. Known: project, pipelines,"),
            (
                'warehouse = "x"',
                'the setting project is missing. Name it with letters, digits, - and _: project = "myshop"',
            ),
            ('project = "a b"', "project is wrong"),
            ('project = "a\\n"', "project is wrong"),
            ('project = ""', "project is wrong"),
            ('project = "../x"', "project is wrong"),
            ('project = "ünï"', "project is wrong"),
            ("project = 3", "project is wrong"),
            ('project = "s"\nlease_seconds = 0', "lease_seconds is wrong"),
            ('project = "s"\nlease_seconds = "soon"', "lease_seconds is wrong"),
            ('project = "s"\npipelines = []', "pipelines is wrong"),
            ('project = "s"\npipelines = [3]', "pipelines.0 is wrong"),
            ('project = "s"\nformat = "Delta Lake"', "format is wrong"),
            ('project = "s"\n[spark]\nmemory = "2 gb"', "spark.memory is wrong"),
            ('project = "s"\n[spark.conf]\na = ["x"]', "spark.conf.a is wrong"),
            ('project = "s"\nspark = 3', "spark must be a table. Write [spark]."),
            ('project = "s"\nledger = ""', "ledger is wrong"),
            ('project = "s"\nwarehouse = 3', "warehouse is wrong"),
            ('project = "s"\n[spark]\nmaster = ""', "spark.master is wrong"),
            ('project = "s"\n[spark]\nshort_jobs = "perhaps"', "spark.short_jobs is wrong"),
            ('project = "s"\nroots = [["x"]]', "roots.0 is wrong"),
            ('project = "s"\ninternal = "sometimes"', "internal is wrong"),
        ],
    )
    def test_a_mistake_names_the_file_the_key_and_the_fix(self, write: Write, text: str, message: str) -> None:
        root = write(text)
        with pytest.raises(DeclarationError) as caught:
            load(root)
        assert str(caught.value).startswith(f"{root / 'twice.toml'}: {message}")
        assert caught.value.fix

    def test_a_mistake_in_a_profile_names_the_profile(self, write: Write) -> None:
        root = write('project = "s"\n[profiles.p]\nlease_seconds = -1\n[profiles.q]\nwarehose = "x"')
        with pytest.raises(DeclarationError, match=r"\[profiles\.p\]: lease_seconds is wrong"):
            load(root, "p")
        with pytest.raises(
            DeclarationError, match=r"\[profiles\.q\]: unknown setting 'warehose'\. Did you mean warehouse"
        ):
            load(root, "q")

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("TWICE_LEASE_SECONDS", "x", "environment TWICE_LEASE_SECONDS: lease_seconds is wrong"),
            ("TWICE_SPARK_MASTR", "x", "environment TWICE_SPARK_MASTR: unknown setting 'spark.mastr'"),
            ("TWICE_SPARK_CONF", '{"s3kr1t', "environment: error parsing value for field"),
        ],
    )
    def test_a_mistake_in_the_environment_names_the_variable(
        self, write: Write, monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
    ) -> None:
        monkeypatch.setenv(name, value)
        with pytest.raises(DeclarationError) as caught:
            load(write('project = "s"'))
        assert str(caught.value).startswith(message)
        assert "s3kr1t" not in str(caught.value)


class TestSecrets:
    def test_a_reference_is_resolved_only_when_it_is_used(self, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
        root = write('project = "s"\nledger = "postgresql://me:${env:PW}@host/db"\n[spark.conf]\nkey = "${env:KEY}"')
        settings = load(root)
        explain(settings)
        with pytest.raises(DeclarationError, match=r"twice\.toml: ledger: the environment variable PW is not set"):
            settings.ledger_url  # noqa: B018
        with pytest.raises(DeclarationError, match=r"spark\.conf\.key: the environment variable KEY is not set"):
            settings.spark.revealed()
        monkeypatch.setenv("PW", "s3kr1t")
        monkeypatch.setenv("KEY", "k3y")
        assert settings.ledger_url == "postgresql://me:s3kr1t@host/db"
        assert settings.spark.revealed() == {"key": "k3y"}

    @pytest.mark.parametrize(
        ("ledger", "shown"),
        [
            ("postgresql://me:s3kr1t@host/db", "postgresql://me:***@host/db"),
            ("postgresql://me:s3@kr1t@host/db", "postgresql://me:***@host/db"),
            ("postgresql://me:${env:PW}@host/db", "postgresql://me:${env:PW}@host/db"),
            ("postgresql://host/db?user=me&password=s3kr1t", "postgresql://host/db?user=me&password=***"),
            ("${env:URL}", "${env:URL}"),
            ("postgresql://host/db", "postgresql://host/db"),
            (".twice/ledger.db", ".twice/ledger.db"),
        ],
    )
    def test_a_shown_ledger_has_no_password(self, write: Write, ledger: str, shown: str) -> None:
        settings = load(write(f'project = "s"\nledger = "{ledger}"'))
        assert values_of(settings)["ledger"][0] == shown

    def test_spark_settings_with_secret_names_are_hidden(self, write: Write) -> None:
        names = ["fs.s3a.secret.key", "x.password", "my.apiKey", "auth.token", "spark.ui.port", "ref.secret"]
        values = dict.fromkeys(names, "s3kr1t") | {"spark.ui.port": "4040", "ref.secret": "${env:X}"}
        lines = "\n".join(f'"{name}" = "{value}"' for name, value in values.items())
        rows = values_of(load(write(f'project = "s"\n[spark.conf]\n{lines}')))
        shown = {name: rows[f"spark.conf.{name}"][0] for name in names}
        assert shown == dict.fromkeys(names, "***") | {"spark.ui.port": "4040", "ref.secret": "${env:X}"}

    def test_no_way_of_printing_settings_shows_a_secret(self, write: Write) -> None:
        text = 'project = "s"\nledger = "postgresql://me:s3kr1t@host/db"\n[spark.conf]\n"a.password" = "s3kr1t"'
        settings = load(write(text))
        forms = [repr(settings), str(settings), f"{settings.ledger}", repr(settings.spark), str(asdict(settings))]
        forms += [json.dumps(asdict(settings), default=str), str(explain(settings)), repr(copy.copy(settings))]
        assert [form for form in forms if "s3kr1t" in form] == []

    def test_a_secret_does_not_leave_its_process(self) -> None:
        with pytest.raises(TypeError, match="does not leave"):
            pickle.dumps(Secret("s3kr1t"))

    def test_equal_secrets_are_equal(self) -> None:
        assert Secret("a") == Secret("a", "elsewhere")
        assert len({Secret("a"), Secret("a"), Secret("b")}) == 2


def test_a_ledger_in_libpqs_form_is_refused_and_is_no_file_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "twice.toml").write_text('project = "p"\nledger = "host=db dbname=ledger password=s3kr1t"\n')
    settings = load(tmp_path)
    with pytest.raises(DeclarationError, match="ledger is written as libpq writes connections") as refused:
        _ = settings.ledger_url
    assert "s3kr1t" not in str(refused.value)
    assert "s3kr1t" not in str(explain(settings))
