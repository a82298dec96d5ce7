// What engines serve, as models; whether requests would be answered; errors as answers.
#include "http/models.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "http/face.hpp"
#include "http/problem.hpp"

namespace millrace::http {
namespace {

using nlohmann::json;

StatusAnswer status_of(std::initializer_list<const char*> models) {
  StatusAnswer status;
  for (const char* model : models) {
    EngineInfo& engine = status.engines.emplace_back();
    engine.engine.facts.model = model;
    engine.engine.facts.context_tokens = 2048;
  }
  return status;
}

TEST(Models, AreListedOnce) {
  const json list = json::parse(models_answer(status_of({"b", "a", "b"}), 7).body);
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["id"], "a");
  EXPECT_EQ(list["data"][1]["object"], "model");
  EXPECT_EQ(list["data"][1]["created"], 7);
  EXPECT_EQ(list["data"][1]["max_model_len"], 2048);
}

TEST(Models, ThatNoEngineServesAreNotFound) {
  EXPECT_EQ(json::parse(model_answer(status_of({"a/b"}), "a/b", 7).body)["id"], "a/b");
  const Response unknown = model_answer(status_of({"a"}), "b", 7);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(json::parse(unknown.body)["error"]["code"], "unknown_model");
}

TEST(Models, ReadyMeansAnEngine) {
  EXPECT_EQ(ready_answer(status_of({"a"})).status, 200);
  EXPECT_EQ(ready_answer(status_of({})).status, 503);
  StatusAnswer draining = status_of({"a"});
  draining.draining = true;
  EXPECT_EQ(ready_answer(draining).status, 503);
  EXPECT_EQ(ready_answer(millrace::fail(Code::unreachable, "no answer")).status, 503);
}

TEST(Models, ATokenThatMayNotAskIsNoServerThatIsDown) {
  const Response refused = ready_answer(millrace::fail(Code::unauthorized, "no"));
  EXPECT_EQ(refused.status, 403);
  EXPECT_EQ(json::parse(refused.body)["error"]["type"], "permission_error");
}

TEST(Problem, TellsWhenToComeAgain) {
  const Response busy = problem(Error{Code::overloaded, "full", "wait", 1'500});
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers, (Headers{{"Retry-After", "2"}}));
  EXPECT_EQ(json::parse(busy.body)["error"]["message"], "full. Wait");
  EXPECT_EQ(problem({Code::unauthorized, "no token", {}, {}}, 401).headers,
            (Headers{{"WWW-Authenticate", "Bearer"}}));
  EXPECT_TRUE(problem({Code::invalid_value, "bad", {}, {}}).headers.empty());
}

TEST(Face, NeedsKeysBeyondTheMachine) {
  FaceOptions options;
  EXPECT_TRUE(check_face(options));
  options.listen = "0.0.0.0:8080";
  EXPECT_EQ(check_face(options).error().code, Code::unauthorized);
  options.keys = "keys";
  EXPECT_TRUE(check_face(options));
  options.certificate = "c.pem";
  EXPECT_EQ(check_face(options).error().code, Code::usage);
}

TEST(Face, OriginsAreAList) {
  EXPECT_TRUE(split_origins("").empty());
  EXPECT_EQ(split_origins("http://a, https://b/,,"),
            (std::vector<std::string>{"http://a", "https://b"}));
}

}  // namespace
}  // namespace millrace::http
