"""Whether something that a function names may give another result tomorrow: from the clock, at random, from outside.

Of Python's own library only what is listed as pure passes; all else is taken to read from outside, known or not. An
installed package counts by its version, and cannot be listed whole: what is known there to read from outside is listed,
by its package or by the last part of its name. The project's own code is not checked by names: it is read.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from twice.engine.code.names import UsedName, UsedNames, is_of_object, names_of


def _words(*lines: str) -> frozenset[str]:
    return frozenset(word for line in lines for word in line.split())


_STANDARD = frozenset(sys.stdlib_module_names) | {"builtins"}
_PURE = _words(
    "abc array ast base64 binascii bisect blake2 builtins bz2 calendar cmath codecs collections collections_abc",
    "colorsys contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib email encodings enum errno",
    "fnmatch fractions functools graphlib gzip hashlib heapq hmac html http io ipaddress itertools json keyword",
    "logging lzma math md5 numbers opcode operator pathlib pickle pprint quopri re reprlib sha1 sha2 sha256 sha3",
    "sha512 shlex sre stat statistics string stringprep struct textwrap traceback types typing unicodedata urllib",
    "warnings weakref xml zlib zoneinfo",
)
"""Modules of the standard library that compute with what they are given, but for what is named below."""
_PURE_TOO = frozenset(
    {f"os.{name}" for name in ("PathLike", "fsdecode", "fsencode", "fspath")}
    | {f"os.path.{name}" for name in ("basename", "commonpath", "commonprefix", "dirname", "isabs", "join", "normcase")}
    | {f"os.path.{name}" for name in ("normpath", "split", "splitdrive", "splitext")}
    | {f"sys.{name}" for name in ("exc_info", "exit", "getsizeof", "intern", "stderr", "stdout")}
    | {f"time.{name}" for name in ("mktime", "sleep", "strptime", "struct_time")}
    | {f"uuid.NAMESPACE_{name}" for name in ("DNS", "OID", "URL", "X500")}
    | {"secrets.compare_digest", "tomllib.loads", "uuid.UUID", "uuid.uuid3", "uuid.uuid5", "uuid.SafeUUID"}
)

_CLOCK_NAMES = frozenset({"now", "utcnow", "today"})
_CLOCK = frozenset(
    {f"datetime.datetime.{name}" for name in _CLOCK_NAMES}
    | {"datetime.date.today", "email.utils.formatdate", "email.utils.localtime", "gzip.compress"}
)
_CLOCK_OF = ("time.", "timeit.", "sched.")
_RANDOM = frozenset({"uuid.uuid1", "uuid.uuid4", "os.urandom", "os.getrandom", "builtins.id", "email.utils.make_msgid"})
_RANDOM_PREFIXES = ("random.", "secrets.", "uuid.", "numpy.random.", "faker.", "ulid.", "shortuuid.", "nanoid.")
_SEEDED = frozenset(
    {"random.Random", "numpy.random.Generator", "numpy.random.default_rng", "numpy.random.RandomState"}
    | {f"numpy.random.{name}" for name in ("MT19937", "PCG64", "Philox", "SFC64", "SeedSequence")}
)
"""Each gives the same numbers again if it is made with a seed."""
_PATHS = _words(
    "absolute cwd exists expanduser glob group home is_dir is_file iterdir lstat open owner read_bytes read_text",
    "readlink resolve rglob samefile stat walk",
)
_OUTSIDE = frozenset(
    {"builtins.input", "builtins.open", "bz2.BZ2File", "codecs.open", "gzip.GzipFile", "io.FileIO", "lzma.LZMAFile"}
    | {f"{module}.open" for module in ("bz2", "gzip", "io", "lzma")}
    | {f"xml.etree.ElementTree.{name}" for name in ("ElementTree", "iterparse", "parse")}
    | {"xml.dom.minidom.parse", "xml.dom.pulldom.parse", "xml.sax.parse", "io.open_code", "json.tool.main"}
    | {f"pathlib.Path.{name}" for name in _PATHS}
    | {f"numpy.{name}" for name in ("fromfile", "genfromtxt", "load", "loadtxt", "memmap")}
    | {"joblib.load", "torch.load", "datasets.load_dataset"}
)
_CLIENTS = _words(
    "os glob shutil socket sqlite3 subprocess tempfile urllib.request urllib.robotparser",
    "http.client http.cookiejar http.server pyspark.core.context pyspark.core.files pyspark.files pyspark.taskcontext",
    "aiohttp anthropic azure boto3 botocore confluent_kafka decouple dotenv duckdb elasticsearch environs fsspec gcsfs",
    "google.cloud grpc httpx kafka mlflow mysql openai paramiko psutil psycopg psycopg2 pymongo pymysql pyodbc redis",
    "requests s3fs smart_open snowflake sqlalchemy urllib3 websocket websockets",
)
_OUTSIDE_OF = tuple(f"{name}." for name in sorted(_CLIENTS))
_OUTSIDE_NAMES = frozenset({"connect", "create_engine", "from_pretrained", "getenv", "open", "urlopen"})
_OUTSIDE_BEGINS = ("open_", "read_", "scan_")
_ANYTHING = frozenset(
    {
        f"builtins.{name}"
        for name in ("__import__", "breakpoint", "compile", "eval", "exec", "globals", "locals", "vars")
    }
)
_ANYTHING_OF = ("importlib.", "inspect.", "ctypes.", "runpy.", "pkgutil.", "gc.")

_BY_NAME = frozenset({"builtins.getattr", "operator.attrgetter", "operator.methodcaller"})
_READING = frozenset({"read_text", "read_bytes", "iterdir", "rglob"})
"""Methods that are called on something the function has made; nothing else has such names."""
_MOMENTS = frozenset({"now", "today"})
_KNOW_MOMENTS = frozenset({"pandas", "numpy", "dateparser"})
"""Packages that take the text `now` for the time."""

_ALIASES = {"posixpath": "os.path", "ntpath": "os.path", "genericpath": "os.path", "posix": "os", "nt": "os"}

IsProject = Callable[[str], bool]
"""Whether a top-level package or module is the project's own."""


def outside_call(each: UsedName, is_project: IsProject) -> str | None:
    """What it reads that may be different next time; None if it is known to read nothing from outside."""
    names = tuple(_foreign(each.known_as, is_project))
    if not names or _is_constant(each.value) or (each.given and not _SEEDED.isdisjoint(names)):
        return None
    known = next(filter(None, (_known(name, each.of_object) for name in names)), None)
    if known is not None or each.of_object:
        return known
    if isinstance(each.value, ModuleType) and each.whole:
        return _handed_on(each.value.__name__)
    return _unknown(names)


def outside_call_of_value(value: Any, is_project: IsProject) -> str | None:
    """The same for a function or a class that is held, not named: a default, an attribute, an argument of `partial`."""
    return outside_call(UsedName("", value, names_of(value), of_object=is_of_object(value)), is_project)


@dataclass
class Evidence:
    """What is only seen together: a class that has a clock, here, and the attribute that reads it, there.
    `namespaces`: modules and classes whose attributes may be called."""

    is_project: IsProject
    attributes: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    namespaces: dict[str, None] = field(default_factory=dict)
    packages: set[str] = field(default_factory=set)
    by_name: bool = False
    _kinds: set[type] = field(default_factory=set)

    def add(self, found: UsedNames) -> None:
        self.attributes |= found.attributes
        self.texts |= found.texts
        for each in found.reached:
            names = list(_foreign(each.known_as, self.is_project))
            self.packages.update(name.partition(".")[0] for name in names)
            self.by_name = self.by_name or not _BY_NAME.isdisjoint(names)
            if each.unloaded or (each.whole and isinstance(each.value, ModuleType)):
                self.namespaces.update(dict.fromkeys(names))

    def add_kind(self, kind: type) -> None:
        """A class that the function names or holds, or that of a value: its methods may be called."""
        if kind not in self._kinds and not _is_constant(kind):
            self._kinds.add(kind)
            names = (name for each in kind.__mro__ for name in names_of(each))
            self.namespaces.update(dict.fromkeys(_foreign(names, self.is_project)))

    def outside_call(self) -> str | None:
        client = next((name for name in self.namespaces if _is_client(name)), None)
        if client is not None:
            return f"reads what is outside while it runs ({client})"
        used = sorted(self.attributes | (self.texts if self.by_name else set()))
        for name, attribute in ((name, attribute) for name in self.namespaces for attribute in used):
            if f"{name}.{attribute}" in _CLOCK or (attribute in _CLOCK_NAMES and _is_installed(name)):
                return f"reads the clock ({name}.{attribute})"
            if f"{name}.{attribute}" in _OUTSIDE:
                return f"reads what is outside while it runs ({name}.{attribute})"
        moment = next((text for text in sorted(self.texts) if text.lower() in _MOMENTS), None)
        if moment is not None and not self.packages.isdisjoint(_KNOW_MOMENTS):
            return f"reads the clock (the text {moment!r})"
        if "utcnow" in self.attributes:
            return "reads the clock (.utcnow)"
        reading = next(iter(sorted(self.attributes & _READING)), None)
        return f"reads what is outside while it runs (.{reading})" if reading is not None else None


def _known(name: str, of_object: bool) -> str | None:
    """`of_object`: a method of a value that counts by its content; a generator of numbers is its seed."""
    if name in _PURE_TOO:
        return None
    last = name.rpartition(".")[2] if _is_installed(name) else ""
    if name in _CLOCK or name.startswith(_CLOCK_OF) or last in _CLOCK_NAMES:
        return f"reads the clock ({name})"
    if (name in _RANDOM or name.startswith(_RANDOM_PREFIXES)) and not of_object:
        return f"draws at random ({name})"
    if name in _ANYTHING or name.startswith(_ANYTHING_OF):
        return f"runs or reads code that is not written in it ({name})"
    if name in _OUTSIDE or name.startswith(_OUTSIDE_OF) or last in _OUTSIDE_NAMES or last.startswith(_OUTSIDE_BEGINS):
        return f"reads what is outside while it runs ({name})"
    return None


def _unknown(names: tuple[str, ...]) -> str | None:
    """Of Python's own library, what is not listed as pure."""
    standard = [name for name in names if not _is_installed(name)]
    if not standard or any(name in _PURE_TOO or name.partition(".")[0] in _PURE for name in names):
        return None
    return f"uses {standard[0]}, which is not on twice's list of pure functions"


def _handed_on(module: str) -> str | None:
    """A module that is itself taken as a value: anything of it may be called where its name is not seen."""
    name = _usual(module)
    top = name.partition(".")[0]
    listed = any(each.startswith(f"{name}.") for each in (*_CLOCK, *_RANDOM, *_OUTSIDE, *_ANYTHING))
    if top in _STANDARD and (top not in _PURE or listed):
        return f"hands on the module {name}, of which nothing shows what is called"
    return None


def _is_constant(value: Any) -> bool:
    """It counts by its content, or does nothing when it is called: `os.sep`, an exception to be caught."""
    plain = isinstance(value, str | bytes | int | float | complex | enum.Enum)
    return plain or (isinstance(value, type) and issubclass(value, BaseException | enum.Enum))


def _is_client(name: str) -> bool:
    return name == "os._Environ" or (_is_installed(name) and name.startswith(_OUTSIDE_OF))


def _is_installed(name: str) -> bool:
    return name.partition(".")[0] not in _STANDARD


def _foreign(names: Iterable[str], is_project: IsProject) -> Iterator[str]:
    return (_usual(name) for name in names if not is_project(name.partition(".")[0]))


def _usual(name: str) -> str:
    """`os.listdir` for posix.listdir, `socket.socket` for _socket.socket, `pathlib.Path` for pathlib._local.Path."""
    top, *rest = name.split(".")
    if top in _STANDARD:
        top = _ALIASES.get(top, top.removeprefix("_"))
    middle = [part for part in rest[:-1] if not part.startswith("_")]
    return ".".join([top, *middle, *rest[-1:]])
