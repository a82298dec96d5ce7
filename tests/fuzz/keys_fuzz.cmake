millrace_fuzz(keys_fuzz LIBS millrace_keys)
