millrace_fuzz(envelope_fuzz LIBS millrace_schemas SEEDS schemas/vectors)
