millrace_fuzz(ledger_fuzz LIBS millrace_ledger)
