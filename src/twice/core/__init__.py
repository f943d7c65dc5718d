"""Pure: the standard library and `twice.errors` only.

Beside each other here lies what a user declares. A task's code hash names the module of every value that it holds, so
these modules stay where they are (tests/unit/engine/test_hash_stays.py). Everything else has a room, but
for a few small modules that many use: hints, lineage, closed, version.
"""
