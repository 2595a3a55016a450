"""What the main thread was doing: its lines as a table and as metrics, and what they prove of a loop's idle time."""
