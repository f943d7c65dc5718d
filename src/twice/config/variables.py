"""Settings that variables of the environment give: `TWICE_LEDGER`, `TWICE_SPARK_MASTER` and so on."""

from __future__ import annotations

from typing import Any, get_origin

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError

from twice.config.written import PREFIX, Written
from twice.errors import DeclarationError


class Variables(Written, BaseSettings):
    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="_", env_nested_max_split=1, env_ignore_empty=True, extra="forbid"
    )


class _Source(EnvSettingsSource):
    def decode_complex_value(self, field_name: str, field: FieldInfo, value: Any) -> Any:
        """JSON, but for a list: that is a text with commas, which `Written` takes apart."""
        if get_origin(getattr(field, "annotation", None)) is tuple:
            return value
        return super().decode_complex_value(field_name, field, value)


def read() -> dict[str, Any]:
    """The values that are set, as they are written: one layer of several. An error shows no value, which may be a
    secret."""
    try:
        return _Source(Variables)()
    except SettingsError as error:
        # Its own text names the field and the class; the value is not in it.
        raise DeclarationError(
            str(error).replace(' from source "_Source"', ""),
            where="environment",
            fix='Write objects as JSON: TWICE_SPARK_CONF=\'{"spark.ui.enabled": "false"}\'.',
        ) from error
