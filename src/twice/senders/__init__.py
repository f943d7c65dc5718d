"""One file per receiver: how an effect becomes bytes, and what the receiver's answer means."""
