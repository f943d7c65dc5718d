"""Finds, by reading source, what goes wrong when a pipeline runs a second time.

The shape, from file to report::

    frontends/   text of one file  ->  FileFacts      python.py, sql.py, dbt.py, notebook.py
    project.py   many FileFacts    ->  ProjectFacts   links names, SQL files and schedules across files
    guards.py    marks the writes that something else in the code makes safe
    rules/       FileFacts + ProjectFacts -> Finding   one class per file, over facts and never over syntax
    report/      LintResult -> text, json, sarif, github

A front-end is a function ``read(path, text, context) -> FileFacts``. It never raises for bad input: what it
cannot read it reports in ``FileFacts.notices``. The front-ends of dbt and of notebooks translate their file
to plain SQL or Python, call the other front-end, and put the positions back with ``FileFacts.moved``.

Nothing here imports or runs the code it reads, and nothing needs Spark or Java.
"""
