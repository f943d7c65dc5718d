"""Spark sessions, and what they need on this machine: Java, jars, a class archive."""
