// A target needs a source to have a precompiled header, which millrace_precompile declares.
