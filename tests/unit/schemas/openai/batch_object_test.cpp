// Files and batches of OpenAI's API as JSON, and what requests for them may say.
#include "schemas/openai/batch_object.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "schemas/openai/error_body.hpp"
#include "schemas/openai/file_object.hpp"

namespace millrace::openai {
namespace {

using nlohmann::json;

TEST(FileObject, HasTheFieldsOfOpenAisAndComesBack) {
  FileObject file{
      .id = "file-1", .bytes = 12, .created_s = 5, .filename = "a \"b\".jsonl", .purpose = "batch"};
  EXPECT_EQ(json::parse(file_json(file)),
            json::parse(R"({"id": "file-1", "object": "file", "bytes": 12, "created_at": 5,
                            "expires_at": null, "filename": "a \"b\".jsonl", "purpose": "batch",
                            "status": "processed", "status_details": null})"));
  EXPECT_EQ(*read_file_object(file_json(file)), file);
  file.expires_s = 3'605;
  EXPECT_EQ(*read_file_object(file_json(file)), file);
  EXPECT_EQ(read_file_object("{}").error().code, Code::ledger_corrupt);
  EXPECT_EQ(json::parse(deleted_file_json("file-1")),
            json::parse(R"({"id": "file-1", "object": "file", "deleted": true})"));
}

TEST(FileObject, PurposesAndTimesThatAreRefusedNameTheirField) {
  EXPECT_TRUE(check_purpose("batch"));
  EXPECT_EQ(check_purpose("").error().code, Code::missing_field);
  EXPECT_EQ(error_param(check_purpose("fine-tune").error()), "purpose");
  EXPECT_EQ(*check_expiry("expires_after", "created_at", 3'600), 3'600u);
  for (const auto& refused : {check_expiry("expires_after", "now", 3'600),
                              check_expiry("expires_after", "created_at", 3'599),
                              check_expiry("expires_after", "created_at", 2'592'001),
                              check_expiry("expires_after", "created_at", std::nullopt)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(error_param(refused.error()), "expires_after");
  }
}

TEST(BatchObject, HasTheFieldsOfOpenAisAndComesBack) {
  BatchObject batch{.id = "batch_1",
                    .input_file = "file-1",
                    .window = "24h",
                    .created_s = 1,
                    .expires_s = 86'401};
  const json fresh = json::parse(batch_json(batch));
  EXPECT_EQ(fresh, json::parse(R"({
    "id": "batch_1", "object": "batch", "endpoint": "/v1/chat/completions", "errors": null,
    "input_file_id": "file-1", "completion_window": "24h", "status": "validating",
    "output_file_id": null, "error_file_id": null, "created_at": 1, "expires_at": 86401,
    "in_progress_at": null, "finalizing_at": null, "completed_at": null, "failed_at": null,
    "expired_at": null, "cancelling_at": null, "cancelled_at": null,
    "request_counts": {"total": 0, "completed": 0, "failed": 0}, "metadata": null})"));
  EXPECT_EQ(*read_batch(batch_json(batch)), batch);
  batch.endpoint = Endpoint::completion;
  batch.status = BatchStatus::failed;
  batch.failed_s = 2;
  batch.errors = {{.code = "invalid_json_line", .message = "no", .param = {}, .line = 3},
                  {.code = "empty_file", .message = "none", .param = "url"}};
  batch.output_file = "file-2";
  batch.total = 3;
  batch.metadata = {{"a", "b"}};
  EXPECT_EQ(*read_batch(batch_json(batch)), batch);
  const json errors = json::parse(batch_json(batch))["errors"];
  EXPECT_EQ(errors["object"], "list");
  EXPECT_EQ(errors["data"][0], json::parse(R"({"code": "invalid_json_line", "message": "no",
                                               "param": null, "line": 3})"));
  EXPECT_EQ(read_batch(R"({"id": 1})").error().code, Code::ledger_corrupt);
}

TEST(BatchObject, StatusesHaveNamesAndEnds) {
  EXPECT_EQ(status_name(BatchStatus::validating), "validating");
  EXPECT_EQ(status_name(BatchStatus::cancelled), "cancelled");
  for (const auto over : {BatchStatus::failed, BatchStatus::completed, BatchStatus::expired,
                          BatchStatus::cancelled}) {
    EXPECT_TRUE(is_over(over));
  }
  for (const auto open : {BatchStatus::validating, BatchStatus::in_progress,
                          BatchStatus::finalizing, BatchStatus::cancelling}) {
    EXPECT_FALSE(is_over(open));
  }
}

std::string request(const json& changes) {
  json body = {{"input_file_id", "file-1"},
               {"endpoint", "/v1/chat/completions"},
               {"completion_window", "24h"}};
  body.merge_patch(changes);
  return body.dump();
}

TEST(BatchRequest, IsRead) {
  const auto whole = parse_batch_request(
      request({{"endpoint", "/v1/completions"},
               {"metadata", {{"name", "evening"}}},
               {"output_expires_after", {{"anchor", "created_at"}, {"seconds", 3'600}}}}));
  ASSERT_TRUE(whole) << whole.error().text();
  EXPECT_EQ(whole->input_file, "file-1");
  EXPECT_EQ(whole->endpoint, Endpoint::completion);
  EXPECT_EQ(whole->window_s, 86'400u);
  EXPECT_EQ(whole->metadata.at("name"), "evening");
  EXPECT_EQ(whole->output_expires_s, 3'600u);
  EXPECT_EQ(parse_batch_request(request({{"completion_window", "90m"}}))->window_s, 5'400u);
  EXPECT_EQ(parse_batch_request(request({{"completion_window", "30d"}}))->window_s, 2'592'000u);
  const std::string with_null =
      R"({"input_file_id": "f", "endpoint": "/v1/completions", "completion_window": "24h",
          "metadata": null, "output_expires_after": null})";
  EXPECT_FALSE(parse_batch_request(with_null)->output_expires_s);
}

TEST(BatchRequest, WhatIsWrongNamesItsField) {
  json many;
  for (int i = 0; i < 17; ++i) many[std::to_string(i)] = "x";
  const std::vector<std::pair<json, std::string>> bad = {
      {{{"input_file_id", nullptr}}, "input_file_id"},
      {{{"input_file_id", 3}}, "input_file_id"},
      {{{"endpoint", nullptr}}, "endpoint"},
      {{{"endpoint", "/v1/embeddings"}}, "endpoint"},
      {{{"completion_window", nullptr}}, "completion_window"},
      {{{"completion_window", "soon"}}, "completion_window"},
      {{{"completion_window", "0h"}}, "completion_window"},
      {{{"completion_window", "31d"}}, "completion_window"},
      {{{"completion_window", "99999999999999999999d"}}, "completion_window"},
      {{{"metadata", "x"}}, "metadata"},
      {{{"metadata", {{"a", 1}}}}, "metadata"},
      {{{"metadata", {{std::string(65, 'a'), "x"}}}}, "metadata"},
      {{{"metadata", {{"a", std::string(513, 'a')}}}}, "metadata"},
      {{{"metadata", many}}, "metadata"},
      {{{"output_expires_after", 3'600}}, "output_expires_after"},
      {{{"output_expires_after", {{"seconds", 3'600}}}}, "output_expires_after"},
      {{{"output_expires_after", {{"anchor", "created_at"}}}}, "output_expires_after"}};
  for (const auto& [changes, param] : bad) {
    const auto refused = parse_batch_request(request(changes));
    ASSERT_FALSE(refused) << changes;
    EXPECT_EQ(error_param(refused.error()), param) << refused.error().text();
  }
  EXPECT_EQ(parse_batch_request("{").error().code, Code::invalid_json);
  EXPECT_EQ(parse_batch_request("[]").error().code, Code::invalid_json);
}

}  // namespace
}  // namespace millrace::openai
