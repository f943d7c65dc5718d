"""Python runs this at its start in every process of a proof: the hook is set before any other code, then the
environment's own `sitecustomize`, which this one stands before, is run."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def _load(name: str, path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_here = Path(__file__).resolve().parent
_hook = _load("twice_proof_hook", str(_here.parent / "hook.py"))
_guard = _hook.from_environment()
if _guard is not None:
    _hook.install(_guard)

_elsewhere = [path for path in sys.path if Path(path or ".").resolve() != _here]
_next = importlib.machinery.PathFinder.find_spec("sitecustomize", _elsewhere)
if _next is not None and _next.origin:
    _load("twice_next_sitecustomize", _next.origin)
