"""The command line: parse, call one function, render. Heavy rooms are imported inside the commands."""
