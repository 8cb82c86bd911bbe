"""Everything from outside → values: files, traces and scripts are parsed, and nothing in them is executed."""
