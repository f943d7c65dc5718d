"""Rows on this side: plain ones and Spark's, in and out by Arrow."""
