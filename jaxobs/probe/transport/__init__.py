"""Between the job and its agent: the process that is started, the pipe, requests and answers, and what is sent again."""
