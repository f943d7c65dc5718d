"""A table filled again beside itself, then exchanged in one commit: how its columns and its layout are changed."""
