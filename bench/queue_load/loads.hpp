#pragma once
// The loads of queue_load. Each returns its figures as one line of JSON. Times are of this
// process's monotonic clock, except where a load says otherwise. Thread safety: one thread a load.
#include <cstdint>
#include <string>

#include "bench/queue_load/link.hpp"

namespace millrace::bench {

struct SubmitLoad {  // stores jobs, and waits for their acknowledgements
  std::uint64_t jobs = 200'000;
  std::uint32_t clients = 1, per_message = 100, in_flight = 20;  // messages of a client
  std::uint32_t prompt_bytes = 1024;
  std::uint32_t per_second = 0;  // messages of all clients together; 0: as many as it can
  std::uint32_t first = 0;       // number of the first client, so that loads can follow each other
};
std::string run(const Place& place, const SubmitLoad& load);

struct WorkLoad {  // an engine that ends each job at once
  std::uint64_t jobs = 100'000;
  std::uint32_t capacity = 1024;  // jobs that it holds at most
  std::uint32_t result_bytes = 1024;
  std::uint32_t per_second = 0;  // ends; 0: as many as it can
};
std::string run(const Place& place, const WorkLoad& load);

struct HandOutLoad {  // an engine that wants one job at a time: from its wish to the job
  std::uint32_t jobs = 2'000;
};
std::string run(const Place& place, const HandOutLoad& load);

struct FollowLoad {  // reads a stream as it grows; latency from a job's end to its arrival here
  std::uint64_t results = 20'000;
  std::string stream = "results";
};
std::string run(const Place& place, const FollowLoad& load);

struct ReplayLoad {  // reads a stream from its beginning
  std::string stream = "results";
  std::string cursor;  // acknowledged after each answer; empty: none
};
std::string run(const Place& place, const ReplayLoad& load);

}  // namespace millrace::bench
