"""Values in, report values out: pure functions without files, printing or a clock, bounded by steps."""
