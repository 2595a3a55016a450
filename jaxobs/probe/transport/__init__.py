"""The job's side of the link to its agent: starting it, the pipe, requests and answers, and what a new agent is
sent.
"""
