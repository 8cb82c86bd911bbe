"""Runs the user's own script under the Trace key and keeps what it left: variables, operations, allocations."""
