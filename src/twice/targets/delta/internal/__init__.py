"""Writes by the internal path: files staged in the table's folder, published by one commit of our own."""
