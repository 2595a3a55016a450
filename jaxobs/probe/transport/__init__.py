"""The job's side of the link to its agent: starting it, the pipe, requests, answers, and what a new one is sent."""
