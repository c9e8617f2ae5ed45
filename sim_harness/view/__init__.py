"""Something to look at: runs in three dimensions, as a page of their own or live."""
