"""The corpus is data: some of its files are named like tests, none is one."""

collect_ignore_glob = ["train/*", "holdout/*"]
