"""`idyn bridge`: between a server and another interface."""
