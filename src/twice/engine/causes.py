"""What is known of an error, down to the Java errors behind Spark's. Read from attributes: pyspark is not imported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twice.core.failure.transience import Signs, causes, read

JVM_GONE = Signs(("py4j.protocol.Py4JNetworkError",))
"""Known by more than this class: a refused connection to the JVM is a plain ConnectionRefusedError."""

_DEPTH = 20


def signs(error: BaseException) -> tuple[Signs, ...]:
    """The whole chain, outermost first: Python's errors, and under each the Java errors it wraps."""
    found: list[Signs] = []
    for each in causes(error):
        java = getattr(each, "_origin", None) or getattr(each, "java_exception", None)
        if java is None and _raised_by_py4j(each):
            found.append(JVM_GONE)
        found.append(read(each))
        if java is not None:
            found.extend(_java_chain(java))
    return tuple(found)


def _java_chain(throwable: Any) -> Iterator[Signs]:
    """Ends quietly where the JVM does not answer any more: what was read until then must do."""
    for _ in range(_DEPTH):
        if throwable is None:
            return
        try:
            yield _java_signs(throwable)
            throwable = throwable.getCause()
        except Exception:  # noqa: BLE001 - py4j raises what it likes when its JVM dies
            yield JVM_GONE
            return


def _java_signs(throwable: Any) -> Signs:
    return Signs(
        classes=tuple(_java_classes(throwable.getClass())),
        sqlstate=_text(_called(throwable, "getSqlState") or _called(throwable, "getSQLState")),
        condition=_text(_called(throwable, "getCondition")),
        status=_status(_called(throwable, "statusCode")),
        message=_text(throwable.getMessage()) or "",
    )


def _java_classes(found: Any) -> Iterator[str]:
    while found is not None and found.getName() != "java.lang.Object":
        yield found.getName()
        found = found.getSuperclass()


def _called(throwable: Any, method: str) -> Any:
    """Only some Java errors have it: Spark's their condition, JDBC's their state, Amazon's their status."""
    call: Callable[[], Any] = getattr(throwable, method)
    try:
        return call()
    except Exception as error:
        if type(error).__name__ == "Py4JNetworkError":
            raise
        return None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _status(value: Any) -> int | None:
    return value if isinstance(value, int) and 400 <= value <= 599 else None


def _raised_by_py4j(error: BaseException) -> bool:
    """Did the call into the JVM itself fail? The innermost frame is then in py4j, or just below it in `socket`."""
    trace, modules = error.__traceback__, []
    while trace is not None:
        modules.append(str(trace.tb_frame.f_globals.get("__name__")))
        trace = trace.tb_next
    return any(module.startswith("py4j.") for module in modules[-2:])
