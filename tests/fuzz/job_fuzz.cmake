millrace_fuzz(job_fuzz LIBS millrace_schemas SEEDS schemas/vectors)
