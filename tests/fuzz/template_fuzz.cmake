millrace_fuzz(template_fuzz LIBS millrace_template SEEDS tests/unit/template/templates)
