"""Items of a work queue and messages of an inbox: each handled once."""
