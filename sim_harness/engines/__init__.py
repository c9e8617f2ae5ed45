"""Forward contact engines, one file each, behind one small protocol; they share solvers with the laws but no laws."""
