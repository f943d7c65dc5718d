"""Work queues and inboxes in a database of the user's."""
