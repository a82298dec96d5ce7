#pragma once
// What engines serve, as OpenAI's models, and whether requests would be answered now.
// Thread safety: pure functions.
#include <cstdint>
#include <string>
#include <string_view>

#include "http/request.hpp"
#include "schemas/base/error.hpp"
#include "schemas/messages.hpp"

namespace millrace::http {

// {"object": "list", "data": [...]}: each model once, however many engines serve it.
Response models_answer(const StatusAnswer& status, std::int64_t created_s);
// One of them; 404 where no engine serves it.
Response model_answer(const StatusAnswer& status, std::string_view id, std::int64_t created_s);
// 200 with the number of engines, or 503 where there is none or the broker drains.
Response ready_answer(const Result<StatusAnswer>& status);

}  // namespace millrace::http
