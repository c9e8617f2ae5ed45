"""The robot's side: the client, and the failsafe for times without answers."""
