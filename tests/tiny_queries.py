"""Spark for thousands of tiny queries, each other than the last: what it compiles for one is never used again, and
takes a third of the JVM's time. The demos, the soak of kills and the session of `make test-long` have Spark as users
have it."""

from __future__ import annotations

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}

SPARK_TOML = f"""
[spark]
short_jobs = true
conf = {{ {", ".join(f'"{key}" = "{value}"' for key, value in INTERPRETED.items())} }}
"""
"""For the twice.toml of a project whose processes a test starts."""
