#pragma once
// The codes of all errors of the product, in one table: the command line, HTTP and Python tell the
// same of each. schemas/tools/generate.py and client/python/tools/generate.py read this file.
//
// X(name, HTTP status, what is wrong in one line, what to do where the error itself does not say)

#define MILLRACE_ERROR_CODES(X)                                                                    \
  /* what a producer sent */                                                                       \
  X(invalid_json, 400, "the line is not valid JSON",                                               \
    "correct the text; each line, and each request, is one JSON object")                           \
  X(invalid_value, 400, "a field has a wrong type or a value out of range",                        \
    "correct the field; schemas/docs/messages.md has the types and ranges")                        \
  X(missing_field, 400, "a required field is absent", "add the field")                             \
  X(unsupported_field, 400, "a known field that this version does not support",                    \
    "leave the field out, or give it the value that changes nothing")                              \
  X(unknown_field, 400, "an unknown field, refused because the job is strict",                     \
    "correct the field's name, or leave out strict")                                               \
  X(unknown_task, 400, "this version does not run the job's task",                                 \
    "use the task generate or score")                                                              \
  X(unknown_model, 404, "no engine serves this model",                                             \
    "name a model that an engine of this broker serves, or leave model out")                       \
  X(empty_prompt, 400, "the prompt has no tokens", "give the prompt at least one token")           \
  X(invalid_token, 400, "a token id is outside the vocabulary",                                    \
    "use ids below the size of the model's vocabulary")                                            \
  X(context_exceeded, 400, "prompt and output do not fit the model's context",                     \
    "shorten the prompt, or ask for fewer max_tokens")                                             \
  X(kv_exceeded, 400, "the sequence cannot fit the KV memory",                                     \
    "shorten the prompt, ask for fewer max_tokens, or start the engine with more --kv-memory")     \
  X(no_chat_template, 400, "the model has no chat template",                                       \
    "send a prompt in place of messages, or use a model for chats")                                \
  X(template_error, 400, "the chat template refused or failed",                                    \
    "change the messages to what the model's chat template takes")                                 \
  X(template_unsupported, 400, "the chat template uses something outside our Jinja subset",        \
    "send a prompt that is rendered already in place of messages")                                 \
  X(limit_exceeded, 400, "a documented limit is exceeded",                                         \
    "send less at once; schemas/docs/messages.md has the limits")                                  \
  X(too_large, 413, "a frame, line or body is larger than its limit",                              \
    "make it smaller: a job has at most 8 MiB")                                                    \
  X(conflict, 409, "the id is already known with another body",                                    \
    "give the job another id, or leave the id out")                                                \
  X(batch_closed, 409, "the batch is closed and takes no new jobs", "submit to another batch")     \
  X(deadline_passed, 400, "the deadline is in the past", "set deadline_us later, or leave it out") \
  /* how a job ended */                                                                            \
  X(cancelled, 499, "the job was cancelled",                                                       \
    "submit the job under another id if it is wanted after all")                                   \
  X(expired, 408, "the deadline passed before the job ended",                                      \
    "give the job more time with deadline_us, or start more engines")                              \
  X(engine_died, 500, "the engine died while it ran this job, as often as allowed",                \
    "read the engine's log, then retry the job")                                                   \
  X(engine_failed, 500, "the engine could not run the job",                                        \
    "read the engine's log, then retry the job")                                                   \
  X(fingerprint_mismatch, 409, "the engine's numeric fingerprint is not the required one",         \
    "start an engine with the settings of that fingerprint, or leave require_fingerprint out")     \
  /* messages */                                                                                   \
  X(malformed_frame, 400, "the bytes are not one valid msgpack message",                           \
    "update the client and the broker to versions that fit; else report it")                       \
  X(invalid_utf8, 400, "a string is not valid UTF-8",                                              \
    "write text as UTF-8, and bytes only where a field takes them")                                \
  X(unknown_kind, 400, "no such message kind",                                                     \
    "update the broker: it does not know this question")                                           \
  X(unsupported_version, 400, "the protocol version is not supported",                             \
    "update the client or the broker, whichever is older")                                         \
  X(unexpected_message, 400, "the message does not fit the session's state or role",               \
    "connect to the broker's endpoint for clients, and say hello first")                           \
  X(stale, 409, "the lease is no longer the current one", "do nothing: the job runs elsewhere")    \
  X(not_found, 404, "no such job, batch, stream or lease",                                         \
    "check the name; ended jobs are forgotten after a while")                                      \
  X(trimmed, 410, "the requested numbers are no longer kept",                                      \
    "go on from the first number that is kept")                                                    \
  X(epoch_changed, 409, "the stream belongs to another ledger",                                    \
    "the broker has another ledger now: begin anew, without the old position")                     \
  X(unauthorized, 403, "the session may not do this",                                              \
    "use a key or a token that is allowed to do this")                                             \
  X(overloaded, 429, "a queue is full; wait and send again",                                       \
    "wait a little and send the same again")                                                       \
  X(draining, 503, "the process is shutting down and takes no new work",                           \
    "wait until the broker has started again")                                                     \
  /* files, ledger, network */                                                                     \
  X(io_error, 500, "a file or socket operation failed",                                            \
    "check the path, its permissions and the disk")                                                \
  X(disk_full, 507, "no space left for new jobs", "make room on the disk of the ledger")           \
  X(ledger_in_use, 409, "another broker holds this ledger",                                        \
    "stop the other broker, or use another ledger")                                                \
  X(ledger_unavailable, 503, "the ledger does not answer for the moment",                          \
    "wait a little and ask again")                                                                 \
  X(ledger_newer, 409, "the ledger was written by a newer version",                                \
    "use a broker of the version that wrote the ledger, or a later one")                           \
  X(ledger_older, 409, "the ledger was written by an earlier version",                             \
    "let the broker of this version open the ledger first")                                        \
  X(ledger_corrupt, 500, "the ledger is damaged",                                                  \
    "restore the ledger from a backup (millrace restore)")                                         \
  X(ledger_settings, 500, "the ledger's durability settings are not the required ones",            \
    "use a disk that syncs as the ledger needs it")                                                \
  X(output_in_use, 409, "another run writes this output",                                          \
    "end the other program that writes this file, or name another file")                           \
  X(input_changed, 409, "the input is not the one that this run began with",                       \
    "use the input that the run began with, or start over")                                        \
  X(settings_changed, 409, "the settings are not the ones that this run began with",               \
    "use the settings that the run began with, or start over")                                     \
  X(unreachable, 503, "the broker cannot be reached",                                              \
    "start the broker (millrace-broker), or name its endpoint")                                    \
  X(timed_out, 504, "no answer within the time allowed",                                           \
    "look at the broker's log, or allow more time")                                                \
  /* model files */                                                                                \
  X(gguf_unreadable, 400, "the model file cannot be opened or read",                               \
    "check the path and the permissions of the model file")                                        \
  X(gguf_malformed, 400, "the model file is damaged or hostile", "download the model file again")  \
  X(gguf_version, 400, "the GGUF version is not supported", "use a GGUF file of version 2 or 3")   \
  X(folder_unreadable, 400, "the model folder lacks a file, or it cannot be read",                 \
    "complete the model's folder: config, tokenizer and weights")                                  \
  X(folder_malformed, 400, "a file of the model folder is damaged or contradicts another",         \
    "download the model's folder again")                                                           \
  X(unsupported_quantization, 400, "the model folder's quantization is not supported",             \
    "use the model in another quantization")                                                       \
  X(unsupported_architecture, 400, "the model's architecture is not supported",                    \
    "use a model of an architecture that README.md lists")                                         \
  X(unsupported_tensor_type, 400, "a tensor's type is not supported",                              \
    "use the model in another type (millrace convert)")                                            \
  X(unsupported_tokenizer, 400, "the tokenizer model or pre-tokenizer is not supported",           \
    "use a model with another tokenizer")                                                          \
  /* device */                                                                                     \
  X(no_device, 500, "no OpenCL device",                                                            \
    "install an OpenCL driver; for a CPU, PoCL (millrace doctor helps)")                           \
  X(device_error, 500, "an OpenCL call failed",                                                    \
    "look at the engine's log and the driver (millrace doctor helps)")                             \
  X(kernel_build, 500, "a kernel did not compile",                                                 \
    "look at the engine's log; update the OpenCL driver")                                          \
  X(out_of_memory, 500, "the device or host has not enough memory",                                \
    "use less --kv-memory, a smaller --max-batch or a smaller model")                              \
  /* the rest */                                                                                   \
  X(usage, 400, "the command line is wrong", "correct the argument")                               \
  X(interrupted, 499, "stopped by a signal", "start it again: it goes on where it was")            \
  X(internal, 500, "a defect in Millrace: please report it", "please report it, with this message")
