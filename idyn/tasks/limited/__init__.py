"""Tasks in ticks in which a limit binds: the motion and forces nearest to them, level by level."""
