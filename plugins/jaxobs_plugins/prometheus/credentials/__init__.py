"""Who may ask, and which certificate is shown: the token and TLS files, followed while the job runs."""
