#pragma once
// A private PostgreSQL server for the tests of one program: started when it is first asked for,
// ended with the program, however that ends. Thread safety: any thread.
#include <string>

namespace millrace::test {

const std::string& postgres_url();

}  // namespace millrace::test
