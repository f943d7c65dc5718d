"""Work queues and inboxes in a database of the user's: each item or message is handled once."""
