"""The process that proofs run in: what is asked of it, how it is started and asked, how it serves and answers."""
