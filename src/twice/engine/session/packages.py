"""Names of Java packages, asked for once.

py4j takes `jvm.org.apache.hadoop.fs.Path` part by part and asks the JVM whether `org` is a class, then `org.apache`,
and so on. Each no is a search through every jar of Spark: some milliseconds for one dotted name.
"""

from __future__ import annotations

from typing import Any

_PACKAGES = (
    "java.io",
    "java.lang.reflect",
    "java.net",
    "java.nio.file.attribute",
    "org.apache.commons.io",
    "org.apache.commons.lang3",
    "org.apache.hadoop.fs",
    "org.apache.spark.sql.catalyst.expressions",
    "org.apache.spark.sql.catalyst.trees",
    "org.apache.spark.sql.delta.util",
    "scala.collection.immutable",
    "scala.jdk.javaapi",
)


def remember_packages(jvm: Any) -> None:
    """Keep the packages we name as attributes of py4j's view of the JVM. A second call does nothing."""
    for dotted in _PACKAGES:
        at = jvm
        for part in dotted.split("."):
            if part not in vars(at):
                setattr(at, part, getattr(at, part))
            at = vars(at)[part]
