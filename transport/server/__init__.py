"""What answers: sockets, sessions, a controller behind them."""
