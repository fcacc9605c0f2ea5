"""Small programs that run as the ranks of a job where no real training is needed."""
